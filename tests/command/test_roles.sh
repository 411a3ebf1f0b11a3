#!/bin/sh
# test_roles.sh ETUDE: training by a master, workers and parameter servers, on this machine. It
# learns the same as one process. Workers are killed and come back; Ctrl-C saves; killing a server
# ends the run, and the run resumes; the roles of TF_CONFIG with keys. No process remains.
set -eu
etude=$1
work=$(mktemp -d "$PWD/roles.XXXXXX")
cd "$work"
name=test_roles
. "$(dirname "$0")/roles.sh"
trap 'kill_ours; rm -rf "$work"' EXIT
needs_forks

# train RUN STEPS WORDS...
train() {
    run=$work/$1 steps=$2
    shift 2
    "$etude" train --experiment tabular/mlp --data learn.csv --target kind --model-dir "$run" \
        --steps "$steps" --threads 1 -q "$@" >log 2>&1
}

# Alone, and with one worker: the same numbers. With two workers and servers: nearly.
train alone 150 || fail "alone"
train one 150 --distributed || fail "one worker"
none_left "one worker"
[ "$(last alone training_loss)" = "$(last one training_loss)" ] || fail "one worker: another loss"
[ "$(last alone validation_loss)" = "$(last one validation_loss)" ] || fail "another validation loss"
[ "$(last one staleness/mean) $(last one staleness/max)" = "0.0 0.0" ] || fail "one worker: stale gradients"
[ -z "$(last alone staleness/mean)" ] || fail "alone: staleness"
for steps in 70 150; do
    train parts "$steps" --distributed || fail "one worker: $steps steps"
done
[ "$(last alone validation_loss)" = "$(last parts validation_loss)" ] || fail "one worker, resumed: another loss"
# A validation between two logs measures the weights of its own step.
validations() {
    grep -o '"step":[0-9]*,"validation":.*"time":{"seconds"' "$1/metrics.jsonl"
}
often=trainer.summary_interval=50,trainer.validation_interval=20
train often 60 --set $often || fail "alone, validated between logs"
train often_one 60 --distributed --set $often || fail "one worker, validated between logs"
[ "$(validations often | wc -l)" = 3 ] || fail "alone: $(validations often | wc -l) validations"
[ "$(validations often)" = "$(validations often_one)" ] || fail "one worker: another validation between logs"
train two 150 --distributed --workers 2 --servers 2 || fail "two workers"
none_left "two workers"
for gradients in 1 3; do
    train "each$gradients" $((150 / gradients)) --distributed --workers 2 --servers 2 \
        --set "runtime.gradients_per_update=$gradients" || fail "$gradients gradients an update"
done
none_left "but the pass computes gradients only for an update"
train sync 75 --distributed --workers 2 --servers 3 --set runtime.synchronous=true || fail "synchronous"
none_left "synchronous"
[ "$(last sync staleness/max)" = 0.0 ] || fail "synchronous: stale gradients"
[ -n "$(last two staleness/mean)" ] || fail "two workers: staleness is not logged"

# Validation data beside: a worker opens what is learnt from all the same.
awk 'BEGIN { for (i = 0; i < 400; i++) print "a" i % 7 " b" i % 11 " c" i % 13 }' >text.en
rev text.en >text.de
"$etude" train --experiment translation/tiny --data text.en text.de --valid text.en text.de \
    --model-dir "$work/text" --vocab-size auto --steps 3 --threads 1 -q --distributed \
    --set trainer.checkpoint_interval=3 >log 2>&1 || fail "with validation data"
none_left "with validation data"
for run in two each1 each3 sync; do
    awk -v a="$(last alone validation_loss)" -v b="$(last $run validation_loss)" \
        'BEGIN { exit !(b < a + 0.05) }' || fail "$run: $(last alone validation_loss) alone, and $(last $run validation_loss)"
    "$etude" inspect "$work/$run" >inspected || fail "$run: inspect"
    head -4 learn.csv | cut -d, -f1-3 | "$etude" predict "$work/$run" >answers || fail "$run: predict"
    [ "$(wc -l <answers)" = 3 ] || fail "$run: $(wc -l <answers) answers"
done

# An epoch is a pass over the data: an update of two gradients is two batches of it.
epochs() {
    run=$work/$1
    shift
    "$etude" train --experiment tabular/mlp --data learn.csv --target kind --model-dir "$run" --threads 1 -q \
        --set trainer.train_epochs=6 "$@" >log 2>&1
}
epochs once || fail "epochs"
epochs shared --distributed --workers 2 || fail "epochs: two workers"
none_left "epochs"
[ "$(last once step)" = $((2 * $(last shared step))) ] ||
    fail "epochs: $(last once step) steps alone, $(last shared step) of two workers"

# A decay of the run, and one of as many epochs, ends with it: the last of T updates has (T - 1) / T of it.
for decay in auto 6ep; do
    rate="{type: cosine, cosine: {initial_learning_rate: 0.01, decay_steps: $decay}}"
    epochs "decay_$decay" --distributed --workers 2 --set "trainer.optimizer_config.learning_rate=$rate" ||
        fail "a decay of $decay"
    awk -v rate="$(last "decay_$decay" learning_rate)" -v steps="$(last "decay_$decay" step)" 'BEGIN {
        expected = 0.005 * (1 + cos(atan2(0, -1) * (steps - 1) / steps))
        exit !(steps > 10 && rate > 0.999 * expected && rate < 1.001 * expected) }' ||
        fail "a decay of $decay: the last rate is $(last "decay_$decay" learning_rate)"
done
none_left "decays"

# One process goes on with what the cluster has saved.
train two 160 || fail "going on alone"
grep -q '"step":160' two/metrics.jsonl || fail "going on alone: no step 160"

# endless RUN WORDS...: one that does not end by itself, however fast it is.
endless() {
    run=$1
    shift
    train "$run" 10000000 --distributed --set trainer.early_stopping.patience=0 "$@"
}

# Workers: the last processes that are started. Killed, twice; then Ctrl-C; then the same command.
endless killed --workers 2 --servers 2 &
started=$!
wait_for_step killed 20
for _ in 1 2; do
    kill -9 "$(ours | tail -1)"
    before=$(last killed step)
    wait_for_step killed $((before + 30))
done
supervisor=$(ours | head -1)
[ "$(ps -o ppid= -p "$(ours | tail -1)" | tr -d ' ')" = "$supervisor" ] || fail "no supervisor"
kill -INT "$supervisor"
code=0
wait "$started" || code=$?
[ "$code" = 75 ] || fail "interrupted: exit code $code"
none_left interrupted
step=$(newest killed)
train killed $((step + 10)) --distributed --workers 1 --servers 1 || fail "going on"
[ "$(last killed step)" = $((step + 10)) ] || fail "going on: step $(last killed step)"
none_left "going on"

# A server that is killed ends the run, which goes on from its last checkpoint.
endless lost --servers 2 --set trainer.checkpoint_interval=20 &
started=$!
wait_for_step lost 45
kill -9 "$(ours | sed -n 3p)"
code=0
wait "$started" || code=$?
[ "$code" = 1 ] || fail "a server was killed: exit code $code"
grep -q 'server 0 is lost; the same command resumes from the last checkpoint' log || fail "a server was killed: not said"
none_left "a server was killed"
step=$(newest lost)
[ "$step" -ge 20 ] || fail "a server was killed: newest checkpoint $step"
train lost $((step + 5)) --distributed || fail "going on without the server that was killed"
none_left "going on"

# A server that stands still is lost as well; it goes with the others.
endless still --servers 2 --set trainer.checkpoint_interval=20 --set runtime.peer_timeout=10 &
started=$!
wait_for_step still 45
kill -STOP "$(ours | sed -n 3p)"
code=0
wait "$started" || code=$?
[ "$code" = 1 ] || fail "a server was stopped: exit code $code"
grep -q 'server 0 has not answered for 10 seconds' log || fail "a server was stopped: not said"
none_left "a server was stopped"
[ "$(newest still)" -ge 20 ] || fail "a server was stopped: newest checkpoint $(newest still)"

# The roles of TF_CONFIG, each by its own command.
"$etude" keys keys || fail "keys"
[ "$(stat -c %a keys/worker.key)" = 600 ] || fail "mode of a key"
port=$first_port
cluster="\"cluster\": {\"master\": [\"localhost:$port\"], \"ps\": [\"localhost:$((port + 1))\"],
\"worker\": [\"localhost:$((port + 2))\", \"localhost:$((port + 3))\"]}"
task() {
    TF_CONFIG="{\"task\": {\"type\": \"$1\", \"index\": $2}, $cluster}" "$etude" train \
        --experiment tabular/mlp --data learn.csv --target kind --model-dir "$work/roles" \
        --steps 60 --threads 1 -q ${3:+--keys "$3"} ${4:+--set "$4"} >"log.$1.$2" 2>&1
}
"$etude" keys others || fail "keys"
task ps 0 keys & server=$!
task master 0 keys & master=$!
task worker 1 others & stranger=$!
code=0
wait "$stranger" || code=$?
[ "$code" != 0 ] || fail "TF_CONFIG: a task with other keys was let in"
grep -q "key" log.worker.1 || fail "TF_CONFIG: a task with other keys: not said"
task worker 0 keys & worker=$! # late
wait "$master" || { cat log.master.0 >&2; fail "TF_CONFIG: the master"; }
wait "$server" || { cat log.ps.0 >&2; fail "TF_CONFIG: the server"; }
wait "$worker" || { cat log.worker.0 >&2; fail "TF_CONFIG: the worker"; }
[ "$(last roles step)" = 60 ] || fail "TF_CONFIG: step $(last roles step)"
none_left TF_CONFIG
[ ! -s log.ps.0 ] && [ ! -s log.worker.0 ] || fail "TF_CONFIG: said without a reason"

# All on this host: without a folder of keys.
rm -r roles
TMPDIR=$work
export TMPDIR
task ps 0 '' task.train_data.input_path=new.csv & server=$!
task worker 0 '' runtime.seed=7 & worker=$!
task master 0 '' || { cat log.master.0 >&2; fail "keys of this host: the master"; }
wait "$server" && wait "$worker" || fail "keys of this host: a server or a worker"
[ "$(last roles step)" = 60 ] || fail "keys of this host: step $(last roles step)"
grep -q 'ps 0 uses the settings of its master, not .*: the run reads learn.csv, but the command names new.csv' log.ps.0 ||
    fail "other data than the master's: not said"
grep -q 'worker 0 uses the settings of its master.* runtime.seed: 0, but now it is 7' log.worker.0 ||
    fail "other settings than the master's: not said"
[ "$(stat -c %a "etude-keys-$(id -u)")" = 700 ] || fail "keys of this host: mode of their folder"
unset TMPDIR

# What is wrong is said, at once.
says() {
    expected=$1 words=$2
    shift 2
    code=0
    "$@" >log 2>&1 || code=$?
    [ "$code" = "$expected" ] && grep -q -- "$words" log || fail "$words: exit code $code"
}
says 2 'only with --distributed' "$etude" train --workers 2 --model-dir x
says 2 'workers: 0 is out of range' "$etude" train --distributed --workers 0 --model-dir x
hosts='"cluster": {"master": ["192.0.2.1:1"], "ps": ["localhost:2"]}'
says 2 'needs keys.*--keys' env "TF_CONFIG={\"task\": {\"type\": \"ps\", \"index\": 0}, $hosts}" \
    "$etude" train --experiment tabular/mlp --data learn.csv --target kind x
says 2 'exists' "$etude" keys keys
says 2 '--distributed starts a cluster, but TF_CONFIG names one' \
    env "TF_CONFIG={\"task\": {\"type\": \"ps\", \"index\": 0}, $cluster}" "$etude" train --distributed \
    --keys keys --experiment tabular/mlp --data learn.csv --target kind x
says 2 'task ps 0 has no cluster, and a single node is always the master' env 'TF_CONFIG={"task": {"type": "ps"}}' \
    "$etude" train --experiment tabular/mlp --data learn.csv --target kind x
says 2 '--keys: only with a cluster in TF_CONFIG' "$etude" train --keys keys \
    --experiment tabular/mlp --data learn.csv --target kind x
chmod 644 keys/ps.key
says 3 'other users can read this file (mode' env "TF_CONFIG={\"task\": {\"type\": \"ps\", \"index\": 0}, $cluster}" \
    "$etude" train --keys keys --experiment tabular/mlp --data learn.csv --target kind x
says 3 'recovery_max_trials' "$etude" train --experiment tabular/mlp --data learn.csv \
    --target kind --model-dir "$work/x" --steps 5 --distributed --set trainer.recovery_max_trials=1
says 5 'more than loss_upper_bound' "$etude" train --experiment tabular/mlp --data learn.csv --target kind \
    --model-dir "$work/y" --steps 50 --distributed --set trainer.loss_upper_bound=0.0001
none_left "refused"

# The programs of `tfx train --distributed` end as their master does. A worker that is killed again and again is not
# started for ever.
cat >program <<'END'
#!/bin/sh
case $TF_CONFIG in
*'"type":"master"'*) trap 'exit 7' TERM; while sleep 0.1; do :; done ;;
*'"type":"worker"'*) kill -9 $$ ;;
esac
sleep 1000
END
says 3 'program: not a program, or no permission to run it' "$etude" tfx train --module ./program --distributed
says 3 'program: not a program, or no permission to run it' "$etude" tfx train --module ./program
chmod +x program
says 7 'worker 0 was ended by signal 9; it is not started again, as too often' \
    "$etude" tfx train --module ./program --distributed
[ "$(grep -c 'it is started again' log)" = 20 ] || fail "a worker was started again another number of times"
echo "test_roles: all done"
