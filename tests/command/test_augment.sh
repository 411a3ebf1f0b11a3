#!/bin/sh
# test_augment.sh ETUDE: back-translation. The outputs are parallel, equal to translate's lines, and
# the same bytes after kill -9 anywhere and after a stop; what is filtered is counted; a run is
# trained on them with a tag.
set -u
. "$(dirname "$0")/command.sh"
export OMP_NUM_THREADS=1
make_pairs 400 "rot hund rennt baum haus blau katze" de
train() {
    says 0 '^done' train "$@" --experiment translation/tiny --seed 5 \
        --set task.train_data.global_batch_size=256 \
        --set trainer.optimizer_config.learning_rate.inverse_sqrt.warmup_steps=30 \
        --set "{task: {model: {embedding_width: 32, dropout_rate: 0, beam_size: 2,
                extra_decode_length: 8,
                encoder: {num_layers: 1, intermediate_size: 64, dropout_rate: 0},
                decoder: {num_layers: 1, intermediate_size: 64, dropout_rate: 0}}}}"
}
train back --data a.de a.en --steps 150
# 1,200 lines, one without a word.
{ cat a.de a.de; sed 's/^/hund /' a.de; } | sed '7s/.*/   /' >mono.de

says 0 '^written      once.en, once.de' augment back --data mono.de --output once.en --max-ratio 0
grep -q '^augmented    1,199 of 1,200 pairs kept; 1 filtered (0.1 %): 1 empty$' out ||
    fail "the counts"
[ ! -e once.en.part ] || fail "the file of the work remains"
"$etude" translate back <mono.de >whole.en 2>said || fail translate
sed 7d whole.en | cmp -s - once.en || fail "another translation than translate's"
sed 7d mono.de | cmp -s - once.de || fail "other originals"

# A teacher's translations: the data are the source.
says 0 '^written      f.de, f.en' augment back --forward --data mono.de --output f.de f.en --max-ratio 0
cmp -s f.en once.en && cmp -s f.de once.de || fail "--forward: other pairs"
says 0 '^written      g.de, g.en' augment back --forward --data mono.de --output g.en --max-ratio 0
cmp -s g.en once.en && cmp -s g.de once.de || fail "--forward with one name"

# Samples, filtered by score and length, in compressed files of other names.
says 0 'kept; .* filtered .*unlikely' augment back --data mono.de --output s.en.gz k.de --sampling \
    --seed 3 --temperature 1.3 --min-score -2.2 --max-ratio 1.5
gunzip s.en.gz || fail "not compressed"
[ "$(wc -l <s.en)" = "$(wc -l <k.de)" ] || fail "not parallel"
"$etude" translate back --sampling --seed 3 --temperature 1.3 --scores <mono.de 2>said |
    awk -F ' \\|\\|\\| ' '{ print $2 }' | paste - mono.de >all.tsv
paste s.en k.de | awk 'NR == FNR { want[FNR] = $0; n = FNR; next }
    at < n && $0 == want[at + 1] { at++ } END { exit at != n }' - all.tsv ||
    fail "pairs that translate does not have, or in another order"
# What is left out is what the scores of translate say.
"$etude" translate back --json <mono.de 2>said >json || fail json
says 0 '^augmented' augment back --data mono.de --output half.en --min-score -0.2 --max-ratio 0
kept=$(wc -l <half.en)
[ "$kept" -gt 0 ] && [ "$kept" -lt 1199 ] || fail "the filter left $kept"

# kill -9 at several moments; the same command goes on after the last line, with the same bytes.
words='augment back --data mono.de --output k.en --max-ratio 0 --threads 1'
resumed=0
for lines in 1 200 600 1000; do
    # shellcheck disable=SC2086 # words
    "$etude" $words >out 2>&1 &
    pid=$!
    for _ in $(seq 2000); do
        size=$(stat -c %s k.en.part 2>/dev/null || echo 0)
        [ "$size" -lt $((lines * 50)) ] || break
        kill -0 $pid 2>/dev/null || break
        sleep 0.01
    done
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    grep -q '^resuming     after line' out && resumed=$((resumed + 1))
    [ -e k.en ] && break
done
# An incomplete record at the end is cut off.
[ ! -e k.en.part ] || printf '\020\000\000\000\000' >>k.en.part
# shellcheck disable=SC2086 # words
says 0 '^written' $words
cmp -s once.en k.en && cmp -s once.de k.de || fail "other bytes after kill -9"
[ "$resumed" -gt 0 ] || grep -q '^resuming' out || fail "nothing was resumed"

# A power loss: the length reached the disk, but the last bytes, or the first ones, did not.
"$etude" augment back --data mono.de --output p.en --min-score 0 >out 2>&1
size=$(stat -c %s p.en.part)
cp p.en.part d.en.part
printf '\377' | dd of=d.en.part bs=1 seek=$((size / 2)) conv=notrunc 2>/dev/null
says 3 'd.en.part: damaged: .*; remove this file to begin again' augment back --data mono.de --output d.en
truncate -s $((size - 3)) p.en.part
truncate -s $((size + 900)) p.en.part
printf 'tail' >>p.en.part
says 0 'p.en.part ends in an incomplete record.*: 1,199 lines before it are kept' augment back \
    --data mono.de --output p.en --max-ratio 0
cmp -s once.en p.en || fail "other bytes after a power loss"
truncate -s 60 p.en.part
says 0 '^written' augment back --data mono.de --output p.en --max-ratio 0
cmp -s once.en p.en || fail "other bytes after a power loss at the first record"

# A stop keeps what is translated.
"$etude" augment back --data mono.de --output t.en --beam-size 4 --threads 1 >out 2>&1 &
pid=$!
for _ in $(seq 2000); do
    [ "$(stat -c %s t.en.part 2>/dev/null || echo 0)" -lt 4000 ] || break
    sleep 0.01
done
kill -INT $pid
got=0
wait $pid || got=$?
[ $got = 75 ] && grep -q 'stopped: .* of 1,200 lines are translated, in t.en.part; the same' out ||
    fail "a stop: exit $got"
[ ! -e t.en ] && [ ! -e t.de ] || fail "outputs of a part"
says 3 't.en.part has translations of other work: seed was 0, is 5; give the same' augment back \
    --data mono.de --output t.en --beam-size 4 --seed 5 --threads 1
says 3 'other work: checksum of the data was' augment back --data a.de --output t.en --beam-size 4
says 0 '^resuming     after line' augment back --data mono.de --output t.en --beam-size 4
says 0 '^written' augment back --data mono.de --output u.en --beam-size 4 --threads 2
cmp -s t.en u.en && cmp -s t.de u.de || fail "a stop and threads change the bytes"

# The pairs as training data, with a tag that is one token.
head -60 a.en >own.en
head -60 a.de >own.de
train forth --data own.en own.de --data once.en once.de --weights 1,1 --tags ',<BT>' --steps 20
grep -q '^data 2 of 2  weight 1: 1,199 pairs' out || fail "the pairs are no training data"

# A compressed text; two processes; several ranks.
gzip -c own.de >packed.de.gz
says 0 '^written      packed.en, packed.de$' augment back --data packed.de.gz --output packed.en --max-ratio 0
cmp -s packed.de own.de || fail "originals of a compressed text"
# Several texts are one text, in their order, whether they follow --data or come alone.
head -150 mono.de >first.de
sed -n 151,800p mono.de | gzip -c >second.de.gz
sed -n '801,$p' mono.de >third.de
says 0 '^written      several.en, several.de$' augment back --data first.de --data second.de.gz third.de \
    --output several.en --max-ratio 0
cmp -s once.en several.en && cmp -s once.de several.de || fail "several texts"
# A filter that leaves nothing keeps the translations; they belong to these texts in this order.
texts='--data first.de --data second.de.gz'
# shellcheck disable=SC2086 # words
says 3 '0 of 800 pairs kept.*the translations are in w.en.part' augment back $texts --output w.en \
    --min-score 0
says 3 'other work: checksum of the data was' augment back --data second.de.gz --data first.de \
    --output w.en
says 3 'other work: checksum of the data was' augment back --data second.de.gz --output w.en
# shellcheck disable=SC2086
says 0 '^resuming     after line 800 of 2 files from first.de to second.de.gz$' augment back $texts \
    --output w.en --max-ratio 0
head -799 once.en | cmp -s - w.en || fail "the translations of two texts"
cp first.de first.txt
says 2 'give a second file, for the lines of 2 files from first.txt to third.de that' augment back \
    --data first.txt --data third.de --output x.en
says 3 'third.de and third.de are the same file' augment back --data first.de --data third.de \
    --output x.en third.de
for _ in 1 2 3 4 5 6 7 8; do
    cat mono.de
done >many.de
"$etude" augment back --data many.de --output v.en --beam-size 8 --threads 1 >first 2>&1 &
pid=$!
for _ in $(seq 2000); do
    [ ! -s v.en.part ] || break
    sleep 0.01
done
kill -STOP $pid
says 1 'v.en.part: another process writes the same output; wait' augment back --data many.de \
    --output v.en --beam-size 8 --threads 1
kill -CONT $pid
wait $pid || fail "the first of two processes: $(cat first)"
says 2 'augment' launch -n 2 -- "$etude" augment back --data own.de --output x.en
[ ! -e x.en ] || fail "ranks wrote it"

# Bad input: nothing is written.
for file in pairs.tsv pairs.tsv.gz pairs.tmx; do
    says 2 "data: $file has both languages by its name" augment back --data mono.de --data $file --output x.en
done
says 2 'augment: --data is missing' augment back --output x.en
says 2 'augment: --output is missing' augment back --data mono.de
says 2 'output x.de: give a second file, for the lines of mono.de' augment back --data mono.de --output x.de
says 2 'output x: give a second file' augment back --data mono.de --output x
says 3 'mono.de and mono.de are the same file' augment back --data mono.de --output x.en mono.de
says 2 'temperature 0' augment back --data mono.de --output x.en --temperature 0
: >empty.de
says 3 'empty.de: the file is empty' augment back --data empty.de --output x.en
printf 'hund\n\377\n' >bad.de
says 3 'bad.de:2: byte 1 of the line (0xFF) is not UTF-8' augment back --data bad.de --output x.en
printf '   \n' >blank.de
says 3 '0 of 1 pair kept; 1 filtered (100.0 %): 1 empty; raise' augment back --data blank.de --output x.en
rm x.en.part
echo mine >x.en.part
says 3 'x.en.part is not a file of `augment`' augment back --data mono.de --output x.en
[ "$(cat x.en.part)" = mine ] || fail "a file of the user changed"
rm x.en.part
[ -z "$(ls x.* 2>/dev/null)" ] || fail "files of bad commands: $(ls x.*)"
exit 0
