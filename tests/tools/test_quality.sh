#!/bin/sh
# tools/quality with programs that reach their goals, miss one, fail, or have no data.
set -eu
quality=$(cd "$(dirname "$0")/../.." && pwd)/tools/quality
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p build/examples data/mnist data/text
: >data/text/tinyshakespeare.txt

fail() {
    echo "test_quality: $*" >&2
    cat out >&2
    exit 1
}
# program NAME WHAT IT PRINTS
program() {
    name=$1
    shift
    printf '#!/bin/sh\necho "$@" >args.%s\necho "%s"\n' "$name" "$*" >"build/examples/$name"
    chmod +x "build/examples/$name"
}
# expect STATUS: of a run; its words are in out.
expect() {
    status=0
    "$quality" build data >out 2>&1 || status=$?
    [ "$status" = "$1" ] || fail "exit $status, not $1"
}
# row WORDS: a line of the table that has them, in this order.
row() {
    pattern=$(echo "$*" | sed 's/ / .*/g')
    grep -Eq "^$pattern" out || fail "no row: $*"
}

program mnist_loop 'test accuracy: 98.40 %'
program mnist_cnn 'test accuracy: 99.31 %'
program charlm_orbit 'validation loss: 1.8800'
program vae_loop 'test negative log-likelihood: 87.99 nats'
program own_task 'accuracy             0.995'
# radius R: what the points of gan_orbit have.
radius() {
    printf '#!/bin/sh\nmkdir -p "$1"\necho "{\\"radius\\":%s}" >"$1/metrics.jsonl"\n' "$1" >build/examples/gan_orbit
    chmod +x build/examples/gan_orbit
}
radius 1.02
expect 0
row gan_orbit 0.02 0.1 met
row own_task 0.995 0.99 met
row mnist_loop 98.40 98.4 met
row mnist_cnn 99.31 99.25 met
row charlm_orbit 1.8800 1.88 met
row vae_loop 87.99 88.0 met

VAE_EPOCHS=3 expect 0
[ "$(cat args.vae_loop)" = "$work/build/quality/vae_loop data/mnist 3" ] ||
    fail "arguments: $(cat args.vae_loop)"

program mnist_cnn 'test accuracy: 99.24 %'
expect 1
row mnist_cnn 99.24 99.25 MISSED
row vae_loop 87.99 88.0 met
radius 0.8
ONLY=gan expect 1
row gan_orbit 0.2 0.1 MISSED
ONLY=charlm expect 0
grep -q gan_orbit out && fail "another program than ONLY says"
grep -q mnist_cnn out && fail "another program than ONLY says"

program charlm_orbit 'killed'
ONLY=charlm expect 1
row charlm_orbit - 1.88 MISSED
rm -r data/text
ONLY=charlm expect 0
row charlm_orbit - 1.88 skipped
grep -q '^quality: SKIPPED: charlm_orbit: there is no data/text/tinyshakespeare.txt$' out ||
    fail "a skip that is not told"
