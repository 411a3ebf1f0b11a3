#!/bin/sh
# check-suites on a tree that the test makes: a clean tree passes and its page counts the cases; each
# kind of difference between the list and the tests is found.
set -eu
check=$(cd "$(dirname "$0")/../../tools" && pwd)/check-suites
work=$(mktemp -d "$PWD/suites.XXXXXX")
trap 'rm -rf "$work"' EXIT
t=$work/t
program=$t/tests/references/one/test_a_test.c
list=$t/tests/references/suites.tsv

# row CASE [CLASS] [REASON]
row() {
    printf 'one\tx/a_test.py\t%s\t%s\t%s\n' "${2-ATest}" "$1" "${3-}"
}

# function_of NAME: a test of that name.
function_of() {
    printf 'static void %s(void **state)\n{\n    (void)state;\n}\n\n' "$1"
}

tree() {
    rm -rf "$t"
    mkdir -p "$t/tests/references/one" "$t/doc/reference"
    {
        printf 'folder\tfile\tclass\tcase\tnot in C because\n'
        row test_plain
        row test_OtherCase
        row testConcrete
        row test_twice ATestCase
        row test_twice BTest
        row test_python ATest 'about a module of Python'
    } >"$list"
    {
        function_of test_a_test__plain
        printf '/* Differs: Etude has\n * no zero. */\n'
        function_of test_a_test__other_case
        function_of test_a_test__concrete
        function_of test_a_test__a__twice
        function_of test_a_test__b__twice
        echo 'int main(void)'
        for name in plain other_case concrete a__twice b__twice; do
            echo "        cmocka_unit_test(test_a_test__$name),"
        done
    } >"$program"
    "$check" --write "$t"
}

# refused TEXT: the tree as it is now is refused, and this is said.
refused() {
    if "$check" "$t" >"$work/said"; then
        echo "accepted: $1" >&2
        exit 1
    fi
    grep -qF "$1" "$work/said" || {
        echo "not '$1', but:" >&2
        cat "$work/said" >&2
        exit 1
    }
}

tree
"$check" "$t"
grep -qF '| one | 6 | 4 | 1 | 1 |' "$t/doc/reference/suites.md"
grep -qF '| `test_OtherCase` | Etude has no zero. |' "$t/doc/reference/suites.md"
grep -qF '| `test_python` | about a module of Python |' "$t/doc/reference/suites.md"

row test_missing >>"$list"
refused 'tests/references/one/test_a_test.c: no test test_a_test__missing'
tree
sed -i '/cmocka_unit_test(test_a_test__plain)/d' "$program"
refused 'main does not run test_a_test__plain'
tree
function_of test_a_test__invented >>"$program"
refused 'test_a_test__invented is not a case of suites.tsv'
tree
function_of test_a_test__python >>"$program"
refused 'the list says that it has no meaning in C'
tree
echo 'one	two columns' >>"$list"
refused '2 columns instead of 5'
tree
sed -i 's/Differs:/differs:/' "$program"
refused 'suites.md is not what the tests say'
echo "check-suites finds what it should"
