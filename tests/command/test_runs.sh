#!/bin/sh
# test_runs.sh ETUDE: tables of runs with made logs, and of one that is training.
set -eu
. "$(dirname "$0")/command.sh"

# make RUN STEPS LOSS RATE: the last loss is LOSS; the best of `good` is at STEPS - 10.
make() {
    mkdir -p "$1"
    awk -v q='"' -v steps="$2" -v loss="$3" 'BEGIN { for (i = 10; i <= steps; i += 10) {
        print "{" q "step" q ":" i "," q "train" q ":{" q "training_loss" q ":" \
            loss + (steps - i) / 100 "," q "time" q ":{" q "steps_per_second" q ":" 10 + i \
            "}}," q "time" q ":{" q "wall" q ":" 1000 + i "}}"
        print "{" q "step" q ":" i "," q "validation" q ":{" q "good" q ":" \
            (i == steps - 10 ? 9 / loss : 1) "," q "best_good" q ":" 9 / loss "," q \
            "best_step" q ":" steps - 10 "}," q "time" q ":{" q "wall" q ":" 1000.5 + i "}}" } }' \
        >"$1/metrics.jsonl"
    printf 'experiment: made/small\ntask:\n  width: 7\ntrainer:\n  train_steps: %d\n  rate: %s\n' \
        "$((2 * $2))" "$4" >"$1/params.yaml"
}
make r/b 100 2.5 0.1
make r/a 200 2 0.01
make r/deep/c 50 3 1
printf '  names: [x, "y,z"]\n' >>r/deep/c/params.yaml

tells 0 '^r/a *200/400 *4.5 *190 *2 *3:10 *- *400 *0.01' runs r
tells 0 '^run *state *step *good *at *loss *time *parameters *train_steps *rate *names$' runs r/
[ "$(wc -l <out)" = 4 ] && grep -q '^r/deep/c  *50/100  *3 ' out || fail "rows"
grep -q 'width' out && fail "a setting that is the same"
order() {
    "$etude" runs r --sort "$1" | awk 'NR > 1 { printf "%s ", $1 }'
}
[ "$(order run)" = 'r/a r/b r/deep/c ' ] || fail "by run: $(order run)"
[ "$(order best)" = 'r/a r/b r/deep/c ' ] || fail "by best: $(order best)"
[ "$(order step)" = 'r/deep/c r/b r/a ' ] || fail "by step: $(order step)"
[ "$(order time)" = 'r/deep/c r/b r/a ' ] || fail "by time: $(order time)"
[ "$(order rate)" = 'r/a r/b r/deep/c ' ] || fail "by a setting: $(order rate)"
[ "$(order trainer.train_steps)" = 'r/deep/c r/b r/a ' ] || fail "by a setting's path"
tells 2 'or a setting, not rat. Nearest: rate' runs r --sort rat
# By a metric: of "auc" validation's, and its best value first; a setting that all have alike comes after.
log() {
    mkdir -p "s/$1"
    printf '{"step": 5, "train": {"training_auc": %s, "training_loss": %s}}
{"step": 5, "validation": {"validation_auc": 0.1}}\n{"step": 9, "validation": {"validation_auc": %s}}\n' \
        "$2" "$3" "$4" >"s/$1/metrics.jsonl"
    printf 'experiment: made/small\ntask:\n  loss: auto\n' >"s/$1/params.yaml"
}
log a 0.9 0.5 0.6
log b 0.7 0.3 0.8
log c 0.8 0.4 0.7
by() {
    "$etude" runs s --sort "$1" | awk 'NR > 1 { printf "%s ", $1 }'
}
[ "$(by auc)" = 's/b s/c s/a ' ] || fail "by auc: $(by auc)"
[ "$(by validation_auc)" = 's/b s/c s/a ' ] || fail "by validation_auc: $(by validation_auc)"
[ "$(by training_auc)" = 's/a s/c s/b ' ] || fail "by training_auc: $(by training_auc)"
[ "$(by loss)" = 's/b s/c s/a ' ] || fail "by loss: $(by loss)"
tells 2 'a metric or a setting, not auk. Nearest: ' runs s --sort auk
# An error and a score say nothing of each other: runs are sorted metric by metric, and a line says so.
scored() {
    mkdir -p "m/$1"
    printf '{"step": 5, "validation": {"validation_%s": %s, "best_validation_%s": %s, "best_step": 5}}\n' "$2" "$3" "$2" "$3" >"m/$1/metrics.jsonl"
    printf 'experiment: made/small\ntask:\n  loss: auto\n' >"m/$1/params.yaml"
}
scored a r2 0.9; scored b mae 0.5; scored c r2 0.95; scored d mae 0.97
tells 0 'warning: the runs have several metrics, such as mae and r2, and are sorted metric by metric' runs m --sort best
[ "$(awk 'NR > 1 { printf "%s ", $1 }' out)" = 'm/b m/d m/c m/a ' ] || fail "metric by metric: $(cat out)"
tells 0 '' runs m/a m/c --sort best
! grep warning said || fail 'one metric'
# Of a loss the lowest is best.
tells 0 '^r/a .* 2 *200 ' runs r --metric training_loss --sort best
[ "$(sed -n 2p out | cut -d ' ' -f 1)" = r/a ] || fail "the lowest loss comes first"
tells 3 'no metric is called los. Nearest: loss; there is training_loss, steps_per_second' runs r --metric los

tells 0 '^run,state,step,steps,metric,best,best_step,seconds,parameters,trainer.train_steps,' runs r --csv
grep -q '^r/deep/c,,50,100,validation.good,3.0,40,40.5,,100,1,"\[""x"",""y,z""\]"$' out || fail "CSV"
tells 0 '"run": "r/b"' runs r --json
tr -d ' \n' <out | grep -q '"trainer.rate":0.1}.*"trainer.names":\["x","y,z"\]' || fail "settings as JSON"
tells 2 'use either' runs r --json --csv
tells 2 'name a directory' runs
tells 3 'none: ' runs none
mkdir empty
tells 3 'empty: not a run, and no run below it' runs empty

# Side by side.
tells 0 '^ *r/a  *r/b$' compare r/a r/b
grep -q '^best *4.5 at 190 *3.6 at 90$' out && grep -q '^  trainer.rate *0.01 *0.1$' out &&
    grep -q '^  train.training_loss *2 (2 at 200) *2.5 (2.5 at 100)$' out &&
    grep -q '^  train.time.steps_per_second *115 *65$' out || fail "compare"
grep -q 'task.width' out && fail "a setting that is the same"
tells 0 '^  task.width *7 *7 *7$' compare r --all
tells 0 '"trainer.rate": \[' compare r --json
# A setting that another experiment does not have is no difference.
make other 50 3 5
sed -i 's/small/large/; /width/d' other/params.yaml
tells 0 '^  trainer.rate *1 *0.1 *5$' compare r/deep/c r/b other
grep -q '^  experiment *made/small *made/small *made/large$' out || fail 'the experiments'
! grep -q 'names\|width' out || fail 'settings that only one experiment has'
tells 0 '^  trainer.names *\["x","y,z"\] *-$' compare r/deep/c r/b
tells 0 '^run,.*,experiment,' runs r other --csv
! grep -q 'names\|width' out || fail 'runs: settings that only one experiment has'
tells 2 'compare: give at least two runs, not only r/a' compare r/a r/a/
tells 2 'compare: give at least two runs$' compare
tells 3 'none' compare r/a none

# Steps done count, also those after the last log.
cp -r r/a late
printf '{"sessions": [{"first_step": 0, "last_step": 265, "ended": 9, "train_steps": 400}]}' >late/info.json
tells 0 '^late .* 265/400 ' runs late
tells 0 '"step": 265,' runs late --json
tells 0 '^late,[a-z]*,265,400,' runs late --csv
tells 0 '^step *265/400 *100/200$' compare late r/b

# A run at work, and one that was killed.
awk 'BEGIN { print "size,kind"; for (i = 0; i < 600; i++) print i % 17 + i % 3 * 10 "," \
    (i % 3 ? "round" : "flat") }' >table.csv
start() {
    exec "$etude" train --experiment tabular/mlp live --data table.csv --target kind \
        --steps 1000000 --set trainer.summary_interval=20,trainer.early_stopping.patience=0 2>/dev/null
}
start &
while ! grep -q '"step":40,' live/metrics.jsonl 2>/dev/null || [ ! -e live/info.json ]; do sleep 0.05; done
if [ -r /proc/locks ]; then
    tells 0 '^live *running *[0-9,]*/1,000,000 ' runs live
else
    echo "test_runs: SKIPPED: no /proc/locks, which tells who holds a run" >&2
fi
kill -9 $!
wait $! 2>/dev/null || :
tells 0 '^live *killed ' runs live
rm live/info.json
tells 0 '^live *[0-9,]*/1,000,000 ' runs live

# Damaged runs are in the table with what could be read, and are said.
mkdir x
cp -r r/a x/whole && cp -r r/a x/log && cp -r r/a x/settings && cp -r r/a x/info
printf 'nothing\n{"step":999,"a":1}\n' >>x/log/metrics.jsonl
printf 'a: [b\n' >x/settings/params.yaml
head -c 300 "$etude" >x/info/info.json
printf '{"step":210,"tr' >>x/whole/metrics.jsonl
tells 3 '3 of 4 could not be read completely' runs x
[ "$(grep -c 200 out)" = 4 ] || fail "not all in the table"
for fault in 'x/log/metrics.jsonl:41:' 'x/settings/params.yaml' 'x/info/info.json'; do
    grep -q "warning: $fault" said || fail "not said: $fault"
done
# Names of anyone.
mkdir "$(printf 'x/\033[2Jescape,"')"
cp r/a/* x/*escape*
"$etude" runs x >out 2>/dev/null || :
grep -q "$(printf '\033')" out && fail "an escape sequence reaches the terminal"
"$etude" runs x --csv >out 2>/dev/null || :
grep -q '"x/\\u001b\[2Jescape,"""' out || fail "CSV of a name"
got=0
"$etude" runs r >/dev/full 2>said || got=$?
[ "$got" = 4 ] || fail "a full disk: $got"
"$etude" runs r | true
