#!/bin/sh
# test_data.sh ETUDE: what `etude data analyze` prints, writes and refuses.
set -eu
etude=$1
work=$(mktemp -d "$PWD/data.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

# says CODE TEXT ARGUMENT...: `etude data` ends with CODE, and TEXT is in what it prints.
says() {
    code=$1 text=$2 got=0
    shift 2
    LC_ALL=C "$etude" data "$@" >out 2>&1 || got=$?
    [ "$got" = "$code" ] && grep -q -e "$text" out || {
        echo "data $*: exit code $got, wanted $code and: $text" >&2
        cat out >&2
        exit 1
    }
}

awk 'BEGIN { print "size;colour;label"; for (i = 0; i < 300; i++)
    printf "%d.5;%s;%d\n", i % 40, i % 3 ? "red" : "dark blue", i % 2 }' >table.csv

# No file is written that nobody asked for.
says 0 '^table.csv: 300 rows of 3 columns, ' analyze table.csv --target label
grep -q written out && exit 1
[ "$(ls)" = "$(printf 'out\ntable.csv')" ]
says 2 '--force: only with --output DIR, which writes files; for example --output runs' analyze table.csv --force

# Both files are written where one is, and the report has both kinds of columns.
says 0 '^table.csv: 300 rows of 3 columns, .* delimiter ";", with a header$' analyze table.csv \
    --target label --output .
grep -q '^size  *0  *40  *0.5  *18.5  *39.5  ' out
grep -q '^colour  *0  *2  red 66.7 %, dark blue 33.3 %$' out
grep -q '^label  *0  *2  0 50 %, 1 50 %  the target$' out
grep -q '^written: ./schema.yaml, ./metadata.json$' out
grep -q '^"colour": .*"entries":\["red","dark blue"\],"counts":\[200,100\]' metadata.json
printf 'fields:\n  - name: size\n    type: real\n  - name: colour\n    type: discrete\n%s\n' \
    '  - name: label
    type: discrete' | cmp - schema.yaml

# The same again changes nothing; another table is refused, and then nothing is changed.
touch -d 2001-01-01 schema.yaml metadata.json
says 0 written analyze table.csv --target label --output .
[ -z "$(find . -newermt 2002-01-01 -name '*.yaml' -o -newermt 2002-01-01 -name '*.json')" ]
sed 1d table.csv >bare.csv
says 3 'schema.yaml exists with other content: add --force' analyze bare.csv --output .
[ -z "$(find . -newermt 2002-01-01 -name '*.yaml' -o -newermt 2002-01-01 -name '*.json')" ]
says 0 '^column_3' analyze bare.csv --dry-run
says 0 written analyze bare.csv --output made/here
says 0 written analyze table.csv --output made/here --force
grep -q 'name: colour' made/here/schema.yaml
rm -r made

# A schema that is given names and types columns; missing values by another name.
printf 'fields:\n- {name: a, type: real}\n- {name: b, type: discrete}\n- {name: c, type: real}\n' >s
says 0 '^b  *100  *1  red 100 %$' analyze bare.csv --schema s --missing 'dark blue' --dry-run
says 0 '^c  *0  *2  *0 ' analyze bare.csv --schema s --dry-run

# JSON, several files, wildcards, packed ones.
says 0 '"rows": 600,' analyze --json --dry-run 'table.cs?' table.csv
gzip -k table.csv
says 0 '^table.csv.gz: 300 rows' analyze table.csv.gz --dry-run
says 0 '^2 files: 600 rows' analyze 'table.csv*' --dry-run

# A pipe, by any name, says what the file says; it is read once.
report() {
    LC_ALL=C "$etude" data analyze --dry-run --json "$@" >out 2>&1 || { cat out >&2; exit 1; }
    sed 's|"[^"]*table.csv[^"]*"|"FILE"|g; s|"/dev/stdin"|"FILE"|g; s|"fifo"|"FILE"|g; /seconds/d' out
}
report table.csv >expected
cat table.csv | report - >got
diff expected got
cat table.csv | report /dev/stdin >got
diff expected got
report - <table.csv >got
diff expected got
mkfifo fifo
cat table.csv >fifo &
report fifo >got
wait
diff expected got
(head -c 700 table.csv && sleep 0.2 && tail -c +701 table.csv) | report - >got
diff expected got
gzip -c table.csv | report - >got
diff expected got
printf 'a,b\n1,2\n3' | says 3 '^etude: /dev/stdin:3: 1 column' analyze --dry-run -
printf 'a,b\n"1"",2",3\n"x""y",4\n' | report - --json >got
grep -q 'x\\\\"y\|x\\"y' got || { cat got >&2; exit 1; }
says 3 '/dev/stdin: the file has no rows' analyze --dry-run - </dev/null
says 2 'name standard input (-) only once' analyze --dry-run - -
cat table.csv | says 0 '^2 files: 600 rows' analyze --dry-run - table.csv

# What is wrong.
says 2 'give a subcommand: data analyze table.csv$' table.csv
says 2 'there is no analyse' analyse table.csv
says 2 'no file is given; name one' analyze
says 2 'delimiter ab: give one character' analyze table.csv --delimiter ab
says 2 'header: no choice is called maybe (allowed: auto, yes, no' analyze table.csv --header maybe
awk 'BEGIN { print "v,y"; for (i = 0; i < 30; i++) print (i % 3 ? i "%" : i / 100) "," i % 2 }' >percent.csv
says 0 '^v  *10 of 30 values have no %, but are read as if they had one' analyze percent.csv --target y
awk 'BEGIN { print "v;w;y"; for (i = 0; i < 90; i++) { v = i * 37 % 89 * 33
    print (v < 1000 ? v : int(v / 1000) "." sprintf("%03d", v % 1000)) ";" i % 7 "," i % 3 ";" i % 2 } }' >german.csv
says 0 '^v  *no value shows the decimal mark: "[0-9.]*" in german.csv:[0-9]* is read as [1-2][0-9]*, as other columns' \
    analyze german.csv --target y
grep -q '^v  *0  *89  *0  *1436  *2904' out || { cat out >&2; exit 1; }
tail -n +2 german.csv | cut -d';' -f2,3 | sed 's/;/,5;/' | sed 's/,\([0-9]\),5/,\1/' >bare_german.csv
says 0 '^bare_german.csv: 90 rows of 2 columns, .* delimiter ";", no header' analyze bare_german.csv
cut -d';' -f1,3 german.csv >alone.csv
says 0 'is read as 1.221; if it means 1221, write `notation: comma`' analyze alone.csv --target y
sed 's/,/./' german.csv >point.csv
says 0 '^v  *real' analyze point.csv --target y
grep -q 'decimal mark' out && exit 1
sed 's/%/k/' percent.csv >thousands.csv
says 0 '^v  *10 of 30 values have no k, but are read as if they had one: write the k' analyze thousands.csv --target y
printf 'country,2019,y\nDE,1,a\nFR,2,b\n' >years.csv
says 3 'has 3 and no header: column_1, column_2, column_3; if its first row has the names, give --header yes' \
    analyze years.csv --target y
says 3 'there is no column "lable". Nearest: label' analyze table.csv --target lable
says 3 'none.csv' analyze none.csv
printf 'a,b\n1,2\n3\n' >ragged.csv
says 3 'ragged.csv:3: 1 column, where 2 are expected, in "3"' analyze ragged.csv --output new
[ ! -e new ]
mkdir dir && cp table.csv dir/metadata.json
says 3 'dir/metadata.json are the same file' analyze dir/metadata.json --output dir
