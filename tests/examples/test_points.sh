#!/bin/sh
# test_points.sh POINTS: the model learns, a part of it is tuned, and the run resumes.
set -eu
points=$1
work=$(mktemp -d "$PWD/points.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "test_points: $*" >&2
    cat log >&2
    exit 1
}
"$points" run >log 2>&1 || fail "exit $?"
grep -q '^hidden_0  *\[64\]  *576' log || fail "no table of layers"
awk '$1 == "test" && $3 + 0 > 0.85 { good = 1 } END { exit !good }' log || fail "not learned"
grep -q '^tuned: 200 updates' log || fail "not tuned"
grep -q '^by hand: loss 0.[0-9]* of loss' log || fail "no step by hand"
[ -f run/metrics.jsonl ] || fail "no run"
grep '^test' log >first
"$points" run >log 2>&1 || fail "again: exit $?"
grep -q '^epoch' log && fail "trained again"
grep '^test' log | cmp - first || fail "another result when it is opened again"
