#!/bin/sh
# test_completion_bash.sh ETUDE TWO_KINDS: what bash offers at the cursor.
set -eu
command -v bash >/dev/null || {
    echo "SKIPPED: bash is not installed"
    exit 77
}
PATH=$(cd "$(dirname "$1")" && pwd):$(cd "$(dirname "$2")" && pwd):$PATH
export PATH
work=$(mktemp -d "$PWD/bash.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
"$1" completion bash >etude.bash
"$2" completion bash >two_kinds.bash
mkdir -p runs/a/checkpoints runs/b 'runs/with blank' empty
echo 'experiment: tabular/mlp' >runs/a/params.yaml
touch 'runs/with blank/params.yaml' train.en 'my train.en' train.de model.safetensors .hidden home.txt
HOME=$work
export HOME
cat >driver.bash <<'END'
set -u
. ./etude.bash
. ./two_kinds.bash
failed=0
# offers LINE: WORD... : what is offered at its end, sorted, is these words. A line ends in a blank
# where a new word begins, and % is a blank in a word. bash cuts words at = and : before it asks.
offers() {
    local line=$1 function word
    shift
    COMP_WORDS=()
    for word in ${line//=/ = }; do COMP_WORDS+=("${word//%/\\ }"); done
    [[ $line != *[\ ] ]] || COMP_WORDS+=('')
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    function=$(complete -p -- "${COMP_WORDS[0]}" | sed 's/.*-F \([^ ]*\).*/\1/')
    COMPREPLY=()
    $function "${COMP_WORDS[0]}"
    local got wanted
    got=$(printf '%s\n' "${COMPREPLY[@]}" | sort)
    wanted=$(printf '%s\n' "$@" | sort)
    if [[ $got != "$wanted" ]]; then
        printf 'completion: %s: wanted\n%s\ngot\n%s\n' "$line" "$wanted" "$got" >&2
        failed=1
    fi
}
offers 'etude tra' train translate
offers 'etude --v' --version
offers 'etude help insp' inspect
offers 'etude help --m' --man
offers 'etude completion ' bash fish zsh
offers 'etude train --exp' --experiment
offers 'etude train --experiment translation/b' translation/base
offers 'etude train --experiment=translation/b' translation/base
offers 'etude translate --precision ' bfloat16 float32 int8
offers 'etude translate --precision=in' int8
offers 'etude translate --checkpoint be' best
offers 'etude translate --checkpoint train.' train.de train.en
offers 'etude translate runs/' runs/a/ 'runs/with blank/'
offers 'etude translate --model-dir runs/' runs/a/ 'runs/with blank/'
offers 'etude translate --model_dir runs/a' runs/a/
offers 'etude translate runs/with%bl' 'runs/with blank/'
offers 'etude translate ru' runs/
offers 'etude translate em' ''
offers 'etude translate mod' model.safetensors
offers 'etude translate runs/a my' 'my train.en'
offers 'etude translate --model-dir runs/a train.' train.de train.en
offers 'etude translate runs/a runs/' runs/a/ runs/b/ 'runs/with blank/'
offers 'etude translate runs/a runs/a train.' train.de train.en
offers 'etude evaluate runs/a train.' train.de train.en
offers 'etude evaluate runs/a train.en train.' train.de train.en
offers 'etude score train.' train.de train.en
offers 'etude score --width 2 train.en train.' train.de train.en
offers 'etude data analyze train.' train.de train.en
offers 'etude inspect runs/a train.' train.de train.en
offers 'etude keys em' empty/
offers 'etude score .hi' .hidden
offers 'etude score hi' ''
offers 'etude score ~/hom' '~/home.txt'
offers 'etude runs --sort st' state step
offers 'etude train --init mod' model.safetensors
offers 'etude export runs/a --output train.d' train.de
offers 'etude train runs/a --enable-async-checkpointing=' false true
offers 'etude train runs/a --thr' --threads
offers 'etude train runs/a --params-o' --params-override
offers 'etude train runs/a --gpu' ''
offers 'etude launch -n 2 -- tra' train translate
offers 'etude launch -n 2 -- train --experiment translation/b' translation/base
offers 'etude train --data train.' train.de train.en
offers 'etude train --data train.en train.' train.de train.en
offers 'etude train --data train.en train.de runs/a' runs/a/
offers 'etude train --config-file train.e' train.e'n'
offers 'etude train --verbose runs/a' runs/a/
offers 'etude train --tpu' '' # of another system
offers 'etude tfx sc' scaffold
offers 'etude nothing --' ''
offers 'etude train --set t' task. trainer.
offers 'etude train --set=ru' runtime.
offers 'etude train --set trainer.max_to' trainer.max_to_keep=
offers 'etude train --params-override trainer.max_to' trainer.max_to_keep=
offers 'etude train --experiment translation/tiny --set task.model.enc' task.model.encoder.
offers 'etude train --experiment tabular/mlp --set task.model.enc' ''
offers 'etude train --experiment=tabular/mlp --set task.hel' task.held_out=
offers 'etude train --experiment translation/tiny --set task.held' ''
offers 'etude train runs/a --set task.model.enc' ''
offers 'etude evaluate --model-dir runs/a --set task.hel' task.held_out=
offers 'etude train --set task.he' task.header= task.held_out= # of any kind
offers 'etude train --set runtime.mixed_precision_dtype=b' bfloat16
offers 'etude train --set=runtime.mixed_precision_dtype=b' bfloat16
offers 'etude train --set runtime.synchronous=' false true
offers 'etude train --set runtime.seed=1,runtime.sync' 1,runtime.synchronous=
offers 'etude train --set runtime.seed=1,runtime.synchronous=t' true
offers 'etude train --set runtime.seed=' ''
offers 'two_kinds gr' greet
offers 'two_kinds wave --l' --loud
offers 'two_kinds wave wo' world
offers 'two_kinds greet ' ''
offers 'two_kinds train --experiment plain/f' plain/five
offers 'etude score --tok' --tokenize
offers 'etude data an' analyze
exit $failed
END
bash --norc --noprofile driver.bash
# And in a shell that a person types in.
if script -qec true /dev/null </dev/null >/dev/null 2>&1; then
    printf '%s\n' "PS1='> '; . ./etude.bash" >rc
    printf 'etude transl\t--preci\tin\t\netude score my\tx\nexit\n' |
        script -qec 'bash --noprofile --rcfile rc -i' /dev/null >typed 2>&1 || true
    tr -d '\r' <typed | grep -q 'etude translate --precision int8' || {
        cat -v typed >&2
        echo "test_completion_bash: not completed in a terminal" >&2
        exit 1
    }
    tr -d '\r' <typed | grep -qF 'etude score my\ train.en x' || {
        cat -v typed >&2
        echo "test_completion_bash: a blank in a name is not marked" >&2
        exit 1
    }
else
    echo "SKIPPED: a terminal: script(1) makes none"
fi
ln -s "$1" 'an etude;true'
code=0
"./an etude;true" completion bash >out 2>&1 || code=$?
[ $code = 2 ] && grep -q 'cannot complete a program of this name' out
code=0
"$1" completion bsh >out 2>&1 || code=$?
[ $code = 2 ] && grep -q 'no script for the shell bsh. Nearest: bash' out
code=0
"$1" completion >out 2>&1 || code=$?
[ $code = 2 ] && grep -q 'no shell is given' out
code=0
"$1" completion bash >/dev/full 2>out || code=$?
[ $code = 4 ]
echo "bash completes"
