#!/bin/sh
# test_faces.sh LIBRARY CC ETUDE: compiles and runs the programs in the heads of orbit.h,
# modelgarden.h, tfsnippet.h and tensorfx.h, and those of their pages in doc/. A program begins with
# `#include <stdio.h>`. In a head it ends at the next such line or at the end of the head, and text
# between its parts is left out; on a page it ends at the next text. The first program of a page is
# equal to the first one of the header. Code in the right column of a page's tables is also in a
# program of the page or of the header.
set -eu
library=$1 cc=$2 etude=$3
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d "$PWD/faces.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
OMP_NUM_THREADS=1
export OMP_NUM_THREADS

fail() {
    echo "test_faces: $*" >&2
    exit 1
}

# programs FILE NAME: its programs, NAME-1.c, NAME-2.c, ... Code stands four blanks from the margin.
programs() {
    awk -v name="$2" '
        FILENAME ~ /\.h$/ {
            if (/^#ifndef/) exit
            sub(/^.\*? ?/, "")
            sub(/ *\*\/$/, "")
        }
        /^    #include <stdio.h>$/ { close(file); file = name "-" ++count ".c" }
        /^    / && file { print blank substr($0, 5) >file; blank = ""; next }
        /^$/ && file { blank = "\n" }
        /^[^ ]/ && FILENAME ~ /\.md$/ { file = "" }
        END { exit count == 0 }' "$1" || fail "$1 has no program"
}
# build NAME: each program, with the flags that strict users have.
build() {
    for program in "$1"-[0-9].c; do
        "$cc" -std=c17 -Wall -Wextra -Werror -pedantic "-I$source/include" "$program" \
            -o "${program%.c}" -L"$(dirname "$library")" -letude -Wl,-rpath,"$(dirname "$library")" ||
            fail "$program does not compile"
    done
}
# run NAME NUMBER: what it prints is in log.
run() {
    "./$1-$2" >log 2>&1 || fail "$1-$2: exit $?: $(tail -3 log)"
}
# page NAME: its programs and tables.
page() {
    programs "$source/doc/$1.md" "page_$1"
    diff "$1-1.c" "page_$1-1.c" >log || fail "doc/$1.md: not the header's program: $(head -5 log)"
    build "page_$1"
    # Cells of two columns: | `theirs` | `ours` |, several pieces of code in one cell.
    cat "$1"-*.c "page_$1"-*.c | tr -s ' \n' ' ' >code
    grep '^| ' "$source/doc/$1.md" | sed 's/^| \(.*[^\\]\) | \(.*\) |$/\2/' | grep -o '`[^`]*`' |
        tr -d '`' | while IFS= read -r ours; do
        grep -qF -e "$ours" code || echo "$ours"
    done >missing
    [ ! -s missing ] || fail "doc/$1.md: in no program: $(cat missing)"
}

for name in orbit modelgarden tfsnippet tensorfx; do
    programs "$source/include/etude/$name.h" "$name"
    build "$name"
    page "$name"
done

# orbit: the second run begins at step 50 and has nothing to do.
for pass in first second; do
    run orbit 1
    grep -q '^step 50: w = 2.98$' log || fail "orbit, $pass: $(cat log)"
    [ "$(grep -c '"loss"' runs/my/metrics.jsonl)" = 5 ] || fail "orbit, $pass: not 5 logs"
done
run orbit 2
printf 'my_module/matmul_2\nmy_module/w\nb\nc\n' | cmp -s - log || fail "modules: $(cat log)"

# tfsnippet: ten epochs, each with its logs; it learns, and the best step comes back.
run tfsnippet 1
grep -q '^\[Epoch 10/10, Step 250, ETA 0s\] .*valid time: .*; loss: .*; valid loss: ' log ||
    fail "tfsnippet: $(tail -3 log)"
sed -n 's/.*valid loss: \([0-9.]*\).*/\1/p' log |
    awk 'NR == 1 { first = $1 } END { exit !(NR == 10 && $1 < 0.9 * first) }' ||
    fail "tfsnippet has not learned: $(cat log)"

# tensorfx: three kinds of flowers, as separate as the example's row says.
awk 'BEGIN { print "a,b,c,d,species"
    split("setosa versicolor virginica", kind, " ")
    for (i = 0; i < 150; i++) {
        k = i % 3
        printf "%.2f,%.2f,%.2f,%.2f,%s\n", 5 + 0.6 * k + i * 7 % 10 / 20, 3.4 - 0.3 * k + i * 3 % 10 / 20,
            1.4 + 2 * k + i * 11 % 10 / 15, 0.2 + 0.8 * k + i * 13 % 10 / 25, kind[k + 1]
    } }' >all.csv
head -n 121 all.csv >train.csv
{ head -n 1 all.csv; tail -n 30 all.csv; } >eval.csv
"$etude" data analyze train.csv --target species --output . >log 2>&1 || fail "$(cat log)"
sed -n 's/^    \(features: .*\)/\1/p' "$source/doc/tensorfx.md" >features.yaml
run tensorfx 1
grep -qx setosa log || fail "tensorfx: $(cat log)"
if "$etude" keys keys >log 2>&1; then # a build with ZeroMQ: only the master of a cluster has a model
    rm -r jobs
    "$etude" tfx train --module ./tensorfx-1 --distributed --max-steps 60 >log 2>&1 || fail "a cluster: $(cat log)"
    [ "$(grep -cx '[sv][a-z]*' log)" = 1 ] || fail "a cluster: $(cat log)"
    ! grep 'ended by signal' log || fail "a cluster: a task crashed"
fi
./tensorfx-1 --help >log 2>&1 || fail "tensorfx --help: exit $?"
grep -q -e '--max-steps' log || fail "tensorfx --help: $(cat log)"
./tensorfx-1 --max-steps 0x >log 2>&1 && fail "a flag that is no number"
grep -q -e '--max-steps.*0x' log || fail "not told which flag: $(cat log)"

# modelgarden: translates words by words, with a smaller model and fewer steps than the program says; the
# run is one of the command, whose own training with these settings has the same bytes.
awk 'BEGIN {
    split("red dog house runs blue cat tree sleeps", en, " ")
    split("rot hund haus rennt blau katze baum schlaeft", de, " ")
    for (i = 0; i < 420; i++) {
        a = b = ""
        for (k = 0; k <= i * 7 % 4; k++) {
            word = 1 + (i * 5 + k * (1 + int(i / 16) % 7) + int(i / 8)) % 8
            a = a (k ? " " : "") en[word]
            b = b (k ? " " : "") de[word]
        }
        side = i < 400 ? "train" : "valid"
        print a >(side ".en")
        print b >(side ".de")
    } }'
small='task.train_data.global_batch_size=512,task.vocabulary.size=39,task.model.encoder.num_layers=1,task.model.decoder.num_layers=1,trainer.optimizer_config.learning_rate.inverse_sqrt.warmup_steps=50,task.model.dropout_rate=0,task.model.encoder.dropout_rate=0,task.model.decoder.dropout_rate=0'
sed -i "s/trainer.train_steps=2000,trainer.validation_interval=500/trainer.train_steps=600,trainer.validation_interval=300,$small/" \
    modelgarden-1.c
grep -q 'train_steps=600,' modelgarden-1.c || fail "modelgarden: no such settings"
build modelgarden
run modelgarden 1
grep -qx 'rot hund' log || fail "modelgarden: $(cat log)"
[ "$(echo 'red dog' | "$etude" translate runs/help 2>log)" = 'rot hund' ] || fail "the command: $(cat log)"
grep -q sacrebleu_score runs/help/metrics.jsonl || fail "not validated"
"$etude" train runs/command --experiment translation/tiny --quiet --set \
    "task.train_data.source_path=train.en,task.train_data.target_path=train.de,task.validation_data.source_path=valid.en,task.validation_data.target_path=valid.de,trainer.train_steps=600,trainer.validation_interval=300,$small" \
    >log 2>&1 || fail "train: $(cat log)"
cmp runs/help/checkpoints/ckpt-600.safetensors runs/command/checkpoints/ckpt-600.safetensors ||
    fail "the program and the command give different bytes"
cmp runs/help/params.yaml runs/command/params.yaml || fail "other settings"

# By two ranks, with a communicator that each opens: the bytes of one process of the command.
few="$small,runtime.data_shards=2"
sed "s/trainer.train_steps=600/trainer.train_steps=20/; s/trainer.validation_interval=300/trainer.validation_interval=10/
    s/warmup_steps=50/&,runtime.data_shards=2/; s/et_task_context context = { .model_dir = model_dir };/et_comm *comm = NULL;\\
    if (et_comm_open(\&comm, NULL, error))\\
        return error->status;\\
    et_task_context context = { .model_dir = model_dir, .comm = comm };/
    s/^    et_device_close.*/&\\
    et_comm_close(comm);/" modelgarden-1.c >ranks-1.c
build ranks
rm -rf runs/help
"$etude" launch -n 2 -- ./ranks-1 >log 2>&1 || fail "two ranks: $(cat log)"
"$etude" train runs/ranks --experiment translation/tiny --quiet --set \
    "task.train_data.source_path=train.en,task.train_data.target_path=train.de,task.validation_data.source_path=valid.en,task.validation_data.target_path=valid.de,trainer.train_steps=20,trainer.validation_interval=10,$few" \
    >log 2>&1 || fail "train: $(cat log)"
cmp runs/help/checkpoints/ckpt-20.safetensors runs/ranks/checkpoints/ckpt-20.safetensors ||
    fail "two ranks and the command give different bytes"
sed -i 's/runtime.data_shards=2/&,runtime.sharded_optimizer=true/' ranks-1.c
build ranks
"$etude" launch -n 2 -- ./ranks-1 >log 2>&1 && fail "a setting of ranks that are open"
grep -q 'runtime.sharded_optimizer has no effect on ranks that are open' log || fail "ranks: $(cat log)"
run page_modelgarden 2
awk '$1 == "accuracy:" && $2 > 0.9 { good = 1 } END { exit !good }' log || fail "page_modelgarden: $(cat log)"
echo "programs of four headers and pages"
