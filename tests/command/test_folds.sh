#!/bin/sh
# test_folds.sh ETUDE: a model of several folds is one run for every command, keeps the predictions
# of rows that were not learned, and ends with the same bytes after a kill; groups and times split
# the rows.
set -eu
. "$(dirname "$0")/command.sh"
export OMP_NUM_THREADS=1

make_table

fold() {
    code=$1 text=$2
    shift 2
    says "$code" "$text" train --experiment tabular/mlp --target kind --data t.csv "$@"
}

says 0 '--group COLUMN  *never split rows with the same value in COLUMN' train --help

# ---- folds -------------------------------------------------------------------------------------

fold 0 '^done ' whole --folds 3 --steps 30
grep -q '^training     mlp, on 3 folds' out || fail 'does not say what is trained'
grep -q '^mlp .*log_loss 0\.[0-9]* +- .*accuracy' out || fail 'no score with its spread'
for file in params.yaml schema.yaml metadata.json features.yaml members.jsonl model.safetensors \
    members/mlp_1/best members/mlp_2/best members/mlp_3/best; do
    [ -e whole/$file ] || fail "no $file in the run"
done
[ "$(wc -l <whole/out_of_fold.jsonl)" = 400 ] || fail 'not each row has a prediction'
[ "$(grep -o '"row":"t.csv:[0-9]*"' whole/out_of_fold.jsonl | sort -u | wc -l)" = 400 ] ||
    fail 'a row was predicted twice'
for i in 1 2 3; do
    count=$(grep -c "\"fold\":$i" whole/out_of_fold.jsonl)
    [ "$count" = 133 ] || [ "$count" = 134 ] || fail "fold $i has $count rows"
    # Of both classes in equal parts: 133 or 134 rows are flat.
    flat=$(grep "\"fold\":$i" whole/out_of_fold.jsonl | grep -c '"target":"flat"')
    [ "$flat" = 44 ] || [ "$flat" = 45 ] || fail "fold $i has $flat rows of a class"
done

says 0 'warning: whole has one set of weights; live weights are ignored' predict whole t.csv --live-weights

# The prediction of the run is the mean of its models.
for run in whole whole/members/mlp_1 whole/members/mlp_2 whole/members/mlp_3; do
    "$etude" predict $run t.csv --full --output-format csv 2>said | sed 1d | cut -d, -f2 \
        >"$(basename $run).scores"
done
paste whole.scores mlp_1.scores mlp_2.scores mlp_3.scores | awk '
    { d = $1 - ($2 + $3 + $4) / 3; worst = d * d > worst ? d * d : worst; moved += $2 != $3; n++ }
    END { exit !(n == 400 && moved > 300 && worst < 1e-12) }' ||
    fail 'the run does not predict the mean of its models'

# Of a pack, too: the mean of the ensembles of its folds.
says 0 '^pack .*log_loss [01]\.[0-9]* +- ' train packs --experiment tabular/pack --target kind --data t.csv \
    --folds 2 --steps 12 --set task.model.pack.members=3,task.model.pack.width=16
for run in packs packs/members/pack_1 packs/members/pack_2; do
    "$etude" predict $run t.csv --full --output-format csv 2>said | sed 1d | cut -d, -f2 \
        >"$(basename $run).scores"
done
paste packs.scores pack_1.scores pack_2.scores | awk '
    { d = $1 - ($2 + $3) / 2; worst = d * d > worst ? d * d : worst; moved += $2 != $3; n++ }
    END { exit !(n == 400 && moved > 300 && worst < 1e-12) }' || fail 'the run does not predict the mean of its packs'
says 0 '^ *accuracy ' evaluate packs
says 0 complete train packs
says 0 . export packs --format onnx --output packs.onnx
says 3 'packs: the run has no best checkpoint: leave checkpoint best out' predict packs --checkpoint best --input t.csv
# Before all of them are trained, the run has no model.
cp -R packs half
rm half/model.safetensors
sed '/^  ensemble:/,/^  train_data:/{/^  train_data:/!d;}' packs/params.yaml >half/params.yaml
says 3 'half: no checkpoint yet' predict half --input t.csv
says 3 'no model yet, as packs are trained on folds' evaluate half t.csv

# The same, of an export in a file, and of an ONNX graph.
says 0 . export whole --output whole.safetensors
"$etude" predict whole.safetensors t.csv --full --output-format csv 2>said | sed 1d | cut -d, -f2 \
    >export.scores
cmp whole.scores export.scores >out 2>&1 || fail 'an export predicts something else'
says 0 . export whole --format onnx --output whole.onnx
[ -s whole.onnx ] || fail 'no ONNX file'

# Without a file each row is scored by the models that did not learn it.
says 0 'validation   each row by the models that did not learn it' evaluate whole
awk '{ match($0, /"scores":\[[^]]*/); split(substr($0, RSTART + 10, RLENGTH - 10), p, ",")
    match($0, /"target":"[^"]*/); yes = substr($0, RSTART + 10, RLENGTH - 10) == "flat"
    sum -= log(yes ? p[2] : p[1]); right += (p[2] > p[1]) == yes; n++ }
    END { printf "%.5f %.5f\n", sum / n, right / n }' whole/out_of_fold.jsonl >wanted
[ "$(awk '$1 == "log_loss" { loss = $2 } $1 == "accuracy" { right = $2 } END { printf "%.5f %.5f\n", loss, right }' out)" = \
    "$(cat wanted)" ] || fail "other scores than $(cat wanted)"
[ "$(sed -n 's/^flat .* //p' out | tail -1)" = 134 ] || fail 'no line for each class'
tells 0 '"validation_log_loss"' evaluate whole --json --threshold 0.4
says 0 '^report  *whole.html' report whole
grep -q '3 folds: each row by the models that did not learn it (out_of_fold.jsonl)' whole.html ||
    fail 'the page does not say which rows were scored'
sed -n 's/.*<td>log_loss<.td><td class="number">\([0-9.]*\).*/\1/p' whole.html >shown
awk 'NR == FNR { wanted = $1; next } { exit !(NF == 1 && $1 - wanted < 2e-5 && wanted - $1 < 2e-5) }' wanted shown ||
    fail 'other scores in the page'
# Its steps are those of each model.
grep -q '>steps<' whole.html && fail 'the page has steps of a run of folds'
tells 0 '^whole  *done  *-  ' runs whole
tells 0 '^step  *-  *-$' compare whole packs
# An export has no such file, and a damaged file is no reason to guess.
says 3 'was trained on folds.*name a file' evaluate whole.safetensors
cp -r whole torn
sed '7s/.*/{"target":"flat","scores":[0.5]}/' whole/out_of_fold.jsonl >torn/out_of_fold.jsonl
says 3 'torn/out_of_fold.jsonl:7: no prediction of the target kind' evaluate torn
cat whole/out_of_fold.jsonl whole/out_of_fold.jsonl >torn/out_of_fold.jsonl
says 3 'has more rows than the training files' evaluate torn
{
    head -n 6 whole/out_of_fold.jsonl
    printf '\0'
    tail -n +7 whole/out_of_fold.jsonl
} >torn/out_of_fold.jsonl
says 3 'torn/out_of_fold.jsonl:7: no prediction of the target kind' evaluate torn
head -c 30000 whole/out_of_fold.jsonl >torn/out_of_fold.jsonl
says 3 'the last line is not whole' report torn
says 0 '^ *accuracy ' evaluate whole t.csv
says 0 'complete' train whole

# ---- killed ------------------------------------------------------------------------------------

kills=0
for delay in 0.02 0.03 0.05 0.1 0.2 0.3 0.45 0.6; do
    code=0
    timeout --foreground --preserve-status -s KILL "$delay" "$etude" train killed --experiment \
        tabular/mlp --target kind --data t.csv --folds 3 --steps 30 >out 2>&1 || code=$?
    [ $code = 0 ] || [ $code = 137 ] || fail "a run that was killed ends with $code"
    [ $code = 0 ] || kills=$((kills + 1))
done
[ $kills -gt 0 ] || fail 'no kill came before the end'
# The model, which says that the run is complete, comes last.
if strace -f -o /dev/null true 2>/dev/null; then
    # LeakSanitizer cannot work under strace.
    ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0" strace -f -e trace=rename -o calls \
        "$etude" train ordered --experiment tabular/linear --target kind --data t.csv --folds 2 \
        --epochs 1 >out 2>&1 || fail 'under strace'
    [ "$(sed -n 's/.*, "ordered\/\([^/"]*\)").*/\1/p' calls | tail -n 1)" = model.safetensors ] ||
        fail "the last file is another: $(tail -n 3 calls)"
else
    echo "SKIPPED: the order of files: no strace"
fi
fold 0 . killed --folds 3 --steps 30
for file in params.yaml model.safetensors out_of_fold.jsonl; do
    cmp whole/$file killed/$file >out 2>&1 || fail "after $kills kills $file is another"
done

# One fold alone is an ordinary run: the same as the member.
fold 0 '^validation   13[34] of these rows are held out (fold 2 of 3)' second --folds 3 --steps 30 \
    --set task.fold=1
tail -c 20000 second/checkpoints/ckpt-30.safetensors >second.tail
tail -c 20000 whole/members/mlp_2/checkpoints/ckpt-30.safetensors >member.tail
cmp second.tail member.tail >out 2>&1 || fail 'a fold alone is trained otherwise'

# What is wrong with the rows is said once, not by each training.
sed '5s/,[a-z]*$/,/' t.csv >gap.csv
once 0 '1 rows have no target' train gap --experiment tabular/mlp --target kind --data gap.csv \
    --folds 3 --steps 2

# ---- groups and times --------------------------------------------------------------------------

awk -F, 'NR == 1 { print $0 ",who,day"; next }
    { printf "%s,w%d,%d.%d.2024\n", $0, (NR * 7) % 40, NR % 28 + 1, (NR * 5) % 12 + 1 }' t.csv >g.csv
says 0 'rows are held out ([0-9]* %), in whole groups of who' train groups --experiment tabular/mlp \
    --target kind --data g.csv --group who --steps 3
# Three groups are held out in whole: the line has the share that this is.
awk 'NR == 1 { print $0 ",who"; next } { print $0 ",w" NR % 3 }' t.csv >g3.csv
says 0 'rows are held out (3[34] %), in whole groups of who' train thirds --experiment tabular/mlp \
    --target kind --data g3.csv --group who --steps 3
grep -q 'who .*keeps rows of a group together: ignored' out || fail 'the column of groups is a feature'
says 0 'each in turn, in whole groups of who' train grouped --experiment tabular/mlp --target kind \
    --data g.csv --group who --folds 4 --steps 3
[ "$(sed 's/.*"row":"g.csv:\([0-9]*\)","fold":\([0-9]\).*/\1 \2/' grouped/out_of_fold.jsonl |
    awk '{ print "w" $1 * 7 % 40, $2 }' | sort -u | wc -l)" = 40 ] || fail 'a group was split'
says 0 'later by day than the rows of training' train times --experiment tabular/mlp \
    --target kind --data g.csv --time day --steps 3
says 0 'each in turn, later by day' train timed --experiment tabular/mlp --target kind \
    --data g.csv --time day --folds 3 --steps 3
# The first of four blocks is never validated.
[ "$(wc -l <timed/out_of_fold.jsonl)" -lt 310 ] || fail 'the first block was validated'

# ordered FILE: no row of a fold is earlier than a row of an earlier fold, nor has its time. The last
# column of FILE is the time as a number.
ordered() {
    sed 's/.*"row":"[^:]*:\([0-9]*\)","fold":\([0-9]\).*/\1 \2/' dated/out_of_fold.jsonl >fold.txt
    awk -F '[ ,]' 'NR == FNR { fold[$1] = $2; next } FNR > 1 {
            f = fold[FNR] + 0; t = $NF + 0
            if (!(f in low) || t < low[f]) low[f] = t
            if (!(f in high) || t > high[f]) high[f] = t
        }
        END { for (f = 0; f < 3; f++) if (!(high[f] < low[f + 1])) exit 1 }' fold.txt "$1" ||
        fail "$1: a fold is validated on rows that are not later"
}
# dated FILE OPTION...
dated() {
    rm -rf dated
    says 0 'each in turn, later by day' train dated --experiment tabular/linear --target kind --data "$@" \
        --time day --folds 3 --steps 2
}
# The same instants in two zones; the local times are in another order.
awk 'BEGIN { print "day,size,kind,instant"; for (i = 0; i < 240; i++) {
        n = i * 77 % 240; m = n * 20 + (n % 2 ? 540 : 0)
        printf "2024-03-%02dT%02d:%02d:00%s,%d,%s,%d\n", 1 + int(m / 1440), int(m / 60) % 24, m % 60,
            n % 2 ? "+09:00" : "Z", i % 7, i % 3 ? "a" : "b", n } }' >zones.csv
dated zones.csv
ordered zones.csv
awk -F, 'NR > 1 { printf "{\"day\":\"%s\",\"size\":%d,\"kind\":\"%s\"}\n", $1, $2, $3 }' zones.csv >zones.jsonl
dated zones.jsonl
# Seconds; 12-hour clocks; quarters; months before 1970 and after 2038.
awk 'BEGIN { print "day,size,kind,instant"; for (i = 0; i < 240; i++) {
        n = int(i * 77 % 240 / 5); printf "2024-05-31 10:30:%02d.5,%d,%s,%d\n", n, i % 7, i % 3 ? "a" : "b", n } }' >seconds.csv
dated seconds.csv
ordered seconds.csv
awk 'BEGIN { print "day,size,kind,instant"; for (i = 0; i < 240; i++) { n = i * 7 % 24
        printf "5/31/2024 %d:30 %s,%d,%s,%d\n", n % 12 ? n % 12 : 12, n < 12 ? "AM" : "PM", i % 7,
            i % 3 ? "a" : "b", n } }' >halves.csv
dated halves.csv
ordered halves.csv
awk 'BEGIN { print "day,size,kind,instant"; for (i = 0; i < 240; i++) { n = i * 77 % 240
        printf "Q%d %d,%d,%s,%d\n", n % 4 + 1, 1950 + int(n / 4) * 2, i % 7, i % 3 ? "a" : "b", n } }' >quarters.csv
dated quarters.csv
ordered quarters.csv
# The order of the feature is that of the split; without it, an order that no row says is named.
awk 'BEGIN { print "day,size,kind,instant"; for (i = 0; i < 240; i++) { d = i * 7 % 12 + 1; m = i * 5 % 11 + 1
        printf "%02d/%02d/2024,%d,%s,%d\n", d, m, i % 7, i % 3 ? "a" : "b", m * 31 + d } }' >first.csv
cat >first.yaml <<'EOF'
features:
- name: X
  type: concat
  features:
  - {name: size, type: standardize}
  - {name: day, type: date, transform: {order: day-first}}
- {name: Y, type: target, fields: kind}
EOF
dated first.csv --set task.features_path=first.yaml
ordered first.csv
grep -q 'day .*date, its parts (day-first)' out || fail 'the line of the column has another order'
! grep -q 'month first or the day first' out || fail 'warns of an order that is given'
for given in '' '--drop day' '--features size' '--id day'; do
    dated first.csv $given
    grep -q 'warning: column day: its dates may have the month first or the day first' out ||
        fail "does not warn of dates in two orders: $given"
done
awk 'BEGIN { print "day,size,kind"; for (i = 0; i < 240; i++)
    printf "%d%02d%d,%d,%s\n", 1 + i % 28, 1 + i % 12, 2020 + i % 3, i % 7, i % 5 ? "a" : "b" }' >digits.csv
for given in '' '--drop day'; do
    dated digits.csv $given
    grep -q 'column day: its numbers are dates, such as [0-9]*, but are used as numbers, which have another order' out ||
        fail "does not warn of numbers that are dates: $given"
done
sed '9s/T\([0-9:]*\)[^,]*,/T\1,/' zones.csv >unzoned.csv
rm -rf dated
says 3 'unzoned.csv:9: column day: "[^"]*" has no time zone, unlike earlier rows' train dated \
    --experiment tabular/linear --target kind --data unzoned.csv --time day --steps 2
sed '9s/Z,/ XYT,/; 9s/+09:00,/ XYT,/' zones.csv >unknown.csv
says 3 'unknown.csv:9: .* names a time zone of unknown offset' train dated \
    --experiment tabular/linear --target kind --data unknown.csv --time day --steps 2
# Groups of one class each.
awk 'BEGIN { print "who,size,kind"; for (i = 0; i < 240; i++)
        printf "p%d,%d,%s\n", i % 12, i % 7, substr("abc", i % 12 / 4 + 1, 1) }' >patients.csv
says 0 '^done ' train patients --experiment tabular/linear --target kind --data patients.csv \
    --group who --folds 5 --steps 2
[ "$(grep -o '"fold":[0-9]' patients/out_of_fold.jsonl | sort | uniq -c | sort -rn |
    awk '{ printf "%d ", $1 }')" = '60 60 40 40 40 ' ] || fail 'folds of other sizes'
says 3 '12 groups, fewer than the 13 that the folds need; ask for fewer folds' train none \
    --experiment tabular/linear --target kind --data patients.csv --group who --folds 13

# ---- refused -----------------------------------------------------------------------------------

refused() {
    code=$1 text=$2
    shift 2
    says "$code" "$text" train refused --experiment tabular/mlp --target kind --data g.csv --steps 3 "$@"
    [ ! -e refused ] || fail "a start that fails leaves files: $*"
}
refused 3 'give 2 or more' --folds 1
refused 3 'task.n_splits' --folds 1000
refused 3 'choose one' --group who --time day
refused 3 'no column nobody' --group nobody
refused 3 'no column nobody' --time nobody --folds 3
refused 3 'no row is held out' --group who --set task.held_out=0
refused 3 'splits the training rows, but validation_data names files' --folds 3 --valid t.csv
refused 3 'there is no fold 3' --folds 3 --set task.fold=3
says 3 'g.csv:[0-9]*: column colour: "[a-z]*" is not a date' train refused --experiment tabular/mlp \
    --target kind --data g.csv --steps 3 --time colour
[ ! -e refused ] || fail 'a start that fails leaves files'
sed '7s/,w[0-9]*,/,,/' g.csv >hole.csv
awk 'BEGIN { print "who,size,kind"; for (i = 0; i < 60; i++)
    printf "%s%d,%d,%s\n", i % 2 ? "P" : "p", i % 5, i * i % 11, i % 3 ? "a" : "b" }' >spelt.csv
says 0 'warning: column who: "[Pp]." (6 rows) and "[Pp]." (6 rows) differ only in case' \
    train spelt --experiment tabular/linear --target kind --data spelt.csv --group who --steps 2
says 3 'hole.csv:7: column who has no value (outside quotes, texts such as NA mean none); fill' train refused --experiment tabular/mlp \
    --target kind --data hole.csv --steps 3 --group who
says 3 '^etude: --init works with one model, .*fold: leave --folds out$' train refused --experiment tabular/mlp \
    --target kind --data g.csv --steps 3 --folds 3 --init second
for from in whole.safetensors whole/model.safetensors; do
    says 2 '^etude: --init .*: this run is made of several models; name one of the runs in [wR][^ ]*/members$' \
        train refused --experiment tabular/mlp --target kind --data t.csv --init $from
done
# Each model has settings that depend on others that are given, too.
says 0 '^done' train given --experiment tabular/mlp --target kind --data t.csv --folds 2 --steps 2 \
    --set 'task.model={type: resnet, resnet: {width: 24}}' --set 'trainer.optimizer_config.optimizer={type: sgd, sgd: {momentum: 0.9}}'
! grep 'keeps its own values' out || fail 'the line says that a setting is not given'
grep -q '^      width: 24' given/members/mlp_2/params.yaml && grep -q 'momentum: 0.9' given/members/mlp_2/params.yaml ||
    fail 'a setting is lost'
says 3 '^etude: --last: whole is a run of several models and has no checkpoints; name one of the runs in whole/members$' \
    average whole --last 2 --output mean.safetensors

# Nanoseconds: 10 of them from row to row.
awk 'BEGIN { print "day,size,kind"; for (i = 0; i < 20; i++)
    printf "2024-05-31T12:00:00.0000000%02d,%d,%s\n", i * 7 % 20, i * i % 11, i % 3 ? "a" : "b" }' >fine.csv
says 0 'validation  *3 of these rows are held out' train fine --experiment tabular/linear --target kind \
    --data fine.csv --time day --steps 2

# ---- what a split cannot do is told with the option's name --------------------------------------

# A day has nearly all rows, so they are all later than the rows of training.
awk 'BEGIN { print "day,size,kind"
    for (i = 0; i < 200; i++) printf "2024-05-%02d,%d,%s\n", i < 6 ? 1 : 2, i % 7, i % 3 ? "a" : "b" }' >day.csv
linear="--experiment tabular/linear --target kind --steps 2"
says 0 '' train oneday $linear --data day.csv --time day
grep -q 'warning: 194 of 200 rows are held out, .* the same day are never split; name another column with --time' out ||
    fail "does not say that few rows are left: $(cat out)"
says 3 'etude: --group and --time .* are both set' train none $linear --data day.csv --time day --group size
says 3 'etude: the column kind is both the target and the group: name another column' train none $linear --data day.csv --group kind
says 3 'etude: the column kind is both the target and the time: name another column' train none $linear --data day.csv --time kind
says 3 'etude: --time: the table has no column dya. Nearest: day' train none $linear --data day.csv --time dya
says 3 'etude: --group: the rows have 2 groups, fewer than the 3 that the folds need' train none $linear \
    --data day.csv --group day --folds 3
# 1, 1.0, 0 and -0 are two groups of numbers.
awk 'BEGIN { split("1 1.0 0 -0", g, " "); print "g,size,kind"; for (i = 0; i < 80; i++) print g[i % 4 + 1] "," i % 7 "," (i % 3 ? "a" : "b") }' >zero.csv
says 3 'etude: --group: the rows have 2 groups, fewer' train none $linear --data zero.csv --group g --folds 3
sed 's/,[ab]$/,a/' day.csv >same.csv
echo '2024-05-03,1,b' >>same.csv
says 0 '' train rarefold $linear --data same.csv --folds 3
grep -q 'warning: target kind: a fold has no row of "b": in this fold, ' out &&
    grep -q 'warning: target kind: all rows of "b" are in one fold: the model that is scored on this fold cannot learn' out ||
    fail "folds without a class: $(cat out)"
! grep -q 'no training row\|is held out:' out || fail "speaks of the whole run: $(cat out)"
