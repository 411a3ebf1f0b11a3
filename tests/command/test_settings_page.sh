#!/bin/sh
# test_settings_page.sh ETUDE TWO_KINDS PAGE: the page of settings is equal to what the command
# prints.
set -eu
etude=$1 two=$2 page=$3
work=$(mktemp -d "$PWD/settings.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() {
    echo "test_settings_page: $*" >&2
    exit 1
}
"$etude" list --markdown >made
diff "$page" made >differs || {
    head -n 20 differs >&2
    fail "doc/reference/settings.md is not what the tables say; make it again: etude list --markdown >$page"
}

# Every setting that `list --all` shows of any experiment is on it, below its group.
awk '/^### / { group = $2 } /^[|] `/ { split($0, cell, "`"); print group "." cell[2] }' made |
    sort -u >there
"$etude" list | awk '{ print $1 }' | while read -r experiment; do
    "$etude" list "$experiment" --all | sed 's/: .*//'
done | sort -u >wanted
[ "$(wc -l <wanted)" -gt 200 ] || fail "few settings are listed"
comm -23 wanted there >missing
[ ! -s missing ] || { cat missing >&2; fail "settings that are not on the page"; }

# Settings that an experiment may not have are an error.
"$two" list --markdown >made 2>said && fail "an experiment with bad settings was taken"
grep -q 'experiment plain/bad: ' said || fail "it is not said whose settings are bad: $(cat said)"
code=0
"$etude" list --markdown translation/tiny >/dev/null 2>&1 || code=$?
[ $code = 2 ] || fail "--markdown with an experiment: exit code $code"
echo "$(wc -l <there) settings"
