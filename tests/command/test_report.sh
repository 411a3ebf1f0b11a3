#!/bin/sh
# test_report.sh ETUDE: the page of a run: one file that needs nothing from outside, with all of its
# parts, the numbers of evaluate and explain, and names escaped.
set -eu
. "$(dirname "$0")/command.sh"

says 0 '--rows N  *measure importance on at most N rows (default:$' report --help

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
for name in log_loss accuracy auc brier; do
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

# Importance as bars; names at axes.
grep -q '<g><title>size</title>.*<rect ' run.html || fail "no bar of size"
grep -q '>how much worse log_loss becomes</text>' run.html || fail "no name of the bars' axis"
for name in 'true positive rate' 'false positive rate' 'fraction that is right' step loss; do
    grep -q ">$name</text>" run.html || fail "no axis $name"
done

# Numbers.
cut -d, -f1,2 train.csv >numbers.csv
says 0 '^done ' train numbers --experiment tabular/mlp --data numbers.csv --target size --steps 20
says 0 '^report  *numbers.html$' report numbers -q
grep -q '<td>rmse</td>' numbers.html && ! grep -q 'confusion' numbers.html || fail "numbers"
for name in 'predicted and true' residuals 'size, true' 'size, predicted' 'size, true - predicted'; do
    grep -q ">$name</text>" numbers.html || fail "no $name"
done
# A dot for each row that is held out, in both charts.
rows=$("$etude" evaluate numbers -q --json | sed -n 's/.*"rows": \([0-9]*\).*/\1/p')
dots=$(grep 'class="curve dots"' numbers.html | grep -o h0 | wc -l)
[ "$dots" = $((2 * ${rows:-60} + 2)) ] || fail "$dots dots for $rows rows"
says 0 '^done ' train levels --experiment tabular/mlp --data numbers.csv --target size --steps 20 --quantiles 0.1,0.5,0.9
says 0 '^report  *levels.html$' report levels -q --rows 0
grep -q '>size, predicted (median)</text>' levels.html || fail "no median"

# The candidates of a series, with their weights.
says 0 "^done " train best --experiment tabular/linear --data numbers.csv --target size --folds 3
says 0 '^report  *best.html$' report best -q --rows 0
grep -q '<h2>Candidates</h2>' best.html && grep -q '<td>linear</td><td class="number">[0-9.]* +- ' best.html ||
    fail "no candidates"
grep -q '<td>linear</td>.*<td class="number">1.00</td>' best.html || fail "no weight of a candidate"
printf '%s\n' '{"candidate": "odd", "values": 3}' '{"values": []}' 3 '{"cand' >best/members.jsonl
says 0 '^report  *odd.html$' report best -q --rows 0 --output odd.html
! grep -q '<h2>Candidates</h2>' run.html || fail "candidates of a single run"
echo "a page about a run"
