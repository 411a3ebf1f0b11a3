#!/bin/sh
# test_privacy.sh ETUDE: task.differential_privacy_config reaches the trainer: noise changes the
# weights; a run that is killed or repeated has the same noise; the defaults change nothing.
set -eu
etude=$1
work=$(mktemp -d "$PWD/privacy.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

awk 'BEGIN { for (i = 0; i < 200; i++) { line = ""; for (k = 0; k <= i % 7; k++)
    line = line sprintf("%c%c ", 97 + (i * 7 + k * 3) % 26, 97 + (i + k * 5) % 26)
    print line } }' >text

# train RUN STEPS [OPTION]...
train() {
    run=$1 steps=$2
    shift 2
    "$etude" train --experiment translation/tiny "$run" --data text text --steps "$steps" \
        --vocab-size 60 --set task.model.embedding_width=32,task.train_data.global_batch_size=256 \
        --set task.train_data.shuffle_pool=64 "$@" >log 2>&1
}

# learnt RUN: the arrays of its last checkpoint
learnt() {
    tail -c 9000 "$1"/checkpoints/ckpt-6.safetensors | cksum
}

noise=task.differential_privacy_config.noise_multiplier
train plain 6
train same 6 --set $noise=0
train noisy 6 --set $noise=0.5
train parts 3 --set $noise=0.5
train parts 6 --set $noise=0.5
train clipped 6 --set task.differential_privacy_config.clipping_norm=1e-20
[ "$(learnt plain)" = "$(learnt same)" ]
[ "$(learnt plain)" != "$(learnt noisy)" ]
[ "$(learnt plain)" != "$(learnt clipped)" ]
[ "$(learnt noisy)" = "$(learnt parts)" ]

code=0
train noisy 9 --set $noise=0.6 || code=$?
[ $code = 3 ]
grep -q 'belongs to a run with task.differential_privacy_config.noise_multiplier: 0.5' log
code=0
train each 6 --set task.differential_privacy_config.per_example=true || code=$?
[ $code = 3 ]
grep -q 'per_example needs batches of one sample' log
[ ! -e each ]

# What it costs is said: 20 of 200 samples an update, noise 1.1, at delta 1e-5 (epsilon by the sums of
# Mironov, Talwar and Zhang 2019, in Python). Of a pair, and of a row of a table.
each=task.differential_privacy_config.per_example=true,trainer.gradient_accumulation=20
each=$each,task.differential_privacy_config.clipping_norm=1,$noise=1.1
cost='^privacy      epsilon 2.538 at delta 1e-05 by step 6: 20 of 200 samples an update$'
train each 6 --set "$each,task.train_data.global_batch_size=64,task.train_data.max_seq_length=64" \
    --set task.train_data.static_batch=true
grep -q "$cost" log
awk 'BEGIN { print "size,kind"; for (i = 0; i < 200; i++) print i % 17 "," (i % 3 ? "a" : "b") }' >t.csv
"$etude" train --experiment tabular/mlp table --data t.csv --target kind --steps 6 --set "$each" \
    --set task.train_data.batch_size=1,task.validation_data.input_path=t.csv >log 2>&1
grep -q "$cost" log
train clipped 6 --set task.differential_privacy_config.clipping_norm=1e-20
if grep -q epsilon log; then exit 1; fi
train mean 1 --set $noise=0.5
grep -q '^privacy      no guarantee' log

train shown 6 --set task.print_translations=true
grep -q '^  print_translations: 1000$' shown/params.yaml
