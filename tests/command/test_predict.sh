#!/bin/sh
# test_predict.sh ETUDE: what `predict` reads and writes, with a model that this test trains: three
# kinds of flowers by two lengths and a colour.
set -eu
etude=$1
work=$(mktemp -d "$PWD/predict.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "test_predict: $*" >&2
    exit 1
}

# says CODE TEXT COMMAND...: it ends with CODE, and TEXT is in what it prints to standard error.
says() {
    code=$1 text=$2 got=0
    shift 2
    "$@" >out 2>err || got=$?
    [ "$got" = "$code" ] && grep -q -e "$text" err || {
        cat err >&2
        fail "$*: exit code $got, wanted $code and: $text"
    }
}

awk 'BEGIN {
    print "long,wide,colour,kind"
    for (i = 0; i < 300; i++) {
        x = (i * 37 % 100) / 50; y = (i * 53 % 100) / 50
        kind = x > 1 ? "rose, wild" : (y > 1 ? "lily" : "iris")
        printf("%.2f,%.2f,%s,%s\n", x, y, i % 4 ? "red" : "blue", kind)
    }
}' | sed 's/rose, wild/"rose, wild"/' >train.csv
cat >schema.yaml <<END
fields:
  - {name: long, type: real}
  - {name: wide, type: real}
  - {name: colour, type: discrete}
  - {name: kind, type: discrete}
END
cat >metadata.json <<END
{"long": {"min": 0, "max": 2, "mean": 1, "std": 0.58}, "wide": {"min": 0, "max": 2, "mean": 1,
 "std": 0.58}, "colour": {"entries": ["red", "blue"]},
 "kind": {"entries": ["rose, wild", "lily", "iris"]}}
END
cat >features.yaml <<END
features:
  - {name: X, type: concat, features: [{name: long, type: scale}, {name: wide, type: scale}]}
  - {name: tint, type: embed, fields: colour}
  - {name: Y, type: target, fields: kind}
END
"$etude" train --experiment tabular/mlp --data train.csv --model-dir run --set \
    task.schema_path=schema.yaml,task.metadata_path=metadata.json,task.features_path=features.yaml \
    --set trainer.train_epochs=30,trainer.early_stopping.patience=0,task.model.mlp.width=32,task.train_data.batch_size=16 \
    >log 2>&1 || { cat log >&2; fail "no model"; }

# Rows with and without a header, with and without the target, columns in any order.
tail -n +2 train.csv | cut -d, -f1-3 >rows.csv
"$etude" predict --model-dir run <rows.csv >expected.jsonl
[ "$(wc -l <expected.jsonl)" = 300 ] || fail "another number of lines"
score='[01]\.[0-9]\{5\}'
grep -q "^{\"label\": \"rose, wild\", \"scores\": {\"rose, wild\": $score, \"lily\": $score, \"iris\": $score}}\$" \
    expected.jsonl || fail "lines look otherwise: $(head -1 expected.jsonl)"
awk -F '"' 'NR == FNR { label[NR] = $4; next } FNR > 1 {
    want = /rose/ ? "rose, wild" : /lily/ ? "lily" : "iris"; right += label[FNR - 1] == want }
    END { exit right < 290 }' expected.jsonl train.csv || fail "most labels are wrong"

same() {
    cmp -s "$1" expected.jsonl || fail "$2: other predictions"
}
"$etude" predict --model-dir run <train.csv >got
same got "a header, the target"
tail -n +2 train.csv | "$etude" predict --model-dir run >got
same got "no header, the target"
awk -F, 'NR == 1 { print "id,colour,wide,long"; next } { print NR "," $3 "," $2 "," $1 }' train.csv |
    "$etude" predict --model-dir run >got
same got "a header in another order, a column more"
tr , '\t' <rows.csv >rows.tsv
"$etude" predict --model-dir run --input rows.tsv >got
same got "tabs"
sed 's/,/;/g' rows.csv | "$etude" predict --model-dir run --delimiter ';' --header no >got
same got "semicolons"
sed 's/,/;/g' rows.csv | "$etude" predict --model-dir run --delimiter ';' --header false >got
same got "no header, by another word"
gzip <rows.csv >rows.csv.gz
"$etude" predict --model-dir run --input rows.csv.gz --output got
same got "gzip, --output"
"$etude" predict --model-dir run --input rows.csv --output got.gz && gzip -dc got.gz >got
same got "an output called .gz"
"$etude" predict --model-dir run --input rows.csv --output got.csv.gz
"$etude" predict --model-dir run --input rows.csv --output got.csv
gzip -dc got.csv.gz | cmp - got.csv || fail "CSV called .gz"
awk -F, '{ printf "{\"wide\": %s, \"colour\": \"%s\", \"long\": %s, \"more\": [1]}\n", $2, $3, $1 }' \
    rows.csv >rows.jsonl
"$etude" predict --model-dir run --input rows.jsonl >got
same got "JSON lines"
"$etude" predict --model-dir run --input-format jsonl <rows.jsonl >got
same got "JSON lines of standard input"
# Without AVX-512 a row's sums may be in another order in another batch: the fifth digit may be another.
nearly() {
    if grep -q avx512 /proc/cpuinfo; then
        cmp -s "$1" "${3:-expected.jsonl}" || fail "$2: other predictions"
        return
    fi
    paste -d '|' "$1" "${3:-expected.jsonl}" | tr -d '[]{}' | awk -F '|' '{
        n = split($1, a, /[ ,:]+/); if (split($2, b, /[ ,:]+/) != n) exit 1
        for (i = 1; i <= n; i++)
            if (a[i] != b[i] && (a[i] !~ /^[01]\.[0-9]+$/ || (a[i] - b[i]) ^ 2 > 4e-10)) exit 1
    }' || fail "$2: other predictions"
}
for size in 1 7 300 4096; do
    "$etude" predict --model-dir run --batch-size $size <rows.csv >got
    nearly got "--batch-size $size"
done
for threads in 1 2 5; do
    OMP_NUM_THREADS=$threads "$etude" predict --model-dir run --batch-size 16 <rows.csv >got
    same got "$threads threads"
done
newest=$(ls run/checkpoints | grep -m1 safetensors)
"$etude" predict run --checkpoint best <rows.csv >got
same got "a run as a word, --checkpoint best"
"$etude" predict run --checkpoint newest <rows.csv >newest.jsonl
"$etude" predict run --checkpoint "run/checkpoints/$newest" <rows.csv >got
cmp -s got newest.jsonl || fail "--checkpoint FILE is not the newest"
says 3 'run' "$etude" predict run --checkpoint 987654 --input rows.csv
# An empty line is no end.
sed 's/$/\n/' rows.csv | "$etude" predict --model-dir run >got
same got "empty lines"
# TensorFX's lines have the same scores in a list.
unnamed() {
    sed 's/"rose, wild": //; s/"lily": //; s/"iris": //; s/{\([01].*\)}}$/[\1]}/' "$1"
}
unnamed expected.jsonl >expected.lists
"$etude" tfx predict --model run <rows.csv >got
cmp -s got expected.lists || fail "tfx predict: $(head -1 got)"
"$etude" tfx predict --model run --input rows.csv --output got --batch-size 3
nearly got "tfx predict, its options" expected.lists

# As CSV, in full, with the numbers of lines.
"$etude" predict --model-dir run --output-format csv --line-numbers <train.csv >got
[ "$(head -1 got)" = 'label,line,"scores.rose, wild",scores.lily,scores.iris' ] ||
    fail "head of CSV: $(head -1 got)"
[ "$(sed -n '2,$p' got | cut -d, -f1-2 | grep -c '^[a-z]*,[0-9]*$')" -gt 100 ] || fail "CSV"
"$etude" predict --model-dir run --full <rows.csv >got
unnamed got >full.lists
awk -F '[][,]' 'NR == FNR { for (i = 0; i < 3; i++) a[NR, i] = $(NF - 3 + i); next }
    { for (i = 0; i < 3; i++) { d = $(NF - 3 + i) - a[FNR, i]; if (d * d > 3e-11) exit 1 } }' \
    expected.lists full.lists || fail "--full: $(head -1 got)"
cmp -s got expected.jsonl && fail "--full: five digits"

# Answers come while input is open.
mkfifo in
"$etude" predict --model-dir run <in >got &
predicting=$!
exec 3>in
head -1 rows.csv >&3
for i in $(seq 1200); do
    [ -s got ] && break
    sleep 0.05
done
[ "$(cat got)" = "$(head -1 expected.jsonl)" ] || fail "no answer before the end of input"
tail -n +2 rows.csv >&3
exec 3>&-
wait $predicting
same got "a pipe"

# A bad row ends it after the rows before, or is left out and named.
sed '3s/^[^,]*/wide/; 5s/^[^,]*//' rows.csv >bad.csv
says 3 'bad.csv:3: .*long.*wide' "$etude" predict --model-dir run --input bad.csv
cmp -s out - <<END || fail "rows before a bad one are not there"
$(head -2 expected.jsonl)
END
says 3 'bad.csv:3: ' "$etude" predict --model-dir run --input bad.csv --output got2
[ ! -e got2 ] || fail "half an output"
says 0 'bad.csv:3: .*; left out' "$etude" predict --model-dir run --input bad.csv --invalid skip
[ "$(wc -l <out)" = 299 ] || fail "--invalid skip: $(wc -l <out) lines"
[ "$(sed -n 3p out)" = "$(sed -n 4p expected.jsonl)" ] || fail "--invalid skip: another order"
printf '1,1,red\n1,1\n"1,1,red\n' >bad.csv
says 3 'bad.csv:2: ' "$etude" predict --model-dir run --input bad.csv
says 0 'bad.csv:3.*quote' "$etude" predict --model-dir run --input bad.csv --invalid skip
[ "$(wc -l <out)" = 1 ] || fail "an open quote"

# A row of numbers that overflow in the model has no label: it is a bad row.
printf '1,1,red\n6e38,-6e38,red\n0,1,red\n' >bad.csv
says 3 "bad.csv:2: the model's scores for this row are not numbers" "$etude" predict --model-dir run --input bad.csv
[ "$(wc -l <out)" = 1 ] || fail "rows before one that overflows: $(wc -l <out) lines"
says 0 'bad.csv:2: .* not numbers.*; left out' "$etude" predict --model-dir run --input bad.csv --invalid skip
[ "$(wc -l <out)" = 2 ] && ! grep -q null out || fail "a row that overflows: $(cat out)"

printf '{"long": 1, "wide": 1, "colour": "red"}\n[]\n{"long": {}}\nno\n{"long": "x"}\n{}\n' >bad.jsonl
says 0 'bad.jsonl:2: a list is not a row' "$etude" predict --model-dir run --input bad.jsonl --invalid skip
grep -q 'bad.jsonl:3: column long is an object' err && grep -q "bad.jsonl:4: column 2: not JSON: invalid token near 'no'; write each row as an object in one line: .*; left out" err &&
    grep -q 'bad.jsonl:5: ' err || fail "bad JSON: $(cat err)"
[ "$(wc -l <out)" = 2 ] || fail "bad JSON: $(wc -l <out) lines"

# A line that is too long is one bad row.
{ head -1 rows.jsonl; head -c 20000000 /dev/zero | tr '\0' x; echo; head -2 rows.jsonl | tail -1; } >long.jsonl
says 3 'long.jsonl:2: a line of more than' "$etude" predict run --input long.jsonl
says 0 'long.jsonl:2: a line of more than .*; left out' "$etude" predict run --input long.jsonl --invalid skip
head -2 expected.jsonl | cmp -s - out || fail "rows around a line that is too long: $(cat out)"
head -c 20000000 /dev/zero | tr '\0' x >long.jsonl
says 0 'long.jsonl:1: a line of more than' "$etude" predict run --input long.jsonl --invalid skip

# Names that are nearly a column's, or all unknown, are not missing values.
printf '{"lon": 1, "wide": 1, "colour": "red"}\n{"id": 7}\n{"wide": 1, "id": 7}\n' >bad.jsonl
says 0 'bad.jsonl:1: .*no column lon. Nearest: long' "$etude" predict run --input bad.jsonl --invalid skip
grep -q "bad.jsonl:2: .*none of the row's columns; one of its columns is long" err || fail "no column: $(cat err)"
[ "$(wc -l <out)" = 1 ] || fail "bad names: $(wc -l <out) lines"
says 3 'there is no column colour, but Colour' sh -c "printf 'LONG,wide,Colour\n' | '$etude' predict run"

# What means that there is no value, and what is no row, is so for rows to predict too.
{ echo '%%% measured by hand'; sed 's/,/~/g; 5s/^[^~]*/-999.0/; 9s/^[^~]*/null/' train.csv; } >marked.csv
"$etude" train --experiment tabular/mlp marked --data marked.csv --target kind --steps 40 --delimiter '~' \
    --comment '%' --missing -999 NIL --missing none >log 2>&1 || { cat log >&2; fail "a marked table"; }
grep -q '"min":0\(.0\)*,' marked/metadata.json || fail "-999.0 is a value: $(cat marked/metadata.json)"
[ "$(grep -c 'matches no value' log)" = 2 ] && grep -q 'warning: --missing NIL matches no value; ' log ||
    fail "markers that match nothing: $(cat log)"
grep -q '^  missing: \["-999", NIL, none\]$' marked/params.yaml || fail "$(grep missing: marked/params.yaml)"
printf '%%%% by hand\n~1~red\n%%\n~1~red\n' | "$etude" predict marked --full >got
for row in '-999~1~red' '"-999.0"~1~red' 'NULL~1~red'; do
    printf '%s\n' "$row" | "$etude" predict marked --full
done >>got
printf '{"long": -999, "wide": 1, "colour": "red"}\n{"wide": 1, "colour": "red"}\n' |
    "$etude" predict marked --input-format jsonl --full >>got
echo '{"long": -9.990e2, "wide": 1, "colour": "red"}' | "$etude" predict marked --input-format jsonl --full >>got
[ "$(uniq -c got | awk '{ print $1 }')" = 8 ] || fail "markers: $(cat got)"

# A model of its own.
says 0 'exported run/best/.*: models/flowers$' "$etude" export --model-dir run --output models/flowers
[ "$(ls models/flowers | wc -l)" = 5 ] || fail "files of an export: $(ls models/flowers)"
"$etude" predict models/flowers <rows.csv >got
same got "an export"
says 3 'exists' "$etude" export --model-dir run --output models/flowers
says 3 'flowers/model.safetensors exists, but has no models/flowers/checkpoints to resume from: choose a new directory (--init' \
    "$etude" train models/flowers --epochs 9
mkdir copied
cp -r run/params.yaml run/schema.yaml run/metadata.json run/features.yaml run/best copied/
says 3 'copied/best/best-.* exists, but has no copied/checkpoints' "$etude" train copied --epochs 9
[ "$(ls copied/best)" = "$(ls run/best)" ] || fail "a copied run's best: $(ls copied/best)"
says 2 'output is missing' "$etude" export --model-dir run

# Weights alone do not say what their numbers mean; a run hands that over.
sed 's/"rose, wild", "lily"/"lily", "rose, wild"/' metadata.json >swapped.json
cp run/best/best-*.safetensors weights.safetensors
swapped=task.schema_path=schema.yaml,task.metadata_path=swapped.json,task.features_path=features.yaml
says 0 'warning: weights.safetensors has another metadata than this run' "$etude" train --experiment \
    tabular/mlp --data train.csv --model-dir swapped --init weights.safetensors --steps 1 --set \
    $swapped,task.model.mlp.width=32
# The run's own copies: the files that it was given may be gone.
mkdir away
mv schema.yaml metadata.json features.yaml away
says 0 'initial      weights of run/best; settings, schema, metadata, features of run$' "$etude" train \
    --data train.csv --model-dir kept --init run --steps 1
mv away/* .
! grep -q 'warning: .* has another .* than this run' err || fail "warned of a run's own files"

# Numbers: of two targets at once, with a key.
sed 's/^/id,/' train.csv | awk -F, 'NR > 1 { $1 = "n" NR; print $1 "," $2 "," $3 "," $2 + $3 "," $2 - $3; next }
    { print "id,long,wide,sum,difference" }' >numbers.csv
cat >numbers.yaml <<END
fields: [{name: id, type: discrete}, {name: long, type: real}, {name: wide, type: real},
         {name: sum, type: real}, {name: difference, type: real}]
END
echo '{}' >numbers.json
cat >numbers.features.yaml <<END
features: [{name: X, type: concat, features: [{name: long}, {name: wide}]}, {name: id, type: key},
           {name: Y, type: target, fields: "sum, difference"}]
END
"$etude" train --experiment tabular/linear --data numbers.csv --model-dir numbers --set \
    task.schema_path=numbers.yaml,task.metadata_path=numbers.json \
    --set task.features_path=numbers.features.yaml,trainer.train_epochs=60 \
    --set trainer.early_stopping.patience=0,task.train_data.batch_size=16 >log 2>&1 ||
    { cat log >&2; fail "no model of numbers"; }
printf 'long,id,wide\n0.5,"a ""b"", c",0.25\n' | "$etude" predict numbers >got
grep -q '^{"id": "a \\"b\\", c", "values": {"sum": 0\.7[0-9]*, "difference": 0\.2[0-9]*}}$' got || fail "numbers: $(cat got)"
printf 'long,id,wide\n0.5,"a ""b"", c",0.25\n' | "$etude" predict numbers --output-format csv >got
[ "$(head -1 got)" = id,values.sum,values.difference ] || fail "numbers: $(head -1 got)"
grep -q '^"a ""b"", c",0\.7' got || fail "numbers as CSV: $(tail -1 got)"

# A key whose feature is called as something else is "key".
sed 's/name: id, type: key/name: values, type: key, fields: id/' numbers.features.yaml >key.yaml
"$etude" train --experiment tabular/linear --data numbers.csv --model-dir keyed --steps 2 --set \
    task.schema_path=numbers.yaml,task.metadata_path=numbers.json,task.features_path=key.yaml >log 2>&1 ||
    { cat log >&2; fail "no model with a key"; }
printf 'long,id,wide\n0.5,a,0.25\n' | "$etude" predict keyed >got
grep -q '^{"key": "a", "values": {"sum": ' got || fail "a key called values: $(cat got)"

# A byte order mark is no part of the first line; small values keep their digits.
printf '\357\273\277{"long": 1, "wide": 1, "colour": "red"}\n' >marked.jsonl
"$etude" predict run --input marked.jsonl >got
[ "$(wc -l <got)" = 1 ] || fail "a line behind a byte order mark: $(cat got)"
sed 1d numbers.csv | awk -F, '{ print $2 "," $2 * 1e-7 }' >small.csv
"$etude" train --experiment tabular/linear --data small.csv --model-dir small --target column_2 \
    --steps 300 --quiet
echo 0.5 | "$etude" predict small >got
grep -q '"values": {"column_2": [-0-9.]*e-0[78]}' got || fail "small values: $(cat got)"

# Fractions are no classes.
says 3 'target_type is class, but the target long has fractions' "$etude" train --experiment tabular/mlp \
    --data train.csv --model-dir fractions --target long --set task.target_type=class --steps 1

# A row has one key.
sed 's/name: id, type: key/&}, {name: second, type: key, fields: wide/' numbers.features.yaml >two.yaml
says 3 'the features id and second are both keys; keep one' "$etude" train --experiment tabular/linear \
    --model-dir twice --steps 2 --data numbers.csv -q --set \
    task.schema_path=numbers.yaml,task.metadata_path=numbers.json,task.features_path=two.yaml

# A value of JSON is the text that training read: true is True, and a number is as it is written,
# whatever its size, also in a column that no feature reads.
awk 'BEGIN {
    split("1.10 2.0 2.1-beta -0 1e3 9223372036854775808", v, " ")
    print "member,version,x,y"
    for (i = 0; i < 360; i++) {
        k = i % 6 + 1; member = int(i / 6) % 2 ? "True" : "FALSE"
        print member "," v[k] "," i * 37 % 100 "," (member == "True" && k != 3 ? "good" : "bad")
    }
}' >levels.csv
"$etude" train levels --experiment tabular/mlp_small --data levels.csv --target y --steps 60 -q 2>log ||
    { cat log >&2; fail "no model of levels"; }
for version in 1.10 2.0 -0 1e3 9223372036854775808; do
    printf 'True,%s,5\nFALSE,%s,5\n' $version $version >>levels.rows
    printf '{"member": %s, "version": %s, "x": 5, "request": 123456789012345678901234567890}\n' \
        true $version false $version >>levels.jsonl
done
"$etude" predict levels --full --input levels.rows --header no >expected.levels 2>err || fail "$(cat err)"
"$etude" predict levels --full --input levels.jsonl >out 2>>err || fail "$(cat err)"
cmp out expected.levels || fail "levels of JSON: $(cat out err)"
[ ! -s err ] || fail "levels of JSON: $(cat err)"
grep -c '"label": "good"' out | grep -qx 5 || fail "levels: $(cat out)"

# What the model has never seen is counted by column, in the order of rows whatever the threads.
for i in $(seq 500); do
    echo "$([ $((i % 50)) = 7 ] && echo true || echo True),$([ $((i % 40)) = 3 ] && echo 9.$i || echo 2.0),5"
done >unknown.csv
sed -i '20s/2.0//' unknown.csv
for threads in 1 4; do
    OMP_NUM_THREADS=$threads says 0 \
        'member: 10 of 500 values unknown to the model, first "true" in line 7$' \
        "$etude" predict levels --batch-size 16 --header no --input unknown.csv
    grep -q 'version: 13 of 500 values unknown to the model, first "9.3" in line 3$' err &&
        grep -q 'version: 1 of 500 values missing, and none was missing in training, first in line 20$' err &&
        [ "$(wc -l <err)" = 3 ] || fail "unknown values: $(cat err)"
done

# The delimiter of training is that of a row without a header, whatever its texts have; a header or
# another number of columns says otherwise.
awk 'BEGIN { print "text,x,y"
    for (i = 0; i < 200; i++) print (i % 2 ? "a;b;c;d" : "e|f|g|h") "," i * 37 % 100 "," (i % 2 ? "odd" : "even") }' >texts.csv
sed 's/,/\t/g' texts.csv | tr ';\t' ',;' >semicolons.csv
"$etude" train texts --experiment tabular/mlp_small --data texts.csv --target y --steps 40 -q 2>log
"$etude" train semicolons --experiment tabular/mlp_small --data semicolons.csv --target y --steps 40 -q 2>log
for row in 'a;b;c;d,5' 'e|f|g|h,6' 'a;b;c;d,5,odd'; do
    echo "$row" | "$etude" predict texts >>got.texts 2>err || fail "$row: $(cat err)"
    echo "$row" | tr ',;' ';,' | "$etude" predict semicolons >>got.semicolons 2>err || fail "$row: $(cat err)"
    [ ! -s err ] || fail "$row: $(cat err)"
done
"$etude" export semicolons --output semicolons.safetensors >log 2>&1
echo 'a,b,c,d;5' | "$etude" predict semicolons.safetensors >>got.semicolons
[ "$(cut -d '"' -f 4 got.texts | tr '\n' ' ')" = 'odd even odd ' ] || fail "texts: $(cat got.texts)"
[ "$(cut -d '"' -f 4 got.semicolons | tr '\n' ' ')" = 'odd even odd odd ' ] || fail "semicolons: $(cat got.semicolons)"
printf 'x;text\n5;"a;b;c;d"\n' | "$etude" predict texts | grep -q '"odd"' || fail 'a header with another delimiter'
echo 'a,b,c,d;5;odd' >one.csv
"$etude" evaluate semicolons --set task.validation_data.input_path=one.csv >out 2>log || fail "$(cat log)"
grep -q '^accuracy  *1$' out || fail "a row that is scored: $(cat out)"

# What cannot be.
says 2 '\-\-model-dir is missing' "$etude" predict
says 2 'tfx predict: --model is missing' "$etude" tfx predict
says 2 'no option --modl. Nearest: --model' "$etude" tfx predict --modl run
says 2 'invalid: no choice is called go (allowed: stop, skip)' "$etude" predict --model-dir run --invalid go
says 2 'batch-size: 0 is out of range; allowed: 1 to' "$etude" predict --model-dir run --batch-size 0
says 2 'delimiter ;;: give one character' "$etude" predict --model-dir run --delimiter ';;'
says 3 'no such directory' "$etude" predict --model-dir nowhere
mkdir empty
says 3 'not a trained model of tables: it has neither params.yaml nor builder.yaml' "$etude" predict --model-dir empty
mkdir other
echo 'experiment: translation/tiny' >other/params.yaml
says 3 'this is a translation model; use `etude translate`' "$etude" predict --model-dir other
says 3 'there is no column colour' sh -c "echo long,wide | '$etude' predict --model-dir run"
echo '{"long": 1}' >one.jsonl
says 3 'one.jsonl is JSON' "$etude" predict --model-dir run --input-format csv --input one.jsonl
echo '{"long": 1, "colour": "red"}' >two.jsonl
says 3 'standard input is JSON: .*--input-format jsonl' sh -c "'$etude' predict --model-dir run <two.jsonl"
# What is no table, or none of these columns: what it is, where, and what to do.
printf '{"rows": []}' >a.json
printf '[\n {"long": 1},\n {"long": 2}]' >list.json
printf '<!DOCTYPE html>\n<html>' >page.csv
printf '%%PDF-1.4\n' >a.pdf
echo 'a line of text' >text.txt
for case in 'a.json is JSON' 'list.json is JSON' 'page.csv is a page of the web (HTML): download' \
    'a.pdf is a PDF file: save' \
    'text.txt:1: 1 column, but the schema has .*(long, wide, colour.*): name a table with these columns'; do
    says 3 "$case" "$etude" predict run --input "${case%%[ :]*}"
    says 3 "$case\|text.txt:1: 1 column, but" "$etude" evaluate run "${case%%[ :]*}"
done
says 3 'there is no column colour: add it' sh -c "echo long,wide | '$etude' predict --model-dir run"
: >none.csv
says 0 'warning: none.csv: no rows, so no predictions' "$etude" predict run --input none.csv
echo long,wide,colour >none.csv
says 0 'warning: none.csv: no rows' "$etude" predict run --input none.csv
mkdir several
cp -r run several/b
cp -r run several/a
for command in predict evaluate; do
    says 3 'several: a folder of runs; name one of them, such as several/a$' "$etude" $command several
done
says 3 'name the model first, then files' "$etude" predict rows.csv
says 3 'are the same file' "$etude" predict --model-dir run --input rows.csv --output rows.csv
cp -r run damaged
sed -i 's/"lily"/"tulip"/' damaged/metadata.json
says 3 'metadata' "$etude" predict --model-dir damaged --input rows.csv
rm -r damaged/best damaged/checkpoints
cp run/metadata.json damaged/
says 3 'no checkpoint yet' "$etude" predict --model-dir damaged --input rows.csv
# The ending of an output says its format.
"$etude" predict run rows.csv --output-format csv >expected.csv
"$etude" predict run rows.csv --output out.csv
cmp -s out.csv expected.csv || fail "out.csv is no CSV"
"$etude" predict run rows.csv --output out.jsonl
cmp -s out.jsonl expected.jsonl || fail "out.jsonl are no lines of JSON"
"$etude" predict run rows.csv --output out.csv --output-format jsonl
cmp -s out.csv expected.jsonl || fail "--output-format does not count"
says 2 'takes one run, but found rows.csv and run; name the run before files' "$etude" predict rows.csv run
says 2 'JSON lines or CSV' "$etude" predict run rows.csv --output out.tsv
says 2 '--output: - does not mean standard output; name a file' "$etude" predict run rows.csv --output -
"$etude" predict --help >out
grep -q 'batch-size N' out || fail "help"
echo "predictions of rows in $(ls | wc -l) ways"
