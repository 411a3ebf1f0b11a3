#!/bin/sh
# test_flows.sh FLOWS: the elements of each flow; drawn numbers are the same in every run.
set -eu
flows=$1
work=$(mktemp -d "$PWD/flows.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "test_flows: $*" >&2
    cat log >&2
    exit 1
}
has() {
    grep -qx -e "$1" log || fail "no line \"$1\""
}

"$flows" >log 2>&1 || fail "exit $?"
has 'chosen: 2 batches'
sed -n '/^chosen/,/^kept/s/^  n \(.*\)  mask.*/\1/p' log | tr ' ' '\n' >numbers
awk '$1 % 2 == 0 || $1 > 19 { exit 1 }' numbers || fail "a number that was filtered"
[ "$(wc -l <numbers)" = 7 ] || fail "not seven numbers"
has 'kept: n 3 is beside back 7'
has 'split: 5 and 5'
# Squares of 0 to 4 with noise of less than 0.125, beside 5 to 9.
sed -n '/^changed/,/^made/s/^  square \(.*\)  mask.*/\1/p' log | tr ' ' '\n' |
    awk '{ n = NR - 1; if ($1 < n * n || $1 >= n * n + 0.125) exit 1 } END { exit NR != 5 }' ||
    fail "no squares of 0 to 4"
has '  n 101'
has '  n 0 1 1 2'
has '  n 21 34'
cp log first
"$flows" >log 2>&1 || fail "the second time: exit $?"
cmp first log || fail "drawn numbers differ from run to run"
echo "flows: $(wc -l <log) lines"
