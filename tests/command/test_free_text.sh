#!/bin/sh
# test_free_text.sh ETUDE: texts of several words are an input of their own, in every network.
set -eu
. "$(dirname "$0")/command.sh"

# table SEED ROWS: "good" says yes unless "not" is before it, "bad" no; other words say nothing.
table() {
    awk -v seed="$1" -v rows="$2" 'BEGIN { srand(seed); print "a,comment,y"
        for (i = 0; i < rows; i++) {
            text = ""; score = rand() - 0.5
            for (k = 0; k < 7; k++) {
                what = rand()
                if (what < 0.12) { text = text " good"; score += 2 }
                else if (what < 0.24) { text = text " bad"; score -= 2 }
                else if (what < 0.36) { text = text " not good"; score -= 2 }
                else text = text " w" int(300 * rand() * rand())
            }
            printf "%.3f,\"%s.\",%s\n", rand(), substr(text, 2), (score > 0 ? "yes" : "no")
        } }'
}
accuracy() {
    "$etude" evaluate "$1" test.csv | awk '$1 == "accuracy" { print int(1000 * $2) }'
}
table 1 1500 >train.csv
table 2 500 >test.csv
export OMP_NUM_THREADS=1

says 0 'comment  *discrete  *free text: its words and word pairs (the first 16 words)$' data analyze train.csv --target y --dry-run
says 0 'features  *1 number, 0 ids, 1 text ' train --experiment tabular/mlp_small mlp --data train.csv --target y --epochs 12
grep -q 'comment  *discrete  *free text: its words and word pairs (the first 16 words)$' out || fail "$(cat out)"
sed '/name: T1/,/words: 16/d' mlp/features.yaml >none.yaml
says 0 done train --experiment tabular/mlp_small none --data train.csv --target y --epochs 12 --set task.features_path=none.yaml
with=$(accuracy mlp) without=$(accuracy none)
[ "$with" -gt 860 ] && [ "$without" -lt 760 ] || fail "accuracy $with with the text, $without without"

# Every network has them. TensorFX's learns slowly, by plain descent.
says 0 done train --experiment tabular/feed_forward feed_forward --data train.csv --target y --steps 20
for model in linear resnet ft_transformer realmlp tabm; do
    says 0 done train --experiment tabular/$model $model --data train.csv --target y --epochs 5
    [ "$(accuracy $model)" -gt 780 ] || fail "$model: accuracy $(accuracy $model)"
done

# Members of a pack learn their own vectors; what validation measured is what the best checkpoint has.
says 0 done train --experiment tabular/pack pack --data train.csv --valid test.csv --target y --epochs 5 --set task.model.pack.members=4,task.model.pack.width=64
"$etude" evaluate pack test.csv | awk '$1 == "log_loss" { printf "best validation_log_loss %.4g at\n", $2 }' >score
grep -q -f score out || fail "$(cat score; grep done out)"
[ "$(accuracy pack)" -gt 780 ] || fail "pack: accuracy $(accuracy pack)"

# The same bits of any number of threads, and of a run that was stopped.
OMP_NUM_THREADS=3 "$etude" train --experiment tabular/mlp_small again --data train.csv --target y --epochs 6 >/dev/null 2>&1
says 0 done train --experiment tabular/mlp_small again --data train.csv --target y --epochs 12
"$etude" predict mlp --input test.csv --full >mlp.out
"$etude" predict again --input test.csv --full >again.out
cmp mlp.out again.out || fail 'another number of threads, and a stop, give another model'

# Case and signs make no difference; a missing text and one without words are allowed.
printf 'a,comment\n0.5,"not good w1"\n0.5,"NOT,  Good: w1!"\n0.5,\n0.5,"..."\n' >rows.csv
"$etude" predict mlp --input rows.csv >rows.out 2>warnings
[ "$(sort -u rows.out | wc -l)" = 2 ] && [ "$(sed -n 1p rows.out)" = "$(sed -n 2p rows.out)" ] || fail "$(cat rows.out)"
grep -q 'comment: 1 of 4 values missing' warnings || fail "$(cat warnings)"

# Texts that repeat are categories, and their words are read, too: rare texts have frequent words.
phrases() {
    awk -v seed="$1" -v rows="$2" 'BEGIN { print "medium,y"
        material = split("oil acrylic ink watercolor tempera graphite gouache pastel bronze marble", m)
        ground = split("canvas paper board linen silk panel wood vellum plaster stone", g)
        for (i = 0; i <= 10; i++) { first[i] = i * 7 % 10 - 5; second[i] = i * 3 % 10 - 5 }
        srand(seed)
        for (r = 0; r < rows; r++) {
            i = 1 + int(material * rand() * rand()); j = 1 + int(ground * rand() * rand())
            text = m[i] " on " g[j]; y = first[i] + second[j] + rand()
            if (rand() < 0.3) { k = 1 + int(material * rand()); text = text " with " m[k]; y += first[k] }
            printf "%s,%.3f\n", text, y
        } }'
}
phrases 1 1200 >phrases.csv
phrases 2 500 >new.csv
says 0 'medium  *discrete  *embedding of .*; free text: its words and word pairs (the first 16 words)$' \
    train --experiment tabular/mlp_small medium --data phrases.csv --target y --epochs 20
sed '/name: T1/,/words: 16/d' medium/features.yaml >category.yaml
says 0 done train --experiment tabular/mlp_small category --data phrases.csv --target y --epochs 20 \
    --set task.features_path=category.yaml
rmse() {
    "$etude" evaluate "$1" new.csv 2>/dev/null | awk '$1 == "rmse" { print int(1000 * $2) }'
}
[ "$(rmse medium)" -lt $(($(rmse category) * 8 / 10)) ] ||
    fail "RMSE $(rmse medium) with the words, $(rmse category) without"
awk 'BEGIN { print "city,y"; for (i = 0; i < 600; i++) print "new york " i % 9 "," i }' >cities.csv
says 0 'city  *discrete  *embedding of 9 values$' data analyze cities.csv --dry-run --target y

# As many words as the longest text has, if that is not more than 8 times the average.
awk 'BEGIN { print "t,y"; for (i = 0; i < 300; i++) { text = ""
    for (k = 0; k < (i % 10 ? 50 : 230); k++) text = text " w" (i * 7 + k * k) % 991
    print text "," i % 2 } }' >long.csv
says 0 '(the first 230 words)$' data analyze long.csv --dry-run --target y
awk 'NR == 2 { for (k = 0; k < 2000; k++) printf "x%d ", k } 1' long.csv >longer.csv
says 0 '(the first 5[0-9][0-9] words of at most 2,230)$' data analyze longer.csv --dry-run --target y

# Topics have many rare words, which TF-IDF weighs more than frequent ones.
topics() {
    awk -v seed="$1" -v rows="$2" 'BEGIN { srand(seed); print "text,topic"
        for (r = 0; r < rows; r++) {
            c = int(4 * rand()); text = ""
            for (k = 0; k < 15; k++)
                text = text " " (rand() < 0.2 ? "t" c "x" int(200 * rand()) : "w" int(30 * rand()))
            print text ",c" c
        } }'
}
topics 1 1000 >topics.csv
topics 2 500 >test.csv
for model in linear tf_idf; do
    says 0 done train --experiment tabular/$model topic_$model --data topics.csv --target topic --epochs 20
done
[ "$(accuracy topic_tf_idf)" -gt 600 ] && [ "$(accuracy topic_linear)" -lt 450 ] ||
    fail "accuracy $(accuracy topic_tf_idf) by TF-IDF, $(accuracy topic_linear) without"
says 3 'task.model.word_weights: tf-idf has no effect, because no feature has the words' \
    train --experiment tabular/tf_idf none_tf_idf --data cities.csv --target y
# tabular/auto decides by the validation rows.
says 0 '^candidates   linear, mlp, tf_idf' train auto --experiment tabular/auto --data topics.csv \
    --target topic --epochs 20 --folds 2 --set task.budget=2
grep -q '^tf_idf .* \(1\.00\|0\.[5-9][0-9]\)$' out || fail "$(cat out)"
"$etude" predict auto --input test.csv >/dev/null
says 0 '^candidates   linear, mlp' train cities --experiment tabular/auto --data cities.csv --target y \
    --set task.budget=1 --dry-run

# A file of features.
bad() {
    printf 'features:\n- %s\n- {name: Y, type: target, fields: y}\n' "$1" >bad.yaml
    says 3 "$2" train --experiment tabular/mlp_small bad --data train.csv --set task.features_path=bad.yaml
    [ ! -e bad ] || fail 'a start that failed leaves a run'
}
bad '{name: t, type: words, fields: comment}' 'bad.yaml:2: feature t: set buckets'
bad '{name: t, type: words, fields: comment, transform: {buckets: 9, words: 5000}}' 'set words to a number from 1 to 4096'
bad '{name: t, type: words, fields: a, transform: {buckets: 9, words: 5}}' 'words does not work on real fields such as a'
bad '{name: t, type: hash, fields: comment, transform: {buckets: 9, words: 5}}' 'hash does not use words'
printf 'features:\n- {name: t, type: words, fields: comment, transform: {buckets: 512, words: 3}}\n- {name: Y, type: target, fields: y}\n' >own.yaml
says 0 'features  *0 numbers, 0 ids, 1 text ' train --experiment tabular/mlp_small own --data train.csv --steps 3 --set task.features_path=own.yaml
echo 'free text: learned by every network'
