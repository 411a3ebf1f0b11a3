#!/bin/sh
# test_words.sh ETUDE: words that people know from other programs: short options, options that have
# another name here, and settings that would have no effect.
set -eu
. "$(dirname "$0")/command.sh"

awk 'BEGIN { srand(1); print "a,b,c"; for (i = 0; i < 300; i++) { x = rand()
    print x "," rand() "," (x > 0.5 ? "yes" : "no") } }' >t.csv
o=trainer.optimizer_config
n=0

# train CODE TEXT ARGUMENT...
train() {
    code=$1 text=$2
    shift 2
    n=$((n + 1))
    says "$code" "$text" train "r$n" --experiment tabular/mlp --data t.csv --target c --steps 3 "$@"
}
# kept TEXT: a line of the last run's settings.
kept() {
    grep -q "^ *$1\$" "r$n/params.yaml" || { cat "r$n/params.yaml"; exit 1; }
}

# The rate is the peak of the schedule that is chosen, wherever the choice stands.
train 0 '^done' --lr 0.25
kept 'learning_rate: 0.25'
train 0 '^done' --lr 0.25 --set "$o.learning_rate.type=cosine"
kept 'initial_learning_rate: 0.25'
! grep -q peak "r$n/params.yaml"
train 0 '^done' --set "$o.learning_rate=0.25,$o.learning_rate.type=inverse_sqrt"
kept 'peak_learning_rate: 0.25'
train 3 'lr: trainer.*peak: "high" is not a number' --lr high
train 3 'learning_rate: 1 and .*constant.learning_rate set the same rate' --lr 1 \
    --set "$o.learning_rate.constant.learning_rate=1"

# A setting of what is not chosen.
train 3 "$o.learning_rate.cosine.alpha: has no effect while $o.learning_rate.type is constant" \
    --set "$o.learning_rate.cosine.alpha=0.1"
train 3 'optimizer.sgd.momentum: has no effect' --set "$o.optimizer.sgd.momentum=0.9"
train 3 'warmup.linear.warmup_steps: has no effect' --set "$o.warmup.linear.warmup_steps=9"
train 3 'model.resnet.width: has no effect while task.model.type is mlp' --set task.model.resnet.width=8
train 3 'huber_delta: has no effect while task.loss is auto' --set task.huber_delta=2
train 3 'task.init_pattern: has no effect while task.init_checkpoint is null; set task.init_checkpoint' \
    --set task.init_pattern=layer
train 3 'task.calibration_bins: the target b is a number' --target b --set task.calibration_bins=5
train 0 'task.held_out has no effect, because validation_data names files' --valid t.csv \
    --set task.held_out=0.3
# Features that are named say themselves what becomes of columns, and metadata what was counted.
"$etude" train --experiment tabular/mlp --data t.csv --target c --steps 1 -q own
for set in features.numeric=quantile 'features={discrete: one-hot}'; do
    train 3 'task.features.[a-z]*: has no effect while task.features_path is own/features.yaml' \
        --set task.features_path=own/features.yaml --set "task.$set"
done
train 3 'task.entries: has no effect while task.metadata_path is own/metadata.json' \
    --set task.metadata_path=own/metadata.json,task.schema_path=own/schema.yaml,task.entries=3
printf 'task:\n  features_path: own/features.yaml\n  features: {numeric: scale}\n' >both.yaml
train 3 'both.yaml:3: task.features.numeric: has no effect' --config both.yaml
train 0 'number, unchanged' --set task.schema_path=own/schema.yaml,task.features.numeric=identity
train 0 'by its quantiles' --set task.schema_path=own/schema.yaml,task.features.numeric=quantile
train 0 '' --set task.features_path=own/features.yaml
train 3 'columns.bins: has no effect while' --set 'task.model.mlp.columns={numbers: plain, bins: 4}'
train 3 'ema.average_decay: has no effect while .*ema.enabled is false' \
    --set "$o.ema.average_decay=0.5,$o.ema.enabled=false"
train 0 '^done' --set "$o.optimizer.sgd.momentum=0.5" --set "$o.optimizer.type=sgd"
kept 'momentum: 0.5'
echo 'task: {model: {resnet: {width: 8}}}' >resnet.yaml
train 3 'resnet.yaml:1: task.model.resnet.width: has no effect' --config resnet.yaml
train 0 '^done' --config resnet.yaml --set task.model.type=resnet
says 3 'resnet.width: has no effect' evaluate "r$n" --set task.model.mlp.width=3,task.model.type=mlp,task.model.resnet.width=3

train 0 '^done' --set 'task.class_weights={yes: 3}'
train 3 'maybe is not a class of' --set 'task.class_weights={maybe: 3}'

# One word for several settings: those of the model that is chosen.
train 0 '^done' --dropout 0.5 --layers 1 --batch-size 16 --device cpu
kept 'dropout: 0.5'
kept 'num_layers: 1'
kept 'batch_size: 16'
echo 'task: {model: {type: resnet}}' >resnet.yaml
train 0 '^done' --config resnet.yaml --dropout 0.5 --layers 1
kept 'hidden_dropout: 0.5'
kept 'num_blocks: 1'
says 2 'the model of tabular/linear has no such setting' train l --experiment tabular/linear \
    --data t.csv --target c --steps 3 --dropout 0.5
says 3 '^etude: .*dropout: .* is out of range' train l --experiment tabular/mlp \
    --data t.csv --target c --steps 3 --dropout 2

# What it is here.
train 2 'device: only cpu is allowed here, not cuda: Etude does not use a GPU' --device cuda
train 2 'train: no option --gpus: Etude does not use a GPU' --gpus 1
train 2 'train: no option --gpus: Etude does not use a GPU' --gpus=all
for command in predict translate evaluate serve; do
    says 2 "$command: no option --gpus: Etude does not use a GPU" $command none --gpus 0
    says 2 'device: only cpu is allowed here, not cuda:0: Etude does not use a GPU' $command none --device cuda:0
done
says 2 'predict: no option --cuda: Etude does not use a GPU' predict none --cuda
train 2 'no option --resume: an existing run is resumed' --resume
train 2 'no option --overwrite: a run is never overwritten' --overwrite
train 0 'note  *--learning-rate is --lr' --learning-rate=0.25
kept 'learning_rate: 0.25'
train 2 'no option -e; options are whole words, such as .*--epochs' -e 3
train 2 'no option -o; options are whole words, such as --output-dir' -o r
says 2 'no option -m; options are whole words, such as --model-dir' evaluate -m r1
says 0 '^done' train --output-dir named --experiment tabular/mlp --data t.csv --target c --steps 3
! "$etude" train --help | grep -q -e '--overwrite'
