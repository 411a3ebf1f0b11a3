#!/bin/sh
# test_refused.sh ETUDE: settings that the reference systems refuse, or should refuse. Each command
# ends with the exit code for settings or usage, names the setting, the value and the cure, and
# leaves no file. Columns of the rows: the place in Model Garden, the message, the command.
set -eu
. "$(dirname "$0")/command.sh"
export OMP_NUM_THREADS=1
make_table
rows=0

# row CODE TEXT ARGUMENT...
row() {
    code=$1 text=$2
    shift 2
    says "$code" "$text" train --experiment tabular/mlp --data t.csv --target kind --steps 2 \
        --model-dir bad "$@"
    [ "$(wc -l <out)" = 1 ] || fail "$*: more than one line"
    [ ! -e bad ] || fail "$*: leaves something behind"
    rows=$((rows + 1))
}
set_to() {
    text=$1
    shift
    row 3 "$text" --set "$1"
}
o=trainer.optimizer_config

# ---- optimizers and schedules (OptimizationConfig, lr_schedule) ----
set_to 'trainer.optimizer_config.optimizer.type is not set; set it to one of sgd' $o.optimizer.type=none
set_to 'optimizer.type: slide is not allowed here: Model Garden defines .* no code for it (allowed: none, sgd' \
    "$o.optimizer={type: slide}"
set_to 'adafactor is not allowed here: .*use adafactor_keras' "$o.optimizer={type: adafactor}"
set_to 'adam: clipnorm and global_clipnorm are both set; set one of them to 0' \
    "$o.optimizer={type: adam, adam: {clipnorm: 1, global_clipnorm: 1}}"
set_to "optimizer_config.optimizer.adamw.exclude_from_weight_decay: '(' is not a regular expression" \
    "$o.optimizer={type: adamw, adamw: {exclude_from_weight_decay: ['(']}}"
set_to 'learning_rate.type is not set; set it to constant' $o.learning_rate.type=none
set_to 'learning_rate.type: no choice is called magic' $o.learning_rate.type=magic
set_to 'stepwise: 2 boundaries and 2 values; give one more value than boundaries' \
    "$o.learning_rate={type: stepwise, stepwise: {boundaries: [1, 2], values: [1, 2]}}"
set_to 'stepwise.boundaries: 1 follows 2; sort them' \
    "$o.learning_rate={type: stepwise, stepwise: {boundaries: [2, 1], values: [1, 2, 3]}}"
set_to 'step_cosine_with_offset: 2 boundaries and 1 values; give equal numbers of both' \
    "$o.learning_rate={type: step_cosine_with_offset, step_cosine_with_offset: {boundaries: [1, 2], values: [1]}}"
set_to 'cosine_restarts.first_decay_steps: give a number greater than 0' \
    "$o.learning_rate={type: cosine_restarts, cosine_restarts: {initial_learning_rate: 1}}"
set_to 'cosine.offset: 1000000 steps leave no step of [0-9]* for the decay' \
    "$o.learning_rate={type: cosine, cosine: {initial_learning_rate: 1, offset: 1000000}}"
set_to 'polynomial.initial_learning_rate: give a number greater than 0' \
    "$o.learning_rate={type: polynomial, polynomial: {decay_steps: 5}}"
set_to 'exponential.decay_rate: give a number greater than 0' "$o.learning_rate={type: exponential}"
set_to 'warmup.linear.warmup_steps: -1 is out of range' \
    "$o.warmup={type: linear, linear: {warmup_steps: -1}}"
set_to 'ema.average_decay: 2 is out of range; allowed: 0 to 1' $o.ema.average_decay=2

# ---- trainer and runtime (TrainerConfig, RuntimeConfig, CheckpointManager) ----
set_to 'max_to_keep: -1 is out of range; allowed: 0 to' trainer.max_to_keep=-1
set_to 'steps_per_loop: 0 is out of range' trainer.steps_per_loop=0
set_to 'summary_interval: -1 is out of range' trainer.summary_interval=-1
set_to 'checkpoint_interval: 1.5 is not an integer' trainer.checkpoint_interval=1.5
set_to 'gradient_accumulation: 0 is out of range' trainer.gradient_accumulation=0
set_to 'recovery_max_trials: -2 is out of range; allowed: -1 to' trainer.recovery_max_trials=-2
set_to 'metric_comp: no choice is called best (allowed: higher, lower, auto)' \
    trainer.best_checkpoint_metric_comp=best
set_to 'validation has no value acuracy. Nearest: accuracy (it has: validation_loss' \
    trainer.best_checkpoint_eval_metric=acuracy
set_to 'validation has no value many|accuracy' "trainer.best_checkpoint_eval_metric='many|accuracy'"
set_to 'validation has no value validation_rmse (it has: .*validation_accuracy' \
    trainer.best_checkpoint_eval_metric=validation_rmse
set_to 'needs validation, but trainer.validation_interval is 0; set an interval' \
    trainer.best_checkpoint_eval_metric=validation_loss,trainer.validation_interval=0,trainer.early_stopping.patience=0
set_to 'runtime.loss_scale: many; give dynamic, a positive number or null' runtime.loss_scale=many
set_to 'runtime.loss_scale: -1; give dynamic' runtime.loss_scale=-1
set_to 'mixed_precision_dtype: no choice is called float8. Nearest: float32' \
    runtime.mixed_precision_dtype=float8
set_to 'distribution_strategy: no choice is called warp (allowed: off, one_device' \
    runtime.distribution_strategy=warp
set_to 'distribution_strategy: no choice is called false (allowed: off' \
    runtime.distribution_strategy=false
set_to 'num_gpus: only 0 is allowed here, not -1' runtime.num_gpus=-1
set_to 'run_eagerly: only false is allowed here, not' runtime.run_eagerly=true
row 3 'trainer.train_steps: 0; set the number of updates' --steps 0
row 3 'initializing with the weights of nowhere: cannot open nowhere' \
    --set task.init_checkpoint=nowhere

# ---- how settings are written (hyperparams) ----
set_to 'trainer: a group of settings, not an integer; name one setting of the group (.*train_steps' trainer=5
set_to 'early_stopping: a group of settings, not an integer; name one setting of the group (patience, ' \
    trainer.early_stopping=3
set_to "global_clipnom: no such setting. Nearest: trainer.optimizer_config.optimizer" global_clipnom=3
set_to 'train_steps is a single setting, not a group; remove what follows it' trainer.train_steps.x=5
set_to 'trainer.train_step: no such setting. Nearest: train_steps' trainer.train_step=5
set_to 'task.train_data.batch_size: "yes" is not an integer' task.train_data.batch_size=yes
set_to 'input_path\[0\] is missing; set all items of a list together' \
    'task.train_data.input_path[1]=a'
set_to 'input_path: item 1 is a list, not text' 'task.train_data.input_path[0]=[a]'
row 2 'neither key=value' --set nothing
row 3 'cannot open none.yaml' --config none.yaml
row 3 '. is a directory, not a file' --config .
printf 'trainer: {train_steps: 3' >bad.json
row 3 'bad.json:1:7: not JSON' --config bad.json
printf 'trainer: {train_steps: 3' >bad.yaml
row 3 'bad.yaml:2:1: not YAML' --config bad.yaml
printf 'trainer: &x {train_steps: 3}\nruntime: *x\n' >bad.yaml
row 3 'bad.yaml:1: the anchor &x is not allowed here; leave it out' --config bad.yaml
printf 'trainer:\n\ttrain_steps: 3\n' >bad.yaml
row 3 'bad.yaml:2:1: not YAML: .*indent with spaces, not tabs' --config bad.yaml
printf 'trainer: {train_steps: 3, train_steps: 4}\n' >bad.yaml
row 3 'bad.yaml:1: train_steps is set here and in line 1; keep one of them' --config bad.yaml
printf 'experiment: tabular/linear\n' >bad.yaml
row 3 'bad.yaml:1: these are settings for tabular/linear, not for tabular/mlp' --config bad.yaml

# ---- modes and data (flags, input_reader) ----
row 2 'mode: no choice is called fly (allowed: train, eval' --mode fly
row 2 '--mode train_and_validate: Model Garden documents but never implemented this mode; use train_and_eval' --mode train_and_validate
row 3 'train_and_post_eval: the settings name no validation data' --mode train_and_post_eval \
    --set task.held_out=0
row 3 'no file matches none-\*.csv' --set 'task.train_data.input_path=none-*.csv'
row 3 'task.train_data.input_path names no file; name the training table, for example with --data train.csv' --set 'task.train_data.input_path=[]'
row 3 'validation_data: sets and input_path are both set' --valid t.csv \
    --set 'task.validation_data.sets=[{name: a, input_path: t.csv}]'
row 3 'train_data: mix and input_path are both set' --set 'task.train_data.mix=[{input_path: t.csv}]'
row 3 'train_data.mix\[1\] names no file' \
    --set 'task.train_data={input_path: [], mix: [{input_path: t.csv}, {weight: 2}]}'
row 3 'validation_data.mix: a mix is only for training' --set 'task.validation_data.mix=[{input_path: t.csv}]'
row 3 'bad: no such directory; name a directory that' --mode eval
row 3 'bad: no such directory; name a directory that' --mode eval --set 'task.train_data.input_path=[]'
echo "$rows settings and words are refused"
