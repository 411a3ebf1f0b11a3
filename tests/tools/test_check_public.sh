#!/bin/sh
# check-public on trees that the test makes: a function that is called, in an example or documented
# may be public; the check finds each kind of function that is not.
set -eu
check=$(cd "$(dirname "$0")/../../tools" && pwd)/check-public
work=$(mktemp -d "$PWD/public.XXXXXX")
trap 'rm -rf "$work"' EXIT

# tree: a function of each kind that may stay, and one that a line break follows.
tree() {
    rm -rf "$work/t"
    mkdir -p "$work/t/include/etude" "$work/t/src/base" "$work/t/examples" "$work/t/doc/reference" "$work/t/tests"
    cd "$work/t"
    {
        echo '/* Ones. et_prose(1) is said here.'
        echo ' *'
        echo ' *     et_in_head(1);         et_in_words of it'
        echo ' *     ... et_left_out ...'
        echo ' */'
        echo '#ifndef ONE_H'
        echo 'ET_API int et_in_head(int x);'
        echo 'ET_API int et_called(int x); /* et_commented(x) */'
        echo 'ET_API const char *'
        echo 'et_in_example(int x);'
        echo 'ET_API int et_documented(int x);'
        echo '#endif'
    } >include/etude/one.h
    {
        echo '#include <etude/one.h>'
        for name in in_head called documented; do
            printf 'int et_%s(int x)\n{\n    return x;\n}\n' "$name"
        done
        printf 'const char *et_in_example(int x)\n{\n    return "et_text(1)";\n}\n'
        printf 'static int own(void)\n{\n    return et_documented(1);\n}\n'
    } >src/base/one.c
    printf 'int et_other(void)\n{\n    return et_called(1);\n}\n' >src/base/two.c
    printf 'int main(void)\n{\n    puts(et_in_example(1));\n}\n' >examples/one.c
    echo '| member | `et_documented` | nothing | `tests/none.c` |' | sed 's/^/| kind /' >doc/reference/members.md
    echo 'int main(void) { return et_tested(1); }' >tests/one.c
}

# refused NAME: the clean tree with that function, which only its own file and a test call, is refused.
refused() {
    tree
    sed -i "s/^ET_API int et_called/ET_API int et_$1(int x);\n&/" include/etude/one.h
    printf 'int et_%s(int x)\n{\n    return x;\n}\n/* et_%s(2) */\n' "$1" "$1" >>src/base/one.c
    printf 'int et_other2(void)\n{\n    puts("et_%s(3)"); // et_%s(4)\n    return 0;\n}\n' "$1" "$1" >>src/base/two.c
    if "$check" "$work/t" >"$work/said" 2>&1; then
        echo "accepted: et_$1" >&2
        exit 1
    fi
    grep -q "include/etude/one.h:[0-9]*: et_$1: no caller" "$work/said" && [ "$(grep -c 'no caller' "$work/said")" = 1 ] || {
        echo "et_$1: not only this one, but:" >&2
        cat "$work/said" >&2
        exit 1
    }
}

tree
"$check" "$work/t" >"$work/said" || {
    cat "$work/said" >&2
    exit 1
}
grep -q '^4 public functions, 3 shown$' "$work/said"
"$check" --unshown "$work/t" >"$work/said"
grep -q 'one.h:[0-9]*: et_called$' "$work/said" && [ "$(wc -l <"$work/said")" = 2 ]
for name in tested prose in_words left_out commented text; do
    refused $name
done
# Each of those that may stay, without what it stays for.
for without in examples/one.c src/base/two.c doc/reference/members.md; do
    tree
    rm "$without"
    ! "$check" "$work/t" >"$work/said" 2>&1 || {
        echo "accepted without $without" >&2
        exit 1
    }
done
rm -rf "$work/t/include/etude/one.h"
! "$check" "$work/t" >"$work/said" 2>&1
echo "check-public finds what it should"
