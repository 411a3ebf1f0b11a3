#!/bin/sh
# test_positional.sh ETUDE: files as words after a run, and commands that find the run or the
# experiment without a name.
set -eu
. "$(dirname "$0")/command.sh"

make_table
make_pairs 60 'rot hund lauf baum haus blau katze' de
paste a.en a.de >pairs.tsv
says 0 '^done' train m --experiment tabular/mlp --data t.csv --target kind --steps 9
says 0 '^done' train p --experiment translation/tiny --data a.en a.de --steps 2

# ---- files behind a run: the same as with options.
head -50 t.csv >part.csv
says 0 accuracy evaluate m part.csv -q
cp out by-word
says 0 accuracy evaluate m --data part.csv -q
cmp out by-word
says 0 accuracy evaluate --model-dir m part.csv -q
cmp out by-word
says 0 accuracy evaluate part.csv --model-dir m -q
cmp out by-word
says 0 accuracy evaluate m -q
if cmp -s out by-word; then fail "files of evaluate are not looked at"; fi
says 0 accuracy evaluate m part.csv part.csv -q
says 3 'none.csv: No such file' evaluate m none.csv
says 0 label predict m part.csv
cp out by-word
says 0 label predict m --input part.csv
cmp out by-word
says 2 'predict: takes one file, but found part.csv and t.csv' predict m part.csv t.csv

says 0 '' translate p a.en
[ "$(wc -l <out)" = 60 ]
tells 0 '^chrF2' evaluate p a.en a.de -q
cp out by-word
for form in '--source a.en --reference a.de' '--data a.en a.de' 'pairs.tsv' '--data pairs.tsv'; do
    # shellcheck disable=SC2086
    tells 0 '^chrF2' evaluate p $form -q
    cmp out by-word
done
tells 0 '^chrF2' evaluate --data a.en a.de p -q
cmp out by-word
says 2 'or both in one file of pairs' evaluate p a.en
says 2 'name the files twice; use one of them' evaluate p a.en a.de --data pairs.tsv
says 2 'pairs.tsv has both languages by its name; give one file of pairs alone' evaluate p a.en pairs.tsv
says 2 'all.tmx is a translation memory by its name' evaluate p all.tmx a.de
for words in 'pairs.tsv a.de' 'pairs.tsv pairs.tsv'; do
    # shellcheck disable=SC2086
    says 2 'pairs.tsv has both languages by its name; give one file of pairs alone' evaluate p $words
    # shellcheck disable=SC2086
    says 2 'pairs.tsv has both languages by its name; give --data once for each file of pairs' \
        train none --data $words
done
echo 'no tab' >bad.tsv
says 3 'bad.tsv:1: not a pair: write source, one TAB, target' evaluate p bad.tsv
says 0 'chrF2.* = 100' score a.de a.de
says 3 'a.en has 60 lines, but part.csv has 50' score part.csv a.en
says 0 '^a.de *100.0 *100.0$' score a.de a.de a.de

# ---- several tables; a word that is no file is the run.
says 0 '^data  *449 rows' train many --experiment tabular/mlp --data t.csv part.csv --target kind --steps 1
says 0 '^data  *449 rows' train --experiment tabular/mlp --data t.csv part.csv many2 --target kind --steps 1
grep -q 'input_path: \[t.csv, part.csv\]' many2/params.yaml
says 3 'gone.csv' train many3 --experiment tabular/mlp --data t.csv gone.csv --target kind --steps 1

# ---- pairs in one file; what it takes the place of is given up.
says 0 '^done' train pairs --experiment translation/tiny --data pairs.tsv --valid pairs.tsv --steps 1
grep -q 'tsv_path: \[pairs.tsv\]' pairs/params.yaml
says 2 'data: takes two words (SOURCE TARGET), but found 1; the name of a file of pairs ends in .tsv, and a table needs --target COLUMN' \
    train no --experiment translation/tiny --data a.en

# ---- without --experiment and RUN.
says 0 'run  *runs/auto-1$' train --data t.csv --target kind --steps 1
says 0 'run  *runs/auto-2$' train --data t.csv --target kind --steps 1
says 0 'run  *runs/auto-3$' train --data a.en a.de --steps 1
says 0 '^experiment  *translation/auto' train --data pairs.tsv --steps 1
says 0 'run  *runs/linear-1$' train --experiment tabular/linear --data t.csv --target kind --steps 1
tr ',' '\t' <t.csv >table.tsv
says 0 '^experiment  *tabular/auto' train --data table.tsv --target kind --steps 1 named
says 3 'none.csv: No such file' train --data none.csv --target kind
[ ! -e runs/auto-5 ]
says 0 'run  *runs/mlp-1$' train --init m --data t.csv --target kind --steps 1
[ -e runs/mlp-1/params.yaml ]
says 2 'train: --model-dir is missing' train
says 2 'train: --model-dir is missing' train --experiment tabular/mlp
says 2 'train: --model-dir is missing' train --data t.csv --target kind --mode eval

# ---- a run that goes on with other data, or from elsewhere.
sed 's/,round/,flat/' t.csv >other.csv
says 3 'm was trained on other rows than other.csv, .* etude train m-2 --init m --data other.csv$' \
    train m --data other.csv --steps 20
says 0 '^done' train m-2 --init m --data other.csv --steps 3
head -50 a.en >b.en
head -50 a.de >b.de
says 3 'b.en: the run was trained on other text .* train another run .*: --init RUN' \
    train p --data b.en b.de --steps 9
says 3 'learning_rate: 0.002, but now it is 0.5. Add --accept-changes to resume' train m --lr 0.5 --steps 20
says 3 'num_layers: 3, but now it is 2. Set the old value to resume' train m --layers 2 --steps 20
here=$PWD
mkdir elsewhere
cd elsewhere
says 3 "cannot open t.csv: .*; ../m was started in $here: run the command in this directory" train ../m --steps 20
says 3 "../m was started in $here" evaluate ../m
says 3 "../p was started in $here" train ../p --steps 20
says 3 "cannot open t.csv: .*; ../m was started in $here: run the command" train more --init ../m
says 3 "../p was started in $here" train more --init ../p
says 0 accuracy evaluate ../m ../t.csv
cd ..
says 3 'cannot open gone.csv: .* check the path$' train new --data gone.csv --target kind

# ---- by the name of what is to be.
says 0 '^exported' export m --output m.onnx
[ -f m.onnx ]
says 2 'this model gives several ONNX files; .*--format onnx --output p$' export p --output p.onnx
says 2 'p.onnx: this would be a directory, not a file .onnx' export p --format onnx --output p.onnx
says 2 'p.safetensors: this would be a directory' export p --format onnx --output p.safetensors
says 2 'output: - does not mean standard output; name a directory' export p --output -
[ ! -e p.onnx ] && [ ! -e p.safetensors ] && [ ! -e ./- ]
says 3 '^etude: nowhere: no such directory' export nowhere --output n.onnx
says 3 '^etude: nowhere: no such directory' export nowhere --format onnx --output n.onnx
says 3 '^etude: nowhere: no such directory' evaluate nowhere --threshold 0.3
says 0 'best validation_auc' train auc --experiment tabular/mlp --data t.csv --target kind --steps 3 --metric auc
says 0 'best validation_auc' train auc2 --experiment tabular/mlp --data t.csv --target kind --steps 3 \
    --set trainer.best_checkpoint_eval_metric=validation_auc
says 3 'validation has no value acu' train auc3 --experiment tabular/mlp --data t.csv --target kind --steps 3 --metric acu
says 0 '^ *auc\|auc' runs auc --metric auc

# ---- help has both kinds.
says 0 'training tables: CSV or JSON lines' train --help
says 0 '^evaluate of a tabular model:' evaluate --help
says 0 'TABLE\|NAME.onnx' export --help
