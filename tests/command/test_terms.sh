#!/bin/sh
# test_terms.sh ETUDE: `translate --terms`: every term is in the translation of a line that has it,
# for each size of the beam; lines without terms keep their bytes; a bad file is refused.
set -u
. "$(dirname "$0")/command.sh"
export OMP_NUM_THREADS=2
make_pairs 160 "rot hund rennt baum haus blau katze" de
"$etude" train run --experiment translation/tiny --data a.en a.de --seed 5 --steps 150 \
    --set task.train_data.global_batch_size=256 \
    --set trainer.optimizer_config.learning_rate.inverse_sqrt.warmup_steps=30 \
    --set "{task: {model: {embedding_width: 32, dropout_rate: 0, beam_size: 2, extra_decode_length: 12,
            encoder: {num_layers: 1, intermediate_size: 64, dropout_rate: 0},
            decoder: {num_layers: 1, intermediate_size: 64, dropout_rate: 0}}}}" >log 2>&1 ||
    { cat log >&2; fail "train"; }
translate() {
    "$etude" translate run "$@" 2>log || fail "translate $*: $(cat log)"
}
head -40 a.en >lines
translate <lines >plain
! grep -qx '' plain || fail "the model has learned nothing"
printf 'dog\tkatze\ntree cat\thaus haus\r\n\nblue\trot hund\nblue\trot hund\nCAT\tnie\n' >terms.tsv

# must FILE: each line of FILE, beside those of `lines`, has what terms.tsv asks for.
must() {
    paste lines plain "$1" | awk -F '\t' '
        { source = " " $1 " "; target = " " $3 " "; some = 0 }
        source ~ / dog / { some = 1; if (target !~ / katze /) bad = NR }
        source ~ / tree cat / { some = 1; if (target !~ / haus haus /) bad = NR }
        source ~ / blue / { some = 1; if (target !~ / rot hund /) bad = NR }
        !some { others++; if ($2 != $3) bad = NR }
        END { if (bad) print "line " bad; exit bad || !others || others == NR }' || fail "$2"
}
for beam in 1 2 4 12; do
    translate --beam-size $beam <lines >plain
    translate --beam-size $beam --terms terms.tsv <lines >kept
    [ ! -s log ] || fail "beam $beam: $(cat log)"
    must kept "beam $beam"
done
translate <lines >plain
translate --terms terms.tsv <lines >kept
must kept "the run's beam"
! cmp -s plain kept || fail "terms change nothing"
# A line's translation depends on no other line, and not on threads.
sed -n 7,19p lines | translate --terms terms.tsv --threads 1 >part
sed -n 7,19p kept | cmp -s - part || fail "other lines change a translation"
translate --terms terms.tsv --json --n-best 2 <lines >json
[ "$(grep -c . json)" = 40 ] || fail "results as JSON"

# Whole words in any case; a term with a capital letter only as it is written; the longest first.
printf 'Dog red\nredog red\ncat runs\nCAT runs\nred TREE   Cat red\n' >lines
translate <lines >plain
translate --terms terms.tsv <lines >kept
sed -n 1p kept | grep -qw katze || fail "the case of a letter"
for line in 2 3; do
    [ "$(sed -n ${line}p kept)" = "$(sed -n ${line}p plain)" ] || fail "line $line has no term"
done
sed -n 5p kept | grep -q 'haus haus' || fail "white space between words"
grep -q '^etude: warning: line 4, "CAT runs": the translation does not have "nie" (terms.tsv:6)' log ||
    fail "a term that cannot be written: $(cat log)"
