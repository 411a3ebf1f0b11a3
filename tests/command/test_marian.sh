#!/bin/sh
# test_marian.sh ETUDE MAKE_MARIAN: runs that begin with a folder of transformers' MarianMT.
set -u
. "$(dirname "$0")/command.sh"
make=$2
data='--data s.en s.de'

# letters LINES SEED: words of the folder's vocabularies.
letters() {
    awk -v lines="$1" -v seed="$2" 'BEGIN { srand(seed); for (i = 0; i < lines; i++) {
        n = 2 + int(rand() * 5); line = ""
        for (k = 0; k < n; k++) line = line (k ? " " : "") substr("abcdefgh", 1 + int(rand() * 8), 1)
        print line } }'
}
letters 60 1 >s.en
rev <s.en >s.de
letters 8 3 >v.en
rev <v.en >v.de
"$make" . || fail "no folder"
printf '{"source_lang": "en", "target_lang": "de"}' >hf/tokenizer_config.json

# await_checkpoint PROCESS FILE: waits until the process has saved the file, or has ended.
await_checkpoint() {
    while kill -0 "$1" 2>/dev/null && [ ! -e "$2" ]; do
        sleep 0.02
    done
}

# The folder is a run, whether it was imported or is named itself.
# shellcheck disable=SC2086 # words
says 0 'initial      weights of hf/; settings, vocabularies of hf/' train direct --init hf/ $data \
    --steps 6 --set trainer.summary_interval=2
says 0 'imported hf' import hf --output made
# shellcheck disable=SC2086
says 0 'weights of made/model.safetensors' train twice --init made $data --steps 6 \
    --set trainer.summary_interval=2
for run in direct twice; do
    sed 's/"time":{[^}]*}//g' $run/metrics.jsonl >$run.log
    "$etude" translate $run <v.en >$run.out 2>err || fail "translate $run: $(cat err)"
done
cmp -s direct.log twice.log || fail "two ways, two results"
cmp -s direct.out twice.out || fail "two ways, two translations"
grep -q 'source_punctuation: en$' direct/params.yaml || fail "the punctuation of the source"

# Punctuation is normalized by the languages of the folder, or by those that are named.
# shellcheck disable=SC2086
says 0 '^punctuation  normalized as Moses does: source en, target de$' train said --init hf $data --steps 1
# shellcheck disable=SC2086
says 0 '^punctuation  normalized as Moses does: source fr$' train other --init hf $data --steps 1 \
    --set task.vocabulary.source_punctuation=fr,task.vocabulary.target_punctuation=
says 0 'punctuation is normalized as Moses does for en and de' import hf --output languages
mv hf/tokenizer_config.json .
# shellcheck disable=SC2086
says 0 '^punctuation  not normalized; models of OPUS-MT need it: add --normalize-punctuation' train none --init hf $data --steps 1
says 0 'hf does not name its languages; --languages en,de' import hf --output nameless
says 2 'expected the codes of two languages' import hf --output nameless --languages english
says 0 'as Moses does for es and it' import hf --output named --languages es,it
grep -q 'target_punctuation: it$' named/params.yaml || fail "--languages"
mv tokenizer_config.json hf/

# Every file of the folder is opened once; config.json and the weights are looked at before.
if command -v strace >/dev/null; then
    # shellcheck disable=SC2086
    strace -f -e trace=openat -o opened "$etude" train once --init hf $data --steps 1 >out 2>&1
    for name in vocab.json source.spm target.spm tokenizer_config.json; do
        [ "$(grep -c "hf/$name" opened)" = 1 ] || fail "$name is read $(grep -c "hf/$name" opened) times"
    done
    [ "$(grep -c hf/model.safetensors opened)" = 2 ] || fail "the weights are read again"
fi

# What was chosen is said, and each of it can be set. Early stopping needs a validation, and label
# smoothing is the model's.
chosen() {
    tr '\n' ' ' <out | tr -s ' ' | grep -q -e "$1" || fail "does not say: $1"
}
# shellcheck disable=SC2086
says 0 '^fine-tuning  for 60 pairs and 20 steps (--set changes any of these):$' train tuned --init hf \
    $data --valid v.en v.de --steps 20
chosen 'rate 0.0004, falling to 4e-05, warm-up steps 1, label smoothing 0.1, batches of 512, average'
chosen 'steps between validations 2, early stopping after validations 3'
[ "$(grep -c validation_loss tuned/metrics.jsonl)" -ge 4 ] || fail "too few validations to stop early"
for line in 'type: adam$' 'type: polynomial$' 'enabled: true$' 'average_decay: 0.9$' 'patience: 3$' \
    'start_step: 0$'; do
    grep -q "$line" tuned/params.yaml || fail "params.yaml has no $line"
done
# shellcheck disable=SC2086
says 0 'early stopping after validations 0' train alone --init made $data --steps 20
# shellcheck disable=SC2086
says 0 '^done ' train mine --init hf $data --valid v.en v.de --steps 20 --lr 0.002 --batch-size 256 \
    --set task.model.label_smoothing=0,trainer.early_stopping.patience=1 \
    --set trainer.optimizer_config.ema.enabled=false
chosen 'falling to 0.0002, warm-up steps 1, steps between validations' ||
    grep -A 3 '^fine-tuning' out
grep -q 'initial_learning_rate: 0.002$' mine/params.yaml || fail "--lr: $(cat mine/params.yaml)"
# A trained run is a finished model too; one that was stopped has its own settings.
# shellcheck disable=SC2086
says 0 '^fine-tuning  for 60 pairs and 4 steps' train again --init tuned $data --steps 4
# shellcheck disable=SC2086
"$etude" train stopped --experiment translation/tiny $data --steps 100000 >out 2>&1 \
    --set task.model.embedding_width=16,task.vocabulary.size=20,trainer.checkpoint_interval=20 \
    --set trainer.max_to_keep=5000 &
process=$!
await_checkpoint $process stopped/checkpoints/ckpt-20.safetensors
kill $process
wait $process
[ $? = 75 ] || fail "not stopped with a checkpoint"
# shellcheck disable=SC2086
says 0 'initial .*settings, vocabulary of stopped' train after --init stopped $data --steps 4
! grep -q '^fine-tuning' out || fail "the recipe of a run that is not finished"
# shellcheck disable=SC2086
says 0 '^done ' train twolayers --experiment translation/tiny $data --layers 2 --vocab-size 20 \
    --steps 2 --set task.model.embedding_width=16
# As with any run: the same bytes with any number of ranks and threads and after kill -9.
# shellcheck disable=SC2086
begin() {
    run=$1 steps=$2
    shift 2
    "$@" train "$run" --init hf $data --valid v.en v.de --steps "$steps" --lr 0.001 \
        --set runtime.data_shards=2,trainer.validation_interval=20,trainer.checkpoint_interval=10 \
        --set trainer.optimizer_config.learning_rate.polynomial.decay_steps=40,trainer.max_to_keep=99 \
        --set trainer.optimizer_config.ema.average_decay=0.95,trainer.summary_interval=10 \
        --set trainer.optimizer_config.warmup.linear.warmup_steps=2,trainer.early_stopping.patience=0
}
tensors() {
    grep -ao '"checksum/[^,}]*' "$1/checkpoints/ckpt-40.safetensors"
}
begin whole 40 "$etude" >out 2>&1 || fail whole
tensors whole >ours
[ -s ours ] || fail "no checksums"
OMP_NUM_THREADS=3 begin threads 40 "$etude" >out 2>&1 || fail threads
begin ranks 40 "$etude" launch -n 2 -- >out 2>&1 || fail ranks
begin killed 4000 exec "$etude" >out 2>&1 &
process=$!
await_checkpoint $process killed/checkpoints/ckpt-20.safetensors
kill -KILL $process
wait $process 2>/dev/null
[ -e killed/checkpoints/ckpt-20.safetensors ] || fail "no checkpoint before the kill"
find killed/checkpoints -name 'ckpt-[3-9]?.safetensors' -o -name 'ckpt-[1-9]??*.safetensors' | xargs rm -f
begin killed 40 "$etude" >out 2>&1 || fail "after a kill"
for run in threads ranks killed; do
    tensors $run | cmp -s - ours || fail "$run ended elsewhere"
done
says 0 'BLEU' evaluate whole v.en v.de
says 0 'average' average whole/checkpoints/ckpt-30.safetensors whole/checkpoints/ckpt-40.safetensors \
    --output mean.safetensors
# shellcheck disable=SC2086
says 0 'steps' train dry --init hf $data --dry-run --steps 20
[ ! -e dry ] || fail "--dry-run left a run"
# shellcheck disable=SC2086
says 0 '^length       10 steps of .* fit into the time limit' train timed --init hf $data --time-limit 60s

# A smaller batch may be needed to fit into so much memory; a larger one is of no use.
letters 4000 5 >many.en
rev <many.en >many.de
batch_of() {
    sed -n 's/^ *global_batch_size: //p' "$1/params.yaml" | head -1
}
many='--data many.en many.de --steps 2'
# shellcheck disable=SC2086
says 0 '^done ' train usual --init hf $many
# shellcheck disable=SC2086
says 0 '^done ' train room --init hf $many --memory 500M
[ "$(batch_of room)" = "$(batch_of usual)" ] || fail "--memory 500M: batches of $(batch_of room)"
# shellcheck disable=SC2086
says 0 '^done ' train narrow --init hf $many --memory 700k
[ "$(batch_of narrow)" -lt "$(batch_of usual)" ] || fail "--memory 700k: batches of $(batch_of narrow)"

# A model of another size is not that of the folder, unless a part of it is asked for. A vocabulary
# of another size is not made.
for dry in '' --dry-run; do
    # shellcheck disable=SC2086
    says 3 'hf: belongs to another model: this run has no decoder/layer_1/' train less --init hf $data \
        --steps 2 --layers 1 $dry
    rm -rf less
    # shellcheck disable=SC2086
    says 3 'hf: belongs to another model: it has no ' train more --init hf $data --steps 2 --layers 3 $dry
    rm -rf more
    # shellcheck disable=SC2086
    says 0 'vocabulary.source.size: 500 is ignored' train size --init hf $data --steps 2 \
        --vocab-size 500 $dry
    rm -rf size
    # shellcheck disable=SC2086
    says 0 'this model has no encoder/layer_1/.*, so [0-9]* of .* weights are not used' train less \
        --init twolayers $data --steps 2 --layers 1 $dry
    rm -rf less
done
# shellcheck disable=SC2086
says 0 '^done ' train less --init hf $data --steps 2 --layers 1 --set task.init_pattern=.

# A run does not need the folder any more.
mv hf away
# shellcheck disable=SC2086
says 0 'resum' train direct --init hf/ $data --steps 8 --accept-changes
mv away hf

# A model of Marian begins a target with zeros, and goes on to do so while it is fine-tuned: it goes
# out as Marian's and comes in again as it was.
"$make" . marian
says 0 imported import hf --output fitting
grep -q 'zero_start: true$' fitting/params.yaml || fail "no zero_start"
says 0 'exported' export fitting --format marian --output release
for ranks in '' 'launch -n 2 --'; do
    rm -rf fitted out.marian again
    # shellcheck disable=SC2086
    says 0 '^done ' $ranks train fitted --init release $data --steps 20 \
        --set runtime.data_shards=2
    says 0 'exported' export fitted --format marian --output out.marian
    ! cmp -s release/model.npz out.marian/model.npz || fail "nothing was trained"
    says 0 'imported' import out.marian --output again
    for run in fitted again; do
        "$etude" translate $run --scores <v.en >$run.out 2>err || fail "translate $run: $(cat err)"
    done
    cmp -s fitted.out again.out || fail "another model in Marian's files"
done
"$make" .
says 0 imported import hf --output plain-start
! grep -q 'zero_start: true$' plain-start/params.yaml || fail "zero_start of a row that is not"

# Vocabularies by name; an experiment gives settings, and the folder the weights.
# shellcheck disable=SC2086
says 3 'task.vocabulary.shared is true' train a --init hf $data --set task.vocabulary.shared=true
# shellcheck disable=SC2086
says 3 'hf: belongs to another model: ' train a --init hf $data --experiment translation/tiny \
    --set task.vocabulary.shared=false
rm -rf a
# shellcheck disable=SC2086
says 0 'weights of hf' train a --init hf $data --steps 1 --set task.init_pattern=norm
# A run with an experiment has the languages of the folder, or those that are named, or none. Its
# model is another.
printf '{"source_lang": "en", "target_lang": "de"}' >hf/tokenizer_config.json
for own in "normalized as Moses does: source en, target de:" \
    "normalized as Moses does: source fr, target de:--set task.vocabulary.source_punctuation=fr" \
    "normalized as Moses does: source es, target it:--normalize-punctuation es it" \
    "not normalized; :--set task.vocabulary.source_punctuation=,task.vocabulary.target_punctuation="; do
    # shellcheck disable=SC2086
    says 3 "^punctuation  ${own%:*}" train x --dry-run --init hf $data --experiment translation/tiny \
        --set task.vocabulary.shared=false ${own##*:}
done
rm hf/tokenizer_config.json
says 3 'a run of translation/base' train b --init hf --experiment tabular/mlp --data s.en

# The language that a text is translated to: in front of each line, as a setting of the text, or in
# a column.
sed 's/^/>>fra<< /' s.en >tagged.en
sed 's/^/>>fra<< /' v.en >tagged-v.en
paste s.en s.de | sed 's/^/>>fra<<\t/' >s.tsv
tag="tag: '>>fra<<'"
tagged() {
    run=$1
    shift
    says 0 '^done ' train "$run" --init hf "$@" --steps 6 --set trainer.summary_interval=2
    sed 's/"time":{[^}]*}//g' "$run/metrics.jsonl" >"$run.log"
}
tagged lines --data tagged.en s.de --valid tagged-v.en v.de
tagged setting --data s.en s.de --valid v.en v.de --set "{task: {train_data: {$tag}, validation_data: {$tag}}}"
tagged column --data s.tsv --valid tagged-v.en v.de --set task.train_data.tag_column=true
tagged plain --data s.en s.de --valid v.en v.de
tagged mixed --set "task.train_data.mix=[{source_path: s.en, target_path: s.de, $tag}]" --valid tagged-v.en v.de
for run in setting column mixed; do
    cmp -s lines.log $run.log || fail "tags of the $run are another training"
done
! cmp -s lines.log plain.log || fail "tags change nothing"
# The cache is not that of the text without a tag.
tagged plain --data s.en s.de --valid v.en v.de
# A text without a language is named, and so is a line.
says 0 '^warning: train_data: [0-9]* sources without a tag for the target language; .*: >>fra<<$' \
    train untagged --init hf --data s.en s.de --valid v.en v.de --steps 1
grep -q '^warning: validation_data: ' out || fail "no warning of the validation data"
says 0 '^done ' train knows --init hf --data tagged.en s.de --valid tagged-v.en v.de --steps 1
! grep 'without a tag' out || fail "a warning of a text with languages"
{ echo; head -3 s.en; sed -n '4,6s/^/>>fra<< /p' s.en; } >some.en
sed '/./{/^>>/!s/^/>>fra<< /;}' some.en >all.en
says 0 'warning: line 2 has no tag for the target language; .*: >>fra<<$' translate lines some.en
[ "$(grep -c 'has no tag for' out)" = 1 ] || fail "more than one warning"
"$etude" translate lines --scores all.en >all 2>warned
[ ! -s warned ] || fail "a warning of lines with a language"
"$etude" translate lines --scores --tag '>>fra<<' some.en >some
cmp some all || fail "--tag is not the tag of a line"
! "$etude" translate lines --scores some.en 2>warned | cmp -s - all || fail "tags change no translation"
# A line's own tag holds for all its sentences.
if "$etude" translate lines --split --language en </dev/null 2>split >/dev/null; then
    sed '/^$/d; s/$/. B c. D e f./' all.en | head -6 >long.en
    sed 's/^>>fra<< //' long.en >bare.en
    "$etude" translate lines --split --language en long.en >split.out 2>warned
    [ ! -s warned ] || fail "a warning of sentences with a language: $(cat warned)"
    "$etude" translate lines --split --language en --tag '>>fra<<' bare.en | cmp - split.out ||
        fail "a line's own tag is not its sentences'"
else
    echo "SKIPPED: sentences of a line with a tag: $(cat split)"
fi

# The target of a request to serve chooses the tag.
if command -v curl >/dev/null && ! "$etude" serve lines --port 0 --precision int7 2>&1 | grep -q 'no HTTP server'; then
    "$etude" serve lines --port 0 --languages en >address 2>serve.log &
    server=$!
    for _ in $(seq 600); do
        [ ! -s address ] && kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    url=$(cat address)
    [ "$(curl -s -m 30 "${url%/translate}/languages")" = '[{"code": "en", "name": "English", "targets": ["fr"]}, {"code": "fr", "name": "French", "targets": []}]' ] ||
        fail "languages: $(curl -s -m 30 "${url%/translate}/languages")"
    # A line that the drawn model translates to some text.
    sed 's/^>>fra<< //' all.en >bare.all
    "$etude" translate lines --tag '>>fra<<' bare.all >bare.fr
    line=$(grep -n -m 1 . bare.fr | cut -d: -f1)
    sed -n "${line}p" bare.all >one.en
    wanted=$(sed -n "${line}p" bare.fr)
    got=$(curl -s -m 30 --data-urlencode "q=$(cat one.en)" -d source=en -d target=fr "$url")
    [ "$got" = "{\"translatedText\": \"$wanted\"}" ] || fail "serve: $got, wanted $wanted"
    # The only target is that of lines as well.
    got=$(curl -s -m 30 -H 'Content-Type: application/json' -d "{\"lines\": [\"$(cat one.en)\"]}" "$url")
    [ "$got" = "{\"translations\": [\"$wanted\"]}" ] || fail "serve: $got, wanted $wanted"
    kill "$server"
    wait "$server"
    ! grep 'has no tag' serve.log || fail "a warning of a line with a language"
else
    echo "SKIPPED: targets of serve: no curl or no libmicrohttpd"
fi
says 3 'tag ">>deu<<" is not a token of the source vocabulary; it has >>fra<<$' translate lines some.en \
    --tag '>>deu<<'
says 3 'cannot be combined with alignments; write the tag in front of each line' translate lines some.en --tag '>>fra<<' \
    --alignments
says 3 'tag: ">>deu<<" is not a token of the source vocabulary' train x --init hf --data s.en s.de \
    --set "task.train_data.tag='>>deu<<'"
says 3 'train_data.tag: "a b": give one word' train x --init hf --data s.en s.de --set "task.train_data.tag=a b"
says 3 'tag_column: only with tsv_path' train x --init hf --data s.en s.de --set task.train_data.tag_column=true
says 3 'tag and tag_column are both set' train x --init hf --data s.tsv \
    --set "{task: {train_data: {tag_column: true, $tag}}}"
says 3 's.tsv:1: expected 2 columns, found 3' train x --init hf --data s.tsv
paste s.en s.de >two.tsv
says 3 'two.tsv:1: expected 3 columns: write tag, TAB, source' train x --init hf --data two.tsv \
    --set task.train_data.tag_column=true
rm -rf x

# What is wrong with a folder is said in one line, before anything is written.
broken() {
    text=$1
    # shellcheck disable=SC2086
    once 3 "$text" train broken --init hf $data
    [ "$(wc -l <out)" = 1 ] || fail "more than one line"
    [ ! -e broken ] || fail "a run of a broken folder"
    rm -rf hf
    "$make" .
}
size=$(wc -c <hf/model.safetensors)
head -c $((size / 2)) hf/model.safetensors >cut && mv cut hf/model.safetensors
broken 'hf/model.safetensors: .*; download the file again$'
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n' >hf/model.safetensors
broken 'this is a pointer of 63 bytes in place of the file: run git lfs pull'
LC_ALL=C sed -i 's/"F32"/"I16"/' hf/model.safetensors
broken 'dtype I16 is not supported; convert to [^;]*$'
rm hf/source.spm
broken 'hf/source.spm is missing; download this file, too$'
rm hf/model.safetensors
broken 'hf has neither model.safetensors nor pytorch_model.bin'
rm hf/config.json
broken 'hf has no config.json (.*; download the missing file, too$'
sed -i 's/"<pad>": 29/"<pad>": 30/' hf/vocab.json
broken 'hf/vocab.json: "<pad>" has no number from 0 to 29'
sed -i 's/"<pad>": 29/"<pad>": 28/' hf/vocab.json
broken 'hf/vocab.json: .* have one number, 28; download the file again$'
sed -i 's/"encoder_ffn_dim": 24/"encoder_ffn_dim": 32/' hf/config.json
broken 'shape \[24, 16\], but its settings give \[32, 16\]; take the settings and the weights of one model$'
head -c 100 hf/config.json >cut && mv cut hf/config.json
broken 'hf/config.json:.* not JSON: .*; download the file again$'
printf '{"model_type": "bert"}' >hf/config.json
broken 'hf/config.json: model_type is "bert", but only models of type marian'
rm hf/model.safetensors
{
    printf '\200\002\212\012\154\374\234\106\371\040\152\250\120\031.\200\002M\351\003.\200\002}X\015\000\000\000little_endian\210s.'
    printf '\200\002cos\nsystem\nX\004\000\000\000true\205R.'
} >hf/pytorch_model.bin
broken 'os.system'
exit 0
