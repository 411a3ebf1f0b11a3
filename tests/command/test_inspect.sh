#!/bin/sh
# test_inspect.sh ETUDE: what `inspect` prints for a run, for a checkpoint, and for damaged ones.
set -eu
. "$(dirname "$0")/command.sh"

# inspect CODE TEXT ARGUMENT...: `etude inspect` ends with CODE, and TEXT is in what it prints.
inspect() {
    code=$1 text=$2
    shift 2
    tells "$code" "$text" inspect "$@"
}

awk 'BEGIN { print "size,colour,kind"; for (i = 0; i < 600; i++)
    print i % 17 + i % 3 * 10 "," (i % 5 ? "red" : "blue") "," (i % 3 ? "round" : "flat") }' \
    >table.csv
"$etude" train --experiment tabular/mlp run --data table.csv --target kind --steps 60 --set \
    trainer.checkpoint_interval=20,trainer.validation_interval=20,trainer.max_to_keep=3 2>/dev/null

inspect 0 '^intact: run/checkpoints/ckpt-60.safetensors$' run
for line in 'run          run' 'experiment   tabular/mlp' 'step         60 of 60, .* epochs; done' \
    'best         validation_log_loss 0[.0-9]* at step [246]0' \
    'last         .*_loss .*, .*_loss ' 'time         0:.* in 1 session, the last from 2' \
    'data         table.csv' 'model        [0-9,]* parameters, ' \
    'checkpoints  step 20 (.*), step 40 (.*), step 60 (.*); the best in best/, step ' \
    'file         .*: weights .*, average .*, optimizer .*, [0-9]* tensors' 'block  *tensors  *parameters  *share' \
    'all  *[0-9]*  *[0-9,]*'; do
    grep -q "^$line" out || fail "no line $line"
done
[ "$(wc -l <out)" -le 30 ] || fail "too long"
# The share of all blocks is all, and so are their numbers.
awk '/^block/ { in_it = 1; next } /^all/ { gsub(",", "", $3); if (sum != $3) exit 1; in_it = 0 }
    in_it { gsub(",", "", $0); n = NF; sum += $(n - 2) }' out || fail "blocks do not add up"
grep -q '  float32  ' out && fail "tensors without --tensors"
inspect 0 '/weight  *float32  *\[.*\]  *ok$' run --tensors
grep -q '^state {' out || fail "no state"
inspect 0 '^file  ' run/checkpoints/ckpt-20.safetensors
grep -q '^step' out && fail "a file is no run"

inspect 0 '"experiment": "tabular/mlp"' run --json
for key in '"step": 60' '"state": "done"' '"best": {' '"data": \[' '"checkpoints": \[' '"blocks": \[' \
    '"damaged": 0' '"sound": true' '"parameters": [1-9]'; do
    grep -q "$key" out || fail "no $key"
done
grep -q '"dtype"' out && fail "tensors without --tensors"
inspect 0 '"dtype": "float32"' run --json --tensors
inspect 0 '"inspected": \[' run run/checkpoints/ckpt-20.safetensors --json

# From within a run its folder best/ is no file called best.
echo 'size,colour
3,red' >rows.csv
(cd run && "$etude" predict --model-dir . --checkpoint best <../rows.csv >../out 2>&1) || fail "best, from within"

# One byte of a weight: named, said in both forms, and the exit code tells.
cp run/checkpoints/ckpt-60.safetensors flipped
size=$(wc -c <flipped)
printf '\377' | dd of=flipped bs=1 seek=$((size - 5)) conv=notrunc 2>/dev/null
inspect 3 ' damaged$' flipped
[ "$(grep -c ' damaged$' out)" = 1 ] || fail "more than what is damaged"
grep -q '^intact' out && fail "a damaged file is called sound"
inspect 3 '"sound": false' flipped --json
grep -q '"fault": "flipped: damaged' out || fail "no fault"
cp flipped run/checkpoints/ckpt-60.safetensors
inspect 3 'experiment   tabular/mlp' run

# An export that is a directory, and its files.
"$etude" export --model-dir run --checkpoint run/checkpoints/ckpt-40.safetensors --output exported 2>log || fail "$(cat log)"
inspect 0 '^intact: exported/model.safetensors$' exported
echo >>exported/metadata.json
inspect 3 'exported/metadata.json' exported

# What is beside it may be damaged: a warning, and the verdict is of the checkpoint.
inspect 0 . run/checkpoints/ckpt-40.safetensors
rm run/checkpoints/ckpt-60.safetensors
# The log of a killed run may know of a best that has no file.
cp -r run killed
echo '{"step":80,"validation":{"validation_log_likelihood":-0.01,"best_validation_log_likelihood":-0.01,"best_step":80}}' \
    >>killed/metrics.jsonl
inspect 0 '^best         validation_log_likelihood -0.01 at step 80' killed
step=$(sed -n 's/.*"best_ckpt_global_step": //p' run/best/info.json)
grep -q "; the best in best/, step $step\$" out || fail "no step of the file in best/"
rm -r killed
echo nothing >>run/metrics.jsonl
inspect 0 'warning: run/metrics.jsonl:' run
grep -q '^intact: ' out || fail "no verdict"
echo '[' >run/info.json
inspect 0 'warning: run/' run
inspect 3 'no checkpoint here' .
