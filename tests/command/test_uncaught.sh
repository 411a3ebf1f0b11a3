#!/bin/sh
# test_uncaught.sh THROWER: if memory ends in a thread of a library, the command ends with exit code
# 4 and a message; other uncaught C++ exceptions end it as usual.
set -eu
thrower=$1

expect() {
    code=0
    said=$("$thrower" "$1" 2>&1) || code=$?
    [ "$code" = "$2" ] || {
        echo "test_uncaught: $1: exit code $code, not $2: $said"
        exit 1
    }
    case $said in
    *"$3"*) ;;
    *)
        echo "test_uncaught: $1: says '$said'"
        exit 1
        ;;
    esac
}

expect nothing 0 ""
expect memory 4 "etude: out of memory (in a thread of a library)"
expect threads 4 "etude: out of memory"
expect other 134 "something else"
