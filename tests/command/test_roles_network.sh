#!/bin/sh
# test_roles_network.sh ETUDE PROXY: a master, two servers and two workers, each its own command,
# which are connected only by a bad network (tests/roles/proxy.c): it loses, changes, repeats and
# delays pieces, cuts connections, and replays old ones. Training ends with the same result as one
# process, or stops with a state from which the same commands resume. There are only our own exit
# codes, and no process remains.
set -eu
etude=$1 proxy=$2
name=test_roles_network
work=$(mktemp -d "$PWD/roles_network.XXXXXX")
cd "$work"
. "$(dirname "$0")/roles.sh"
proxy_pid=
trap 'kill_ours; [ -z "$proxy_pid" ] || kill "$proxy_pid" 2>/dev/null; rm -rf "$work"' EXIT

steps=40 base=$first_port
master=127.0.0.1:$base ps0=127.0.0.1:$((base + 1)) ps1=127.0.0.1:$((base + 2))
far_master=127.0.0.1:$((base + 3)) far_ps0=127.0.0.1:$((base + 4)) far_ps1=127.0.0.1:$((base + 5))

# task ROLE INDEX MASTER PS0 PS1: addresses as this task sees them.
task() {
    TF_CONFIG="{\"task\": {\"type\": \"$1\", \"index\": $2}, \"job\": {\"keys\": \"keys\"}, \"cluster\": {
        \"master\": [\"$3\"], \"ps\": [\"$4\", \"$5\"], \"worker\": [\"127.0.0.1:1\", \"127.0.0.1:2\"]}}" \
        exec "$etude" train --experiment tabular/mlp --data learn.csv --target kind --model-dir "$work/run" \
        --steps "$steps" --threads 1 -q --set runtime.peer_timeout=10 \
        --set trainer.checkpoint_interval=10 >"log.$1.$2" 2>&1
}

# A worker that has given up is started again, as whoever starts it does, until the master has ended.
worker() {
    while :; do
        code=0
        (task worker "$1" "$far_master" "$far_ps0" "$far_ps1") || code=$?
        [ "$code" = 1 ] && [ ! -e ended ] || exit $code
    done
}

"$etude" keys keys || fail keys
"$etude" train --experiment tabular/mlp --data learn.csv --target kind --model-dir "$work/alone" \
    --steps "$steps" --threads 1 -q >log 2>&1 || fail alone
"$proxy" "${ETUDE_FUZZ_SEED:-1}" 4 $((base + 3)):$base $((base + 4)):$((base + 1)) \
    $((base + 5)):$((base + 2)) >faults & proxy_pid=$!

for round in 1 2 3 4 5 6 7 8; do
    task ps 0 "$far_master" "$ps0" "$far_ps1" & a=$!
    task ps 1 "$far_master" "$far_ps0" "$ps1" & b=$!
    rm -f ended
    worker 0 & c=$!
    worker 1 & d=$!
    (code=0; (task master 0 "$master" "$far_ps0" "$far_ps1") || code=$?; : >ended; exit $code) & e=$!
    codes=
    for pid in "$e" "$a" "$b"; do
        code=0
        wait "$pid" || code=$?
        codes="$codes $code"
        [ "$code" -le 1 ] || fail "round $round: exit codes$codes"
    done
    send_home
    for worker in 0 1; do
        code=0
        wait "$c" || code=$?
        c=$d codes="$codes $code"
        [ "$code" -le 1 ] || came_late $worker "$code" || fail "round $round: exit codes$codes"
    done
    none_left "round $round"
    [ "${codes# 0}" = "$codes" ] || break # the master's is the first
    echo "$name: round $round: $(tail -1 log.master.0)"
    [ -z "$(newest run)" ] || "$etude" inspect run >log 2>&1 || fail "round $round: no state to resume from: choose a new directory (--init"
done
[ "${codes# 0}" != "$codes" ] || fail "no round came to the end"
[ "$(last run step)" = "$steps" ] || fail "step $(last run step)"
kill "$proxy_pid"
wait "$proxy_pid" || true
proxy_pid=
echo "$name: round $round," $(cat faults)
for fault in lost changed twice cut replayed; do
    total=$((${total:-0} + $(sed -n "s/^$fault //p" faults)))
done
[ "$total" -ge 3 ] || fail "the network was not bad: $(cat faults)"
# Two workers of so few steps lag. That both have learned is half of log 3, which knowing nothing costs.
for side in alone run; do
    awk -v loss="$(last $side validation_loss)" 'BEGIN { exit !(loss + 0 > 0 && loss < log(3) / 2) }' ||
        fail "validation loss of $side: $(last $side validation_loss)"
done
echo "$name: all done"
