#!/bin/sh
# test_finetune.sh FINETUNE: a model memorises ten pairs, is tuned on other translations of two of
# them, and translates them so; a second start trains nothing.
set -eu
finetune=$1
work=$(mktemp -d "$PWD/finetune.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
export OMP_NUM_THREADS=1

fail() {
    echo "test_finetune: $*" >&2
    cat log said >&2
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
sed -n '4p; 10p' en >own.en
printf 'Die Datei speichern, dann das Fenster schließen.\nTür auf!\n' >own.de

stack='num_layers: 1, dropout_rate: 0'
run() {
    "$finetune" en de own.en own.de 200 100 \
        "{task: {model: {encoder: {$stack}, decoder: {$stack}, embedding_width: 64}}}" \
        '{task: {model: {dropout_rate: 0, label_smoothing: 0}, vocabulary: {size: 90}}}' \
        task.train_data.global_batch_size=512,runtime.seed=1 \
        trainer.optimizer_config.learning_rate.inverse_sqrt.warmup_steps=40 >said 2>log ||
        fail "exit $?"
}
run
{
    sed 's/^/         /' own.en
    sed -n '4s/^/general  /p; 10s/^/general  /p' de
    sed 's/^/tuned    /' own.de
} >wanted
cmp -s said wanted || fail "other translations"
grep -q 'learning_rate_multiplier: 0.1' tuned/params.yaml || fail "no parameter group"
cp said before
cksum tuned/checkpoints/*.safetensors general/checkpoints/*.safetensors >files
run
cmp -s said before || fail "a second start says something else"
cksum tuned/checkpoints/*.safetensors general/checkpoints/*.safetensors | cmp -s - files ||
    fail "a second start trains"

status=0
"$finetune" en de >said 2>log || status=$?
[ "$status" = 2 ] && grep -q usage log || fail "without words: exit $status"
rm -r general
status=0
"$finetune" nowhere de own.en own.de 1 1 >said 2>log || status=$?
[ "$status" != 0 ] && grep -q 'nowhere' log || fail "without data: exit $status"
echo "finetune: two pairs are learned anew"
