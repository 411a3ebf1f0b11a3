#!/bin/sh
# check-layers on trees that the test makes: a clean one passes; each bad line fails and is named.
set -eu
check=$(cd "$(dirname "$0")/../../tools" && pwd)/check-layers
work=$(mktemp -d "$PWD/layers.XXXXXX")
trap 'rm -rf "$work"' EXIT

# tree: a small tree that keeps every rule.
tree() {
    rm -rf "$work/t"
    mkdir -p "$work/t/include/etude" "$work/t/src/base" "$work/t/src/engine/kernel" "$work/t/src/engine/graph" \
        "$work/t/src/formats" "$work/t/src/train/step"
    cd "$work/t"
    echo '#include <etude/error.h>' >include/etude/etude.h
    echo '#include <stddef.h>' >include/etude/error.h
    printf '#include "base/map.h"\n#include <etude/error.h>\n#include <yaml.h>\n' >src/base/map.c
    printf '#include "kernels.h"\n#include "base/map.h"\n#include <immintrin.h>\n' \
        >src/engine/kernel/fast.c
    printf '#include "engine/kernel/kernels.h"\n' >src/engine/graph/node.c
    printf '#include "base/map.h"\n#include "formats/file.h"\n' >src/formats/file.c
    printf '#include "formats/file.h"\n#include "engine/kernel/kernels.h"\n' >src/train/step/step.c
    for folder in base engine engine/kernel engine/graph formats train train/step; do
        echo '# folder' >src/$folder/README.md
    done
}

# refused FILE LINE RULE: the clean tree with LINE added to FILE is refused with RULE's words.
refused() {
    tree
    mkdir -p "$(dirname "$1")"
    for folder in "$(dirname "$1")" "$(dirname "$(dirname "$1")")"; do
        echo '# folder' >"$folder/README.md"
    done
    echo "$2" >>"$1"
    if "$check" "$work/t" >"$work/said" 2>&1; then
        echo "accepted in $1: $2" >&2
        exit 1
    fi
    grep -q "$1.*$3" "$work/said" || {
        echo "$1: $2: wanted \"$3\", got:" >&2
        cat "$work/said" >&2
        exit 1
    }
}

tree
"$check" "$work/t"
refused src/base/map.c '#include "engine/kernel/kernels.h"' 'base may not include engine'
refused src/engine/kernel/fast.c '  #  include "train/step/step.h"' 'engine may not include train'
refused src/engine/kernel/fast.c '#include "engine/graph/node.h"' 'engine/kernel may not include engine/graph'
refused src/base/map.c '#include "base/text/strbuf.h"' 'base may not include base/text'
refused src/formats/records/record.c '#include "formats/events/event.h"' 'formats/records may not include'
refused src/train/step/step.c '#include "command/command.h"' 'train may not include command'
refused src/train/step/step.c '#include "../io/file.h"' 'without dots'
refused src/formats/crc.c '#include <nmmintrin.h>' 'src/engine/kernel alone'
refused src/formats/crc.c '#include <cpuid.h>' 'src/engine/kernel alone'
refused src/formats/other.c '#include <yaml.h>' 'already stands behind src/base/map.c'
refused src/train/step/step.c '/* of a sentence */' 'names none'
refused src/command/list.c 'static int et_beam;' 'names none'
refused src/command/runs/list.c 'static int vocabulary;' 'names none'
refused src/command/web/page.c '#include "command/training/training.h"' 'command/web may not include command/training'
refused src/command/options/new.c '#include "command/runs/history.h"' 'command/options may not include command/runs'
refused src/extra/new.c '#include <stddef.h>' 'has no rank'
refused include/etude/error.h '#include "base/map.h"' 'public and standard headers only'
refused include/etude/error.h '#include <oneapi/dnnl/dnnl.h>' 'public and standard headers only'
refused include/etude/more.h '#include <stddef.h>' 'etude.h does not include it'

# crowded FOLDER NAMES RULE: so many more in a folder are refused.
crowded() {
    if "$check" "$work/t" >"$work/said" 2>&1; then
        echo "accepted: $1" >&2
        exit 1
    fi
    grep -q "$1" "$work/said" || {
        echo "wanted \"$1\", got:" >&2
        cat "$work/said" >&2
        exit 1
    }
}
tree
for i in $(seq 30); do : >src/base/more$i.c; done
crowded 'src/base: 31 sources; 30 at most'
tree
for i in $(seq 8); do mkdir src/train/more$i && : >src/train/more$i/one$i.c && echo '# more' >src/train/more$i/README.md; done
crowded 'src/train: 9 folders; 8 at most'
tree
mkdir src/train/map && echo '# map' >src/train/map/README.md && : >src/train/map/step.c
crowded 'src/train/step/step.c: src/train/map has the same name'
tree
mkdir src/train/map && echo '# map' >src/train/map/README.md && : >src/train/map/step.js
crowded 'src/train/step/step.c: src/train/map has the same name'
tree
mkdir src/engine/kernel/simd && echo '# simd' >src/engine/kernel/simd/README.md && : >src/engine/kernel/simd/fast.inc.c
"$check" "$work/t"
tree
rm src/base/README.md
crowded 'src/base: no README.md'
tree
mkdir src/train/page && : >src/train/page/page.html
crowded 'src/train/page: no README.md'
tree
seq 11 >src/base/README.md
crowded 'src/base/README.md: more than ten lines'
echo "check-layers refuses what it should"
