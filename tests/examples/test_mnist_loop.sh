#!/bin/sh
# test_mnist_loop.sh MNIST_LOOP: the program learns, restores the best epoch, and resumes where it
# was: always on noise, and for one epoch of MNIST if it is in ../shared/data or in the folder
# ETUDE_MNIST.
set -eu
mnist_loop=$1
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d "$PWD/mnist_loop.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "test_mnist_loop: $*" >&2
    cat log >&2
    exit 1
}
run() {
    "$mnist_loop" "$@" >log 2>&1 || fail "$*: exit $?"
}
# At least so many of a hundred test images are told right.
at_least() {
    accuracy=$(sed -n 's/^test accuracy: \([0-9.]*\) %$/\1/p' log)
    awk "BEGIN { exit !($accuracy >= $1 && $accuracy <= 100) }" || fail "accuracy $accuracy %"
}

status=0
"$mnist_loop" >log 2>&1 || status=$?
[ "$status" = 2 ] && grep -q usage log || fail "without arguments: exit $status"
status=0
"$mnist_loop" run nowhere 1 >log 2>&1 || status=$?
[ "$status" = 1 ] && grep -q 'nowhere/train-images-idx3-ubyte.gz: not there' log ||
    fail "without data: exit $status"

run noise - 1
at_least 60
grep -q '^Trainable Parameters *(669,706 in total)$' log || fail "no summary"
grep -q '^\[Step 430, ETA .*\] epoch time: .*; step time: .*; loss: .*; valid acc: .* (\*)$' log ||
    fail "no logs"
grep -q '^Restore early-stopping parameters: from checkpoint noise/best/best-430' log ||
    fail "the best is not taken back"
[ -f noise/checkpoints/ckpt-430.safetensors ] || fail "nothing saved"
run noise - 1
grep -q '^Resume training: epoch 1, step 430, from checkpoint ' log || fail "does not go on"
at_least 60

data=${ETUDE_MNIST:-$source/../shared/data/mnist}
if [ ! -f "$data/t10k-labels-idx1-ubyte.gz" ]; then
    echo "mnist_loop: no MNIST in $data: noise only"
    exit 77
fi
run digits "$data" 1
at_least 94
echo "mnist_loop: $accuracy % of MNIST after one epoch"
