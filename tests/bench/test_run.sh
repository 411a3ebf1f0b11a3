#!/bin/sh
# test_run.sh BENCH MAKEFILE: `make bench` runs every program of bench/ (those about growth and
# scale have their own targets), and the table and build/bench.jsonl have the figures of each. The
# programs are stand-ins that write one figure with their name.
set -eu
bench=$(cd "$1" && pwd)
makefile=$2
work=$(mktemp -d "$PWD/run.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p build/bench

fail() {
    echo "$*" >&2
    exit 1
}

programs=$(sed -n 's/^ *\(bench_[a-z_]*\)$/\1/p' "$bench/CMakeLists.txt")
[ "$programs" ] || fail "no programs in $bench/CMakeLists.txt"
for program in $programs; do
    cat >build/bench/$program <<'X'
#!/bin/sh
[ "$1" != bf16-probe ] || { echo "a processor, AVX-512 BF16"; exit; }
echo "{\"name\": \"${0##*/}\", \"value\": 1.5, \"unit\": \"ms\", \"roof\": 3, \"peer\": null}" >>"$BENCH_JSON"
X
    chmod +x build/bench/$program
done

"$bench/run" build >table 2>said || fail "bench/run fails: $(cat said)"
for program in $programs; do
    if grep -q "[ /]bench/$program\([ \"]\|$\)" "$makefile" "$bench/scale"; then
        continue
    fi
    grep -q "\"name\": \"$program\"" build/bench.jsonl || fail "$program is in no make target"
    grep -q "^$program .* 1.5 ms .* 3 *-$" table || fail "$program is not in the table: $(cat table)"
done
echo "bench/run: every program has its line"
