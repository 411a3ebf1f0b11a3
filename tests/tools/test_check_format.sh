#!/bin/sh
# check-format on a tree that the test makes: a clean one passes, each badly formatted source is
# named, build folders are skipped, and without the right clang-format the check fails.
set -eu
tools=$(cd "$(dirname "$0")/../../tools" && pwd)
work=$(mktemp -d "$PWD/format.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "test_check_format: $1" >&2
    cat said >&2
    exit 1
}

# In place of the real one: none at all, or another version.
mkdir -p bin tree/src tree/build
for tool in sh dirname find sort xargs nproc; do
    ln -s "$(command -v $tool)" bin/
done
code=0
PATH=$work/bin "$tools/check-format" tree >said || code=$?
[ $code = 77 ] && grep -q '^SKIPPED: check-format: needs clang-format' said || fail "none installed: $code"
printf '#!/bin/sh\necho clang-format version 99.1.4\n' >bin/clang-format
chmod +x bin/clang-format
code=0
PATH=$work/bin "$tools/check-format" tree >said || code=$?
[ $code = 77 ] && grep -q 'here is: clang-format version 99.1.4$' said || fail "another version: $code"

"$tools/check-format" tree >said || {
    cat said
    exit 77
}
cp "$tools/../.clang-format" tree/
printf 'int f(int a)\n{\n    return a;\n}\n' >tree/src/f.c
printf 'int  built;\n' >tree/build/made.c
"$tools/check-format" tree >said 2>&1 || fail "a clean tree"
for name in c.h d.cc e.cpp g.c; do
    printf 'int  x;\n' >"tree/src/$name"
    code=0
    "$tools/check-format" tree >said 2>&1 || code=$?
    [ $code = 1 ] && grep -q "src/$name:1:4: error" said || fail "$name: $code"
    rm "tree/src/$name"
done
echo "check-format finds what it should"
