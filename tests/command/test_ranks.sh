#!/bin/sh
# test_ranks.sh ETUDE BUILD [MPI...]: several processes train one model. For any number of
# processes, and if one of them is killed, stopped or fails, a run ends with the bytes of one
# process. They end together, with one exit code. The same with each MPI (openmpi, mpich) that was
# built.
#
# ET_TEST_KILLS: the number of random kills (default: 4).
set -eu
. "$(dirname "$0")/ranks.sh"

settings='--experiment tabular/mlp --target kind --data t.csv --set runtime.data_shards=4
    --set trainer.checkpoint_interval=50,trainer.summary_interval=50,trainer.validation_interval=200,trainer.max_to_keep=20
    --set task.train_data.batch_size=16,runtime.peer_timeout=5'
# same RUN STEP: its checkpoint and logs are those of `one`, which has made as many steps.
same() {
    cmp "one/checkpoints/ckpt-$2.safetensors" "$1/checkpoints/ckpt-$2.safetensors" >>out 2>&1 ||
        fail "$1: its checkpoint of step $2 is another than that of one process"
    for run in one "$1"; do
        sed 's/,"time":{[^}]*}//g' "$run/metrics.jsonl" | head -n "$(wc -l <one/metrics.jsonl)" \
            >"$run.logs"
    done
    cmp one.logs "$1.logs" >>out 2>&1 || fail "$1: its logs are other than those of one process"
}
# begun RUN: waits for its first checkpoint, up to a minute.
begun() {
    looks=0
    until [ -e "$1/checkpoints/ckpt-50.safetensors" ] || [ $looks = 3000 ]; do
        sleep 0.02
        looks=$((looks + 1))
    done
}
# newest RUN: the step of its newest checkpoint.
newest() {
    ls "$1/checkpoints" | sed -n 's/^ckpt-\([0-9]*\)[.]safetensors$/\1/p' | sort -n | tail -n 1
}
# nth N WORD...: nothing where there are fewer.
nth() {
    [ $# -gt "$1" ] || return 0
    shift "$1"
    echo "${1:-}"
}

# ---- equal bytes ---------------------------------------------------------------------------------

# shellcheck disable=SC2086 # words
train() {
    "$etude" train $settings "$@"
}
train one --steps 600 >out 2>&1 || fail "one process"
for n in 2 3 4; do
    # shellcheck disable=SC2086 # words
    says 0 "^ranks  *$n, " launch -n $n -- train $settings "of$n" --steps 600
    [ "$(grep -c '^done' out)" = 1 ] || fail "$n ranks: more than one of them speaks"
    same "of$n" 600
done

# Those that do not write have the text to learn from as well, whatever is validated on.
awk 'BEGIN { for (i = 0; i < 600; i++) { line = ""; for (k = 0; k <= i % 5; k++)
    line = line sprintf("%c%c ", 97 + (i * 7 + k * 3) % 26, 97 + (i + k * 5) % 26); print line } }' >text
head -n 40 text >valid

# All ranks go by one length under a time limit, whenever it ends the run.
code=0
"$etude" launch -n 2 -- train limit --experiment translation/auto --data text text --valid valid \
    valid --time-limit 5s --set runtime.data_shards=2 >out 2>&1 || code=$?
[ $code = 0 ] || [ $code = 75 ] || fail "two ranks with a time limit end with $code"
translate() {
    run=$1 n=$2
    says 0 "^done" launch -n "$n" -- train "$run" --experiment translation/tiny --data text text \
        --valid valid valid --vocab-size 60 --steps 8 --set task.model.embedding_width=32 --set \
        task.model.encoder.num_layers=1,task.model.decoder.num_layers=1,trainer.validation_interval=4 \
        --set task.train_data.global_batch_size=512,runtime.data_shards=2 \
        --set task.validation_data.global_batch_size=64
}
translate text1 1
translate text2 2
cmp text1/checkpoints/ckpt-8.safetensors text2/checkpoints/ckpt-8.safetensors >>out 2>&1 ||
    fail "ranks that validate end elsewhere"
for file in translations/4.txt translations/8.txt; do
    cmp text1/$file text2/$file >>out 2>&1 || fail "ranks translate otherwise: $file"
done
for n in 1 2; do
    sed 's/,"time":{[^}]*}//g' text$n/metrics.jsonl >text$n.logs
done
grep -q sacrebleu_score text1.logs && cmp text1.logs text2.logs >>out 2>&1 ||
    fail "ranks log other scores than one process"
for n in 1 2; do
    # shellcheck disable=SC2086 # words
    says 0 '^done' launch -n $n -- train $settings "valid$n" --valid t.csv --steps 20
done
cmp valid1/checkpoints/ckpt-20.safetensors valid2/checkpoints/ckpt-20.safetensors >>out 2>&1 ||
    fail "ranks that validate on another table end elsewhere"
# Several targets, and quantiles.
for words in '--target kind,colour' '--target price --quantiles 0.1,0.9'; do
    for n in 1 2; do
        rm -rf "some$n"
        # shellcheck disable=SC2086 # words
        says 0 '^done' launch -n $n -- train $settings "some$n" $words --steps 20 \
            --set trainer.validation_interval=10
        sed 's/,"time":{[^}]*}//g' "some$n/metrics.jsonl" >"some$n.logs"
    done
    cmp some1/checkpoints/ckpt-20.safetensors some2/checkpoints/ckpt-20.safetensors >>out 2>&1 ||
        fail "$words: ranks end elsewhere"
    cmp some1.logs some2.logs >>out 2>&1 || fail "$words: ranks log other scores"
done
# shellcheck disable=SC2086 # words
OMP_NUM_THREADS=2 says 0 '^done' launch -n 2 -- train $settings threads --steps 600
same threads 600

# Several sets, their last batches not full, and an end that depends on what they gave.
head -n 151 t.csv >part.csv
for n in 1 3; do
    # shellcheck disable=SC2086 # words
    says 0 '^done .*stopped early.*; best a/' launch -n $n -- train $settings "sets$n" --steps 900 \
        --set trainer.validation_interval=20,trainer.early_stopping.patience=2 --set \
        'task.validation_data={sets: [{name: a, input_path: [part.csv]}, {name: b, input_path: [t.csv]}], batch_size: 7}'
    sed 's/,"time":{[^}]*}//g' "sets$n/metrics.jsonl" >"sets$n.logs"
done
cmp sets1.logs sets3.logs >>out 2>&1 || fail '3 ranks: other values of validation sets'

# What evaluate prints, of a run of texts and of one of rows; what is wrong is said once.
for run in text1 valid1; do
    tells 0 '' evaluate $run
    mv out alone
    for n in 2 3; do
        tells 0 '' launch -n $n -- evaluate $run
        cmp alone out >>said 2>&1 || fail "$n ranks evaluate $run otherwise"
    done
done
tells 0 '' launch -n 2 -- train valid1 --mode eval
grep -q '^log_loss \|^loss ' out && [ "$(grep -c '^checkpoint' out)" = 1 ] || fail '--mode eval'
says 3 'no checkpoint of step 7' launch -n 2 -- evaluate text1 --checkpoint 7
[ "$(grep -c 'no checkpoint of step 7' out)" = 1 ] || fail 'said more than once: no such checkpoint'

# As bfloat16 two ranks' are others, alike from run to run; one rank sends none.
half() {
    run=$1 n=$2 half=$3
    # shellcheck disable=SC2086 # words
    says 0 '^done' launch -n "$n" -- train $settings "$run" --steps 100 \
        --set runtime.bfloat16_gradients="$half"
}
half whole1 1 false
half half1 1 true
half half2 2 true
OMP_NUM_THREADS=2 half again2 2 true
ckpt=checkpoints/ckpt-100.safetensors
cmp half2/$ckpt again2/$ckpt >>out 2>&1 || fail "bfloat16 gradients: another run is another"
cmp whole1/$ckpt half1/$ckpt >>out 2>&1 || fail "one rank rounds gradients"
! cmp -s whole1/$ckpt half2/$ckpt || fail "two ranks do not round gradients"
# It may be set and unset where a run goes on.
# shellcheck disable=SC2086 # words
says 0 '^done' launch -n 2 -- train $settings whole1 --steps 150 --set runtime.bfloat16_gradients=true

# What stands between passes and updates: several batches of a shard, a scale, going back.
alike() {
    name=$1 code=$2
    shift 2
    for n in 1 3; do
        # shellcheck disable=SC2086 # words
        says "$code" . launch -n $n -- train $settings "$name$n" --steps 100 "$@"
    done
    for file in checkpoints/ckpt-100.safetensors recovery.json; do
        [ ! -e "${name}1/$file" ] || cmp "${name}1/$file" "${name}3/$file" >>out 2>&1 ||
            fail "$name: $file of 3 ranks is another"
    done
}
alike scaled 0 --set trainer.gradient_accumulation=2,runtime.loss_scale=dynamic,runtime.prefetch=0
[ -e scaled3/checkpoints/ckpt-100.safetensors ] || fail "no checkpoint to compare"
alike back 5 --set trainer.loss_upper_bound=0.2,trainer.recovery_begin_steps=30 \
    --set trainer.recovery_max_trials=2,trainer.checkpoint_interval=10
[ -e back3/recovery.json ] || fail "no step has diverged"

# ---- interrupted, and on with another number of ranks ---------------------------------------------

# stopped CODE RUN WHO: `launch` of two, whose rank WHO gets SIGTERM (0: launch itself).
stopped() {
    # shellcheck disable=SC2086 # words
    "$etude" launch -n 2 -- train $settings "$2" --steps 600 >out 2>&1 &
    launch=$! got=0
    begun "$2"
    target=$launch
    # shellcheck disable=SC2046 # words
    [ "$3" = 0 ] || target=$(nth "$3" $(ranks $launch))
    kill -TERM "$target" 2>/dev/null || true
    wait $launch || got=$?
    [ "$got" = "$1" ] || [ "$got" = 0 ] || fail "SIGTERM: exit $got, wanted $1"
    [ "$got" = 0 ] || [ "$(grep -c '^interrupted: saved step' out)" = 1 ] ||
        fail "SIGTERM: it is not said, or more than once, that something is saved"
}
for who in 0 1 2; do
    stopped 75 "term$who" $who
    # How far it was is chance: four of them go on, if not to this step, to the end.
    to=400
    [ "$(newest "term$who")" -lt 400 ] || to=600
    # shellcheck disable=SC2086 # words
    [ -e "term$who/checkpoints/ckpt-600.safetensors" ] ||
        says 0 '^done' launch -n 4 -- train $settings "term$who" --steps $to
    train "term$who" --steps 600 >out 2>&1 || fail "one process goes on"
    same "term$who" 600
done

# ---- killed, stopped -----------------------------------------------------------------------------

# A rank, chosen at random, again and again; run after run, until there were so many kills.
kills=${ET_TEST_KILLS:-4} seed=$$ done=0 runs=0
while [ "$done" -lt "$kills" ]; do
    rm -rf killed
    # shellcheck disable=SC2086 # words
    "$etude" launch -n 3 --restart 20 --grace 5 -- train $settings killed --steps 600 >out 2>&1 &
    launch=$! here=0 runs=$((runs + 1))
    while [ $here -lt 10 ] && [ $((done + here)) -lt "$kills" ]; do
        seed=$(((seed * 1103515245 + 12345) % 2147483648))
        sleep "0.$((seed / 65536 % 5))$((seed / 655360 % 10))"
        # shellcheck disable=SC2046 # words
        rank=$(nth $((seed / 1024 % 3 + 1)) $(ranks $launch))
        kill -0 $launch 2>/dev/null || break
        [ -z "$rank" ] || { kill -KILL "$rank" 2>/dev/null && here=$((here + 1)); } || true
    done
    wait $launch || fail "after $here kills: exit $?"
    same killed 600
    done=$((done + here))
    [ $runs -le $((kills + 10)) ] || fail "runs end before anything is killed"
done
echo "$done kills in $runs runs"

# shellcheck disable=SC2086 # words
"$etude" launch -n 3 --restart 1 --grace 3 -- train $settings still --steps 600 >out 2>&1 &
launch=$!
begun still
# shellcheck disable=SC2046 # words
rank=$(nth 2 $(ranks $launch))
kill -STOP "$rank" 2>/dev/null || true
wait $launch || fail "a rank was stopped: exit $?"
same still 600
for pid in $(ranks $launch); do
    fail "a rank is left: $pid"
done

# ---- what is wrong is said once, and all end with its code -----------------------------------------

# shellcheck disable=SC2086 # words
once 3 'runtime.data_shards=5' launch -n 5 -- train $settings many --steps 600
[ ! -e many ] || fail "a start that failed leaves a directory"
# shellcheck disable=SC2086 # words
once 5 'not finite' launch -n 2 -- train $settings nan --steps 600 \
    --set trainer.optimizer_config.learning_rate.constant.learning_rate=1e6 \
    --set trainer.optimizer_config.learning_rate.type=constant,trainer.optimizer_config.optimizer.type=sgd,trainer.loss_upper_bound=1e300
# shellcheck disable=SC2086 # words
once 3 't.none' launch -n 2 -- train $settings none --data t.none --steps 600
# shellcheck disable=SC2086 # words
once 3 'runtime.data_shards' launch -n 2 -- train $settings of2 --steps 220 \
    --set runtime.data_shards=2
# shellcheck disable=SC2086 # words
once 3 'batch_size: 18 cannot be split' train $settings cut --steps 9 --set task.train_data.batch_size=18
says 2 'allowed: 1 to 64' launch -n 0 -- train
says 2 'a number of processes, 1 to 64' launch -- train
says 2 'launch: no command to start; put the command after --: launch -n' launch -n 2
says 127 'cannot start ..no-such-program: neither' launch -n 2 -- ./no-such-program
says 126 'not a program, or no permission to run it' launch -n 2 -- /etc/passwd
says 0 'etude launch' launch --help
says 0 '^a -n 1 --restart=2 -- --help$' launch -n 2 echo a -n 1 --restart=2 -- --help
says 2 'before the command' launch train -n 2 run
for signal in TERM HUP XCPU USR1; do
    says 9 caught launch -n 1 sh -c "trap 'echo caught; exit 9' $signal; kill -$signal \$PPID; while :; do sleep 0.1; done"
done

# ---- MPI -----------------------------------------------------------------------------------------

for mpi in "$@"; do
    finds "$mpi" || continue
    for n in 2 4; do
        # shellcheck disable=SC2086 # words
        "$start" $more -n $n "$etude" train $settings "$mpi$n" --steps 600 >out 2>&1 ||
            fail "$mpi, $n ranks: exit $?"
        grep -q "^ranks  *$n" out || fail "$mpi: $n ranks do not know of each other"
        same "$mpi$n" 600
    done
    got=0
    # shellcheck disable=SC2086 # words
    "$start" $more -n 5 "$etude" train $settings "$mpi" --steps 9 >out 2>&1 || got=$?
    [ "$got" != 0 ] && grep -q 'runtime.data_shards=5' out || fail "$mpi: 5 ranks, 4 shards"
    ETUDE_MPI=none OMPI_COMM_WORLD_SIZE=2 says 3 'etude_mpi_none.so' train one --steps 601
done
