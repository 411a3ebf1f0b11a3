#!/bin/sh
# test_foreign.sh ETUDE: no escape sequence in names or values of files, columns, classes or
# settings reaches a terminal or the log of a run. In a pipe data are unchanged.
set -eu
etude=$1
work=$(mktemp -d "$PWD/foreign.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
export OMP_NUM_THREADS=1 NO_COLOR=1 TERM=xterm LC_ALL=C.UTF-8

fail() {
    echo "test_foreign: $*" >&2
    exit 1
}

esc=$(printf '\033[31m') c1=$(printf '\302\2331m') rtl=$(printf '\342\200\256')
LC_ALL=C
raw() {
    grep -a "$(printf '\033\\[31m')\|$(printf '\302\233')\|$rtl" "$@"
}
# The first line's column names may not have control characters of ASCII; all others may.
{
    echo "a$c1,b$rtl,y"
    i=0
    while [ $i -lt 60 ]; do
        echo "$((i % 7)).5,u$c1,yes$esc"
        echo "$((i % 5)).5,v$esc$rtl,no$c1$rtl"
        i=$((i + 1))
    done
} >"t$esc.csv"
table=t$esc.csv run=runs$rtl/a$esc$c1

# plain CODE WORD...: what the command says has escapes that can be read, and no others.
plain() {
    code=0
    want=$1
    shift
    "$etude" "$@" >out 2>err </dev/null || code=$?
    [ "$code" = "$want" ] || fail "$*: $code: $(cat err)"
    raw out err && fail "$*: an escape sequence"
    grep -q '\\u00[19]b\|\\u202e' out err || fail "$*: nothing of others: $(cat out err)"
}
plain 0 data analyze "$table" --target y --output .
plain 0 train "$run" --experiment tabular/mlp_small --data "$table" --target y --steps 20
raw "$run/train.log" && fail "the log of a run"
grep -q 'no\\u009b1m\\u202e' "$run/train.log" || fail "classes are not in the log"
# A class of several lines stays on the line that names it.
printf 'a,y\n1,"in\ndone  1"\n2,out\n3,"in\ndone  1"\n4,out\n' >lines.csv
"$etude" train lines --experiment tabular/mlp_small --data lines.csv --target y --steps 2 >out 2>&1
grep -q '^target       y: 2 classes: .*in\\ndone  1' out || fail "a class of several lines: $(cat out)"
plain 0 inspect "$run" --tensors
plain 0 runs "runs$rtl"
plain 0 runs "runs$rtl" --csv
plain 0 evaluate "$run"
plain 0 export "$run" --output "x$esc"
plain 0 train "runs$rtl/b" --experiment tabular/mlp_small --data "$table" --target y --dry-run
plain 0 train "runs$rtl/c" --experiment tabular/mlp_small --data "$table" --target y --steps 5 \
    --profile "p$esc.json"
plain 0 compare "$run" "runs$rtl/c"
plain 0 plot "$run" "runs$rtl/c"
plain 2 "no$esc"
plain 2 train "$run" "--no$c1"
plain 2 train "runs$rtl/d" --experiment tabular/mlp_small --data "$table" --target y --set "no$rtl=1"
plain 3 predict "$run" --input "no$esc"
plain 3 inspect "none$c1"
printf 'experiment: tabular/mlp_small\n"no\\u009b\\u202e": 1\n' >c.yaml
plain 3 train "runs$rtl/d" --config c.yaml --data "$table" --target y

# Results for programs are exact, and plain on a terminal, where they are JSON of the same values.
"$etude" predict "$run" --input "$table" >exact
grep -q "$c1" exact || fail "a label was changed in a pipe"
if script -qec true /dev/null </dev/null >/dev/null 2>&1; then
    script -qec "'$etude' predict '$run' --input '$table'" /dev/null >shown </dev/null
    raw shown && fail "labels on a terminal"
    grep -q '"label": "no\\u009b1m\\u202e"' shown || fail "no label: $(head -3 shown)"
    script -qec "'$etude' runs 'runs$rtl'; '$etude' inspect '$run' --json; '$etude' train 'runs$rtl/e' \
        --experiment tabular/mlp_small --data '$table' --target y --steps 20" /dev/null >shown </dev/null
    raw shown && fail "a terminal"
    grep -q 'done  ' shown || fail "no run: $(cat shown)"
else
    echo "SKIPPED: a terminal: script(1) makes none"
fi
echo "names of others are plain"
