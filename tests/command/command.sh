# shellcheck shell=sh
# Sourced by test_*.sh that run the command ($1 of the test) in a folder of their own.
etude=$1
script=$(basename "$0" .sh)
work=$(mktemp -d "$PWD/${script#test_}.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

fail() {
    echo "$script: $*" >&2
    cat out said >&2 2>/dev/null || :
    exit 1
}
# says CODE TEXT ARGUMENT...: the command ends with CODE, and TEXT is in what it prints, all of which
# is in `out`.
says() {
    code=$1 text=$2 got=0
    shift 2
    "$etude" "$@" >out 2>&1 || got=$?
    [ "$got" = "$code" ] && grep -q -e "$text" out || fail "$*: exit $got, wanted $code and: $text"
}
# tells CODE TEXT ARGUMENT...: the same, with standard error in `said`; an empty TEXT asks for none.
tells() {
    code=$1 text=$2 got=0
    shift 2
    "$etude" "$@" >out 2>said || got=$?
    [ "$got" = "$code" ] || fail "$*: exit code $got, wanted $code"
    [ -z "$text" ] || cat out said | grep -q -e "$text" || fail "$*: does not say: $text"
}
# once CODE TEXT ARGUMENT...: as says, and TEXT stands in one line.
once() {
    says "$@"
    [ "$(grep -c -e "$2" out)" = 1 ] || fail "said more than once: $2"
}
# Whether script(1) can make a terminal; a container may have no /dev/pts.
has_terminal() {
    script -qec true /dev/null </dev/null >/dev/null 2>&1
}
# A table of 400 rows, t.csv.
make_table() {
    awk 'BEGIN { print "size,colour,price,kind"; for (i = 0; i < 400; i++)
        printf "%d,%s,%.2f,%s\n", i % 17 + i % 3 * 10, i % 5 ? "red" : "blue", i * 1.37 % 100,
            i % 3 ? "round" : "flat" }' >t.csv
}
# make_pairs LINES WORDS LANGUAGE: sentences of seven words and theirs in another language, word for
# word, a.en and a.LANGUAGE.
make_pairs() {
    awk -v lines="$1" -v words="$2" -v target="a.$3" 'BEGIN {
        split("red dog runs tree house blue cat", a); split(words, b)
        for (i = 0; i < lines; i++) {
            left = right = ""
            for (k = 0; k < 2 + i % 4; k++) {
                w = (i * 5 + k * 3 + int(i / 7)) % 7 + 1
                left = left a[w] " "; right = b[w] " " right
            }
            sub(/ $/, "", left); sub(/ $/, "", right)
            print left >"a.en"; print right >target
        }
    }'
}
