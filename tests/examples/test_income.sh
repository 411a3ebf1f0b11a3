#!/bin/sh
# test_income.sh INCOME ETUDE: the program prints the predictions of the command for its file.
set -eu
income=$1 etude=$2
work=$(mktemp -d "$PWD/income.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "test_income: $*" >&2
    cat log >&2
    exit 1
}
awk 'BEGIN { print "age,job,income"
    for (i = 0; i < 400; i++) {
        age = 18 + i * 37 % 50; job = i * 7 % 3
        print age ",job" job "," (age + 10 * job > 52 ? "high" : "low")
    } }' >people.csv
cut -d, -f1,2 people.csv | head -41 >new.csv
"$income" people.csv income new.csv >lines 2>log || fail "exit $?"
grep -q '^ *[0-9,]*  *20  ' log || fail "no row of the last epoch"
awk '$1 == "validation_accuracy" && $2 > 0.9 { good = 1 } END { exit !good }' log ||
    fail "not learned"
[ "$(wc -l <lines)" = 40 ] || fail "not 40 lines"
"$etude" predict income.safetensors new.csv | cmp - lines || fail "the command has other lines"
"$income" people.csv incom new.csv 2>log && fail "a column that is not there"
grep -q incom log || fail "no message about the column"
