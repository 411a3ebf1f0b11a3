#!/bin/sh
# test_report.sh ETUDE: the page of a run: one file that needs nothing from outside, with all of its
# parts, the numbers of evaluate and explain, and names escaped.
set -eu
. "$(dirname "$0")/command.sh"

says 0 '--rows N  *measure importance on at most N rows (default: 2,000; 0: none)$' report --help

awk 'BEGIN {
    print "size,<b>colour</b>,nr,same,kind"
    for (i = 0; i < 400; i++)
        printf("%s,%s,n%d,1,%s\n", i * 37 % 101, i % 3 ? "red" : "<script>", i, i * 37 % 101 > 50 ? "yes & no" : "no")
}' >train.csv
says 0 '^done ' train run --experiment tabular/mlp --data train.csv --target kind --steps 60
says 0 '^report  *run.html$' report run -q
for part in Run Data Columns Scores 'Importance of columns' Curves Warnings 'Use of the model' Settings; do
    grep -q "<h2>$part</h2>" run.html || fail "no part $part"
done
[ "$(grep -c '<section>' run.html)" = "$(grep -c '</section>' run.html)" ] || fail "sections"
grep -q 'prefers-color-scheme:dark' run.html || fail "no dark form"
grep -qi 'src=\|href=\|@import\|url(' run.html && fail "it needs something from outside"
grep -q '<script>\|<b>colour' run.html && fail "a name is not escaped"
grep -q '&lt;b&gt;colour&lt;/b&gt;' run.html && grep -q 'yes &amp; no' run.html || fail "names"
[ "$(grep -c '<svg' run.html)" -ge 4 ] || fail "charts: $(grep -c '<svg' run.html)"
"$etude" evaluate run -q >scores
for name in loss accuracy auc brier; do
    value=$(sed -n "s/^$name  *//p" scores)
    grep -q "<td>$name</td><td class=\"number\">$value</td>" run.html || fail "$name is not $value"
done
"$etude" explain run train.csv -q --rows 2000 >importance
value=$(sed -n 's/^size  *\([0-9.]*\) .*/\1/p' importance)
grep -q "<td>size</td><td class=\"number\">$value</td>" run.html || fail "importance of size is not $value"
grep -q '<td>same</td>.*constant: ignored' run.html || fail "no reason for a column"
grep -q 'etude predict run --input new.csv' run.html || fail "no use"

# Other data, another name; nothing is overwritten unless it is named.
says 2 'run.html exists: give --output run.html to replace it' report run
head -101 train.csv >new.csv
says 0 '^report  *new.html$' report run new.csv --output new.html --rows 0
grep -q 'Importance' new.html && fail "--rows 0"
grep -q '<dd>new.csv</dd>' new.html || fail "the scored file is not named"
says 2 'choose a name in .html' report run --output run.txt
says 3 'nothing' report nothing

# Numbers.
cut -d, -f1,2 train.csv >numbers.csv
says 0 '^done ' train numbers --experiment tabular/mlp --data numbers.csv --target size --steps 20
says 0 '^report  *numbers.html$' report numbers -q
grep -q '<td>rmse</td>' numbers.html && ! grep -q 'confusion' numbers.html || fail "numbers"
echo "a page about a run"
