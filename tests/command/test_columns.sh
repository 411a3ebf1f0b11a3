#!/bin/sh
# test_columns.sh ETUDE: `train` and `data analyze` say the same about each column: how it is used,
# or why it is ignored. Codes keep all their digits, and dates are used even if all differ.
set -eu
. "$(dirname "$0")/command.sh"
export OMP_NUM_THREADS=1

train() {
    code=$1 text=$2
    shift 2
    says "$code" "$text" train --experiment tabular/mlp_small --target y "$@"
}
# The lines that follow "columns" of train, and those of data analyze, are the same.
same_lines() {
    "$etude" data analyze "$1" --target y --dry-run | sed '1,/^how training uses/d' >analyzed
    sed -n '/^columns /,/^model /p' out | sed '/^model /d; /^ *to use an ignored/d; s/^............. //; s/^columns *//' >trained
    tr -s ' ' <analyzed >analyzed.short
    tr -s ' ' <trained | sed 's/^ //' >trained.short
    diff analyzed.short trained.short >differ || fail "$1: $(cat differ)"
}
# The newest value of a key in a run's log, in thousandths.
value() {
    grep -o "\"$2\":[0-9.e+-]*" "$1/metrics.jsonl" | tail -1 | awk -F: '{ printf "%d", 1000 * $2 }'
}

# ---- a shop of many: those that come again are learned, an ID is not -----------------------------

awk 'BEGIN { srand(1); print "id,user,flat,size,shop,amount,y"
    for (i = 0; i < 600; i++) {
        shop = i % 5 ? i % 180 : 1000 + i
        printf "%d,user %d,7,%d,shop%d,%d %03d,%s\n", i + 1, i, i % 23, shop, 1 + i % 900, i, shop % 2 ? "no" : "yes"
    } }' >shops.csv
train 0 'amount  *integer  *number, standardized, clipped (written like 1,234.50)$' shops --data shops.csv --epochs 30
grep -q 'warning: column amount' out && fail 'a number with blanks is said to be suspicious'
tr -s ' ' <out >short
for line in 'id integer counts the rows: looks like an ID, ignored' \
    'user discrete 600 of 600 values differ: looks like an ID, ignored' 'flat integer constant: ignored' \
    'size integer number, standardized, clipped' 'shop discrete embedding of 264 values' 'y discrete the target'; do
    grep -q " $line\$" short || fail "no line: $line"
done
same_lines shops.csv
# What the hint says works.
grep -q 'to use an ignored ID column, add a feature of type hash to a copy of shops/features.yaml and train another run with --set task.features_path=COPY (doc/features.md)' out ||
    fail 'no cure for an ID'
sed 's/^  - name: "Y"/  - name: h\n    type: hash\n    fields: [user]\n    transform: {buckets: 500}\n&/' \
    shops/features.yaml >own.yaml
train 0 'user  *discrete  *embedding by hash$' hashed --data shops.csv --steps 3 --set task.features_path=own.yaml
grep -q 'flat  *integer  *ignored: no feature reads it' out || fail 'a features file: what it ignores is not said'

sed '1!s/,7,/,−7.5,/' shops.csv >minus.csv
train 0 'flat  *real  *constant: ignored' minus --data minus.csv --steps 3

# More than half of the shops differ: rare ones are one value, also when they are predicted.
awk 'BEGIN { print "shop,noise,y"
    for (i = 0; i < 600; i++) {
        shop = i < 400 ? i % 200 : 1000 + i
        printf "shop%d,%d.5,%s\n", shop, i * 7 % 31, i < 400 ? shop % 2 ? "no" : "yes" : "rare"
    } }' >rare.csv
train 0 'shop  *discrete  *embedding of 200 values with 2 rows or more, and one for all others (400 of 600 values differ)' \
    rare --data rare.csv --epochs 40
same_lines rare.csv
grep -q 'minimum_count: 2' rare/features.yaml || fail 'features.yaml does not say minimum_count'
[ "$(value rare validation_balanced_accuracy)" -gt 800 ] || fail "shops: $(value rare validation_balanced_accuracy)"
printf 'shop,noise\nshop-that-is-new,3\n' | "$etude" predict rare | grep -q '"label": "rare"' || fail 'a new shop is not as rare ones'
cp -r rare again
train 0 '^\(finished\|done\)' again --data rare.csv --epochs 40

# ---- dates -------------------------------------------------------------------------------------

awk 'BEGIN { print "when,y"; for (i = 0; i < 500; i++) {
    month = int(i * 12 / 500) + 1; day = i % 28 + 1
    printf "2021-%02d-%02dT%02d:%02d,%s\n", month, day, i * 7 % 24, i * 11 % 60, (month > 6) ? "late" : "early" } }' >dates.csv
train 0 'when  *discrete  *date, its parts' dates --data dates.csv --epochs 20
same_lines dates.csv
[ "$(value dates validation_accuracy)" = 1000 ] || fail "dates: $(value dates validation_accuracy)"
printf '{"when": "2021-02-03"}\n{"when": "2021-11-03T10:00:00Z"}\n' |
    "$etude" predict dates --input-format jsonl >predicted
[ "$(grep -o '"label": "[a-z]*"' predicted | tr '\n' ' ')" = '"label": "early" "label": "late" ' ] || fail "$(cat predicted)"
sed '7s/^[^,]*/soon/' dates.csv >soon.csv
train 3 'no column is useful about y: when (.*looks like an ID, ignored)' soon --data soon.csv
grep -q 'warning: column when: 499 of 500 values are dates, but not "soon" in soon.csv:7' out || fail 'soon'
train 0 'when  *discrete  *date, its parts; whether the value is missing' soon --data soon.csv --missing soon --steps 2

# ---- codes -------------------------------------------------------------------------------------

awk 'BEGIN { split("1234567890123456789 1234567890123456790 1234567890123456791 888888888888888888", long)
    split("3E5 300000 30E4 2E1", short); split("+493012345678 +493012345679 +49301234567 +4930123456", phone)
    print "account,code,phone,zip,card,x,y"
    for (i = 0; i < 600; i++)
        printf "%s,%s,%s,%s,%s,%d.5,%s\n", long[i % 4 + 1], short[i % 4 + 1], phone[i % 4 + 1], i % 3 ? 1067 + i % 4 : "01067",
            (i % 4 < 2) ? "401288888888188" (1 + i % 4) : "5", i % 13, i % 2 ? "no" : "yes" }' >codes.csv
train 0 'account  *discrete  *embedding of 4 values' codes --data codes.csv --steps 5
grep -q 'warning: column code: 450 of 600 values have an exponent, such as "3E5" .* read as texts; if they are numbers' out ||
    fail '3E5 is not said'
for name in code phone zip; do
    grep -q "$name  *discrete  *embedding of" out || fail "$name is no code"
done
grep -q 'warning: column card: 4012888888881881 and 4012888888881882 are too close to differ' out || fail 'card'
same_lines codes.csv
cut -d, -f1,7 codes.csv >account.csv
train 0 '^done' account --data account.csv --epochs 10
[ "$(value account validation_accuracy)" = 1000 ] || fail "account: $(value account validation_accuracy)"
says 0 'account  *600 of 600 values are integers too long for a number, such as "1234567890123456789" in account.csv:2' \
    data analyze account.csv --dry-run

# Labels that are one for a person.
sed '2,40s/yes$/YES/' account.csv >labels.csv
train 0 'warning: column y: "yes" (2[0-9]* rows) and "YES" (20 rows) differ only in case or blanks and are two classes' \
    labels --data labels.csv --steps 2
says 0 'y  *"yes" (2[0-9]* rows) and "YES" (20 rows) differ only' data analyze labels.csv --target y --dry-run

# ---- many columns ------------------------------------------------------------------------------

awk 'BEGIN { for (c = 0; c < 300; c++) printf "c%d,", c; print "y"
    for (i = 0; i < 60; i++) { for (c = 0; c < 300; c++) printf "%d,", (i * c) % 17; print i % 2 ? "a" : "b" } }' >wide.csv
train 0 'columns  *18 integer columns: constant: ignored (c0, c17, c34, c51, c68, c85, ...)' wide --data wide.csv --steps 2
grep -q '^  *2[0-9][0-9] integer columns: number, standardized, clipped (c1, c2, c3, c4, c5, c6, ...)' out || fail 'wide'
[ "$(sed -n '/^columns/,/^model/p' out | wc -l)" -lt 8 ] || fail 'too many lines'
same_lines wide.csv

# ---- columns that say the same -----------------------------------------------------------------

# twice has a number of its own for each row; code, cents, above and mark give the target away.
awk 'BEGIN { print "a,twice,b,cents,code,above,mark,y,label"
    for (i = 0; i < 400; i++) {
        a = i * 37 % 211 / 100; b = i * 7 % 5; y = a + b; label = y > 3 ? "big" : y > 1 ? "mid" : "small"
        printf "%.2f,%.2f,%d,%d,%s,%.2f,%s,%.2f,%s\n", a, a, b, 100 * y + 3, substr(label, 1, 1), y, label, y, label
    } }' >leak.csv
train 0 'warning: column twice: is equal to the column a in all 400 rows: it adds nothing' leak --data leak.csv --steps 2
grep -q 'warning: column cents: is a linear function of the target y in all 400 rows' out || fail 'no line'
grep -q 'warning: column above: is equal to the target y in all 400 rows: .* this is a leak' out || fail 'no copy'
[ "$(grep -c 'warning: column .* target' out)" = 2 ] || fail 'more columns than two'
cut -d, -f1-7,9 leak.csv | sed '1s/label/y/' >labels.csv
train 0 'warning: column above: alone separates the values of the target y in all 400 rows' leaks --data labels.csv --steps 2
for name in code mark; do
    grep -q "warning: column $name: .* the target y in all 400 rows" out || fail "no line for $name"
done
! grep -q 'warning: column [ab]:' out || fail 'a column that only helps'
grep -q 'warning: column mark: is equal to the target' out || fail 'mark'
# A column that the model does not read gives nothing away.
train 0 '^done' groups --data labels.csv --id mark --group code --steps 2
! grep -q 'warning: column \(mark\|code\):' out || fail 'a column that is not read'
says 0 'above  *alone separates the values of the target y' data analyze labels.csv --target y
# Some hundred of many rows are no reason to say so of all.
awk 'NR > 1 && NR < 5 { next } { print } NR > 1 { for (k = 0; k < 30; k++) print }' leak.csv >long.csv
train 0 'column twice: is equal to the column a in the first 10,000 rows' long --data long.csv --steps 2
{ cat long.csv; echo '1,2,3,4,m,2,mid,2,mid'; } >longer.csv
says 0 '^done' train longer --experiment tabular/mlp_small --target y --data longer.csv --steps 2
! grep -q 'column twice:' out || fail 'the last row differs'

# A target that is one number has nothing to learn; it is no error, as in scikit-learn.
awk 'BEGIN { print "x,y"; for (i = 0; i < 100; i++) print i * 37 % 101 ",3.5" }' >flat.csv
train 0 'warning: column y: the target is 3.5 in every row: there is nothing to learn' flat --data flat.csv --steps 2
# Two decimal marks in one column.
awk 'BEGIN { print "x,y"; for (i = 0; i < 100; i++) print "\"" i % 7 (i % 2 ? "." : ",") i % 3 "\"," i % 7 }' >marks.csv
train 0 'warning: column x: 50 of 100 values are numbers with a decimal comma, where others have a point, such as "0,0" in marks.csv:2: to have numbers, write the same decimal mark in all rows$' \
    marks --data marks.csv --steps 2
# Numbers of which no value shows the decimal mark.
awk 'BEGIN { print "x;z;y"; for (i = 0; i < 100; i++) printf "%d,%03d;%d,5;%d\n", i % 7 + 1, i * 37 % 1000, i % 9, i % 7 }' >comma.csv
train 0 'warning: column x: no value shows the decimal mark: "1,000" in comma.csv:2 is read as 1, as other columns have a decimal comma; if it means 1000, write `notation: point`' \
    comma --data comma.csv --steps 2
sed 's/;[0-9]*,5;/;1;/' comma.csv >point.csv
train 0 'warning: column x: no value shows the decimal mark: "1,000" in point.csv:2 is read as 1000; if it means 1, write `notation: comma`' \
    point --data point.csv --steps 2
# Durations below a day are written like times of day.
awk 'BEGIN { print "x,y"; for (i = 0; i < 100; i++) printf "%d:%02d,%d\n", i % 7, i % 60, i % 7 }' >times.csv
train 0 '^columns *x  *discrete  *time of day, its parts (durations: write them as numbers)$' times --data times.csv --steps 2
awk 'BEGIN { print "x,y"; for (i = 0; i < 100; i++) printf "%d:%02d,%d\n", 24 - i % 9, i % 5, i % 7 }' >long_times.csv
train 0 'column x: its texts are durations, such as "24:00": to have numbers, write them in one unit, such as minutes$' \
    long_times --data long_times.csv --steps 2

# ---- without a run -----------------------------------------------------------------------------

# --dry-run works in a temporary folder, and names the one that training would make.
for experiment in mlp auto; do
    set -- train later/run --experiment tabular/$experiment --data shops.csv --target y --dry-run
    says 0 '^features .*(later/run/features.yaml' "$@"
    grep -q 'to a copy of later/run/features.yaml and train' out || fail "no hint: $*"
    ! grep -q etude-dry-run out || fail "a temporary folder: $*"
done
says 0 '(RUN/features.yaml' train --data shops.csv --target y --dry-run
echo 'columns: said alike by train and data analyze'
