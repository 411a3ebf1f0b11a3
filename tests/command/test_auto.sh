#!/bin/sh
# test_auto.sh ETUDE: tabular/auto trains several models and is one run: its table, its record, what
# the time limit leaves out, and the same bytes after kills and an interruption.
set -eu
. "$(dirname "$0")/command.sh"
export OMP_NUM_THREADS=1

make_table

try() {
    code=$1 text=$2
    shift 2
    says "$code" "$text" train --experiment tabular/auto --target kind --data t.csv --epochs 1 "$@"
}

# ---- a small table: folds ----------------------------------------------------------------------

try 0 '^candidates   linear, mlp, realmlp, pack, tabm, each on 5 folds' whole
grep -q '^time         about [01]:[0-9]* on two cores' out || fail 'no duration'
grep -q '^  budget: 120$' whole/params.yaml || fail 'the duration is no setting'
grep -q '^validation   5 folds' out || fail 'a small table loses rows'
grep -q '^candidate  *log_loss  *accuracy  *time  *weight' out || fail 'no table at the end'
for name in linear mlp realmlp pack tabm; do
    grep -q "^$name  *[0-9.]* +- [0-9.]*  *[0-9.]* +- [0-9.]*  *[0-9:]*  *[01]\.[0-9]*$" out ||
        fail "no row of $name"
    grep -q "\"candidate\":\"$name\",\"seconds\":" whole/members.jsonl || fail "no record of $name"
done
# A file of all settings leaves open what candidates have for themselves.
says 0 written init --experiment tabular/auto init.yaml
"$etude" list tabular/auto --yaml >list.yaml
for file in init list; do
    try 0 '^done ' from-$file --config $file.yaml --set task.budget=1
    grep -q '^ *type: linear$' from-$file/members/linear_1/params.yaml ||
        fail "$file: a candidate has the settings of the file"
done
# RealMLP reads numbers as in its paper, the others as always.
grep -q 'ignored_features: \[X\]' whole/members/realmlp_1/params.yaml || fail 'the numbers of realmlp'
grep -q 'ignored_features: \[X_robust\]' whole/members/tabm_1/params.yaml || fail 'the numbers of tabm'
# Weights of the models add up to 1.
grep '^ *weight: ' whole/params.yaml | awk '{ sum += $2 } END { exit !(sum > 0.9999 && sum < 1.0001) }' ||
    fail 'the weights are no mean'
says 0 '^whole ' runs whole
says 0 '{"label": "[a-z]*", "scores"' predict whole t.csv
says 0 '^ *accuracy ' evaluate whole t.csv
! grep -r 'budget: [1-9]' whole/members || fail 'trainings have a budget, which is of all of them'
grep -q 'budget: [1-9]' whole/params.yaml || fail 'the run has no budget'
says 0 '^report  *whole.html$' report whole
! grep -q '^<dt>steps</dt>$' whole.html || fail 'steps of the page'
says 0 . export whole --output whole.safetensors
says 0 complete train whole

# A training of few rows takes its start: nothing of it is in proportion to the rows.
head -31 t.csv >few.csv
says 0 '^time  *about 0:[1-3][0-9] on two cores' train few --target kind --data few.csv --dry-run

# Trainings share the rows that the run has open, but each one's log has the warnings about them.
(head -90 t.csv && echo 7,red,1.5,) >gap.csv
says 0 '^all of them' train gap --experiment tabular/auto --target kind --data gap.csv --epochs 1 --set task.budget=1
[ -z "$(grep -L '1 rows have no target' gap/members/*/train.log)" ] || fail 'a training lost its warning'

# ---- a run that is complete, for other commands ------------------------------------------------

says 0 '^nothing to do: the run has its model$' train whole --dry-run
says 0 '^  "steps": 0$' train whole --dry-run --json
says 0 '^intact: whole/model.safetensors$' inspect whole
grep -q '^as trained: whole/params.yaml' out || fail 'inspect does not compare the settings'
says 3 '^etude: --mode eval works with one model, but whole is a run of several; use `etude evaluate whole`$' \
    train whole --mode eval
says 3 '^etude: whole is a run of several models (tabular/auto), not of one model; choose another --model-dir$' \
    train whole --experiment tabular/mlp --target kind --data t.csv
says 3 'Add --accept-changes' train whole --lr 0.1
says 3 '^etude: --accept-changes: whole has its model, and no training is left;' train whole --lr 0.1 \
    --accept-changes
sed 2d t.csv >fewer.csv
says 3 '^etude: whole was trained on other rows than fewer.csv .*; train another run on these$' train whole \
    --data fewer.csv --target kind

# Settings that are not the model's are named by their place, in a short line.
cp -r whole changed
sed -i '/^      model:/,$s/^\( *width: \)[0-9]*$/\177/' changed/params.yaml
says 3 'task.ensemble\[[0-9]*\].model[a-z._]*.width is 77, but was [0-9]* in training; restore this value$' predict changed t.csv

# ---- interrupted, killed -----------------------------------------------------------------------

same() {
    for file in params.yaml model.safetensors out_of_fold.jsonl; do
        cmp whole/$file "$1/$file" >out 2>&1 || fail "$1/$file is another"
    done
}
# Signals, each with its seconds: KILL's from the start, INT's from the line that says what is trained.
# Before it a slow build does not catch INT yet.
interrupted=0
for round in KILL:0.3 INT:0.1 INT:0.05 INT:0 INT:0.2 KILL:0.6; do
    code=0 signal=${round%:*}
    : >out # the line of the round before is none of this one
    "$etude" train stopped --experiment tabular/auto --target kind --data t.csv --epochs 1 >out 2>&1 &
    process=$!
    while [ $signal = INT ] && ! grep -q '^candidates ' out && kill -0 $process 2>/dev/null; do
        sleep 0.02
    done
    sleep "${round#*:}"
    kill -$signal $process 2>/dev/null || :
    wait $process 2>/dev/null || code=$?
    case $signal$code in
    INT75) interrupted=$((interrupted + 1)) ;;
    KILL137 | *[A-Z]0) ;;
    *) fail "a run that gets $signal ends with $code" ;;
    esac
    [ ! -e stopped/members/linear_1 ] || [ -e stopped/params.yaml ] || fail "$signal took the settings"
done
[ $interrupted -gt 0 ] || fail 'INT did not stop a run'
says 0 '^done ' train stopped
same stopped

# ---- the time limit ----------------------------------------------------------------------------

# What others took says that no other candidate fits; the record says so, and is gone by.
cp -r whole late
rm late/model.safetensors
head -1 whole/members.jsonl | sed 's/"seconds":[0-9.e-]*/"seconds":1000/' >late/members.jsonl
cp late/members.jsonl late.jsonl
printf '\0\n' >>late/members.jsonl
says 3 'late/members.jsonl:2: not an object of JSON' train late --time-limit 1m
mv late.jsonl late/members.jsonl
# What is left is measured, and what the run will be made of is said once.
find late -type f -exec cksum {} + | sort >before
once 0 '^target ' train late --dry-run
once 0 '^realmlp  *would take 5 times [0-9:]*, ' train late --dry-run
! grep -q '^linear ' out || fail 'a candidate that is done is measured'
grep -q '^all of them  would take [0-9:]*$' out || fail 'no time of all'
find late -type f -exec cksum {} + | sort >after
cmp before after || fail '--dry-run changes a run'
says 0 '"candidate": "tabm"' train late --dry-run --json --quiet
[ "$(grep -c '^  "trainings": 5,$' out)" = 4 ] || fail 'not each candidate has its object'
says 0 '^time limit   1:00 for all' train late --time-limit 1m
for name in mlp realmlp pack tabm; do
    grep -q "^$name  *left out: it would take about .* of the time limit is left" out ||
        fail "$name is left out without a line"
    grep -q "\"candidate\":\"$name\",\"left_out\":" late/members.jsonl || fail "$name is not recorded"
done
grep -q '^linear .* 1\.00$' out || fail 'the rest of the candidates is not the model'
cp late/model.safetensors first.safetensors
rm late/model.safetensors
says 0 '^done ' train late
! grep -q '^mlp' out || fail 'a candidate that was left out is trained in another start'
cmp late/model.safetensors first.safetensors >out 2>&1 || fail 'the record does not decide'

# ---- a run without its model, for other commands ------------------------------------------------

says 0 '^whole  *done ' runs whole
says 0 '^state  *done ' compare whole whole/members/mlp_1
cp -r whole gone
rm -r gone/model.safetensors gone/members/pack_* gone/members/tabm_* gone/members/realmlp_[345]
head -1 whole/members.jsonl >gone/members.jsonl
says 0 '^gone  *interrupted ' runs gone
says 3 '^etude: gone: .* has no model yet. linear: done; mlp: in training (gone/members/mlp_5); pack: not begun; realmlp: in training (gone/members/realmlp_2); tabm: not begun. ' \
    inspect gone
sed -i '/"ended"/d; /"reason"/d' gone/members/realmlp_2/info.json
says 0 '^gone  *killed ' runs gone

# ---- the time limit ----------------------------------------------------------------------------

# Nothing is left out before there is something to keep.
says 75 . train none --experiment tabular/auto --target kind --data t.csv --epochs 1000000 \
    --set trainer.early_stopping.patience=0 --time-limit 0:00:01
says 75 '^left out .*: give a new run a longer --time-limit to train more$' train none --time-limit 0:00:01 --data t.csv \
    --target kind --epochs 1000000 --set trainer.early_stopping.patience=0

# A table says how long its trainings take; what does not fit into the budget is left out with a line.
says 0 '^left out     pack (about 0:[0-9]*), tabm (about 0:[0-9]*): give a longer --time-limit to train more$' train short \
    --experiment tabular/auto --target kind --data t.csv --epochs 1 --set task.budget=8
grep -q '^candidates   linear, mlp, realmlp, each on 5 folds' out || fail 'tabm is no candidate, but a training'
[ ! -e short/members/tabm_1 ] || fail 'what is left out is trained'
says 0 '^left out     pack .*tabm ' train limited --experiment tabular/auto --target kind --data t.csv --epochs 1 \
    --time-limit 8s --dry-run

# The time is measured, and printed again if it is another than the plan's.
"$etude" train slow --experiment tabular/auto --target kind --data t.csv --epochs 10000000 \
    --set trainer.early_stopping.patience=0 >out 2>&1 &
process=$!
rounds=0
while ! grep -q '^time  *about .* in all, by the steps so far$' out && [ $rounds -lt 3000 ]; do
    sleep 0.1
    rounds=$((rounds + 1))
done
code=0
kill -INT $process || :
wait $process || code=$?
[ $code = 75 ] && grep -q '^time  *about .* in all, by the steps so far$' out ||
    fail "the time is not printed again: exit $code"

# ---- a held-out part ---------------------------------------------------------------------------

try 0 '^validation   80 of these rows are held out (20 %)' part --set task.held_out=0.2
grep -q '^candidates   linear, mlp, realmlp, pack, tabm' out || fail 'no candidates'
grep -q '^pack  *[0-9.]*  *[0-9.]*  *[0-9:]*  *[01]\.[0-9]*$' out || fail 'no row of the pack'
[ ! -e part/out_of_fold.jsonl ] || fail 'folds where there are none'
score=$(grep -o '"validation_log_loss":[0-9.e-]*' part/metrics.jsonl | cut -d: -f2)
says 0 '^ *log_loss ' evaluate part
awk -v score="$score" '$1 == "log_loss" { d = $2 - score; found = d * d < 1e-9 } END { exit !found }' \
    out || fail "the rows that are held out have another score than $score"
awk 'NR == 1 || NR % 5 == 0' t.csv >v.csv
try 0 '^validation   80 rows' named --valid v.csv

# The target is noise, so no candidate is better than another: half of each weight is an equal share.
awk 'BEGIN { srand(5); print "x,z,y"
    for (i = 0; i < 600; i++) print rand() "," rand() "," rand() + rand() + rand() }' >n.csv
says 0 '^candidate  *rmse' train noise --experiment tabular/auto --target y --data n.csv --epochs 2 \
    --set task.held_out=0.5
[ "$(awk '/^[a-z]*  .*[0-9]  *[0-9]:[0-9]*  *[01]\.[0-9]*$/ && $NF >= 0.09' out | wc -l)" = 5 ] ||
    fail 'the weights follow noise'

# Values, too.
says 0 '^candidate  *rmse  *r2 ' train prices --experiment tabular/auto --target price --data t.csv \
    --epochs 1
says 0 '^{"values": ' predict prices t.csv
says 0 . export prices --format onnx --output prices.onnx

# A pack learns fast waves first, so that it is the model: what it scored, predicts and is exported.
awk 'BEGIN { srand(3); print "x,y"
    for (i = 0; i < 500; i++) { x = 10 * rand(); printf "%.4f,%.4f\n", x, sin(12 * x) } }' >w.csv
says 0 '^pack .* \(1\.00\|0\.9[0-9]\)$' train wave --experiment tabular/auto --target y --data w.csv --epochs 12 \
    --set task.held_out=0.2
! grep -q 'matches no parameter' out || fail "$(grep matches out)"
score=$(grep -o '"validation_rmse":[0-9.e-]*' wave/metrics.jsonl | cut -d: -f2)
says 0 '^ *rmse ' evaluate wave
awk -v score="$score" '$1 == "rmse" { found = $2 / score > 0.9999 && $2 / score < 1.0001 }
    END { exit !found }' out || fail "a pack in a mean has another score than $score"
says 0 '^{"values": ' predict wave w.csv
says 0 . export wave --format onnx --output wave.onnx
! grep -q 'pack/member_' wave/model.safetensors || fail 'the model has weights of no use'
says 0 '^mlp  *would take 2 times ' train wave_folds --experiment tabular/auto --target y --data w.csv \
    --folds 2 --dry-run
[ ! -e wave_folds ] || fail '--dry-run makes a run'
says 0 '^pack .* \(1\.00\|0\.9[0-9]\)$' train wave_folds --experiment tabular/auto --target y --data w.csv --epochs 12 \
    --folds 2
says 0 '^ *rmse ' evaluate wave_folds
says 0 '^{"values": ' predict wave_folds w.csv
says 0 . export wave_folds --format onnx --output wave_folds.onnx

# ---- settings, refusals ------------------------------------------------------------------------

says 0 '^linear  *keeps its own values of task.model.mlp.dropout$' train mine --experiment \
    tabular/auto --target kind --data t.csv --epochs 1 --dropout 0.3
grep -q 'dropout: 0.3' mine/members/mlp_1/params.yaml || fail 'a setting is not passed on'
# Settings that depend on others that are given, too, and defaults of a candidate that these switch off.
says 0 '^done' train --experiment tabular/auto --target kind --data t.csv --epochs 1 --set task.budget=1,task.n_splits=2 \
    --set 'trainer.optimizer_config.optimizer={type: sgd, sgd: {momentum: 0.9}}' \
    --set 'trainer.optimizer_config.learning_rate={type: cosine, cosine: {initial_learning_rate: 0.004}}' --model-dir cosine
! grep -q '^linear  *keeps' out || fail 'the line says that a setting is not given'
for model in linear mlp; do
    grep -q 'momentum: 0.9' cosine/members/${model}_1/params.yaml &&
        grep -q 'initial_learning_rate: 0.004' cosine/members/${model}_1/params.yaml || fail "$model: a setting is lost"
done
says 0 '^candidates .*pack' train new --experiment tabular/auto --target kind --data t.csv --dry-run \
    --set trainer.optimizer_config.optimizer.type=muon
# The settings of a run of several models, given again, are those of its candidates; a model is none of them.
says 0 '^done' train again --config cosine/params.yaml --set task.ensemble=[]
for model in linear mlp; do
    cmp cosine/members/$model.yaml again/members/$model.yaml || fail "$model: other settings"
done
for model in resnet mlp; do
    try 3 '^etude: task.model.type: tabular/auto trains several models; to train one, name its experiment with --experiment' \
        refused --set task.model.type=$model
done
one='works with one model, but tabular/auto trains several: name one, for example --experiment tabular/mlp$'
for option in '--profile p.json' '--mode eval' '--mode continuous_eval' '--mode train' '--distributed'; do
    # shellcheck disable=SC2086
    try 3 "^etude: ${option%% *} $one" refused $option
    [ "$(wc -l <out)" = 1 ] || fail "$option: more than a line"
done
says 3 "^etude: launch $one" launch -n 2 -- "$etude" train refused --experiment tabular/auto --target kind \
    --data t.csv
try 2 '^etude: --init whole: this run is made of several models; name one of the runs in whole/members$' \
    refused --init whole
try 3 "^etude: --init $one" refused --init whole/members/mlp_1
says 0 '^initial .*of whole/members/mlp_1' train started --init whole/members/mlp_1 --data t.csv --target kind \
    --steps 2
try 3 'task.held_out is 0; name validation data or folds' refused --set task.held_out=0
try 3 'has no effect' refused --set task.model.tabm.members=4
says 3 '^etude: task.budget: has no effect on tabular/mlp, which is a single training; leave it out$' \
    train refused --experiment tabular/mlp --target kind --data t.csv --set task.budget=9
says 3 '^etude: task.budget: has no effect on the folds of tabular/mlp' \
    train refused --experiment tabular/mlp --target kind --data t.csv --folds 3 --set task.budget=9
try 3 '^etude: task.validation_data.limit: has no effect on rows that are held out' refused \
    --set task.validation_data.limit=9
says 3 "^etude: tune $one" tune tabular/auto refused --data t.csv \
    --target kind --trials 2 --search lr=1e-4..1e-2:log
[ ! -e refused ] || fail 'a start that fails leaves files'
