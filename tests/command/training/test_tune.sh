#!/bin/sh
# test_tune.sh ETUDE: successive halving: trials are runs, values come from the seed, a killed search
# continues and ends as a whole one, a time limit and signals stop it; other kinds of task; mistakes.
set -eu
. "$(dirname "$0")/../command.sh"
pid=
trap '[ -z "$pid" ] || kill -9 "$pid" 2>/dev/null || true; rm -rf "$work"' EXIT

awk 'BEGIN {
    print "size,colour,kind"
    for (i = 0; i < 400; i++) {
        size = i * 37 % 101; colour = i % 2 ? "red" : "blue"
        print size "," colour "," (size + (colour == "red" ? 25 : 0) + i * i % 31 - 15 > 60 ? "yes" : "no")
    }
}' >train.csv

options='--data train.csv --target kind --epochs 9 --trials 9 --search lr=1e-4..1e-1:log --search layers=1..3
    --search task.model.mlp.norm=none,layer'
tune() {
    # shellcheck disable=SC2086
    "$etude" tune tabular/mlp "$@" $options
}
# The table without times.
table() {
    sed -n '/^trial /,/^best/p' "$1" | awk '{ $5 = ""; print }' | sed 's/[a-z]*\/rung/rung/'
}
tune whole >whole.out 2>whole.err || fail "tune: $(cat whole.out whole.err)"
[ "$(ls whole/rung-1 | wc -l)" = 9 ] && [ "$(ls whole/rung-2 | wc -l)" = 3 ] && [ "$(ls whole/rung-3 | wc -l)" = 1 ] ||
    fail "rungs: $(ls whole/*)"
[ "$(sed -n '/^trial /,/^best/p' whole.out | wc -l)" = 11 ] || fail "table: $(cat whole.out)"

# The values are of the forms that were asked for, and differ.
sed -n '2,10p' whole.out | awk '{ if ($6 < 1e-4 || $6 > 1e-1 || $7 !~ /^[123]$/ || $8 !~ /^(none|layer)$/) exit 1; seen[$6]++; layers[$7]++; norms[$8]++ }
    END { for (s in seen) n++; for (l in layers) k++; for (o in norms) m++; exit n < 9 || k < 2 || m < 2 }' || fail "values: $(cat whole.out)"
# The best trial is that of the last rung, and the best of its rung was taken there.
best=$(sed -n 's/^best  *trial [0-9]*: //p' whole.out)
[ "$best" = whole/rung-3/$(ls whole/rung-3) ] || fail "best: $best"
awk '$2 == 2 { if (n++ && $3 < last) exit 1; last = $3 }' whole.out || fail "order: $(cat whole.out)"
grep -q "^use it  *etude predict $best$" whole.out || fail "use: $(cat whole.out)"
"$etude" predict "$best" --full <train.csv >whole.predicted 2>&1 || fail "the best trial: $(cat whole.predicted)"
# A trial is what `train` makes with these words.
words=$(sed -n 's/^train anew  *etude train //p' whole.out)
"$etude" train --model-dir anew $words -q --set trainer.train_epochs=9.000 >out 2>&1 || fail "train anew: $(cat out)"
"$etude" predict anew --full <train.csv | cmp - whole.predicted || fail "training anew gives another model"
says 0 'whole/rung-1/trial-0[1-9]' runs whole

# A second start reads what is done. Another search is refused there.
"$etude" runs whole >before
tune whole >again.out 2>again.err || fail "again: $(cat again.err)"
table whole.out >wanted
table again.out | cmp - wanted || fail "a second start: $(cat again.out)"
says 2 'whole has another search: its search differ' tune tabular/mlp whole --data train.csv --target kind --epochs 9 --trials 9 --search lr=1e-4..1e-2:log
says 2 'its trials differs' tune tabular/mlp whole --data train.csv --target kind --epochs 9 --trials 10 --rungs 3 \
    --search lr=1e-4..1e-1:log --search layers=1..3 --search task.model.mlp.norm=none,layer

# Kills change nothing.
kills=0
for delay in 0.4 0.7 1.1 1.5 0.9; do
    # shellcheck disable=SC2086
    "$etude" tune tabular/mlp killed $options >killed.out 2>killed.err &
    pid=$!
    sleep $delay
    # Stopped, so that it cannot end meanwhile.
    if [ $delay = 0.7 ] && kill -STOP $pid 2>/dev/null && sleep 0.1 && grep -q '^[^)]*) T' /proc/$pid/stat 2>/dev/null; then
        # shellcheck disable=SC2086
        says 1 'killed: another process searches there' tune tabular/mlp killed $options
    fi
    kill -9 $pid 2>/dev/null && kills=$((kills + 1))
    wait $pid 2>/dev/null || true
    sleep 0.3
    pid=
done
[ $kills -gt 0 ] || fail "no kill came in time"
sleep 0.3
tune killed >killed.out 2>killed.err || fail "after kills: $(cat killed.err)"
table killed.out | cmp - wanted || fail "after $kills kills: $(cat killed.out)"
"$etude" predict "killed/${best#whole/}" --full <train.csv | cmp - whole.predicted || fail "after kills: another model"

# A full disk is no fault of the settings: the search stops, and the same command ends it as if nothing
# had happened.
status=0
(ulimit -f 20; tune lost >lost.out 2>lost.err) || status=$?
[ $status = 4 ] && grep -q 'trial [0-9]* of rung [123]: .*; the search stops here' lost.err ||
    fail "a full disk: $status $(cat lost.err)"
tune lost >lost.out 2>lost.err || fail "after a full disk: $(cat lost.err)"
table lost.out | cmp - wanted || fail "after a full disk: $(cat lost.out)"

# A time limit and a signal save and stop; the search continues.
status=0
tune limited --time-limit 0.2s >limited.out 2>&1 || status=$?
[ $status = 75 ] && grep -q 'the search in limited has not ended; the same command with a larger --time-limit continues it' limited.out ||
    fail "--time-limit: $status $(cat limited.out)"
tune limited >limited.out 2>limited.err || fail "after the limit: $(cat limited.err)"
table limited.out | cmp - wanted || fail "after the limit: $(cat limited.out)"

# Ctrl-C at any moment of a trial: the results so far, and the search continues.
stopped=0
for delay in 0.1 0.3 0.6 1.0; do
    # shellcheck disable=SC2086
    "$etude" tune tabular/mlp stopped $options >stopped.out 2>stopped.err &
    pid=$!
    while [ ! -e stopped/rung-1 ] && kill -0 $pid 2>/dev/null; do sleep 0.02; done
    sleep $delay
    kill -TERM $pid 2>/dev/null || true
    status=0
    wait $pid || status=$?
    pid=
    [ $status = 0 ] || { [ $status = 75 ] && stopped=$((stopped + 1)) &&
        grep -q '^the search in stopped has not ended; the same command continues it$' stopped.err; } ||
        fail "a signal: $status $(cat stopped.out stopped.err)"
done
[ $stopped -gt 0 ] || fail "no signal came in time"
tune stopped >stopped.out 2>stopped.err || fail "after signals: $(cat stopped.err)"
table stopped.out | cmp - wanted || fail "after signals: $(cat stopped.out)"

# The seed of the values; JSON.
tune seeded --search-seed 1 --json >seeded.json 2>seeded.err || fail "--search-seed: $(cat seeded.err)"
grep -q '"best": "seeded/rung-3/trial-0' seeded.json && grep -q '"settings"' seeded.json || fail "--json: $(cat seeded.json)"
grep -q "$(awk '$2 == 3 { print $6; exit }' whole.out)" seeded.json && fail "--search-seed has no effect"

# Trials that do not fit are left out by name.
"$etude" tune tabular/ft_transformer odd --data train.csv --target kind --steps 4 --trials 3 --rungs 1 \
    --search task.model.ft_transformer.width=8,12 --search task.model.ft_transformer.num_attention_heads=4,8 >out 2>&1 ||
    fail "odd: $(cat out)"
grep -q 'is left out: .*heads do not divide' out || fail "no trial is left out: $(cat out)"

# A list with fewer combinations than trials: each one is tried once.
says 0 'trials  *4, not 27: these are all combinations of --search' tune tabular/mlp few --data train.csv --target kind --steps 2 \
    --search layers=1..2 --search task.model.mlp.norm=none,batch
[ "$(ls few/rung-1 | wc -l)" = 4 ] || fail "combinations: $(ls few/rung-1)"
[ "$(awk '$2 == 1 { print $(NF - 1), $NF }' out | sort -u | wc -l)" = 4 ] || fail "combinations: $(cat out)"
says 2 '--rungs 3 needs at least 9 trials, not 4' tune tabular/mlp bad --data train.csv --target kind --steps 90 --rungs 3 \
    --search layers=1..2 --search task.model.mlp.norm=none,batch

# An experiment that keeps no best checkpoint: the last validation counts.
"$etude" tune tabular/mlp_small last --data train.csv --target kind --steps 20 --trials 2 --rungs 1 \
    --search lr=1e-4..1e-2:log >out 2>&1 || fail "no best: $(cat out)"
loss=$(sed -n 's/.*"validation_loss":\([^,]*\),.*/\1/p' last/rung-1/trial-01/metrics.jsonl | tail -1)
awk -v loss="$loss" '$1 == 1 && $2 == 1 { ok = ($3 - loss) ^ 2 < 1e-10 && $4 == 20 } END { exit !ok }' out || fail "no best: $loss $(cat out)"

# Without a validation there is nothing to compare by.
says 3 'no validation to compare trials by' tune tabular/mlp_small blind --data train.csv --target kind --steps 20 --trials 1 \
    --search lr=1e-4..1e-2:log --set task.held_out=0
says 3 'trainer.validation_interval is 0, but tune compares trials' tune tabular/mlp_small blind --data train.csv --target kind \
    --steps 20 --trials 1 --search lr=1e-4..1e-2:log --set trainer.validation_interval=0
[ ! -e blind ] || fail "a trial was trained before: $(ls -R blind)"

# Translation.
for i in $(seq 60); do echo "a$((i % 7)) b$((i % 5)) c$((i % 3))"; done >a.en
tr abc xyz <a.en >a.de
"$etude" tune translation/tiny pairs --data a.en a.de --valid a.en a.de --steps 30 --trials 3 \
    --separate-vocabularies --search lr=1e-4..1e-2:log >out 2>&1 || fail "translation: $(cat out)"
grep -q '^use it  *etude translate pairs/rung-2/trial-0[123]$' out || fail "translation: $(cat out)"
grep -q '^train anew .* --separate-vocabularies ' out || fail "a switch: $(cat out)"

# Mistakes.
(
    export TF_CONFIG='{"task": {"type": "ps", "index": 0}, "cluster": {"master": ["a:1"], "ps": ["b:1"]}}'
    says 2 'tune runs in one process, but TF_CONFIG has a cluster; unset it' tune tabular/mlp whole
)
mistake() {
    code=$1 text=$2
    shift 2
    says "$code" "$text" tune tabular/mlp bad --data train.csv --target kind --epochs 9 "$@"
    [ ! -e bad ] || fail "$*: makes a directory"
}
mistake 2 'say what to try, for example --search lr=1e-4..1e-2:log'
mistake 2 '--search lr: write NAME=LOW..HIGH' --search lr
mistake 2 '--search lr=1..x: write NAME' --search lr=1..x
mistake 2 'the first bound must be the smaller one' --search lr=2..1
mistake 2 'with :log both bounds must be above 0' --search lr=0.0..1:log
mistake 2 'lr is given twice' --search lr=1..2 --search lr=2..3
mistake 2 'no option --layer' --search layer=1..2
mistake 2 'the length (--steps, --epochs): tune sets it for all trials' --search epochs=1,2
mistake 2 'the directory: tune sets it for all trials' --search model-dir=a,b
mistake 2 'no option --separate-vocabularies' --search lr=1e-4..1e-2 --separate-vocabularies
mistake 3 'task.model.mlp.wide' --search task.model.mlp.wide=1..2
says 3 'trial 1: train.csv: there is no column "kin"' tune tabular/mlp gone \
    --data train.csv --target kin --epochs 9 --search lr=1e-4..1e-2
[ ! -e gone ] || fail "a search that has not begun is kept: $(find gone)"
mistake 2 '--rungs 3 needs at least 9 trials, not 8' --search lr=1e-4..1e-2 --rungs 3 --trials 8
says 2 'anew is a run; name another directory' tune tabular/mlp anew --data train.csv --target kind --epochs 9 --search lr=1e-4..1e-2
echo "a search ends the same whatever stops it ($kills kills)"
