#!/bin/sh
# test_table.sh ETUDE: training of a table by one command. Settings that are not given are inferred
# and kept; a killed run ends with the bytes of an unbroken one; a message about a faulty table has
# file, line, column, value and cure.
set -eu
. "$(dirname "$0")/command.sh"
export OMP_NUM_THREADS=1

make_table

train() {
    code=$1 text=$2
    shift 2
    says "$code" "$text" train --experiment tabular/mlp --target kind "$@"
}

# Thousandths of the newest value of a key in a run's log.
value() {
    grep -o "\"$2\":[0-9.e+-]*" "$1/metrics.jsonl" | tail -1 | awk -F: '{ printf "%d", 1000 * $2 }'
}

# ---- from one command --------------------------------------------------------------------------

train 0 '^done  *60 steps' whole --data t.csv --steps 60
for file in schema.yaml metadata.json features.yaml params.yaml; do
    [ -s whole/$file ] || fail "no $file in the run"
done
train 0 '^done  *20 steps' parts --data t.csv --steps 20
says 0 '^done  *60 steps' train parts --steps 60
tail -c 20000 whole/checkpoints/ckpt-60.safetensors >whole.tail
tail -c 20000 parts/checkpoints/ckpt-60.safetensors >parts.tail
cmp whole.tail parts.tail >out 2>&1 || fail "a run that was started again ends elsewhere"
kills=0
attempt() {
    code=0
    timeout --foreground --preserve-status -s KILL "$1" "$etude" train --experiment tabular/mlp \
        --target kind killed --data t.csv --steps 60 --set trainer.checkpoint_interval=5 >out 2>&1 || code=$?
    [ $code = 0 ] || [ $code = 137 ] || fail "a run that was killed ends with $code"
    [ $code = 0 ] || kills=$((kills + 1))
}
for delay in 0.1 0.15 0.2 0.25; do
    attempt $delay
done
for delay in 0.05 0.02 0.01; do # a machine that is faster than all of these
    [ $kills -gt 0 ] || { rm -rf killed && attempt $delay; }
done
[ $kills -gt 0 ] || fail "no kill came before the end of a run"
train 0 '^\(done\|finished\)' killed --data t.csv --steps 60 --set trainer.checkpoint_interval=5
tail -c 20000 killed/checkpoints/ckpt-60.safetensors >killed.tail
cmp whole.tail killed.tail >out 2>&1 || fail "after $kills kills a run ends elsewhere"

# A decay in epochs is one in as many steps: 2 passes over 340 rows, 16 a step (two batches of 8).
decaying() {
    train 0 "^done  *$1 steps" "$2" --data t.csv --set trainer.gradient_accumulation=2 --set \
        trainer.train_epochs=2 --set "trainer.optimizer_config.learning_rate={type: cosine, \
cosine: {initial_learning_rate: 0.01, decay_steps: $3}}" ${4:+"$4" "$5"}
}
decaying 43 epochs 2ep
decaying 43 steps 43
decaying 43 longer 4ep
# Without a length of its own it is that of the run, also of one that was killed after 20 steps.
decaying 43 whole_run auto --set trainer.checkpoint_interval=20,trainer.max_to_keep=5
mkdir -p resumed/checkpoints
cp whole_run/*.* resumed
cp whole_run/checkpoints/ckpt-20.safetensors resumed/checkpoints
says 0 '^resuming  *at step 20 of 43' train resumed
for run in epochs steps longer whole_run resumed; do
    tail -c 20000 $run/checkpoints/ckpt-43.safetensors >$run.tail
done
cmp epochs.tail steps.tail >out 2>&1 || fail 'a decay of 2ep is none of 43 steps'
cmp -s epochs.tail longer.tail && fail 'a decay of 4ep is that of 2ep'
cmp epochs.tail whole_run.tail >out 2>&1 || fail 'a decay to the end of 2 passes is none of 2ep'
cmp epochs.tail resumed.tail >out 2>&1 || fail 'a run that was resumed ends elsewhere'
# A run of another length has another rate, which is asked for; a decay of its own stays, and ends.
says 3 'cosine.decay_steps: 2ep, but now it is 4ep. Add --accept-changes to resume' train whole_run --epochs 4
says 0 '^finished  *at step 43 of 43' train whole_run
says 0 'decay_steps is 4ep from now on; it was 2ep' train whole_run --epochs 4 --accept-changes
[ "$(value whole_run step)" = 86000 ] || fail "a longer run ends at step $(value whole_run step)"
grep -q 'decay_steps: 0' whole_run/params.yaml || fail 'settings are not as they were given'
says 0 'the learning rate is 0 from step 43 of 86 on, .* the model learns nothing' train epochs --epochs 4
rate=trainer.optimizer_config.learning_rate
train 0 'the learning rate of the first update is 1e+06 (power_with_offset.pre_' trap --data t.csv --steps 1 \
    --set "$rate={type: power_with_offset, power_with_offset: {initial_learning_rate: 0.01}}"
train 0 '^done' comes_back --data t.csv --steps 9 \
    --set "$rate={type: polynomial, polynomial: {initial_learning_rate: 0.01, cycle: true, decay_steps: 4}}" \
    --set "$rate.polynomial.end_learning_rate=0"
! grep -q 'on, so the model learns nothing there; a decay without decay_steps ends with the run' out || fail 'a rate that comes back from 0 is taken for its end'

# The same files in another run; others belong to no checkpoint of it.
train 0 '^done' again --data t.csv --steps 20 --set task.features_path=whole/features.yaml
sed 's/clip/scale/' whole/features.yaml >changed.yaml
cp changed.yaml whole/features.yaml
says 3 'features.yaml' train whole --steps 80

says 0 '^accuracy' evaluate parts
printf 'kind,price,size,colour\nround,3,4,red\n,,,\nflat,99,12,green\n' >rows.csv
"$etude" predict parts <rows.csv >out 2>&1 || fail "predict: exit $?"
[ "$(grep -c '^{"label": "' out)" = 3 ] || fail "predict: three rows"

# ---- several tables by weight ------------------------------------------------------------------

# Two that contradict each other: what has the weight is learnt. Lines 2 to 401 of each.
awk 'BEGIN {
    print "a,b,kind" >"ours.csv"; print "a,b,kind" >"theirs-1.csv"; print "a,b,kind" >"theirs-2.csv"
    for (i = 0; i < 400; i++) {
        a = i * 37 % 101; b = i * 53 % 97
        print a "," b "," (a > b ? "more" : "less") >"ours.csv"
        print a "," b "," (a > b ? "less" : "more") >("theirs-" 1 + i % 2 ".csv")
    }
}'
mixed() {
    says "$1" "$2" train --experiment tabular/mlp --target kind --valid ours.csv --set \
        "task.train_data.mix=[{input_path: ours.csv, weight: $3}, {input_path: 'theirs-*.csv', weight: $4}]" \
        "$5" --steps "$6" --set task.train_data.batch_size=32 --set trainer.checkpoint_interval=50
}
mixed 0 '^data  *800 rows, 3 columns; a mix of 2 tables$' 30 1 for 100
mixed 0 '^done' 1 30 against 100
[ "$(value for validation_accuracy)" -gt 900 ] || fail "of weight 30: $(value for validation_accuracy)"
[ "$(value against validation_accuracy)" -lt 100 ] || fail "of weight 1: $(value against validation_accuracy)"
mixed 0 '^done' 30 1 halves 50
says 0 '^done' train halves --steps 100
for run in for halves; do
    tail -c 20000 $run/checkpoints/ckpt-100.safetensors >$run.tail
done
cmp for.tail halves.tail >out 2>&1 || fail "a mix that was started again ends elsewhere"
! grep -q 'other validation data' out || fail 'the same rows are called others'

# The best of rows that are not validated with any more is none, however good it was.
says 0 'the best step so far, .*, is from other validation data' train halves --steps 110 --valid theirs-1.csv
grep -q '"best_ckpt_global_step": *110\b' halves/best/info.json || fail 'the best is of other rows'
says 3 'halves was trained on other rows' train halves --steps 120 --set \
    "task.train_data.mix=[{input_path: ours.csv, weight: 2}, {input_path: 'theirs-*.csv'}]"
says 3 'train_data.mix\[1\]: theirs-1.csv: no row is left for training; leave this table out, or change held_out or limit' train --experiment tabular/mlp \
    --target kind short --set task.train_data.limit=300 --set \
    "task.train_data.mix=[{input_path: ours.csv}, {input_path: 'theirs-*.csv'}]"

# ---- how the table is written ------------------------------------------------------------------

# Markers of missing values are the run's: analyze, training and prediction have the same.
awk -F, 'NR > 1 { $1 = NR % 7 ? $1 : "-99"; $2 = NR % 11 ? $2 : "n.a." }
    { print $1 ";" $2 ";" $3 ";" $4 }' OFS=';' t.csv | tr -s ';' >odd.csv
says 0 '^size .*' data analyze odd.csv --missing -99 --missing n.a. --output odd --target kind
sed 's/n\.a\./"n.a."/' odd.csv >inside.csv
says 0 '^size .*' data analyze inside.csv --missing -99 --missing n.a. --output inside --target kind
cmp odd/metadata.json inside/metadata.json || fail 'a marker in quotes is a value'
train 0 '^done' marked --data odd.csv --steps 5 --delimiter ';' --missing -99 n.a.
grep -q '^  missing: \["-99", n.a.\]$' marked/params.yaml || fail 'markers are not kept'
cmp odd/metadata.json marked/metadata.json || fail 'other metadata than analyze has'
train 0 '^done' usual --data odd.csv --steps 5
cmp -s usual/metadata.json marked/metadata.json && fail 'markers change nothing'
rows='size;colour;price\n-99;n.a.;4\n;;4\n'
printf "$rows" | "$etude" predict marked >out || fail 'predict'
[ "$(sed -n 1p out)" = "$(sed -n 2p out)" ] || fail 'predict: a marker is a value'
printf "$rows" | "$etude" predict usual >out 2>&1 || :
[ "$(sed -n 1p out)" != "$(sed -n 2p out)" ] || fail 'the usual markers are these'
"$etude" export marked --output marked.safetensors 2>said || fail 'export'
printf "$rows" | "$etude" predict marked.safetensors >out || fail 'predict an export'
[ "$(sed -n 1p out)" = "$(sed -n 2p out)" ] || fail 'an export forgets the markers'
train 3 'task.missing: \["-99", n.a.\], but now it is \[\]' marked --data odd.csv --steps 6 \
    --set 'task.missing=[]'
sed 's/^  missing: .*/  missing: []/' marked/params.yaml >changed.yaml
cp changed.yaml marked/params.yaml
says 3 'task.missing is \[\], but was' predict marked
train 0 '^done' kept --data odd.csv --steps 1 --set task.entries=2,task.quantiles=5
cmp -s kept/metadata.json usual/metadata.json && fail 'entries and quantiles change nothing'
sed 's/,/|/g; 3s/^/# /' t.csv >piped.csv
train 0 '^data         399 rows' piped --data piped.csv --steps 1 --delimiter '|' --comment '#' \
    --header true
train 3 'task.delimiter: "||" is more than one character' bad --data piped.csv --delimiter '||'
train 3 'task.header: .*maybe' bad --data piped.csv --header maybe
[ ! -e bad ] || fail 'a start that failed leaves bad/'

# ---- bad tables --------------------------------------------------------------------------------

sed '7s/.*/1,2/' t.csv >bad.csv
train 3 'bad.csv:7: 2 columns, where 4 are expected' bad --data bad.csv
sed '9s/^/"/' t.csv >bad.csv
train 3 'bad.csv:9: column 1: the quote that opens here is never closed' bad --data bad.csv
{ head -n 5 t.csv; printf '1,re\000d,3,flat\n'; } >bad.csv
train 3 'bad.csv:6: column 2: a NUL byte' bad --data bad.csv
{ head -n 5 t.csv; printf '1,re\377d,3,flat\n'; } >bad.csv
train 3 'bad.csv:6: column 2: the byte 0xFF is not UTF-8' bad --data bad.csv
sed '6s/,[0-9.]*,\([a-z]*\)$/,1e999,\1/' t.csv >bad.csv
train 3 'bad.csv:6: column price: "1e999" is too large for a double: correct it' bad --data bad.csv
sed '6s/,[0-9.]*,\([a-z]*\)$/,0x1p3,\1/' t.csv >bad.csv
train 3 'bad.csv:6: column price: "0x1p3" is not a number' bad --data bad.csv
sed '1s/size/colour/' t.csv >bad.csv
train 3 'bad.csv:1: columns 1 and 2 are both called "colour"' bad --data bad.csv
sed 's/flat$/round/' t.csv >bad.csv
train 3 '^etude: the target kind has only one class, "round"' bad --data bad.csv
sed 's/flat$/NA/' t.csv >bad.csv
train 3 'has only one class, "round", and 134 rows have no value: outside quotes ?, NA, .* quote or rename it' \
    bad --data bad.csv
sed 's/flat$/"NA"/' t.csv >quoted.csv
train 0 'target  *kind: 2 classes: .*NA' quoted --data quoted.csv --steps 1
sed 's/round$/NA/; 2s/flat$/oval/' t.csv >bad.csv
train 0 'rows have no target and are left out (outside quotes ?, NA, ' filtered --data bad.csv --steps 1
sed '6s/,[0-9.]*,\([a-z]*\)$/,cheap,\1/' t.csv >bad.csv
train 3 'bad.csv:6: column price: "cheap" is not a number, but the schema says real: correct it' bad \
    --data bad.csv
sed '6s/,[0-9.]*,\([a-z]*\)$/,inf,\1/' t.csv >bad.csv
train 3 'bad.csv:6: column price: "inf" is not a number' bad --data bad.csv
{ head -n 5 t.csv; head -c 17000000 /dev/zero | tr '\0' x; echo; } >bad.csv
train 3 'bad.csv:6: a row of more than 16777216 bytes: write one row per line' bad --data bad.csv
sed 's/flat$/oval/' t.csv | head -n 50 >bad.csv
train 3 'bad.csv:2: column kind: the label "oval" is not one of the 2 in the metadata (round, flat)' \
    bad --data t.csv --valid bad.csv
: >bad.csv
train 3 'bad.csv: the file has no rows' bad --data bad.csv
head -n 1 t.csv >bad.csv
train 3 'bad.csv: the file has a header and no rows' bad --data bad.csv
train 3 'cannot open none.csv' bad --data none.csv
awk 'BEGIN { print "a,y"; for (i = 0; i < 60; i++) print (i % 3 - 1) "e308," i % 2 }' >far.csv
says 3 'feature a: a has values from -1e+308 to 1e+308, and their difference is too large for a double: correct them' \
    train --experiment tabular/linear far --data far.csv --target y
# One column is perhaps several.
printf 'a^b\n1^2\n' >caret.csv
says 3 'no column "b".* The file has 1: a^b; if it has more, give the character between columns: --delimiter' data analyze caret.csv \
    --target b
says 3 'there is no column "kin". Nearest: kind. The file has 4: size, colour, price, kind$' train --experiment tabular/mlp --target kin bad \
    --data t.csv
says 3 'task.target is not set; name the column to predict, for example with --target price (`etude data analyze FILE` lists the columns)' train --experiment tabular/mlp bad --data t.csv
says 3 'the target price is a number' train --experiment tabular/mlp --target price bad --data t.csv \
    --set task.loss=softmax
says 3 'target_type is number, but the target colour has texts such as "[a-z]*"; choose class' train \
    --experiment tabular/mlp --target colour bad --data t.csv --set task.target_type=number
# Schema, metadata and features that are wrong, or do not go together: all that disagrees at once.
sed 's/price/cost/' t.csv >bad.csv
train 3 'bad.csv:1: the header does not match the schema: there is no column price' bad \
    --data bad.csv --set task.schema_path=usual/schema.yaml
features='task.schema_path=parts/schema.yaml,task.metadata_path=parts/metadata.json'
features="$features,task.features_path=bad.yaml"
sed 's/clip/clipp/' parts/features.yaml >bad.yaml
train 3 'bad.yaml:[0-9]*: unknown type "clipp". Nearest: clip' bad --data t.csv \
    --set "$features"
sed 's/type: embed/type: log/' parts/features.yaml >bad.yaml
train 3 'feature colour: log does not work on discrete fields such as colour: use embed' bad \
    --data t.csv --set "$features"
printf 'features:\n- {name: a, type: concat, features: [b]}\n- {name: b, type: concat, features: [a]}\n%s\n' \
    '- {name: Y, type: target, fields: [kind]}' >bad.yaml
train 3 'bad.yaml:3: feature a contains itself' bad --data t.csv --set "$features"
sed 's/price/cost/; s/colour/hue/' parts/features.yaml >bad.yaml
train 3 'do not match, in 2 places: (1) .*the schema has no field cost; (2) .*the schema has no field hue' bad \
    --data t.csv --set "$features"
[ ! -e bad ] || fail "a start that failed leaves a run"
# A target of numbers that lie close together is no class.
awk 'BEGIN { print "a,y"; for (i = 0; i < 300; i++) print i % 31 "," i % 31 / 40 }' >close.csv
says 0 'target  *y: a number' train --experiment tabular/linear close --data close.csv --target y --steps 3
# What spreadsheets write: the delimiter on a line of its own, commas between thousands.
{ printf 'sep=;\r\na;y\r\n'; for i in $(seq 100); do printf '%d;%d\r\n' $((i % 9)) $((i % 2)); done; } >sep.csv
says 0 '^sep.csv: 100 rows of 2 columns, .* delimiter ";", with a header' data analyze sep.csv --dry-run
train 0 '^data  *100 rows' sep --data sep.csv --target y --steps 1
printf 'sep=;\r\na;y\r\n4;1\r\n' | "$etude" predict sep >out 2>&1 && [ "$(wc -l <out)" = 1 ] || fail "predict: $(cat out)"
awk 'BEGIN { print "d,n,y"; for (i = 0; i < 200; i++) printf "%02d/%02d/2024,\"%d,%03d\",%d\n", i % 28 + 1,
    i % 12 + 1, i % 40 + 1, i * 37 % 100, i % 2 }' >thousands.csv
says 0 'n  *no value shows the decimal mark: "1,000" in thousands.csv:2 is read as 1000; if it means 1, write .notation: comma.' data analyze thousands.csv --dry-run
grep -q '^n  *integer  *number, standardized, clipped (written like 1,234.50)$' out || fail "thousands: $(cat out)"
grep -q '^d  *discrete  date, its parts (day-first)$' out || fail "dates: $(cat out)"
awk 'BEGIN { print "born,n,y"; for (i = 0; i < 200; i++) printf "%02d.%02d.%02d,%d,%d\n", i % 28 + 1,
    i % 12 + 1, 40 + i % 50, i % 40 + 1, i % 2 }' >born.csv
century='born  *its years have two digits, and "[0-9.]*.68" is read as a date of 2068: if 1968 is right, write'
says 0 "$century" data analyze born.csv --dry-run
says 0 "column born: its years" train born --experiment tabular/linear --data born.csv --target y --steps 1
for years in 's/\.\([0-9][0-9]\),/.19\1,/' 's/\.[0-9][0-9],/.24,/'; do
    sed "$years" born.csv >years.csv
    says 0 'born  *discrete  *date, its parts' data analyze years.csv --dry-run
    ! grep -q 'two digits' out || fail "warns of years: $(cat out)"
done
sed '2s/.*/9999-12-31,1,0/; s/^\([0-9]*\)\.\([0-9]*\)\.[0-9]*,/2024-\2-\1,/' born.csv >open.csv
says 0 'born  *its last date has the year 9999, .*give --missing DATE' data analyze open.csv --dry-run
says 0 'born  *discrete  *date, its parts; whether' data analyze open.csv --missing 9999-12-31
# Dates with words of other languages are named; other texts with numbers are not.
awk 'BEGIN { split("Mai Dezember März Juni Juli Oktober Mai", name, " "); print "de,es,ja,car,y"
    for (i = 0; i < 210; i++) printf "%d. %s 2024,%d de %s de 2024,2024年%d月%d日,BMW %d.%d,%d\n", i % 28 + 1,
        name[i % 7 + 1], i % 28 + 1, "mayo", i % 12 + 1, i % 28 + 1, i % 9 + 1, i % 30 + 2000, i % 2 }' >words.csv
for date in 'de  *its texts are dates, such as "1. Mai 2024"' 'es  *its texts are dates, such as "1 de mayo' \
    'ja  *its texts are dates, such as "2024年1月1日"'; do
    says 0 "$date.*: to have dates, write them as 2024-05-31 or 2024-05-31T12:30" data analyze words.csv --dry-run
done
! grep -q '^car .*dates' out || fail "cars: $(cat out)"
# Numbers that are dates are named, also with the day or the month first and without their first 0.
awk 'BEGIN { print "ymd,ym,dmy,mdy,code,part,y"; for (i = 0; i < 60; i++) { d = i * 7 % 28 + 1; m = i % 12 + 1
    printf "2024%02d%02d,%d%02d,%d%02d2023,%d%02d1999,%d,3%d%02d,%d\n", m, d, 1990 + i % 20, m, d, m, m, d, 1011999 + i * 1300, 1990 + i % 20, m, i % 2 } }' >numbers.csv
for date in 'ymd  *.* such as 20241222, .* as numbers: .* 2024-05-31' 'ym  *.* 200912, .* as numbers: .* 2024-05$' \
    'dmy  *.* such as 22122023, .* as numbers, which have another order: .* 2024-05-31' 'mdy  *.* such as 12221999, .* another order'; do
    says 0 "$date" data analyze numbers.csv --dry-run --target y
done
! grep -qE '^(code|part) .*dates' out || fail "codes: $(cat out)"
printf 'PK\003\004abc\000' >t.xlsx
says 3 't.xlsx is a zip archive, as spreadsheets are' data analyze t.xlsx
echo '{"a": 1, "y": 2}' >t.json
says 3 't.json is JSON: save the table as CSV, or as JSON lines' data analyze t.json
# JSON lines give the same run as CSV: a missing key, a null and an empty cell are a missing value.
awk 'BEGIN { print "n,c,f,y" >"same.csv"; for (i = 0; i < 300; i++) {
    printf "%s,%s,%s,%s\n", i % 7 ? i * 37 % 101 / 4 : "", i % 5 ? "c" i % 4 : "", i % 3 ? "true" : "false", i % 2 ? "yes" : "no" >"same.csv"
    printf "{%s%s, \"f\": %s, \"y\": \"%s\"}\n", i % 7 ? "\"n\": " i * 37 % 101 / 4 ", " : i % 2 ? "" : "\"n\": null, ",
        "\"c\": " (i % 5 ? "\"c" i % 4 "\"" : "null"), i % 3 ? "true" : "false", i % 2 ? "yes" : "no" >"same.jsonl" } }'
for kind in csv jsonl; do
    train 0 '^data  *300 rows, 4 columns' "same-$kind" --data "same.$kind" --target y --steps 20
done
for file in schema.yaml metadata.json features.yaml best/model.safetensors; do
    [ ! -e "same-csv/$file" ] || cmp "same-csv/$file" "same-jsonl/$file" || fail "JSON lines: another $file"
done
"$etude" predict same-csv --input same.csv >predicted.csv && "$etude" predict same-jsonl --input same.jsonl >predicted.jsonl
cmp predicted.csv predicted.jsonl || fail 'JSON lines: other predictions'
gzip -c same.jsonl >packed.ndjson.gz
says 0 'accuracy' evaluate same-csv packed.ndjson.gz
says 0 '^same.jsonl: 300 rows of 4 columns, .* JSON lines$' data analyze same.jsonl --dry-run
echo '{"n": 1, "c": {"d": 2}}' >>same.jsonl
train 3 'same.jsonl:301: column c is an object: give one value (write a column for each part, such as c.d)' nested \
    --data same.jsonl --target y
[ ! -e nested ] || fail 'a start that failed leaves a run'
# Integers that count are classes, as analyze has it; commas and units are read.
{ echo 'a;b;y'; for i in $(seq 200); do echo "$((i % 13)),5;$((i % 7)) kg;$((i % 3))"; done; } >euro.csv
says 0 'target  *y: 3 classes: .*task.target_type=number' train --experiment tabular/linear euro --data euro.csv --target y --steps 2
grep -q 'a  *real .*(written like 1.234,50)' out && grep -q 'b  *integer .*(written like 1,234.50 kg)' out || fail "$(cat out)"
says 0 'target  *y: a number$' train --experiment tabular/linear euros --data euro.csv --target y --steps 2 \
    --set task.target_type=number
# Asked for, all whole numbers are classes, also 10115 and 80331; more than 1,000 are refused. Texts of digits stay texts.
{ echo 'a,zip,code,n,when'; for i in $(seq 200); do
    echo "$i,$((10115 + i % 3 * 35108)),00$((i % 3)),$((i * 7)),$((1800 + i))-05-31"; done; } >zip.csv
says 0 'target  *zip: 3 classes: 45223, 80331, 10115$' train --experiment tabular/linear zips --data zip.csv --target zip \
    --steps 2 --set task.target_type=class
says 0 'target  *zip: a number$' train --experiment tabular/linear amounts --data zip.csv --target zip --steps 2
says 0 'target  *code: 3 classes: 001, 002, 000$' train --experiment tabular/linear codes --data zip.csv --target code --steps 2
says 3 'target_type is number, but by the schema and features the target zip has classes; change these files' train \
    --init zips --data zip.csv --set task.target_type=number refused
says 3 'the target n has 200 different values in 200 rows, too many .*, or make it real in the schema' train \
    --experiment tabular/linear ns --data zip.csv --target n --set task.target_type=class
{ echo 'a,n'; for i in $(seq 2100); do echo "$i,$((i % 1050))"; done; } >wide.csv
says 3 'target_type is class, but the target n has whole numbers from 0 to 1049, too many' train \
    --experiment tabular/linear wides --data wide.csv --target n --set task.target_type=class
says 3 'the target when has 200 different values .*; name another column, or write its dates as numbers' train \
    --experiment tabular/linear dates --data zip.csv --target when
# What is no error has a defined result: no value, a column that says nothing.
sed '6s/,[0-9.]*,\([a-z]*\)$/,nan,\1/' t.csv >odd.csv
train 0 '^done' nan --data odd.csv --steps 1
grep -q '"price".*"missing": *1[,}]' nan/metadata.json || fail 'nan is no value'
sed 's/^[0-9]*,/7,/' t.csv >odd.csv
says 0 '^size  *constant: ignored' data analyze odd.csv --dry-run
train 0 '^done' constant --data odd.csv --steps 1
sed 's/^[0-9]*,/,/' t.csv >odd.csv
says 0 '^size  *no row has a value: ignored' data analyze odd.csv --dry-run
train 0 '^done' hollow --data odd.csv --steps 1
for run in nan constant hollow; do
    tail -n 1 $run/metrics.jsonl | grep -qi 'nan\|inf"' && fail "$run: a value is not a number"
    printf '3,red,4\n,,\n' | "$etude" predict $run >out 2>&1 || fail "predict $run"
    grep -qi 'nan' out && fail "predict $run: no number"
done
# A column of integers takes a fraction; one that is said to be integer does not.
printf 'size,colour,price\n3.5,red,4\n' >rows.csv
says 0 '"label": "\(round\|flat\)"' predict epochs --input rows.csv
grep -q 'fractions: true' epochs/schema.yaml || fail 'a schema that is inferred does not say that it takes fractions'
sed '/fractions: true/d' epochs/schema.yaml >strict.yaml
train 0 '^done' strict --data t.csv --steps 1 --set task.schema_path=strict.yaml
says 3 'column size: 3.5 is not an integer, but the schema says' predict strict --input rows.csv
printf 'size,colour\n3,red\n' >rows.csv
says 3 'there is no column price' predict parts --input rows.csv
says 3 'is a run of tabular/mlp, a task of tabular, not of translation' train --experiment translation/tiny parts --data t.csv t.csv --steps 5

# ---- several files ------------------------------------------------------------------------------

# Columns are found by name in each of them: the run is the one of their rows in one file.
head -200 t.csv >first.csv
{ head -1 t.csv; tail -n +201 t.csv; } | awk -F, '{ printf "%s;%s;%s;%s\n", $4, $2, $1, $3 }' >second.csv
{ cat first.csv; tail -n +201 t.csv; } >both.csv
cmp both.csv t.csv
for schema in '' '--set task.schema_path=one/schema.yaml'; do
    rm -rf one.new two.new
    train 0 '^done' one.new --data both.csv --steps 5
    [ -d one ] || mv one.new one
    # shellcheck disable=SC2086
    train 0 '^done' two.new --data first.csv --data second.csv --steps 5 $schema
    cmp one/metadata.json two.new/metadata.json || fail 'statistics of two files are others'
    cmp one/schema.yaml two.new/schema.yaml || fail 'the schema of two files is another'
    tail -c 20000 one/checkpoints/ckpt-5.safetensors >one.tail
    tail -c 20000 two.new/checkpoints/ckpt-5.safetensors >two.tail
    cmp one.tail two.tail || fail 'a run of two files ends elsewhere'
done
sed '1s/price/prize/' second.csv >third.csv
train 3 'third.csv:1: the header differs from the header of first.csv; this file lacks price; this file also has prize' odd --data first.csv \
    --data third.csv --steps 5
train 3 'third.csv:1: the header differs from the header of second.csv; this file lacks price; this file also has prize' odd \
    --data first.csv --valid second.csv --valid third.csv --steps 5

# A column may be called as what means that there is no value.
sed '1s/.*/NA,null,?,kind/' t.csv >names.csv
{ head -1 t.csv; tail -n +201 t.csv; } | awk -F, 'NR == 1 { print "?,kind,NA,null"; next }
    { print $3 "," $4 "," $1 "," $2 }' >names2.csv
train 0 '^done' names --data names.csv --data names2.csv --steps 5
says 0 '"label"' predict names --input names.csv
printf 'null,NA,?\nred,3,4\n' | "$etude" predict names >got
printf '3,red,4\n' | "$etude" predict names | cmp - got || fail 'names that mean no value: other predictions'
printf 'NA,red,4\n' | "$etude" predict names >got
printf '{"NA": null, "null": "red", "?": 4}\n' | "$etude" predict names --input-format jsonl | cmp - got ||
    fail 'a first row of values that lacks one: other predictions'

# Rows that are scored may have what training has never seen: it is counted.
sed '4s/,red,/,green,/; 9s/,red,/,green,/; 12s/,blue,/,,/' t.csv >unseen.csv
train 0 'warning: unseen.csv: colour: 2 of 400 values unknown to the model, first "green" in line 4$' scored \
    --data t.csv --valid unseen.csv --steps 5
grep -q 'warning: unseen.csv: colour: 1 of 400 values missing, and none was missing in training, first in line 12$' out ||
    fail 'a value that is missing is not counted'
says 0 'unseen.csv: colour: 2 of 400 values unknown' evaluate scored
train 0 'warning: t.csv and others: colour: 2 of 800 values unknown to the model, first "green" in row 403$' \
    scored.more --data t.csv --valid t.csv --valid unseen.csv --steps 1

echo "tables: $kills kills, equal bytes"
