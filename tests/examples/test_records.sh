#!/bin/sh
# test_records.sh RECORDS: records are written and read; rows of two files are read in turn.
set -eu
records=$1
work=$(mktemp -d "$PWD/records.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "test_records: $*" >&2
    cat log >&2
    exit 1
}

"$records" . >log 2>&1 || fail "exit $?"
cat >wanted <<END
label 0: a point, 4 features
label 1: a point, 4 features
label 2: a point, 4 features
batch: 0 10 1
batch: 11 2 12
END
cmp wanted log || fail "other records"
[ "$(wc -c <bytes.tfrecord)" = 25 ] || fail "a record of 9 bytes makes another file"
gzip -t small.tfrecord.gz || fail "small.tfrecord.gz is not GZIP"
echo "records: $(wc -l <log) lines"
