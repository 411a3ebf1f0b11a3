#!/bin/sh
# test_completion_fish.sh ETUDE: what fish offers at the end of a line.
set -eu
command -v fish >/dev/null || {
    echo "SKIPPED: fish is not installed"
    exit 77
}
work=$(mktemp -d "$PWD/fish.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
HOME=$work XDG_CONFIG_HOME=$work/config
export HOME XDG_CONFIG_HOME
"$1" completion fish >etude.fish
mkdir -p runs/a/checkpoints runs/b
touch runs/a/params.yaml train.en
failed=0
# offers LINE WORD...: the words offered at the end of LINE, in order.
offers() {
    line=$1
    shift
    fish --no-config -c "source etude.fish; complete -C '$line'" | cut -f1 | sort >got
    printf '%s\n' "$@" | sort >wanted
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
[ $failed = 0 ]
echo "fish completes"
