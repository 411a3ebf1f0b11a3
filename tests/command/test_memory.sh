#!/bin/sh
# test_memory.sh ETUDE [FROM STEP TO]: training, translating and scoring under `ulimit -v`, with
# limits from too little to enough (KiB). Each ends with success, or with exit code 4 and a line
# that says so; never by a signal or in a library. Limits start at the size at which libraries can
# be loaded.
set -eu
etude=$(readlink -f "$1")
from=${2:-} step=${3:-17000} to=${4:-470000}
unset OMP_STACKSIZE
ulimit -S -s 8192
OMP_NUM_THREADS=2
export OMP_NUM_THREADS
work=$(mktemp -d "$PWD/memory.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

awk 'BEGIN {
    split("red blue dog cat house tree runs sees", s); split("rot blau hund katze haus baum rennt sieht", t)
    for (i = 0; i < 400; i++) {
        a = b = ""
        for (k = 0; k < 3 + i % 9; k++) {
            w = (i * 5 + k * 3 + int(i / 8)) % 8 + 1
            a = a " " s[w] i % 23; b = b " " t[w] i % 29
        }
        print substr(a, 2) >"a.en"; print substr(b, 2) >"a.de"
    }
}'
head -5 a.en >five.en
head -5 a.de >five.de
train="train --experiment translation/tiny --set task.train_data.source_path=a.en
    --set task.train_data.target_path=a.de --set task.train_data.global_batch_size=512
    --set trainer.train_steps=2 --set task.vocabulary.size=60"

# under LIMIT WORD...: runs the command; *ended* is its exit code.
under() {
    limit=$1
    shift
    ended=0
    (
        # shellcheck disable=SC3045 # dash and bash have it
        ulimit -v "$limit"
        exec "$etude" "$@" <five.en >out 2>err
    ) || ended=$?
}

# Where the loader is content: below it nothing of the command has run.
if [ -z "$from" ]; then
    from=30000
    until under "$from" --version && [ "$ended" = 0 ]; do
        from=$((from + 1000))
        [ "$from" -lt 200000 ] || {
            echo "SKIPPED: memory: not even --version runs under ulimit -v $from"
            exit 77
        }
    done
fi

$etude $train --model-dir whole >out 2>err || {
    cat err
    exit 1
}

# expect NAME: what under left. Counts both ends.
expect() {
    case $ended in
    0) passed=$((passed + 1)) ;;
    4)
        refused=$((refused + 1))
        grep -Eq 'out of memory|Cannot allocate memory|cannot start a thread' err || {
            echo "test_memory: $1: exit code 4 under $limit KiB without a reason:"
            cat err
            exit 1
        }
        ;;
    *)
        echo "test_memory: $1 ends with $ended under $limit KiB:"
        tail -3 err
        exit 1
        ;;
    esac
}

# sweep NAME TO WORD...: each limit from $from to TO; both ends must come up. The word DIR stands
# for a directory that is new each time.
sweep() {
    name=$1 most=$2 passed=0 refused=0
    shift 2
    at=$from
    while [ "$at" -le "$most" ]; do
        rm -rf run
        under "$at" "$@"
        expect "$name"
        at=$((at + step))
    done
    echo "$name: $refused times too little memory, $passed times enough"
    [ "$passed" -gt 0 ] && [ "$refused" -gt 0 ]
}

# shellcheck disable=SC2086 # words
{
    sweep "training a vocabulary" "$to" $train --model-dir run
    sweep "a given vocabulary" 240000 $train --model-dir run \
        --set task.sentencepiece_model_path=whole/vocabulary.model
}
sweep translate 240000 translate --model-dir whole --max-length 5
# Where threads are about to be started: their stacks are the largest pieces by then.
wide=$step
step=2000
sweep "translate by threads" $((from + 60000)) translate --model-dir whole --max-length 5
awk 'BEGIN { print "size,colour"; for (i = 0; i < 200000; i++) print i % 17 "," (i % 5 ? "red" : "blue") }' >big.csv
step=3000
sweep "analyze by threads" $((from + 75000)) data analyze big.csv --dry-run
step=$wide
sweep evaluate 240000 evaluate --model-dir whole --source five.en --reference five.de
