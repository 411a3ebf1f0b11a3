#!/bin/sh
# test_installed.sh BUILD CMAKE: an installation below a DESTDIR has exactly the files that
# installed.txt lists. Files of a pattern that ends in ? may be missing.
set -eu
build=$1 cmake=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "$PWD/installed.XXXXXX")
trap 'rm -rf "$work"' EXIT
[ -x "$build/etude" ] && [ -e "$build/share/pages.stamp" ] || {
    echo "SKIPPED: the command or its pages are not built"
    exit 77
}
DESTDIR=$work/root "$cmake" --install "$build" --prefix /usr >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    exit 1
}
cd "$work/root/usr"
failed=0
lib=$(find . -name etude.pc | sed 's|^\./||; s|/pkgconfig/etude.pc||')
find . -type f -o -type l | sed 's|^\./||' | sort >"$work/there"
: >"$work/listed"
while read -r pattern; do
    case $pattern in '#'* | '') continue ;; esac
    needed=1
    case $pattern in *'?') needed=0 pattern=${pattern%'?'} ;; esac
    case $pattern in LIB/*) pattern=$lib/${pattern#LIB/} ;; esac
    found=0
    for file in $pattern; do
        if [ -e "$file" ]; then
            found=1
            echo "$file" >>"$work/listed"
        fi
    done
    [ $found = 1 ] || [ $needed = 0 ] || {
        echo "test_installed: $pattern is not installed" >&2
        failed=1
    }
done <"$here/installed.txt"
sort -u "$work/listed" | comm -23 "$work/there" - >"$work/more"
[ ! -s "$work/more" ] || {
    sed 's/^/test_installed: installed and not listed: /' "$work/more" >&2
    failed=1
}
# Each command that the installed one has has a page, of this build.
for command in $(bin/etude help | sed -n 's/^    \([a-z][a-z0-9_-]*\) .*/\1/p'); do
    [ -s "share/man/man1/etude-$command.1" ] || {
        echo "test_installed: $command has no page" >&2
        failed=1
    }
done
[ $failed = 0 ]
echo "$(wc -l <"$work/there") files"
