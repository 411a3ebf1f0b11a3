#!/bin/sh
# test_demo_table.sh BUILD: tools/demo-table on a small made table in the form of UCI Adult.
set -eu
build=$1
demo=$(cd "$(dirname "$0")/../.." && pwd)/tools/demo-table
work=$(mktemp -d "$PWD/demo_table.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
export DEMO_BUILD="$build" DEMO_WORK="$work/made" DEMO_DATA="$work" OMP_NUM_THREADS=1

# people FIRST END: hours and schooling decide, with a point behind the label of the second half.
people() {
    awk -v first="$1" -v end="$2" 'BEGIN {
        for (i = first; i < first + 600; i++)
            printf "%d, %s, %d, HS-grad, %d, Never-married, %s, Own-child, White, %s, 0, 0, %d, ?, %s%s\n",
                20 + i % 50, i % 3 ? "Private" : "?", 1000 + i * 7919 % 90000, i % 16 + 1,
                i % 4 ? "Sales" : "Craft-repair", i % 2 ? "Male" : "Female", 10 + i * 31 % 60,
                (i % 16 > 7 && i * 31 % 60 > 20) ? ">50K" : "<=50K", end
        print "" }'
}
people 0 '' >adult.data
{
    echo '|1x3 Cross validator'
    people 1000 .
} >adult.test

"$demo" >shown 2>said || {
    cat shown said >&2
    exit 1
}
for words in 'rows of 15 columns' 'income .*the target' '2 classes: <=50K, >50K' \
    '^done ' '^== the table: income of people' '^  row [0-9]*  *is <=50K ' '^  row [0-9]*  *is >50K ' '% of 600 rows are right'; do
    grep -q -e "$words" shown || {
        echo "test_demo_table: does not say: $words" >&2
        cat shown said >&2
        exit 1
    }
done
right=$(sed -n 's/^  \([0-9]*\)\.[0-9] % of 600 rows are right$/\1/p' shown)
[ "$right" -ge 90 ]

status=0
"$demo" more >shown 2>said || status=$?
[ "$status" = 2 ] && grep -q usage said
status=0
DEMO_BUILD=$work/nothing "$demo" >shown 2>said || status=$?
[ "$status" = 1 ] && grep -q 'make demo-table' said
