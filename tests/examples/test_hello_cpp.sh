#!/bin/sh
# test_hello_cpp.sh HELLO_CPP CXX: the program learns; g++ and clang++ compile it and
# <etude/etude.hpp> without a warning.
set -eu
hello=$1 cxx=$2 source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d "$PWD/hello_cpp.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "test_hello_cpp: $*" >&2
    exit 1
}
"$hello" >log || fail "exit $?"
awk '$1 == "accuracy:" && $2 + 0 > 0.95 { good++ }
    $1 == "inside:" && $2 + 0 > 0.9 && $4 + 0 < 0.1 { good++ } END { exit good != 2 }' log ||
    fail "it has not learned: $(cat log)"
[ -f disc.safetensors ] || fail "nothing saved"

[ "$(wc -l <"$source/include/etude/etude.hpp")" -le 150 ] || fail "etude.hpp has more than 150 lines"
for compiler in "$cxx" g++ clang++; do
    command -v "$compiler" >/dev/null 2>&1 || {
        echo "hello_cpp: SKIPPED: there is no $compiler"
        continue
    }
    for program in examples/hello_cpp.cc tests/package/test_owners.cc; do
        "$compiler" -std=c++17 -Wall -Wextra -Werror -I"$source/include" -fsyntax-only \
            "$source/$program" >errors 2>&1 || fail "$compiler $program: $(cat errors)"
    done
done
echo "hello_cpp: $(tr '\n' ' ' <log)"
