#!/bin/sh
# test_overlap.sh ETUDE: texts that make scores of a translation worthless are named: pairs that are
# learned and scored, equal sides, languages in the wrong order.
set -eu
. "$(dirname "$0")/command.sh"
export OMP_NUM_THREADS=1

make_pairs 120 'rot Hund rennt Baum Haus blau Katze' de
head -n 100 a.en >t.en
head -n 100 a.de >t.de
awk '{ print $0 " big" }' t.en | tail -n 40 >v.en
awk '{ print "gross " $0 }' t.de | tail -n 40 >v.de
(head -n 10 t.en && head -n 30 v.en) >c.en
(head -n 10 t.de && head -n 30 v.de) >c.de
paste v.de v.en >swapped.tsv
awk 'NR % 2 { print; next } { getline line <"t.de"; print line }' t.en >half.de
text() {
    expected=$1
    shift
    rm -rf model
    says 0 '^done ' train model --experiment translation/tiny --steps 2 \
        --set task.vocabulary.size=25 --set task.model.beam_size=1 "$@"
    if [ -n "$expected" ]; then
        [ "$(grep -c "warning: $expected" out)" = 1 ] || fail "$*: not said once: $expected"
    else
        ! grep -q 'warning: [a-z]*\.[a-z]*: ' out || fail "$*: warns of a text"
    fi
}
text 'v.de: the languages seem to be swapped' --data t.en t.de --valid v.de v.en
text 'swapped.tsv: the languages seem to be swapped' --data t.en t.de --valid swapped.tsv
text 't.en: source and target are equal in 100 of 100 pairs: they teach the model to copy' --data t.en t.en
text 't.en: source and target are equal in 50 of 100 pairs' --data t.en half.de --valid v.en v.de
text 't.en: 100 of 100 pairs are also training pairs' --data t.en t.de --valid t.en t.de
text 'c.en: 10 of 40 pairs are also training pairs' --data t.en t.de --valid c.en c.de
text '' --data t.en t.de --valid v.en v.de
tells 0 '' evaluate model --beam-size 1 v.en v.de
says 0 'warning: v.de: the languages seem to be swapped' evaluate model --beam-size 1 v.de v.en
says 0 'warning: c.en: 10 of 40 pairs are also training pairs' evaluate model --beam-size 1 c.en c.de
says 0 'warning: v.en: source and target are equal in 40 of 40 pairs: their scores only show how well the model copies' \
    evaluate model --beam-size 1 v.en v.en
