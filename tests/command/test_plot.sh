#!/bin/sh
# test_plot.sh ETUDE: `plot` with curves of made logs.
set -eu
. "$(dirname "$0")/command.sh"

# plot CODE TEXT ARGUMENT...: `etude plot` ends with CODE, and TEXT is in what it prints.
plot() {
    code=$1 text=$2
    shift 2
    tells "$code" "$text" plot "$@"
}

mkdir -p runs/a runs/b 'runs/<&">' empty
awk -v q='"' 'BEGIN { for (i = 1; i <= 40; i++) {
    w = "," q "time" q ":{" q "wall" q ":" 1000 + 60 * i "}}"
    print "{" q "step" q ":" 10 * i "," q "train" q ":{" q "training_loss" q ":" \
        (i == 20 ? "null" : 5 / i + 1) "," q "epoch" q ":" int((i - 1) / 8) + 1 "}" w
    if (i % 8 == 0)
        print "{" q "step" q ":" 10 * i "," q "validation" q ":{" q "validation_loss" q ":" \
            5 / i + 1.25 "," q "good" q ":" i "," q "best_good" q ":" i "," q "best_step" q ":" \
            10 * i "}" w } }' >runs/a/metrics.jsonl
sed 's/"training_loss":\([0-9]\)/"training_loss":1\1/' runs/a/metrics.jsonl >runs/b/metrics.jsonl
cp runs/a/metrics.jsonl 'runs/<&">'
export LC_ALL=C.UTF-8
unset NO_COLOR

# What the best is chosen by, or what is named: one place, several, all below a directory.
plot 0 '^ *good (validation)$' runs/a
grep -q '┤' out && grep -q '⠤' out && grep -q '200' out && grep -q 'step$' out || fail "axes"
[ "$(wc -l <out)" -le 24 ] || fail "more lines than a screen has"
plot 0 'b runs/b  validation loss$\|d runs/b  validation loss$' runs/a runs/b/ --metric loss
plot 0 'a training loss$' runs/a --metric training_loss --metric good
plot 0 '^ *a runs/<&">$' runs --metric validation_loss
[ "$(grep -c ' runs/' out)" = 3 ] || fail "not each run once"
plot 0 '^ *training loss$' runs/a --metric train.training_loss --height 5 --width 40
[ "$(wc -L <out)" -le 40 ] || fail "wider than 40"

# No colour but on a terminal, no character but ASCII where the locale has none.
"$etude" plot runs/a runs/b | grep -q "$(printf '\033')" && fail "colours in a pipe"
LC_ALL=C plot 0 'runs/b$' runs/a runs/b
[ "$(LC_ALL=C tr -d '\n -~' <out | wc -c)" = 0 ] || fail "not ASCII"
if has_terminal; then
    TERM=xterm script -qec "'$etude' plot runs/a runs/b" /dev/null </dev/null >out
    grep -q "$(printf '\033')\[3[0-9]m" out || fail "no colours on a terminal"
    NO_COLOR=1 TERM=xterm script -qec "'$etude' plot runs/a runs/b" /dev/null </dev/null >out
    grep -q "$(printf '\033')\[3[0-9]m" out && fail "colours with NO_COLOR"
fi

# Where and how.
plot 0 ' 5.0$\| 5$' runs/a --x epoch
plot 0 ' 20:00' runs/a --x time
plot 0 ' 2 ┤\|^ *2\.0 ┤\| 2 ' runs/a --metric training_loss --log
plot 0 '' runs/a --metric training_loss --smooth 0.9
plot 2 'at least 0 and less than 1' runs/a --smooth 1
plot 2 'x: no choice is called stp. Nearest: step (allowed: step, epoch, time)' runs/a --x stp
plot 2 'width: 30 to 2000 characters, not 7' runs/a --width 7
plot 2 'height: 150 to 20000 pixels, not 7' runs/a --output a.svg --height 7
plot 2 'name a run' --log
plot 3 'no metric is called goood. Nearest: good; there is training_loss, epoch, validation_loss, good' \
    runs/a --metric goood
plot 3 'Nearest: loss' runs/a --metric los

# A picture: text that stands alone, however the run is called.
plot 0 '' runs --metric loss --output loss.svg
[ ! -s out ] || fail "not quiet"
head -n 1 loss.svg | grep -q '^<svg xmlns="http://www.w3.org/2000/svg" width="800"' || fail "head"
[ "$(tail -n 1 loss.svg)" = '</svg>' ] || fail "end"
[ "$(grep -c '<path class="curve".*<title>' loss.svg)" = 6 ] || fail "not six curves"
grep -q 'runs/&lt;&amp;&quot;&gt;' loss.svg || fail "not escaped"
grep -q 'prefers-color-scheme:dark' loss.svg || fail "not for dark pages"
grep -q 'href=\|<script\|<image\|url(' loss.svg && fail "something from outside"
if command -v xmllint >/dev/null; then
    xmllint --noout loss.svg || fail "no XML"
fi
# The gap where a value was no number: two pieces of a curve.
plot 0 '' runs/a --metric training_loss --output gap.svg
[ "$(grep -o '<path class="curve".* d="[^"]*"' gap.svg | grep -o M | wc -l)" = 2 ] || fail "no gap"
# Of very many points as many as there are pixels.
mkdir many
awk 'BEGIN { for (i = 1; i <= 50000; i++)
    printf "{\"step\":%d,\"loss\":%.4f}\n", i, 2 + sin(i * 1.7) }' >many/metrics.jsonl
plot 0 '' many --output many.svg
[ "$(wc -c <many.svg)" -lt 100000 ] || fail "$(wc -c <many.svg) bytes"
ln runs/a/metrics.jsonl linked.svg
plot 2 'choose a name in .svg or .png' runs/a --output a.gif
if command -v rsvg-convert >/dev/null; then
    plot 0 '' runs/a --output a.png
    [ "$(head -c 8 a.png | od -An -tx1 | tr -d ' \n')" = 89504e470d0a1a0a ] || fail "no PNG"
fi
# Where librsvg is not, that is said before any work.
mkdir no_programs
for round in missing not_executable; do
    code=0
    PATH=$PWD/no_programs "$etude" plot runs/a --output b.png 2>err || code=$?
    [ "$code" = 3 ] && grep -q 'a PNG needs rsvg-convert: apt install librsvg2-bin' err && [ ! -e b.png ] ||
        fail "$round: without librsvg: $code, $(cat err)"
    : >no_programs/rsvg-convert
done
plot 3 'are the same file' runs/a --output linked.svg
plot 3 'output' runs/a --output none/a.svg

# What is none, or damaged: said, and what there is is drawn.
plot 3 'empty: not a run, and no run below it' empty
plot 3 'none: ' none
plot 3 'metrics.jsonl: ' runs/a/metrics.jsonl
mkdir cut bad nothing
head -c 1000 runs/a/metrics.jsonl >cut/metrics.jsonl
{ head -n 9 runs/a/metrics.jsonl; head -c 500 "$etude"; cat runs/a/metrics.jsonl; } >bad/metrics.jsonl
: >nothing/metrics.jsonl
plot 0 'training loss' cut --metric training_loss
[ ! -s said ] || fail "a last line that is cut is no fault"
plot 0 'warning: bad/metrics.jsonl:10' bad --metric training_loss
plot 3 'nothing: the run has not logged anything yet' nothing
plot 3 'nothing was logged yet' nothing --metric loss
plot 0 'nothing logged no loss; left out' nothing runs/a --metric loss
mkdir nan
echo '{"step":1,"loss":null}' >nan/metrics.jsonl
plot 3 'nothing to draw: no value is a number$' nan
echo '{"step":1,"loss":-1}' >nan/metrics.jsonl
plot 3 'nothing to draw: no value is a number above 0' nan --log
plot 0 'loss' nan
echo '{"step":9000000000000000000,"loss":1e308}' >>nan/metrics.jsonl
echo '{"step":9223372036854775807,"loss":-1e308}' >>nan/metrics.jsonl
plot 0 'loss' nan
plot 0 '' nan --output nan.svg

# A reader that goes, a disk that is full.
"$etude" plot runs/a | true
got=0
"$etude" plot runs/a >/dev/full 2>said || got=$?
[ "$got" = 4 ] && grep -q 'standard output' said || fail "a full disk: $got"
