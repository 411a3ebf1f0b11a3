#!/bin/sh
# test_compare_translations.sh ETUDE: the sentences in which two outputs differ most.
set -eu
. "$(dirname "$0")/command.sh"
export OMP_NUM_THREADS=1

cat >en <<'END'
A dog runs.
The red house is small.
A cat sees a tree, and the tree is very big and very old, and nobody knows why it is there.
Nothing.
END
cat >de <<'END'
Ein Hund rennt.
Das rote Haus ist klein.
Eine Katze sieht einen Baum, und der Baum ist sehr gross und sehr alt, und niemand weiss, warum er da ist.
Nichts.
END
cat >one <<'END'
Ein Hund rennt.
Das Haus ist rot.
Eine Katze sieht einen Baum, und der Baum ist sehr gross und sehr alt, und niemand weiss, warum er da ist.
Nix.
END
cat >two <<'END'
Eine Katze.
Das rote Haus ist klein.
Eine Katze sieht einen Baum, und der Baum ist sehr gross und sehr alt, und keiner weiss, warum er da ist.
Nix.
END

# The largest difference first, with its sign; equal sentences are not shown.
says 0 '^A  *one: chrF2 [0-9.]*, better in 2 sentences$' compare one two --translations --data en de
grep -q '^B  *two: chrF2 [0-9.]*, better in 1 sentence$' out || fail "B"
grep -q '^equal  *1 sentence$' out || fail "equal"
[ "$(sed -n 's/^line \([0-9]*\) .*/\1/p' out | tr '\n' ' ')" = "1 2 3 " ] || fail "order"
grep -q '^line 1   chrF2 100.0 -> [0-9.]* (-[0-9.]*)$' out || fail "a fall"
grep -q '^line 2   chrF2 [0-9.]* -> 100.0 (+[0-9.]*)$' out || fail "a rise"
grep -q '^source     A dog runs.$' out || fail "source"
grep -q '^reference  Ein Hund rennt.$' out || fail "reference"
grep -q '^A          Ein Hund rennt.$' out || fail "A's translation"
grep -q '^B          Eine Katze.$' out || fail "B's translation"
awk 'length > 80 { exit 1 }' out || fail "more than 80 columns"
grep -q '^           [a-z]' out || fail "a long sentence is not continued below its text"
cp out usual
"$etude" compare --translations --metric chrf --lines 10 --source en --reference de one two | cmp - usual ||
    fail "defaults"
paste en de >pairs.tsv
"$etude" compare one two --translations --data pairs.tsv | cmp - usual || fail "pairs"
"$etude" compare one two --translations --reference de >out
! grep -q '^source' out || fail "sources of nowhere"

# Other metrics; TER is better if it is lower. The corpus scores are those of score.
says 0 '^A  *one: TER .*, better in 2 sentences' compare one two --translations --data en de --metric ter
grep -q '^line 1   TER 0.0 -> [0-9.]* (+[0-9.]*)$' out || fail "TER"
for metric in bleu chrf ter; do
    wanted=$("$etude" score de two --metrics $metric | sed 's/^[^=]* = \([0-9.]*\).*/\1/')
    "$etude" compare one two --translations --data en de --metric $metric >out
    grep -q "^B  *two: [A-Za-z0-9]* $wanted," out || fail "$metric of the corpus is not $wanted"
done
says 0 'line' compare one two --translations --data en de --lines 1
[ "$(grep -c ^line out)" = 1 ] || fail "--lines 1"
says 0 '^equal  *4 sentences' compare one one --translations --data en de
[ "$(wc -l <out)" = 3 ] || fail "equal outputs have sentences"

says 0 '"metric": "chrf_score"' compare one two --translations --data en de --json
tr -d '\n' <out | sed 's/  */ /g' >flat
for text in '"outputs": \[ "one", "two" \]' '"better": \[ 2, 1 \]' '"sentence_count": 4' '"line": 1, "difference": -' \
    '"source": "A dog runs.", "reference": "Ein Hund rennt.", "translations": \[ "Ein Hund rennt.", "Eine Katze." \]'; do
    grep -q "$text" flat || fail "JSON: $text"
done

# Text from others cannot reach the terminal's controls.
printf 'Ein \033[31mHund\nx\ny\nz\n' >bad
says 0 'Ein \\u001b\[31mHund' compare one bad --translations --data en de

# Runs translate.
make_pairs 160 "rot hund rennt baum haus blau katze" fr
"$etude" train run --experiment translation/tiny --data a.en a.fr --steps 40 --seed 3 \
    --set task.train_data.global_batch_size=256,task.model.embedding_width=32 >said 2>&1 || fail train
head -20 a.en >b.en
head -20 a.fr >b.fr
"$etude" translate run <b.en >hyp 2>said
says 0 '^A  *run, step 40: chrF2 ' compare run hyp --translations --data b.en b.fr
grep -q '^equal  *20 sentences' out || fail "a run and its translations differ"
says 0 '^B  *run, step 40: ' compare b.fr run --translations --data b.en b.fr --beam-size 1 --quiet
says 0 '"run"' compare b.fr run --translations --data b.en b.fr --json
says 2 'give at least two runs, not only run' compare run run

# What cannot be.
says 2 'found 1 names\|found 1 name' compare one --translations --data en de
says 2 'found 3 names' compare one two one --translations --data en de
says 2 'data is missing' compare one two --translations
says 2 'source is missing; name the lines that run translates' compare one run --translations --reference de
says 2 'reference is missing' compare one two --translations --source en
says 2 'only with --translations' compare run run --lines 3
says 2 'only with --translations' compare run run --data en de
says 2 'add --translations' compare one two
says 2 'not with --translations' compare one two --translations --data en de --all
says 2 'no choice is called meteor' compare one two --translations --data en de --metric meteor
says 3 'nowhere' compare one nowhere --translations --data en de
head -3 two >short
says 3 'short has 3 lines' compare one short --translations --data en de
