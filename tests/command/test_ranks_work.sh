#!/bin/sh
# test_ranks_work.sh ETUDE BUILD [MPI...]: what several processes do besides training: translate and
# score a file, try a training out. They print and write the same as one process, and print
# everything once, errors too.
set -eu
. "$(dirname "$0")/ranks.sh"
awk 'BEGIN { for (i = 0; i < 600; i++) { line = ""; for (k = 0; k <= i % 5; k++)
    line = line sprintf("%c%c ", 97 + (i * 7 + k * 3) % 26, 97 + (i + k * 5) % 26); print line } }' >text
head -n 41 text >valid
tail -n 41 text >other
sizes='task.model.embedding_width=32,task.model.encoder.num_layers=1,task.model.decoder.num_layers=1'
translation="--experiment translation/tiny --data text text --vocab-size 60 --set $sizes
    --set task.train_data.global_batch_size=510,runtime.data_shards=3,runtime.peer_timeout=5"
# shellcheck disable=SC2086 # words
says 0 '^done' train $translation run --valid valid valid --steps 8 \
    --set task.validation_data.global_batch_size=64,trainer.validation_interval=4

# ---- translating, scoring a file -----------------------------------------------------------------

# alike WORD...: two and three ranks print and write what one process does.
alike() {
    "$etude" "$@" <valid >alone 2>said || fail "$*: exit $?"
    [ ! -e written ] || mv written alone.written
    for n in 2 3; do
        "$etude" launch -n $n -- "$@" <valid >out 2>said || fail "$n ranks, $*: exit $?"
        cmp alone out >>said 2>&1 || fail "$n ranks, $*: other results"
        [ ! -e alone.written ] || cmp alone.written written >>said 2>&1 ||
            fail "$n ranks, $*: another file"
    done
    [ -s alone ] || [ -s written ] || fail "$*: nothing to compare"
    rm -f alone.written written
}
alike translate run
alike translate run --n-best 3 --beam-size 4 --scores
alike translate run --n-best 2 --beam-size 4 --json
alike translate run --sampling --seed 3 --output written
alike translate run --input text --score-targets text
alike translate run --alignments --input other
alike translate run --n-best 3 --beam-size 4 --json --alignments --alignment-layer 1
alike translate run --input valid --score-targets valid --alignments
alike evaluate run --source valid --reference valid --output written
alike evaluate run --source valid --reference other --beam-size 1 --json
head -n 2 valid | tail -n 1 >line
alike translate run --input line --score-targets line --attention written
alike translate run --input line --attention written

# Line by line, as they come: the first is answered before there is a second.
mkfifo lines
"$etude" launch -n 2 -- translate run <lines >answers 2>said &
launch=$!
exec 3>lines
echo 'hb kg' >&3
looks=0
until [ -s answers ] || [ $looks = 6000 ]; do
    sleep 0.02
    looks=$((looks + 1))
done
[ "$(wc -l <answers)" = 1 ] || fail 'a line is not answered before the next'
echo 'ab' >&3
exec 3>&-
wait $launch || fail "translate: exit $?"
[ "$(wc -l <answers)" = 2 ] || fail 'the second line is not answered'

printf 'ab\n\377\n' >broken
once 3 'broken:2: byte 1 of the line' launch -n 2 -- translate run --input broken --output never
[ ! -e never ] || fail 'half a file of translations'
once 3 'no such directory' launch -n 2 -- translate nosuch --input valid
once 3 'text has 600' launch -n 3 -- evaluate run --source valid --reference text
once 3 'cannot open nosuch' launch -n 2 -- evaluate run --source nosuch --reference valid
once 3 '--output: valid and valid' launch -n 2 -- evaluate run --source valid --reference valid --output valid

# ---- words that are wrong -------------------------------------------------------------------------

once 2 'train: no option --bogus' launch -n 4 -- train --bogus
once 2 'evaluate: no option --bogus' launch -n 4 -- evaluate --bogus
once 2 'translate: no option --bogus' launch -n 3 -- translate --bogus
once 2 'train: --model-dir is missing' launch -n 4 -- train
once 3 'no experiment is called nosuch' launch -n 4 -- train --experiment nosuch wrong
once 3 'nosuch' launch -n 4 -- train --experiment tabular/mlp --data t.csv --target kind wrong \
    --set runtime.nosuch=1
once 3 'cannot open nosuch.yaml' launch -n 4 -- train --config nosuch.yaml wrong
# What one of them alone finds wrong is told with its rank, whenever the others hear of it.
cat >other <<'EOF'
#!/bin/sh
[ "${ETUDE_RANK%%/*}" = 2 ] && exec "$@" --bogus
exec "$@"
EOF
chmod +x other
once 2 'etude: on rank 2: train: no option --bogus' launch -n 4 -- ./other "$etude" train \
    --experiment tabular/mlp --data t.csv --target kind --set runtime.data_shards=4 wrong --steps 4
once 2 'etude: on rank 2: translate: no option --bogus' launch -n 4 -- ./other "$etude" translate \
    run --input valid
[ ! -e wrong ] || fail 'a start that failed leaves a directory'
for mpi in "$@"; do
    finds "$mpi" || continue
    for words in 'train --bogus' 'translate --bogus' nosuch; do
        # shellcheck disable=SC2086 # words
        ! "$start" $more -n 4 "$etude" $words >out 2>&1 || fail "$mpi: $words is not refused"
        [ "$(grep -c '^etude: ' out)" = 1 ] || fail "$mpi: $words is not refused once"
    done
done

# ---- help -----------------------------------------------------------------------------------------

# repeated WORD...: how often the first line of an own help is in `out`.
repeated() {
    "$etude" "$@" >alone 2>&1 || :
    grep -c -x -F -e "$(head -n 1 alone)" out
}
for words in 'train --help' 'translate --help'; do
    # shellcheck disable=SC2086 # words
    tells 0 '' launch -n 4 -- $words
    # shellcheck disable=SC2086 # words
    [ "$(repeated $words)" = 1 ] || fail "$words is not said once"
done
for words in '' version 'help train' 'help --man'; do
    # shellcheck disable=SC2086 # words
    "$etude" launch -n 3 -- "$etude" $words >out 2>&1 || [ "$words$?" = 2 ] || fail "$words: exit $?"
    # shellcheck disable=SC2086 # words
    [ "$(repeated $words)" = 1 ] || fail "'$words' is not said once"
done
for mpi in "$@"; do
    finds "$mpi" || continue
    # shellcheck disable=SC2086 # words
    "$start" $more -n 3 "$etude" train --help >out 2>said || fail "$mpi, help: exit $?"
    [ "$(repeated train --help)" = 1 ] || fail "$mpi: help is not said once"
done

# ---- the work of one process ---------------------------------------------------------------------

says 0 '^done' train --experiment tabular/mlp --target kind --data t.csv table --steps 8
once 2 'predict runs in one process' launch -n 2 -- predict table --input t.csv
once 2 'export runs in one process' launch -n 2 -- export run --output exported
[ ! -e exported ] || fail 'two ranks export'
once 127 'neither a program nor a command of etude has this name' launch -n 2 -- nosuch
for mpi in "$@"; do
    finds "$mpi" || continue
    "$etude" translate run --input valid >alone 2>said || fail "translate: exit $?"
    # shellcheck disable=SC2086 # words
    "$start" $more -n 2 "$etude" translate run --input valid >out 2>said || fail "$mpi: exit $?"
    cmp alone out >>said 2>&1 || fail "$mpi: other translations"
    # shellcheck disable=SC2086 # words
    ! "$start" $more -n 2 "$etude" predict table --input t.csv >out 2>&1 || fail "$mpi: predicts"
    [ "$(grep -c 'predict runs in one' out)" = 1 ] || fail "$mpi: predict is not refused once"
done

# ---- trying out ----------------------------------------------------------------------------------

mkdir tmp
export TMPDIR="$PWD/tmp"
# shellcheck disable=SC2086 # words
tells 0 '^ranks  *3, ' launch -n 3 -- train $translation --steps 30 --dry-run
grep -q '^would take .* a rank: 30 steps of ' out || fail 'it is not said how long it would take'
[ "$(grep -c '^rank [0-2]  *.*B, a step in .* s$' out)" = 3 ] || fail 'not a line for each rank'
[ "$(wc -l <out)" = 4 ] || fail 'a rank says more'
# shellcheck disable=SC2086 # words
tells 0 '' launch -n 2 -- train $translation run --steps 30 --dry-run --json
grep -q '"steps": 22,' out && grep -q '"steps_done": 8,' out &&
    [ "$(grep -c '"step_seconds"' out)" = 3 ] && [ "$(grep -c '"memory"' out)" = 3 ] ||
    fail '--json of ranks'
tells 0 'nothing to do: the run is already at step 8' launch -n 2 -- train run --steps 8 --dry-run
# shellcheck disable=SC2086 # words
once 5 'more than loss_upper_bound' launch -n 2 -- train $translation --steps 30 --dry-run \
    --set trainer.loss_upper_bound=1e-9
# shellcheck disable=SC2086 # words
once 3 'runtime.data_shards=4' launch -n 4 -- train $translation --steps 30 --dry-run
# A signal to any of them ends all. Once more where it was done before: it takes a hundred steps.
for try in 1 2 3 4 5 6 7 8 9 10; do
    # shellcheck disable=SC2086 # words
    "$etude" launch -n 2 -- train $translation --steps 1000000 --dry-run >out 2>&1 &
    launch=$! got=0 looks=0
    until [ "$(ls tmp)" ] || [ $looks = 6000 ] || ! kill -0 $launch 2>/dev/null; do
        sleep 0.02
        looks=$((looks + 1))
    done
    pid=
    while [ -z "$pid" ] && kill -0 $launch 2>/dev/null; do
        pid=$(sed 's/ .*//' "/proc/$launch/task/$launch/children" 2>/dev/null || true)
    done
    kill -TERM "$pid" 2>/dev/null || true
    wait $launch || got=$?
    [ $got = 0 ] || break
done
[ $got = 75 ] || fail "a rank that tries out gets SIGTERM: exit $got"
[ "$(grep -c 'interrupted before anything started' out)" = 1 ] || fail 'it is not said once that nothing was begun'
# One that does not see what rank 0 has made.
cat >apart <<'EOF'
#!/bin/sh
[ "${ETUDE_RANK%%/*}" = 0 ] && exec "$@"
exec unshare -rm sh -c 'mount -t tmpfs none "$TMPDIR" && exec "$@"' apart "$@"
EOF
chmod +x apart
if unshare -rm mount -t tmpfs none "$TMPDIR" 2>/dev/null; then
    # shellcheck disable=SC2086 # words
    once 3 'on rank 1: --dry-run: this rank cannot see' launch -n 2 -- ./apart "$etude" \
        train $translation --steps 30 --dry-run
else
    echo 'SKIPPED: a rank that does not see the directory: no mount namespaces here'
fi
[ -z "$(ls tmp)" ] || fail '--dry-run leaves something'
