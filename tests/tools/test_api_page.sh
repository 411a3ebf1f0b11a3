#!/bin/sh
# test_api_page.sh SOURCE: doc/reference/api.md is equal to what tools/api-page makes from the
# headers, and tools/api-page refuses a header without a group or an example.
set -eu
source=$1
work=$(mktemp -d "$PWD/api_page.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() {
    echo "test_api_page: $*" >&2
    exit 1
}
"$source/tools/api-page" >made
diff "$source/doc/reference/api.md" made >differs || {
    head -n 20 differs >&2
    fail "doc/reference/api.md is not what the headers say; make it anew: tools/api-page >doc/reference/api.md"
}
headers=$(ls "$source"/include/etude/*.h | wc -l)
[ "$(grep -c '^### ' made)" = $((headers - 1)) ] || fail "not every header is on the page"

mkdir -p include tools
cp -r "$source/include/etude" include/
cp "$source/tools/api-page" tools/
cp include/etude/log.h include/etude/unknown.h
! tools/api-page >made 2>said || fail "a header in no group was taken"
grep -q 'unknown.h stands in 0 groups' said || fail "it is not said which: $(cat said)"
rm include/etude/unknown.h
sed -i '/^ \*     /d' include/etude/log.h
! tools/api-page >made 2>said || fail "a header without an example was taken"
grep -q 'log.h has no example' said || fail "it is not said which: $(cat said)"
echo "$headers headers"
