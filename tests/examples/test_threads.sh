#!/bin/sh
# test_threads.sh ETUDE THREADS: with any number of threads the program prints the predictions of
# the command.
set -eu
etude=$1 threads=$2
work=$(mktemp -d "$PWD/threads.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
export OMP_NUM_THREADS=1

fail() {
    echo "test_threads: $*" >&2
    cat log >&2
    exit 1
}
awk 'BEGIN { print "x,y,side"; for (i = 0; i < 200; i++) {
    x = i % 20 / 20; y = int(i / 20) / 10; print x "," y "," (x > y ? "below" : "above") } }' >points.csv
"$etude" train run --experiment tabular/mlp --data points.csv --target side --steps 100 --quiet >log 2>&1 || fail "train: exit $?"
sed 1d points.csv | cut -d, -f1,2 >rows
{ echo x,y && cat rows; } | "$etude" predict run 2>log | sed 's/.*"label": *"\([a-z]*\)".*/\1/' >wanted
[ "$(wc -l <wanted)" = 200 ] || fail "the command predicts $(wc -l <wanted) rows"
for count in 1 2 7 64; do
    "$threads" run "$count" <rows >found 2>log || fail "$count threads: exit $?"
    cmp -s found wanted || fail "$count threads: other labels"
done
head -n 3 rows | "$threads" run 5 >found 2>log || fail "more threads than rows: exit $?"
head -n 3 wanted | cmp -s - found || fail "more threads than rows: other labels"
"$threads" run 2 </dev/null >found 2>log || fail "no rows: exit $?"
[ ! -s found ] || fail "labels of no rows"

# refused CODE TEXT WORD...
refused() {
    code=$1 text=$2 status=0
    shift 2
    { cat rows && echo here,0.5; } | "$threads" "$@" >found 2>log || status=$?
    [ "$status" = "$code" ] && grep -q "$text" log || fail "$*: exit $status"
    [ ! -s found ] || fail "$*: prints labels"
}
refused 1 'here' run 3
refused 1 'nothing: no such directory' nothing 3
refused 2 usage run 0
refused 2 usage run 65
refused 2 usage run
echo "threads: 1 to 64 threads, the same labels"
