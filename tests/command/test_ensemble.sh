#!/bin/sh
# test_ensemble.sh ETUDE: several runs translate together.
set -eu
. "$(dirname "$0")/command.sh"
export OMP_NUM_THREADS=1

make_pairs 160 "rot hund rennt baum haus blau katze" de
head -30 a.en >b.en
head -30 a.de >b.de

# train RUN SEED WIDTH ARGUMENT...: not for so long that models would be sure of every word.
train() {
    name=$1 seed=$2 width=$3
    shift 3
    "$etude" train "$name" --experiment translation/tiny --data a.en a.de --seed "$seed" --steps 60 "$@" \
        --set trainer.checkpoint_interval=30,task.train_data.global_batch_size=256 \
        --set trainer.optimizer_config.learning_rate.inverse_sqrt.warmup_steps=30 \
        --set "{task: {model: {embedding_width: $width, dropout_rate: 0, beam_size: 3,
                encoder: {num_layers: 1, intermediate_size: 64, dropout_rate: 0},
                decoder: {num_layers: 1, intermediate_size: 64, dropout_rate: 0}}}}" \
        >out 2>&1 || fail "train $name"
}
train a 5 32
train b 6 48
train c 7 32 --vocab-sizes 22 25
train d 8 48 --vocab-sizes 25 25
train e 9 32 --vocab-sizes 22 24

# translate FILE ARGUMENT...
translate() {
    into=$1
    shift
    "$etude" translate "$@" <b.en >"$into" 2>said || fail "translate $*"
}

# text FILE: the translations in what --scores printed.
text() {
    sed 's/^[0-9]* ||| //; s/ ||| logp=.*//' "$1"
}

# Of itself it is the run; of two runs it is neither.
for way in "" "--beam-size 1" "--alpha 1.5" "--max-length 3" "--n-best 2" "--sampling --seed 3"; do
    translate one a $way
    translate same a a a $way
    cmp one same || fail "an ensemble of a run with itself: $way"
done
translate a.out a --scores
translate b.out b --scores
translate both a b --scores
translate swapped b a --scores
! cmp -s both a.out || fail "an ensemble is its first run"
! cmp -s both b.out || fail "an ensemble is its second run"
text both >both.text
text swapped >swapped.text
cmp both.text swapped.text || fail "the order of runs matters"

# Weights.
translate found a b --scores --ensemble-weights 7,7
cmp both found || fail "equal weights"
translate most a b --scores --ensemble-weights 0.999999,0.000001
translate found b a --scores --ensemble-weights=0.000001,0.999999
text most >most.text
text a.out >a.text
cmp most.text a.text || fail "a run with nearly all of the weight"
translate heavy a b --scores --ensemble-weights 2,1
translate found a b --scores --ensemble-weights 0.5,0.25
cmp heavy found || fail "only the ratios of weights count"
! cmp -s heavy both || fail "weights change nothing"

# Threads, batches, an export in one file, the name of the input: the same bytes.
for threads in 2 3; do
    OMP_NUM_THREADS=$threads "$etude" translate a b --scores --batch 4 <b.en >found 2>said ||
        fail "$threads threads"
    cmp both found || fail "$threads threads: other bytes"
done
says 0 exported export b --output b.safetensors
translate found a b.safetensors --scores
cmp both found || fail "an export"
"$etude" translate --scores a b.en b >found 2>said || fail "a file among the runs"
cmp both found || fail "a file among the runs: other bytes"
"$etude" translate b --model-dir a --input b.en --scores >found 2>said || fail "--model-dir"
cmp both found || fail "--model-dir: other bytes"

# Given translations have the scores that the search gave them.
"$etude" translate a b --beam-size 1 --scores b.en >wanted 2>said || fail "greedy"
text wanted >targets
"$etude" translate a b --score-targets targets b.en >found 2>said || fail "--score-targets"
sed 's/logp=//; s/score=//' wanted found | awk -F ' [|][|][|] | ' '{ n = NF - 1; at = NR % 30
    if (NR <= 30) { logp[at] = $n; score[at] = $NF }
    else if ((logp[at] - $n) ^ 2 + (score[at] - $NF) ^ 2 > 1e-6) bad = 1 } END { exit bad || NR != 60 }' ||
    fail "scores of given translations"

# Source vocabularies may differ.
translate cd c d --scores
translate dc d c --scores
text cd >cd.text
text dc >dc.text
cmp cd.text dc.text || fail "two source vocabularies"
OMP_NUM_THREADS=3 "$etude" translate c d --scores --batch 5 <b.en >found 2>said || fail "c d"
cmp cd found || fail "two source vocabularies: other bytes with 3 threads"

# Documents.
printf '<p>Red dog <b>runs</b>.</p>\n' >page.html
says 0 '^<p>.*</p>$' translate a b --format html page.html
says 0 . translate a b --split b.en

# What cannot be.
says 3 'a/checkpoints/.* and c/checkpoints/.* need the same target vocabulary' translate a c b.en
says 3 'same target vocabulary .*the first has 25 tokens, the second 24' translate c e b.en
says 3 'none.safetensors' translate a none.safetensors b.en
says 2 'two files to read, b.en and b.de; give one' translate a b.en b b.de
says 2 'nowhere: no such run or file' translate a b.en nowhere
says 2 'nowhere: no such run or file' translate a nowhere b.en
says 2 'only with several runs' translate a b.en --ensemble-weights 1,2
for weights in 1 1,2,3 1, ,1 1,x 1,0 1,-1 1,nan 1,inf 1,1e9 '1;2'; do
    says 2 "^error *translate: --ensemble-weights\|--ensemble-weights $weights: " \
        translate a b b.en --ensemble-weights "$weights"
done
says 2 'a file belongs to one run' translate a b b.en --checkpoint a/checkpoints/ckpt-30.safetensors
says 0 . translate a b b.en --checkpoint 30
says 3 'step 40' translate a b b.en --checkpoint 40

# Evaluated, an ensemble is scored as it translates.
translate mine a b --ensemble-weights 2,1 --beam-size 3
"$etude" evaluate a b b.en b.de --ensemble-weights 2,1 --beam-size 3 --output found >scores 2>said ||
    fail "evaluate a b"
cmp mine found || fail "evaluate: other bytes than translate"
[ "$(grep -c '^checkpoint [ab]/checkpoints/.*, step 60$' scores)" = 2 ] || fail "checkpoints of both"
"$etude" evaluate a b.en b b.de --ensemble-weights 2,1 --beam-size 3 >found 2>said ||
    fail "evaluate: files among the runs"
cmp scores found || fail "evaluate: other scores with files among the runs"
"$etude" evaluate a b --source b.en --reference b.de --ensemble-weights 2,1 --beam-size 3 >found \
    2>said || fail "evaluate a b --source"
cmp scores found || fail "evaluate: other scores with --source"
says 0 '^ *"b/checkpoints/' evaluate a b b.en b.de --json
says 2 '--source is missing' evaluate a b
says 2 '--reference is missing' evaluate a b b.en
says 2 'more than two files to read; leave out b.en' evaluate a b b.en b.de b.en
says 2 'only with several runs' evaluate a b.en b.de --ensemble-weights 1,2
says 3 'need the same target vocabulary' evaluate a c b.en b.de

# Served, an ensemble answers as it translates.
make_table
"$etude" train table --data t.csv --target kind --steps 5 >out 2>&1 || fail "train table"
says 3 'table is a tabular model, and b a translation model' serve table b --port 0
says 3 'a is a translation model, and table a tabular model' serve a table --port 0
says 3 'a is a translation model, and table a tabular model' translate a table b.en
says 2 'table: several models of this kind cannot answer together' serve table table --port 0
says 3 'a is a translation model, and table a tabular model' compare a table --translations --data b.en b.de
says 2 'b.en is neither a run nor an export' serve a b b.en --port 0
if command -v curl >/dev/null; then
    translate wanted a b --ensemble-weights 2,1
    : >address
    "$etude" serve a b --ensemble-weights 2,1 --port 0 >address 2>said &
    server=$!
    for _ in $(seq 600); do
        [ ! -s address ] && kill -0 $server 2>/dev/null || break
        sleep 0.1
    done
    if grep -q 'this build has no HTTP server' said; then
        echo "SKIPPED: serve an ensemble: a build without libmicrohttpd"
    else
        { printf '{"lines": ["'; sed ':a; N; $!ba; s/\n/", "/g' b.en; printf '"]}'; } >request
        { printf '{"translations": ["'; sed ':a; N; $!ba; s/\n/", "/g' wanted; printf '"]}'; } |
            tr -d '\n' >answer
        curl -s -m 60 -H 'Content-Type: application/json' -d @request "$(cat address)" |
            tr -d '\n' >found || :
        sed 's/translate$//' address >home
        curl -s -m 60 "$(cat home)" >facts || :
        sed 's/}$/, "beam_size": 4}/' request >wide
        curl -s -m 60 -H 'Content-Type: application/json' -d @wide "$(cat address)" >answered || :
        kill $server
        wait $server || fail "serve: $(cat said)"
        cmp answer found || fail "serve: other than translate"
        tr -d ' \n' <facts | grep -q '"others":\["b/checkpoints/' || fail "serve: facts $(cat facts)"
        "$etude" translate a b --beam-size 4 --ensemble-weights 2,1 b.en >wanted
        { printf '{"translations": ["'; sed ':a; N; $!ba; s/\n/", "/g' wanted; printf '"]}'; } |
            tr -d '\n' >answer
        tr -d '\n' <answered >found
        cmp answer found || fail "serve: another beam size"
    fi
fi
