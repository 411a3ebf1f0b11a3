#!/bin/sh
# test_options.sh SOURCE LIBRARY CC: options grow without breaking a program that was built before.
#
#   1. Every options struct of the public headers ends with ET_RESERVED and stands in published.h.
#   2. It has the size and, for each published field, the offset that it was published with; what is
#      new lies in words that were reserved.
#   3. Programs that are built with the published structs run against this library.
#   4. A field added by the rule passes 2; added otherwise, or too large, it does not.
set -eu
source=$1 library=$2 cc=$3
here=$source/tests/package
work=$(mktemp -d "$PWD/options.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "test_options: $*" >&2
    if [ -f log ]; then
        head -20 log >&2
    fi
    exit 1
}

# Lines "struct field" of a header; the last field of each is reserved.
fields() {
    awk '
        { gsub(/\/\*([^*]|\*[^\/])*\*\//, "") }
        comment { if (!sub(/^.*\*\//, "")) next; comment = 0 }
        sub(/\/\*.*/, "") { comment = 1 }
        /^typedef struct et_[a-z0-9_]*[a-z]+ \{/ &&
            $3 ~ /(_options|_setup|_observer)$/ { name = $3; next }
        /^\}/ { name = "" }
        name != "" && /;/ {
            line = $0
            if (line ~ /ET_RESERVED/) { print name, "reserved"; next }
            if (match(line, /\(\*[a-z_0-9]+\)/)) { # a function
                print name, substr(line, RSTART + 2, RLENGTH - 3)
                next
            }
            sub(/;.*/, "", line)
            many = split(line, part, ",")
            for (i = 1; i <= many; i++) {
                sub(/\[.*/, "", part[i])
                match(part[i], /[a-z_0-9]+ *$/)
                print name, substr(part[i], RSTART)
            }
        }' "$@"
}

# Compares the headers in a folder with what was published.
check() {
    fields "$1"/etude/*.h >now
    fields "$here/published.h" >then
    awk '{ last[$1] = $2 } END { for (s in last) if (last[s] != "reserved") { print s; bad = 1 }
        exit bad }' now >log || fail "these do not end with ET_RESERVED"
    awk 'NR == FNR { then[$1]; next } !($1 in then) { print $1; bad = 1 } END { exit bad }' \
        then now >log || fail "these are not in published.h"
    {
        echo '#include <etude/etude.h>'
        echo '#include <stddef.h>'
        sed "$(awk '!seen[$1]++ { printf "s/\\<%s\\>/published_%s/g;", $1, $1 }' then)" \
            "$here/published.h"
        awk '
            NR == FNR { then[$0]; structs[$1]; next }
            !($0 in then) {
                printf "_Static_assert(offsetof(%s, %s) >= offsetof(published_%s, reserved), \"%s.%s is new and before what was reserved\");\n", $1, $2, $1, $1, $2
            }
            { now[$0] }
            END {
                for (line in then) {
                    split(line, word)
                    if (word[2] != "reserved")
                        printf "_Static_assert(offsetof(%s, %s) == offsetof(published_%s, %s), \"%s.%s has moved\");\n", word[1], word[2], word[1], word[2], word[1], word[2]
                }
                for (s in structs)
                    printf "_Static_assert(sizeof(%s) == sizeof(published_%s), \"%s has another size\");\n", s, s, s
            }' then now
    } >check.c
    "$cc" -std=c17 -I"$1" -fsyntax-only check.c >log 2>&1
}

check "$source/include" || fail "options are not what programs were built with"
count=$(grep -c Static_assert check.c)
[ "$count" -ge 60 ] || fail "only $count comparisons"

# 3. The published structs in place of today's.
mkdir published
cp -R "$source/include/etude" published/
for header in published/etude/*.h; do
    awk -v all="$here/published.h" '
        BEGIN {
            while ((getline line <all) > 0) {
                if (line ~ /^typedef struct/) { split(line, word, " "); name = word[3] }
                if (name != "") text[name] = text[name] line "\n"
                if (line ~ /^}/) name = ""
            }
        }
        /^typedef struct et_/ && ($3 in text) { printf "%s", text[$3]; skip = 1 }
        !skip { print }
        /^}/ { skip = 0 }' "$header" >swapped
    mv swapped "$header"
done
folder=$(dirname "$library")
# Those that are older than what was published; others set fields that came later.
for program in classifier gan mnist_cnn mnist_loop own_task translate vae_loop; do
    "$cc" -std=c17 -Ipublished "$source/examples/$program.c" -o "$program" -L"$folder" -letude -lm \
        >log 2>&1 || fail "$program does not build with the published structs"
done
LD_LIBRARY_PATH=$folder
export LD_LIBRARY_PATH
for program in classifier gan; do
    ./$program run_$program 20 >log 2>&1 || fail "$program: exit $?"
    [ -s run_$program/metrics.jsonl ] || fail "$program has trained nothing"
done
./own_task train run_own_task --experiment rings/small --steps 20 >log 2>&1 || fail "own_task: $?"
[ -s run_own_task/metrics.jsonl ] || fail "own_task has trained nothing"
status=0
./translate nowhere "A dog." >log 2>&1 || status=$?
[ "$status" = 1 ] && grep -q 'nowhere: no such directory' log || fail "translate: exit $status"

# 4. The comparison sees what breaks the rule, and lets pass what keeps it.
grown() {
    rm -rf grown
    mkdir grown
    cp -R "$source/include/etude" grown/
    sed "$1" "$source/include/etude/pass.h" >grown/etude/pass.h
    ! cmp -s "$source/include/etude/pass.h" grown/etude/pass.h || fail "sed $1 changes nothing"
}
options='/^typedef struct et_pass_options/,/^}/'
grown "$options s/ET_RESERVED(8);/double grown; ET_RESERVED(7);/"
check grown || fail "a field that keeps the rule is refused"
for wrong in 's/ET_RESERVED(8);/double grown; ET_RESERVED(8);/' \
    's/ET_RESERVED(8);/double one, two; ET_RESERVED(7);/' \
    's/bool training;/bool grown; bool training;/' 's/int recompute;/int64_t recompute;/'; do
    grown "$options $wrong"
    if check grown; then
        fail "$wrong: not seen"
    fi
done
echo "$count comparisons; programs with published options train"
