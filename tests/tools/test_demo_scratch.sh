#!/bin/sh
# test_demo_scratch.sh BUILD: tools/demo-scratch, from made packages to translations, with a tiny model:
# offline, complete, interrupted, started again, and with damaged packages.
set -eu
build=$1
here=$(cd "$(dirname "$0")" && pwd)
demo=$here/../../tools/demo-scratch
work=$(mktemp -d "$PWD/demo.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
export DEMO_BUILD="$build" DEMO_WORK="$work/made" DEMO_CONFIG="$work/config.yaml"
export DEMO_FEWEST=1 OMP_NUM_THREADS=1

. "$here/demo_pages.sh"
cat >config.yaml <<'X'
task:
  vocabulary: { size: 80 }
  model:
    embedding_width: 16
    encoder: { num_layers: 1, num_attention_heads: 2, intermediate_size: 16 }
    decoder: { num_layers: 1, num_attention_heads: 2, intermediate_size: 16 }
    decode_max_length: 20
    beam_size: 2
  train_data: { global_batch_size: 256 }
  validation_data: { global_batch_size: 256 }
trainer: { train_steps: 700, checkpoint_interval: 100, validation_interval: 0 }
X

run 1 offline
grep -q 'is the network there' said || fail "offline: no cause named"
grep -q 'put both .deb files into' said || fail "offline: no cure named"
grep -q ' update' calls || fail "offline: fresh package lists were not tried"
[ ! -e made/packages ] || fail "offline: a half download stays"

make_packages de "rote blaue kleine alte neue leere;Tabelle Seite Zelle Liste Formel Datei" \
    'Die %s steht jetzt vor die %s.'

# A number of steps is checked, and obeyed.
run 2 "a word for a number" many
run 0 "first run" 20
[ -s made/text/train.en ] && [ -s made/text/test.de ] || fail "first run: no text"
grep -q '^BLEU' shown || fail "first run: no BLEU"
grep -q '^chrF' shown || fail "first run: no chrF"
[ "$(grep -c '^  source  ' shown)" = 10 ] || fail "first run: not ten sources"
[ "$(grep -c '^  translation ' shown)" = 10 ] || fail "first run: not ten translations"
[ "$(grep -c '^  reference ' shown)" = 10 ] || fail "first run: not ten references"
grep -q "etude translate $work/made/model" said || fail "first run: does not say what to type next"

again

# Interrupted while it trains, then started again, with the time deciding.
rm -rf made/model made/trained made/scores made/scored
resumes=0
interrupt demo-scratch made/model || resumes=1
run 0 "run after an interrupt"
grep -q "^  train_steps: $(cat made/trained)\$" made/model/params.yaml || fail "not all steps were trained"
[ $resumes != 0 ] || grep -q '^resuming' said || fail "began again from nothing"

# A machine too busy for a useful number of updates in the time: the demo goes on to that number.
rm -rf made/model made/trained made/scores made/scored
DEMO_SECONDS=1 DEMO_FEWEST=690 run 0 "a busy machine"
if grep -q 'this machine is busy' said; then
    [ "$(cat made/trained)" = 690 ] || fail "a busy machine: $(cat made/trained) updates"
else
    [ "$(cat made/trained)" -ge 690 ] || fail "few updates, and no word of it"
fi
grep -q 'updates are few. A quiet machine' said || fail "a poor score is not explained"

# Damage: named, and cured by the next start.
rm -rf made
mkdir -p made/packages
for file in packages/*.deb; do
    head -c 500 "$file" >made/"$file"
done
run 1 "damaged packages"
grep -q 'was damaged and is removed' said || fail "damaged packages: not said"
[ ! -e made/packages ] && [ ! -e made/pages ] || fail "damaged packages stay"
run 0 "after damage" 10
echo "demo-scratch: offline, whole, again, interrupted, damaged"
