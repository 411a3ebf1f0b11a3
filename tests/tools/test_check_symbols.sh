#!/bin/sh
# test_check_symbols.sh CC: check-symbols on libraries that the test makes: a clean one passes; a
# foreign export, a foreign extern name and each kind of writable global fail and are named.
set -eu
cc=$1
check=$(cd "$(dirname "$0")/../../tools" && pwd)/check-symbols
work=$(mktemp -d "$PWD/symbols.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
export_it='__attribute__((visibility("default")))'

# pack FILE SOURCE: FILE.o in libt.a and libt.so.
pack() {
    rm -f libt.a libt.so
    printf '%s\n' "$2" >"$1"
    $cc -fPIC -fvisibility=hidden -c "$1" -o "$1.o"
    ar rc libt.a "$1.o"
    $cc -shared "$1.o" -o libt.so
}

# refused FILE SOURCE WORDS: such a library is refused with these words.
refused() {
    pack "$1" "$2"
    if "$check" libt.so libt.a >said 2>&1; then
        echo "accepted: $2" >&2
        exit 1
    fi
    grep -q "$3" said || {
        echo "$2: wanted \"$3\", got:" >&2
        cat said >&2
        exit 1
    }
}

good="$export_it int et_good(void); int et_good(void) { return 1; }"
pack good.c "$good
static const char *const names[] = { \"a\", \"b\" }; const char *et_name(int i);
const char *et_name(int i) { return names[i]; }"
"$check" libt.so libt.a
pack alloc.c "$good static unsigned long allocations; void et_more(void);
void et_more(void) { allocations++; }" # on the list
"$check" libt.so libt.a

refused a.c "$good $export_it int helper(void) { return 1; }" 'exported: helper'
refused a.c "$good int helper(void) { return 1; }" 'helper: extern names'
refused a.c "$good int et_count; " 'et_count: writable global in .bss'
refused a.c "$good int et_count = 3;" 'et_count: writable global in .data'
refused a.c "$good int et_next(void) { static int last; return last++; }" 'last.*writable'
refused a.c "$good _Thread_local int et_count;" 'et_count: writable global in .tbss'
refused a.c "$good static unsigned long allocations; void et_more(void);
void et_more(void) { allocations++; }" 'allocations.*writable'
refused a.c 'static int quiet(void); int et_x(void); int et_x(void) { return quiet(); }
static int quiet(void) { return 1; }' 'nothing is exported'
echo "check-symbols refuses what it should"
