#!/bin/sh
# test_short_options.sh ETUDE: short forms of settings, steps in epochs, and early stopping.
set -eu
. "$(dirname "$0")/command.sh"

# train CODE TEXT ARGUMENT...: `etude train` ends with CODE, and TEXT is in what it prints.
train() {
    code=$1 text=$2
    shift 2
    says "$code" "$text" train "$@"
}

awk 'BEGIN { for (i = 0; i < 200; i++) { line = ""; for (k = 0; k <= i % 7; k++)
    line = line sprintf("%c%c ", 97 + (i * 7 + k * 3) % 26, 97 + (i + k * 5) % 26)
    print line } }' > 'a: text'
small='{task: {model: {embedding_width: 32, encoder: {num_layers: 1}, decoder: {num_layers: 1}},
    train_data: {global_batch_size: 256, shuffle_pool: 64}}}'

# Words are text whatever they hold; RUN is a word too.
train 0 '^done  *9 steps in ' --experiment translation/tiny run --data 'a: text' 'a: text' --steps 9 \
    --vocab-size 60 --seed 3 --set "$small"
grep -q "^  seed: 3$" run/params.yaml
grep -q "^    size: 60$" run/params.yaml

# A pass has as many steps as batches; what is given in epochs is kept so.
train 0 '^done  *[0-9]* steps in ' run --epochs 2 --set trainer.checkpoint_interval=1ep
steps=$(sed -n 's/^done  *\([0-9]*\) steps.*/\1/p' out)
[ "$steps" -gt 9 ] && [ $((steps % 2)) = 0 ]
[ -e "run/checkpoints/ckpt-$((steps / 2)).safetensors" ]
grep -q '^  checkpoint_interval: 1ep$' run/params.yaml

# The rate 0 learns nothing, so no validation is better than the first.
train 0 'steps, stopped early, in .*; best validation_accuracy ' --experiment translation/tiny early --data 'a: text' 'a: text' \
    --valid 'a: text' 'a: text' --steps 40 --vocab-size 60 --set "$small" --set \
    '{trainer: {validation_interval: 5, early_stopping: {patience: 2},
        best_checkpoint_eval_metric: validation_accuracy, optimizer_config: {learning_rate: {
        type: constant, constant: {learning_rate: 0}}}}}'
train 0 '^finished  *early, at step 15 of 40' early

train 2 'data: takes two words (SOURCE TARGET), but found 1' run --data text
train 2 'data needs a value: SOURCE TARGET' run --data
train 3 'steps: trainer.train_steps: "many" is not an integer, or epochs' run --steps many
train 2 'takes one run' run other
train 3 'early_stopping.patience: needs validations' run \
    --set trainer.early_stopping.patience=1,trainer.validation_interval=0

train 0 'warning: trainer.early_stopping: this run does not validate' --experiment translation/tiny blind \
    --data 'a: text' 'a: text' --steps 2 --vocab-size 60 --set "$small" --patience 3
train 0 'warning: trainer.early_stopping: this run does not validate' --experiment translation/tiny blind2 \
    --data 'a: text' 'a: text' --steps 2 --vocab-size 60 --set "$small" --set trainer.early_stopping.target=1
for mode in train train_and_post_eval; do
    train 0 'early_stopping: this run .*; choose --mode train_and_eval' --experiment translation/tiny "$mode" \
        --mode "$mode" --data 'a: text' 'a: text' --valid 'a: text' 'a: text' --steps 2 --vocab-size 60 \
        --set "$small" --patience 3
done

# A header by either word.
awk 'BEGIN { for (i = 0; i < 100; i++) print i % 17 "," (i % 3 ? "x" : "y") }' >bare.csv
train 0 '^data  *100 rows' --experiment tabular/linear bare --data bare.csv --header no --target column_2 --steps 1
train 0 '^data  *99 rows' --experiment tabular/linear headed --data bare.csv --header yes --target y --steps 1

# A list grows with each time that its option is given; of others the last one counts.
awk 'BEGIN { print "a,b"; for (i = 0; i < 100; i++) print i % 17 "," (i % 3 ? "x" : "y") }' >one.csv
sed 's/y$/x/' one.csv >two.csv
train 0 '^data  *200 rows' --experiment tabular/linear lists --data one.csv --data two.csv --target a \
    --target b --steps 2 --missing none --missing '~' null
grep -q '^    input_path: \[one.csv, two.csv\]$' lists/params.yaml
grep -q '^  missing: \[none, "~", "null"\]$' lists/params.yaml
train 0 '^data  *200 rows' lists2 --experiment tabular/linear --target b --steps 2 --data one.csv two.csv
grep -q '^    input_path: \[one.csv, two.csv\]$' lists2/params.yaml

# A value that is good enough ends it at once; a better one that is wanted lets it go on.
target() {
    wanted=$1
    shift
    train "$@" --experiment translation/tiny target --data 'a: text' 'a: text' \
        --valid 'a: text' 'a: text' --steps 20 --vocab-size 60 --set "$small" --set \
        "{trainer: {validation_interval: 5, early_stopping: {target: $wanted},
            best_checkpoint_eval_metric: validation_accuracy}}"
}
target 0 0 '^done  *5 steps, stopped early, in '
target 0 0 '^finished  *early, at step 5 of 20'
target 1.5 0 '^done  *20 steps in '
target good 3 'early_stopping.target: good; give a number or null'
train 3 'early_stopping.target: needs validations' run \
    --set trainer.early_stopping.target=1,trainer.validation_interval=0
