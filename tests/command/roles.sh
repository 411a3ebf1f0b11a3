# Sourced by tests of training by roles. They set $etude, $name and $work; work is the current
# folder.

# Processes whose command line names this folder's runs, as they were started: numbers come round.
ours() {
    ps -eo pid,args --sort=start_time,pid | awk -v mark="$work/" 'index($0, mark) && / train / && !/awk/ { print $1 }'
}

kill_ours() {
    for p in $(ours); do kill -9 "$p" 2>/dev/null || true; done
}

fail() {
    echo "$name: $*" >&2
    for log in log log.*; do
        [ ! -s "$log" ] || { echo "$log:"; tail -5 "$log"; } >&2
    done
    exit 1
}

# For --distributed, whose processes are forks. LLVM's archer, by which ThreadSanitizer follows OpenMP, crashes at the
# end of a process that forked.
needs_forks() {
    case ${OMP_TOOL_LIBRARIES-} in *archer*)
        echo "SKIPPED: $name: archer does not outlive a fork"
        exit 77 ;;
    esac
}

# Eight ports in a row that nobody listens at, and that no test beside this one has chosen: each holds a lock while a
# process of it is there. Below the ports that systems give to whoever connects (from 32768 on), which may be taken
# for a minute.
taken() {
    for taken in 0 1 2 3 4 5 6 7; do
        ! grep -q "$(printf ':%04X [0-9A-F]*:0000 0A' $(($1 + taken)))" /proc/net/tcp /proc/net/tcp6 2>/dev/null ||
            return 0
    done
    return 1
}
claimed() {
    exec 9>"$(dirname "$work")/ports/$1"
    flock -n 9
}
mkdir -p "$(dirname "$work")/ports"
block=$(($$ % 1500))
while
    first_port=$((20000 + block * 8))
    ! claimed $block || taken $first_port
do
    block=$(((block + 1) % 1500))
done

# The newest value of a key in a run's log.
last() {
    grep -o "\"$2\":[0-9.e+-]*" "$1/metrics.jsonl" | tail -1 | cut -d: -f2
}

none_left() {
    for _ in $(seq 60); do
        [ -n "$(ours)" ] || return 0
        sleep 0.5
    done
    ps -eo pid,ppid,args | grep "$work" >&2 || true
    fail "$1: a process is left"
}

# send_home: master and servers have ended. A worker that comes only then waits for another master, for ten minutes,
# and says so: after a minute it is stopped. All others end by themselves.
send_home() {
    for _ in $(seq 120); do
        [ -n "$(ours)" ] || return 0
        sleep 0.5
    done
    for p in $(ours); do kill "$p" 2>/dev/null || true; done
}

# came_late WORKER CODE: it was stopped so.
came_late() {
    [ "$2" = 143 ] && grep -q ') does not answer yet; waiting at most' "log.worker.$1"
}

# A run has come to a step, within three minutes.
wait_for_step() {
    for _ in $(seq 600); do
        ! [ -s "$work/$1/metrics.jsonl" ] || ! [ "$(last "$work/$1" step)" -ge "$2" ] || return 0
        sleep 0.3
    done
    fail "$1: has not come to step $2"
}

newest() {
    ls "$1/checkpoints" 2>/dev/null | sed -n 's/ckpt-\([0-9]*\).*/\1/p' | sort -n | tail -1
}

awk 'BEGIN {
    print "long,wide,colour,kind"
    for (i = 0; i < 1000; i++) {
        x = (i * 37 % 100) / 50; y = (i * 53 % 100) / 50
        kind = x > 1 ? "rose" : (y > 1 ? "lily" : "iris")
        printf("%.2f,%.2f,%s,%s\n", x, y, i % 4 ? "red" : "blue", kind)
    }
}' >learn.csv
