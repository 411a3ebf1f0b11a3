#!/bin/sh
# test_results_table.sh SOURCE: rows of made results, messages about faulty ones; the table of
# doc/performance.md is equal to the one that tools/results-table makes.
set -eu
source=$1
table=$source/tools/results-table
work=$(mktemp -d "$PWD/results_table.XXXXXX")
trap 'rm -rf "$work"' EXIT
fail() {
    echo "test_results_table: $*" >&2
    exit 1
}
cat >"$work/made.jsonl" <<'J'
{"shown": "a model", "name": "m", "of": "Peer, eager", "ratio": 2.5, "least": 2, "most": 3, "rounds": 2, "machine": "box", "date": "2026-01-02", "command": "x \"y\""}
{"name": "hidden", "of": "Peer", "ratio": 9, "rounds": 1, "machine": "box", "date": "2026-01-02", "command": "x"}
{"shown": "once", "name": "o", "of": "Peer", "ratio": 4, "rounds": 1, "machine": "box", "date": "2026-01-03", "command": "x"}
J
"$table" "$work/made.jsonl" >"$work/rows"
[ "$(wc -l <"$work/rows")" = 4 ] || fail "two rows below a head expected"
grep -qx '| a model | Peer, eager | 2.5 | 2 to 3 | box | 2026-01-02 |' "$work/rows" || fail "the first row"
grep -qx '| once | Peer | 4 | one run | box | 2026-01-03 |' "$work/rows" || fail "the second row"
grep hidden "$work/made.jsonl" >"$work/none.jsonl"
! "$table" "$work/none.jsonl" >/dev/null 2>&1 || fail "no shown line must be an error"
sed 's/"ratio": 4, //' "$work/made.jsonl" >"$work/without.jsonl"
! "$table" "$work/without.jsonl" >/dev/null 2>"$work/error" || fail "a row without a ratio"
grep -q 'without.jsonl:3: the line has no "ratio"' "$work/error" || fail "$(cat "$work/error")"

"$table" "$source/bench/results/peers.jsonl" "$source/bench/results/quality.jsonl" >"$work/table"
grep '^|' "$source/doc/performance.md" | head -n "$(wc -l <"$work/table")" | cmp - "$work/table" ||
    fail "doc/performance.md has another table than tools/results-table prints"
echo "results make their table"
