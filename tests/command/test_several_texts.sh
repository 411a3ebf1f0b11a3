#!/bin/sh
# test_several_texts.sh ETUDE: --data and --valid given again: a mix with weights, and sets by name.
set -u
. "$(dirname "$0")/command.sh"
export OMP_NUM_THREADS=1
make_pairs 60 "rot hund rennt baum haus blau katze" de
mkdir new old
for side in en de; do
    cp a.$side new/text.$side
    tail -30 a.$side >old/text.$side
    head -5 a.$side >b.$side
done
paste b.en b.de >c.tsv
small='--experiment translation/tiny --steps 4 --set task.model.embedding_width=16
    --set task.vocabulary.size=30,task.train_data.global_batch_size=128,trainer.summary_interval=4'

# train CODE TEXT RUN WORD...
train() {
    code=$1 text=$2
    shift 2
    # shellcheck disable=SC2086 # words
    says "$code" "$text" train "$@" $small
}
train 0 '^data 2 of 2  weight 1: 30 pairs' mixed --data new/text.en new/text.de --data old/text.en \
    old/text.de --weights 3,1 --valid b.en b.de --valid c.tsv --valid new/text.en new/text.de \
    --valid old/text.en old/text.de
grep -q '^data 1 of 2  weight 3: 60 pairs' out || fail "the first text"
for name in b c text text-2; do
    grep -q "^validation   $name: " out || fail "no validation of $name"
    grep -q "\"$name\"\|$name/" mixed/metrics.jsonl || fail "no values of $name"
done
# The same as settings, by hand.
train 0 '^done' hand --set "task.train_data.mix=[{source_path: new/text.en, target_path: new/text.de, \
weight: 3}, {source_path: old/text.en, target_path: old/text.de}]"
train 0 '^done' short --data new/text.en new/text.de --data old/text.en old/text.de --weights 3,1
for run in hand short; do
    sed 's/"time":{[^}]*}//g' $run/metrics.jsonl >$run.log
done
cmp -s hand.log short.log || fail "the short form is another training"
# A pair of files and a file of pairs; equal weights.
train 0 '^data 2 of 2  weight 1: 5 pairs' three --data a.en a.de --data c.tsv
# One text in place of the several of the run that it begins with.
says 0 '^data         5 pairs' train next --init short --data b.en b.de --steps 1
# A run of several texts resumes.
train 0 '^finished ' short --data new/text.en new/text.de --data old/text.en old/text.de --weights 3,1

# Tags: tokens of the vocabulary, in front of the sources of their texts.
train 0 '^data 2 of 2  weight 1: 30 pairs' tagged --data new/text.en new/text.de --data old/text.en \
    old/text.de --tags ',<BT>'
train 0 '^done' byhand --set "task.train_data.mix=[{source_path: new/text.en, target_path: new/text.de}, \
{source_path: old/text.en, target_path: old/text.de, tag: <BT>}]"
for run in tagged byhand; do
    grep -aq '<BT>' $run/vocabulary.model || fail "$run: the tag is no token"
    sed 's/"time":{[^}]*}//g' $run/metrics.jsonl >$run.log
done
cmp -s tagged.log byhand.log || fail "--tags is another training than tag"
! cmp -s tagged.log three.log || fail "the tag changes nothing"
train 0 '^done' single --data a.en a.de --tags '>>deu<<'
grep -q '^ *tag: .*>>deu<<' single/params.yaml || fail "the tag of one text"

# A blank source stays empty, whether its text has a tag or not.
(cat old/text.en && printf ' \302\240\n\342\200\213\n') >blank.en
(cat old/text.de && printf 'hund\nhund\n') >blank.de
for tags in ',<BT>' ,; do
    train 0 '^data 2 of 2  weight 1: 30 pairs; 2 filtered .*: 2 empty' blank$tags --tags "$tags" \
        --data new/text.en new/text.de --data blank.en blank.de
done

train 2 'data: c.tsv has both languages by its name' a --data a.en a.de --data c.tsv c.tsv
train 2 'data: c.tsv has both languages by its name' a --data a.en c.tsv
train 2 'valid: c.tmx is TMX by its name, which is not read' a --data a.en a.de --valid c.tmx
train 2 'data: c.tmx is TMX by its name, which is not read' a --data a.en a.de --data a.en c.tmx
train 2 'tags <BT>: give one tag for each --data (2), with' a --data a.en a.de --data c.tsv --tags '<BT>'
train 2 'tags ,,x: give one tag for each --data (2), with' a --data a.en a.de --data c.tsv --tags ,,x
train 2 'tags a,b: give one tag for each --data (1)' a --data a.en a.de --tags a,b
train 3 'tag: "a b": give one word' a --data a.en a.de --data c.tsv --tags 'a b,'
train 2 'tags: only with --data' a --tags a
train 2 'weights 1: give one number for each --data (2)' a --data a.en a.de --data c.tsv --weights 1
train 2 'weights 1,2,3: give one number' a --data a.en a.de --data c.tsv --weights 1,2,3
train 2 "weights: '' is not a positive number" a --data a.en a.de --data c.tsv --weights ,1
train 2 "weights: 'x' is not a positive number" a --data a.en a.de --data c.tsv --weights x,1
train 2 "weights: '-1' is not a positive number" a --data a.en a.de --data c.tsv --weights=-1,1
train 2 'weights: only with several --data' a --data a.en a.de --weights 1
train 2 'data: takes SOURCE TARGET each time, but found 1 word' a --data a.en a.de --data a.en
[ ! -e a ] || fail "a run of wrong words"
exit 0
