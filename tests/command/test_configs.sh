#!/bin/sh
# test_configs.sh ETUDE CONFIGS: each file of CONFIGS, with texts that do not exist, fails only
# because of these texts.
set -eu
. "$(dirname "$0")/command.sh"

count=0
for file in "$2"/*.yaml; do
    says 3 'cannot open no.en' train run --config "$file" --data no.en no.de --valid no.en no.de
    count=$((count + 1))
done
[ "$count" -gt 0 ] || fail "$2 has no .yaml"

{ cat "$2/multi30k-tiny.yaml"; echo '  step: 3'; } >misspelt.yaml
says 3 'trainer.step: no such setting' train run --config misspelt.yaml --data no.en no.de
[ ! -e run ] || fail 'a run was begun'

printf 'trainer: null\n' >empty.yaml
once 3 'null changes nothing in a group' train run --config empty.yaml \
    --config "$2/multi30k-tiny.yaml" --data no.en no.de --valid no.en no.de
