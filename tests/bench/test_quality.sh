#!/bin/sh
# test_quality.sh BENCH: bench/quality/run with stand-ins for both sides: it prints a ratio if both
# reach the target, and none if one misses or fails; a comparison without data is left out.
set -eu
bench=$(cd "$1" && pwd)
work=$(mktemp -d "$PWD/quality.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p build/examples build/bench data/mnist
cat >build/examples/mnist_loop <<'X'
#!/bin/sh
sleep 0.1 # a side that takes no time at all has no ratio
echo "valid_acc: 99.0"
echo "test accuracy: 98.45 %"
X
cat >build/examples/mnist_cnn <<'X'
#!/bin/sh
echo "test accuracy: 98.00 %"
X
cat >python <<'X'
#!/bin/sh
[ "$1" != -c ] || exit 0
sleep 0.3
case "$2" in
mlp) echo "test accuracy: ${PEER:-98.41} %" ;;
*) echo "no such" >&2; exit 1 ;;
esac
X
cat >build/bench/quality_digits <<'X'
#!/bin/sh
sleep 0.1
echo "validation accuracy: 99.90 %"
echo "test accuracy: 98.5$3 %"
X
chmod +x build/examples/* build/bench/* python

fail() {
    echo "$*" >&2
    cat table said >&2
    exit 1
}

PYTHON=$PWD/python ROUNDS=2 "$bench/quality/run" build data >table 2>said || fail "it fails"
[ "$(grep -c '^digits.mlp .*98.45 .*98.41 .* [0-9.]* times as fast$' table)" = 2 ] || fail "no ratio"
[ "$(grep -c '^digits.mlp *open .*98.58 .*98.41 .* [0-9.]* times as fast$' table)" = 2 ] || fail "no open division"
grep -q '^digits.cnn .*98.00 MISSED .*failed .*no ratio$' table || fail "what misses has a ratio"
grep -q 'SKIPPED: characters: there is no' said || fail "what has no data is not named"
grep -q 'SKIPPED: adult' said || fail "what has no data is not named"
[ "$(grep -c '"name": "digits.mlp", .*"etude_value": 98.\(45\|58\), "peer_value": 98.41}$' build/quality-time.jsonl)" = 4 ] ||
    fail "no figures"
PYTHON=$PWD/python PEER=98.39 ONLY=mlp "$bench/quality/run" build data >table 2>said || fail "it fails"
grep -q '^digits.mlp .*98.39 MISSED  no ratio$' table || fail "a peer that misses has a ratio"
! grep -q SKIPPED said || fail "ONLY does not hold"
echo "bench/quality: ratios where both reach the target"
