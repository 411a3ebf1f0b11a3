#!/bin/sh
# test_subwords.sh ETUDE: sub-words that are drawn in training: a run ends with the same bytes
# wherever it was killed, and for any number of threads. Wrong settings are refused.
set -eu
. "$(dirname "$0")/command.sh"
export OMP_NUM_THREADS=1

make_pairs 200 "rot hund rennt baum haus blau katze" de
head -20 a.en >b.en
head -20 a.de >b.de

# train RUN KIND ARGUMENT...; with run=exec in place of the shell.
run=
train() {
    name=$1 kind=$2
    shift 2
    $run "$etude" train $name --experiment translation/tiny --data a.en a.de --seed 5 --steps 80 \
        --vocab-size 34 --set task.vocabulary.model_type=$kind,task.train_data.global_batch_size=256 \
        --set trainer.checkpoint_interval=10,trainer.max_to_keep=9 \
        --set "{task: {model: {embedding_width: 32, encoder: {num_layers: 1, intermediate_size: 64},
                decoder: {num_layers: 1, intermediate_size: 64}}}}" "$@"
}
last=checkpoints/ckpt-80.safetensors

for kind in bpe unigram; do
    drawn=task.train_data.bpe_dropout=0.2
    [ $kind = bpe ] || drawn=task.train_data.unigram_alpha=0.1
    train $kind $kind --set $drawn >out 2>&1 || fail "$kind"
    train $kind.plain $kind >out 2>&1 || fail "$kind, plain"
    cmp -s $kind/$last $kind.plain/$last && fail "$kind: nothing is drawn"
    OMP_NUM_THREADS=2 train $kind.threads $kind --set $drawn >out 2>&1 || fail "$kind, two threads"
    cmp $kind/$last $kind.threads/$last || fail "$kind: two threads"
    (run=exec && train $kind.killed $kind --set $drawn >out 2>&1) &
    while kill -0 $! 2>/dev/null && ! ls $kind.killed/checkpoints/ckpt-20* >/dev/null 2>&1; do
        sleep 0.01
    done
    kill -9 $! 2>/dev/null || :
    wait $! 2>/dev/null || :
    train $kind.killed $kind --set $drawn >out 2>&1 || fail "$kind, after a kill"
    cmp $kind/$last $kind.killed/$last || fail "$kind: after a kill"
done

# Another rate is another run.
says 3 'run with task.train_data.bpe_dropout: 0.2' train bpe --set task.train_data.bpe_dropout=0.3

# refused CODE TEXT RUN SETTINGS
refused() {
    says "$1" "$2" train "$3" --experiment translation/tiny --data a.en a.de --valid b.en b.de --set "$4"
}
refused 3 'bpe_dropout is only for vocabularies of kind bpe, but this one is unigram; set unigram_alpha' \
    new1 task.train_data.bpe_dropout=0.1
refused 3 'unigram_alpha is only for vocabularies of kind unigram, but this one is bpe; set bpe_dropout' \
    new2 task.train_data.unigram_alpha=0.1,task.vocabulary.model_type=bpe
[ ! -e new1/vocabulary.model ] || fail 'a vocabulary was trained that the setting does not go with'
says 3 'this one is unigram' train new6 --experiment translation/tiny --data a.en a.de \
    --valid b.en b.de --set task.train_data.bpe_dropout=0.1,task.sentencepiece_model_path=unigram/vocabulary.model
refused 3 'are both set; keep the one' new3 \
    task.train_data.bpe_dropout=0.1,task.train_data.unigram_alpha=0.1
refused 3 'sub-words are only sampled in training' new4 task.validation_data.bpe_dropout=0.1
refused 3 'bpe_dropout' new5 task.train_data.bpe_dropout=1
