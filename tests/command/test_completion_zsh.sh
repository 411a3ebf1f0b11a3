#!/bin/sh
# test_completion_zsh.sh ETUDE: how zsh completes typed words, in a pseudo-terminal (zpty).
set -eu
command -v zsh >/dev/null && zsh -fc 'zmodload zsh/zpty && zpty try true' >/dev/null 2>&1 || {
    echo "SKIPPED: zsh, its module zpty or a pseudo-terminal is missing"
    exit 77
}
PATH=$(cd "$(dirname "$1")" && pwd):$PATH
export PATH
work=$(mktemp -d "$PWD/zsh.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir functions
"$1" completion zsh >functions/_etude
zsh -n functions/_etude
mkdir -p runs/alpha/checkpoints runs/b
echo 'experiment: tabular/mlp' >runs/alpha/params.yaml
touch train.english 'my train.en'
cat >driver.zsh <<'END'
zmodload zsh/zpty zsh/datetime
setopt extended_glob
failed=0
said=
# Reads until PATTERN was printed.
wait_for() {
    local chunk
    float end=$((EPOCHREALTIME + 60))
    while ((EPOCHREALTIME < end)); do
        if zpty -r -t shell chunk; then
            said+=$chunk
            [[ $said == *${~1}* ]] && return 0
        else
            sleep 0.02
        fi
    done
    print -u2 -r -- "completion: nothing like $1 in: ${(V)said}"
    return 1
}
# At a key of its own the shell prints the line as it stands, and clears it.
zpty -b shell env -i PATH=$PATH TERM=dumb HOME=$PWD zsh -f -i
zpty -w shell "fpath=($PWD/functions \$fpath); autoload -Uz compinit; compinit -u -D; cd $PWD
show() { print -r -- \"<<\$BUFFER>>\"; BUFFER= }; zle -N show; bindkey '^X' show
unsetopt list_beep; LISTMAX=1000; print -r -- REA\"\"DY"
wait_for READY || exit 1
# completes TYPED LINE: a tab behind TYPED makes LINE of it.
completes() {
    said=
    zpty -w -n shell "$1"$'\t\C-x'
    wait_for '<<*>>' || { failed=1; return }
    local line=${${said##*<<}%%>>*}
    if [[ $line != $2 ]]; then
        print -u2 -r -- "completion: $1: wanted '$2', found '$line'"
        failed=1
    fi
}
completes 'etude transl' 'etude translate '
completes 'etude completion z' 'etude completion zsh '
completes 'etude help insp' 'etude help inspect '
completes 'etude translate --preci' 'etude translate --precision '
completes 'etude translate --precision in' 'etude translate --precision int8 '
completes 'etude translate --precision=in' 'etude translate --precision=int8 '
completes 'etude train --experiment translation/b' 'etude train --experiment translation/base '
completes 'etude translate runs/al' 'etude translate runs/alpha/'
completes 'etude translate --model-dir runs/al' 'etude translate --model-dir runs/alpha/'
completes 'etude train --data train.e' 'etude train --data train.english '
completes 'etude translate --checkpoint be' 'etude translate --checkpoint best '
completes 'etude translate --checkpoint train.e' 'etude translate --checkpoint train.english '
completes 'etude tfx scaf' 'etude tfx scaffold '
completes 'etude train --tp' 'etude train --tp' # of another system
completes 'etude train --set traine' 'etude train --set trainer.'
completes 'etude train --set=runti' 'etude train --set=runtime.'
completes 'etude train --set trainer.max_to' 'etude train --set trainer.max_to_keep='
completes 'etude train --experiment translation/tiny --set task.held' \
    'etude train --experiment translation/tiny --set task.held'
completes 'etude train --experiment tabular/mlp --set task.held' \
    'etude train --experiment tabular/mlp --set task.held_out='
completes 'etude evaluate runs/alpha --set task.held' 'etude evaluate runs/alpha --set task.held_out='
completes 'etude train --set runtime.mixed_precision_dtype=b' \
    'etude train --set runtime.mixed_precision_dtype=bfloat16 '
completes 'etude train --set=runtime.seed=1,runtime.synchr' \
    'etude train --set=runtime.seed=1,runtime.synchronous='
completes 'etude train --set runtime.seed=1,runtime.synchronous=t' \
    'etude train --set runtime.seed=1,runtime.synchronous=true '
completes 'etude translate runs/alpha train.e' 'etude translate runs/alpha train.english '
completes 'etude score my' 'etude score my\ train.en '
completes 'etude score my\ tr' 'etude score my\ train.en '
completes 'etude runs --sort sta' 'etude runs --sort state '
completes 'etude launch -n 2 -- transl' 'etude launch -n 2 -- translate '
zpty -d shell
exit $failed
END
zsh -f driver.zsh
echo "zsh completes"
