#!/bin/sh
# test_needs.sh SOURCE CMAKE CC CXX: without the libraries that only tests, the demo and servers
# need, the rest can be configured; with ETUDE_TESTS=ON CMake says what is missing.
set -eu
source=$1 cmake=$2 cc=$3 cxx=$4
work=$(mktemp -d "$PWD/needs.XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() {
    tail -30 "$work/log" >&2
    echo "test_needs: $*" >&2
    exit 1
}

# All that pkg-config knows, but for two.
mkdir "$work/known"
for folder in $(pkg-config --variable pc_path pkg-config | tr ':' ' '); do
    for file in "$folder"/*.pc; do
        case $file in
        */cmocka*.pc | */libxml-2.0.pc | */'*.pc') ;;
        *) [ -e "$work/known/${file##*/}" ] || ln -s "$file" "$work/known/" ;;
        esac
    done
done
PKG_CONFIG_LIBDIR=$work/known
export PKG_CONFIG_LIBDIR
unset PKG_CONFIG_PATH

# configure FOLDER WORD...
configure() {
    folder=$work/$1
    shift
    "$cmake" -S "$source" -B "$folder" -G Ninja -DCMAKE_C_COMPILER="$cc" \
        -DCMAKE_CXX_COMPILER="$cxx" "$@" >"$work/log" 2>&1
}
configure without || fail "does not configure without cmocka and libxml2"
grep -q 'no tests (libcmocka-dev)' "$work/log" || fail "does not say that there are no tests"
grep -q 'no demo (libxml2-dev)' "$work/log" || fail "does not say that there is no demo"
grep -q '^build etude:' "$work/without/build.ninja" || fail "the command is not built"
! grep -q 'base.test_alloc' "$work/without/build.ninja" || fail "there are tests all the same"
if configure insisting -DETUDE_TESTS=ON; then fail "ETUDE_TESTS=ON passes"; fi
grep -q 'libcmocka-dev' "$work/log" || fail "the package is not named"
configure silent -DETUDE_HTTP=OFF || fail "does not configure without libmicrohttpd"
grep -q 'command/web/server_none.c' "$work/silent/build.ninja" || fail "there is a server all the same"
configure unzipped -DETUDE_ZIP=OFF || fail "does not configure without libzip"
grep -q 'formats/torch/zip_none.c' "$work/unzipped/build.ninja" || fail "archives are read all the same"
configure whole -DETUDE_ICU=OFF || fail "does not configure without ICU"
grep -q 'data/text/sentences_none.c' "$work/whole/build.ninja" || fail "sentences are cut all the same"
configure closed -DETUDE_EXPAT=OFF -DETUDE_GETTEXTPO=OFF || fail "does not configure without expat"
for none in read_xml_none.c read_po_none.c; do
    grep -q "/$none" "$work/closed/build.ninja" || fail "no $none"
done
configure plain -DETUDE_MD4C=OFF -DETUDE_GUMBO=OFF || fail "does not configure without MD4C and Gumbo"
for none in read_md_none.c read_html_none.c; do
    grep -q "documents/$none" "$work/plain/build.ninja" || fail "without the libraries no $none"
done
echo "configures without cmocka, libxml2, libmicrohttpd, libzip, ICU, expat, libgettextpo, MD4C and Gumbo"
