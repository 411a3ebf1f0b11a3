#!/bin/sh
# test_narrow.sh ETUDE: on terminals of at most 80 columns commands print no longer lines and lose
# nothing: text that does not fit is printed below, or a line says that there is no room.
set -eu
. "$(dirname "$0")/command.sh"
export OMP_NUM_THREADS=1 NO_COLOR=1 LC_ALL=C.UTF-8 TERM=xterm
has_terminal || {
    echo "SKIPPED: all cases: no terminal that script makes"
    exit 77
}

# on COLUMNS ARGUMENT...: what the command prints there goes to `out`; no line is too long.
on() {
    columns=$1
    shift
    printf 'stty cols %s\n' "$columns" >typed
    printf "'%s' " "$etude" "$@" >>typed
    script -qec 'sh typed' /dev/null </dev/null 2>/dev/null | tr -d '\r' | sed 's/\x1b\[[0-9;?]*[A-Za-z]//g' >out
    [ -s out ] || fail "$*: prints nothing"
    # Every byte but the first of a character is 10xxxxxx.
    LC_ALL=C tr -d '\200-\277' <out | LC_ALL=C awk -v columns="$columns" 'length($0) > columns' >long
    [ ! -s long ] || fail "$*: longer than $columns columns: $(head -n 3 long)"
}

for command in $("$etude" help | sed -n 's/^    \([a-z][a-z0-9_-]*\) .*/\1/p'); do
    on 80 "$command" --help
done
on 80 help
on 80 list
on 80 list tabular/mlp
# In a pipe, too.
for command in $("$etude" help | sed -n 's/^    \([a-z][a-z0-9_-]*\) .*/\1/p'); do
    "$etude" "$command" --help
done >out
"$etude" help >>out
"$etude" list >>out
! grep -E '.{81}' out || fail 'help is wide'

make_table
for metric in auto validation_loss validation_accuracy; do
    says 0 '^done' train "r/$metric" --experiment tabular/mlp --target kind --data t.csv --steps 20 \
        --set trainer.validation_interval=10,trainer.best_checkpoint_eval_metric=$metric
done
on 80 evaluate r/auto
sed '1s/price/a long name of a column with several words/' t.csv >long.csv
on 80 data analyze long.csv --target kind
tr '\n' ' ' <out | tr -s ' ' | grep -q 'a long name of a column with real number, ' || fail 'a long column'
on 80 explain r/auto
on 80 plot r/auto --metric acc
on 80 tarin
on 80 inspect r/auto
tr '\n' ' ' <out | tr -s ' ' | grep -q 'as trained: r/auto/params.yaml, r/auto/schema.yaml, r/auto/metadata.json, r/auto/features.yaml ' ||
    fail 'a file is missing'
on 80 runs r
grep -q '^run  .*  metric  .*best ' out && grep -q '^no room for .*parameters and 1 setting that differs' out ||
    fail 'what has no room is not said'
on 61 runs r
grep -q '^no room for at, loss, time, parameters and 1 ' out || fail 'what has no room is not said'

# Two runs are beside each other, and a third is below them, with all rows.
on 80 compare r/auto r/validation_loss
grep -q '^ *r/auto  *r/validation_loss$' out && grep -q '^  validation_loss  *[0-9.]* ([^)]*)  *[0-9.]* (' out ||
    fail 'two runs are not side by side'
on 80 compare r/auto r/validation_loss r/validation_accuracy
grep -q '^ *r/validation_accuracy$' out && [ "$(grep -c '^  validation_brier ' out)" = 2 ] ||
    fail 'the third run is not below'
"$etude" compare r/auto r/validation_loss r/validation_accuracy >out
grep -q '^ *r/auto  *r/validation_loss  *r/validation_accuracy$' out &&
    grep -q '^  trainer.best_checkpoint_eval_metric  *auto ' out || fail 'in a pipe all are side by side'
