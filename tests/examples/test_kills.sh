#!/bin/sh
# test_kills.sh EXAMPLES: each example is killed at random moments and started again until it ends.
# Its result is, byte for byte, that of an unbroken run. KILLS_SEED repeats the moments of an
# earlier test.
set -eu
examples=$1
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d "$PWD/kills.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
seed=${KILLS_SEED:-$(date +%s)}
export OMP_NUM_THREADS=1

now() { date +%s%N | sed 's/......$//'; } # milliseconds

# moment MOST: a number of seconds up to MOST milliseconds, never none, which timeout would take for
# no limit; draws counts them.
draws=0
moment() {
    draws=$((draws + 1))
    awk -v seed="$seed" -v draw="$draws" -v most="$1" \
        'BEGIN { srand(seed * 1000 + draw); printf "%.3f\n", 0.001 + rand() * most / 1000 }'
}

# newest RUN: all arrays of the newest checkpoint; what stands before them, as long as its first 8
# bytes say, holds where the logs end.
newest() {
    step=$(ls "$1"/checkpoints | sed -n 's/^ckpt-\([0-9]*\)[.]safetensors$/\1/p' | sort -n | tail -n 1)
    echo "$step"
    file=$1/checkpoints/ckpt-$step.safetensors
    head=$(od -An -t u8 -N 8 "$file")
    tail -c +$((head + 9)) "$file" >arrays
    [ -s arrays ]
    cksum <arrays
}

# kills PROGRAM ARGUMENT...: RUN among the arguments is where the run goes
kills() {
    program=$1
    shift
    whole=$(echo "$*" | sed "s/RUN/$program-whole/") parts=$(echo "$*" | sed "s/RUN/$program-parts/")
    begun=$(now)
    # shellcheck disable=SC2086 # words
    "$examples/$program" $whole >log 2>&1 || {
        cat log >&2
        exit 1
    }
    took=$(($(now) - begun)) landed=0 left=4
    [ "$took" -gt 0 ] || took=1000 # the clock was set
    for try in 1 2 3 4 5 6 7 8 9; do
        status=0
        # shellcheck disable=SC2086 # words
        if [ "$left" -gt 0 ]; then
            timeout --foreground --preserve-status -s KILL "$(moment "$took")" \
                "$examples/$program" $parts >log 2>&1 || status=$?
        else
            "$examples/$program" $parts >log 2>&1 || status=$?
        fi
        left=$((left - 1))
        [ "$status" != 0 ] || break
        landed=$((landed + 1))
        [ "$status" = 137 ] || {
            echo "test_kills: seed $seed: $program $parts: exit $status" >&2
            cat log >&2
            exit 1
        }
    done
    newest "$program-whole" >is
    newest "$program-parts" >was
    cmp is was || {
        echo "test_kills: seed $seed: $program ends elsewhere after $landed kills" >&2
        exit 1
    }
    echo "kills: $program: $landed kills"
}

cat "$source/ARCHITECTURE.md" "$source/doc/STYLE.md" >text
kills classifier RUN 60
kills gan RUN 900
kills gan_orbit RUN 900
kills charlm_orbit RUN text 12
kills mnist_loop RUN - 2
# These take MNIST and minutes: KILLS_LONG=1, as `make quality` says it.
data=${ETUDE_MNIST:-$source/../shared/data/mnist}
if [ -n "${KILLS_LONG:-}" ] && [ -f "$data/t10k-images-idx3-ubyte.gz" ]; then
    kills mnist_cnn RUN "$data" 2
    kills vae_loop RUN "$data" 3 1
else
    echo "kills: mnist_cnn and vae_loop are not killed here (KILLS_LONG, MNIST in $data)"
fi
