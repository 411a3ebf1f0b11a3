#!/bin/sh
# test_same_run.sh ETUDE [OTHER]: two commands, built for two processors, train the same to the
# tolerance of float32, and each can use the files of the other: ETUDE resumes a killed run of
# OTHER; OTHER gives the same classes and words with ETUDE's models. OTHER resumes its own run byte
# for byte. Without OTHER it is ETUDE with the kernels of an older processor.
set -eu
. "$(dirname "$0")/../command/counting.sh"
. "$(dirname "$0")/../command/command.sh"
etude=$1 other=${2:-$work/plain}
[ $# -gt 1 ] || {
    printf '#!/bin/sh\nONEDNN_MAX_CPU_ISA=SSE41 ETUDE_ISA=plain exec "%s" "$@"\n' "$etude" >plain
    chmod +x plain
}
export OMP_NUM_THREADS=1

# same RUN RUN STEP: what was logged there has the same names, and numbers within 1e-3 of each other.
numbers() {
    grep -h -e "^{\"step\": *$2,\"train\"" -e "^{\"step\": *$2,\"validation\"" "$1/metrics.jsonl" |
        sed -e 's/,*"time":{[^}]*}//g' | tr '{},:' '[\n*]' | grep '[^ ]'
}
same() {
    numbers "$1" "$3" >one
    numbers "$2" "$3" >two
    [ "$(grep -c -e training_loss -e '"validation_loss' one)" = 2 ] ||
        fail "$1 has logged no loss at step $3"
    paste one two >pairs
    awk -F '\t' 'function number(text) { return text ~ /^-?[0-9.]+(e[-+]?[0-9]+)?$/ }
        function size(x) { return x < 0 ? -x : x }
        number($1) && number($2) {
            if (size($1 - $2) > 1e-3 * (1 + size($1))) { print name ": " $0; bad = 1 }
            next
        }
        $1 != $2 { print; bad = 1 }
        { name = $1 }
        END { exit bad }' pairs >out || fail "$1 and $2 differ at step $3"
}
tail_of() {
    tail -c 20000 "$1/checkpoints/ckpt-$2.safetensors"
}

# ---- a table ---------------------------------------------------------------------------------------

make_table
# Both in a subshell, whose place they take.
table() {
    program=$1
    shift
    exec "$program" train --experiment tabular/mlp --target kind --data t.csv --valid t.csv \
        --set runtime.mixed_precision_dtype=float32,trainer.checkpoint_interval=5 "$@" >out 2>&1
}
(table "$etude" ours --steps 40) || fail "a table: exit $?"
(table "$other" theirs --steps 40) || fail "a table on the other: exit $?"
same ours theirs 40

# has_saved RUN: a checkpoint, the oldest of which may be gone again.
has_saved() {
    ls "$1/checkpoints" 2>/dev/null | grep -q '^ckpt-[0-9]*[.]safetensors$'
}
# Killed as soon as there is something to resume from; again where that was too late.
tries=0
until
    (table "$other" killed --steps 40) &
    until has_saved killed || ! kill -0 $! 2>/dev/null; do
        sleep 0.02
    done
    kill -9 $! 2>/dev/null || :
    wait $! 2>/dev/null || :
    [ ! -e killed/checkpoints/ckpt-40.safetensors ]
do
    tries=$((tries + 1))
    [ $tries -lt 20 ] || fail "the run that was to be killed ends too soon"
    rm -rf killed
done
has_saved killed || fail "the run that was to be killed never began"
cp -r killed crossed
(table "$other" killed --steps 40) || fail "resuming a killed run: exit $?"
tail_of theirs 40 >one
tail_of killed 40 >two
cmp one two >out 2>&1 || fail "a killed run ends elsewhere"
(table "$etude" crossed --steps 40) || fail "resuming what the other had begun: exit $?"
same ours crossed 40

printf 'kind,price,size,colour\nround,3,4,red\n,,,\nflat,99,12,green\n' >rows.csv
"$etude" predict ours <rows.csv >one 2>out || fail "predict: exit $?"
"$other" predict ours <rows.csv >two 2>out || fail "predict on the other: exit $?"
grep -q '"label": "round"' one || fail "predict: no class"
tr '{},:[]' '[\n*]' <one >one.words
tr '{},:[]' '[\n*]' <two >two.words
paste one.words two.words | awk -F '\t' '{ gap = $1 - $2 } gap > 1e-4 || gap < -1e-4 ||
    (($1 + 0) == 0 && $1 != $2) { print; bad = 1 } END { exit bad }' >out || fail "predict differs"

# ---- a translation ---------------------------------------------------------------------------------

count_pairs 100 200
pairs() {
    program=$1
    shift
    exec "$program" train --experiment translation/tiny --data source target --valid source target \
        --vocab-size 40 --steps 12 --set runtime.mixed_precision_dtype=float32 \
        --set task.train_data.global_batch_size=128,task.model.embedding_width=16 \
        --set task.model.encoder.num_layers=1,task.model.decoder.num_layers=1 \
        --set task.model.extra_decode_length=2,task.model.beam_size=2 "$@" >out 2>&1
}
(pairs "$etude" words) || fail "pairs: exit $?"
(pairs "$other" theirs-words --set task.sentencepiece_model_path=words/vocabulary.model) ||
    fail "pairs on the other: exit $?"
same words theirs-words 12
head -n 3 source | "$etude" translate words >one 2>out || fail "translate: exit $?"
head -n 3 source | "$other" translate words >two 2>out || fail "translate on the other: exit $?"
[ "$(wc -l <one)" = 3 ] || fail "translate: not three lines"
cmp one two >out 2>&1 || fail "translations differ"
echo "same_run: all of it"
