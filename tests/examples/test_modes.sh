#!/bin/sh
# test_modes.sh OWN_TASK: run modes of a program's own task: which of them validate; modes that
# watch a run during its training change none of its files.
set -eu
own=$1
work=$(mktemp -d "$PWD/modes.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "test_modes: $*" >&2
    cat log out >&2
    exit 1
}

# train RUN [OPTION]...: 400 steps, a checkpoint and a validation every 100.
train() {
    run=$1
    shift
    "$own" train --experiment rings/small --model-dir "$run" --set trainer.train_steps=400 "$@" \
        >out 2>log
}
# validations RUN: the steps that were validated.
validations() {
    sed -n 's/.*"step": *\([0-9]*\),.*"validation".*/\1/p' "$1/metrics.jsonl" | tr '\n' ' '
}
# files RUN: every file with its contents.
files() {
    find "$1" -type f -exec cksum {} + | sort -k 3
    find "$1" | sort
}

train usual || fail "train"
[ "$(validations usual)" = "100 200 300 400 " ] || fail "usual: $(validations usual)"
train both --mode train_and_eval || fail "train_and_eval"
train post --mode=train_and_post_eval || fail "train_and_post_eval"
[ "$(validations post)" = "400 " ] || fail "post: $(validations post)"
train alone --mode train || fail "train"
[ "$(validations alone)" = "" ] || fail "alone: $(validations alone)"
train waits --enable_async_checkpointing=false || fail "saves that wait"
train parts --set trainer.validation_steps=3 || fail "validation_steps"
# What is trained is the same in all, and so are the bytes of modes that validate alike.
for run in both waits; do
    for file in usual/checkpoints/ckpt-*; do
        cmp "$file" "$run/checkpoints/${file##*/}" >>log 2>&1 || fail "$run: $file is another"
    done
done
[ "$("$own" inspect --tensors alone/checkpoints/ckpt-400.safetensors | grep float32)" = \
    "$("$own" inspect --tensors usual/checkpoints/ckpt-400.safetensors | grep float32)" ] ||
    fail "modes train differently"
validation=$(grep '"step": *400,.*"validation"' usual/metrics.jsonl)
[ "$(grep '"step": *400,.*"validation"' parts/metrics.jsonl)" != "$validation" ] ||
    fail "validation_steps changes nothing"

# Eval: the newest, once, as training measured it; nothing is written.
files usual >before
"$own" train --model-dir usual --mode eval >out 2>log || fail "eval"
files usual >after
cmp before after >>log || fail "eval has written"
[ "$(grep -c ^checkpoint out)" = 1 ] || fail "eval: not one"
grep -q '^checkpoint usual/checkpoints/ckpt-400.safetensors, step 400$' out || fail "not the newest"
margin=$(sed -n 's/^margin *//p' out)
echo "$validation" | grep -q "validation_margin\": *${margin%?}" || fail "eval: margin $margin"
"$own" train --model-dir usual --mode eval --set trainer.validation_steps=3 >out 2>log || fail "eval"
! grep -q "^margin *$margin\$" out || fail "validation_steps changes nothing in eval"

# Steps of the rows of a table.
rows() {
    sed -n 's/^ *\([0-9][0-9]*\)  .*/\1/p' "$1" | tr '\n' ' '
}
# Continuous: all that there are, in order, each once; it ends with the last step.
"$own" train --model-dir usual --mode continuous_eval >out 2>log || fail "continuous_eval"
[ "$(rows out)" = "100 200 300 400 " ] ||
    fail "continuous_eval: $(cat out)"
files usual | grep -v -e '/validation/metrics.jsonl$' -e '/validation/lock$' \
    -e '/validation/events.*0001.etude$' >after
cmp before after >>log || fail "continuous_eval has written into files of the run"
# Its own files have what training measured, and it goes on behind them.
sed 's/.*"validation":{\(.*\)},"time".*/\1/; s/,"best_.*//' usual/metrics.jsonl |
    grep '^"validation_' >trained
sed 's/"time":.*//; s/^{"step":[0-9]*,//; s/,$//' usual/validation/metrics.jsonl >measured
cmp trained measured >>log || { diff trained measured >&2; fail "other values"; }
lines=$(cat usual/validation/metrics.jsonl)
printf '{"step":500,"val' >>usual/validation/metrics.jsonl
"$own" train --model-dir usual --mode continuous_eval >out 2>log || fail "once more"
[ ! -s out ] || fail "measured once more"
[ "$(cat usual/validation/metrics.jsonl)" = "$lines" ] || fail "a torn line stays"
# As if it had been killed after two.
sed -n 1,2p usual/validation/metrics.jsonl >two && cp two usual/validation/metrics.jsonl
"$own" train --model-dir usual --mode continuous_eval >out 2>log || fail "go on"
[ "$(rows out)" = "300 400 " ] || fail "does not go on"
sed 's/"time":.*//; s/^{"step":[0-9]*,//; s/,$//' usual/validation/metrics.jsonl >measured
cmp trained measured >>log || fail "gone on: other values"
echo 'no line' >>usual/validation/metrics.jsonl
code=0
"$own" train --model-dir usual --mode continuous_eval >out 2>log || code=$?
[ "$code" != 0 ] && grep -q 'validation/metrics.jsonl:5: ' log || fail "a wrong line: $code"
cp two usual/validation/metrics.jsonl
"$own" train --model-dir usual --mode continuous_eval >out 2>log || fail "go on once more"

# Before and beside a training, which it does not disturb.
"$own" train --experiment rings/small --model-dir beside --mode continuous_eval \
    --set trainer.train_steps=400,trainer.max_to_keep=100 >watched 2>watched.log &
watcher=$!
sleep 0.3
train beside --mode train --set trainer.max_to_keep=100 || fail "train beside an evaluation"
wait "$watcher" || { cat watched.log; fail "continuous_eval beside a training"; }
[ "$(rows watched)" = "100 200 300 400 " ] ||
    { cat watched; fail "beside: not each once"; }
for file in alone/checkpoints/ckpt-*; do
    cmp "$file" "beside/checkpoints/${file##*/}" >>log 2>&1 || fail "beside: $file is another"
done

# Nothing comes any more: said, with what was measured last.
code=0
"$own" train --model-dir usual --mode continuous_eval \
    --set trainer.train_steps=500,trainer.continuous_eval_timeout=0.5 >out 2>log || code=$?
[ "$code" = 3 ] || fail "timeout: exit code $code"
grep -q 'usual: no new checkpoint for 0.5 seconds .*of step 400, training ends at step 500' log ||
    fail "timeout: not said"
# One at a time.
"$own" train --model-dir usual --mode continuous_eval \
    --set trainer.train_steps=500,trainer.continuous_eval_timeout=60 >watched 2>watched.log &
watcher=$!
while kill -0 "$watcher" && ! grep -qx "$watcher" usual/validation/lock; do
    sleep 0.01
done
code=0
"$own" train --model-dir usual --mode continuous_eval >out 2>log || code=$?
kill "$watcher"
wait "$watcher" || :
[ "$code" != 0 ] && grep -q 'usual/validation/lock' log || fail "two at a time: exit code $code"
code=0
"$own" train --experiment rings/small --model-dir none --mode eval >out 2>log || code=$?
[ "$code" = 3 ] && [ ! -e none ] || fail "eval without a run: exit code $code"
grep -q 'none: no such directory' log || fail "eval without a run: not said"
# Settings of another model.
code=0
"$own" train --model-dir usual --mode eval --set task.hidden=3 >out 2>log || code=$?
[ "$code" = 3 ] || fail "another model: exit code $code"
echo "run modes: each does its own"
