#!/bin/sh
# check-names on trees that the test makes: a clean one passes. It finds each name that is defined
# twice, each word that was replaced by another, and each call that only other files may use.
set -eu
check=$(cd "$(dirname "$0")/../../tools" && pwd)/check-names
work=$(mktemp -d "$PWD/names.XXXXXX")
trap 'rm -rf "$work"' EXIT

# tree: names of files, of values, plain words; comments and includes say what they like.
tree() {
    rm -rf "$work/t"
    mkdir -p "$work/t/include/etude" "$work/t/src/train/run" "$work/t/src/train/step"
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
        echo '/* The place and the way are words here, "et_rooms" too. */ int replace(int in_place, int feed_forward);'
        echo 'int agrees(void) { return et_run_agree(0) + et_comm_agree(1); }'
        echo 'const char *words = "place, et_rooms"; // told'
    } >src/train/run/run.c
}

# refused LINE RULE [FILE]: the clean tree with LINE in another file is refused with RULE's words.
refused() {
    tree
    echo "$1" >"${3-src/train/more.c}"
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
refused 'int et_rooms_open(void);' 'et_rooms_open: not "rooms" but arena_layout'
refused 'int a = 1; /* a */ struct keeper *b; /* c */' 'keeper: not "keeper" but param_server'
refused '#define PLACES_MAX "a" /* b */' 'PLACES_MAX: not "places" but'
refused 'et_csv_data_set_open("a", /* b */ c);' 'et_csv_data_set_open: not "data_set" but table_set'
refused 'a->et_feed = b.way_of_c; // d' 'way_of_c: not "way" but'
refused 'a->et_feed = b.way_of_c; // d' 'et_feed: not "feed" but'
refused 'static int watch(et_comm_piece a);' 'watch: not "watch" but trace,'
refused 'static int watch(et_comm_piece a);' 'et_comm_piece: not "comm_piece" but chunk'
refused 'status = et_comm_agree(comm, status);' 'et_comm_agree: use et_together_run'
refused 'status = et_run_agree(run, status);' 'et_run_agree: use et_together_run' src/train/step/more.c
refused 'status = et_comm_agree(run, status);' 'et_comm_agree: use et_together_run' src/train/run/loop.c
refused '#include "train/a.h"' 'lookout.c: not "lookout" but checkpoint_wait' src/train/lookout.c
echo "check-names finds what it should"
