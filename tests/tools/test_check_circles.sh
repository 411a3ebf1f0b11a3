#!/bin/sh
# test_check_circles.sh CC: check-circles on objects that the test makes: a chain passes; two files
# that use each other, three in a ring, and two folders that use each other fail, and the message
# names them and what they use.
set -eu
cc=$1
check=$(cd "$(dirname "$0")/../../tools" && pwd)/check-circles
work=$(mktemp -d "$PWD/circles.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir lib.dir

# file [FOLDER/]NAME USED...: an object that defines et_NAME_value and uses et_USED_value.
file() {
    name=${1##*/} folder=lib.dir/${1%"${1##*/}"}
    shift
    mkdir -p "$folder"
    {
        sum=1
        for used in "$@"; do
            echo "extern int et_${used}_value;"
            sum="$sum + et_${used}_value"
        done
        echo "extern int et_${name}_value; int et_${name}_value; int et_$name(void);"
        echo "int et_$name(void) { return $sum; }"
    } >"$name.c"
    $cc -c "$name.c" -o "$folder$name.c.o"
    echo "$work/$folder$name.c.o" >>list
}

# refused LINES WORDS: as many lines are said, one of them with these words.
refused() {
    if "$check" list >said 2>&1; then
        echo "accepted, wanted \"$2\"" >&2
        exit 1
    fi
    [ "$(wc -l <said)" = "$1" ] && grep -q "$2" said || {
        echo "wanted $1 lines with \"$2\", got:" >&2
        cat said >&2
        exit 1
    }
}

file top middle bottom
file middle bottom
file bottom
"$check" list

file bottom middle # and middle uses bottom
refused 2 '^bottom.c uses middle.c: et_middle_value$'
file bottom top
refused 4 '^middle.c uses bottom.c: et_bottom_value$'
file bottom other # which nobody defines
"$check" list

: >list
file a/one two
file b/two three
file a/three
refused 1 '^a and b use each other: et_two_value; et_three_value$'

: >list
file alone
refused 1 'no object uses another'
echo "check-circles refuses what it should"
