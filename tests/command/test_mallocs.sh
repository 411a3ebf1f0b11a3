#!/bin/sh
# test_mallocs.sh ETUDE COUNTER: a step of `etude train` calls no malloc: a long run calls it as
# often as a short one. COUNTER is malloc_report as a shared library. It counts the calls of the
# whole process, including libraries. A few calls are allowed: a thread that gets its first product
# late fills its shelf then (small_new.cpp).
set -eu
etude=$1
counter=$2
directory=$(mktemp -d "$PWD/mallocs.XXXXXX")
trap 'rm -rf "$directory"' EXIT
cd "$directory"

awk 'BEGIN { for (i = 0; i < 300; i++) { line = ""; for (k = 0; k <= i % 7; k++)
    line = line sprintf("%c%c ", 97 + (i * 7 + k * 3) % 26, 97 + (i + k * 5) % 26)
    print line } }' > text

# train STEPS [ENVIRONMENT]: begins the run, or goes on with it
train() {
    steps=$1
    shift
    env "$@" "$etude" train --experiment translation/tiny --model-dir run \
        --set trainer.train_steps="$steps" \
        --set '{task: {model: {embedding_width: 32}, vocabulary: {size: 60}}}' \
        --set '{task: {model: {encoder: {num_layers: 1}, decoder: {num_layers: 1}}}}' \
        --set '{task: {train_data: {source_path: text, target_path: text}}}' \
        --set '{task: {train_data: {global_batch_size: 256, shuffle_pool: 64}}}' \
        --set '{trainer: {summary_interval: 0, checkpoint_interval: 0}}' 2> messages || {
        cat messages
        exit 1
    }
}

# mallocs STEPS: of a process that goes on from step 1
mallocs() {
    rm -rf run
    cp -r begun run
    train "$1" MALLOC_REPORT=count LD_PRELOAD="$counter"
    cat count
}

# What makes vocabulary and cache is not counted: its threads do not always ask alike.
train 1 A=B
mv run begun
for threads in 1 2; do
    export OMP_NUM_THREADS=$threads
    short=$(mallocs 21)
    long=$(mallocs 421)
    echo "$threads threads: $short mallocs with 20 steps, $long with 420"
    [ "$short" -gt 1000 ] || {
        echo "test_mallocs: mallocs are not seen"
        exit 1
    }
    # Without AVX-512 oneDNN's float32 products ask malloc each time they run: so often a step.
    most=100
    grep -q avx512 /proc/cpuinfo || most=$((400 * 100))
    [ $((long - short)) -lt $most ] || {
        echo "test_mallocs: 400 steps more asked malloc $((long - short)) times more"
        exit 1
    }
done
