#!/bin/sh
# test_bench_chart.sh SOURCE: bars of made figures.
set -eu
chart=$1/tools/bench-chart
work=$(mktemp -d "$PWD/bench_chart.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "test_bench_chart: $*" >&2
    exit 1
}
one() {
    printf '{"name": "%s", "value": 1, "unit": "u", "etude": 2, "ratio": %s, "least": %s, "most": %s, "rounds": 3, "of": "%s", "machine": "A CPU", "threads": 2}\n' "$@"
}
{
    one step.tiny.tokens_s 2.5 2 3 'Peer <1> & Co'
    one step.base.tokens_s 0.8 0.7 0.9 Other
    one step.tiny.peak_mb 9 9 9 Other
    one start.tiny.ms 4 3.5 4.5 Other
} >peers.jsonl
"$chart" peers.jsonl >all.svg || fail "all"
[ "$(grep -c '<rect' all.svg)" = 3 ] || fail "not all but memory"
grep -q 'Peer &lt;1&gt; &amp; Co' all.svg || fail "not escaped"
grep -q 'A CPU, 2 threads' all.svg || fail "no machine"
head -n 1 all.svg | grep -q '^<svg xmlns="http://www.w3.org/2000/svg"' || fail "head"
[ "$(tail -n 1 all.svg)" = '</svg>' ] || fail "end"
# A bar is as long as its ratio; what is less than 1 has another colour.
set -- $(sed -n 's/^<rect.*width="\([0-9.]*\)".*/\1/p' all.svg)
awk -v a="$1" -v b="$2" -v c="$3" 'BEGIN { d = a / 2.5
    exit !(b / 0.8 > d * 0.99 && b / 0.8 < d * 1.01 && c / 4 > d * 0.99 && c / 4 < d * 1.01) }' ||
    fail "lengths $*"
[ "$(grep -c '<rect class="less"' all.svg)" = 1 ] || fail "colours"
"$chart" peers.jsonl step. >some.svg
[ "$(grep -c '<rect' some.svg)" = 2 ] || fail "by a prefix, without memory"
"$chart" peers.jsonl step.base step.tiny.peak_mb >some.svg
[ "$(grep -c '<rect' some.svg)" = 2 ] || fail "memory by its whole name"
# Far apart: logarithmic, from 1 to both sides.
{ cat peers.jsonl; one start.base.ms 300 250 350 Far; } >far.jsonl
"$chart" far.jsonl >far.svg
grep -q '>100</text>' far.svg || fail "no decades"
if command -v xmllint >/dev/null; then
    xmllint --noout all.svg some.svg far.svg || fail "no XML"
fi
"$chart" peers.jsonl none. >none.svg 2>said && fail "nothing to draw" || [ $? = 1 ] || fail "exit code"
"$chart" missing 2>said && fail "no file" || [ $? = 2 ] || fail "exit code"
