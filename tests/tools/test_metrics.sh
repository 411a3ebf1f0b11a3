#!/bin/sh
# metrics on sources that the test makes: counts are exact; long functions and files are named.
set -eu
metrics=$(cd "$(dirname "$0")/../../tools" && pwd)/metrics
work=$(mktemp -d "$PWD/metrics.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/include/etude" "$work/src/base"
cd "$work"
printf '/* One. */\nint et_f(int a);\n' >include/etude/f.h
# 10 lines: a function of 4 lines and one of 3; 2 lines of comment; an assert.
cat >src/base/f.c <<'C'
/* Two
 * lines. */
int et_f(int a)
{
    et_assert(a); /* not a comment line */
}
static int g(int a,
             int b)
{
}
C
"$metrics" . >said
grep -q '^| base  *|  *0.0 |  *1 |  *10/10/10 |  *2 |  *4/4/4 |  *20 % |  *100.0 |$' said || {
    cat said >&2
    exit 1
}
"$metrics" --check .

{
    echo 'void et_long(void)'
    echo '{'
    i=0
    while [ $i -lt 78 ]; do
        echo '    f();'
        i=$((i + 1))
    done
    echo '}'
} >src/base/long.c
if "$metrics" --check . >said; then
    echo "81 lines accepted" >&2
    exit 1
fi
grep -q '^too long: src/base/long.c:1: et_long: 81 lines$' said || {
    cat said >&2
    exit 1
}
sed -i 3d src/base/long.c # 80 lines
"$metrics" --check .
awk 'BEGIN { for (i = 0; i < 1001; i++) print "" }' >src/base/big.c
"$metrics" . | grep -q '^too long: src/base/big.c: 1001 lines$'
awk 'BEGIN { for (i = 0; i < 200; i++) print "" }' >include/etude/big.h
rm src/base/big.c
"$metrics" --check .
echo >>include/etude/big.h
"$metrics" . | grep -q '^too long: include/etude/big.h: 201 lines$'
echo "metrics counts right"
