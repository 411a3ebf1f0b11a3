#!/bin/sh
# test_members.sh SOURCE LIBRARY PROGRAM: every function that doc/reference/members.md names and
# LIBRARY exports is among the symbols of PROGRAM (members_*.c), which calls it.
set -eu
source=$1 library=$2 program=$3
work=$(mktemp -d "$PWD/members.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

nm -D --defined-only "$library" | awk '{ print $NF }' | grep '^et_' | sort -u >exported
nm "$program" | awk '{ sub(/@.*/, "", $NF); print $NF }' | grep '^et_' | sort -u >used
grep -o '`et_[a-z0-9_]*`' "$source/doc/reference/members.md" | tr -d '`' | sort -u >named
comm -12 named exported >wanted
if [ "$(wc -l <wanted)" -lt 50 ]; then
    echo "test_members: only $(wc -l <wanted) functions are named" >&2
    exit 1
fi

missing=$(comm -23 wanted used)
if [ -n "$missing" ]; then
    echo "test_members: named in doc/reference/members.md, and not called in tests/package/members_*.c:" >&2
    echo "$missing" >&2
    exit 1
fi
echo "$(wc -l <wanted) functions of doc/reference/members.md are called"
