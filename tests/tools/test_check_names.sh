#!/bin/sh
# check-names on trees made here: a clean one passes; each name that is said twice is found.
set -eu
check=$(cd "$(dirname "$0")/../../tools" && pwd)/check-names
work=$(mktemp -d "$PWD/names.XXXXXX")
trap 'rm -rf "$work"' EXIT

# tree: names of files, of values, plain words; comments and includes say what they like.
tree() {
    rm -rf "$work/t"
    mkdir -p "$work/t/include/etude" "$work/t/src/train/run"
    cd "$work/t"
    echo '/* "metrics.jsonl" */' >include/etude/run.h
    {
        echo '#define ET_RUN_LOG  "metrics.jsonl" /* a line for each log */'
        echo '#define ET_RUN_BEST "best"'
        echo '#define ET_OF_TRAINING "training_"'
        echo '#define ET_TRAINING_LOSS ET_OF_TRAINING "loss"'
        echo '#define ET_COUNT 3 /* "training_" */'
    } >src/train/names.h
    {
        echo '#include "metrics.jsonl"'
        echo '/* "metrics.jsonl", and'
        echo ' * "training_loss" */ const char *best = "best"; // "training_"'
        echo 'const char *said = "lines of metrics.jsonl", *other = "other.json", *more = "training_more";'
        echo "char q = '\\\\';"
    } >src/train/run/run.c
}

# refused LINE RULE: the clean tree with LINE in another file is refused with RULE's words.
refused() {
    tree
    echo "$1" >src/train/more.c
    if "$check" "$work/t" >"$work/said" 2>&1; then
        echo "accepted: $1" >&2
        exit 1
    fi
    grep -q "src/train/[a-z/]*.c:[0-9]*: .*$2" "$work/said" || {
        echo "$1: wanted \"$2\", got:" >&2
        cat "$work/said" >&2
        exit 1
    }
}

tree
"$check" "$work/t"
refused 'path = join(directory, "metrics.jsonl");' '"metrics.jsonl" is said by ET_RUN_LOG (src/train/names.h)'
refused 'puts("%s/metrics.jsonl");' '"metrics.jsonl" is said by ET_RUN_LOG'
refused '/* a */ puts(/* b */ "\"", "training_");' '"training_" is said by ET_OF_TRAINING'
refused 'puts("training_loss");' '"training_loss" is said by ET_TRAINING_LOSS'
refused '#define OTHER "other.json"' '"other.json" is said by src/train/.*give it a name in a header'
echo "check-names finds what it should"
