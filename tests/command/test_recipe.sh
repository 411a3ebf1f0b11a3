#!/bin/sh
# test_recipe.sh ETUDE: settings that follow from the data and the length of the run: without an
# experiment; with steps, epochs, a time limit, or none of them. Settings that the user gives are
# kept; runs resume.
set -eu
. "$(dirname "$0")/command.sh"

make_pairs 300 'rot hund rennt baum haus blau katze' de
small='{task: {model: {embedding_width: 32, encoder: {num_layers: 1}, decoder: {num_layers: 1}}}}'
# train CODE TEXT ARGUMENT...
train() {
    code=$1 text=$2
    shift 2
    says "$code" "$text" train "$@" --set "$small"
}
# begin CODE TEXT RUN ARGUMENT...: of a run on that text.
begin() {
    code=$1 text=$2 run=$3
    shift 3
    train "$code" "$text" "$run" --data a.en a.de --batch-size 256 "$@"
}
# setting RUN NAME: its value, of the first setting of that name.
setting() {
    sed -n "s/^ *$2: //p" "$1/params.yaml" | head -n 1
}
# is RUN NAME VALUE
is() {
    [ "$(setting "$1" "$2")" = "$3" ] || fail "$1: $2 is $(setting "$1" "$2"), not $3"
}
# lacks TEXT: the last command did not say it.
lacks() {
    ! grep -q -e "$1" out || fail "says: $1"
}

# Text without an experiment; what is chosen is told, and settings of the run.
begin 0 '^experiment   translation/auto ' steps --steps 40
for line in 'recipe       for 300 pairs and 40 steps (--set changes any of these):$' \
    '             feed-forward 256, vocabulary up to 1,000, dropout '; do
    grep -q "^$line" out || fail "does not say: $line"
done
grep -q 'warm-up steps 4,' out || fail 'no warm-up'
lacks 'batches of 256,'
lacks '^length '
is steps warmup_steps 4
is steps train_steps 40
! awk 'length($0) > 80 && /^             /' out | grep . || fail 'more than 80 columns'

# What is set stays, whatever sets it.
echo '{task: {model: {label_smoothing: 0.05}, vocabulary: {max_size: 70}}}' >mine.yaml
begin 0 '^done ' mine --steps 6 --config mine.yaml --dropout 0.45 --lr 0.0031
is mine dropout_rate 0.45
is mine label_smoothing 0.05
is mine max_size 70
is mine initial_learning_rate 0.0031
lacks 'vocabulary up to'

# Another experiment is what it was.
begin 0 '^experiment   translation/tiny ' tiny --steps 6 --experiment translation/tiny --vocab-size 30
lacks '^recipe '

# A run that resumes is what it was when it began, but for its length.
cp steps/params.yaml before
train 0 '^finished ' steps
cmp -s before steps/params.yaml || fail 'params.yaml of a run that was resumed'
begin 0 '^resuming     at step 40 of 60' steps --experiment translation/auto --steps 60
lacks '^recipe '
is steps warmup_steps 4
is steps decay_steps 40

# Until a limit: as many steps as fit, which is how long the run is from then on. A machine that
# becomes slower may not get there.
code=0
"$etude" train limit --data a.en a.de --batch-size 256 --set "$small" --time-limit 8s >out 2>&1 || code=$?
[ "$code" = 0 ] || [ "$code" = 75 ] || fail "a time limit: exit $code"
grep -q '^length       [0-9,]* steps\{0,1\} of [0-9.e-]* s fit into the time limit' out || fail 'no length'
fit=$(setting limit train_steps)
[ "$fit" -gt 8 ] || fail "only $fit steps"
[ "$(setting limit warmup_steps)" -lt "$fit" ] || fail 'all of it is warm-up'
cp limit/params.yaml before
train 0 '^done ' limit
cmp -s before limit/params.yaml || fail 'params.yaml of a run with a limit'

# Neither: passes over the data, with the time that they take; steps from then on.
length='^length       60 epochs, [0-9,]* steps: about [0-9:]* (--epochs, --steps or --time-limit'
train 0 "$length" --dry-run --data a.en a.de --batch-size 256
begin 0 "$length" both
grep -q '^  train_steps: [0-9]*$' both/params.yaml || fail 'no steps in params.yaml'
cp both/params.yaml before
train 0 '^finished ' both
cmp -s before both/params.yaml || fail 'params.yaml of a run of epochs'

# Epochs that are set stay epochs.
begin 0 '^recipe       for 300 pairs and ' epochs --epochs 2
is epochs train_steps 2ep
is epochs decay_steps 2ep

# Whatever batch fits into so much memory.
train 0 '^done ' memory --data a.en a.de --memory 100M --steps 2
[ "$(setting memory sampled_vocabulary)" -ge "$(setting memory global_batch_size)" ] || fail '--memory'

# Settings of another run are what is wanted, with its weights or without.
begin 0 '^done ' again --init mine --steps 2
lacks '^recipe '
is again label_smoothing 0.05
says 0 '^done ' train copy --config mine/params.yaml --steps 3
is copy label_smoothing 0.05
is copy dropout_rate 0.45
lacks '^recipe '

# Files of settings leave open what is chosen.
says 0 '' init --experiment translation/auto init.yaml
grep -q '^ *# dropout_rate: 0.1 .*# chosen when the run begins: ' init.yaml || fail 'init: not a comment'
says 0 '^task.model.dropout_rate: 0.1  *# chosen when the run begins: ' list translation/auto
says 0 '"chosen": true' list translation/auto --json
"$etude" list translation/auto --yaml >list.yaml
! grep -q '^ *\(max_size\|dropout_rate\|train_steps\):' list.yaml || fail 'list --yaml: has what is chosen'
for file in init list; do
    begin 0 'vocabulary up to 1,000, dropout ' from-$file --steps 3 --config $file.yaml
done

# A start that was cut off before its length was known.
mkdir cut
sed 's/^  train_steps: .*/  train_steps: 3ep/' before >cut/params.yaml
train 0 '^length       3 epochs, ' cut
grep -q '^  train_steps: [0-9]*$' cut/params.yaml || fail 'no steps after a start that was cut off'
