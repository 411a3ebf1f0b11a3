#!/bin/sh
# test_terminal_picture.sh SOURCE: a screen with colors, escaped text and wide characters as SVG; a
# command that does not end is stopped. Skipped without tmux or terminals.
set -eu
picture=$1/tools/terminal-picture
command -v tmux >/dev/null && script -qec true /dev/null </dev/null >/dev/null 2>&1 || {
    echo "SKIPPED: all cases: no tmux, or no terminals"
    exit 77
}
work=$(mktemp -d "$PWD/terminal_picture.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() {
    echo "test_terminal_picture: $*" >&2
    exit 1
}
export LC_ALL=C.UTF-8
"$picture" -w 40 -h 10 'printf "\033[1mbold\033[0m \033[32mgreen\033[0m <&>\n\nend\n"' >screen.svg ||
    fail "no picture"
grep -q '<tspan class="b">bold</tspan> <tspan class="c2">green</tspan> &lt;&amp;&gt;' screen.svg ||
    fail "colors: $(cat screen.svg)"
grep -q '^<svg .* width="369"' screen.svg || fail "width: $(head -n 1 screen.svg)"
[ "$(grep -c '<text ' screen.svg)" -le 6 ] || fail "lines below the last text"
! command -v xmllint >/dev/null || xmllint --noout screen.svg || fail "no XML"
"$picture" -t 1 'echo begun; sleep 50; touch late' >stopped.svg || fail "a command that goes on"
grep -q '>begun<' stopped.svg || fail "what it showed: $(cat stopped.svg)"
sleep 0.5
[ ! -e late ] || fail "it was not stopped"
! "$picture" 2>/dev/null || fail "no command"
echo "a screen is a picture"
