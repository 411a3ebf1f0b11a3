#!/bin/sh
# test_completion_fish.sh ETUDE: what fish offers at the end of a line.
set -eu
command -v fish >/dev/null || {
    echo "SKIPPED: fish is not installed"
    exit 77
}
PATH=$(cd "$(dirname "$1")" && pwd):$PATH
export PATH
work=$(mktemp -d "$PWD/fish.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
HOME=$work XDG_CONFIG_HOME=$work/config
export HOME XDG_CONFIG_HOME
"$1" completion fish >etude.fish
mkdir -p runs/a/checkpoints runs/b
echo 'experiment: tabular/mlp' >runs/a/params.yaml
touch train.en 'my train.en'
failed=0
# offers LINE WORD...: the words offered at the end of LINE, in order.
offers() {
    line=$1
    shift
    fish --no-config -c "source etude.fish; complete -C '$line'" >all
    cut -f1 all | sort >got
    printf '%s\n' "$@" | sort | grep -v '^$' >wanted || :
    cmp -s got wanted || {
        echo "completion: $line: wanted $*, found $(tr '\n' ' ' <got)" >&2
        failed=1
    }
}
offers 'etude tra' train translate
offers 'etude completion ' bash fish zsh
offers 'etude train --experiment translation/b' translation/base
offers 'etude translate --precision ' bfloat16 float32 int8
offers 'etude translate --precision=in' --precision=int8
offers 'etude train --config train.' train.en
offers 'etude help insp' inspect
offers 'etude translate runs/' runs/a/
offers 'etude train --set t' task. trainer.
offers 'etude train --set=ru' --set=runtime.
offers 'etude train --set trainer.max_to' trainer.max_to_keep=
offers 'etude train --experiment translation/tiny --set task.model.enc' task.model.encoder.
offers 'etude train --experiment translation/tiny --set task.held' ''
offers 'etude train --experiment=tabular/mlp --set task.held' task.held_out=
offers 'etude evaluate runs/a --set task.model.enc' ''
offers 'etude train --set runtime.mixed_precision_dtype=b' runtime.mixed_precision_dtype=bfloat16
offers 'etude train --set runtime.seed=1,runtime.synchronous=t' \
    runtime.seed=1,runtime.synchronous=true
offers 'etude translate runs/a train.' train.en
offers 'etude runs --sort st' state step
offers 'etude launch -n 2 -- transl' translate
offers 'etude train --gpu' ''
offers 'etude score my' 'my train.en'
# What each word is stands beside it.
fish --no-config -c "source etude.fish; complete -C 'etude insp'" | grep -q 'show a checkpoint'
[ $failed = 0 ]
echo "fish completes"
