#!/bin/sh
# test_texts.sh ETUDE: `translate --split` and `--format` give the translations of the sentences
# alone, and everything between them as it was.
set -eu
. "$(dirname "$0")/command.sh"
export OMP_NUM_THREADS=1

make_pairs 160 "rot hund rennt baum haus blau katze" de
"$etude" train run --experiment translation/tiny --data a.en a.de --seed 5 --steps 150 \
    --set task.train_data.global_batch_size=256 \
    --set trainer.optimizer_config.learning_rate.inverse_sqrt.warmup_steps=30 \
    --set "{task: {model: {embedding_width: 32, dropout_rate: 0, beam_size: 2, extra_decode_length: 8,
            encoder: {num_layers: 1, intermediate_size: 64, dropout_rate: 0},
            decoder: {num_layers: 1, intermediate_size: 64, dropout_rate: 0}}}}" >log 2>&1 ||
    { cat log >&2; fail "train"; }
translate() {
    "$etude" translate run "$@" 2>log || fail "translate $*"
}
same() {
    cmp -s "$1" "$2" || { diff "$1" "$2" >&2; fail "$3"; }
}

# --format text of lines without anything to keep is plain translation; so is one sentence a line.
head -20 a.en >lines
translate <lines >plain
! grep -qx '' plain || fail "the model has learned nothing"
translate --format text lines >got
same plain got "lines as a text"
[ ! -s log ] || fail "said something"

# Line ends, a byte order mark and no line end at the end stay.
first=$(sed -n 1p lines) second=$(sed -n 2p lines)
one=$(sed -n 1p plain) two=$(sed -n 2p plain)
printf '\357\273\277  %s\r\n\r\n\t%s' "$first" "$second" >crlf
printf '\357\273\277  %s\r\n\r\n\t%s' "$one" "$two" >expected
translate --format text crlf >got
same expected got "white space"
page='<p class="x" title="%s">%s</p>\n<!-- %s -->\n<p>%s &copy;</p>\n'
printf "$page" "$second" "$first" "$first" "$second" >a.html
printf "$page" "$two" "$one" "$first" "$two" >expected
translate --format html <a.html >got
same expected got "html"

printf 'msgid "%s"\nmsgstr ""\n\nmsgid "%s"\nmsgstr "x"\n' "$first" "$second" >a.po
printf 'msgid "%s"\nmsgstr "%s"\n\nmsgid "%s"\nmsgstr "x"\n' "$first" "$one" "$second" >expected
translate --format po a.po >got
same expected got "po"
printf '1\n00:00:01,000 --> 00:00:02,000\n%s\n' "$first" >a.srt
printf '1\n00:00:01,000 --> 00:00:02,000\n%s\n' "$one" >expected
translate --format srt a.srt >got
same expected got "srt"
printf '# %s\n\n```\n%s\n```\n- %s\n' "$first" "$first" "$second" >a.md
printf '# %s\n\n```\n%s\n```\n- %s\n' "$one" "$first" "$two" >expected
translate --format md a.md >got
same expected got "md"

# The ending of a file's name says its format, which is said; --format says otherwise.
for ending in html po srt md; do
    translate a.$ending >got
    grep -q "^format       $ending, by the name of a.$ending\$" log || fail "a.$ending: format not said"
    translate --format $ending a.$ending >expected
    ! grep -q '^format ' log || fail "a.$ending: said all the same"
    same expected got "a.$ending by its ending"
done
cp a.po lines.txt
translate lines.txt >got
[ ! -s log ] || fail "a text has a format"
translate --format lines a.po >expected
same expected got "--format lines"

# A placeholder that the model cannot know: the words around it are translated alone, and it is said.
printf '%s {name_of_it}\n' "$first" >placeholder
printf '%s {name_of_it}\n' "$one" >expected
translate --format text --output got placeholder
same expected got "a placeholder"
translate --format text --output got.gz placeholder
gzip -dc got.gz >got
same expected got "an output called .gz"
"$etude" evaluate run --source lines --reference lines --output got.gz >scores 2>said
gzip -dc got.gz | cmp - plain || fail "evaluate, an output called .gz"
grep -q '^in parts     1 of 1 segments: .* placeholder:1$' log || fail "not said"
translate --format text --quiet placeholder >got
same expected got "quiet"
[ ! -s log ] || fail "not quiet"

if "$etude" translate run --split <lines 2>log >split; then
    same plain split "one sentence a line"
    printf '%s.  %s.\n\n %s.\n' "$first" "$second" "$first" >paragraph
    translate --split --language en <paragraph >got
    [ "$(wc -l <got)" = 3 ] || fail "lines are lost"
    # Without capitals nothing is cut; with them each sentence is translated alone.
    printf 'A %s.  A %s.\n' "$first" "$second" >paragraph.two
    printf 'A %s.\nA %s.\n' "$first" "$second" | translate >two
    printf '%s  %s\n' "$(sed -n 1p two)" "$(sed -n 2p two)" >expected
    translate --split --language en paragraph.two >again
    same expected again "two sentences"
    [ -z "$(sed -n 2p got)" ] || fail "an empty line"
    translate --split --language en --format text <paragraph >again
    same got again "streamed or whole"
    (sed -n 1p paragraph; sleep 0.3; sed -n 2,3p paragraph) | translate --split --language en >again
    same got again "line by line"
else
    grep -q 'libicu-dev' log || fail "another reason than ICU"
fi

refused() {
    words=$1
    shift
    if "$etude" translate run "$@" <lines >got 2>log; then fail "$* passes"; fi
    grep -q -- "$words" log || { cat log >&2; fail "$*: another message"; }
}
refused '--n-best is for single' --split --n-best 2
refused '--scores is for single' --format html --scores
refused '--json is for single' --format xml --json
refused '--language: only with --split' --language en
refused 'format' --format pdf
gzip -k lines
refused 'compressed' --format text --input lines.gz
printf '<a>\n<b></a>\n' >bad.xml
if "$etude" translate run --format xml a.html 2>log >got || ! grep -q libexpat1-dev log; then
    refused 'bad.xml:2:6: mismatched tag; <b> of line 2 is open' bad.xml
fi
printf '<a>\377</a>\n' >bad.html
refused 'bad.html:1: .*not UTF-8' --format html bad.html
refused 'a.xliff: .*xliff2po' a.xliff
refused 'a.docx: .*pandoc' a.docx
refused 'with --format lines each line' --n-best 2 a.html
echo "sentences and markup are kept"
