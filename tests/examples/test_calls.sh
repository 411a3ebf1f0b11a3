#!/bin/sh
# test_calls.sh CALLS: a run whose program makes the calls itself learns and exports its best
# weights. If it is started again half-way it ends with the same weights.
set -eu
calls=$1
work=$(mktemp -d "$PWD/calls.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "test_calls: $*" >&2
    cat log >&2
    exit 1
}

"$calls" whole 400 >log 2>&1 || fail "exit $?"
grep -q '^starts at 0, loops of 25 steps$' log || fail "does not start at 0"
[ "$(grep -c '^step [0-9]*: loss' log)" = 8 ] || fail "steps are not told every 50"
[ "$(grep -c '^exported: whole/export-' log)" -ge 1 ] || fail "no export of the best"
loss=$(sed -n 's/^evaluated up to step 400: loss //p' log)
awk "BEGIN { exit !($loss < 0.05) }" || fail "a loss of $loss: it has not learned"
last=$(ls -d whole/step-* | sed 's/.*-//' | sort -n | tail -n 1)
[ "$last" = 400 ] && grep -q '^checkpoint 400: whole/step-400$' log || fail "the last checkpoint is not exported"
[ -f whole/average-400/weights.safetensors ] || fail "no average of the last update"
[ -f whole/best_loss.json ] || fail "the best value is not kept"

"$calls" parts 200 >log 2>&1 || fail "the first half: exit $?"
"$calls" parts 400 >log 2>&1 || fail "the second half: exit $?"
grep -q '^resumes from 200,' log || fail "does not resume"
# The first half has evaluated once more, which its logs have: so weights and averages are compared.
for weights in step-400 average-400; do
    cmp "whole/$weights/weights.safetensors" "parts/$weights/weights.safetensors" >log 2>&1 ||
        fail "a run that was started again ends elsewhere: $weights"
done
echo "calls: loss $loss"
