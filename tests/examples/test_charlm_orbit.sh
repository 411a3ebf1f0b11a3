#!/bin/sh
# test_charlm_orbit.sh CHARLM_ORBIT: the model learns from our own pages; a run that is started
# again ends with the same bytes; a finished run only evaluates.
set -eu
charlm=$1
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d "$PWD/charlm_orbit.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "test_charlm_orbit: $*" >&2
    cat log >&2
    exit 1
}
train() {
    "$charlm" "$@" >log 2>&1 || fail "$*: exit $?"
    loss=$(sed -n 's/^validation loss: \([0-9.]*\)$/\1/p' log)
}

status=0
"$charlm" >log 2>&1 || status=$?
[ "$status" = 2 ] && grep -q usage log || fail "without arguments: exit $status"
for text in nowhere short; do
    echo 'Too short a text.' >short
    status=0
    "$charlm" none $text 1 >log 2>&1 || status=$?
    [ "$status" = 1 ] && grep -q "^$text: not there, or too short a text" log ||
        fail "text $text: exit $status"
done

cat "$source/ARCHITECTURE.md" "$source/doc/STYLE.md" "$source/doc/testing.md" >text
train whole text 60
awk "BEGIN { exit !($loss > 1 && $loss < 4.5) }" || fail "loss $loss; of no knowledge it is 5.55"
train parts text 25
train parts text 60
# The files' heads hold where the logs end, and each call has logged what it ended with.
for run in whole parts; do
    tail -c 9000000 $run/checkpoints/ckpt-60.safetensors >$run.tensors
done
cmp whole.tensors parts.tensors >log 2>&1 || fail "a run that was started again ends elsewhere"
before=$loss
train whole text 60
[ "$loss" = "$before" ] || fail "a run that is over has loss $loss, not $before"
echo "charlm_orbit: loss $loss of text held out after 60 steps"
