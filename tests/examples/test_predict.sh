#!/bin/sh
# test_predict.sh ETUDE PREDICT: a small table is trained; the program predicts its rows, by text and by
# cell, and says what is wrong with a bad one.
set -eu
etude=$1 predict=$2
work=$(mktemp -d "$PWD/predict.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "test_predict: $*" >&2
    cat log >&2
    exit 1
}

awk 'BEGIN { print "x,y,side"; for (i = 0; i < 200; i++) {
    x = i % 20 / 20; y = int(i / 20) / 10; print x "," y "," (x > y ? "below" : "above") } }' >points.csv
"$etude" train run --data points.csv --target side --steps 200 >log 2>&1 || fail "train: exit $?"

"$predict" run 0.9,0.1 0.1,0.9 here,0.5 >rows 2>log || fail "rows: exit $?"
cat rows >>log
[ "$(sed -n 's/^columns: //p' rows)" = "x (real) y (real) side (discrete)" ] || fail "other columns"
sed -n 's/^labels: //p' rows | tr ' ' '\n' | sort | tr '\n' ' ' | grep -qx 'above below ' || fail "other labels"
grep -q '^below, scores ' rows && grep -q '^above, scores ' rows || fail "wrong labels"
grep -q 'here' rows || fail "the bad row has no failure"

rm run.safetensors
"$predict" run y=0.1 x=0.9 >cells 2>log || fail "cells: exit $?"
[ "$(tail -n 1 cells)" = "$(grep '^below, scores ' rows)" ] || fail "another prediction by cells"
status=0
"$predict" run z=1 >log 2>&1 || status=$?
[ "$status" = 1 ] && grep -q 'z' log || fail "an unknown column: exit $status"
status=0
"$predict" nothing 1,2 >log 2>&1 || status=$?
[ "$status" = 1 ] && grep -q 'nothing: no such directory' log || fail "no run: exit $status"
echo "predict: $(wc -l <rows) lines"
