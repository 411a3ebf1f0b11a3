#!/bin/sh
# test_exports.sh ETUDE PYTHON: exports for other programs, run by these: ONNX Runtime and
# CTranslate2, from PyPI (bench/peers/setup build/peers/venv onnx ctranslate2). Skipped with a
# message if they are missing.
set -eu
etude=$1
python=${ET_PEERS:+$ET_PEERS/bin/python}
python=${python:-$2}
here=$(cd "$(dirname "$0")" && pwd)
if ! "$python" -c 'import onnxruntime, ctranslate2, sentencepiece' 2>/dev/null; then
    echo "SKIPPED: $python has no onnxruntime, ctranslate2 and sentencepiece;" \
        "bench/peers/setup build/peers/venv onnx ctranslate2" >&2
    exit 77
fi
work=$(mktemp -d "$PWD/exports.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
export OMP_NUM_THREADS=1

run() {
    "$@" >log 2>&1 || {
        cat log >&2
        echo "test_exports: $*" >&2
        exit 1
    }
}

awk 'BEGIN {
    print "long,wide,colour,kind"
    for (i = 0; i < 300; i++) {
        x = (i * 37 % 100) / 50; y = (i * 53 % 100) / 50
        kind = x > 1 ? "rose" : (y > 1 ? "lily" : "iris")
        printf("%.2f,%.2f,%s,%s\n", x, y, i % 4 ? "red" : "blue", kind)
    }
}' >train.csv
tail -n +2 train.csv | head -40 >rows.csv
for model in linear feed_forward mlp resnet ft_transformer realmlp tabm pack; do
    few=
    [ $model != pack ] || few="--set task.model.pack.members=3,task.model.pack.width=16"
    run "$etude" train $model --experiment tabular/$model --data train.csv --target kind \
        --steps 20 $few
    run "$etude" export $model --format onnx --inputs encoded --output $model.onnx
    "$etude" predict $model <rows.csv >$model.jsonl
    run "$python" "$here/run_exports.py" table $model.onnx $model/metadata.json rows.csv $model.jsonl
done

# Words for words, in the other order.
awk 'BEGIN {
    split("red dog runs tree house blue cat", a); split("rot Hund rennt Baum Haus blau Katze", b)
    for (i = 0; i < 200; i++) {
        left = right = ""
        for (k = 0; k < 2 + i % 4; k++) {
            w = (i * 5 + k * 3 + int(i / 7)) % 7 + 1
            left = left a[w] " "; right = b[w] " " right
        }
        sub(/ $/, "", left); sub(/ $/, "", right)
        print left >"a.en"; print right >"a.de"
    }
}'
head -50 a.en >b.en
head -50 a.de >b.de
# check NAME SOURCE TARGET: both exports of run.NAME, whose vocabularies are these two, against the run.
check() {
    run "$etude" export run.$1 --format onnx --output onnx.$1
    run "$etude" export run.$1 --format ctranslate2 --output ct2.$1
    "$etude" translate run.$1 --score-targets b.de <b.en >scores
    run "$python" "$here/run_exports.py" onnx onnx.$1 b.en b.de scores
    "$etude" translate run.$1 --beam-size 1 --max-length 20 <b.en >b.hyp
    "$etude" translate run.$1 --beam-size 1 --max-length 20 --scores <b.en >b.scored
    run "$python" "$here/run_exports.py" greedy onnx.$1 b.en b.scored
    [ "$(sort -u b.hyp | wc -l)" -ge 5 ] || { echo "test_exports: it translates nothing" >&2; exit 1; }
    run "$python" "$here/run_exports.py" ctranslate2 ct2.$1 run.$1/$2,run.$1/$3 b.en b.hyp
}

# Pre-norm, post-norm; a vocabulary for each side; an output of its own, too.
for kind in true false sides untied; do
    first=$kind tied=true vocabularies="--vocab-size 32"
    models="vocabulary.model vocabulary.model"
    case $kind in
    sides | untied)
        first=true vocabularies="--vocab-sizes 24 auto"
        models="source_vocabulary.model target_vocabulary.model"
        ;;
    esac
    [ $kind != untied ] || tied=false
    stack="num_layers: 2, intermediate_size: 128, dropout_rate: 0, norm_first: $first, final_norm: $first"
    run "$etude" train run.$kind --experiment translation/tiny --data a.en a.de $vocabularies \
        --steps 150 --set task.train_data.global_batch_size=512,runtime.mixed_precision_dtype=float32 \
        --set "{task: {model: {embedding_width: 64, dropout_rate: 0, label_smoothing: 0, tied_embeddings: $tied,
                encoder: {$stack}, decoder: {$stack}}}}" \
        --set trainer.optimizer_config.learning_rate.inverse_sqrt.warmup_steps=40
    # shellcheck disable=SC2086 # two words
    check $kind $models
done
# A model that was imported: with a bias of the output and tokens that are never generated.
run "$etude" export run.false --format huggingface --output hf
printf '{"bad_words_ids": [[0]], "num_beams": 4}\n' >hf/generation_config.json
run "$etude" import hf --output run.imported
check imported source_vocabulary.model target_vocabulary.model
