#!/bin/sh
# test_waiting.sh ETUDE: OpenMP's threads soon stop spinning, the user's own setting is kept, and
# the program is loaded once. libgomp prints its settings when it starts.
set -eu
etude=$1
unset GOMP_SPINCOUNT OMP_WAIT_POLICY

counts() {
    env OMP_DISPLAY_ENV=verbose "$@" "$etude" --version 2>&1 |
        sed -n "s/.*GOMP_SPINCOUNT = '\([0-9]*\)'.*/\1/p" | tr '\n' ' '
}

expect() {
    [ "$1" = "$2" ] || {
        echo "test_waiting: $3: spin counts '$1', not '$2'"
        exit 1
    }
}

case $(counts) in
"")
    echo "SKIPPED: waiting: this OpenMP does not show GOMP_SPINCOUNT"
    exit 77
    ;;
"300000 2000 ") echo "libgomp reads the environment itself: the program began anew" ;;
*) expect "$(counts)" "2000 " "nothing set" ;;
esac
expect "$(counts GOMP_SPINCOUNT=77)" "77 " GOMP_SPINCOUNT
expect "$(counts OMP_WAIT_POLICY=passive)" "0 " OMP_WAIT_POLICY
