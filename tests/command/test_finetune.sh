#!/bin/sh
# test_finetune.sh ETUDE: fine-tuning from each checkpoint of a run that another process trains, and
# the files that remain if it is killed or interrupted.
set -u
etude=$1
. "$(dirname "$0")/counting.sh"
directory=$(mktemp -d "$PWD/finetune-XXXXXX") || exit 2
trap 'rm -rf "$directory"' EXIT
cd "$directory" || exit 2

fail() {
    echo "test_finetune: $*" >&2
    cat log >&2
    exit 1
}

count_pairs 100 300

# In a subshell, whose place it takes.
train() {
    exec "$etude" train --experiment translation/tiny "$@" \
        --set task.train_data.source_path=source --set task.train_data.target_path=target \
        --set task.validation_data.source_path=source --set task.validation_data.target_path=target \
        --set task.train_data.global_batch_size=128 --set task.vocabulary.size=40 \
        --set task.model.encoder.num_layers=1 --set task.model.decoder.num_layers=1 \
        --set task.model.embedding_width=16 --set task.model.extra_decode_length=2 \
        --set task.model.beam_size=1
}
pretrain() {
    train --model-dir pre --mode train --set trainer.train_steps=60 \
        --set trainer.checkpoint_interval=20 --set trainer.max_to_keep=9 "$@"
}
tune() {
    run=$1
    shift
    train --model-dir "$run" --mode continuous_train_and_eval --set task.init_checkpoint=pre \
        --set trainer.train_steps=12 --set trainer.checkpoint_interval=3 \
        --set trainer.validation_interval=6 --set trainer.continuous_eval_timeout=60 "$@"
}
# steps FILE: of its lines.
steps() {
    sed -n 's/^{"step": *\([0-9]*\),.*/\1/p' "$1" | tr '\n' ' '
}
# What of a directory does not depend on the clock.
plain() {
    sed 's/"time":{[^}]*}//g' "$1/eval/metrics.jsonl" | sed "s/\"$1_/\"run_/g"
    cat "$1"/metrics-*.json
}

# Before and beside the other run; nothing is made before that has a checkpoint.
(tune 'a run' >out 2>log) &
tuner=$!
sleep 0.5
[ ! -e 'a run' ] || fail "begun before there was anything to do"
(pretrain >/dev/null 2>log.pre) || fail "the other run"
wait "$tuner" || fail "beside the other run: $?"
[ "$(steps 'a run/eval/metrics.jsonl')" = "20 40 60 " ] || fail "not each once"
[ "$(sed -n 's/^checkpoint .*, step //p' out | tr '\n' ' ')" = "20 40 60 " ] || fail "not printed"
for step in 20 40 60; do
    [ -s "a run/metrics-$step.json" ] || fail "no metrics-$step.json"
    [ -z "$(ls "a run/finetune-$step/checkpoints" | grep ckpt)" ] || fail "$step: checkpoints left"
    [ "$(ls "a run/finetune-$step/best" | grep -c safetensors)" = 1 ] || fail "$step: no best one"
    grep -q "init_checkpoint: .*pre/checkpoints/ckpt-$step.safetensors" \
        "a run/finetune-$step/params.yaml" || fail "$step: begins elsewhere"
done
grep -q '"a run_translation/validation_loss"' 'a run/eval/metrics.jsonl' || fail "names"
grep -q 'a run_translation/loss' 'a run'/eval/events.*0001.etude || fail "no events"
mv 'a run' whole
sed -i 's/"a run_/"whole_/g' whole/eval/metrics.jsonl
sed -n 's/^ *"validation_loss": //p' whole/metrics-20.json >loss-20
sed -n 's/^ *"validation_loss": //p' whole/metrics-60.json >loss-60
[ -s loss-20 ] && ! cmp -s loss-20 loss-60 || fail "all begin alike"

# Once more: nothing is left to do, and nothing changes but event file and locks.
find whole -type f ! -name '*tfevents*' ! -name lock -exec cksum {} + | sort -k 3 >before
(train --model-dir whole --mode continuous_train_and_eval --set task.init_checkpoint=pre \
    --set trainer.train_steps=12 --set trainer.checkpoint_interval=3 \
    --set trainer.validation_interval=6 --set trainer.continuous_eval_timeout=60 >out 2>log) ||
    fail "done: $?"
find whole -type f ! -name '*tfevents*' ! -name lock -exec cksum {} + | sort -k 3 >after
cmp before after >>log || fail "done: something changed"
[ ! -s out ] || fail "done: something was measured"

# Killed in the middle of a run, at whichever place that is; the same values in the end.
for wait in finetune-20/checkpoints/ckpt-3 finetune-20/checkpoints/ckpt-12 \
    finetune-40/checkpoints/ckpt-6 metrics-40.json finetune-60/params.yaml; do
    (tune killed >out 2>log) &
    tuner=$!
    while kill -0 "$tuner" 2>>log && [ -z "$(ls -d "killed/$wait"* 2>>log)" ]; do
        sleep 0.01
    done
    kill -9 "$tuner" 2>>log
    wait "$tuner" 2>>log
done
# What the first began with is no longer there: it goes on all the same.
(tune killed >out 2>log) || fail "after kills: $?"
plain whole >expected
plain killed >found
cmp expected found >>log || { diff expected found >&2; fail "after kills: other values"; }

# Interrupted where its source is gone afterwards: it ends what it has begun. Once more where it was
# at its end before it was interrupted.
cp -r pre moved
for try in 1 2 3 4 5 6 7 8 9 10; do
    rm -rf short
    (train --model-dir short --mode continuous_train_and_eval --set task.init_checkpoint=moved \
        --set trainer.train_steps=12 --set trainer.checkpoint_interval=3 \
        --set trainer.validation_interval=6 --pretrain-steps 40 >out 2>log) &
    tuner=$!
    while kill -0 "$tuner" 2>>log && ! ls short/finetune-20/checkpoints/ckpt-*.safetensors >>log 2>&1; do
        sleep 0.01
    done
    kill -INT "$tuner" 2>>log
    wait "$tuner"
    code=$?
    [ $code = 0 ] || break
done
[ $code = 75 ] || fail "interrupted: exit code $code"
rm moved/checkpoints/ckpt-20.safetensors
(train --model-dir short --mode continuous_train_and_eval --set task.init_checkpoint=moved \
    --set trainer.train_steps=12 --set trainer.checkpoint_interval=3 \
    --set trainer.validation_interval=6 --pretrain-steps 40 >out 2>log) || fail "gone on: $?"
[ "$(steps short/eval/metrics.jsonl)" = "20 40 " ] || fail "--pretrain-steps: not up to it"
cmp short/metrics-20.json whole/metrics-20.json >>log || fail "gone on: other values"

# What is wrong is said before anything is made.
wrong() {
    text=$1
    shift
    code=0
    before=$(find . -type f | sort | cksum)
    (train --mode continuous_train_and_eval "$@" >out 2>log) || code=$?
    [ "$code" != 0 ] && grep -q "$text" log || fail "$*: exit code $code"
    [ "$(find . -type f | sort | cksum)" = "$before" ] || fail "$*: something was made"
}
wrong 'task.init_checkpoint is not set; --mode' --model-dir x --set trainer.train_steps=2
wrong 'pre is a run; choose another --model-dir, in which each fine-tuning gets a directory' --model-dir pre --set task.init_checkpoint=whole,trainer.train_steps=2
wrong 'trainer.validation_interval is 0, but --mode' --model-dir x \
    --set task.init_checkpoint=pre,trainer.train_steps=2,trainer.validation_interval=0
wrong 'none: no new checkpoint for 0.3 seconds' --model-dir x --set trainer.train_steps=2 \
    --set task.init_checkpoint=none,trainer.continuous_eval_timeout=0.3
wrong '.-profile: cannot be used with' --model-dir x --set trainer.train_steps=2 \
    --set task.init_checkpoint=pre --profile p.json
echo "fine-tuning: from each checkpoint once"
