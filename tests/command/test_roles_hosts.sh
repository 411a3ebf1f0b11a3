#!/bin/sh
# test_roles_hosts.sh ETUDE: two hosts, which are two network namespaces; the link between them is
# slow and loses packets. A master, a server and a worker run on one, a server and a worker on the
# other. If the link is down for some seconds, training continues. If it stays down, all tasks end,
# and the same commands resume when it is back. Needs root and namespaces; skipped (77) without
# them.
set -eu
etude=$1
name=test_roles_hosts
near=etn$$ far=etf$$
skip() {
    echo "$name: SKIPPED: $*"
    exit 77
}
[ "$(id -u)" = 0 ] || skip "not root"
command -v ip >/dev/null || skip "no ip (iproute2)"
ip netns add "$near" 2>/dev/null || skip "no network namespaces here"
work=$(mktemp -d "$PWD/roles_hosts.XXXXXX")
cd "$work"
. "$(dirname "$0")/roles.sh"
trap 'kill_ours; ip netns del "$near" 2>/dev/null; ip netns del "$far" 2>/dev/null; rm -rf "$work"' EXIT
ip netns add "$far" || fail "a second namespace"
ip link add "v$near" netns "$near" type veth peer name "v$far" netns "$far" 2>log || skip "no veth: $(cat log)"
ip -n "$near" addr add 10.77.0.1/24 dev "v$near"
ip -n "$far" addr add 10.77.0.2/24 dev "v$far"
for host in "$near" "$far"; do
    ip -n "$host" link set lo up
    ip -n "$host" link set "v$host" up
    ip netns exec "$host" tc qdisc add dev "v$host" root netem delay 5ms 2ms loss 2% 2>/dev/null ||
        echo "$name: no netem here: the link is fast and loses nothing"
done
link() { ip -n "$near" link set "v$near" "$1"; }

# task HOST ROLE INDEX
task() {
    TF_CONFIG="{\"task\": {\"type\": \"$2\", \"index\": $3}, \"job\": {\"keys\": \"keys\"}, \"cluster\": {
        \"master\": [\"10.77.0.1:14001\"], \"ps\": [\"10.77.0.1:14000\", \"10.77.0.2:14000\"],
        \"worker\": [\"10.77.0.1:14002\", \"10.77.0.2:14002\"]}}" \
        exec ip netns exec "$1" "$etude" train --experiment tabular/mlp --data learn.csv --target kind \
        --model-dir "$work/run" --steps "$steps" --threads 1 -q --set runtime.peer_timeout=15 \
        --set trainer.checkpoint_interval=20,trainer.early_stopping.patience=0 >"log.$2.$3" 2>&1
}

start_all() {
    task "$near" ps 0 & a=$!
    task "$far" ps 1 & b=$!
    task "$near" worker 0 & c=$!
    task "$far" worker 1 & d=$!
    task "$near" master 0 & e=$!
}

# all_end CODE: the master's; no other ends by a signal.
all_end() {
    code=0
    wait "$e" || code=$?
    [ "$code" = "$1" ] || fail "the master: exit code $code"
    for pid in "$a" "$b"; do
        code=0
        wait "$pid" || code=$?
        [ "$code" -le 1 ] || fail "exit code $code"
    done
    send_home
    for worker in 0 1; do
        code=0
        wait "$c" || code=$?
        c=$d
        [ "$code" -le 1 ] || came_late $worker "$code" || fail "worker $worker: exit code $code"
    done
}

"$etude" keys keys || fail keys
steps=10000000 # it is stopped before
start_all
wait_for_step run 20
link down
before=$(last run step)
sleep 4
link up
wait_for_step run $((before + 20))
link down
all_end 1
none_left "the link is gone"
grep -q 'server 1' log.master.0 || fail "the master says nothing of server 1"
step=$(newest run)
[ "$step" -ge 20 ] || fail "newest checkpoint: $step"
link up
steps=$((step + 10))
start_all
all_end 0
none_left "the link is back"
[ "$(last run step)" = "$steps" ] || fail "step $(last run step), not $steps"
echo "$name: all done"
