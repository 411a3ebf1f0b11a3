#!/bin/sh
# check-layers on trees made here: a clean one passes; each bad line fails and is named.
set -eu
check=$(cd "$(dirname "$0")/../../tools" && pwd)/check-layers
work=$(mktemp -d "$PWD/layers.XXXXXX")
trap 'rm -rf "$work"' EXIT

# tree: a small tree that keeps every rule.
tree() {
    rm -rf "$work/t"
    mkdir -p "$work/t/include/etude" "$work/t/src/base" "$work/t/src/kernel" "$work/t/src/io" \
        "$work/t/src/train"
    cd "$work/t"
    echo '#include <etude/error.h>' >include/etude/etude.h
    echo '#include <stddef.h>' >include/etude/error.h
    printf '#include "base/map.h"\n#include <etude/error.h>\n#include <yaml.h>\n' >src/base/map.c
    printf '#include "kernels.h"\n#include "base/map.h"\n#include <immintrin.h>\n' \
        >src/kernel/fast.c
    printf '#include "base/map.h"\n#include "io/file.h"\n' >src/io/file.c
    printf '#include "io/file.h"\n#include "kernel/kernels.h"\n' >src/train/step.c
}

# refused FILE LINE RULE: the clean tree with LINE added to FILE is refused with RULE's words.
refused() {
    tree
    mkdir -p "$(dirname "$1")"
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
refused src/base/map.c '#include "kernel/kernels.h"' 'base (rank 0) may not include kernel'
refused src/kernel/fast.c '  #  include "io/file.h"' 'kernel (rank 1) may not include io'
refused src/train/step.c '#include "cli/cli.h"' 'train (rank 4) may not include cli'
refused src/train/step.c '#include "../io/file.h"' 'without dots'
refused src/io/crc.c '#include <nmmintrin.h>' 'src/kernel alone'
refused src/io/crc.c '#include <cpuid.h>' 'src/kernel alone'
refused src/io/other.c '#include <yaml.h>' 'already stands behind src/base/map.c'
refused src/train/step.c '/* of a sentence */' 'names none'
refused src/command/list.c 'static int et_beam;' 'names none'
refused src/cli/main.c 'static int vocabulary;' 'names none'
refused src/command/web/page.c '#include "command/training/roles.h"' 'web may include runs'
refused src/extra/new.c '#include <stddef.h>' 'has no rank'
refused include/etude/error.h '#include "base/map.h"' 'public and standard headers only'
refused include/etude/error.h '#include <oneapi/dnnl/dnnl.h>' 'public and standard headers only'
refused include/etude/more.h '#include <stddef.h>' 'etude.h does not include it'
echo "check-layers refuses what it should"
