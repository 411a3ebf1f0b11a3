#!/bin/sh
# test_roles_attack.sh ETUDE ATTACK: a master, a server and workers, each its own command, while
# strangers make 1,000 connections a second to master and server (tests/roles/attack.c). Training
# ends as usual, and a worker can join during the attack. The memory and descriptors that strangers
# hold are bounded and freed. Each process says once that there were strangers.
#
# ETUDE_ATTACK_SECONDS=N makes both attacks N seconds long instead of 6; ETUDE_ATTACK_RATE=N makes N
# connections a second. ETUDE_ATTACK_ROUNDS=N first compares N times in turn, without strangers and
# with them: steps a second, and the CPU time of master, server and worker.
set -eu
etude=$1 attack=$2
name=test_roles_attack
work=$(mktemp -d "$PWD/roles_attack.XXXXXX")
cd "$work"
. "$(dirname "$0")/roles.sh"
attack_pid=
trap 'kill_ours; [ -z "$attack_pid" ] || kill "$attack_pid" 2>/dev/null; rm -rf "$work"' EXIT
seconds=${ETUDE_ATTACK_SECONDS:-6} rate=${ETUDE_ATTACK_RATE:-1000} rounds=${ETUDE_ATTACK_ROUNDS:-0}
most_files=$((rate * 6 + 100)) # a handshake has four seconds; a machine may be late
most_kilobytes=400000          # more than before the attack
enough=10000000                # steps: it is stopped before
port=$first_port
"$etude" keys keys || fail keys
ulimit -Sn 1024
# What AddressSanitizer keeps of freed memory, 256 MB, would pass for a leak.
export ASAN_OPTIONS="${ASAN_OPTIONS-}:quarantine_size_mb=8"

# task ROLE INDEX STEPS
task() {
    TF_CONFIG="{\"task\": {\"type\": \"$1\", \"index\": $2}, \"job\": {\"keys\": \"keys\"}, \"cluster\": {
        \"master\": [\"127.0.0.1:$port\"], \"ps\": [\"127.0.0.1:$((port + 1))\"],
        \"worker\": [\"127.0.0.1:1\", \"127.0.0.1:2\"]}}" \
        exec "$etude" train --experiment tabular/mlp --data learn.csv --target kind --model-dir "$work/run" \
        --steps "$3" --threads 1 -q --set trainer.checkpoint_interval=100,trainer.early_stopping.patience=0 \
        --set runtime.peer_timeout=10 >"log.$1.$2" 2>&1
}

under_attack() {
    "$attack" "$1" "$rate" keys "$port" $((port + 1)) >"attack" 2>&1 & attack_pid=$!
}

files() { ls "/proc/$1/fd" | wc -l; }
kilobytes() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$1/status"; }

# watch WHO PID: no more than they may, while the attack goes on.
watch() {
    f=$(files "$2") k=$(($(kilobytes "$2") - before))
    [ "$f" -le "$most_files" ] || fail "$1: $f descriptors"
    [ "$k" -le "$most_kilobytes" ] || fail "$1: $k KiB more than before"
    [ "$f" -le "${top_files:-0}" ] || top_files=$f
    [ "$k" -le "${top_kilobytes:-0}" ] || top_kilobytes=$k
}

watch_both() {
    before=$before_server watch server "$server"
    before=$before_master watch master "$master"
}

# goes_on STEP: the attack has lasted, and training has come to STEP.
goes_on() {
    for _ in $(seq $((2 * seconds))); do
        watch_both
        sleep 0.5
    done
    wait_for_step run "$1"
    watch_both
}

end_attack() {
    kill "$attack_pid" 2>/dev/null || fail "the attack has ended by itself: $(cat attack)"
    wait "$attack_pid" || fail "the attack: $(cat attack)"
    attack_pid=
    echo "$name: $(cat attack)"
    tried=$((${tried:-0} + $(sed -n 's/.* made \([0-9]*\) .*/\1/p' attack)))
}

# What strangers held is given back.
calm() {
    for _ in $(seq 80); do
        [ "$(files "$master")" -gt 100 ] || [ "$(files "$server")" -gt 100 ] || return 0
        sleep 0.5
    done
    fail "$(files "$master") and $(files "$server") descriptors after the attack"
}

# cpu SIDE: hundredths of a second of a core that master, server and worker have used: `own` the threads that train,
# `net` those that carry messages and let others in (ZeroMQ's, and the second of ours).
cpu() {
    for p in "$master" "$server" "$first"; do
        for t in "/proc/$p/task"/*; do
            case $(cat "$t/comm")${t##*/} in
                ZMQ*) side=net ;;
                *"$p") side=own ;;
                *) side=net ;;
            esac
            [ "$side" != "$1" ] || awk '{ print $14 + $15 }' "$t/stat"
        done
    done | awk '{ sum += $1 } END { print sum }'
}
instant() { cut -d' ' -f1 /proc/uptime; }

# pace: what is done in $seconds.
pace() {
    at=$(instant) from=$(last run step) own=$(cpu own) net=$(cpu net)
    sleep "$seconds"
    echo "$at $(instant) $from $(last run step) $own $(cpu own) $net $(cpu net)" |
        awk '{ printf "%.1f steps a second, %.2f ms of a core a step for training, %.2f for messages (%.2f s)",
            ($4 - $3) / ($2 - $1), 10 * ($6 - $5) / ($4 - $3), 10 * ($8 - $7) / ($4 - $3), ($8 - $7) / 100 }'
}

compare() {
    for round in $(seq "$rounds"); do
        quiet=$(pace)
        export ETUDE_ATTACK_STRANGERS=1
        under_attack 600
        unset ETUDE_ATTACK_STRANGERS
        sleep 1
        attacked=$(pace)
        end_attack
        calm
        echo "$name: round $round: $quiet; under attack $attacked"
    done
}

task ps 0 "$enough" & server=$!
task worker 0 "$enough" & first=$!
task master 0 "$enough" & master=$!
wait_for_step run 10
compare
before_server=$(kilobytes "$server") before_master=$(kilobytes "$master")
from=$(last run step)
under_attack 600
goes_on $((from + 20))
end_attack
echo "$name: steps $from to $(last run step) sets; give at most $top_files descriptors, $top_kilobytes KiB more"
calm
after=$(kilobytes "$server")

# Once more; a worker comes, the other one is killed: those who have a key get in.
under_attack 600
sleep 1
task worker 1 "$enough" & late=$!
kill -9 "$first"
from=$(last run step)
goes_on $((from + 50))
end_attack
calm
[ $(($(kilobytes "$server") - after)) -le $((most_kilobytes / 4)) ] ||
    fail "the server: $after KiB after the first attack, $(kilobytes "$server") after the second"
kill -TERM "$master"
code=0
wait "$master" || code=$?
[ "$code" = 75 ] || fail "stopped under attack: exit code $code"
for pid in "$server" "$late"; do
    wait "$pid" || fail "exit code $?"
done
none_left "stopped"
for log in log.master.0 log.ps.0; do
    [ "$(grep -c 'refused: no key' "$log")" = 1 ] || fail "$log does not say once that some were refused: no key of this cluster, or damaged in transit"
    # Warnings of learn.csv's columns and rows are not those of connections.
    lines=$(grep -vc '^etude: warning: column \|also training rows' "$log")
    [ "$lines" -le 5 ] || fail "$log: $lines lines"
    # Five of six are strangers, half of them come to each; some were broken off before they were taken, and
    # whoever an attacker's child held when ZeroMQ ended it has left by itself.
    refused=$(sed -n 's/.*: \([0-9]*\) connections* w.* refused: no key.*/\1/p' "$log")
    [ "$refused" -ge $((tried / 8)) ] || fail "$log: of $tried $refused were refused: no key of this cluster, or damaged in transit"
    echo "$name: $log: $refused refused: no key of this cluster, or damaged in transit"
done

# All of a run, to its end.
steps=$(($(newest run) + 200))
under_attack 600
task ps 0 $steps & server=$!
task worker 0 $steps & first=$!
task worker 1 $steps & late=$!
task master 0 $steps & master=$!
for pid in "$master" "$server"; do
    wait "$pid" || fail "under attack from its start to its end: exit code $?"
done
send_home
for worker in 0 1; do
    code=0
    wait "$first" || code=$?
    first=$late
    [ "$code" = 0 ] || came_late $worker "$code" || fail "worker $worker under attack: exit code $code"
done
end_attack
none_left "the end"
[ "$(last run step)" = "$steps" ] || fail "step $(last run step), not $steps"
echo "$name: all done"
