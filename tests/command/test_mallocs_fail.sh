#!/bin/sh
# test_mallocs_fail.sh ETUDE PRELOADED: one malloc of a command fails, in libraries too: each of the
# first calls in turn, then every so many. The command ends with exit code 4, or with exactly the
# output that it has with memory; never with a part of it. PRELOADED is malloc_fails_once as a
# shared library.
set -eu
etude=$1
preloaded=$2
directory=$(mktemp -d "$PWD/mallocsfail.XXXXXX")
trap 'rm -rf "$directory"' EXIT
cd "$directory"
OMP_NUM_THREADS=1
export OMP_NUM_THREADS

awk 'BEGIN { print "a,b,c,y"; for (i = 0; i < 120; i++)
    printf "%d,%.2f,%s,%s\n", i % 7, i / 9, i % 3 ? "left" : "right", i % 2 ? "yes" : "no" }' >t.csv
"$etude" train run --experiment tabular/mlp_small --data t.csv --target y \
    --set trainer.train_steps=6,trainer.checkpoint_interval=2,trainer.validation_interval=2 \
    >messages 2>&1 || {
    cat messages
    exit 1
}
cp -r run other

# each STEP WORD...: the command, which may make the file `made`, with the first 30 mallocs and then
# every STEP-th failing
each() {
    step=$1
    shift
    rm -f made
    "$etude" "$@" >whole 2>/dev/null
    [ ! -f made ] || mv made whole_made
    n=1 refused=0
    while :; do
        rm -f report made
        ended=0
        MALLOC_FAILS=$n MALLOC_REPORT=report LD_PRELOAD=$preloaded "$etude" "$@" >out 2>err ||
            ended=$?
        [ ! -f made ] || cmp made whole_made || exit 1
        if [ "$ended" = 4 ]; then
            refused=$((refused + 1))
        elif [ "$ended" != 0 ] || ! cmp -s whole out; then
            echo "test_mallocs_fail: etude $*: without malloc $n exit code $ended:"
            diff whole out || :
            cat err
            exit 1
        fi
        [ "$ended" = 4 ] || [ -f report ] || break
        n=$((n < 30 ? n + 1 : n + step))
    done
    echo "etude $*: $refused refused of the mallocs up to $n"
    [ "$refused" -gt 10 ] || exit 1
}

# begin N STEPS STEP: a run of some steps, something due after each STEP, without malloc N. False where
# it has fewer.
begin() {
    rm -rf new report
    ended=0
    MALLOC_FAILS=$1 MALLOC_REPORT=report LD_PRELOAD=$preloaded "$etude" train new/run \
        --experiment tabular/mlp_small --data t.csv --target y --set trainer.train_steps="$2" \
        --set trainer.checkpoint_interval="$3",trainer.validation_interval="$3" \
        --set trainer.summary_interval="$3" >out 2>err || ended=$?
    [ "$ended" != 0 ] || [ -f report ]
}

# The checkpoints of new/.
found() {
    find . -path './new/*' \( -name 'ckpt-?.safetensors' -o -name 'best-?.safetensors' \)
}

# What fails by the first log leaves nothing in a new directory, also where it ends in a library's
# thread. What ends by SIGSEGV is oneDNN's.
starts() {
    n=200 refused=0 begun=0
    while begin $n 1 1; do
        if [ "$ended" = 4 ] || [ "$ended" = 1 ]; then
            refused=$((refused + 1))
            saved=$(found)
            [ ! -d new ] || [ -n "$saved" ] || {
                echo "test_mallocs_fail: a start without malloc $n left:"
                find new
                cat err
                exit 1
            }
            ! grep -q 'nothing was saved yet, so Etude removes new/run' err || begun=$((begun + 1))
        fi
        n=$((n + 17))
    done
    echo "train: $refused starts refused of the mallocs up to $n, $begun with a step"
    [ $refused -gt 10 ]
    [ $begun -gt 0 ]
}

# A run that has saved something, or logged and gone on, stays whole.
runs() {
    n=1400 kept=0
    while begin $n 8 2; do
        lines=0
        [ ! -f new/run/metrics.jsonl ] || lines=$(wc -l <new/run/metrics.jsonl)
        saved=$(found)
        if [ "$ended" = 4 ] && { [ -n "$saved" ] || [ "$lines" -gt 2 ]; }; then
            [ -f new/run/params.yaml ] && [ -f new/run/train.log ] && [ -f new/run/schema.yaml ] || {
                echo "test_mallocs_fail: a run without malloc $n is not whole:"
                find new
                exit 1
            }
            kept=$((kept + 1))
        fi
        n=$((n + 3))
    done
    echo "train: $kept runs kept"
    [ $kept -gt 5 ]
}

starts
runs
each 13 data analyze t.csv
each 397 inspect run
each 113 runs run
each 113 runs . --json
each 5 init made
each 293 compare run other
each 127 plot run
each 47 list --experiment tabular/mlp_small
