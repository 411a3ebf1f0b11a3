#!/bin/sh
# test_serving.sh ETUDE SERVING: trains a small table; the program answers each row of standard
# input at once, from text and from cells; a bad row gets a message.
set -eu
etude=$1 serving=$2
work=$(mktemp -d "$PWD/serving.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "test_serving: $*" >&2
    cat log >&2
    exit 1
}

awk 'BEGIN { print "x,y,side"; for (i = 0; i < 200; i++) {
    x = i % 20 / 20; y = int(i / 20) / 10; print x "," y "," (x > y ? "below" : "above") } }' >points.csv
"$etude" train run --experiment tabular/mlp --data points.csv --target side --steps 200 >log 2>&1 || fail "train: exit $?"

printf '0.9,0.1\n0.1,0.9\r\nhere,0.5\n\ny=0.1,x=0.9\nz=1\nx=1,y\n0.9,0.1\n' |
    "$serving" run >rows 2>log || fail "rows: exit $?"
cat rows >>log
grep -q '^columns: x (real) y (real) side (discrete)$' log || fail "other columns"
sed -n 's/^labels: //p' log | tr ' ' '\n' | sort | tr '\n' ' ' | grep -qx 'above below ' || fail "other labels"
row() {
    sed -n "$1p" rows
}
[ "$(wc -l <rows)" = 7 ] || fail "not an answer for each row: $(wc -l <rows)"
row 1 | grep -q '^below, scores ' && row 2 | grep -q '^above, scores ' || fail "wrong labels"
row 3 | grep -q 'here' || fail "a bad row has no message"
[ "$(row 4)" = "$(row 1)" ] || fail "another prediction by cells"
row 5 | grep -q 'z' || fail "an unknown column has no message"
row 6 | grep -q 'y: not of the form COLUMN=VALUE' || fail "a cell without a value has no message"
[ "$(row 7)" = "$(row 1)" ] || fail "another answer after bad rows"
[ "$(ls)" = "$(printf 'log\npoints.csv\nrows\nrun')" ] || fail "files are left: $(ls)"

# Each answer comes before the next row.
mkfifo asked answered
"$serving" run <asked >answered 2>log &
service=$!
exec 3>asked 4<answered
for row in 0.9,0.1 0.1,0.9; do
    echo $row >&3
    read -r line <&4 || fail "no answer"
    case $line in *scores*) ;; *) fail "answer: $line" ;; esac
done
exec 3>&- 4<&-
wait $service || fail "the end of the rows: exit $?"

# An export serves as well.
"$etude" export run --output side.safetensors >log 2>&1 || fail "export: exit $?"
[ "$(echo 0.9,0.1 | "$serving" side.safetensors 2>log)" = "$(row 1)" ] ||
    fail "an export answers otherwise"

status=0
"$serving" nothing </dev/null >log 2>&1 || status=$?
[ "$status" = 1 ] && grep -q 'nothing: no such directory' log || fail "no run: exit $status"
echo "serving: $(wc -l <rows) answers"
