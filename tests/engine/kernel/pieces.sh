#!/bin/sh
# Every piece of the kernels compiles alone: it includes what it uses, so the order in
# engine/kernel/simd/table.inc.c does not matter.
set -u
compiler=$1 source=$2
status=0
for piece in "$source"/src/engine/kernel/simd/*.inc.c; do
    case $piece in
    */table.inc.c) continue ;;
    esac
    "$compiler" -std=c17 -D_GNU_SOURCE -DET_SIMD_PLAIN -fopenmp -I"$source/src" \
        -I"$source/include" -fsyntax-only -x c "$piece" || status=1
done
exit $status
