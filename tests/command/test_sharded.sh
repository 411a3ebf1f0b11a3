#!/bin/sh
# test_sharded.sh ETUDE BUILD [MPI...]: ranks with a sharded optimizer (runtime.sharded_optimizer)
# need less memory and end with the bytes of one process. After a kill or a failure a run resumes
# with another number of ranks, and with the switch on or off.
set -eu
. "$(dirname "$0")/ranks.sh"

settings='--experiment tabular/mlp --target kind --data t.csv --set runtime.data_shards=4
    --set trainer.checkpoint_interval=20,trainer.summary_interval=20,trainer.max_to_keep=20,trainer.validation_interval=20
    --set task.train_data.batch_size=16,runtime.peer_timeout=5'
adamw=trainer.optimizer_config.optimizer.type=adamw
sgd='trainer.optimizer_config.optimizer.type=sgd,trainer.optimizer_config.optimizer.sgd.momentum=0.9'

# train RANKS SHARDED RUN STEPS ARGUMENT...
train() {
    ranks=$1 sharded=$2 run=$3 steps=$4
    shift 4
    # shellcheck disable=SC2086 # words
    says 0 '^done' launch -n "$ranks" -- train $settings "$run" --steps "$steps" \
        --set runtime.sharded_optimizer="$sharded" "$@"
}
# same RUN OTHER STEP
same() {
    for file in checkpoints/ckpt-$3.safetensors; do
        cmp "$1/$file" "$2/$file" >>out 2>&1 || fail "$2: its $file is another than that of $1"
    done
}

# ---- equal bytes, whoever keeps what --------------------------------------------------------------

for optimizer in adamw sgd; do
    eval "how=\$$optimizer"
    train 1 false $optimizer 60 --set "$how"
    for n in 1 2 4; do
        for sharded in true false; do
            train $n $sharded "$optimizer$n$sharded" 60 --set "$how"
            same $optimizer "$optimizer$n$sharded" 60
        done
    done
    OMP_NUM_THREADS=2 train 2 true "${optimizer}threads" 60 --set "$how"
    same $optimizer "${optimizer}threads" 60
done

# With averages, what validation says of them, norms of tensors, a scale, whole matrices.
for how in "$adamw,trainer.optimizer_config.ema.enabled=true" \
    trainer.optimizer_config.optimizer.type=lamb,runtime.loss_scale=dynamic \
    trainer.optimizer_config.optimizer.type=muon,trainer.gradient_accumulation=2 \
    trainer.optimizer_config.optimizer.type=adafactor_keras; do
    for n in 1 3; do
        rm -rf "any$n"
        train $n true "any$n" 40 --set "$how" --valid t.csv --set trainer.validation_interval=20
        sed 's/,"time":{[^}]*}//g' "any$n/metrics.jsonl" >"any$n.logs"
    done
    same any1 any3 40
    cmp any1.logs any3.logs >>out 2>&1 || fail "$how: 3 ranks log otherwise"
    cmp any1/best/info.json any3/best/info.json >>out 2>&1 || fail "$how: another best"
    best=$(cd any1/best && echo best-*)
    cmp "any1/best/$best" "any3/best/$best" >>out 2>&1 || fail "$how: another best checkpoint"
done

# ---- memory --------------------------------------------------------------------------------------

# memory SHARDED: what a start plans for parameters, and what rank 0 had in the end, in MB.
memory() {
    # shellcheck disable=SC2086 # words
    says 0 '^rank 0 ' launch -n 4 -- train $settings --steps 1 --dry-run --set "$adamw" \
        --set task.model.mlp.width=2000,trainer.optimizer_config.ema.enabled=false \
        --set runtime.sharded_optimizer="$1"
    planned=$(sed -n 's/.*planned: parameters \([0-9]*\)[.0-9]* MB.*/\1/p' out)
    had=$(sed -n 's/^rank 0  *\([0-9]*\)[.0-9]* MB.*/\1/p' out)
}
memory false
whole=$planned all=$had
memory true
# Of 16 bytes those of weight and gradient stay, and of the two slots' a quarter does: 49 MB less.
[ $((planned * 160)) -lt $((whole * 102)) ] && [ $((planned * 160)) -gt $((whole * 98)) ] ||
    fail "memory of parameters: $whole MB whole, $planned MB with 4 ranks"
[ $((all - had)) -ge 40 ] || fail "memory of a rank: $all MB whole, $had MB in parts"

# ---- other numbers of ranks, the switch the other way ----------------------------------------------

train 3 true on 20 --set "$adamw"
train 1 false on 40 --set "$adamw"
train 4 true on 60 --set "$adamw"
same adamw on 60
train 2 false off 20 --set "$sgd"
train 2 true off 40 --set "$sgd"
train 3 false off 60 --set "$sgd"
same sgd off 60

# What another optimizer has not begins anew, in parts as well.
for n in 1 4; do
    train $n true other$n 20 --set "$sgd"
    train $n true other$n 40 --set "$adamw" --accept-changes
    [ "$(grep -c 'moments start again from zero' out)" = 1 ] || fail 'moments start again: not said, or often'
done
same other1 other4 40

# Going back where a step diverges.
for n in 1 3; do
    # shellcheck disable=SC2086 # words
    says 5 . launch -n $n -- train $settings back$n --steps 100 --set "$adamw" \
        --set trainer.loss_upper_bound=0.2,trainer.recovery_begin_steps=30 \
        --set runtime.sharded_optimizer=true,trainer.recovery_max_trials=2
done
cmp back1/recovery.json back3/recovery.json >>out 2>&1 || fail '3 ranks go back otherwise'

# ---- interrupted, killed -------------------------------------------------------------------------

long=600
train 1 false long $long --set "$sgd" --set trainer.checkpoint_interval=50
# begun RUN: waits for its first checkpoint, up to a minute.
begun() {
    looks=0
    until [ -e "$1/checkpoints/ckpt-50.safetensors" ] || [ $looks = 3000 ]; do
        sleep 0.02
        looks=$((looks + 1))
    done
}
# start RANKS RUN ARGUMENT...: in the background, as $launch.
start() {
    n=$1 run=$2
    shift 2
    # shellcheck disable=SC2086 # words
    "$etude" launch -n "$n" "$@" -- train $settings "$run" --steps $long --set "$sgd" --set \
        trainer.checkpoint_interval=50,runtime.sharded_optimizer=true >out 2>&1 &
    launch=$!
}
# nth N WORD...: nothing where there are fewer.
nth() {
    [ $# -gt "$1" ] || return 0
    shift "$1"
    echo "${1:-}"
}
# resumes RANKS SHARDED RUN: to the end, unless it was there before it was stopped.
resumes() {
    [ -e "$3/checkpoints/ckpt-$long.safetensors" ] ||
        train "$1" "$2" "$3" $long --set "$sgd" --set trainer.checkpoint_interval=50
    same long "$3" $long
}
for who in 1 2; do
    start 2 term$who
    begun term$who
    # shellcheck disable=SC2046 # words
    target=$(nth $who $(ranks $launch))
    [ -z "$target" ] || kill -TERM "$target" 2>/dev/null || true
    got=0
    wait $launch || got=$?
    [ $got = 75 ] || [ $got = 0 ] || fail "SIGTERM: exit $got"
    [ $got = 0 ] || [ "$(grep -c '^interrupted: saved step' out)" = 1 ] ||
        fail 'SIGTERM: it is not said, or more than once, that something is saved'
    resumes $((4 - who)) $([ $who = 1 ] && echo true || echo false) term$who
done

start 3 killed --restart 20 --grace 5
for pause in 1 2 3; do
    begun killed
    sleep 0.$pause
    # shellcheck disable=SC2046 # words
    target=$(nth $pause $(ranks $launch))
    [ -z "$target" ] || kill -KILL "$target" 2>/dev/null || true
done
wait $launch || fail "after kills: exit $?"
same long killed $long
# A rank is killed, and others go on, another number of them and without.
start 4 left
begun left
# shellcheck disable=SC2046 # words
target=$(nth 3 $(ranks $launch))
[ -z "$target" ] || kill -KILL "$target" 2>/dev/null || true
wait $launch || true
resumes 2 false left

# ---- MPI ----------------------------------------------------------------------------------------

for mpi in "$@"; do
    finds "$mpi" || continue
    # shellcheck disable=SC2086 # words
    "$start" $more -n 4 "$etude" train $settings "$mpi" --steps 60 --set "$adamw" \
        --set runtime.sharded_optimizer=true >out 2>&1 || fail "$mpi: exit $?"
    same adamw "$mpi" 60
done
