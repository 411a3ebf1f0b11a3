#!/bin/sh
# test_vae_loop.sh VAE_LOOP: one epoch of MNIST, if it is in ../shared/data or in the folder
# ETUDE_MNIST. Several samples give a tighter bound of the likelihood than one; a finished run
# starts from its end.
set -eu
vae_loop=$1
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d "$PWD/vae_loop.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "test_vae_loop: $*" >&2
    cat log >&2
    exit 1
}
run() {
    "$vae_loop" "$@" >log 2>&1 || fail "$*: exit $?"
    nats=$(sed -n 's/^test negative log-likelihood: \([0-9.]*\) nats$/\1/p' log)
}

status=0
"$vae_loop" >log 2>&1 || status=$?
[ "$status" = 2 ] && grep -q usage log || fail "without arguments: exit $status"
status=0
"$vae_loop" run nowhere 1 0 >log 2>&1 || status=$?
[ "$status" = 2 ] && grep -q usage log || fail "without samples: exit $status"
status=0
"$vae_loop" run nowhere 1 >log 2>&1 || status=$?
[ "$status" = 1 ] && grep -q 'nowhere/train-images-idx3-ubyte.gz: not there' log ||
    fail "without data: exit $status"

data=${ETUDE_MNIST:-$source/../shared/data/mnist}
if [ ! -f "$data/t10k-images-idx3-ubyte.gz" ]; then
    echo "vae_loop: no MNIST in $data: not trained"
    exit 77
fi
run digits "$data" 1 1
grep -q '^\[Step 469, ETA .*\] epoch time: .*; valid loss: .* (\*)$' log || fail "no logs"
one=$nats
run digits "$data" 1 4
grep -q '^Resume training: epoch 1, step 469, from checkpoint ' log || fail "does not go on"
awk "BEGIN { exit !($nats > 80 && $nats < $one - 1 && $one < 145) }" ||
    fail "$one nats by one sample, $nats by four"
echo "vae_loop: $nats nats after one epoch"
