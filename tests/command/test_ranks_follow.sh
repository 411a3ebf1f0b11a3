#!/bin/sh
# test_ranks_follow.sh ETUDE: several processes evaluate the checkpoints of a run that another
# process trains, or train on them: they print and keep the same as one process.
set -eu
. "$(dirname "$0")/command.sh"
export OMP_NUM_THREADS=1

make_table

# logs FILE NAME: lines of a log without what the clock said, the directory's name as D.
logs() {
    sed "s/,\"time\":{[^}]*}//g; s/\"$2_/\"D_/g" "$1"
}
table="--experiment tabular/mlp --target kind --data t.csv --set runtime.data_shards=3,runtime.peer_timeout=5
    --set trainer.checkpoint_interval=10,trainer.validation_interval=10,trainer.summary_interval=10
    --set trainer.max_to_keep=20,trainer.continuous_eval_timeout=120,trainer.early_stopping.patience=0"

# All checkpoints of a run that is at work, begun before there is any.
for n in 1 3; do
    # shellcheck disable=SC2086 # words
    "$etude" launch -n $n -- train $table watched$n --steps 40 --mode continuous_eval >eval$n 2>said$n &
    launch=$!
    # shellcheck disable=SC2086 # words
    says 0 '^done' train $table watched$n --steps 40
    wait $launch || fail "$n ranks, continuous_eval: exit $? $(cat said$n)"
    logs watched$n/validation/metrics.jsonl watched$n >eval$n.log
    sed -i "s/watched$n/D/" eval$n
done
[ "$(grep -c '^ *[1-4]0  ' eval1)" = 4 ] && cmp eval1 eval3 && cmp eval1.log eval3.log ||
    fail 'continuous_eval: 3 ranks have measured otherwise'

# It goes on behind what one process has measured.
# shellcheck disable=SC2086 # words
says 0 '^done' train $table watched1 --steps 60
# shellcheck disable=SC2086 # words
tells 0 '' launch -n 2 -- train $table watched1 --steps 60 --mode continuous_eval
[ "$(grep -c '^ *[56]0  ' out)" = 2 ] || fail 'continuous_eval does not go on where it ended'
# shellcheck disable=SC2086 # words
once 3 'no checkpoint for 0.5 seconds' launch -n 2 -- train $table nothing --steps 60 \
    --mode continuous_eval --set trainer.continuous_eval_timeout=0.5
[ ! -e nothing ] || fail 'a watch leaves something'

# One of several is killed while all wait: the others end. A signal to all ends all.
# shellcheck disable=SC2086 # words
"$etude" launch -n 3 -- train $table nothing --steps 60 --mode continuous_eval >out 2>&1 &
launch=$! got=0 looks=0 ranks=
until [ "$(echo "$ranks" | wc -w)" = 3 ] || [ $looks = 3000 ]; do
    sleep 0.02
    ranks=$(cat "/proc/$launch/task/$launch/children") looks=$((looks + 1))
done
sleep 1
kill -KILL "${ranks%% *}"
wait $launch || got=$?
[ $got = 137 ] || fail "a rank that waits is killed: exit $got"

# Fine-tuned one after the other, interrupted and on with another number of ranks.
for n in 1 3; do
    # shellcheck disable=SC2086 # words
    "$etude" launch -n $n -- train $table tuned$n --steps 10 --mode continuous_train_and_eval \
        --set task.init_checkpoint=watched3 >tuned$n.out 2>said || fail "fine-tuning: exit $?"
    logs tuned$n/eval/metrics.jsonl tuned$n >tuned$n.log
    sed -i "s/tuned$n/D/" tuned$n.out
done
[ "$(grep -c ^checkpoint tuned1.out)" = 4 ] && cmp tuned1.out tuned3.out && cmp tuned1.log tuned3.log ||
    fail 'continuous_train_and_eval: 3 ranks have tuned otherwise'
for step in 10 40; do
    cmp tuned1/metrics-$step.json tuned3/metrics-$step.json || fail "metrics-$step.json is another"
done
got=0
# shellcheck disable=SC2086 # words
"$etude" launch -n 2 -- train $table cut --steps 10 --mode continuous_train_and_eval \
    --set task.init_checkpoint=watched3 >cut.out 2>said &
launch=$! looks=0
until [ -e cut/metrics-20.json ] || [ $looks = 3000 ]; do
    sleep 0.02
    looks=$((looks + 1))
done
kill -TERM $launch 2>/dev/null || true
wait $launch || got=$?
[ $got = 75 ] || [ $got = 0 ] || fail "fine-tuning gets SIGTERM: exit $got"
# shellcheck disable=SC2086 # words
tells 0 '' launch -n 3 -- train $table cut --steps 10 --mode continuous_train_and_eval \
    --set task.init_checkpoint=watched3
logs cut/eval/metrics.jsonl cut | cmp - tuned1.log || fail 'fine-tuning goes on otherwise'

# What is wrong with settings is said once as well.
# shellcheck disable=SC2086 # words
once 3 'bogus: no such setting' launch -n 2 -- train $table watched3 --set bogus=1
# shellcheck disable=SC2086 # words
once 3 'task.init_checkpoint is not set; --mode' launch -n 2 -- train $table tuned --steps 30 \
    --mode continuous_train_and_eval
