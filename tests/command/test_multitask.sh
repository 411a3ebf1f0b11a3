#!/bin/sh
# test_multitask.sh ETUDE: several tasks as settings of the command: what they share and what each
# has alone; joint and interleaved training; values of each task by its name. A killed run ends with
# the bytes of an unbroken one, for any number of threads. Wrong settings are reported.
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

# An epoch of a decay is that of all tasks.
decaying() {
    train 0 '^done  *63 steps' "$1" --set "$interleaving" --set trainer.train_epochs=1 --set \
        "trainer.optimizer_config.learning_rate={type: cosine, cosine: {initial_learning_rate: 0.01, decay_steps: $2}}"
    tail -c 3000 "$1/checkpoints/ckpt-63.safetensors" >"$1.tail"
}
decaying decay_epoch 1ep
decaying decay_steps 63
decaying decay_run auto
cmp decay_epoch.tail decay_steps.tail >out 2>&1 || fail 'a decay of 1ep is none of 63 steps'
cmp decay_epoch.tail decay_run.tail >out 2>&1 || fail 'a decay of the run is none of its epoch'

# ---- what there is -----------------------------------------------------------------------------

train 0 '^done  *60 steps.*; best kinds/validation_log_loss' whole
grep -q '^task         kinds: tabular, weight 2$' out || fail 'no line for a task'
grep -q '^all  .* parameters, of which 544 are shared$' out || fail 'shared parameters'
grep -q '^step  epoch  *loss  kinds/log_loss  *prices/r2  *time$' out || fail 'values of tasks by their names'
for file in task_1/schema.yaml task_2/features.yaml validation/kinds best/info.json; do
    [ -e whole/$file ] || fail "no $file in the run"
done
says 0 '^prices/rmse ' evaluate whole
says 0 'whole/task_2/features.yaml' inspect whole
says 3 'whole/task_2/loss.svg is a file that a run writes' \
    plot whole --metric training_loss --output whole/task_2/loss.svg
says 0 '^kinds/logits ' inspect whole
grep -q '^layer_1 ' out || fail 'a shared parameter is called as in one task'
# A limit of the command is of each task that has none of its own: 6 rows a batch, 10 of 30.
says 0 '^kinds/log_loss ' train whole --mode eval --set trainer.validation_steps=1
says 0 '^task.task_sampler.proportional.alpha: 1.0 ' list multitask/joint
says 0 'would take' train --config tasks.yaml --dry-run
# Of a run that is there: each task's files lie in its folder.
says 0 'would take' train whole --steps 70 --dry-run
# Workers and servers are refused before anything is made; what to do instead is said.
says 3 'several tasks cannot be trained with workers and parameter servers; use ranks\|has no ZeroMQ' \
    train --config tasks.yaml spread --distributed --workers 1 --servers 1
[ ! -e spread ] || fail 'leaves spread/'

# ---- one of the tasks, by its name -------------------------------------------------------------

# Its values are those that it has among the others, in the run and alone.
printf 'size,colour,price\n3,red,4.5\n9,blue,0.5\n' >rows.csv
"$etude" evaluate whole | sed -n 's|^kinds/||p' | tr -s ' ' >wanted
[ "$(wc -l <wanted)" -gt 3 ] || fail 'no values to compare with'
"$etude" predict whole --task kinds --full <rows.csv >predicted 2>said || fail 'predict'
[ "$(grep -c '^{"label": "' predicted)" = 2 ] || fail 'no predictions'
for output in kinds kinds.safetensors; do
    says 0 "^exported whole/best/best-.*: $output$" export whole --task kinds --output $output
    "$etude" predict $output --full <rows.csv >out || fail 'predict'
    cmp predicted out || fail "$output predicts something else"
done
for run in 'whole --task kinds' whole/task_1 ./whole/task_1/ '--task=kinds --model-dir whole' \
    'kinds.safetensors --set task.train_data.input_path=t.csv'; do
    # shellcheck disable=SC2086
    "$etude" evaluate $run >found 2>said || fail "evaluate $run"
    sed '1d; /^target /,$d; /^positive class/,$d; /^$/,$d' found | tr -s ' ' | cmp - wanted || fail "$run has other values than among the others"
done
says 0 '^checkpoint whole/best/best-' evaluate whole --task kinds
"$etude" evaluate whole --checkpoint 20 | sed -n 's|^kinds/||p' | tr -s ' ' >wanted
says 0 'whole/checkpoints/ckpt-20.safetensors, step 20' evaluate whole --task kinds --checkpoint 20
sed '1d; /^target /,$d; /^positive class/,$d; /^$/,$d' out | tr -s ' ' | cmp - wanted || fail 'other values at step 20'
# Alone it is measured on all of its data, whatever eval_steps says of it among the others.
"$etude" evaluate whole --set 'task.task_routines[1].eval_steps=0' | sed -n 's|^prices/||p' | tr -s ' ' >wanted
"$etude" evaluate whole --task prices | sed '1d; /^target /,$d; /^$/,$d' | tr -s ' ' | cmp - wanted || fail 'other values of all data'
says 0 '"step": *20' evaluate whole --task prices --checkpoint 20 --json
says 0 'mean.safetensors' average whole --last 2 --output mean.safetensors
says 0 '^checkpoint mean.safetensors' evaluate whole --task kinds --checkpoint mean.safetensors
for task in kinds prices; do
    says 0 "^report  *$task.html$" report whole --task $task --rows 0 --output $task.html
    grep -q "training loss ($task)" $task.html && grep -q 'experiment: multitask' $task.html ||
        fail "$task.html has no curves or no settings of $task"
done
grep -q '^experiment: tabular/mlp' kinds/params.yaml || fail 'not the experiment that it is like'
says 0 'weights of kinds/model' train --init kinds --steps 1 alone
says 3 'whole/task_1 is one of the tasks of whole; export this task first' train --init whole/task_1 drawn
[ ! -e drawn ] || fail 'leaves drawn/'

for command in predict 'export --output x' serve; do
    # shellcheck disable=SC2086
    says 3 'whole has several tasks: add --task NAME, one of kinds, prices$' $command whole
    # shellcheck disable=SC2086
    says 3 'whole: no task is called cost: name one of kinds, prices$' $command whole --task cost
done
says 3 'alone: the run has only one task; leave out --task' predict alone --task kinds
says 2 'no option --task' train whole --task kinds
says 3 'translate: this is a tabular model; use .etude predict.' translate whole --task kinds
says 3 'has the files of task kinds of the run whole: choose another' \
    train whole/task_1 --experiment tabular/mlp --data t.csv --target kind --steps 1
[ ! -e whole/task_1/params.yaml ] || fail 'a run in the folder of a task'
says 3 'the weights of task kinds are in the checkpoints of whole' inspect whole/task_1
says 3 'step 61' export whole --task kinds --checkpoint 61 --output x
[ ! -e x ] || fail 'an export that failed leaves something'
says 0 '^ *--task NAME' predict --help

# What the folder says of itself is not believed blindly.
member() {
    printf 'name: kinds\nexperiment: %s\nsettings: %s\n' "$1" "$2" >bent/task_1/member.yaml
}
cp -r whole bent
echo 'name: [' >bent/task_1/member.yaml
says 3 'bent/task_1/member.yaml' evaluate bent/task_1
member tabular/mlp 'task.task_routines[7].task_config'
says 3 'bent/params.yaml: task.task_routines\[7\].task_config is missing' evaluate bent --task kinds
member tabular/none 'task.task_routines[0].task_config.tabular'
says 3 'no experiment is called tabular/none' evaluate bent --task kinds
cp whole/task_1/member.yaml bent/task_1
sed 's/width: 16/width: 12/' whole/params.yaml >bent/params.yaml
says 3 'bent/params.yaml does not match .*task.model.mlp.width is 12, but was 16' \
    evaluate bent --task kinds
cp whole/params.yaml bent
sed 's/clip/scale/' whole/task_1/features.yaml >bent/task_1/features.yaml
says 3 'bent/task_1/features.yaml' evaluate bent --task kinds
says 3 'bent/task_1/features.yaml' predict bent --task kinds

# ---- epochs, memory ----------------------------------------------------------------------------

# How many steps a training had.
steps() {
    sed -n 's/^done  *\([0-9,]*\) steps\{0,1\}.*/\1/p' out | tr -d ,
}
# of_one TARGET TABLE BATCH: steps of an epoch of the task alone.
of_one() {
    says 0 '^done' train --experiment tabular/mlp --data "$2" --target "$1" --steps 1ep one \
        --set "task.train_data.batch_size=$3"
    steps
    rm -r one
}
epoch() {
    train 0 "^done" epoch --steps 1ep "$@"
    steps
    rm -r epoch
}
kinds_steps=$(of_one kind t.csv 16) prices_steps=$(of_one price u.csv 8)
[ "$kinds_steps" = 22 ] && [ "$prices_steps" = 21 ] || fail "$kinds_steps, $prices_steps steps of one task"
# Joint: the one with most batches. By weights 2 and 1: the second is drawn once in three steps.
[ "$(epoch)" = 22 ] || fail 'an epoch of joint training'
[ "$(epoch --set $interleaving)" = 63 ] || fail 'an epoch by weight'
[ "$(epoch --set $interleaving,task.task_sampler.type=uniform)" = 44 ] ||
    fail 'an epoch of alike tasks'
[ "$(epoch --set $interleaving,task.task_sampler.type=annealing)" = 5 ] || fail 'an epoch of annealing'
[ "$(epoch --set trainer.gradient_accumulation=2)" = 11 ] ||
    fail 'an epoch of accumulated gradients'
# What is told of it is that of the task which is least far, also after a resume.
"$etude" train --config tasks.yaml told -q --steps 2ep --set $interleaving,trainer.summary_interval=1
sed -n 's/.*"step":\([0-9]*\),"train".*"epoch":\([0-9]*\).*/\1 \2/p' told/metrics.jsonl >found
awk '$2 < last { exit 1 } { last = $2 } END { exit !(NR == 126 && last > 1) }' found ||
    fail 'epochs go back'
for steps in 50 126; do
    "$etude" train --config tasks.yaml told2 -q --steps $steps --set $interleaving,trainer.summary_interval=1
done
sed -n 's/.*"step":\([0-9]*\),"train".*"epoch":\([0-9]*\).*/\1 \2/p' told2/metrics.jsonl | cmp - found ||
    fail 'other epochs after a resume'
says 3 'batches, too many for epochs; give trainer.train_steps and intervals in steps' train --config tasks.yaml bad --steps 1ep --set $interleaving \
    --set task.task_sampler.proportional.alpha=100
[ ! -e bad ] || fail 'leaves bad/'

# Privacy is of one task's gradients: refused for all and for one of them.
says 3 'differential_privacy_config: .*differential privacy is not supported for several tasks' \
    train --config tasks.yaml bad --set 'task.differential_privacy_config={clipping_norm: 1}'
printf 'a b c\n' >text
sed 's/^  - task_name: prices$/&\
    task_config:\
      type: translation\
      translation:\
        train_data: {source_path: text, target_path: text}\
        differential_privacy_config: {clipping_norm: 1}\
  - task_name: third/' tasks.yaml >private.yaml
says 3 'task_routines\[1\], prices (translation): differential_privacy_config: not supported for several' \
    train --config private.yaml bad
[ ! -e bad ] || fail 'leaves bad/'

# Batches grow as they are to each other, 16 to 8; the plan fits; a run that is there keeps its own.
train 0 '^done' fitted --memory 200k --steps 2
most=$(sed -n 's/^memory  *\([0-9.]*\) kB planned.*/\1/p' out)
awk "BEGIN { exit !($most <= 200 && $most > 150) }" || fail "--memory 200k plans $most kB"
batches=$(sed -n 's/^ *batch_size: \([0-9]*\)$/\1/p' fitted/params.yaml | sed -n '1p;3p' | tr '\n' ' ')
awk "BEGIN { split(\"$batches\", b, \" \"); exit !(b[1] > 16 && b[1] == 2 * b[2]) }" ||
    fail "--memory 200k: batches $batches"
says 0 '^done  *3 steps' train fitted --memory 100k --steps 3
[ "$(sed -n 's/^memory  *\([0-9.]*\) kB planned.*/\1/p' out)" = "$most" ] || fail 'other batches'
says 4 '--memory 10.0 kB is too little; the smallest possible batch,' train --config tasks.yaml bad --memory 10k

# ---- exact -------------------------------------------------------------------------------------

same() {
    cmp "$1/checkpoints/ckpt-60.safetensors" "$2/checkpoints/ckpt-60.safetensors" >out 2>&1 ||
        fail "$2 ends elsewhere than $1"
}
OMP_NUM_THREADS=2 train 0 '^done' again
same whole again

# attempt DELAY: the run `killed` with $set, killed after so many seconds.
attempt() {
    code=0
    timeout --foreground --preserve-status -s KILL "$1" "$etude" train --config tasks.yaml killed \
        --set "$set" --set trainer.checkpoint_interval=20 >out 2>&1 || code=$?
    [ $code = 0 ] || [ $code = 137 ] || fail "a run that was killed ends with $code"
    [ $code = 0 ] || kills=$((kills + 1))
}
for sampler in uniform 'proportional,task.task_sampler.proportional.alpha=0.5' \
    'annealing,task.task_sampler.annealing.steps_per_epoch=10,task.task_sampler.annealing.total_steps=50'; do
    set="$interleaving,task.task_sampler.type=$sampler"
    rm -rf straight killed
    train 0 '^done  *60 steps' straight --set "$set"
    kills=0
    for delay in 0.05 0.1 0.15 0.2 0.25; do
        attempt $delay
    done
    for delay in 0.02 0.01 0.005; do # a machine that is faster than all of these
        [ $kills -gt 0 ] || { rm -rf killed && attempt $delay; }
    done
    [ $kills -gt 0 ] || fail 'no kill came before the end of a run'
    train 0 '^\(done\|finished\)' killed --set "$set"
    same straight killed
    mv straight "${sampler%%,*}"
done
cmp -s uniform/checkpoints/ckpt-60.safetensors annealing/checkpoints/ckpt-60.safetensors &&
    fail 'samplers draw alike'
# In the middle of the joint run, where the state is of two tasks.
for delay in 0.05 0.1 0.15 0.2; do
    timeout --foreground --preserve-status -s KILL $delay "$etude" train --config tasks.yaml broken \
        >out 2>&1 || :
done
train 0 '^\(done\|finished\)' broken
same whole broken

# ---- another model's weights -------------------------------------------------------------------

train 0 'weights of whole' next --init whole --set trainer.train_steps=1
# Files go by the tasks' names, as weights do.
awk '/task_name: kinds/ { held = 1 } /task_name: prices/ { held = 0 } /^trainer:/ { printf "%s", later }
    held { later = later $0 "\n"; next } { print }' tasks.yaml >turned.yaml
says 0 'weights of whole' train --config turned.yaml turned --init whole --steps 1
for file in schema.yaml metadata.json features.yaml; do
    cmp "turned/task_1/$file" "whole/task_2/$file" || fail "$file is another task's"
done
train 0 '^done' drawn --set task.init_checkpoint=whole --set task.init_pattern=^layer_1 \
    --set trainer.train_steps=1

# ---- what may not change -----------------------------------------------------------------------

changed() {
    text=$1 from=$2 to=$3
    sed "s|$from|$to|" tasks.yaml >changed.yaml
    cmp -s tasks.yaml changed.yaml && fail "$from: is not in the settings"
    says 3 "$text" train --config changed.yaml whole
}
changed 'task.shared: \["^layer_1", "^layer_2"\], but now' '\^layer_1, \^layer_2' '^layer_1'
changed 'task_routines\[0\].task_weight: 2.0, but now it is 3' 'task_weight: 2' 'task_weight: 3'
changed 'task_routines\[1\].task_name: prices, but now it is cost' 'task_name: prices' 'task_name: cost'
changed 'tabular.model.mlp.width: 16' 'target: kind, model: {mlp: {width: 16}}' \
    'target: kind, model: {mlp: {width: 8}}'
changed 'tabular.target: kind, but now it is colour' 'target: kind' 'target: colour'
sed '/task_name: prices/,/width: 16}}$/d' tasks.yaml >changed.yaml
says 3 'task.task_routines\[\]: 2, but now it is 1' train --config changed.yaml whole
says 3 'task.trainer_type: joint, but now it is interleaving' \
    train --config tasks.yaml whole --set $interleaving
cp -r uniform moved
says 3 'task.task_sampler.type: uniform, but now it is proportional' \
    train --config tasks.yaml moved --set $interleaving
# What may change does: where files lie, how long.
cp t.csv elsewhere.csv
sed 's/input_path: t.csv/input_path: elsewhere.csv/' tasks.yaml >changed.yaml
says 0 '^done  *61 steps' train --config changed.yaml again --set trainer.train_steps=61
sed 's/flat/oval/' t.csv >elsewhere.csv
says 3 'task kinds: .*elsewhere.csv' train --config changed.yaml again --set trainer.train_steps=62
# A task's files are its checkpoint's.
sed 's/clip/scale/' broken/task_1/features.yaml >features.yaml
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
says 3 'task.task_routines: 0 tasks; give 1 to 16' train --experiment multitask/joint bad
refuses 'bad.yaml:5: task.task_routines\[0\].task_nam: no such setting. Nearest: task_name' \
    'task_name: kinds' 'task_nam: kinds'
refuses '\[0\].task_name: "a b": give up to 64 letters' 'task_name: kinds' 'task_name: a b'
refuses '\[0\].task_name: "": give up to 64' 'task_name: kinds' 'task_name: ""'
refuses '\[0\].task_name: "../x": give up to 64' 'task_name: kinds' 'task_name: ../x'
refuses '\[0\].task_name: optimizer is a reserved name in checkpoints; choose another' 'task_name: kinds' \
    'task_name: optimizer'
refuses '\[1\].task_name: \[0\] also has the name kinds; rename one' 'task_name: prices' 'task_name: kinds'
refuses 'task_weight: -1' 'task_weight: 2' 'task_weight: -1'
refuses 'task_weight' 'task_weight: 2' 'task_weight: 0'
refuses 'task_weight' 'task_weight: 2' 'task_weight: .nan'
refuses 'eval_steps: -1' 'eval_steps: 1' 'eval_steps: -1'
refuses 'task_config.type: .*nothing' 'type: tabular' 'type: nothing'
refuses 'task.task_routines\[0\].task_config.tabula: no such setting. Nearest: tabular' \
    '      tabular: {train' '      tabula: {train'
refuses 'task.task_routines\[0\], kinds (tabular): task.target is not set' 'target: kind, ' ''
refuses 'task kinds: .*t.csv: there is no column "kin". Nearest: kind' 'target: kind' 'target: kin'
refuses 'task prices: .*none.csv' 'u.csv' 'none.csv'
refuses 'task.shared: no parameter of any task matches "layer_9"' '\^layer_2' 'layer_9'
refuses "task.shared: '^layer_2(' is not a regular expression:" '\^layer_2' '"^layer_2("'
refuses 'task prices: parameter layer_0/weight: declared as ' '\^layer_2' '^layer_0'
refuses 'task prices: parameter layer_1/weight: declared as \[16, 16\] before, now as' \
    '        model: {mlp: {width: 16}}' '        model: {mlp: {width: 12}}'
refuses 'task kinds: init_checkpoint: ' 'target: kind' 'init_checkpoint: whole, target: kind'
set_to 'task.trainer_type: .*both' --set task.trainer_type=both
set_to 'task.task_sampler.type: .*nothing' --set task.task_sampler.type=nothing
set_to 'steps_per_epoch: 0' --set task.task_sampler.annealing.steps_per_epoch=0
set_to 'alpha: -1' --set task.task_sampler.proportional.alpha=-1
set_to 'task.model: ' --set 'task.model={a: 1}'
set_to 'task_routines\[2\].eval_steps: task_routines has 2 items' --set 'task.task_routines[2].eval_steps=1'
set_to 'task_config.tabular.train_data.nothing: no such setting' \
    --set 'task.task_routines[1].task_config.tabular.train_data.nothing=1'
set_to 'validation_loss does not name a task' \
    --set trainer.best_checkpoint_eval_metric=validation_loss
set_to 'task prices: .*validation has no value nothing' \
    --set trainer.best_checkpoint_eval_metric=prices/nothing
set_to 'joint training supports neither loss_scale nor dp_config (runtime.loss_scale, task.differential_privacy_config)' \
    --set runtime.mixed_precision_dtype=bfloat16,runtime.loss_scale=2
# The best is of one task's values, by its name.
train 0 'best prices/validation_rmse' lower --set trainer.best_checkpoint_eval_metric=prices/validation_rmse \
    --set trainer.best_checkpoint_metric_comp=lower
says 0 '^log_loss' evaluate lower --task kinds
says 3 'no attention to draw; give --task NAME and --attention FILE' plot lower --attention x --output x.svg
train 0 'best prices|validation_loss' lower2 \
    --set "trainer.best_checkpoint_eval_metric='prices|validation_loss'" \
    --set trainer.best_checkpoint_metric_comp=lower
# A run of another kind is none of this one.
says 0 '^done' train --experiment tabular/mlp --data t.csv --target kind --steps 1 single
says 3 'is a run of tabular/mlp' train --config tasks.yaml single
says 3 'is a run of tabular/mlp, a task of tabular, but multitask/joint is a task of multitask' \
    train --config tasks.yaml bad --init single

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
