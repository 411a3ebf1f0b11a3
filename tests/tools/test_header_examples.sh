#!/bin/sh
# test_header_examples.sh SOURCE CC: compiles the examples in the comments at the top of headers. An
# example is the lines that are indented by at least five spaces after the star. Only prose is
# removed: text that follows a statement after two spaces, lines that begin with "...", and "..."
# for the handling of an error. Types and functions (lines that begin with typedef or static, up to
# their end) are put before the statements. header_examples.txt has the declarations that an example
# needs; a header whose indented lines are not code is listed there with "none".
set -eu
source=$1 cc=$2
list=$source/tests/tools/header_examples.txt
work=$(mktemp -d "$PWD/header_examples.XXXXXX")
trap 'rm -rf "$work"' EXIT

# The example of a header.
example() {
    awk '
        /^#ifndef/ { exit }
        /^ \*     / {
            line = substr($0, 3)
            sub(/ *\*\/$/, "", line)
            if (line ~ /^ *\.\.\./)
                next
            sub(/;   *[^ ].*$/, ";", line)
            sub(/\) \.\.\.( .*)?$/, ") return;", line)
            gsub(/ \.\.\. /, " ", line)
            print line
        }' "$1"
}
# The part of an example that is outside of functions, or the other.
part() {
    awk -v outside="$1" '
        /^ *(static|typedef) / && !depth { whole = 1 }
        {
            if (whole == outside)
                print
            if (!whole)
                next
            text = $0
            depth += gsub(/{/, "", text) - gsub(/}/, "", text)
            if (!depth && $0 ~ /[;}] *$/)
                whole = 0
        }' "$work/example"
}
# What the list says that a header needs: directives and what stands outside of functions, or the
# other.
needs() {
    awk -v header="$1" -v directives="$2" '
        /^[^ ]/ { here = $1 == header; next }
        here && (($1 ~ /^(#|extern$|typedef$)/) == directives) { print }' "$list"
}

count=0 failed=0
cd "$source"
for header in include/etude/*.h $(find src -name "*.h" | sort); do
    example "$header" >"$work/example"
    [ -s "$work/example" ] || continue
    if ! grep -q "^$header\( none\)\{0,1\}\$" "$list"; then
        echo "$header has an example: say in $list what it needs, or none" >&2
        failed=1
        continue
    fi
    if grep -q "^$header none\$" "$list"; then
        continue
    fi
    {
        echo "#include \"${header#src/}\"" | sed 's|"include/\(.*\)"|<\1>|'
        printf '#include <stdio.h>\n#include <etude/error.h>\n'
        needs "$header" 1
        part 1
        echo 'void example(void);'
        echo 'void example(void)'
        echo '{'
        grep -q 'et_error error' "$work/example" || echo '    et_error error = ET_ERROR_INIT;'
        needs "$header" 0
        part 0
        echo '}'
    } >"$work/example.c"
    if ! "$cc" -std=c17 -D_GNU_SOURCE -fsyntax-only -fopenmp -Wall -Wno-unused -Wno-return-type -Wno-uninitialized \
        -Wno-maybe-uninitialized -Wno-unknown-warning-option -Werror -Iinclude -Isrc "$work/example.c"; then
        echo "$header: its example does not compile" >&2
        failed=1
    fi
    count=$((count + 1))
done
# Names in the list that are no headers any more.
for header in $(awk '/^[^ #]/ { print $1 }' "$list"); do
    if ! [ -f "$header" ] || [ -z "$(example "$header")" ]; then
        echo "$list: $header has no example" >&2
        failed=1
    fi
done
echo "$count examples"
[ "$count" -ge 20 ] && [ "$failed" = 0 ]
