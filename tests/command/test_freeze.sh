#!/bin/sh
# test_freeze.sh ETUDE: parameters that do not train keep their values, have no slots, and cost less
# memory; such a run ends with the same bytes with any number of threads and ranks and after kill -9.
set -u
. "$(dirname "$0")/command.sh"
export OMP_NUM_THREADS=1
awk 'BEGIN { print "x,y,z"; for (i = 0; i < 400; i++)
    printf "%d,%d,%.2f\n", i % 17, i * 7 % 23, (i % 17) * (i * 7 % 23) / 10 }' >t.csv
settings='--experiment tabular/mlp --data t.csv --target z --batch-size 64
    --set trainer.checkpoint_interval=10,trainer.max_to_keep=9'
frozen='--freeze layer_0 --freeze layer_1/bias'

# train CODE TEXT RUN STEPS WORD...
train() {
    code=$1 text=$2 run=$3 steps=$4
    shift 4
    # shellcheck disable=SC2086 # words
    says "$code" "$text" train "$run" $settings --steps "$steps" "$@"
}
# tensors RUN STEP PATTERN: names and checksums of tensors of a checkpoint.
tensors() {
    grep -ao '"checksum/[^,}]*' "$1/checkpoints/ckpt-$2.safetensors" | grep -e "$3"
}
# same RUN: it ended as the run `some`.
same() {
    tensors "$1" 40 . >theirs
    cmp -s ours theirs || fail "$1 ended elsewhere: $(diff ours theirs | head -4)"
}

train 0 '^done' all 40
whole=$(sed -n 's/^memory .*parameters \([0-9.]*\) kB.*/\1/p' out)
# shellcheck disable=SC2086
train 0 '^frozen       [0-9,]* of [0-9,]* parameters: layer_0, layer_1/bias' some 40 $frozen
part=$(sed -n 's/^memory .*parameters \([0-9.]*\) kB.*/\1/p' out)
awk "BEGIN { exit !($part < 0.84 * $whole) }" || fail "parameters of $part kB, and $whole if all train"
tensors some 40 . >ours
tensors some 10 . >early

# Values stay, those of others do not; slots and averages are those of the others.
grep -e '/layer_0/' -e 'layer_1/bias' early | grep -v 'optimizer/\|average/' >kept
[ "$(wc -l <kept)" -ge 3 ] || fail "no such weights: $(cat early)"
grep -qvxFf ours kept && fail "frozen weights changed"
grep -e layer_1/weight -e layer_2 early | grep -qxFf ours && fail "a weight did not train"
grep -q 'optimizer/.*layer_1/weight' ours || fail "no slots: $(cat ours)"
! grep 'optimizer/\|average/' ours | grep -e /layer_0/ -e layer_1/bias || fail "slots of frozen weights"

# Threads, ranks, a kill.
OMP_NUM_THREADS=3
# shellcheck disable=SC2086
train 0 '^done' threads 40 $frozen
OMP_NUM_THREADS=1
same threads
# shellcheck disable=SC2086
train 0 '^memory .*, sums of gradients [0-9.]* kB, ' shards 40 $frozen --set runtime.data_shards=2
# The parts are what is planned, also for info.json: gradients are added up in a copy.
sed -n 's/^memory .*planned: //p' out | tr , '\n' | awk '
    { unit = $NF == "MB" ? 1e6 : $NF == "kB" ? 1e3 : 1; all += $(NF - 1) * unit }
    END { printf "%d\n", all }' >parts
planned=$(sed -n 's/.*"memory": \([0-9]*\).*/\1/p' shards/info.json)
awk "BEGIN { parts = $(cat parts); exit !(parts > 0.99 * $planned && parts < 1.01 * $planned) }" ||
    fail "$planned bytes planned, parts of $(cat parts)"
tensors shards 40 . >ours
# shellcheck disable=SC2086
says 0 '^done' launch -n 2 -- train ranks $settings --steps 40 $frozen --set runtime.data_shards=2
same ranks
# shellcheck disable=SC2086
"$etude" train killed $settings --steps 4000 $frozen --set runtime.data_shards=2 >out 2>&1 &
process=$!
for _ in $(seq 200); do
    [ ! -e killed/checkpoints/ckpt-20.safetensors ] || break
    sleep 0.02
done
kill -KILL $process
wait $process 2>/dev/null
rm -f killed/checkpoints/ckpt-[3-9]?.safetensors killed/checkpoints/ckpt-[1-9]??*.safetensors
[ -e killed/checkpoints/ckpt-20.safetensors ] || fail "no checkpoint before the kill"
# shellcheck disable=SC2086
train 0 '^done' killed 40 $frozen --set runtime.data_shards=2
same killed

# What is wrong is said, and other weights are another training.
train 3 "optimizer_config.frozen: 'none' matches no parameter; the first one is called" a 2 --freeze none
train 3 "frozen: '(' is not a regular expression" a 2 --freeze '('
train 3 '^etude: every parameter is frozen' a 2 --freeze .
train 3 '^etude: every parameter is frozen' a 2 --freeze . --set runtime.data_shards=2
train 3 'optimizer_config.frozen: \[layer_0, layer_1/bias\], but now it is \[layer_0\]' some 60 \
    --freeze layer_0
train 0 '^done' some 60 --freeze layer_0 --accept-changes

# Of a translator, any parameter may be frozen, or train alone: the others have the same gradients.
# The first moments show them.
awk 'BEGIN { srand(1); for (i = 0; i < 60; i++) { line = ""
    for (k = 0; k < 4; k++) line = line substr("abcdefgh", 1 + int(rand() * 8), 1) " "
    print line "." } }' >s.en
rev <s.en >s.de
translator() {
    says 0 '^done' train "$@" --experiment translation/tiny --data s.en s.de --seed 3 --steps 1 \
        --set "{task: {model: {embedding_width: 16, encoder: {num_layers: 1}, decoder: {num_layers: 1}}}}"
    tensors "$1" 1 'optimizer/m/' >"$1.moments"
}
translator whole
names=$(sed -n 's|"checksum/optimizer/m/\(.*\)":.*|\1|p' whole.moments)
count=$(echo "$names" | wc -l)
[ "$count" -gt 30 ] || fail "parameters: $names"
for name in $(echo "$names" | grep -e norm -e cross_attention -e embedding); do
    translator one --freeze "^$name\$"
    translator rest --freeze "^(?!$name\$)"
    [ "$(grep -cxFf whole.moments one.moments)" = $((count - 1)) ] &&
        [ "$(wc -l <one.moments)" = $((count - 1)) ] || fail "other gradients without $name"
    [ "$(grep -cxFf whole.moments rest.moments)" = 1 ] &&
        [ "$(wc -l <rest.moments)" = 1 ] || fail "another gradient of $name alone"
    rm -r one rest
done
exit 0
