#!/bin/sh
# test_table.sh TABLE: files of a table, its encoded rows, and an instance.
set -eu
table=$1
work=$(mktemp -d "$PWD/table.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "test_table: $*" >&2
    cat log >&2
    exit 1
}

"$table" . >log 2>&1 || fail "exit $?"
cat >wanted <<END
inferred: X, concat
inferred: ids, concat
inferred: Y, target
3 fields, 2 columns with metadata, 3 features
size: 0.000 0.333 0.667 1.000
colour_known: 1.000 0.000 0.000 0.000 1.000 0.000 1.000 0.000 0.000 0.000 0.000 1.000
mask: 1.000 1.000 1.000 1.000
size: 0.500
colour_known: 0.000 1.000 0.000
mask: 1.000
END
cmp wanted log || fail "other rows"
for file in schema.yaml metadata.json features.yaml; do
    [ -s "$file" ] || fail "no $file"
done
status=0
"$table" nowhere >log 2>&1 || status=$?
[ "$status" = 1 ] && grep -q 'nowhere/schema.yaml' log || fail "no folder: exit $status"
echo "table: $(wc -l <wanted) lines"
