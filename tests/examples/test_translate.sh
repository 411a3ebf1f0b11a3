#!/bin/sh
# test_translate.sh ETUDE TRANSLATE: a model memorises ten pairs and translates them, with the
# command and with the program of examples/, whatever other lines are in the batch.
set -eu
etude=$1 translate=$2
work=$(mktemp -d "$PWD/translate.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "test_translate: $*" >&2
    cat log >&2
    exit 1
}

cat >en <<'X'
A dog runs over the green meadow.
Two children play with a red ball.
The old man reads his newspaper in the park.
Save the file before you close the window.
It rains, and nobody has an umbrella.
She sells apples and pears at the market.
The train to Berlin leaves at nine.
How much does this book cost?
My brother plays the piano every evening.
Please open the door!
X
cat >de <<'X'
Ein Hund läuft über die grüne Wiese.
Zwei Kinder spielen mit einem roten Ball.
Der alte Mann liest im Park seine Zeitung.
Speichern Sie die Datei, bevor Sie das Fenster schließen.
Es regnet, und niemand hat einen Schirm.
Sie verkauft Äpfel und Birnen auf dem Markt.
Der Zug nach Berlin fährt um neun ab.
Wie viel kostet dieses Buch?
Mein Bruder spielt jeden Abend Klavier.
Bitte öffnen Sie die Tür!
X

# Post-norm and pre-norm, in the CPU's best precision and in float32.
stack='num_layers: 1, dropout_rate: 0'
learn() {
    run=$1
    shift
    "$etude" train --experiment translation/tiny --model-dir "$run" \
        --set task.train_data.source_path=en,task.train_data.target_path=de \
        --set "{task: {model: {encoder: {$stack}, decoder: {$stack}}}}" \
        --set '{task: {model: {embedding_width: 64, dropout_rate: 0, label_smoothing: 0}}}' \
        --set '{task: {vocabulary: {size: 90}, train_data: {global_batch_size: 512}}}' \
        --set '{trainer: {train_steps: 200, checkpoint_interval: 200, summary_interval: 200}}' \
        --set trainer.optimizer_config.learning_rate.inverse_sqrt.warmup_steps=40 \
        --set runtime.seed=1 "$@" >log 2>&1 || fail "training $run: exit $?"
    "$etude" translate --model-dir "$run" <en >said 2>log || fail "translating with $run: exit $?"
    cmp -s said de || {
        diff said de >&2 || true
        fail "$run has not learnt its pairs"
    }
    # Scored as the text it is, by all scores.
    "$etude" evaluate --model-dir "$run" --source en --reference de >said 2>log ||
        fail "evaluating $run: exit $?"
    grep -q '^BLEU.* = 100\.00 100' said || fail "evaluate $run: $(cat said)"
}
learn postnorm
learn prenorm --set "{task: {model: {encoder: {norm_first: true, final_norm: true},
    decoder: {norm_first: true, final_norm: true}}}, runtime: {mixed_precision_dtype: float32}}"

# Beside whatever lines, in batches of any size, with any number of threads. Sentences that the
# model never saw, so that hypotheses are close together.
{
    cat en
    echo
    sed 's/the/a/; s/dog/brother/; s/red/green/' en
    tail -n 4 en | tr '\n' ' '
} >many
"$etude" translate --model-dir postnorm --batch 1 <many >alone 2>log || fail "translate --batch 1"
[ "$(grep -c '' alone)" = "$(grep -c '' many)" ] || fail "another number of lines"
[ -z "$(sed -n 11p alone)" ] || fail "an empty line became $(sed -n 11p alone)"
for batch in 2 7 100; do
    for threads in 1 2 3; do
        OMP_NUM_THREADS=$threads "$etude" translate --model-dir postnorm --batch $batch \
            <many >together 2>log || fail "translate --batch $batch"
        cmp -s alone together || fail "other words with --batch $batch and $threads threads"
    done
done
awk '{ line[NR] = $0 } END { for (i = NR; i; i--) print line[i] }' many >backwards
"$etude" translate --model-dir postnorm <backwards 2>log |
    awk '{ line[NR] = $0 } END { for (i = NR; i; i--) print line[i] }' >together
cmp -s alone together || fail "other words in another order"

# The program on public headers.
"$translate" postnorm "$(sed -n 4p en)" "" "$(sed -n 10p en)" >said 2>log || fail "exit $?"
{ sed -n 4p de && echo && sed -n 10p de; } >wanted
cmp -s said wanted || fail "the program says $(cat said)"
refused() {
    status=0
    "$translate" "$@" >said 2>log || status=$?
    [ "$status" = 1 ] || fail "translate $*: exit $status"
    [ ! -s said ] || fail "translate $*: says something"
}
refused nowhere "A dog."
grep -q '^nowhere: no such directory' log || fail "the directory is not named"
refused postnorm "A dog." "$(printf 'caf\351')"
grep -q '2.*UTF-8' log || fail "the line that is not UTF-8 is not named"
echo "learnt by heart, and said back beside anything"
