#!/bin/sh
# test_own_task.sh OWN_TASK [MPI...]: a program with its own task has all commands. Its run is
# killed again and again, ends with the bytes of an unbroken one, and is evaluated, listed and
# inspected. Misspelt settings are reported as for any task.
set -eu
own=$1
shift
work=$(mktemp -d "$PWD/own_task.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
: >log

fail() {
    echo "test_own_task: $*" >&2
    cat log >&2
    exit 1
}

# become RUN [OPTION]...: this shell becomes a training of 4,000 steps, a checkpoint every 500.
become() {
    run=$1
    shift
    exec "$own" train --experiment rings/small --model-dir "$run" \
        --set task.noise=0.2,task.points=1000,trainer.train_steps=4000 \
        --set trainer.checkpoint_interval=500,trainer.validation_interval=1000 "$@"
}
train() {
    (become "$@")
}

# refused CODE TEXT COMMAND...: it ends with CODE and says TEXT in a line of the program's own.
refused() {
    code=$1 text=$2 got=0
    shift 2
    "$@" >out 2>log || got=$?
    [ "$got" = "$code" ] || fail "$*: exit code $got, not $code"
    grep -q "^own_task: .*$text" log || fail "$*: does not say: $text"
}

"$own" list >out 2>log || fail "list"
grep -q '^rings/small ' out || fail "list: no experiment"
"$own" list rings/small >out 2>log || fail "list rings/small"
grep -q '^task\.hidden: 16 .*units of a layer (1 to 4,096)' out || fail "list: no settings"
refused 3 'task\.hiden: no such setting\. Nearest: hidden (task has: points' \
    train a --set task.hiden=3
refused 3 'task\.batch_size: 900 is more than' train a --set task.batch_size=900
refused 3 'no experiment is called rings/smal\. Nearest: rings/small; `own_task list`' \
    "$own" train --experiment rings/smal --model-dir a
refused 2 'no command translate' "$own" translate
refused 3 'this kind of task has no task\.init_checkpoint' \
    "$own" train --experiment rings/small --model-dir a --mode continuous_train_and_eval
[ ! -e a ] || fail "what was refused has left a directory"

train whole 2>log || fail "train"
grep -q '^ *step  epoch  *loss  *margin  *validation_loss  *time$' log || fail "its metric is not measured"
grep -q '`own_task evaluate --model-dir whole`' log || fail "what comes next is not said"

# Killed while it works, at places that differ from turn to turn, until it comes to its end.
kills=0 done=
while [ -z "$done" ]; do
    become broken 2>log &
    pid=$!
    if [ "$kills" -lt 5 ]; then
        sleep 0.2"$kills"
        kill -9 "$pid" 2>/dev/null && kills=$((kills + 1)) || kills=5
        wait "$pid" 2>/dev/null && done=1 || :
    else
        wait "$pid" || fail "train does not go on"
        done=1
    fi
done
for file in whole/checkpoints/ckpt-*; do
    cmp "$file" "broken/checkpoints/${file##*/}" >>log 2>&1 || fail "$file is another"
done
cmp whole/params.yaml broken/params.yaml || fail "the settings differ"
train whole 2>log || fail "a run that is finished"
grep -q '^finished ' log || fail "does not say that it is finished"
refused 3 'belongs to a run with task\.hidden: 16, but now it is 3' train whole --set task.hidden=3

"$own" inspect --tensors --model-dir whole >out 2>log || fail "inspect"
grep -q '^as trained: whole/params.yaml$' out || fail "inspect: not its own"
grep -q '^hidden_0/weight  *float32 ' out || fail "inspect: no tensors"
"$own" evaluate --model-dir whole >out 2>log || fail "evaluate"
grep -q '^checkpoint whole/best/.*, step [1-4]000$' out || fail "evaluate: not the best checkpoint"
# As it was measured when it was trained: two rings are told apart by a network this large.
awk '$1 == "accuracy" { if ($2 > 0.95) good = 1 } END { exit !good }' out ||
    fail "evaluate: $(cat out)"
step=$(sed -n 's/^checkpoint .*, step //p' out)
margin=$(sed -n 's/^margin *//p' out)
grep "\"step\": *${step}[,}]" whole/metrics.jsonl | grep -q "validation_margin\": *${margin%?}" ||
    fail "evaluate: margin $margin, in training: $(grep margin whole/metrics.jsonl)"
"$own" average --output mean.safetensors whole/checkpoints/ckpt-*.safetensors 2>log ||
    fail "average"
"$own" evaluate --model-dir whole --checkpoint mean.safetensors >out 2>log || fail "its mean"
grep -q '^checkpoint mean.safetensors, step 4000$' out || fail "not the mean"
refused 3 'whole/params.yaml is a file that a run writes' \
    "$own" average --output whole/params.yaml whole/checkpoints/ckpt-4000.safetensors

# Another run's weights, though this kind has no setting for them; the largest batch that fits.
(become tuned --init whole --steps 1 2>log) || fail "--init"
grep -q '^initial  *weights of whole/best$' log || fail "--init: not said"
awk '$1 == "step" { for (i = 1; i < NF; i++) if ($i == "loss") { found = 1; exit !($(i + 1) < 0.2) } }
    END { if (!found) exit 1 }' log || fail "--init: a loss as of drawn weights"
(become fitted --memory 1M --steps 1 2>log) || fail "--memory"
size=$(sed -n 's/^  batch_size: //p' fitted/params.yaml)
[ "$size" -gt 50 ] || fail "--memory: batch_size $size"

# By three ranks, of its own launch and of each MPI that was built.
export OMP_NUM_THREADS=1
# ranks RUN WORD...: trained by what is started so.
ranks() {
    run=$1
    shift
    "$@" train --experiment rings/small --model-dir "$run" --steps 100 \
        --set task.points=1000,task.batch_size=60,runtime.data_shards=3 >out 2>log || fail "$run: exit $?"
    cmp "alone/checkpoints/ckpt-100.safetensors" "$run/checkpoints/ckpt-100.safetensors" >>log 2>&1 ||
        fail "$run: other bytes than those of one process"
}
ranks alone "$own"
ranks launched "$own" launch -n 3 --
grep -q '^ranks  *3, ' log || fail "launch: it is not said how many ranks there are"
for mpi in "$@"; do
    command -v "mpirun.$mpi" >/dev/null || { echo "SKIPPED: $mpi: no mpirun.$mpi"; continue; }
    more='--allow-run-as-root --oversubscribe'
    [ "$mpi" != mpich ] || more=
    # shellcheck disable=SC2086 # words
    ranks "$mpi" "mpirun.$mpi" $more -n 3 "$own"
done
echo "a task of a program's own: $kills kills, equal bytes"
