#!/bin/sh
# test_copies.sh ETUDE: scores of tables that say less than they seem to: rows that are learned and
# scored, probabilities that class weights spoil.
set -eu
. "$(dirname "$0")/command.sh"
export OMP_NUM_THREADS=1

# ---- copies of rows ----------------------------------------------------------------------------

# rows FIRST LAST COPIES FILE: distinct rows, each so many times with another ID.
rows() {
    awk -v first="$1" -v last="$2" -v copies="$3" 'BEGIN {
        print "id,a,b,y"
        for (k = 0; k < copies; k++) for (i = first; i <= last; i++)
            printf "r%d,%.3f,%.3f,%s\n", ++n, sin(i * 7) * 10, cos(i * 3) * 10,
                i * i % 7 < 3 ? "no" : "yes"
    }' >"$4"
}
rows 1 100 3 copied.csv
rows 1 300 1 distinct.csv
rows 301 400 1 new.csv
awk 'NR == 1 { print $0 ",who"; next } { print $0 ",w" NR % 19 }' copied.csv >grouped.csv
(cat new.csv && sed 1d distinct.csv | head -n 50) >mixed.csv
sed 1d distinct.csv | sort -r | cat distinct.csv - | sed '2,301d' >shuffled.csv

# table TEXT ARGUMENT...: TEXT is in one warning; empty: no warning of copies.
table() {
    expected=$1
    shift
    rm -rf run
    says 0 '^done ' train run --experiment tabular/linear --target y --epochs 1 "$@"
    if [ -n "$expected" ]; then
        [ "$(grep -c "warning: $expected" out)" = 1 ] || fail "$*: not said once: $expected"
    else
        ! grep -q 'training rows\|training data' out || fail "$*: warns of copies"
    fi
}
table '' --data distinct.csv
table '' --data distinct.csv --folds 3
table '' --data distinct.csv --valid new.csv
table '[0-9]* of the 45 held-out rows are also training rows, .* remove the copies, or keep them together with --group' \
    --data copied.csv
table '[0-9]* of the [0-9]* held-out rows are also training rows, .*; remove the copies$' --data grouped.csv --group who
table '[0-9]* of the 300 rows that folds hold out are also training rows' --data copied.csv --folds 3
table '[0-9]* of the 300 rows that folds hold out are also training rows' --data grouped.csv --folds 4 --group who
table '50 of the 150 rows of mixed.csv are also training rows' --data distinct.csv --valid mixed.csv
table '300 of the 300 rows of shuffled.csv are also training rows' --data distinct.csv --valid shuffled.csv
table 'the validation data (rows of distinct.csv) are the training data' --data distinct.csv --valid distinct.csv
sed 's/yes$/no/' mixed.csv >other.csv
table '50 of the 150 rows of other.csv are also training rows ([0-9]* of them with another target)' \
    --data distinct.csv --valid other.csv
# Few columns with few values agree by chance.
awk 'BEGIN { print "a,b,y"; for (i = 0; i < 300; i++) printf "%s,%s,%s\n", i % 3, i * 7 % 11 % 4, i % 5 % 2 }' >few.csv
table '' --data few.csv
# Copies are no chance, even if all other columns have few values.
awk 'BEGIN { print "a,c,y"; for (k = 0; k < 3; k++) for (i = 0; i < 200; i++)
    printf "%.4f,%s,%s\n", sin(i * 7) * 10, i % 5, i * i % 7 < 3 ? "no" : "yes" }' >narrow.csv
table '[0-9]* of the 90 held-out rows are also training rows' --data narrow.csv
says 0 '(rows) .*400 of all 600 rows are copies of another row' data analyze narrow.csv --target y
# Different texts are no copies, although the model reads most of them as one rare text.
awk 'function r(n) { s = (s * 69069 + 12345) % 16777216; return int(s / 16777216 * n) }
    BEGIN { s = 1; print "name,b,c,d,y"; for (i = 0; i < 1500; i++)
    printf "n%d,%d,%d,%d,%s\n", r(2000), r(3), r(2), r(5), r(2) ? "no" : "yes" }' >names.csv
table '' --data names.csv
(cat names.csv && sed 1d names.csv | head -n 500) >copied_names.csv
table '[67][0-9][0-9] of the 2,000 rows that folds hold out are also training rows' --data copied_names.csv --folds 3
# Equal numbers with different targets are no copies.
awk 'BEGIN { print "a,y"; for (i = 0; i < 300; i++) printf "%.1f,%s\n", i * 37 % 101 / 10, i * i % 7 < 3 ? "no" : "yes" }' >one.csv
table '' --data one.csv

# An evaluation compares its rows with the training files while these exist.
table '' --data distinct.csv
says 0 'warning: 50 of the 150 rows of mixed.csv are also training rows' evaluate run mixed.csv
says 0 'warning: 50 of the [0-9]* rows of new.csv and 1 other file are also training rows' evaluate run new.csv mixed.csv
says 0 'warning: the rows of distinct.csv are the training data' evaluate run distinct.csv
tells 0 '^accuracy' evaluate run new.csv
! grep -q 'warning: .*training' said || fail 'warns of new rows'
mv distinct.csv gone.csv
tells 0 '^accuracy' evaluate run mixed.csv
! grep -q 'warning: .*training' said || fail 'warns without training files'
says 0 '(rows) .*200 of all 300 rows are copies of another row' data analyze copied.csv --target y
says 0 'rows of' data analyze gone.csv --target y
! grep -q 'copies' out || fail 'finds copies of distinct rows'

# ---- class weights -----------------------------------------------------------------------------

awk 'BEGIN { print "a,b,y"; for (i = 0; i < 600; i++)
    printf "%.3f,%.3f,%s\n", sin(i * 7) + (i % 30 == 0), cos(i * 3), i % 30 ? "ok" : "fraud" }' >rare.csv
says 0 'warning: class weights make probabilities too high' train weighted \
    --experiment tabular/linear --target y --data rare.csv --epochs 5 --folds 3 \
    --set 'task.class_weights=[balanced]'
tells 0 'warning: the model was trained with class weights' evaluate weighted --json
# The calibration error is that of the curve of the positive class, which has too high probabilities.
awk '{ gsub(/[{}\[\],]/, "\n"); print }' out | awk -F: '
    $1 ~ /"validation_calibration_error"/ { error = $2 }
    $1 ~ /"probability"/ { p = $2 }
    $1 ~ /"fraction"/ { f = $2 }
    $1 ~ /"rows"/ { sum += $2 * (p > f ? p - f : f - p); rows += $2 }
    END { d = error - sum / rows; exit !(rows == 600 && error > 0.1 && d < 1e-6 && d > -1e-6) }' ||
    fail 'the calibration error is not that of the curve'
says 0 '^done ' train plain --experiment tabular/linear --target y --data rare.csv --epochs 5
! grep -q 'class weights' out || fail 'warns of class weights that are not set'
# Equal weights distort nothing.
awk 'NR == 1 || NR % 30 == 2 || NR % 30 == 3' rare.csv >even.csv
for given in balanced fraud:2,ok:2; do
    rm -rf even
    says 0 '^done ' train even --experiment tabular/linear --target y --data even.csv --epochs 2 --class-weights "$given"
    ! grep -q 'class weights' out || fail "warns of equal class weights: $given"
    tells 0 '^accuracy' evaluate even
    ! grep -q 'class weights' said || fail "evaluate warns of equal class weights: $given"
done
