#!/bin/sh
# test_gemm_rounds.sh BENCH_GEMM: prints the name of the processor, and a line for each product in
# each type: equal bits for one thread and two, a share of at most 1, a mark if the share is below
# 0.9. A last line for each type names the marked products. Rates are not checked.
set -eu
work=$(mktemp -d "$PWD/gemm.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "$*: $(cat said)" >&2
    exit 1
}

OMP_NUM_THREADS=2 BENCH_JSON=figures "$1" "tiny out" 0 2 >said
name=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
grep -qF "${name:-,}" said || fail "no name of the processor"
grep -qE '^.* [0-9.]+ MiB of L2 a core, 2 threads$' said || fail "no cache, or no threads"
grep -q '^tiny out dW .* float32 ' said || fail "no float32 gradient of a weight"
grep -q DIFFER said && fail "bits differ"
# Of the type on, five further is the share. It is printed with two digits, so 0.90 may be either.
awk 'NR > 2 && !/^[a-z0-9]*: / {
    for (type = 1; $type !~ /float/; type++)
        if (type > NF) exit 1
    share = $(type + 5)
    marked = $(type + 6) == "<"
    if (!(share > 0 && share <= 1) || (share < 0.9 && !marked) || (share > 0.9 && marked)) exit 1
    lines++
} END { exit lines < 9 }' said || fail "no shares, or wrong marks"
awk 'NR > 2 && !/^[a-z0-9]*: / {
    for (type = 1; $type !~ /float/; type++) name = type > 1 ? name " " $type : $1
    sub(/ [0-9]+ [0-9]+ [0-9]+$/, "", name)
    products[$type]++
    if ($(type + 6) == "<") marked[$type] = marked[$type] (marked[$type] ? ", " : " ") name " " $(type + 5)
}
/^[a-z0-9]*: [0-9]+ products, / {
    type = substr($1, 1, length($1) - 1)
    said = $0
    sub(/.*below 0.9:/, "", said)
    if ($2 != products[type] || said != (marked[type] ? marked[type] : " none")) exit 1
    lines++
}
END { exit lines < 1 }' said || fail "the last lines do not say which products are marked"
grep -q '"name": "gemm.tiny.out.dW.f32.share"' figures || fail "no figure"
echo "bench_gemm: rounds and marks as they should be"
