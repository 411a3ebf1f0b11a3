#!/bin/sh
# test_install.sh BUILD CMAKE CC CXX: installs BUILD to a fresh prefix, moves it, and builds and
# runs programs against it with pkg-config and with find_package, shared and static.
set -eu
build=$1 cmake=$2 cc=$3 cxx=$4
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "$PWD/install.XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() {
    echo "test_install: $*" >&2
    exit 1
}

make -C "$here/../.." -n install PREFIX='a b' DESTDIR='c d' | grep -q 'DESTDIR="c d" cmake .* --prefix "a b"$' ||
    fail "make install with blanks in PREFIX and DESTDIR"

# Only what is built already: the test does not build the library a second time.
"$cmake" --install "$build" --prefix "$work/first" >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    fail "cmake --install failed"
}
grep -q "the loader does not search $work/first/lib" "$work/log" ||
    fail "nothing is said of the loader: $(tail -3 "$work/log")"

# The loader's cache, by an ldconfig of ours: where it searches, is called once, and fails for others.
# loader CODE: what an installation says then; DESTDIR is of the caller.
mkdir "$work/bin"
loader() {
    lib=$(find "$work/first" -name libetude.so -exec dirname {} \;)
    cat >"$work/bin/ldconfig" <<END
#!/bin/sh
case "\$*" in
"-v -N -X") echo "$lib: (from a file)" ;;
*) echo called >>"$work/called"; exit $1 ;;
esac
END
    chmod +x "$work/bin/ldconfig"
    rm -f "$work/called"
    PATH=$work/bin:$PATH "$cmake" --install "$build" --prefix "$work/first" >"$work/log" 2>&1 ||
        fail "cmake --install failed: $(tail -5 "$work/log")"
}
loader 0
[ "$(cat "$work/called")" = called ] || fail "ldconfig was not run"
grep -q 'Ran ldconfig' "$work/log" || fail "that it ran ldconfig is not said"
loader 1
grep -q 'ldconfig needs root' "$work/log" || fail "that ldconfig failed is not said"
DESTDIR=$work/destdir
export DESTDIR
loader 0
unset DESTDIR
[ ! -e "$work/called" ] || fail "ldconfig was run for a DESTDIR"
# Everything that was installed goes again, and no file of others.
uninstall() {
    DESTDIR=$work/destdir "$here/../../tools/uninstall" "$build" "$work/first" >"$work/log" 2>&1
}
other=$work/destdir$work/first/include/etude/other.h
touch "$other"
uninstall || fail "uninstall: $(tail -3 "$work/log")"
[ "$(find "$work/destdir" ! -type d)" = "$other" ] || fail "uninstall left or took a file"
grep -q "include/etude is not empty: kept" "$work/log" || fail "the folder of $other is not named"
if uninstall; then fail "a second uninstall finds files"; fi
mv "$work/first" "$work/moved" # an installed tree finds itself
prefix=$work/moved
pc=$(find "$prefix" -name etude.pc)
lib=$(dirname "$(dirname "$pc")")
[ -n "$pc" ] || fail "no etude.pc below $prefix"
for file in include/etude/etude.h; do
    [ -f "$prefix/$file" ] || fail "$file is not installed"
done
soname=$(objdump -p "$lib/libetude.so" | awk '$1 == "SONAME" { print $2 }')
[ -n "$soname" ] && [ -e "$lib/$soname" ] || fail "libetude.so has no SONAME, or no such file"

PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
cp "$here/program.c" "$work/program.c"
cp "$here/program.c" "$work/program.cc"
cd "$work"
strict="-Wall -Wextra -Werror -pedantic"

# shellcheck disable=SC2046,SC2086 # flags are words
{
    $cc -std=c11 $strict $(pkg-config --cflags etude) program.c -o c_shared \
        $(pkg-config --libs etude)
    $cxx -std=c++17 $strict $(pkg-config --cflags etude) program.cc -o cc_shared \
        $(pkg-config --libs etude)
    # The archive by its name, then all that etude.pc names after it.
    $cc -std=c17 $strict $(pkg-config --cflags etude) program.c -o c_static \
        -Wl,-Bstatic -L"$lib" -letude -Wl,-Bdynamic \
        $(pkg-config --static --libs etude | sed 's/-letude //')
}
# What the documents give is enough for <math.h>, in the order that they give it.
printf '#include <etude/etude.h>\n#include <math.h>\n#include <stdlib.h>\nint main(int argc, char **argv)\n{ (void)argv; return et_version() && pow(argc, 0.3) > 2; }\n' >math.c
# shellcheck disable=SC2046 # flags are words
$cc -std=c11 math.c -o math $(pkg-config --cflags --libs etude) || fail "<math.h> is not linked"
version=$(pkg-config --modversion etude)
for program in c_shared cc_shared c_static; do
    said=$(LD_LIBRARY_PATH=$lib ./$program) || fail "$program failed"
    [ "$said" = "$version" ] || fail "$program says version $said, pkg-config says $version"
done
if ldd ./c_static | grep -q libetude; then
    fail "c_static wants the shared library"
fi

# The header for C++, by each compiler that is here.
printf '#include <etude/etude.hpp>\nint main()\n{\n    return !et_version();\n}\n' >owners.cc
for compiler in "$cxx" g++ clang++; do
    command -v "$compiler" >/dev/null 2>&1 || continue
    # shellcheck disable=SC2046 # flags are words
    $compiler -std=c++17 -Wall -Wextra -Werror owners.cc -o owners $(pkg-config --cflags --libs etude) ||
        fail "etude.hpp: $compiler does not take it"
done

# Each example, by the line in its first comment that says how it is compiled.
mkdir examples
for program in "$here"/../../examples/*.c "$here"/../../examples/*.cc; do
    name=$(basename "$program") at=$cc
    line=$(sed -n "s/^[ /][*/] *\\(c[c+]*\\( -std=[a-z0-9+]*\\)* $name -o .*pkg-config.*\\)/\\1/p" "$program")
    [ -n "$line" ] || fail "$name does not say how it is compiled"
    cp "$program" examples
    case $line in c++*) at=$cxx ;; esac
    (cd examples && eval "$at ${line#c* }") || fail "$name does not compile: $line"
done

# Every public header alone, in C and in C++.
for header in "$prefix"/include/etude/*.h; do
    name=$(basename "$header")
    printf "#include <etude/%s>\nextern int alone;\n" "$name" >alone.c
    $cc -std=c11 $strict -I"$prefix/include" -fsyntax-only alone.c || fail "$name: not alone in C"
    $cxx -std=c++17 $strict -I"$prefix/include" -fsyntax-only -x c++ alone.c ||
        fail "$name: not alone in C++"
done

# Every function that they declare is there to be linked; et_x_fn are types.
echo '#include <etude/etude.h>' | $cc -E -P -I"$prefix/include" -x c - |
    grep -o '\<et_[a-z0-9_]* *(' | tr -d ' (' | grep -v '_fn$' | sort -u >declared
[ "$(wc -l <declared)" -gt 500 ] || fail "only $(wc -l <declared) functions are declared"
nm -D --defined-only "$lib/libetude.so" | sed 's/.* //; s/@.*//' | sort -u >exported
missing=$(comm -23 declared exported)
[ -z "$missing" ] || fail "declared and not exported: $missing"

mkdir consumer
cp "$here/consumer.cmake" consumer/CMakeLists.txt
cp program.c consumer/
"$cmake" -S consumer -B consumer/build -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" >log 2>&1 &&
    "$cmake" --build consumer/build >>log 2>&1 || {
    cat log >&2
    fail "find_package(etude) does not build"
}
for program in with_shared with_static; do
    ./consumer/build/$program >/dev/null || fail "$program failed"
done

# The command, where it is built.
if [ -x "$prefix/bin/etude" ]; then
    "$prefix/bin/etude" --help >/dev/null || fail "the installed command does not print its help"
fi
# README's program, compiled as README says, on a table that it names.
readme=$here/../../README.md
awk '/^    #include <stdio.h>$/ { block = 1 } block { sub(/^    /, ""); print } /^}$/ { exit }' \
    "$readme" >income.c
[ "$(grep -c . income.c)" -le 25 ] || fail "README's program has more than 25 lines"
compile=$(sed -n 's/^    \(cc income.c .*pkg-config.*\)/\1/p' "$readme")
[ -n "$compile" ] || fail "README does not say how its program is compiled"
awk 'BEGIN { print "age,job,income"
    for (i = 0; i < 200; i++)
        print 18 + i * 37 % 50 ",job" i % 3 "," (i * 37 % 50 > 25 ? "high" : "low") }' >people.csv
cut -d, -f1,2 people.csv | head -6 >new.csv
eval "$cc ${compile#cc }" || fail "README's program does not compile"
LD_LIBRARY_PATH=$lib ./income >lines 2>log || fail "README's program: $(tail -3 log)"
[ "$(wc -l <lines)" = 5 ] || fail "README's program did not predict five rows"
echo "installed $version: pkg-config, find_package, shared and static"
