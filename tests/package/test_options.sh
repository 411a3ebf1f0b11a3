#!/bin/sh
# test_options.sh SOURCE LIBRARY: structs of the public headers before 1.0, when the middle number of the
# version may change any of them.
#
#   1. No struct keeps room for later: a member stands where it belongs.
#   2. The library's SONAME has both numbers of a version below 1.0, and the first alone from then on: a
#      program does not start with a library whose structs are others.
#   3. The checks find what breaks them.
set -eu
source=$1 library=$2
work=$(mktemp -d "$PWD/options.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "test_options: $*" >&2
    if [ -s log ]; then
        head -20 log >&2
    fi
    exit 1
}

# no_room FOLDER: no member of its headers has a name that says that it is not used.
no_room() {
    ! grep -nE '[ *](reserved|unused|spare|padding)[a-z0-9_]*(\[[^]]*\])?;|ET_RESERVED' "$1"/*.h >log
}

# soname VERSION: what the library of a version is to be called.
soname() {
    case $1 in
    0.*) echo "libetude.so.${1%.*}" ;;
    *) echo "libetude.so.${1%%.*}" ;;
    esac
}

no_room "$source/include/etude" || fail "room for later is kept"
version=$(sed -n 's/^#define ET_VERSION "\(.*\)"/\1/p' "$source/include/etude/version.h")
has=$(objdump -p "$library" | awk '$1 == "SONAME" { print $2 }')
[ "$has" = "$(soname "$version")" ] || fail "version $version has the SONAME $has, not $(soname "$version")"

[ "$(soname 0.2.7)" = libetude.so.0.2 ] && [ "$(soname 1.4.0)" = libetude.so.1 ] || fail "soname"
for member in 'uint64_t reserved[8];' 'ET_RESERVED(8);' 'void *spare;'; do
    rm -rf headers
    cp -R "$source/include/etude" headers
    sed -i "/^typedef struct et_pass_options/a\\    $member" headers/pass.h
    grep -qF "$member" headers/pass.h || fail "pass.h has no options"
    ! no_room headers || fail "$member is not seen"
done
echo "$has has version $version"
