#!/bin/sh
# test_subproject.sh SOURCE CMAKE CC CXX LAUNCHER: a project that has SOURCE in a folder
# (add_subdirectory) builds and runs programs against both libraries; the same with FetchContent.
# LAUNCHER (a compiler cache) may be empty.
set -eu
source=$1 cmake=$2 cc=$3 cxx=$4 launcher=$5
here=$(cd "$(dirname "$0")" && pwd)
work=$PWD/subproject # always the same, for the compiler cache
rm -rf "$work"
mkdir "$work"
trap 'rm -rf "$work"' EXIT

fail() {
    tail -30 "$work/log" >&2
    echo "test_subproject: $*" >&2
    exit 1
}

cp "$here/subproject.cmake" "$work/CMakeLists.txt"
cp "$here/program.c" "$work/"
cd "$work"
# configure HOW TYPE: TYPE may be empty.
configure() {
    how=$1
    "$cmake" -S . -B "$how" -G Ninja -DCMAKE_BUILD_TYPE="$2" -DCMAKE_C_FLAGS_DEBUG= -DETUDE_SOURCE="$source" -DHOW="$how" \
        -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" \
        -DCMAKE_C_COMPILER_LAUNCHER="$launcher" -DCMAKE_CXX_COMPILER_LAUNCHER="$launcher" \
        >log 2>&1 || fail "$how: does not configure"
}
configure fetch ''
grep -q -e -O3 fetch/build.ninja || fail "without a build type the library is not optimised"
configure folder Debug
"$cmake" --build folder -j 2 --target with_shared with_static >log 2>&1 ||
    fail "add_subdirectory: does not build"
for program in with_shared with_static; do
    ./folder/$program >said 2>log || fail "$program failed"
done
ldd folder/with_shared | grep -q libetude || fail "with_shared does not use the shared library"
[ -z "$(find folder -name etude -type f -perm -u+x)" ] || fail "the command was built as well"
[ "$(find folder -name 'test_*.o')" = "" ] || fail "tests were built as well"
echo "add_subdirectory builds version $(cat said), FetchContent configures"
