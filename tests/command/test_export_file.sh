#!/bin/sh
# test_export_file.sh ETUDE: an exported model of a table, one file or a directory, is evaluated and
# inspected and predicts like its run; if the run was removed, too, with data that the command
# names.
set -eu
. "$(dirname "$0")/command.sh"
make_table
says 0 'done' train run --experiment tabular/mlp --data t.csv --target kind --steps 30
says 0 'exported run' export run --output m.safetensors
says 0 'exported run' export run --output m
says 0 'exported run' export run --output small.safetensors --precision int8

tells 0 '' evaluate run
sed 1d out >wanted
grep -q '^accuracy ' wanted || fail 'no accuracy of the run'
for model in m.safetensors m; do
    tells 0 '' evaluate $model
    [ "$(head -1 out)" = "checkpoint $model$([ -f $model ] || echo /model.safetensors), step 30" ] ||
        fail "$model: the first line"
    sed 1d out | cmp -s - wanted || fail "$model: other values than the run's"
    says 0 '"validation_accuracy"' evaluate $model --json
    tells 0 '' predict $model --input t.csv
    mv out "predicted.$([ -f $model ] && echo file || echo directory)"
done
cmp predicted.file predicted.directory
says 0 '^accuracy' evaluate small.safetensors
says 0 'intact: m.safetensors' inspect m.safetensors

# What a directory for a while was made for is gone with it.
TMPDIR=$work/tmp
export TMPDIR
mkdir tmp
says 0 'step 30' evaluate m.safetensors
[ -z "$(ls tmp)" ] || fail 'something is left in TMPDIR'

mkdir elsewhere
cp m.safetensors elsewhere
(
    cd elsewhere
    says 3 'm.safetensors, with the data of its settings (use --set to name other data)' evaluate m.safetensors
    says 0 '^accuracy' evaluate m.safetensors \
        --set task.validation_data.input_path=../t.csv
)
[ -z "$(ls tmp)" ] || fail 'something is left in TMPDIR after a failure'
says 3 'leave out checkpoint best' evaluate m.safetensors --checkpoint best
says 3 'm.safetensors: no such experiment\|of a table\|tabular' translate m.safetensors

# A new run that begins with it has its schema, metadata and features, whatever its own rows say.
head -n 40 t.csv >few.csv
for model in m.safetensors m; do
    says 0 "weights of $model.*; settings, schema, metadata, features of $model" train --init $model \
        --data few.csv --steps 1 "tuned.$model"
    for file in schema.yaml metadata.json features.yaml; do
        cmp run/$file "tuned.$model/$file"
    done
done
says 0 'done' train --init small.safetensors --data few.csv --steps 1 tuned.small
grep 'are not used' out && fail 'the scales of an export are used'
says 0 'averaged 2' average m.safetensors m.safetensors --output mean.safetensors
tells 0 '' predict run --checkpoint mean.safetensors --input t.csv
cmp out predicted.file
says 3 'small.safetensors: .* is int8; only float32' average small.safetensors m.safetensors \
    --output none
says 0 'done' train tuned.m.safetensors --steps 2
says 3 'm.safetensors: vocabulary.model is missing' train --experiment translation/tiny \
    --data few.csv few.csv --steps 1 none --set task.sentencepiece_model_path=m.safetensors
[ ! -e none ]

# Of a pack an export has the networks of the ensemble only.
says 0 done train pack --experiment tabular/pack --data t.csv --target kind --epochs 1 \
    --set task.model.pack.members=3,task.model.pack.width=16
"$etude" evaluate pack 2>said | sed '1d; /^loss /d' >wanted
grep -q '^accuracy ' wanted || fail 'no accuracy of the pack'
for model in pack.safetensors packed; do
    says 0 'exported pack' export pack --output $model
    "$etude" evaluate $model 2>said | sed '1d; /^loss /d' | cmp -s - wanted || fail "$model: other values"
    says 3 "^etude: a pack begins with the weights of a run, because an export has only" \
        train refused --init $model --data t.csv --target kind
done
