#!/bin/sh
# test_rows.sh ETUDE: what `train` prints while it runs: a row of a table for each validation or
# epoch, the same in train.log; in a pipe, and on a terminal of 80 columns.
set -eu
. "$(dirname "$0")/command.sh"
export OMP_NUM_THREADS=1 NO_COLOR=1 LC_ALL=C TERM=xterm

make_table
folder=a/folder/whose/name/is/quite/long/for/a/line

# Rows of `out`, without the lines of a pipe's progress: step, ..., time, mark.
rows() {
    sed -n '/^ *step  *epoch  *loss .* time$/,/^done/p' "$1" | grep '^ *[0-9]' || :
}
steps() {
    rows "$1" | awk '{ print $1 }' | tr -d , | tr '\n' ' '
}

# ---- in a pipe ---------------------------------------------------------------------------------

says 0 '^done  *100 steps' train --experiment tabular/mlp --target kind --data t.csv whole --steps 100 \
    --set trainer.validation_interval=20,trainer.summary_interval=10
[ "$(steps out)" = '20 40 60 80 100 ' ] || fail "rows: $(steps out)"
grep -q '^table        \* = new lowest log_loss; all values: whole/metrics.jsonl$' out ||
    fail 'marks are not explained'
[ "$(grep -c '^table  ' out)" = 1 ] && [ "$(grep -c '^ *step  *epoch' out)" = 1 ] || fail 'two heads'
grep -q '^ *step  epoch  *loss  *log_loss  *accuracy  *time$' out || fail 'columns'
grep -q 'validation_loss\|  train  \|step.*100%' out && fail 'a value that is not in the table, or a row twice'
# Aligned: all numbers end, or their points stand, in the same columns.
sed -n '/^ *step  *epoch/p; /^ *[0-9]/p' out | sed 's/  \*$//' | awk '{ print length($0) }' | sort -u >widths
[ "$(wc -l <widths)" = 1 ] && [ "$(cat widths)" -le 79 ] || fail "widths: $(cat widths)"
rows out | tr -c '.\n' ' ' | sed 's/ *$//' | sort -u >points
[ "$(wc -l <points)" = 1 ] || fail 'points are not below each other'
# In train.log with the time of day.
sed 's/^[^ ]* [^ ]*  //' whole/train.log >logged
[ "$(rows logged)" = "$(rows out)" ] && [ -n "$(rows out)" ] || fail 'other rows in train.log'
# Each value as it is in metrics.jsonl, and marks where the best was another.
rows out | awk '{ printf "%s %.3f %.3f %.3f %s\n", $1, $3, $4, $5, $7 }' >shown
awk '
    function value(key,    at) {
        at = index($0, "\"" key "\":")
        return at ? substr($0, at + length(key) + 3) + 0 : "none"
    }
    /"train":/ { loss = value("training_loss") }
    /"validation":/ {
        step = value("step")
        printf "%d %.3f %.3f %.3f %s\n", step, loss, value("validation_log_loss"),
            value("validation_accuracy"), value("best_step") == step ? "*" : ""
    }' whole/metrics.jsonl >wanted
# Four places are rounded to three here: the last may differ by one.
paste -d ' ' shown wanted | tr -s ' ' | awk '
    function far(a, b) { return a - b > 0.0015 || b - a > 0.0015 }
    { half = NF / 2 }
    NF % 2 || $1 != $(half + 1) || far($2, $(half + 2)) || far($3, $(half + 3)) ||
        far($4, $(half + 4)) || (half == 5 && $5 != $10) { bad = 1; print }
    END { exit bad || NR != 5 }' || fail "rows: $(cat shown), wanted: $(cat wanted)"
# A run that goes on has a head of its own, and no row again.
says 0 '^done  *140 steps' train whole --steps 140
[ "$(steps out)" = '120 140 ' ] || fail "rows of a run that goes on: $(steps out)"

# Every summary and save, and the rows.
says 0 '^step  20  validation  .*validation_loss' train --experiment tabular/mlp --target kind \
    --data t.csv loud --steps 40 --verbose --set trainer.validation_interval=20,trainer.summary_interval=10
[ "$(grep -c '^step  [1-4]0  train  training_loss' out)" = 4 ] || fail 'summaries of --verbose'
grep -q '^step  40  saving' out && [ "$(steps out)" = '20 40 ' ] || fail '--verbose'

# Without validation: a row an epoch, of 400 rows in batches of 8.
says 0 '^done  *200 steps' train --experiment tabular/mlp --target kind --data t.csv plain --steps 200 \
    --set trainer.summary_interval=10,task.held_out=0,task.train_data.batch_size=8
[ "$(steps out)" = '10 60 110 160 200 ' ] || fail "epochs: $(steps out)"
grep -q 'new best\|accuracy  ' out && fail 'a best without validation'

# A row for each checkpoint that is measured beside a run; it ends with a run that is done, early or not.
began=$(date +%s)
says 0 '^ *140  ' train whole --mode continuous_eval --set trainer.continuous_eval_timeout=60
[ "$(head -n 1 out)" = 'table        all values: whole/validation/metrics.jsonl' ] || fail 'no table'
grep -q '^ *step  *log_loss  *accuracy$' out || fail 'columns'
[ "$(($(date +%s) - began))" -lt 40 ] || fail 'it waits for a run that is done'

# ---- what is said of the end -------------------------------------------------------------------

grep -q 'still improving' out && fail 'improving without a validation'
improves() {
    says 0 '^done ' train --experiment tabular/mlp --target kind --data t.csv "$@"
}
# One validation is no improvement; a rate of nearly nothing improves little by little.
slow=trainer.optimizer_config.learning_rate.constant.learning_rate=0.0001
improves once --steps 20 --set trainer.validation_interval=20,$slow
grep -q 'improving' out && fail 'one validation is better than none'
improves slow --steps 60 --set trainer.validation_interval=20,$slow
grep -q '^done .*; the validation was still improving: train longer, for example --steps 120; ' out ||
    fail 'it was still improving'
# As accurate as before, but with a lower loss; and with the same loss.
flat=trainer.validation_interval=20,trainer.best_checkpoint_eval_metric=validation_accuracy
rate=trainer.optimizer_config.learning_rate.constant.learning_rate
improves flat --steps 60 --set $flat,$rate=1e-8
[ "$(rows out | awk '{ print $4 }' | sort -u | wc -l)" = 1 ] || fail 'the accuracy changes'
grep -q 'still improving' out || fail 'the loss was still falling'
improves still --steps 60 --set $flat,$rate=1e-30
grep -q 'improving' out && fail 'nothing was learned'
# What it names is what goes on from there; one that only gets worse is not said to improve.
says 0 '^done  *120 steps' train slow --steps 120
# A run by epochs is told of epochs: 340 rows in batches of 8 are 43 batches.
improves epochs --epochs 1.5 --set trainer.validation_interval=20,$slow,task.train_data.batch_size=8
grep -q 'improving: train longer, for example --epochs 3; ' out || fail 'it was still improving'
says 0 'at step 6[45] of 6[45]; to continue, raise trainer.train_epochs$' train epochs
says 0 '^done  *1[0-9]* steps' train epochs --epochs 3
says 0 'past trainer.train_epochs: 2, and is left as it is; to continue, set more than 3$' \
    train epochs --epochs 2
improves worse --steps 60 --set trainer.validation_interval=20,$slow --set \
    trainer.best_checkpoint_metric_comp=higher,trainer.best_checkpoint_eval_metric=validation_log_loss
grep -q 'improving' out && fail 'worse and worse is no improvement'

# ---- a warm-up that is not passed --------------------------------------------------------------

warmup=trainer.optimizer_config.warmup.type=linear,trainer.optimizer_config.warmup.linear.warmup_steps
says 0 'warning: the run ends at step 60, within the warm-up of 1,000 steps, so .*warmup.linear.warmup_steps$' \
    train --experiment tabular/mlp --target kind --data t.csv w1 --steps 60 --set $warmup=1000
improves w2 --steps 60 --set $warmup=59
grep -q 'warm-up' out && fail 'a warm-up that is passed'
says 75 'warning: training will reach the time limit at about step [0-9,]*, within the warm-up of 40,000,000 steps' \
    train --experiment tabular/mlp --target kind --data t.csv w3 --steps 90000000 --time-limit 3s \
    --set $warmup=40000000,trainer.early_stopping.patience=0
[ "$(grep -c 'warm-up' out)" = 1 ] || fail 'the warning comes more than once'
grep -q '^time limit   reached: saving a checkpoint$' out || fail 'no line about the time limit'
! grep -q 'Ctrl-C' out || fail 'nobody pressed a key'
step=$(sed -n 's/^interrupted: saved step \([0-9,]*\)[.].*/\1/p' out | tr -d ,)
[ -n "$step" ] || fail 'no saved step'
grep "\"step\": *$step," w3/metrics.jsonl | grep -q '"validation"' || fail 'the last step is not evaluated'
improves w4 --steps 300 --time-limit 10m --set $warmup=200
grep -q 'warm-up' out && fail 'there was time enough'

# ---- values of a trained model -----------------------------------------------------------------

says 0 '^accuracy  *[01]' evaluate whole
grep -q 'validation_' out && fail 'a prefix that says nothing'
says 0 '"validation_accuracy": [01]' evaluate whole --json
# A loss and its doubles are one number; programs have all of them.
for name in loss nll log_loss; do
    grep -q "\"validation_$name\": -*[0-9]" out || fail "no $name in the JSON"
done
says 0 '^log_loss ' evaluate whole
grep -q '^nll\|^loss\|likelihood' out && fail "a number twice: $(cat out)"
says 0 'validation_loss' compare whole plain
grep -q '^  [a-z]*\.[a-z_]*\(_nll\|log_loss\) ' out &&
    fail "a number twice: $(cat out)"
says 0 'validation_log_loss *[0-9]' compare whole plain --all
# The best of a loss is the lowest; of the rows the last marked one has it, and `runs` says the same.
says 0 '^ *step  epoch  *loss  validation_loss  *accuracy  *time$' train --experiment tabular/mlp \
    --target kind --data t.csv loss --steps 100 --metric loss --set trainer.validation_interval=10
grep -q '^table        \* = new lowest validation_loss; ' out || fail 'marks are not explained'
rows out | awk '{ print $4, $1, $NF }' >losses
best=$(awk '$3 == "*" { step = $2 } END { print step }' losses)
[ "$(sort -n losses | awk 'NR == 1 { print $2 }')" = "$best" ] || fail "not the lowest: $(cat losses)"
grep -q "^done .*; best validation_loss 0\.[0-9]* at step $best" out || fail 'another best'
says 0 "^best  *validation_loss .* at step $best" inspect loss
says 0 '^done' train loss --steps 110
grep -q 'was chosen by' out && fail 'another direction when it goes on'
says 0 '' train --experiment tabular/mlp --target kind --data t.csv highest --steps 20 --metric loss \
    --set trainer.validation_interval=10,trainer.best_checkpoint_metric_comp=higher

# ---- a terminal of 80 columns ------------------------------------------------------------------

if has_terminal; then
    mkdir -p "$(dirname $folder)"
    cat >typed <<EOF
stty cols 80
'$etude' train $folder --experiment tabular/mlp --target kind --data t.csv --steps 100 --verbose \
    --set trainer.validation_interval=20,trainer.summary_interval=10,$warmup=100
'$etude' train short --experiment tabular/mlp --target kind --data t.csv --steps 100 \
    --set trainer.validation_interval=20,trainer.summary_interval=10
EOF
    script -qec 'sh typed' /dev/null >screen </dev/null
    sed 's/\x1b\[K//g' screen | tr '\r' '\n' | grep . >out
    [ -z "$(awk 'length($0) > 80' out)" ] || fail "longer than 80: $(awk 'length($0) > 80' out)"
    grep -q '^step  .*/100 [=>]* * [ 0-9]*%  loss' out || fail 'no bar'
    grep '%  loss' out | grep -v '/100 [=> ]\{10,\} [ 0-9]*%  loss [0-9]\.[0-9]\{3\}  ' && fail 'a line without its bar'
    grep -q '^done  *100 steps' out && grep -q '^             ' out || fail 'no line is continued'
    tr '\n' ' ' <out | tr -s ' ' | grep -q "all values: $folder/metrics.jsonl" || fail 'a path is cut'
    sed -n '/^step  *epoch/p; /^ *[0-9].* [0-9]:[0-9][0-9]\(  \*\)*$/p' out | sed 's/  \*$//' |
        awk '{ print length($0) }' | sort -u >widths
    [ "$(grep -c '^ *[0-9].* [0-9]:[0-9][0-9]\(  \*\)*$' out)" = 10 ] || fail 'rows on a terminal'
    [ "$(wc -l <widths)" = 1 ] || fail "widths: $(cat widths)"
else
    echo 'no pseudo-terminals here'
fi
