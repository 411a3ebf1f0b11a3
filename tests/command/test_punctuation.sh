#!/bin/sh
# test_punctuation.sh ETUDE: --normalize-punctuation trains on normalized text, and what is translated
# later is normalized in the same way, without an option.
set -eu
. "$(dirname "$0")/command.sh"
export OMP_NUM_THREADS=1

# Quotes and dashes of books, and the same text as Moses writes it.
make_pairs 160 "rot hund rennt baum haus blau katze" de
for side in en de; do
    awk '{ if (NR % 3) print "“" $1 "” – " $0 "…"; else print $0 " – " $1 }' a.$side >book.$side
    sed 's/“/"/g; s/”/"/g; s/–/-/g; s/…/.../g' book.$side >plain.$side
done
train() {
    "$etude" train "$@" --experiment translation/tiny --seed 5 --steps 20 \
        --set task.train_data.global_batch_size=256 \
        --set "{task: {model: {embedding_width: 16, extra_decode_length: 8,
                encoder: {num_layers: 1}, decoder: {num_layers: 1}}}}" >log 2>&1
}
train book --data book.en book.de --normalize-punctuation en de || { cat log >&2; fail "train"; }
train plain --data plain.en plain.de || { cat log >&2; fail "train plain"; }
cmp book/vocabulary.model plain/vocabulary.model || fail "another vocabulary"
"$etude" translate book <book.en >got
"$etude" translate plain <plain.en >expected
cmp got expected || fail "other weights, or another source"
"$etude" translate book --score-targets book.de book.en >got
"$etude" translate plain --score-targets plain.de plain.en >scored
sed 's|.* logp|logp|' got >got.scores
sed 's|.* logp|logp|' scored >expected.scores
cmp got.scores expected.scores || fail "targets are scored as they are"

# An export and a run that begins with these weights know it too.
"$etude" export book --output book.safetensors >log 2>&1 || fail "export"
"$etude" translate book.safetensors <book.en >got
cmp got expected || fail "the export forgets"
train tuned --init book --data book.en book.de || { cat log >&2; fail "init"; }
grep -q 'source_punctuation: en' tuned/params.yaml || fail "a fine-tuned run forgets"
grep -q 'target_punctuation: de' tuned/params.yaml || fail "a fine-tuned run forgets the target"

# Empty settings of a run that begins with these weights are kept.
for own in "--experiment translation/tiny" ""; do
    # shellcheck disable=SC2086
    "$etude" train off --dry-run --init book --data book.en book.de --steps 2 $own \
        --set task.vocabulary.source_punctuation=,task.vocabulary.target_punctuation= \
        --set "{task: {model: {embedding_width: 16, encoder: {num_layers: 1}, decoder: {num_layers: 1}}}}" \
        >log 2>&1 || { cat log >&2; fail "empty settings"; }
    if grep '^punctuation  normalized' log >&2; then fail "empty settings are overridden"; fi
done

# A run keeps it.
if train book --data book.en book.de --normalize-punctuation fr de; then fail "another language for the same run"; fi
grep -q 'source_punctuation' log || { cat log >&2; fail "not named"; }
if train bad --data book.en book.de --normalize-punctuation english de; then fail "no code"; fi
grep -q 'task.vocabulary.source_punctuation: english is not the code of a language' log ||
    { cat log >&2; fail "another message"; }
echo "punctuation is normalized in training and afterwards"
