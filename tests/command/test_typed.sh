#!/bin/sh
# test_typed.sh ETUDE: options that people use on their first day do what their help says:
# --threads, --quiet, --json, init, --init, --dry-run, limits, sets of validation data,
# vocabularies.
set -eu
etude=$1
work=$(mktemp -d "$PWD/typed.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir scratch
export TMPDIR="$work/scratch"

# says CODE TEXT ARGUMENT...: etude ends with CODE, and TEXT is in what it prints.
says() {
    code=$1 text=$2 got=0
    shift 2
    "$etude" "$@" >out 2>err </dev/null || got=$?
    [ "$got" = "$code" ] || fail "$*: exit code $got, wanted $code"
    [ -z "$text" ] || cat out err | grep -q -e "$text" || fail "$*: does not say: $text"
}
fail() {
    echo "test_typed: $*" >&2
    cat out err >&2
    exit 1
}

words() {
    awk -v first="$1" -v lines="$2" 'BEGIN { for (i = first; i < first + lines; i++) { line = ""
        for (k = 0; k <= i % 7; k++)
            line = line sprintf("%c%c ", 97 + (i * 7 + k * 3) % 26, 97 + (i + k * 5) % 26)
        print line } }'
}
words 0 200 >text
awk '{ for (i = NF; i; i--) printf "%s ", $i; print "" }' text >turned
words 0 80 >part
words 1000 50 >news
words 5000 60 >chat
cat >small.yaml <<'END'
task:
  model: {embedding_width: 32, encoder.num_layers: 1, decoder.num_layers: 1}
  train_data: {global_batch_size: 256, shuffle_pool: 64}
END
tiny="--experiment translation/tiny --config small.yaml"

# ---- --threads, --quiet: nothing is said, and no bit depends on how many.
for n in 1 2 3; do
    says 0 '' train $tiny t$n --data text turned --steps 6 --vocab-size 60 --threads $n -q \
        --set trainer.optimizer_config.learning_rate.inverse_sqrt.warmup_steps=5
    [ ! -s out ] && [ ! -s err ] || fail "-q speaks"
done
cmp t1/checkpoints/ckpt-6.safetensors t2/checkpoints/ckpt-6.safetensors
cmp t1/checkpoints/ckpt-6.safetensors t3/checkpoints/ckpt-6.safetensors
says 0 '3 threads' train $tiny t4 --data text text --steps 1 --vocab-size 60 --threads 3
says 2 '--threads: 0 is out of range; allowed: 1 to' train $tiny t5 --threads 0
says 2 '--threads: "two" is not an integer' translate t1 --threads two
[ ! -e t5 ]
says 3 'no such setting' train t1 -q --set task.no_such=1

# ---- init: what it writes gives the experiment again, and is not replaced.
says 0 'written: mine.yaml' init --experiment translation/base mine.yaml
says 3 'mine.yaml exists' init mine.yaml
says 2 'name it mine.yaml' init mine.json
says 0 '' init --force -q mine.yaml
says 0 '' train --config mine.yaml --data text text --steps 1 --vocab-size 60 i --config small.yaml -q
says 0 '' train --experiment translation/auto --config small.yaml k --data text text --steps 1 --vocab-size 60 -q
cmp i/params.yaml k/params.yaml
says 0 '^# Settings' init --experiment translation/tiny -
grep -q '^      num_layers: 4 .*# layers of the stack (1 to 256; default 6)$' out

# ---- --json: one form for all.
says 0 '"name": "translation/tiny"' list --json
says 0 '"name": "trainer.max_to_keep"' list translation/tiny max_to_keep --json
says 0 '"averaged_weights": false' average t1 --last 1 --output average.safetensors --json
says 3 'has 1 checkpoint, fewer than --last 2; trainer.max_to_keep' average k --last 2 \
    --output average2.safetensors
tr a-z A-Z <news >capitals
says 0 '"sacrebleu_score": ' evaluate t1 --source capitals --reference news --json -q
[ ! -s err ] || fail "evaluate -q speaks"
"$etude" score news --json <news | grep -q '"chrf_score": 100'

# ---- --dry-run: says what would be, and nothing is left of it.
says 0 '^would take .*: 5,000 steps of ' train $tiny deep/er/run --data text text --steps 5000 \
    --vocab-size 60 --dry-run
grep -q '^data  *200 pairs' err
[ ! -e deep ]
says 0 '"steps": 7' train $tiny --data text text --steps 7 --vocab-size 60 --dry-run --json -q
says 0 '^would take .*: 4 steps of ' train t1 --steps 10 --dry-run
says 0 '^nothing to do: the run is already at step 6' train t1 --dry-run -q
says 3 'missing' train $tiny --data text missing --dry-run
says 3 'learning_rate\|no such setting' train $tiny --data text text --dry-run --set task.x=1
says 2 'cannot be used with --mode eval' train t1 --mode eval --dry-run
cmp t1/checkpoints/ckpt-6.safetensors t2/checkpoints/ckpt-6.safetensors
cmp t1/params.yaml t2/params.yaml
[ -z "$(ls scratch)" ] || fail "left in TMPDIR: $(ls scratch)"

# ---- --init: another run's weights, vocabulary and settings; a fresh count of steps.
says 0 'initial  *weights of t1; settings, vocabulary of t1' \
    train ft --init t1 --data chat chat --steps 4
cmp t1/vocabulary.model ft/vocabulary.model
[ -e ft/checkpoints/ckpt-4.safetensors ]
says 0 'initial  *weights of t1/checkpoints/ckpt-6.safetensors; vocabulary of t1$' \
    train $tiny ft2 --init t1/checkpoints/ckpt-6.safetensors --data chat chat --steps 1 --dry-run
says 0 "weights of average.safetensors$" \
    train $tiny ft3 --init average.safetensors --data chat chat --steps 1 \
    --set task.sentencepiece_model_path=t1/vocabulary.model
says 0 'task.vocabulary.size: 40 is ignored: the vocabulary of t1/vocabulary.model has 60 tokens' \
    train ft4 --init t1 --data chat chat --steps 1 --dry-run --vocab-size 40
says 3 'belongs to another model' train --experiment translation/tiny ft4 --init t1 --data chat chat
says 2 'is a file, which gives only weights' train ft4 --init average.safetensors --data chat chat
mkdir foreign && echo '{}' >foreign/config.json
says 3 '^etude: --init: foreign/config.json has no model_type' train ft4 --init foreign --data chat chat
says 3 'foreign/config.json has no model_type' import foreign --output ft4
says 3 'there is no folder nowhere; name the folder of a published model' import nowhere --output ft4
says 2 'import: --output is missing' import foreign
says 2 'would be a directory, not a file .pt' import foreign --output a.pt
says 3 'nowhere does not exist' train ft4 --init nowhere --data chat chat
[ ! -e ft4 ]
# It goes on when what it began with is gone.
mv t1 moved
says 0 "does not exist; Etude uses the run's copy, ft/vocabulary.model" \
    train ft --init t1 --data chat chat --steps 5
mv moved t1

# ---- limits: as if the rest were not there, and another limit is another text.
says 0 '' train $tiny whole --data part part --steps 6 -q --set task.sentencepiece_model_path=t1/vocabulary.model
says 0 '^data  *80 pairs' train $tiny limit --data text text --steps 6 \
    --set task.sentencepiece_model_path=t1/vocabulary.model,task.train_data.limit=80
grep -o '"training_loss":[^,]*' whole/metrics.jsonl >expected
grep -o '"training_loss":[^,]*' limit/metrics.jsonl | cmp - expected
says 3 'train_data.limit: 80, but now it is 81' train limit --steps 7 --set task.train_data.limit=81

# ---- several sets: each as it would be alone.
cat >sets.yaml <<'END'
task:
  validation_data:
    - {name: news, source_path: news, target_path: news}
    - {name: chat, source_path: chat, target_path: chat}
END
says 0 '^done .*; best news/sacrebleu_score ' train $tiny sets --config sets.yaml \
    --data text text --steps 4 --vocab-size 60
says 0 '"news": {' evaluate sets --json
says 0 '^chat/chrf_score' evaluate sets
grep '^chat/' out | sed 's|^chat/||' | awk '{ print $1, $2 }' >expected
[ "$(wc -l <expected)" -ge 6 ]
cp -r sets alone
says 0 '' evaluate alone --set 'task.validation_data={sets: [], source_path: chat, target_path: chat}'
awk 'NR > 1 { print $1, $2 }' out | cmp - expected
[ "$(wc -l <sets/translations/4.chat.txt)" = 60 ]
says 0 '' train $tiny sets2 --config sets.yaml --data text text --steps 4 --vocab-size 60 -q \
    --set trainer.best_checkpoint_eval_metric=chat/chrf_score
grep -q '"best_chat/chrf_score"' sets2/metrics.jsonl
says 0 '' train $tiny sets4 --config sets.yaml --data text text --steps 2 --vocab-size 60 -q \
    --set "trainer.best_checkpoint_eval_metric='chat|validation_nll'" \
    --set trainer.best_checkpoint_metric_comp=lower
grep -q '"best_chat|validation_nll"' sets4/metrics.jsonl
# The best of one set is none of another's, whether the metric or the sets change.
says 0 'so far, 4, was chosen by chat/chrf_score (higher is better), but now it is news/validation_loss (low' \
    train sets2 --steps 6 --set trainer.best_checkpoint_eval_metric=news/validation_loss \
    --set trainer.best_checkpoint_metric_comp=lower
grep -q '"best_news/validation_loss":[^"]*"best_step":6' sets2/metrics.jsonl
[ "$(ls sets2/best)" = "$(printf 'best-6.safetensors\ninfo.json')" ]
sed 's/name: news/name: talk/' sets.yaml >talk.yaml
says 0 'news/sacrebleu_score (higher is better), but now it is talk/sacrebleu_score' \
    train sets --steps 5 --config talk.yaml
says 0 '"metric": "validation.talk.sacrebleu_score"' runs sets --json
grep -A2 '"metric": "validation.talk.sacrebleu_score"' out | grep -q '"step": 5'
says 0 '^best  *talk.sacrebleu_score .* at step 5' inspect sets
grep -q '"best_ckpt_global_step": 5' sets/best/info.json
# Without sets it is the same, and with the same settings nothing is said.
says 0 '' train $tiny plain --data text text --valid chat chat --steps 4 --vocab-size 60 -q
says 0 '), but now it is bleu_score' train plain --steps 5 \
    --set trainer.best_checkpoint_eval_metric=bleu_score
grep -q '"best_bleu_score":[^"]*"best_step":5' plain/metrics.jsonl
says 0 'best bleu_score' train plain --steps 6
grep -q 'was chosen by' out err && fail 'a warning for nothing'
says 3 'write SET/METRIC, with a metric of' train $tiny sets3 --config sets.yaml \
    --data text text --set trainer.best_checkpoint_eval_metric=sacrebleu_score
says 3 'two sets are called news' train $tiny sets3 --data text text --set \
    'task.validation_data=[{name: news, tsv_path: a}, {name: news, tsv_path: b}]'
says 3 'sets\[0\].name: "a/b"' train $tiny sets3 --data text text --set \
    'task.validation_data=[{name: a/b, tsv_path: a}]'

# ---- vocabularies.
says 0 '' train $tiny v --data text text --steps 1 --vocab-size auto -q --set \
    'task.vocabulary={byte_fallback: true, user_defined_symbols: [<url>, "a,b\"c"]}'
grep -q -a '<0xF0>' v/vocabulary.model
grep -q -a '<url>' v/vocabulary.model
grep -q -a 'a,b"c' v/vocabulary.model
for symbols in "''" '"a b"' '</s>' '<x>, <x>' '<0x41>'; do
    says 3 'user_defined_symbols: ".*": \(give one\|every\|the list has\|this is\)' train $tiny w --data text text \
        --set "task.vocabulary={byte_fallback: true, user_defined_symbols: [$symbols]}"
done
paste text text | sed 's/^/>>de<<\t/' >tagged.tsv
says 0 '' train $tiny columns --set task.train_data.tsv_path=tagged.tsv --steps 1 \
    --set task.train_data.tag_column=true
grep -q 'tag_column: the vocabulary gets no token for a tag' err
says 0 '' train $tiny columns2 --set task.train_data.tsv_path=tagged.tsv --steps 1 \
    --set task.train_data.tag_column=true,'task.vocabulary.user_defined_symbols=[">>de<<"]'
grep -q 'tag_column' err && fail 'a warning for nothing'
says 0 '' translate columns2 --tag '>>de<<' text
says 3 '^etude: tag: "<unk>": every vocabulary has this token' train $tiny w --data text text --tags '<unk>'

# ---- translate: files in place of streams, and bytes that are no text.
"$etude" translate t1 <news >expected
says 0 '' translate t1 --input news --output hyp -q
cmp hyp expected
gzip -c news >news.gz
says 0 '' translate t1 --input news.gz
cmp out expected
(head -3 news; printf 'a\377b\n'; tail -2 news) >bad
says 3 'bad:4: byte 2 of the line (0xFF) is not UTF-8' translate t1 --input bad --output none
[ ! -e none ]
says 0 'replaced in 1 line$' translate t1 --input bad --invalid replace
[ "$(wc -l <out)" = 6 ]
says 0 ' ||| 0-0' translate v --input text --alignments

# An object for each line of input, with the texts, numbers and words of the other forms.
head -n 3 text >three
says 0 '^{"line": 2, "hypotheses": \[{"text": "' translate v --input three --n-best 2 --alignments --json
[ "$(grep -c '"score": -\{0,1\}[0-9.e-]*, "log_probability": .*, "alignment": \[' out)" = 3 ]
cp out objects
"$etude" translate v --input three --n-best 2 --alignments >lines
awk -F ' [|][|][|] ' '{ print $2; print $3 }' lines >wanted
grep -o '"text": "[^"]*"\|"alignment": [][0-9, ]*]' objects | sed 's/"text": "\(.*\)"/\1/
    s/"alignment": .\(.*\)./\1/; s/\], /] /g; s/\[\([0-9]*\), \([0-9]*\)\]/\1-\2/g' | cmp - wanted ||
    fail "--json says something else"
"$etude" translate v --input three --json | grep -q alignment && fail "alignments that nobody asked for"

# ---- plot --attention: the picture of translate --attention.
"$etude" translate v --input text >found
sed -n "$(grep -n . found | head -n 1 | cut -d : -f 1)p" text >one # a line with words to draw
says 0 '' translate v --input one --attention wanted.svg
says 2 'a picture of attention is an SVG file' translate v --input one --attention wanted.png
says 0 '' plot v --attention "$(cat one)" --output attention.svg
cmp attention.svg wanted.svg
says 2 'attention makes a picture: name its file' plot v --attention aa
says 2 'plot: --attention takes one run, but found v and t1' plot v t1 --attention aa --output a.svg
says 2 'plot: --attention needs --output and no other option; the other options are for curves' plot v --attention aa --output a.svg --metric loss
says 2 'a picture of attention is an SVG file' plot v --attention aa --output a.png
says 3 'none: no such directory' plot none --attention aa --output a.svg
says 3 'nothing to draw: the translation has no word' plot v --attention ' ' --output a.svg
[ ! -e a.svg ]

# ---- export: a directory has all files, or there is none.
# ThreadSanitizer keeps a file of its own, which the limit would cut.
if [ -z "${TSAN_OPTIONS-}" ]; then
    for format in onnx ctranslate2; do
        (ulimit -f 16; says 4 'exporting to half: ' export v --format $format --output half)
        [ ! -e half ] || fail "an export as $format that failed has left something"
    done
    (ulimit -f 16; says 4 '' export v --output half)
    [ ! -e half ] || fail 'an export that failed has left something'
    mkdir half && echo mine >half/notes
    (ulimit -f 16; says 4 'exporting to half: ' export v --format onnx --output half)
    [ "$(ls half)" = notes ] || fail 'an export that failed: more or less than there was'
fi
says 0 '' export v --format onnx --output half
says 2 'would be a directory, not a file .zip' export v --output a.zip

# ---- --init of an export in one file: its settings and vocabulary, as of a run.
says 0 '' export v --output v.safetensors --precision int8
says 0 'weights of v.safetensors; settings, vocabulary of v.safetensors' train --init v.safetensors \
    --data news news --steps 1 fromfile
cmp fromfile/vocabulary.model v/vocabulary.model
grep -q 'sentencepiece_model_path: v.safetensors' fromfile/params.yaml
says 0 '' train fromfile --steps 2 -q
says 0 'weights of v.safetensors; vocabulary of v.safetensors' train $tiny --init v.safetensors \
    --data news news --steps 1 fromfile2
mv v.safetensors away.safetensors
says 0 'v.safetensors does not exist; Etude uses the run.s copy' train fromfile --steps 3
says 2 'average.safetensors is a file, which gives only weights' train --init average.safetensors \
    --data news news nowhere
says 3 'average.safetensors has only weights' train $tiny --data news news --steps 1 nowhere \
    --set task.sentencepiece_model_path=average.safetensors
[ ! -e nowhere ]

# ---- list WORD: what nothing is called is said.
says 3 'no setting of translation/tiny has nonesuch in its name or help; --all' list translation/tiny nonesuch
says 3 'no setting of translation/tiny has nonesuch in its name' list translation/tiny nonesuch --json
says 3 'has all these words in its name' list translation/tiny warmup nonesuch

# ---- --memory: the largest batch whose plan fits; a run that goes on keeps its own.
says 0 '^memory  *[0-9.]* MB planned' train $tiny big --data text text --steps 1 --vocab-size 60 \
    --memory 4M
most=$(sed -n 's/^memory  *\([0-9.]*\) MB planned.*/\1/p' err)
awk "BEGIN { exit !($most <= 4 && $most > 3.6) }" || fail "--memory 4M plans $most MB"
batch=$(sed -n 's/^    global_batch_size: //p' big/params.yaml | head -1)
[ "$batch" != 256 ] && [ "$batch" -gt 64 ] || fail "batches of $batch"
shown=$(echo "$batch" | sed 's/\([0-9]\)\([0-9]\{3\}\)$/\1,\2/')
says 0 "batches of $shown tokens" train $tiny big2 --data text text --steps 1 --vocab-size 60 \
    --set "task.train_data.global_batch_size=$batch"
says 0 '' train $tiny big --data text text --steps 2 --vocab-size 60 --memory 400M -q
[ "$batch" = "$(sed -n 's/^    global_batch_size: //p' big/params.yaml | head -1)" ]
says 4 '--memory 500 kB is too little' train $tiny big3 --data text text --vocab-size 60 --memory 500k
says 2 '--memory 4Q: not a size; write 500M, 4G or 4GiB' train $tiny big3 --memory 4Q
[ ! -e big3 ]

# ---- tables: the same options.
awk 'BEGIN { print "size,colour,kind"; for (i = 0; i < 300; i++)
    print i % 17 + i % 3 * 10 "," (i % 5 ? "red" : "blue") "," (i % 3 ? "round" : "flat") }' >table.csv
head -101 table.csv >part.csv
(head -1 table.csv; tail -60 table.csv) >rest.csv
says 0 '' train --experiment tabular/mlp m --data table.csv --target kind --steps 20 -q
says 0 'initial .*; settings, schema, metadata, features of m$' train m2 --init m --data rest.csv --steps 8
cmp m/features.yaml m2/features.yaml
sed 's/red/green/' rest.csv >green.csv
says 0 'warning: green.csv: colour: [0-9]* of 60 values unknown to the model, first "green" in line 3' \
    train m6 --init m --data green.csv --steps 8
says 3 'a run of tabular/mlp, a task of tabular' train $tiny m3 --init m --data text text
says 0 '^data  *100 rows' train --experiment tabular/mlp m4 --data table.csv --target kind --steps 9 \
    --set task.train_data.limit=100
says 0 '^would take ' train --experiment tabular/mlp --data table.csv --target kind --dry-run
says 0 'best new/validation_log_loss' train --experiment tabular/mlp m5 --data table.csv \
    --target kind --steps 20 --set \
    'task.validation_data=[{name: new, input_path: rest.csv}, {name: old, input_path: part.csv}]'
says 0 '^old/accuracy' evaluate m5
grep '^old/' out | sed 's|^old/||' | awk '{ print $1, $2 }' >expected
says 0 '' evaluate m5 --set 'task.validation_data={sets: [], input_path: part.csv}'
awk '$1 == "target" { exit } NR > 1 { print $1, $2 }' out | cmp - expected
[ -z "$(ls scratch)" ] || fail "left in TMPDIR: $(ls scratch)"
echo "what people type is taken"
