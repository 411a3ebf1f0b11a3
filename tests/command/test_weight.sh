#!/bin/sh
# test_weight.sh ETUDE: --weight COLUMN weighs rows in the loss and in the scores.
set -eu
. "$(dirname "$0")/command.sh"
export OMP_NUM_THREADS=1

# table WEIGHTS WRONG: 300 rows; WEIGHTS is awk's weight of row i, and rows of WRONG have another label.
table() {
    awk "BEGIN { print \"a,b,w,n,y\"; for (i = 0; i < 300; i++) {
        yes = (i * 37 % 101 > 50) != (i % 7 == 3); wrong = ($2)
        printf \"%d,k%d,%s,%d,%s\\n\", i * 37 % 101, i % 3, $1, i * 53 % 97 + 40 * yes, yes != wrong ? \"yes\" : \"no\" } }"
}
train() {
    code=$1 text=$2
    shift 2
    says "$code" "$text" train --experiment tabular/mlp_small --valid valid.csv --epochs 2 "$@"
}
predictions() {
    "$etude" predict "$1" --input valid.csv --full
}
table 1 0 >valid.csv

# Rows of weight 0 are not learned, whatever their labels. A row more of each class keeps their order.
table 'i % 4 ? 1 : 0' 0 >some.csv
table 'i % 4 ? 1 : 0' 'i % 8 == 0' >other.csv
for file in some other; do
    train 0 'w  *integer  *weight of the row' "$file" --data "$file.csv" --target y --weight w
    predictions "$file" >"$file.out"
done
cmp some.out other.out || fail 'rows of weight 0 are learned'
train 0 done all --data other.csv --target y
predictions all >all.out
! cmp -s all.out other.out || fail 'weights make no difference'

# Balanced classes have the same sum of weights, so rows of weight 0 do not count.
table 'i % 4 ? 1 : 0' 'i % 4 == 0 && yes' >others.csv
for file in some others; do
    train 0 done "$file-balanced" --data "$file.csv" --target y --weight w --class-weights balanced
    predictions "$file-balanced" >"$file-balanced.out"
done
cmp some-balanced.out others-balanced.out || fail 'rows of weight 0 change the weights of classes'
train 3 'class-weights: the class yes has two weights; give one' twice --data some.csv --target y --class-weights yes:3,yes:2
train 3 'class-weights: all classes have the weight 0' none --data some.csv --target y --class-weights yes:0,no:0
says 3 'task.class_weights needs initial weights of a run with class weights; leave task.class_weights out' \
    train none --init some --data some.csv --class-weights balanced

# Only the ratio of weights counts, of classes and of numbers, and with weights of classes as well.
table 'i % 4 + 1' 0 >one.csv
table '(i % 4 + 1) * 8' 0 >eight.csv
table 1 0 >valid.csv
for target in y n; do
    for file in one eight; do
        case $target in y) balanced='task.class_weights=[balanced]' ;; n) balanced=task.loss=huber ;; esac
        rm -rf "$file"
        train 0 done "$file" --data "$file.csv" --target $target --weight w --set "$balanced"
        predictions "$file" >"$file.out"
    done
    cmp one.out eight.out || fail "$target: another scale of the weights gives another model"
done

# A row of weight 3 scores as three rows do.
table 'i % 3 + 1' 0 >thrice.csv
awk -F, -v OFS=, 'NR == 1 { print; next } { n = $3; $3 = 1; for (i = 0; i < n; i++) print }' thrice.csv >repeated.csv
for run in some one; do
    "$etude" evaluate $run thrice.csv | sed 1d >thrice.out
    "$etude" evaluate $run repeated.csv | sed 1d >repeated.out
    cmp thrice.out repeated.out || fail "$run: $(diff thrice.out repeated.out)"
done
cut -d, -f1,2,4,5 valid.csv >lacks.csv
says 3 'lacks.csv:1: .*there is no column w' evaluate some lacks.csv
cut -d, -f1,2,4 valid.csv >rows.csv
"$etude" predict some --input rows.csv --full >rows.out
cmp rows.out some.out || fail 'predict needs the weights'

# What is no weight.
bad() {
    table "$1" 0 >bad.csv
    train 3 "$2" bad --data bad.csv --target y --weight "${3-w}"
    [ ! -e bad ] || fail 'a start that failed leaves a run'
}
bad 'i == 9 ? -1 : 1' 'the weight w has values from -1 to 1: give weights of at least 0'
bad 0 'the weight w has values from 0 to 0'
bad 'i == 9 ? "" : 1' 'the weight w is missing in 1 rows'
bad 'i == 9 ? "x" : 1' 'bad.csv:11: column w: "x" is not a number'
bad 1 'y is both target and weight' y
bad 1 'no column v for the weight' v
bad 1 'the weight b has texts' b
table 0 0 >valid.csv
train 3 'all weights of the validation rows are 0' bad --data some.csv --target y --weight w
says 3 'all weights of the validation rows are 0' evaluate some valid.csv
table 'i == 9 ? -1 : 1' 0 >valid.csv
train 3 'valid.csv:11: column w: a weight of -1: give a number of at least 0' bad --data some.csv --target y --weight w
sed 's/type: weight/type: standardize/; s/name: W/name: other/' some/features.yaml >none.yaml
train 3 'task.weight is w, but the features have no weight: add' bad --data some.csv --target y --weight w \
    --set task.features_path=none.yaml

table 'i == 9 || i == 10 ? 1 : 0' 0 >two.csv
says 3 'all weights of the validation rows of a fold are 0: .*, or ask for fewer folds' \
    train bad --data two.csv --target y --weight w --folds 5
rm -rf bad

# Weights count in the scores of folds, and in the choice of an ensemble's weights: rows of weight 0
# are those that a linear model would predict best.
table 'i % 4 ? 1 + i % 3 : 0' 'i % 8 == 0' >some.csv
says 0 done train folds --experiment tabular/mlp_small --data some.csv --target y --weight w --folds 3 --epochs 2
awk '{ match($0, /"fold":[0-9]*/); fold = substr($0, RSTART + 7, RLENGTH - 7)
    match($0, /"weight":[0-9.]*/); weight = substr($0, RSTART + 9, RLENGTH - 9)
    match($0, /"label":"[a-z]*/); label = substr($0, RSTART + 9, RLENGTH - 9)
    match($0, /"target":"[a-z]*/); target = substr($0, RSTART + 10, RLENGTH - 10)
    right[fold] += weight * (label == target); all[fold] += weight }
    END { printf "%.4g\n", (right[1] / all[1] + right[2] / all[2] + right[3] / all[3]) / 3 }' folds/out_of_fold.jsonl >wanted
grep -q "^mlp_small .* accuracy $(cat wanted) " out || fail "the score is not $(cat wanted)"
awk 'BEGIN { print "a,b,w,y"; for (i = 0; i < 600; i++) { a = i * 37 % 101; b = i % 2; w = i % 3 == 0
    print a ",k" b "," w "," (w ? (a > 50) != b : a > 50) } }' >mixed.csv
says 0 done train chosen --experiment tabular/auto --data mixed.csv --target y --weight w --set task.held_out=0.3 --epochs 20
grep -q '^linear .* 0\.00$' out || fail 'rows of weight 0 choose the model'
echo 'weights: of rows in loss, scores, folds and ensembles'
