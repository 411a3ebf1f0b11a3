#!/bin/sh
# test_keep.sh ETUDE: columns that predictions carry: --id of training, --keep of predict.
set -eu
. "$(dirname "$0")/command.sh"

# The ID tells the class: a model that reads it would be right about rows with it alone.
awk 'BEGIN {
    print "name,long,label,note"
    for (i = 0; i < 400; i++)
        printf("%03d,%d,%s,n-%d\n", i, i * 37 % 100, i * 37 % 100 > 50 ? "yes" : "no", i % 3)
}' >train.csv
says 0 'columns  *name .*key of predictions' train run --data train.csv --target label --id name --steps 60
grep -q 'type: key' run/features.yaml || fail "features: $(cat run/features.yaml)"

# The ID is no number of the row: its zeros stay. Rows may lack it.
head -3 train.csv >rows.csv
"$etude" predict run <rows.csv >out
[ "$(cut -d, -f2 out | tr '\n' ' ')" = ' "name": "000"  "name": "001" ' ] || fail "--id: $(cat out)"
cut -d, -f2,4 rows.csv >less.csv
"$etude" predict run <less.csv >got
grep -q '"name": null' got || fail "no ID: $(cat got)"
sed 's/"name": "[0-9]*"/"name": null/' out | cmp - got || fail "an ID changes a prediction"

# Kept columns come first, as they are given, whether the model knows them or not.
awk 'NR == 1 { print $0 ",extra"; next } { print $0 "," (NR == 2 ? "\"say \"\"a, b\"\"\"" : "NA") }' \
    rows.csv >more.csv
"$etude" predict run --keep 'extra,long' --keep name <more.csv >out
sed -n 1p out | grep -q '^{"extra": "say \\"a, b\\"", "long": "0", "name": "000", "label": "[a-z]*", "scores": {"no": [^}]*}}$' ||
    fail "--keep: $(cat out)"
sed -n 2p out | grep -q '^{"extra": null, "long": "37", ' || fail "a missing value: $(cat out)"
"$etude" predict run --keep extra,long --output-format csv <more.csv >out
[ "$(sed -n 1p out)" = 'extra,long,label,name,scores.no,scores.yes' ] || fail "CSV: $(cat out)"
sed -n 2p out | grep -q '^"say ""a, b""",0,' || fail "CSV: $(cat out)"
sed -n 3p out | grep -q '^,37,' || fail "CSV: $(cat out)"

# A name with a comma is quoted as in CSV.
printf '"a, b",long,note\nx,1,\n' | "$etude" predict run --keep '"a, b",long' >out 2>log || fail "$(cat log)"
grep -q '^{"a, b": "x", "long": "1", ' out || fail "a name with a comma: $(cat out)"

# A name of the prediction's own is said.
"$etude" predict run --keep label <rows.csv >out 2>log
grep -q 'warning: predictions have their own label: the column label of the rows is input.label' log || fail "$(cat log)"
grep -q '^{"input.label": "no", "label": "' out || fail "its own name: $(cat out)"
printf 'scores.no,scores,long,note\n1,2,3,\n' >scores.csv
"$etude" predict run --keep scores.no --output-format csv <scores.csv >out 2>log
[ "$(sed -n 1p out)" = 'input.scores.no,label,name,scores.no,scores.yes' ] || fail "its own names of CSV: $(cat out log)"
"$etude" predict run --keep scores.no <scores.csv 2>&1 | grep -q '^{"scores.no": "1", "label": ' || fail 'scores.no is no name of JSON'

# JSON values are as they were. Threads change nothing.
printf '{"long": 3, "note": null, "extra": %s}\n' 1.10 123456789012345678901 '"a, \"b\""' true '[1, {"a": 2}]' null >rows.jsonl
printf '{"long": 3}\n' >>rows.jsonl
"$etude" predict run --input rows.jsonl --keep extra >out 2>log
sed 's/^{"extra": //; s/, "label".*//' out >got
printf '%s\n' 1.10 123456789012345678901 '"a, \"b\""' true '[1,{"a":2}]' null null | cmp - got || fail "JSON: $(cat got)"
grep -q 'no row has' log && fail "a row has it: $(cat log)"
"$etude" predict run --input rows.jsonl --keep extra --output-format csv >out 2>log
sed -n 2p out | grep -q '^1.10,' && sed -n 4p out | grep -q '^"a, ""b""",' || fail "JSON as CSV: $(cat out)"
for threads in 1 3; do
    OMP_NUM_THREADS=$threads "$etude" predict run --keep extra --batch-size 1 <more.csv >got.$threads
done
cmp got.1 got.3 || fail "threads"

# Without a header, names are the schema's.
tail -n +2 rows.csv | "$etude" predict run --keep note,name >out
grep -q '^{"note": "n-0", "name": "000", ' out || fail "no header: $(cat out)"
tail -n +2 rows.csv >bare.csv
says 3 'have no header, and the model knows no column extra' predict run bare.csv --keep extra

# Mistakes.
says 3 'more.csv:1: there is no column extr to keep. Nearest: extra' predict run more.csv --keep extr
says 2 '--keep: name is given twice' predict run more.csv --keep name --keep name
says 2 '--keep: a name is empty' predict run more.csv --keep name,,long
says 0 'warning: --keep extr: no row has this column' predict run rows.jsonl --keep extr
says 3 'the table has no column nam for the ID. Nearest: name' train bad --data train.csv --target label --id nam
says 3 'the column label is both the target and the ID' train bad --data train.csv --target label --id label
says 3 'with task.id: name, but now it is note' train run --data train.csv --target label --id note --steps 80
echo "columns of rows stand in predictions"
