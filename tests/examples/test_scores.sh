#!/bin/sh
# test_scores.sh SCORES: the scores of a small pair of files, the worst line, and the message about
# a missing file.
set -eu
scores=$1
work=$(mktemp -d "$PWD/scores.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "test_scores: $*" >&2
    cat log >&2
    exit 1
}

printf "A dog runs .\nthe cat sat\n" >hypotheses
printf "A dog runs fast .\nthe cat sat on it\n" >references
"$scores" hypotheses references >log 2>&1 || fail "exit $?"
grep -q "^BLEU|nrefs:1.* = 46.81 100.0/80.0/66.7/50.0" log || fail "another BLEU"
grep -q "^chrF2|nrefs:1.* = 61.37" log || fail "another chrF2"
grep -q "^TER|nrefs:1.* = 30.00" log || fail "another TER"
grep -q "^worst line: BLEU 49.8, chrF2 56.7: A dog runs ." log || fail "another worst line"
status=0
"$scores" hypotheses nothing >log 2>&1 || status=$?
[ "$status" = 1 ] && grep -q "nothing: No such file" log || fail "a missing file: exit $status"
echo "scores: as sacrebleu has them"
