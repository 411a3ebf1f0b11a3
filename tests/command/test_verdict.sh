#!/bin/sh
# test_verdict.sh ETUDE: plainly bad data and results are named, with what to try; sound ones are not.
set -eu
. "$(dirname "$0")/command.sh"
export OMP_NUM_THREADS=1

# ---- data ----

# storms SHUFFLED: tracks of 60 storms, row by row alike; their names recur.
storms() {
    awk -v shuffled="$1" 'BEGIN { srand(7); print "name,year,month,lat,long,pressure,status"
        for (s = 0; s < 60; s++) {
            name = "N" int(40 * rand()); year = 1975 + int(s / 6); month = 6 + int(6 * rand())
            lat = 10 + 20 * rand(); long = -90 + 60 * rand(); wind = 20 + 60 * rand()
            for (k = 8 + int(30 * rand()); k > 0; k--) {
                lat += 0.4 * rand(); long -= rand(); wind += 6 * rand() - 3
                row[n++] = sprintf("%s,%d,%d,%.1f,%.1f,%d,%s", name, year, month, lat, long,
                    1015 - 0.7 * wind, wind > 64 ? "hurricane" : wind > 34 ? "storm" : "depression")
            }
        }
        for (i = n - 1; shuffled && i > 0; i--) { j = int((i + 1) * rand()); t = row[i]; row[i] = row[j]; row[j] = t }
        for (i = 0; i < n; i++) print row[i] }'
}
for shuffled in 0 1; do
    storms $shuffled >storms.csv
    says 0 'name  *rows with the same value are similar: .* --group name$' data analyze storms.csv --target status
    says 0 'same value are similar' data analyze storms.csv
done
sed '1s/name/storm "name"/' storms.csv >spaced.csv
says 0 "same value are similar: .* give --group 'storm \"name\"'\$" data analyze spaced.csv --target status
tells 0 'warning: column name: rows with the same value are similar' train a --experiment tabular/linear --data storms.csv --target status --steps 2
tells 0 '^done' train b --experiment tabular/linear --data storms.csv --target status --group name --steps 2
! grep 'same value are similar' said || fail '--group is given'
# Categories, a city whose prices differ, and patients with one row each.
awk 'BEGIN { srand(3); print "city,size,rooms,year,patient_id,price"
    for (i = 0; i < 900; i++) { c = int(40 * rand()); s = 40 + 160 * rand()
        printf "C%d,%d,%d,%d,%d,%d\n", c, s, s / 30 + 2 * rand(), 1950 + 70 * rand(), 1000 + i, s * (30 + c) } }' >city.csv
"$etude" data analyze city.csv --target price >out
! grep 'same value are similar\|so far away' out || fail 'a city is no group, and no price is far away'

# prices FACTOR: every 250th is FACTOR times too large.
prices() {
    awk -v factor="$1" 'BEGIN { srand(5); print "a,b,price"
        for (i = 0; i < 1500; i++) printf "%.3f,%.3f,%.2f\n", rand(), rand(), (100 + 80 * rand()) * (i % 250 == 7 ? factor : 1) }'
}
prices 100 >prices.csv
says 0 'price  *the value [0-9.]* is [0-9]* times the median, [0-9.]*; 6 of 1,500 values are so far away' data analyze prices.csv --target price
says 0 'warning: column price: the value ' train c --experiment tabular/linear --data prices.csv --target price --steps 2
prices 3 >prices.csv
"$etude" data analyze prices.csv --target price >out
! grep 'so far away' out || fail 'three times as large is not far'

# ---- texts ----

awk 'BEGIN { srand(2); print "text,y"; for (i = 0; i < 200; i++) { t = ""; n = i % 10 ? 8 : 40
    for (k = 0; k < n; k++) t = t "w" int(30 * rand()) " "; print t (i % 2 ? "good" : "bad") "," (i % 2 ? "yes" : "no") } }' >texts.csv
printf 'features:\n- {name: t, type: words, fields: text, transform: {buckets: 512, words: 12}}\n- {name: Y, type: target, fields: y}\n' >f.yaml
says 0 'warning: column text: [0-9]* of 170 texts have at least 12 words, and the model reads the first 12' train d --experiment tabular/mlp_small --data texts.csv --steps 2 --set task.features_path=f.yaml
sed -i 's/words: 12/words: 60/' f.yaml
"$etude" train e --experiment tabular/mlp_small --data texts.csv --steps 2 --set task.features_path=f.yaml >out 2>&1
! grep 'the model reads' out || fail 'no text is that long'

# ---- results ----

# No word occurs twice, so that all inputs are zeros.
awk 'BEGIN { print "text,y"; for (i = 0; i < 60; i++) print "x" i " y" i " z" i "," (i % 2 ? "yes" : "no") }' >alone.csv
printf 'features:\n- {name: t, type: words, fields: text, transform: {buckets: 65536, words: 4}}\n- {name: Y, type: target, fields: y}\n' >f.yaml
says 0 'warning: 8 of 9 parameters are not trained: their gradient was exactly zero in the first 10 updates (text_0/table' \
    train f --experiment tabular/mlp --data alone.csv --epochs 5 --set task.features_path=f.yaml
says 0 'warning: target y: the prediction is the same for every row, so the model has learned nothing' evaluate f alone.csv
# Half of the rows are no rare class: weights of classes would change nothing.
grep -q 'warning: target y: class [a-z]* (30 of 60 rows) is never predicted; try other columns' out || fail "half: $(cat out)"
says 0 'warning: all [0-9]* validations .* gave exactly the same values, so training changes no prediction' \
    train g --experiment tabular/mlp --data texts.csv --target y --epochs 4 --set trainer.optimizer_config.learning_rate.constant.learning_rate=0

awk 'BEGIN { srand(4); print "a,b,number,rare,coin"
    for (i = 0; i < 600; i++) printf "%.3f,%.3f,%.3f,%s,%s\n", rand(), rand(), rand() + (i % 40 == 0) * 30, (rand() < 0.1 ? "rare" : "often"), (rand() < 0.5 ? "up" : "down") }' >noise.csv
more='--set task.model.mlp.columns.bins=40,task.model.mlp.dropout=0,trainer.best_checkpoint_eval_metric=null,trainer.early_stopping.patience=0'
says 0 'warning: target number: r2 is -[0-9.]*, which is worse than to predict the mean' train h --experiment tabular/mlp --data noise.csv --target number --epochs 60 $more
says 0 'warning: target rare: class rare ([0-9]* of 90 rows) is never predicted; train with --class-weights balanced' train i --experiment tabular/linear --data noise.csv --target rare --epochs 3
says 0 'is never predicted' evaluate i
says 0 'warning: target coin: the log loss is [0-9.]*, which is worse than' train j --experiment tabular/mlp --data noise.csv --target coin --epochs 60 $more
"$etude" evaluate i noise.csv --json >out 2>/dev/null
grep -q '"target": "rare"' out || fail 'the target has no name'

# A sound model has no such line.
says 0 '^done' train k --experiment tabular/mlp --data texts.csv --target y --epochs 10
! grep 'warning: target\|not trained\|changes no' out || fail 'a sound model is blamed'
says 0 '^target  *y$' evaluate k
! grep 'warning' out || fail 'a sound model is blamed'
# Tables have no translations to compare.
tells 2 'compare: --translations is for translation models, and i is a tabular model; leave the option out' compare i k --translations
tells 0 '^experiment' compare i k
echo 'verdicts: named where they are due'
