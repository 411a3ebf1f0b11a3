#!/bin/sh
# test_cures.sh ETUDE: words of other tools work or are refused with their counterpart: options,
# commands, experiments, a file in place of a run, a table with other columns. Each message is one
# line, and nothing is written.
set -eu
. "$(dirname "$0")/command.sh"
export OMP_NUM_THREADS=1
make_table
make_pairs 60 'rot hund lauf baum haus blau katze' de
says 0 '^done' train m --experiment tabular/mlp --data t.csv --target kind --steps 9
says 0 '^done' train p --experiment translation/tiny --data a.en a.de --steps 2

# refused CODE TEXT WORD...
refused() {
    says "$@" </dev/null
    grep -v '^run  \|^note  ' out | wc -l | grep -q '^ *1$' || fail "more than one line: $*"
    [ ! -e runs ] && [ ! -e new ] || fail "something is written: $*"
}

# ---- a file in place of a run
refused 2 't.csv is a file, not the directory of a run; .*name it with --data: .etude train --data t.csv' train t.csv --target kind
refused 2 'takes one run, but found new and t.csv; if t.csv has the data, write --data t.csv' train new t.csv --target kind
for command in evaluate predict explain serve; do
    refused 3 't.csv is neither the directory of a run nor an exported model .*name the model first' $command t.csv
done
refused 2 'score: m is a run, .*to evaluate the run: .etude evaluate m' score m t.csv
refused 2 'data: give a subcommand: data analyze t.csv$' data t.csv
refused 3 'git clone https://huggingface.co/Helsinki-NLP/opus-mt-en-de. and import the folder opus-mt-en-de' import Helsinki-NLP/opus-mt-en-de
refused 3 'Etude downloads nothing' import Helsinki-NLP/opus-mt-en-de --output new

refused 3 '^etude: cannot open -: No such file or directory; - does not mean standard input here: name a file' \
    train new --data - --target kind
refused 3 '^etude: cannot open -: .*; - does not mean standard input here: name a file$' predict m --input -
refused 3 '^etude: -: .*; - does not mean standard input here: name a file$' translate p --input -

# ---- commands to copy: a shell reads them back as the same words
cp t.csv "it's a table.csv"
refused 2 "name it with --data: .etude train --data 'it'.''s a table.csv' ...." train "it's a table.csv" --target kind
refused 2 "data: give a subcommand: data analyze 'it'.''s a table.csv'\$" data "it's a table.csv"
refused 2 "if this is a setting, write --set 'task.loss=\[a b\]'" train new 'task.loss=[a b]'
refused 3 "git clone 'https://huggingface.co/a/b;c'. and import" import 'a/b;c'
says 0 "^done .* .etude predict --model-dir 'the run; \$0'. " train 'the run; $0' --experiment tabular/mlp --data t.csv --target kind --steps 2
rm -r 'the run; $0'

# ---- a table of other columns
printf 'a,b\n1,2\n' >other.csv
refused 3 'other.csv:1: the first row (a, b) has none of the columns that the model reads (size, colour, price)' predict m other.csv
refused 3 'other.csv:1: the first row (a, b) has none' evaluate m other.csv -q
printf 'size,color,price\n1,red,3\n' >spelt.csv
refused 3 'there is no column colour: add it (nearest: color)' predict m spelt.csv

# ---- options that mean another thing, or nothing here
t='train new --data t.csv --target kind'
refused 2 'valid 0.2: there is no such file; .*use --held-out FRACTION' $t --valid 0.2
refused 2 'valid 20%: there is no such file; .*use --held-out FRACTION' $t --val 20%
refused 2 'no option --test: .*etude evaluate RUN FILE' $t --test t.csv
refused 2 'no option --fp16: .*runtime.mixed_precision_dtype=bfloat16 or float32' $t --fp16
refused 2 'no option --objective: .*--set task.loss=NAME' $t --objective mae
refused 2 'no option --cat-features: texts are categories' $t --cat-features size
refused 2 'no option --preset: .*tabular/auto' $t --preset best_quality
refused 2 'no option --n-estimators: Etude trains neural networks, not trees' $t --n-estimators 100
refused 2 'no option --src: name both files with --data SOURCE TARGET' train new --src a.en --tgt a.de
refused 2 'no option --mini-batch: --batch-size N' train new --train-sets a.en a.de --mini-batch 64
refused 2 'no option --arch: --experiment NAME' train new --data a.en a.de --arch transformer
refused 2 'no option --clip-norm: use --set .*global_clipnorm=X' train new --data a.en a.de --clip-norm 1
refused 2 'no option --source-lang: training needs no codes' train new --data a.en a.de --source-lang en
refused 2 "no option --text: translate reads lines: echo" translate p --text hello
refused 2 'no option --lr: it is an option of train, tune' predict m --lr 3
refused 2 'no option --vocab-size: it is an option of translation tasks' train new --experiment mlp --data t.csv --vocab-size 9
refused 2 'bf16 takes no value, found 3' $t --bf16=3
refused 2 'patience needs a value' $t --early-stopping
# The nearest is an option or a word of another tool; words that only look alike have none.
says 2 'no option --weigth-dacey. Nearest: --weight-decay;' $t --weigth-dacey 3
says 2 'no option --srx. Nearest: --src;' $t --srx 3
says 2 'no option --frx;' $t --frx 3
! grep -q 'Nearest' out || fail 'another option'

# ---- options that are the same
works() {
    said=$1
    shift
    says 0 "^note  *$said\$" train w --experiment tabular/mlp --data t.csv --steps 2 "$@"
    "$etude" train w2 --experiment tabular/mlp --data t.csv --steps 2 $same >/dev/null 2>&1
    cmp w/params.yaml w2/params.yaml || fail "$*: other settings than $same"
    rm -r w w2
}
same='--target kind --lr 0.1 --seed 4'
works '--label is --target, --learning_rate is --lr, --random-state is --seed' --label kind --learning_rate 0.1 --random-state=4
same='--target kind --held-out 0.3 --set trainer.early_stopping.patience=3'
works '--test-size is --held-out, --early-stopping-rounds is --patience' --target kind --test-size 0.3 --early-stopping-rounds 3
same='--target kind --set runtime.mixed_precision_dtype=bfloat16,trainer.gradient_accumulation=2'
works '--bf16 is --set runtime.*, --update-freq is --set trainer.gradient_accumulation' --target kind --bf16 --update-freq 2
same="--target kind --set task.class_weights=[balanced],task.label_smoothing=0.1"
works '--class-weight is --class-weights, --smoothing is --label-smoothing' --target kind --class-weight balanced --smoothing 0.1
same="--target kind --set trainer.optimizer_config.optimizer.adamw.weight_decay_rate=0.5"
works '--wd is --weight-decay' --target kind --wd 0.5
says 0 '^validation  *2 folds' train w --experiment linear --data t.csv --target kind --kfold 2 --max-epochs 1 --n-jobs 1
says 2 'the optimizer of tabular/feed_forward has no such setting' train w3 --experiment feed_forward --data t.csv --target kind --weight-decay 1
says 0 '' translate p --num-beams 2 --src a.en -q
[ "$(wc -l <out)" = 60 ] || fail 'a note among the translations'
tells 0 accuracy evaluate m --test t.csv
grep -q '^note  *--test is --data$' said || fail 'evaluate'

# ---- commands and experiments
for word in 'fit:train' 'info:inspect RUN' 'show:inspect RUN' 'test:evaluate RUN' 'eval:evaluate RUN' 'infer:translate RUN' \
    'generate:predict RUN FILE' 'finetune:train NEW --init RUN' 'search:tune' 'convert:import FOLDER' 'ls:runs DIR' \
    'summary:report RUN' 'hpo:tune' 'download:import FOLDER' 'diff:compare RUN RUN' \
    'predict_proba:predict RUN FILE' 'feature_importance:explain RUN' 'leaderboard:runs DIR' 'head:data analyze FILE' \
    'describe:data analyze FILE'; do
    refused 2 "no command ${word%%:*}: .*.etude ${word#*:}" "${word%%:*}" m
done
refused 2 'no command rm: Etude deletes no run; remove its directory: rm -r RUN' rm m
for word in tabular/xgboost lightgbm catboost random_forest RandomForest; do
    says 3 "no experiment is called $word" train new --data t.csv --target kind --experiment $word </dev/null
done
refused 3 'no experiment is called tabular/xgboost: Etude has no trees; tabular/auto' $t --experiment tabular/xgboost
refused 3 'no experiment is called svm: .*tabular/auto' list svm
refused 3 'no experiment is called auto; there are translation/auto, tabular/auto' $t --experiment auto
says 0 '^experiment  *tabular/mlp ' train w4 --data t.csv --target kind --experiment mlp --steps 1
grep -q '^experiment: tabular/mlp$' w4/params.yaml || fail 'a short name in the settings'
says 0 '^tabular/mlp ' list tabular
! grep -q translation out || fail 'list tabular'
says 0 '^task.model.mlp.dropout' list mlp dropout
refused 2 'init: mlp is an experiment; write --experiment mlp' init mlp

# ---- settings that `list` printed are a file; without a name the message names the file
for name in tabular/mlp_small tabular/realmlp; do
    "$etude" list $name >x.yaml
    head -1 x.yaml | grep -qx "experiment: $name" || fail "list: $(head -1 x.yaml)"
    says 0 "^experiment  *$name " train listed --config x.yaml --data t.csv --target kind --steps 1
    "$etude" list $name --yaml >whole.yaml
    says 0 '^done' train whole --config whole.yaml --data t.csv --target kind --steps 1
    cmp listed/params.yaml whole/params.yaml || fail "list $name: another run than list --yaml"
    rm -r listed whole
done
says 0 '^task.model.mlp.dropout' list tabular/mlp dropout
! grep -q '^experiment' out || fail 'list NAME WORD: names the experiment'
"$etude" list tabular/pack | sed 1d >x.yaml
refused 2 'train: x.yaml names no experiment; add a line .experiment: NAME., or give --experiment' train new --config x.yaml
refused 3 'x.yaml names no experiment (add a line .experiment: NAME.), so Etude uses tabular/auto: ' train new --config x.yaml \
    --data t.csv --target kind --set trainer.validation_interval=1ep
"$etude" list translation/tiny | sed 1d >x.yaml
refused 3 'x.yaml names no experiment .*uses tabular/auto: x.yaml:1: task.model.encoder: no such setting' train new --config x.yaml \
    --data t.csv --target kind

# ---- the nearest of logged values
refused 3 'no metric is called acc. Nearest: accuracy; there is' plot m --metric acc
refused 2 'not acc. Nearest: accuracy' runs --sort acc m

# ---- explain without a file: the rows that are held out; standard input if it is a file or a pipe
tells 0 '^log_loss .* on 60 rows' explain m </dev/null
grep -q '^rows  *60 held-out rows of t.csv; name a FILE' said || fail 'held-out rows'
score=$(sed -n 's/^log_loss .*is \([^ ]*\) on.*/\1/p' out)
"$etude" evaluate m -q >scores
grep -q "^log_loss  *$score\$" scores || fail "explain has $score, evaluate $(cat scores)"
tells 0 '^log_loss .* on 400 rows' explain m <t.csv
cp out piped
tells 0 '^log_loss .* on 400 rows' explain m - <t.csv
cmp out piped
tells 0 '^log_loss .* on 400 rows' explain w </dev/null
grep -q '^rows  *400 rows of t.csv, which the models of the folds learned' said || fail 'rows of folds'
mv t.csv gone.csv
tells 3 'explain: no FILE is given, so it reads the run.s own rows: .*t.csv' explain m </dev/null
echo 'words of other tools have their cure'
