#!/bin/sh
# test_man.sh ETUDE TWO_KINDS MAKE_PAGES: each command has a man page that names each of its
# options, and neither mandoc nor groff warns about it; the same for a user's own program.
set -eu
etude=$1 two=$2 make_pages=$3
work=$(mktemp -d "$PWD/man.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
SOURCE_DATE_EPOCH=1700000000
export SOURCE_DATE_EPOCH

fail() {
    echo "test_man: $*" >&2
    exit 1
}

"$make_pages" "$etude" share
"$make_pages" "$two" share

# Every command has a page, and nothing else has.
for program in "$etude" "$two"; do
    name=${program##*/}
    "$program" help | sed -n 's/^    \([a-z][a-z0-9_-]*\) .*/\1/p' | sort >commands
    [ "$(wc -l <commands)" -ge 8 ] || fail "$name help lists few commands"
    ls share/man/man1 | sed -n "s/^$name-\(.*\)[.]1\$/\1/p" | sort >pages
    cmp commands pages >&2 || fail "$name: commands and pages differ"
    while read -r command; do
        page=share/man/man1/$name-$command.1
        grep -q '^\.TH .* 1 2023-11-14 "etude ' "$page" || fail "$page: no date of SOURCE_DATE_EPOCH"
        for section in NAME SYNOPSIS DESCRIPTION OPTIONS 'EXIT STATUS' 'SEE ALSO'; do
            grep -q "^[.]SH $section\$" "$page" || fail "$page: no section $section"
        done
        "$program" "$command" --help | sed -n 's/^    --\([a-z0-9-]*\).*/\1/p' >options
        while read -r option; do
            tr -d '\\' <"$page" | grep -qF "fB--${option}fR" || fail "$page: no --$option"
        done <options
    done <commands
    grep -q '^.SH COMMANDS' "share/man/man1/$name.1" || fail "$name.1: no commands"
done

# A program's own command is on its page, with its options if it has a table; of two of one name both are.
grep -q '^say hello$' share/man/man1/two_kinds-greet.1 || fail "greet: its line is not on its page"
grep -q '^.fBtwo_kinds wave.fR NAME|.:world' share/man/man1/two_kinds-wave.1 || fail "wave: no synopsis"
grep -q 'fB.-.-loud.fR, .fB.-l.fR$' share/man/man1/two_kinds-wave.1 || fail "wave: no --loud, -l"
[ "$(grep -c '^.SS Of a run of ' share/man/man1/two_kinds-evaluate.1)" = 4 ] ||
    fail "evaluate: not a part for each kind"
for command in train predict scaffold; do
    grep -q "^.SS etude tfx $command" share/man/man1/etude-tfx.1 || fail "tfx: no $command"
done

# Refused in the usual manner.
code=0
"$etude" help --man trian >out 2>&1 || code=$?
[ $code = 2 ] && grep -q 'no command trian. Nearest: train' out || fail "help --man trian: $code"
"$etude" help train --man >out
cmp out share/man/man1/etude-train.1 || fail "help train --man is another page"
code=0
"$etude" help --man >/dev/full 2>out || code=$?
[ $code = 4 ] || fail "a full disk: exit code $code"

judged=0
if command -v mandoc >/dev/null; then
    mandoc -T lint -W warning share/man/man1/*.1 >out 2>&1 || { cat out >&2; fail "mandoc warns"; }
    [ ! -s out ] || { cat out >&2; fail "mandoc warns"; }
    # It sees what is wrong.
    printf '.TH A 1\n.SH NAME\n.XY b\n' >wrong.1
    ! mandoc -T lint -W warning wrong.1 >/dev/null 2>&1 || fail "mandoc does not warn at all"
    judged=1
fi
if command -v groff >/dev/null && groff -man -T utf8 -ww /dev/null >/dev/null 2>&1; then
    for page in share/man/man1/*.1; do
        LC_ALL=C.UTF-8 groff -man -T utf8 -ww -rCHECKSTYLE=1 "$page" >text 2>out ||
            fail "$page: groff fails"
        [ ! -s out ] || { cat out >&2; fail "$page: groff warns"; }
    done
    groff -man -T ascii -P-c share/man/man1/etude-train.1 | tr -s ' \n' '  ' >text
    grep -q -e 'etude train --experiment translation/auto' text || fail "the example is not shown"
    judged=1
fi
[ $judged = 1 ] || {
    echo "SKIPPED: pages are made, and neither mandoc nor groff is there to read them"
    exit 77
}
echo "$(ls share/man/man1 | wc -l) pages"
