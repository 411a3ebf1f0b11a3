#!/bin/sh
# test_lost_file.sh ETUDE: if a mapped file is truncated during training, the command names it and
# ends with exit code 3; the run resumes from its last checkpoint when the file is back.
set -eu
etude=$1
work=$(mktemp -d "$PWD/lost_file.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "test_lost_file: $*" >&2
    sed 's/^/    /' said >&2
    exit 1
}

awk 'BEGIN { for (i = 0; i < 3000; i++) { line = ""
    for (k = 0; k <= i % 7; k++) line = line sprintf("%c%c ", 97 + (i * 7 + k * 3) % 26, 97 + (i + k * 5) % 26)
    print line } }' >text
train() {
    "$etude" train run --experiment translation/tiny --data text text --vocab-size 60 --steps "$1" --set \
        task.model.embedding_width=32,task.model.encoder.num_layers=1,task.model.decoder.num_layers=1 \
        --set task.train_data.global_batch_size=256 --set trainer.checkpoint_interval=20 >said 2>&1
}
train 20 || fail "it does not train"
mapped=$(find "$PWD/run/cache" -type f -size +8k | head -n 1)
[ "$mapped" ] || fail "nothing is mapped"
cp "$mapped" kept
# What this session makes as the last thing of its start, beside its first steps.
rm run/events.out.tfevents.0000000000.config
train 1000000 &
job=$!
for i in $(seq 600); do
    [ ! -e run/checkpoints/ckpt-60.safetensors ] || [ ! -e run/events.out.tfevents.0000000000.config ] || break
    sleep 0.1
done
: >"$mapped"
code=0
wait $job || code=$?
[ $code = 3 ] || fail "exit code $code"
grep -q "^etude: $mapped: another program shortened this file" said || fail "the file is not named"
grep -q "\"error\": \"$mapped: another program shortened this file" run/info.json ||
    fail "info.json does not say how it ended: $(tail -8 run/info.json)"
[ "$(grep -c '"reason": "failed"' run/info.json)" = 1 ] || fail "info.json: no reason"
"$etude" runs run >said || fail "info.json; skipped"
ls run | grep 'info.json.' && fail "something is left beside info.json"
cp kept "$mapped"
# How far it came before it was cut off depends on the machine.
saved=$(ls run/checkpoints | sed -n 's/^ckpt-\([0-9]*\)\.safetensors$/\1/p' | sort -n | tail -n 1)
train $((saved + 20)) || fail "it does not go on"
! grep -q "Etude does not record sessions until you move this file away" said || fail "info.json is none"
grep -q "^\(done\|finished\) " said || fail "it does not go on"
echo "lost file: named, and the run goes on"
