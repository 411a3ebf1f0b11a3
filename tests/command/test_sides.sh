#!/bin/sh
# test_sides.sh ETUDE: a vocabulary for each side. The sides have no letter in common (Latin and
# Greek), so tokens made with the wrong vocabulary would be noticed.
set -eu
. "$(dirname "$0")/command.sh"
export OMP_NUM_THREADS=1

make_pairs 160 "ερυθ σκυλος τρεχει δεντρο σπιτι μπλε γατα" el
head -30 a.en >b.en
head -30 a.el >b.el

# train RUN ARGUMENT...; with run=exec in place of the shell.
run=
train() {
    $run "$etude" train "$@" --experiment translation/tiny --data a.en a.el --valid b.en b.el --seed 5 \
        --set trainer.checkpoint_interval=20,task.train_data.global_batch_size=256 \
        --set trainer.max_to_keep=9,trainer.optimizer_config.learning_rate.inverse_sqrt.warmup_steps=30 \
        --set "{task: {model: {embedding_width: 32, dropout_rate: 0, beam_size: 2,
                extra_decode_length: 8,
                encoder: {num_layers: 1, intermediate_size: 64, dropout_rate: 0},
                decoder: {num_layers: 1, intermediate_size: 64, dropout_rate: 0}}}}"
}
separate() {
    train "$@" --vocab-sizes 24 auto --steps 120
}
separate run >out 2>&1 || fail "train"
grep -q '^vocabulary   source: 24 unigram tokens, .*run/source_vocabulary.model)$' out || fail "source"
grep -q '^vocabulary   target: .* unigram tokens, .*run/target_vocabulary.model)$' out || fail "target"
grep -q 'separate embeddings$' out || fail "embeddings"
[ ! -e run/vocabulary.model ] || fail "a third vocabulary"
says 0 '^as trained: run/params.yaml, run/source_vocabulary.model, run/target_vocabulary.model$' inspect run
says 0 '^source_embedding/table .*\[24, 32\] ' inspect run --tensors

# Killed wherever it is, it ends in the same bytes.
for wait in source_vocabulary.model target_vocabulary.model checkpoints/ckpt-40; do
    (run=exec && separate killed >out 2>&1) &
    while kill -0 $! 2>/dev/null && ! ls -d killed/$wait* >/dev/null 2>&1; do
        sleep 0.01
    done
    kill -9 $! 2>/dev/null || :
    wait $! 2>/dev/null || :
done
separate killed >out 2>&1 || fail "after kills"
for file in source_vocabulary.model target_vocabulary.model checkpoints/ckpt-120.safetensors; do
    cmp run/$file killed/$file || fail "after kills: $file"
done

# The run, one file of it and a directory translate alike.
says 0 exported export run --output one.safetensors
says 0 exported export run --output folder
says 0 exported export run --output small.safetensors --precision int8
ls folder | tr '\n' ' ' >found
[ "$(cat found)" = "model.safetensors params.yaml source_vocabulary.model target_vocabulary.model " ] ||
    fail "an export holds $(cat found)"
for way in "" "--n-best 2 --scores" "--sampling --seed 3" "--alignments" "--beam-size 1" \
    "--score-targets b.el"; do
    "$etude" translate run $way <b.en >wanted 2>said || fail "translate $way"
    for model in one.safetensors folder; do
        "$etude" translate $model $way <b.en >found 2>said || fail "$model $way"
        cmp wanted found || fail "$model $way: other than the run's"
    done
done
"$etude" translate run <b.en >wanted

# Served, the run and the file answer the same; what it has on one side alone is no fault.
serve() {
    : >address
    "$etude" serve "$1" --port 0 >address 2>said &
    server=$!
    for _ in $(seq 600); do
        [ ! -s address ] && kill -0 $server 2>/dev/null || break
        sleep 0.1
    done
}
skipped="no curl"
if command -v curl >/dev/null; then
    skipped=
    { printf '{"lines": ["'; sed ':a; N; $!ba; s/\n/", "/g' b.en; printf '"]}'; } >request
    { printf '{"translations": ["'; sed ':a; N; $!ba; s/\n/", "/g' wanted; printf '"]}'; } | tr -d '\n' >answer
    for model in run one.safetensors; do
        serve $model
        ! grep -q 'this build has no HTTP server: install libmicrohttpd-dev, and build Etude again' said || {
            skipped="a build without libmicrohttpd"
            break
        }
        curl -s -m 60 -H 'Content-Type: application/json' -d @request "$(cat address)" | tr -d '\n' >found || :
        kill $server
        wait $server || fail "serve $model: $(cat said)"
        cmp answer found || fail "serve $model: other than translate"
    done
fi
[ -z "$skipped" ] || echo "SKIPPED: serve with a vocabulary for each side: $skipped"

# Several tasks, each with vocabularies of its own, the encoder shared; one of them taken out.
task() {
    cat <<END
  - task_name: $1
    task_config:
      type: translation
      translation:
        train_data: {source_path: $2, target_path: $3, global_batch_size: 256}
        validation_data: {source_path: $4, target_path: $5}
        vocabulary: {shared: false, source: {size: 24}, target: {size: 24}}
        model: {embedding_width: 32, dropout_rate: 0, beam_size: 2, extra_decode_length: 8,
          encoder: {num_layers: 1, intermediate_size: 64, dropout_rate: 0},
          decoder: {num_layers: 1, intermediate_size: 64, dropout_rate: 0}}
END
}
{
    printf 'experiment: multitask/joint\ntask:\n  shared: [^encoder/]\n  task_routines:\n'
    task there a.en a.el b.en b.el
    task back a.el a.en b.el b.en
    echo 'trainer: {train_steps: 6, checkpoint_interval: 3, validation_interval: 6}'
} >both.yaml
says 0 'best there/sacrebleu_score' train both --config both.yaml --seed 5
for file in task_1/source task_1/target task_2/source task_2/target; do
    [ -s both/${file}_vocabulary.model ] || fail "several tasks: no ${file}_vocabulary.model"
done
says 0 '^as trained: .*both/task_2/target_vocabulary.model' inspect both
says 0 '^back/target_embedding/table ' inspect both --tensors
for model in back.safetensors back; do
    says 0 'exported both/' export both --task back --output $model
    "$etude" translate $model --scores <b.el >found 2>said || fail "translate $model"
    [ "$(wc -l <found)" = 30 ] && { [ $model != back ] || cmp found before; } || fail "$model: other lines"
    cp found before
done
"$etude" translate both --task back --scores <b.el >found 2>said || fail "translate a task"
cmp found before || fail "a task of several: other lines than its export"
says 0 '^BLEU' evaluate both --task back --source b.el --reference b.en
says 3 'both has several tasks: add --task NAME, one of there, back' translate both
"$etude" evaluate both | sed -n 's|^back/||p' | tr -s ' ' >measured
"$etude" evaluate back.safetensors --set 'task.validation_data={source_path: b.el, target_path: b.en}' |
    sed 1d | tr -s ' ' | cmp - measured || fail 'the task alone: other values than among the others'
"$etude" evaluate both --task back | sed 1d | tr -s ' ' | cmp - measured || fail 'the task of the run: other values'
says 0 'vocabularies of back.safetensors' train alone --init back.safetensors --data a.el a.en --steps 2
cmp alone/source_vocabulary.model both/task_2/source_vocabulary.model
[ "$(sort -u wanted | wc -l)" -ge 5 ] || fail "it translates nothing"
! grep -q '[a-z]' wanted || fail "letters of the source in a translation"
"$etude" translate run --precision int8 <b.en >wanted
"$etude" translate small.safetensors <b.en >found
cmp wanted found || fail "int8"
"$etude" evaluate run >found 2>said || fail "evaluate"
grep -q '^sacrebleu_score  *100$' found || fail "evaluate: $(cat found)"
for model in run one.safetensors; do
    "$etude" evaluate $model --source b.en --reference b.el >$model.score 2>said || fail "evaluate $model"
done
tail -n 1 run.score >wanted
tail -n 1 one.safetensors.score | cmp wanted - || fail "evaluate: the file has another score"
grep -q 100 wanted || fail "evaluate: $(cat wanted)"

# Each side of formats of others has its own.
says 0 exported export run --output ct2 --format ctranslate2
grep -q '"d' ct2/source_vocabulary.json && ! grep -q 'ο' ct2/source_vocabulary.json || fail "ct2 source"
grep -q 'ο' ct2/target_vocabulary.json && ! grep -q '"▁d' ct2/target_vocabulary.json || fail "ct2 target"
[ ! -e ct2/shared_vocabulary.json ] || fail "ct2: a third vocabulary"
says 0 exported export run --output onnx --format onnx
cmp run/source_vocabulary.model onnx/source.spm || fail "onnx source"
cmp run/target_vocabulary.model onnx/target.spm || fail "onnx target"
grep -q 'ο' onnx/target_vocab.json && ! grep -q 'ο' onnx/vocab.json || fail "onnx vocab.json"
grep -q '"separate_vocabs": true' onnx/tokenizer_config.json || fail "onnx tokenizer"

# Another run begins with both, or with models that are given.
train next --init run --steps 3 >out 2>&1 || fail "--init"
grep -q 'vocabularies of run$' out || fail "--init does not say so"
cmp run/target_vocabulary.model next/target_vocabulary.model || fail "--init: another vocabulary"
train given --vocabs run/source_vocabulary.model run/target_vocabulary.model \
    --steps 2 >out 2>&1 || fail "--vocabs"
cmp run/source_vocabulary.model given/source_vocabulary.model || fail "--vocabs: another"
grep -q unknown out && fail "--vocabs: unknown tokens"
# The run keeps copies, and the next one takes these: the files that were given may be gone.
for side in source target; do
    cp run/${side}_vocabulary.model $side.model
done
train lent --vocabs source.model target.model --steps 2 >out 2>&1 || fail "--vocabs"
rm source.model target.model
says 0 'vocabularies of lent$' train heir --init lent --data a.en a.el --steps 2
cmp run/target_vocabulary.model heir/target_vocabulary.model || fail "--init: another vocabulary"
train exchanged --vocabs run/target_vocabulary.model run/source_vocabulary.model --steps 2 >out 2>&1 ||
    fail "--vocabs, exchanged"
for side in source target; do
    grep -q "warning: exchanged/${side}_vocabulary.model: .* of the tokens of the $side are unknown" out ||
        fail "--vocabs, exchanged: nothing is said of the $side"
done
train half --separate-vocabularies --set task.vocabulary.target.path=run/target_vocabulary.model \
    --vocab-size 20 --steps 2 >out 2>&1 || fail "one of them given"
grep -q 'source: 20 unigram' out || fail "one of them given: the other's size"
train bytes --vocab-sizes 280 auto --steps 2 \
    --set 'task.vocabulary.byte_fallback=true,task.vocabulary.user_defined_symbols=[<url>]' \
    >out 2>&1 || fail "bytes"
says 0 exported export bytes --output bytes.ct2 --format ctranslate2
for side in source target; do
    grep -q '<0x41>' bytes.ct2/${side}_vocabulary.json || fail "bytes: $side has none"
    grep -q '<url>' bytes.ct2/${side}_vocabulary.json || fail "symbols: $side has none"
done

# An output of its own is one more table, which exports hold as well; a run keeps to what it has.
untied() {
    train "$@" --separate-vocabularies --vocab-size auto --set task.model.tied_embeddings=false
}
untied untied --steps 120 >out 2>&1 || fail "untied"
grep -q 'separate embeddings, a separate output$' out || fail "untied: does not say so"
says 0 '^output/table ' inspect untied --tensors
says 0 '^target_embedding/table ' inspect untied --tensors
says 0 exported export untied --output untied.safetensors
"$etude" translate untied <b.en >wanted
"$etude" translate untied.safetensors <b.en >found
cmp wanted found || fail "untied: the file translates otherwise"
[ "$(sort -u wanted | wc -l)" -ge 5 ] || fail "untied: it translates nothing"
code=0
train untied --separate-vocabularies --vocab-size auto --steps 130 >out 2>&1 || code=$?
[ $code = 3 ] && grep -q 'task.model.tied_embeddings' out || fail "untied, then tied: exit code $code"

separate dry --dry-run >out 2>&1 || fail "--dry-run"
[ ! -e dry ] || fail "--dry-run left something"
separate run --dry-run >out 2>&1 || fail "--dry-run of a run"
separate fitted --memory 200M --dry-run >out 2>&1 || fail "--memory"

# What is wrong names the file or the setting, and changes nothing.
shared='both languages share a vocabulary; set task.vocabulary.shared to false'
code=0
train x --set task.vocabulary.source.size=24 --steps 2 >out 2>&1 || code=$?
[ $code = 3 ] && grep -q "task.vocabulary.source.size: $shared" out || fail "sizes of a shared one"
code=0
train x --separate-vocabularies --steps 2 \
    --set task.sentencepiece_model_path=run/source_vocabulary.model >out 2>&1 || code=$?
[ $code = 3 ] && grep -q 'set task.vocabulary.source.path and task.vocabulary.target.path' out ||
    fail "one model for two"
code=0
train x --vocab-sizes 24 9000 --steps 2 >out 2>&1 || code=$?
[ $code = 3 ] && grep -q '^etude: task.vocabulary.target.size: .*set its size to' out ||
    fail "a size that the text does not allow"
code=0
train x --vocabs run/source_vocabulary.model none --steps 2 >out 2>&1 ||
    code=$?
[ $code != 0 ] && grep -q 'cannot open none' out || fail "a model that is not there"
[ ! -e x ] || fail "something was made"
code=0
train run --steps 130 >out 2>&1 || code=$?
[ $code = 3 ] && grep -q 'task.vocabulary.shared' out || fail "a run that shares now"
code=0
train run --steps 130 --vocabs run/target_vocabulary.model \
    run/target_vocabulary.model >out 2>&1 || code=$?
[ $code = 3 ] && grep -q 'task.vocabulary.source.path: .*not the model that this run started with' out ||
    fail "another model than the run's"
train one --vocab-size auto --steps 2 >out 2>&1 || fail "a shared one"
code=0
train x --separate-vocabularies --init one --steps 2 >out 2>&1 || code=$?
[ $code = 3 ] && grep -q 'one has no source_vocabulary.model' out || fail "--init of a shared one"

# refused WHAT TEXT: by all that read the run.
refused() {
    tells 3 "$2" translate run --input b.en --output found
    tells 3 "$2" evaluate run
    tells 3 "$2" inspect run
    tells 3 "$2" export run --output x.safetensors
    code=0
    separate run >out 2>&1 || code=$?
    [ $code = 3 ] && grep -q "$2" out || fail "$1: train: exit code $code"
}
mkdir kept
cp run/*_vocabulary.model kept
mv run/source_vocabulary.model x
mv run/target_vocabulary.model run/source_vocabulary.model
mv x run/target_vocabulary.model
refused swapped 'run/source_vocabulary.model does not belong to .*: it is the target vocabulary, not the source vocabulary'
cp kept/* run
cp bytes/target_vocabulary.model run
refused "of another size" 'run/target_vocabulary.model changed since .*restore the file'
for side in source target; do
    cp kept/* run
    at=$(($(wc -c <run/${side}_vocabulary.model) / 2))
    byte=$(od -An -tu1 -j $at -N 1 run/${side}_vocabulary.model)
    printf "\\$(printf %o $((byte ^ 4)))" |
        dd of=run/${side}_vocabulary.model bs=1 seek=$at conv=notrunc 2>/dev/null
    refused "a flipped bit" "run/${side}_vocabulary.model"
    cp kept/* run
    rm run/${side}_vocabulary.model
    got=0
    "$etude" translate run <b.en >out 2>&1 || got=$?
    [ $got != 0 ] && grep -q "run/${side}_vocabulary.model" out || fail "translate without the $side's"
done
# A lost one is trained again, to the same bytes.
separate run >out 2>&1 || fail "a lost vocabulary: $?"
cmp kept/target_vocabulary.model run/target_vocabulary.model || fail "a lost vocabulary: another metric has this name"
at=$(($(wc -c <one.safetensors) / 2))
cp one.safetensors bad.safetensors
start=$(grep -abo 'σκυλ' bad.safetensors | head -1 | cut -d: -f1)
printf X | dd of=bad.safetensors bs=1 seek=$start conv=notrunc 2>/dev/null
tells 3 'bad.safetensors: .*target_vocabulary.model' translate bad.safetensors --input b.en --output found
echo "sides: each has its own"
