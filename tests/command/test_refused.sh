#!/bin/sh
# test_refused.sh ETUDE: what the reference systems refuse in settings, and what they should: each ends
# with the code of settings or of usage, says which setting, which value and what instead, and leaves
# nothing behind. Rows: where Model Garden has it, what is said, what is typed.
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
set_to 'optimizer.type: none is chosen; set it to one of sgd' $o.optimizer.type=none
set_to 'optimizer.type: slide is not taken here: Model Garden has .* no code for it (allowed: none, sgd' \
    "$o.optimizer={type: slide}"
set_to 'adafactor is not taken here: .*is adafactor_keras' "$o.optimizer={type: adafactor}"
set_to 'adam: clipnorm and global_clipnorm are both set; set one of them to 0' \
    "$o.optimizer={type: adam, adam: {clipnorm: 1, global_clipnorm: 1}}"
set_to "optimizer_config.optimizer.adamw.exclude_from_weight_decay: '(' is no regular expression" \
    "$o.optimizer={type: adamw, adamw: {exclude_from_weight_decay: ['(']}}"
set_to 'learning_rate.type: none is chosen; set it to constant' $o.learning_rate.type=none
set_to 'learning_rate.type: no such choice as magic' $o.learning_rate.type=magic
set_to 'stepwise: 2 boundaries and 2 values; give one value more than boundaries' \
    "$o.learning_rate={type: stepwise, stepwise: {boundaries: [1, 2], values: [1, 2]}}"
set_to 'stepwise.boundaries: 1 after 2; they must ascend' \
    "$o.learning_rate={type: stepwise, stepwise: {boundaries: [2, 1], values: [1, 2, 3]}}"
set_to 'step_cosine_with_offset: 2 boundaries and 1 values; give as many of both' \
    "$o.learning_rate={type: step_cosine_with_offset, step_cosine_with_offset: {boundaries: [1, 2], values: [1]}}"
set_to 'cosine_restarts.first_decay_steps: must be set to more than 0' \
    "$o.learning_rate={type: cosine_restarts, cosine_restarts: {initial_learning_rate: 1}}"
set_to 'cosine.offset: 1000000 steps of a run of [0-9]*: none is left for the decay' \
    "$o.learning_rate={type: cosine, cosine: {initial_learning_rate: 1, offset: 1000000}}"
set_to 'polynomial.initial_learning_rate: must be set to more than 0' \
    "$o.learning_rate={type: polynomial, polynomial: {decay_steps: 5}}"
set_to 'exponential.decay_rate: must be set to more than 0' "$o.learning_rate={type: exponential}"
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
set_to 'metric_comp: no such choice as best (allowed: higher, lower, auto)' \
    trainer.best_checkpoint_metric_comp=best
set_to 'validation gives no acuracy (it gives: validation_loss' \
    trainer.best_checkpoint_eval_metric=acuracy
set_to 'validation gives no many|accuracy' "trainer.best_checkpoint_eval_metric='many|accuracy'"
set_to 'validation gives no validation_rmse (it gives: .*validation_accuracy' \
    trainer.best_checkpoint_eval_metric=validation_rmse
set_to 'is never known with trainer.validation_interval: 0; set an interval' \
    trainer.best_checkpoint_eval_metric=validation_loss,trainer.validation_interval=0,trainer.early_stopping.patience=0
set_to 'runtime.loss_scale: many; give dynamic, a positive number or null' runtime.loss_scale=many
set_to 'runtime.loss_scale: -1; give dynamic' runtime.loss_scale=-1
set_to 'mixed_precision_dtype: no such choice as float8. Nearest: float32' \
    runtime.mixed_precision_dtype=float8
set_to 'distribution_strategy: no such choice as warp (allowed: off, one_device' \
    runtime.distribution_strategy=warp
set_to 'distribution_strategy: no such choice as false (allowed: off' \
    runtime.distribution_strategy=false
set_to 'num_gpus: only 0 is taken here, not -1' runtime.num_gpus=-1
set_to 'run_eagerly: only false is taken here' runtime.run_eagerly=true
row 3 'trainer.train_steps: 0; say how many updates to train' --steps 0
row 3 'beginning with the weights of nowhere: cannot open nowhere' \
    --set task.init_checkpoint=nowhere

# ---- how settings are written (hyperparams) ----
set_to 'trainer: is a group of settings, not an integer; name one of them (.*train_steps' trainer=5
set_to 'early_stopping: is a group of settings, not an integer; name one of them (patience, ' \
    trainer.early_stopping=3
set_to "global_clipnom: no such setting. Nearest: trainer.optimizer_config.optimizer" global_clipnom=3
set_to 'train_steps is one setting, nothing is below it' trainer.train_steps.x=5
set_to 'trainer.train_step: no such setting. Nearest: train_steps' trainer.train_step=5
set_to 'task.train_data.batch_size: "yes" is not an integer' task.train_data.batch_size=yes
set_to 'input_path\[0\]: is missing; the items of a list are all set together' \
    'task.train_data.input_path[1]=a'
set_to 'input_path: item 1 is a list, not text' 'task.train_data.input_path[0]=[a]'
row 2 'not of the form key=value' --set nothing
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
row 3 'bad.yaml:1: train_steps stands here and at line 1; keep one of them' --config bad.yaml
printf 'experiment: tabular/linear\n' >bad.yaml
row 3 'bad.yaml:1: these are settings for tabular/linear, not for tabular/mlp' --config bad.yaml

# ---- modes and data (flags, input_reader) ----
row 2 'mode: no such choice as fly (allowed: train, eval' --mode fly
row 2 'train_and_validate: Model Garden names it and never implemented it' --mode train_and_validate
row 3 'train_and_post_eval: the settings name no validation data' --mode train_and_post_eval \
    --set task.held_out=0
row 3 'no file is like none-\*.csv' --set 'task.train_data.input_path=none-*.csv'
row 3 'train_data.input_path: no file; name the table' --set 'task.train_data.input_path=[]'
row 3 'validation_data: sets and input_path are both set' --valid t.csv \
    --set 'task.validation_data.sets=[{name: a, input_path: t.csv}]'
row 3 'train_data: mix and input_path are both set' --set 'task.train_data.mix=[{input_path: t.csv}]'
row 3 'train_data.mix\[1\]: names no file' \
    --set 'task.train_data={input_path: [], mix: [{input_path: t.csv}, {weight: 2}]}'
row 3 'validation_data.mix: what is scored is no mix' --set 'task.validation_data.mix=[{input_path: t.csv}]'
row 3 'bad: no such directory; name the one that' --mode eval
row 3 'bad: no such directory; name the one that' --mode eval --set 'task.train_data.input_path=[]'
echo "$rows settings and words are refused"
