#!/bin/sh
# test_guard.sh: guard on made counts and a made program: changes that it accepts, changes that it
# reports, and what it skips. PATH has only the test's own folder, so valgrind is not needed.
set -eu
guard=$(cd "$(dirname "$0")/../../tools" && pwd)/guard
work=$(mktemp -d "$PWD/guard.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir bin
for tool in awk cat dirname grep head mktemp mv rm sed sh sort; do
    ln -s "$(command -v $tool)" bin/$tool
done

# expect STATUS WORDS: runs guard; it must say what is in $said.
expect() {
    wanted=$1
    shift
    status=0
    PATH=$work/bin "$guard" "$@" >out 2>&1 || status=$?
    if [ $status != "$wanted" ] || { [ "$said" ] && ! grep -qF -- "$said" out; }; then
        echo "guard $*: status $status, wanted $wanted and '$said'; it said:" >&2
        cat out >&2
        exit 1
    fi
}

cat >committed <<'X'
# compiled by gcc 12 for x86-64
a.allocations 0
a.instructions 1000
a.plans 2
X
# try NAME VALUE: the committed counts with one of them changed.
try() { sed "s/^$1 .*/$1 $2/" committed >now; }

said=
try a.instructions 1050
expect 0 compare committed now
try a.instructions 950
expect 0 compare committed now
said='a.instructions: 1000 is now 1051 (+5.1 %, 5 % allowed)'
try a.instructions 1051
expect 1 compare committed now
said='a.instructions: 1000 is now 949 (-5.1 %, 5 % allowed)'
try a.instructions 949
expect 1 compare committed now
said='a.allocations: 0 is now 1 (from nothing, 5 % allowed)'
try a.allocations 1
expect 1 compare committed now
said='a.plans: not counted'
grep -v plans committed >now
expect 1 compare committed now
said='a.plans: 2, and nothing is committed'
expect 1 compare now committed

# A program as guard.c is, without instructions.
cat >program <<'X'
#!/bin/sh
[ $# = 1 ] || { echo a; exit 0; }
echo "# compiled by gcc 12 for x86-64"
echo "$1.allocations ${ALLOCATIONS:-0}"
echo "$1.plans 2"
exit ${LEAVE:-0}
X
chmod +x program
GUARD_COUNTS=$work/committed
export GUARD_COUNTS
said='SKIPPED: a: instructions: no valgrind'
expect 77 check ./program a
said='a.allocations: 0 is now 3'
ALLOCATIONS=3
export ALLOCATIONS
expect 1 check ./program a
said='make guard-update'
expect 1 check ./program a
ALLOCATIONS=0
said='SKIPPED: a: compiled by'
LEAVE=77
export LEAVE
expect 77 check ./program a
LEAVE=1
said=
expect 1 check ./program a
unset LEAVE
expect 0 complete ./program
echo "b.plans 1" >>committed
said='not the same: a and a b'
expect 1 complete ./program
said='no valgrind'
expect 1 update ./program
echo "guard sees what changed"
