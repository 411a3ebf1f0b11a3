#!/bin/sh
# test_example.sh BENCH_EXAMPLE: the program finds and prints the steps of examples, also with two
# passes a step and with rows that are no multiple of a block. Shares are between 0 and 1.5 (other
# processes can lower the measured roof, so more than 1 is possible). No file remains, and wrong
# arguments are refused. Times are not checked.
set -eu
work=$(mktemp -d "$PWD/example.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
export OMP_WAIT_POLICY=passive # beside other tests no thread spins

fail() {
    echo "$*: $(cat said)" >&2
    exit 1
}

left() {
    find . -name 'bench_example-*'
}

BENCH_JSON=figures "$1" gan_orbit steps=5 >said 2>&1 || fail "gan_orbit fails"
grep -qE '^gan_orbit: [0-9.]+ steps/s, .* passes [0-9.]+ %, update [0-9.]+ %' said || fail "no steps"
[ "$(grep -c '^ *kind ' said)" = 2 ] || fail "not a table for each of two passes"

# A text of bytes that differ: 768 rows a step.
awk 'BEGIN { for (i = 0; i < 9000; i++) printf "%c", 32 + i * i % 90 }' >text
BENCH_JSON=figures "$1" charlm_orbit text steps=2 >said 2>&1 || fail "charlm_orbit fails"
awk '/roof of products with weights/ {
    share = $0; sub(/.* ms: /, "", share); all = share
    sub(/.*too, /, "", all)
    found = share + 0 > 0 && all + 0 >= share + 0 && all + 0 < 150
} END { exit !found }' said || fail "no shares of the roof"
grep -q '"name": "example.charlm_orbit.roof_share", ' figures || fail "no figure of a share"
grep -q '"name": "example.gan_orbit.steps_s", ' figures || fail "no figure of steps"

# Without a roof none is told.
BENCH_JSON=alone "$1" charlm_orbit text steps=2 roof=no >said 2>&1 || fail "roof=no fails"
grep -q roof said alone && grep -qv '"roof": null' alone && fail "a roof, though none was asked for"

[ -z "$(left)" ] || fail "stays: $(left)"
for words in "" nobody vae_loop "gan_orbit text" "gan_orbit steps=0"; do
    # shellcheck disable=SC2086 # words are several
    if "$1" $words >said 2>&1; then
        fail "bench_example $words is taken"
    fi
    grep -q '^usage: bench_example ' said || fail "bench_example $words: no usage"
done
echo "bench_example: steps, shares and figures as they should be"
