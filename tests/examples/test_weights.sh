#!/bin/sh
# test_weights.sh WEIGHTS: weights by name, of a group and of a module, and messages about a faulty
# file.
set -eu
weights=$1
work=$(mktemp -d "$PWD/weights.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "test_weights: $*" >&2
    cat log >&2
    exit 1
}

"$weights" >log 2>&1 || fail "exit $?"
grep -q '^mlp/rate \[\]: norm 1.000, a variable$' log || fail "no variable"
grep -q '^68 numbers in all, 67 of them trained$' log || fail "other numbers"
norm=$(sed -n 's/^mlp\/hidden\/weight \[4, 8\]: norm //p' log)
half=$(sed -n 's/^mlp\/hidden\/weight, halved: norm //p' log)
awk "BEGIN { d = $norm - 2 * $half; exit !($norm > 1 && d < 0.002 && d > -0.002) }" || fail "$norm, halved $half"
[ "$(grep -c '^group: mlp/hidden/' log)" = 2 ] || fail "another group"
grep -q '^module mlp/hidden has 2 variables, and 0 without its weights$' log || fail "another module"
status=0
"$weights" nothing.safetensors >log 2>&1 || status=$?
[ "$status" = 1 ] && grep -q 'nothing.safetensors' log || fail "no file: exit $status"
echo "weights: $norm"
