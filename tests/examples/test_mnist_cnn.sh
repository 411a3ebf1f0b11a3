#!/bin/sh
# test_mnist_cnn.sh MNIST_CNN: one epoch of MNIST, if it is in ../shared/data or in the folder
# ETUDE_MNIST; a finished run starts from its end.
set -eu
mnist_cnn=$1
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d "$PWD/mnist_cnn.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "test_mnist_cnn: $*" >&2
    cat log >&2
    exit 1
}
run() {
    "$mnist_cnn" "$@" >log 2>&1 || fail "$*: exit $?"
    accuracy=$(sed -n 's/^test accuracy: \([0-9.]*\) %$/\1/p' log)
}

status=0
"$mnist_cnn" >log 2>&1 || status=$?
[ "$status" = 2 ] && grep -q usage log || fail "without arguments: exit $status"
status=0
"$mnist_cnn" run nowhere 1 >log 2>&1 || status=$?
[ "$status" = 1 ] && grep -q 'nowhere/train-images-idx3-ubyte.gz: not there' log ||
    fail "without data: exit $status"

data=${ETUDE_MNIST:-$source/../shared/data/mnist}
if [ ! -f "$data/t10k-labels-idx1-ubyte.gz" ]; then
    echo "mnist_cnn: no MNIST in $data: not trained"
    exit 77
fi
run digits "$data" 1
grep -q '^parameters *421,642, of them trained: 421,642$' log || fail "no summary"
grep -q '^ *[0-9,]*  *1  .*  *0[.]9[0-9]* .*:' log || fail "no row of the epoch"
awk "BEGIN { exit !($accuracy >= 97 && $accuracy <= 100) }" || fail "accuracy $accuracy %"
before=$accuracy
run digits "$data" 1
grep -q '^epoch' log && fail "a run that is over is trained again"
[ "$accuracy" = "$before" ] || fail "accuracy $accuracy % of a run that is over, not $before"
echo "mnist_cnn: $accuracy % of MNIST after one epoch"
