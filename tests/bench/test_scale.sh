#!/bin/sh
# test_scale.sh BENCH BUILD: bench/scale succeeds, and its tables have all rows, with numbers in
# them. Only the figures that are computed from the model are checked.
set -eu
bench=$(cd "$1" && pwd) build=$(cd "$2" && pwd)
work=$(mktemp -d "$PWD/scale.XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() {
    echo "$*" >&2
    cat "$work/table" "$work/said" >&2
    exit 1
}
# row COUNT PATTERN: as many lines have it.
row() {
    [ "$(grep -c -e "$2" "$work/table")" = "$1" ] || fail "not $1 rows: $2"
}

BENCH_JSON=$work/scale.jsonl "$bench/scale" "$build" short >"$work/table" 2>"$work/said" ||
    fail "bench/scale fails"
number='[0-9][0-9.]*'
for mpi in openmpi mpich; do
    if [ -x "$build/bench/bench_allreduce_$mpi" ] && command -v mpirun.$mpi >/dev/null; then
        row 1 "^| $mpi, 2 ranks, 0.1 MB | $number ms | $number ms | $number |"
    fi
done
[ ! -x "$build/bench/bench_framing" ] || row 1 "^| ZeroMQ, 0.1 MB | $number MB/s | $number MB/s (.*) | $number |"
row 1 "^| one process, 2 threads | $number |"
row 1 "^| 2 ranks, 1 thread each | $number |"
row 1 "^| ratio (goal: 0.95) | $number |"
row 3 "^| [124] | $number ms | $number ms | [-+]$number % |"
row 11 "^| [0-9]* | $number ms | $number ms | $number % | $number h | $number s; $number s | $number % |"
# A failure in 3 years of one machine.
row 1 "^| 1 | .* | 100 % | 26298.0 h |"
row 1 "^| 1024 | .* | 25.7 h |"
grep -q '"name": "scale.tiny.model_4"' "$work/scale.jsonl" || fail "no figures: $(cat "$work/scale.jsonl")"
"$build/bench/bench_scale" latency=none 2>"$work/said" && fail "a latency that is not a number"
grep -q usage "$work/said" || fail "it is not said how it is used"
echo "bench/scale: all rows"
