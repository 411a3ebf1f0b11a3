#!/bin/sh
# test_explain.sh ETUDE: importance of columns and partial dependence: they agree with evaluate and
# predict, are equal for any number of threads, and name what is wrong.
set -eu
. "$(dirname "$0")/command.sh"

says 0 '^ *10,000; 0: all)$' explain --help
says 0 '--points N  *of --partial: use at most N values of each column$' explain --help

# The class is by size, a little by colour, and not by noise.
awk 'BEGIN {
    print "size,colour,noise,kind"
    for (i = 0; i < 600; i++) {
        size = i * 37 % 101; colour = i * 7 % 3 ? (i % 2 ? "red" : "blue") : "green"
        kind = size + (colour == "red" ? 25 : 0) > 60 ? "yes" : "no"
        printf("%s,%s,%d,%s\n", i % 50 ? size : "", colour, i * 53 % 97, kind)
    }
}' >train.csv
says 0 "^done " train run --data train.csv --target kind --steps 150

# The score is that of evaluate; the columns stand by importance.
"$etude" explain run train.csv -q >out || fail "explain"
"$etude" evaluate run train.csv -q >scores
loss=$(sed -n 's/^log_loss  *//p' scores)
grep -q "^log_loss of kind is $loss on 600 rows" out || fail "score: $(cat out)"
[ "$(sed -n '3,$p' out | awk '{ printf $1 " " }')" = 'size colour noise ' ] || fail "order: $(cat out)"
awk 'NR == 3 { if ($2 < 0.1) exit 1 } NR == 5 { if ($2 ^ 2 > 0.01) exit 1 }' out || fail "importance: $(cat out)"

# JSON lines: mean and spread of the repeats. Neither threads nor a second start change them; a seed does.
"$etude" explain run train.csv --json --repeats 7 >once
OMP_NUM_THREADS=1 "$etude" explain run train.csv --json --repeats 7 >alone
OMP_NUM_THREADS=3 "$etude" explain run --json --repeats 7 <train.csv >three
cmp once alone && cmp once three || fail "threads"
"$etude" explain run train.csv --json --repeats 7 --seed 1 | cmp -s once - && fail "--seed has no effect"
tr '[]{},:' '       ' <once | awk '{
    for (i = 1; i <= NF; i++) { if ($i ~ /"importance"/) m = $(i + 1); if ($i ~ /"spread"/) s = $(i + 1); if ($i ~ /"repeats"/) at = i + 1 }
    sum = square = 0
    for (i = at; i < at + 7; i++) sum += $i
    for (i = at; i < at + 7; i++) square += ($i - sum / 7) ^ 2
    if ((m - sum / 7) ^ 2 > 1e-16 || (s - sqrt(square / 7)) ^ 2 > 1e-16) exit 1
}' || fail "repeats: $(cat once)"
"$etude" explain run train.csv --metric accuracy >out
grep -q "^accuracy of kind is $(sed -n 's/^accuracy  *//p' scores) on" out && sed -n 3p out | grep -q '^size  *0\.[1-9]' || fail "--metric: $(cat out)"

# Partial dependence is the mean of predictions of rows with the value.
"$etude" explain run train.csv --partial size --points 5 --json >partial
[ "$(wc -l <partial)" = 5 ] || fail "--points: $(cat partial)"
value=$(sed -n 's/.*"value":\([0-9]*\)\.0.*/\1/p' partial | sed -n 3p)
[ "$value" -gt 0 ] || fail "no value: $(cat partial)"
awk -F, -v v="$value" 'BEGIN { OFS = "," } NR > 1 { $1 = v } { print }' train.csv |
    "$etude" predict run --full --output-format csv | awk -F, 'NR > 1 { s += $3 } END { print s / 600 }' >mean
sed -n 3p partial | grep -o '"yes":[0-9.e-]*' | cut -d: -f2 | paste - mean |
    awk '{ exit ($1 - $2) ^ 2 > 1e-10 }' || fail "mean: $(sed -n 3p partial) $(cat mean)"
"$etude" explain run train.csv --partial size,colour >out
grep -q '^colour  *no  *yes$' out && grep -q '^green ' out && grep -q 'mean score' out || fail "--partial: $(cat out)"
"$etude" explain run train.csv --partial size --output size.svg >out
grep -q '<svg' size.svg || fail "--output"

# A choice of the rows, rows without a target, JSON lines, an export.
"$etude" explain run train.csv --rows 100 >out 2>log
grep -q ' on 100 rows' out && grep -q '^100 of 600 rows, chosen by --seed 0 (--rows 0: all)$' log || fail "--rows: $(cat out log)"
{ cat train.csv && echo '3,red,4,'; } >more.csv
"$etude" explain run more.csv >out 2>log
grep -q ' on 600 rows' out && grep -q '^1 row without a target: ignored$' log || fail "no target: $(cat out log)"
printf '{"size": %s, "colour": "red", "kind": "%s"}\n' 3 no 90 yes 80 yes 20 no >rows.jsonl
says 0 ' on 4 rows' explain run rows.jsonl
"$etude" export run --output run.safetensors >out 2>&1 || fail "export: $(cat out)"
"$etude" explain run.safetensors train.csv --json --repeats 7 | cmp - once || fail "an export"

# Numbers have another metric.
cut -d, -f1-3 train.csv | grep -v '^,' >numbers.csv
says 0 "^done " train numbers --data numbers.csv --target size --steps 20
says 0 '^rmse ' explain numbers numbers.csv
says 0 'mean value' explain numbers numbers.csv --partial noise

# Columns that people write with units have curves, too.
awk -F, 'BEGIN { OFS = "," } NR == 1 { print "price", "kind" } NR > 1 && $1 { print "$" $1 ".50", $4 }' train.csv >prices.csv
says 0 "^done " train prices --data prices.csv --target kind --steps 20
"$etude" explain prices prices.csv --partial price --points 3 >out || fail "a unit: $(cat out)"
grep -q '^ *\$50.50 ' out && grep -q 'mean score' out || fail "a unit: $(cat out)"

# Texts of one row each, such as dates, are shown from first to last.
awk 'BEGIN { OFS = "," } NR == 1 { print "day", "size" } NR > 1 { print 2020 + int(NR / 60) "-" 1 + NR % 12 "-" 1 + NR % 28, NR % 9 }' \
    train.csv >days.csv
says 0 "^done " train days --experiment tabular/mlp_small --data days.csv --target size --steps 5
"$etude" explain days days.csv --partial day --points 5 --json >partial
[ "$(grep -c . partial)" = 5 ] || fail "dates: $(cat partial)"
grep -q '"value":"2020-' partial && tail -1 partial | grep -q '"value":"20[23][90]-' || fail "dates: $(cat partial)"

# Weights count as they do in evaluate.
awk -F, 'BEGIN { OFS = "," } { print $0, NR == 1 ? "weight" : NR % 7 }' train.csv >weights.csv
says 0 "^done " train weights --data weights.csv --target kind --weight weight --steps 20
"$etude" evaluate weights weights.csv -q >scores
loss=$(sed -n 's/^log_loss  *//p' scores)
says 0 "^log_loss of kind is $loss on 600 rows" explain weights weights.csv -q

# Mistakes.
says 3 'there is no metric f2 for this model. Metrics: accuracy' explain run train.csv --metric f2
says 2 '--partial siz: the model reads no such column. Nearest: size' explain run train.csv --partial siz
says 2 '--partial kind: the model reads no such column' explain run train.csv --partial kind
says 2 '--output is a picture of --partial' explain run train.csv --output a.svg
says 2 'colour is not a column of numbers' explain run train.csv --partial colour --output a.svg
cut -d, -f1-3 train.csv >bare.csv
says 3 'bare.csv: no row has a target: give rows with the column kind' explain run bare.csv
# Several targets and quantiles: the scores are those of evaluate, and each target counts.
awk 'BEGIN { srand(4); print "x,z,noise,big,even,price"
    for (i = 0; i < 400; i++) { x = rand(); z = rand()
        printf "%.3f,%.3f,%.3f,%s,%s,%.3f\n", x, z, rand(), (x > .5 ? "yes" : "no"), (z > .5), 10 * x + 4 * z + rand() } }' >s.csv
cut -d, -f1-5 s.csv >labels.csv
cut -d, -f1-3,6 s.csv >price.csv
says 0 "^done " train labels --experiment tabular/mlp --data labels.csv --target big,even --steps 150
says 0 "^done " train price --experiment tabular/mlp --data price.csv --target price --steps 150 --quantiles 0.1,0.5,0.9
for run in labels/log_loss price/pinball_loss; do
    name=${run%/*} metric=${run#*/}
    "$etude" evaluate $name $name.csv -q >scores
    score=$(sed -n "s/^$metric  *//p" scores | head -1)
    [ -n "$score" ] || score=$(sed -n 's/^log_loss  *//p' scores) # the mean of the targets
    # The mean of float32 targets and that of doubles may differ in the last digit.
    says 0 "^$metric\( of price\)* is ${score%?}[0-9]* on 400 rows" explain $name $name.csv -q
    awk '$1 == "x" { x = $2 } $1 == "z" { z = $2 } $1 == "noise" { n = $2 }
        END { exit !(x > 0.1 && z > 0.1 && n < x / 4 && n < z / 4) }' out || fail "importance of $name: $(cat out)"
    says 0 '^report ' report $name
    grep -q "How much worse $metric " $name.html || fail "no importance in the page of $name"
done
says 0 '^micro_f1 is 0\.' explain labels labels.csv --metric micro_f1
says 3 'there is no metric rmse for this model. Metrics: pinball_loss, d2_pinball$' explain price price.csv --metric rmse
says 0 '^{"column":"x","value":[0-9.]*,"scores":{"big":0.[0-9]*,"even":0.[0-9e-]*}}$' explain labels labels.csv \
    --partial x --points 2 --json
says 0 '^  *x  *0.1  *0.5  *0.9$' explain price price.csv --partial x --points 2
# A row without all of its targets is no row to score.
sed '5s/.*/0.5,0.5,0.1,yes,/' labels.csv >hole.csv
says 0 '^1 row without a target: ignored' explain labels hole.csv

echo "importance and partial dependence agree with predictions"
