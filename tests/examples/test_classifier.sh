#!/bin/sh
# test_classifier.sh CLASSIFIER: the program learns, evaluates and saves. A run that is started
# again resumes and ends with the result of an unbroken one; a finished run does nothing.
set -eu
classifier=$1
work=$(mktemp -d "$PWD/classifier.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "test_classifier: $*" >&2
    cat log >&2
    exit 1
}
train() {
    "$classifier" "$@" >log 2>&1 || fail "$*: exit $?"
}
# Logs without what depends on the clock.
logs() {
    sed 's/,"time":{[^}]*}//g' "$1/metrics.jsonl"
}

train whole 200
train parts 120
train parts 200
last=checkpoints/ckpt-200.safetensors
[ -f whole/$last ] || fail "no $last: $(ls whole/checkpoints)"
logs whole >a
logs parts | tail -n 1 >b
tail -n 1 a | sed 's/"best_step":[0-9]*//; s/"note":"[^"]*",*//' >want
sed 's/"best_step":[0-9]*//; s/"note":"[^"]*",*//' b >got
cmp -s want got || fail "another end after a break: $(cat b) and not $(tail -n 1 a)"

accuracy=$(sed -n 's/.*"validation_accuracy":\([0-9.]*\).*/\1/p' a | tail -n 1)
awk "BEGIN { exit !($accuracy > 0.3 && $accuracy <= 1) }" ||
    fail "accuracy $accuracy after 200 steps; guessing is right one time in ten"

cp whole/metrics.jsonl before
train whole 200
cmp -s before whole/metrics.jsonl || fail "a run that is over has logged"

status=0
"$classifier" >log 2>&1 || status=$?
[ "$status" = 2 ] && grep -q usage log || fail "without arguments: exit $status"
echo "classifier: accuracy $accuracy after 200 steps, broken or not"
