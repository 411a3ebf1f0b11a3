#!/bin/sh
# test_roles_split.sh ETUDE: parameters that are split over servers: with 1 to 5 servers one worker
# learns, slots included, the same bytes as one process; a run resumes with another number of
# servers. The weights of the first layer are 4 rows of 65,536, the smallest that are split: whole
# with 5 servers, a row each with 4, unevenly with 3. Those of the second are 65,536 rows of 4.
set -eu
etude=$1
name=test_roles_split
work=$(mktemp -d "$PWD/roles_split.XXXXXX")
cd "$work"
. "$(dirname "$0")/roles.sh"
trap 'kill_ours; rm -rf "$work"' EXIT
needs_forks
awk 'BEGIN {
    print "a,b,c,d,kind"
    for (i = 0; i < 300; i++) {
        a = (i * 37 % 100) / 50; b = (i * 53 % 100) / 50
        kind = a > 1 ? "rose" : (b > 1 ? "lily" : "iris")
        printf("%.2f,%.2f,%.2f,%.2f,%s\n", a, b, (i * 29 % 100) / 50, (i * 31 % 100) / 50, kind)
    }
}' >four.csv

# train RUN STEPS WORDS...
train() {
    run=$work/$1 steps=$2
    shift 2
    "$etude" train --experiment tabular/feed_forward --data four.csv --target kind --model-dir "$run" \
        --steps "$steps" --threads 1 -q --set 'task.model.feed_forward.hidden_layers=[65536,4]' \
        --set trainer.optimizer_config.optimizer.type=adam --set trainer.checkpoint_interval=1000 "$@" >log 2>&1 ||
        fail "$run, $steps steps: exit code $?"
}

file() { echo "$1/checkpoints/ckpt-$2.safetensors"; }

# equal RUN RUN STEP: arrays of both are the same bytes. In front of them is a header that says its size.
equal() {
    size=$(od -An -tu8 -N8 "$(file "$1" "$3")" | tr -d ' ')
    other=$(od -An -tu8 -N8 "$(file "$2" "$3")" | tr -d ' ')
    [ "$(stat -c %s "$(file "$1" "$3")")" -gt $((7000000 + size)) ] || fail "$1: too small for weights and slots"
    cmp "$(file "$1" "$3")" "$(file "$2" "$3")" $((8 + size)) $((8 + other)) || fail "step $3: $1 and $2 differ"
}

train alone 6
train one 6 --distributed --servers 1
equal alone one 6
for servers in 2 3 4 5; do
    train "by$servers" 6 --distributed --servers "$servers"
    none_left "$servers servers"
    # What one server or more have saved differs in no byte; from one process in the order of its header alone.
    cmp "$(file one 6)" "$(file "by$servers" 6)" || fail "$servers servers"
done
equal alone by4 6

# On with more, with fewer, with one, with none.
train alone 12
train by2 12 --distributed --servers 5
train by4 12 --distributed --servers 3
train by5 12 --distributed --servers 1
train by3 12
for run in by2 by3 by4 by5; do
    equal alone "$run" 12
done
none_left "the end"

# Two of each learn what one process does, nearly; the state is one that it goes on from.
train two 50 --distributed --workers 2 --servers 2
train alone 50
awk -v a="$(last alone validation_loss)" -v b="$(last two validation_loss)" 'BEGIN { exit !(b < a + 0.2) }' ||
    fail "two workers: $(last two validation_loss), alone $(last alone validation_loss)"
train two 53
none_left "two of each"
echo "$name: all done"
