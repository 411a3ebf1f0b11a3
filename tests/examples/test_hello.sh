#!/bin/sh
# test_hello.sh HELLO: the program in the head of <etude/model.h> is equal to examples/hello.c, and
# learns.
set -eu
hello=$1 source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d "$PWD/hello.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "test_hello: $*" >&2
    exit 1
}
# From the first line of C to the brace that ends main.
awk '/^#ifndef/ { exit } { sub(/^ \* ?/, ""); sub(/^    /, ""); print }' "$source/include/etude/model.h" |
    sed -n '/^#include <stdio.h>$/,/^A regression needs/p' | sed '$d' | sed '$d' >head.c
sed -n '/^#include <stdio.h>$/,$p' "$source/examples/hello.c" >hello.c
diff head.c hello.c || fail "the head of model.h and examples/hello.c differ"

"$hello" >log || fail "exit $?"
awk '$1 == "inside:" && $2 + 0 > 0.9 && $4 + 0 < 0.1 { good = 1 } END { exit !good }' log ||
    fail "it has not learned: $(cat log)"
[ -f disc.safetensors ] || fail "nothing saved"
