#!/bin/sh
# test_multitask.sh ETUDE: several tasks as settings of the command. What they share and what is each
# one's own; joint and interleaved; values of each by its name; a run that is killed ends with the
# bytes of one that was not, for any number of threads; what is wrong with the settings is said.
set -eu
. "$(dirname "$0")/command.sh"
export OMP_NUM_THREADS=1

make_table
awk -F, 'NR == 1 { print "size,colour,kind,price" } NR > 1 && NR < 200 { print $1 "," $2 "," $4 "," $3 }' \
    t.csv >u.csv
cat >tasks.yaml <<'END'
experiment: multitask/joint
task:
  shared: [^layer_1, ^layer_2]
  task_routines:
  - task_name: kinds
    task_weight: 2
    task_config:
      type: tabular
      tabular: {train_data: {input_path: t.csv, batch_size: 16}, target: kind, model: {mlp: {width: 16}}}
  - task_name: prices
    eval_steps: 1
    task_config:
      type: tabular
      tabular:
        train_data: {input_path: u.csv, batch_size: 8}
        validation_data: {batch_size: 10}
        target: price
        model: {mlp: {width: 16}}
trainer: {train_steps: 60, validation_interval: 20, checkpoint_interval: 20, summary_interval: 20}
runtime: {mixed_precision_dtype: float32}
END

train() {
    code=$1 text=$2
    shift 2
    says "$code" "$text" train --config tasks.yaml "$@"
}
interleaving='task.trainer_type=interleaving'

# ---- what there is -----------------------------------------------------------------------------

train 0 '^done  *60 steps.*; best kinds/validation_log_likelihood' whole
grep -q '^task         kinds: tabular, weight 2$' out || fail 'no line for a task'
grep -q '^all  .* parameters, of which 544 are shared$' out || fail 'shared parameters'
grep -q 'validation/prices  validation_loss' out || fail 'values of a task by its name'
for file in task_1/schema.yaml task_2/features.yaml validation/kinds best/info.json; do
    [ -e whole/$file ] || fail "no $file in the run"
done
says 0 '^prices/validation_rmse ' evaluate whole
says 0 'whole/task_2/features.yaml' inspect whole
says 0 '^kinds/logits ' inspect whole
grep -q '^layer_1 ' out || fail 'a shared parameter is called as in one task'
# A limit of the command is of each task that has none of its own: 6 rows a batch, 10 of 30.
says 0 'kinds/validation_loss' train whole --mode eval --set trainer.validation_steps=1
says 0 '^task.task_sampler.proportional.alpha: 1.0 ' list multitask/joint
says 0 'would take' train --config tasks.yaml --dry-run
# Of a run that is there: each task's files lie in its folder.
says 0 'would take' train whole --steps 70 --dry-run

# One of the tasks as a model of its own: its values are those that it has among the others.
"$etude" evaluate whole | sed -n 's|^kinds/||p' | tr -s ' ' >wanted
for output in kinds kinds.safetensors; do
    says 0 "^exported kinds of whole/best/best-.*: $output$" export whole --task kinds \
        --output $output
    "$etude" evaluate $output --set task.train_data.input_path=t.csv >out 2>&1 || fail 'evaluate'
    sed 1d out | tr -s ' ' | cmp - wanted || fail "$output has other values than among the others"
    printf 'size,colour,price\n3,red,4.5\n' | "$etude" predict $output >out || fail 'predict'
    grep -q '^{"label": "' out || fail 'no prediction'
done
grep -q '^experiment: tabular/mlp' kinds/params.yaml || fail 'not the experiment that it is like'
says 0 'weights of kinds/model' train --init kinds --steps 1 alone
says 2 'export: --task is missing: name one of kinds, prices' export whole --output x
says 2 'export: --task cost: name one of kinds, prices' export whole --task cost --output x
says 3 'ckpt-61\|step 61' export whole --task kinds --checkpoint 61 --output x
[ ! -e x ] || fail 'an export that failed leaves something'

# ---- exact -------------------------------------------------------------------------------------

same() {
    cmp "$1/checkpoints/ckpt-60.safetensors" "$2/checkpoints/ckpt-60.safetensors" >out 2>&1 ||
        fail "$2 ends elsewhere than $1"
}
OMP_NUM_THREADS=2 train 0 '^done' again
same whole again

for sampler in uniform 'proportional,task.task_sampler.proportional.alpha=0.5' \
    'annealing,task.task_sampler.annealing.steps_per_epoch=10,task.task_sampler.annealing.total_steps=50'; do
    set="$interleaving,task.task_sampler.type=$sampler"
    rm -rf straight killed
    train 0 '^done  *60 steps' straight --set "$set"
    kills=0
    for delay in 0.05 0.1 0.15 0.2 0.25; do
        timeout -s KILL $delay "$etude" train --config tasks.yaml killed --set "$set" \
            --set trainer.checkpoint_interval=20 >out 2>&1 || kills=$((kills + 1))
    done
    train 0 '^\(done\|finished\)' killed --set "$set"
    same straight killed
    mv straight "${sampler%%,*}"
done
[ "$kills" -gt 0 ] || fail 'no kill came before the end of a run'
cmp -s uniform/checkpoints/ckpt-60.safetensors annealing/checkpoints/ckpt-60.safetensors &&
    fail 'samplers draw alike'
# In the middle of the joint run, where the state is of two tasks.
for delay in 0.05 0.1 0.15 0.2; do
    timeout -s KILL $delay "$etude" train --config tasks.yaml broken >out 2>&1 || :
done
train 0 '^\(done\|finished\)' broken
same whole broken

# ---- another model's weights -------------------------------------------------------------------

train 0 'weights of whole' next --init whole --set trainer.train_steps=1
train 0 '^done' drawn --set task.init_checkpoint=whole --set task.init_pattern=^layer_1 \
    --set trainer.train_steps=1

# ---- what may not change -----------------------------------------------------------------------

changed() {
    text=$1 from=$2 to=$3
    sed "s|$from|$to|" tasks.yaml >changed.yaml
    cmp -s tasks.yaml changed.yaml && fail "$from: is not in the settings"
    says 3 "$text" train --config changed.yaml whole
}
changed 'task.shared: \["^layer_1", "^layer_2"\], now' '\^layer_1, \^layer_2' '^layer_1'
changed 'task_routines\[0\].task_weight: 2.0, now it is 3' 'task_weight: 2' 'task_weight: 3'
changed 'task_routines\[1\].task_name: prices, now it is cost' 'task_name: prices' 'task_name: cost'
changed 'tabular.model.mlp.width: 16' 'target: kind, model: {mlp: {width: 16}}' \
    'target: kind, model: {mlp: {width: 8}}'
changed 'tabular.target: kind, now it is colour' 'target: kind' 'target: colour'
sed '/task_name: prices/,/width: 16}}$/d' tasks.yaml >changed.yaml
says 3 'task.task_routines\[\]: 2, now it is 1' train --config changed.yaml whole
says 3 'task.trainer_type: joint, now it is interleaving' \
    train --config tasks.yaml whole --set $interleaving
cp -r uniform moved
says 3 'task.task_sampler.type: uniform, now it is proportional' \
    train --config tasks.yaml moved --set $interleaving
# What may change does: where files lie, how long.
cp t.csv elsewhere.csv
sed 's/input_path: t.csv/input_path: elsewhere.csv/' tasks.yaml >changed.yaml
says 0 '^done  *61 steps' train --config changed.yaml again --set trainer.train_steps=61
sed 's/flat/oval/' t.csv >elsewhere.csv
says 3 'task kinds: .*elsewhere.csv' train --config changed.yaml again --set trainer.train_steps=62
# A task's files are its checkpoint's.
sed 's/standardize/scale/' broken/task_1/features.yaml >features.yaml
cp features.yaml broken/task_1/features.yaml
says 3 'task kinds: .*task_1/features.yaml' train broken --steps 80
says 3 'task_1/features.yaml' inspect broken

# ---- hostile settings --------------------------------------------------------------------------

# refuses TEXT FROM TO [ARGUMENT]...: settings with TO for FROM; nothing is left of it.
refuses() {
    text=$1 from=$2 to=$3
    shift 3
    sed "s|$from|$to|" tasks.yaml >bad.yaml
    says 3 "$text" train --config bad.yaml bad "$@"
    [ ! -e bad ] || fail "$text: leaves bad/"
}
set_to() {
    text=$1
    shift
    says 3 "$text" train --config tasks.yaml bad "$@"
    [ ! -e bad ] || fail "$text: leaves bad/"
}
says 3 'task.task_routines: 0 tasks; from 1 to 16' train --experiment multitask/joint bad
refuses 'bad.yaml:5: task.task_routines\[0\].task_nam: no such setting. Nearest: task_name' \
    'task_name: kinds' 'task_nam: kinds'
refuses '\[0\].task_name: "a b": up to 64 letters' 'task_name: kinds' 'task_name: a b'
refuses '\[0\].task_name: "": up to 64' 'task_name: kinds' 'task_name: ""'
refuses '\[0\].task_name: "../x": up to 64' 'task_name: kinds' 'task_name: ../x'
refuses '\[0\].task_name: optimizer is what checkpoints call' 'task_name: kinds' \
    'task_name: optimizer'
refuses '\[1\].task_name: \[0\] is named kinds as well' 'task_name: prices' 'task_name: kinds'
refuses 'task_weight: -1' 'task_weight: 2' 'task_weight: -1'
refuses 'task_weight' 'task_weight: 2' 'task_weight: 0'
refuses 'task_weight' 'task_weight: 2' 'task_weight: .nan'
refuses 'eval_steps: -1' 'eval_steps: 1' 'eval_steps: -1'
refuses 'task_config.type: .*nothing' 'type: tabular' 'type: nothing'
refuses 'task.task_routines\[0\].task_config.tabula: no such setting. Nearest: tabular' \
    '      tabular: {train' '      tabula: {train'
refuses 'task.task_routines\[0\], kinds (tabular): task.target: no column' 'target: kind, ' ''
refuses 'task kinds: .*t.csv: there is no column "kin". Nearest: kind' 'target: kind' 'target: kin'
refuses 'task prices: .*none.csv' 'u.csv' 'none.csv'
refuses 'task.shared: no task has a parameter of a name with "layer_9"' '\^layer_2' 'layer_9'
refuses "task.shared: '^layer_2(' is no regular expression" '\^layer_2' '"^layer_2("'
refuses 'task prices: parameter layer_0/weight: declared as ' '\^layer_2' '^layer_0'
refuses 'task prices: parameter layer_1/weight: declared as \[16, 16\] before, now as' \
    '        model: {mlp: {width: 16}}' '        model: {mlp: {width: 12}}'
refuses 'task kinds: init_checkpoint: ' 'target: kind' 'init_checkpoint: whole, target: kind'
set_to 'task.trainer_type: .*both' --set task.trainer_type=both
set_to 'task.task_sampler.type: .*nothing' --set task.task_sampler.type=nothing
set_to 'steps_per_epoch: 0' --set task.task_sampler.annealing.steps_per_epoch=0
set_to 'alpha: -1' --set task.task_sampler.proportional.alpha=-1
set_to 'task.model: ' --set 'task.model={a: 1}'
set_to 'validation_loss: which task.s' \
    --set trainer.best_checkpoint_eval_metric=validation_loss
set_to 'task prices: .*validation gives no nothing' \
    --set trainer.best_checkpoint_eval_metric=prices/nothing
set_to 'several tasks have no epoch in common' --set trainer.train_steps=2ep
says 2 'do not say which setting is the size of a batch' \
    train --config tasks.yaml bad --memory 100M
set_to 'joint training takes neither loss_scale nor dp_config' \
    --set runtime.mixed_precision_dtype=bfloat16,runtime.loss_scale=2
# The best is of one task's values, by its name.
train 0 'best prices/validation_rmse' lower --set trainer.best_checkpoint_eval_metric=prices/validation_rmse \
    --set trainer.best_checkpoint_metric_comp=lower
train 0 'best prices|validation_loss' lower2 \
    --set "trainer.best_checkpoint_eval_metric='prices|validation_loss'" \
    --set trainer.best_checkpoint_metric_comp=lower
# A run of another kind is none of this one.
says 0 '^done' train --experiment tabular/mlp --data t.csv --target kind --steps 1 single
says 3 'is a run of tabular/mlp' train --config tasks.yaml single
says 3 'is a run of tabular/mlp, a task of tabular, and multitask/joint is one of multitask' \
    train --config tasks.yaml bad --init single
says 3 'not for a model of multitask, which .etude export. is' predict whole

# ---- ranks ---------------------------------------------------------------------------------------

for type in joint interleaving; do
    for n in 1 3 4; do
        says 0 '^done  *60 steps' launch -n $n -- train --config tasks.yaml "$type$n" \
            --set runtime.data_shards=4,task.trainer_type=$type \
            --set runtime.sharded_optimizer=$([ $n = 4 ] && echo true || echo false)
        sed 's/,*"time":{[^}]*}//g' "$type$n/metrics.jsonl" >"$type$n.logs"
    done
    for n in 3 4; do
        cmp ${type}1/checkpoints/ckpt-60.safetensors $type$n/checkpoints/ckpt-60.safetensors &&
            cmp ${type}1.logs $type$n.logs || fail "$type: $n ranks end elsewhere"
    done
done
echo 'several tasks as settings'
