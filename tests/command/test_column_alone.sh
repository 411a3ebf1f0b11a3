#!/bin/sh
# test_column_alone.sh ETUDE: every experiment of tables learns from one column of each type alone, with each kind of
# target in turn, better than the best constant prediction.
set -eu
. "$(dirname "$0")/command.sh"
export OMP_NUM_THREADS=1

# All columns follow x, which the targets are made of.
awk 'BEGIN { srand(1); split("red green blue", colour); split("yes no", bool)
    print "number,category,many,text,date,bool,money,missing,two,several,value,other"
    for (i = 0; i < 200; i++) {
        x = rand(); k = int(3 * x); text = ""; money = 1000 + 4000 * x
        for (w = 0; w < 5; w++) text = text "w" int(60 * rand()) " "
        text = text (k == 0 ? "good" : k == 1 ? "fine" : "bad")
        date = sprintf("%d-%02d-%02d", 2020 + 4 * x, 1 + int(48 * x) % 12, 1 + int(28 * rand()))
        money = sprintf("\"%d.%03d,%02d EUR\"", int(money / 1000), money % 1000, int(100 * rand()))
        printf "%.4f,%s,v%d,%s,%s,%s,%s,%s,", 7 * x - 3, colour[k + 1], int(40 * x), text, date,
            bool[1 + (x > 0.5)], money, (x > 0.5 ? "" : int(100 * rand()))
        printf "%s,c%d,%.3f,%.3f\n", (x > 0.5 ? "high" : "low"), k, 10 * x + 0.3 * rand(), 5 - 3 * x + 0.3 * rand()
    } }' >all.csv

# columns NAME...: of all.csv.
columns() {
    awk -F, -v names="$*" 'BEGIN { OFS = ","; count = split(names, name, " ") }
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
        # The amount has a comma, so that columns after it are one further.
        { shift = NR > 1
          for (i = 1; i <= count; i++) {
              c = at[name[i]]; value = c < 7 ? $c : $(c + shift)
              if (shift && name[i] == "money") value = $7 "," $8
              printf "%s%s", value, i < count ? "," : "\n"
          } }' all.csv
}
# alone EXPERIMENT COLUMN NUMBER: trains; the kind of target is that of the number.
alone() {
    more=
    case $(($3 % 5)) in
        0) targets=two metric=log_loss least=-0.6 ;;
        1) targets='several' metric=log_loss least=-1 ;;
        2) targets=value metric=r2 least=0.15 ;;
        3) targets='value other' metric=r2 least=0.15 ;;
        4) targets=value metric=d2_pinball least=0.05 more='--quantiles 0.1,0.5,0.9' ;;
    esac
    case $1 in
        pack) more="$more --epochs 12 --set task.model.pack.members=4,task.model.pack.width=32" ;;
        feed_forward) more="$more --steps 3000" ;;
        tf_idf) more="$more --epochs 60" ;;
        *) more="$more --epochs 12" ;;
    esac
    [ "$1$metric" != packd2_pinball ] || return 0
    columns "$2" $targets >one.csv
    rm -rf run
    "$etude" train run --experiment "tabular/$1" --data one.csv --set "runtime.seed=${SEED-1}" --target "$(echo $targets | tr ' ' ,)" $more >out 2>&1 ||
        fail "$1 with $2 and $targets"
    # The higher the better: of a loss, the negative.
    best=$(sed -n "s/.*\"validation_$metric\":\([-0-9.e]*\).*/\1/p" run/metrics.jsonl |
        awk -v loss="$metric" '{ v = loss == "log_loss" ? -$1 : $1; if (NR == 1 || v > best) best = v } END { if (NR) print best }')
    awk -v best="$best" -v least=$least 'BEGIN { exit !(best != "" && best + 0 > least) }' ||
        fail "$1 with $2 and $targets learns nothing: $metric $best"
    ! grep 'are not trained' out || fail "$1 with $2 and $targets has parameters without a gradient"
    [ -z "${SHOWN-}" ] || echo "$1 $2 $targets $metric $best"
}
number=0
for model in linear mlp mlp_small resnet feed_forward realmlp tabm ft_transformer pack; do
    for column in number category many text date bool money missing; do
        alone $model $column $number
        number=$((number + 1))
    done
    number=$((number + 1))
done
alone tf_idf text 2
echo 'each column alone: learned by every model'
