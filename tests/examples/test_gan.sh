#!/bin/sh
# test_gan.sh GAN: both networks learn; a run that is started again ends with the same bytes.
set -eu
gan=$1
work=$(mktemp -d "$PWD/gan.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "test_gan: $*" >&2
    cat log >&2
    exit 1
}
train() {
    "$gan" "$@" >log 2>&1 || fail "$*: exit $?"
}

train whole 600
train parts 200
train parts 600
# The files hold where the logs end, which a last log of step 200 does not change: it is due.
cmp whole/checkpoints/ckpt-600.safetensors parts/checkpoints/ckpt-600.safetensors >log 2>&1 ||
    fail "a run that was started again ends elsewhere"

radius=$(sed -n 's/.*"radius":\([0-9.]*\).*/\1/p' whole/metrics.jsonl | tail -n 1)
awk "BEGIN { exit !($radius > 0.7 && $radius < 1.3) }" ||
    fail "points lie $radius from the middle; on the circle it is 1"
first=$(sed -n 's/.*"radius":\([0-9.]*\).*/\1/p' whole/metrics.jsonl | head -n 1)
awk "BEGIN { exit $first == $radius }" || fail "the generator does not move"
echo "gan: points lie $radius from the middle"
