#!/bin/sh
# test_evaluate_table.sh ETUDE: `evaluate` of a table: the confusion matrix and lines of classes
# agree with the predictions of `predict`; --threshold, --costs, charts, pictures, sets, numbers.
set -eu
. "$(dirname "$0")/command.sh"

says 0 '^    evaluate   evaluate a trained model$' --help
says 0 '^    export     export a trained model$' --help

# table FIRST COUNT CLASSES: noisy classes by one number.
table() {
    awk -v first="$1" -v count="$2" -v classes="$3" 'BEGIN {
        split(classes, name, " "); kinds = split(classes, name, " ")
        print "long,wide,kind"
        for (i = first; i < first + count; i++) {
            x = i * 37 % 101; noise = i * i * 13 % 41 - 20
            k = int((x + noise + 20) / 141 * kinds) + 1
            printf("%d,%d,%s\n", x, i * 53 % 97, name[k])
        }
    }'
}
table 0 600 'no yes' >train.csv
table 1000 300 'no yes' >new.csv
says 0 "^done " train run --data train.csv --target kind --steps 80

# What predict says is what evaluate counts.
"$etude" predict run --input new.csv --keep kind --output-format csv >predicted
count() { # TRUE PREDICTED
    awk -F, -v t="$1" -v y="$2" 'NR > 1 && $1 == t && $2 == y { n++ } END { print n + 0 }' predicted
}
"$etude" evaluate run new.csv -q >out || fail "evaluate"
grep -q '^positive class  *yes$' out || fail "no positive class: $(cat out)"
grep -q '^ *yes  *no$' out || fail "order of classes: $(cat out)"
grep -q "^no  *$(count no yes)  *$(count no no)$" out && grep -q "^yes  *$(count yes yes)  *$(count yes no)$" out ||
    fail "confusion: $(cat out)"
awk -v nn="$(count no no)" -v ny="$(count no yes)" -v yn="$(count yes no)" -v yy="$(count yes yes)" '
    $1 == "class" { on = 1; next }
    on && $1 == "yes" { p = yy / (yy + ny); r = yy / (yy + yn); f = 2 * p * r / (p + r)
        right = ($2 - p) ^ 2 + ($3 - r) ^ 2 + ($4 - f) ^ 2 < 3e-8 && $5 == yn + yy }
    END { exit !right }' out || fail "line of a class: $(cat out)"

# A threshold moves rows to one side, and predict has their scores.
"$etude" evaluate run new.csv -q --threshold 0.2 >out
[ "$(head -1 predicted)" = kind,label,scores.yes,scores.no ] || fail "head: $(head -1 predicted)"
wanted=$(awk -F, 'NR > 1 && $1 == "no" && $3 >= 0.2 { n++ } END { print n + 0 }' predicted)
grep -q '^threshold  *0.2$' out || fail "--threshold: $(cat out)"
grep -q "^no  *$wanted  *$(($(count no no) + $(count no yes) - wanted))$" out || fail "--threshold: $(cat out)"
# A cost of 4 for a missed yes is a threshold of 1 / 5.
"$etude" evaluate run new.csv -q --costs yes:no=4 >got
grep '^\(no\|yes\) ' out >want
grep '^\(no\|yes\) ' got | cmp - want || fail "--costs: $(cat got)"
missed=$(sed -n 's/^yes  *[0-9]*  *\([0-9]*\)$/\1/p' got)
awk -v missed="$missed" -v wrong="$wanted" '$1 == "cost" { d = $4 - (4 * missed + wrong) / 300; ok = d * d < 1e-10 }
    END { exit !ok }' got || fail "cost per row: $(cat got)"

# predict decides as evaluate counts; scores stay as they are.
decided() { # EXPECTED-CONFUSION OPTION VALUE
    "$etude" predict run --input new.csv --keep kind --output-format csv "$2" "$3" >decided ||
        fail "predict $2"
    awk -F, 'NR > 1 { n[$1 " " $2]++ } END {
        print "yes", n["yes yes"] + 0, n["yes no"] + 0; print "no", n["no yes"] + 0, n["no no"] + 0 }' decided >counted
    sed -n 's/^\(no\|yes\)  *\([0-9]*\)  *\([0-9]*\)$/\1 \2 \3/p' "$1" | sort -r >counts
    cmp counts counted || fail "predict $2 $3: $(cat counts counted)"
    cut -d, -f1,3- decided >scores
    cut -d, -f1,3- predicted | cmp - scores || fail "predict $2 changes scores"
}
decided out --threshold 0.2
decided got --costs yes:no=4
OMP_NUM_THREADS=3 "$etude" predict run --input new.csv --costs yes:no=4 --batch-size 7 >several
"$etude" predict run --input new.csv --costs yes:no=4 | cmp - several || fail 'threads decide otherwise'

# JSON has all of it.
"$etude" evaluate run new.csv -q --json >got.json
grep -q '"positive": "yes"' got.json && grep -q '"labels": *\[' got.json && grep -q '"support"' got.json &&
    grep -q '"calibration"' got.json || fail "--json: $(cat got.json)"

# Charts and pictures.
"$etude" evaluate run new.csv -q --charts --roc roc.svg --calibration calibration.svg >out
grep -q 'yes (AUC 0' out && grep -q 'probability' out || fail "--charts: $(cat out)"
grep -q '<svg' roc.svg && grep -q 'AUC' roc.svg && grep -q '<svg' calibration.svg || fail "pictures"
auc=$(sed -n 's/^auc  *//p' out) drawn=$(sed -n 's/.*yes (AUC \(0[.0-9]*\)).*/\1/p' out)
awk -v a="$auc" -v b="$drawn" 'BEGIN { exit (a - b) ^ 2 > 1e-8 }' || fail "AUC $auc, drawn $drawn"
says 2 '--roc new.csv: choose a name in .svg or .png' evaluate run new.csv --roc new.csv
says 2 'not possible with --json' evaluate run new.csv --json --charts

# Several sets: tables of each.
"$etude" evaluate run -q --set 'task.validation_data.sets=[{name: a, input_path: new.csv}, {name: b, input_path: train.csv}]' >out
grep -q '^confusion matrix (rows: class, columns: prediction) of a:' out && grep -q '^classes of b:' out || fail "sets: $(cat out)"

# Many classes: the mistakes that are most frequent.
names=$(awk 'BEGIN { for (i = 10; i < 30; i++) printf("c%d ", i) }')
table 0 2000 "$names" >many.csv
says 0 "^done " train many --data many.csv --target kind --steps 40
"$etude" evaluate many many.csv -q >out
grep -q '^most frequent mistakes:' out && grep -q 'more kinds of mistakes; --json has the whole matrix' out || fail "many: $(cat out)"
says 2 '--threshold is for two classes, but kind has 20' evaluate many many.csv --threshold 0.5
says 2 '--threshold is for two classes, but kind has 20' predict many --input many.csv --threshold 0.5
says 0 '"label": "c29"' predict many --input many.csv --costs "$(for i in $(seq 10 28); do printf 'c29:c%d=1000,' $i; done | sed 's/,$//')"

# Mistakes.
says 2 'not both' predict run --input new.csv --threshold 0.5 --costs yes:no=3
says 2 '--costs yes:maybe=3: write CLASS:PREDICTION=COST with classes of kind' predict run --input new.csv --costs yes:maybe=3
says 2 'not both' evaluate run new.csv --threshold 0.5 --costs yes:no=3
says 2 '--costs yes:maybe=3: write CLASS:PREDICTION=COST' evaluate run new.csv --costs yes:maybe=3
says 2 '--costs yes:no=-1: give a finite cost' evaluate run new.csv --costs yes:no=-1
awk 'BEGIN { print "x,kind"; for (i = 0; i < 40; i++) printf "%d,\"%s\"\n", i * i % 23, (i % 4 > 1 ? "a, b" : "c") }' >comma.csv
says 0 '^done' train comma --experiment tabular/linear --data comma.csv --target kind --steps 1
says 2 'such as .*=5, in double quotes if it has a comma: .*"a,b:c=5"' predict comma --input comma.csv --costs 'a, b:c=3'
says 0 '"label": "a, b"' predict comma --input comma.csv --costs '"a, b:c=1e6"'
says 2 '--costs yes:no=2: this cost is given twice' predict run new.csv --costs yes:no=3,no:yes=1,yes:no=2
says 2 'threshold' evaluate run new.csv --threshold 1.5

# Numbers have their scores alone.
cut -d, -f1,2 train.csv >numbers.csv
says 0 "^done " train numbers --data numbers.csv --target wide --steps 20
"$etude" evaluate numbers numbers.csv -q >out
grep -q '^rmse ' out && ! grep -q confusion out || fail "numbers: $(cat out)"
says 2 'the target wide is a number' evaluate numbers numbers.csv --charts
echo "tables of classes agree with predictions"
