#!/bin/sh
# test_parameter_groups.sh ETUDE: a run with parameter groups ends with the same bytes for any
# number of threads and ranks, and after kill -9. Other groups give other bytes; wrong groups are
# refused.
set -eu
. "$(dirname "$0")/command.sh"
export OMP_NUM_THREADS=1

make_table
groups=trainer.optimizer_config.parameter_groups
set_groups="$groups=[{pattern: bias, learning_rate_multiplier: 0.1, weight_decay_rate: 0}, \
{pattern: '^(?!.*bias)', learning_rate_multiplier: 2}]"

# train CODE TEXT RUN STEPS WORD...
train() {
    code=$1 text=$2 run=$3 steps=$4
    shift 4
    says "$code" "$text" train "$run" --experiment tabular/mlp --data t.csv --target kind \
        --steps "$steps" --set "runtime.data_shards=2,trainer.checkpoint_interval=10" \
        --set trainer.optimizer_config.optimizer.type=adamw "$@"
}
# weights RUN: what the last checkpoint has besides its head, where times are.
weights() {
    tail -c 20000 "$1/checkpoints/ckpt-40.safetensors" | cksum
}

train 0 '^done' one 40 --set "$set_groups"
train 0 '^done' without 40
[ "$(weights one)" != "$(weights without)" ] || fail "groups change nothing"
grep -A 3 parameter_groups one/params.yaml | grep -q 'learning_rate_multiplier: 0.1' ||
    fail "params.yaml: $(cat one/params.yaml)"

export OMP_NUM_THREADS=3
train 0 '^done' threads 40 --set "$set_groups"
export OMP_NUM_THREADS=1
[ "$(weights one)" = "$(weights threads)" ] || fail "3 threads end elsewhere"

says 0 '^done' launch -n 2 -- train ranks --experiment tabular/mlp --data t.csv --target kind \
    --steps 40 --set "runtime.data_shards=2,trainer.checkpoint_interval=10" \
    --set "trainer.optimizer_config.optimizer.type=adamw,$set_groups"
[ "$(weights one)" = "$(weights ranks)" ] || fail "2 ranks end elsewhere"

# Killed where its second checkpoint is there. It keeps all checkpoints: on a busy machine the kill
# comes late.
"$etude" train killed --experiment tabular/mlp --data t.csv --target kind --steps 4000 \
    --set "runtime.data_shards=2,trainer.checkpoint_interval=10,trainer.max_to_keep=0" \
    --set "trainer.optimizer_config.optimizer.type=adamw,$set_groups" >out 2>&1 &
process=$!
for _ in $(seq 1000); do
    [ ! -e killed/checkpoints/ckpt-20.safetensors ] || break
    sleep 0.02
done
kill -KILL $process 2>/dev/null || :
wait $process 2>/dev/null || :
rm -f killed/checkpoints/ckpt-[3-9]?.safetensors killed/checkpoints/ckpt-[1-9]??*.safetensors
[ -e killed/checkpoints/ckpt-20.safetensors ] || fail "no checkpoint before the kill"
train 0 '^done' killed 40 --set "$set_groups"
[ "$(weights one)" = "$(weights killed)" ] || fail "a run that was killed ends elsewhere"

# Other groups are another training.
train 3 'parameter_groups: \[{"pattern":"bias",.*}\], but now it is \[{"pattern":"bias","learning_rate_multiplier":0.5' \
    one 60 --set "$groups={pattern: bias, learning_rate_multiplier: 0.5}"
train 3 'parameter_groups: .*, but now it is \[\]' one 60 --set "$groups=[]"
train 0 '^done' one 60 --set "$set_groups"

# What is wrong.
refused() {
    train 3 "$1" wrong 10 --set "$groups=$2"
}
refused "parameter_groups\[0\].pattern: 'biaz' matches no parameter" '{pattern: biaz}'
refused "is in two groups, 'bias' and '.'" '[{pattern: bias}, {pattern: .}]'
refused 'parameter_groups\[0\].pattern is not set' '{weight_decay_rate: 0}'
refused 'parameter_groups\[1\].pattern.*at' '[{pattern: bias}, {pattern: "("}]'
refused 'parameter_groups\[0\].learning_rate_multiplier: -1' '{pattern: ., learning_rate_multiplier: -1}'
refused 'parameter_groups\[0\].rate: no such setting' '{pattern: ., rate: 1}'
refused 'the update rule adam has no weight decay' \
    "{pattern: ., weight_decay_rate: 1},trainer.optimizer_config.optimizer.type=adam"
