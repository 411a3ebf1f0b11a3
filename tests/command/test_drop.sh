#!/bin/sh
# test_drop.sh ETUDE: --drop and --features choose the columns that are inputs, in train, tune and
# data analyze; predictions need no dropped column; wrong names and uses are refused; warnings name
# the option.
set -eu
. "$(dirname "$0")/command.sh"
export OMP_NUM_THREADS=1

# The column leak is the target; "net, total" has a comma, two equals big.
awk 'BEGIN { srand(2); print "key,big,two,city,\"net, total\",day,w,leak,sold"; for (i = 0; i < 300; i++) {
    x = int(rand() * 1000); c = rand() < 0.5 ? "Oslo" : "Bergen"; y = x + rand() * 200 > 600 ? "yes" : "no"
    printf "%d,%d,%d,%s,%.2f,2020-%02d-%02d,%d,%s,%s\n", i + 5, x, x, c, rand(), i % 12 + 1, i % 28 + 1,
        1 + i % 3, y == "yes" ? "A" : "B", y } }' >t.csv
n=0
# train CODE TEXT ARGUMENT...
train() {
    code=$1 text=$2
    shift 2
    n=$((n + 1))
    says "$code" "$text" train "r$n" --experiment tabular/linear --data t.csv --target sold --steps 4 "$@"
}
# uses TEXT: a line of the last output, with single spaces.
uses() {
    tr -s ' ' <out | grep -q -e "$1" || fail "no line: $1"
}

# ---- the warnings say how, with the quotes of the shell.
train 0 'column leak: .* to train without it, add --drop leak$'
grep -q 'column two: is equal to the column big .* add --drop two$' out || fail 'a copy'
says 0 'add --drop leak$' data analyze t.csv --target sold
sed 's/leak/le ak, "x"/' t.csv | sed '1s/le ak, "x"/"le ak, ""x"""/' >named.csv
says 0 "add --drop '\"le ak, \"\"x\"\"\"'\$" data analyze named.csv --target sold
says 3 'The file has [0-9]*: .*"le ak, "x""' data analyze named.csv --target nothing
says 0 'le ak, "x" *discrete *dropped: ignored' data analyze named.csv --target sold --drop '"le ak, ""x"""'

# ---- what is dropped is not warned of, not read, and kept with the run.
train 0 '^done' --drop leak,two --drop '"net, total"'
! grep -q '^warning' out || fail 'a dropped column is warned of'
uses '^ leak discrete dropped: ignored$'
uses '^ net, total real dropped: ignored$'
grep -q 'drop: \[leak, two, "net, total"\]' "r$n/params.yaml" || fail 'not kept'
! grep -q 'leak\|two\|net' "r$n/features.yaml" || fail 'a dropped column is a feature'
echo 'big,city,dya' >few.csv
echo '3,Oslo,2020-01-02' >>few.csv
says 3 'there is no column day: add it (nearest: dya)' predict "r$n" few.csv
awk -F, 'NR == 1 { print "day,w,city,big"; next } { print "2020-01-02," 1 ",Oslo," NR }' t.csv >few.csv
says 0 label predict "r$n" few.csv
[ "$(grep -c label out)" = 300 ] || fail 'predictions without the dropped columns'
echo '{"big": 3, "city": "Oslo", "day": "2020-01-01", "w": 1}' >row.jsonl
says 0 label predict "r$n" row.jsonl
says 0 '^nothing to do' train "r$n" --dry-run
says 0 '^done' train "r$n" --steps 5
! grep -q '^warning' out || fail 'a resumed run has lost its columns'
says 3 'task.features' train "r$n" --steps 6 --drop two

# ---- only these.
train 0 '^done' --features big,city
uses '^ day discrete not among the chosen columns: ignored$'
! grep -q 'day' "r$n/features.yaml" || fail 'another column is a feature'
train 0 '^done' --features 'big' --time day
uses 'later by day than'
! grep -q 'day' "r$n/features.yaml" || fail 'the time is a feature'
train 0 '^done' --drop day --time day

# ---- other names of the option, and other commands.
for name in ignore exclude drop-columns; do
    train 0 "^note  *--$name is --drop\$" --$name leak,two --drop key
    uses ' key integer dropped'
    uses '^ two integer dropped'
done
"$etude" train quiet --experiment tabular/linear --data t.csv --target sold --steps 4 --ignore leak,two -q >out 2>&1 ||
    fail 'quiet'
[ ! -s out ] || fail 'a note with --quiet'
train 0 '^note  *--exclude is --drop, --label is --target$' --exclude leak --label sold
uses '^ leak discrete dropped'
says 0 'leak *discrete *dropped: ignored' data analyze t.csv --target sold --ignore leak
says 0 'day *discrete *not among' data analyze t.csv --target sold --features big
says 0 '^ *[12] ' tune linear tuned --data t.csv --target sold --drop leak,two --steps 3 \
    --search lr=0.1,0.01 --trials 2 --rungs 1
grep -rq 'drop: \[leak, two\]' tuned || fail 'tune'

# ---- what makes no sense is refused before anything is written.
train 3 't.csv: there is no column "leek". Nearest: leak' --drop leek
train 3 't.csv: there is no column "bigg". Nearest: big' --features bigg
train 3 'drop: the column sold is the target, which is never an input' --drop sold
train 3 'features: the column sold is the target' --features big,sold
train 3 'drop: the column w is the weight' --drop w --weight w
train 3 'drop: the column city is the group' --drop city --group city
train 3 'drop: the column key is the ID' --drop key --id key
train 3 'the column big is named in --drop and in --features' --drop big --features big,city
train 2 'drop: big is given twice' --drop big --drop big
train 2 'drop: a name is empty' --drop big,,two
train 3 'no column is useful about sold: .*name other columns with --features' --features key
train 3 'task.features.drop: has no effect while task.features_path' --drop big \
    --set task.features_path=r1/features.yaml
[ ! -e "r$n" ] || fail 'a refused run is there'
says 3 'drop: the column sold is the target' data analyze t.csv --target sold --drop sold
says 3 'there is no column "leek". Nearest: leak' data analyze t.csv --drop leek
echo 'columns are dropped'
