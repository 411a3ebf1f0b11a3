#!/bin/sh
# test_second_day.sh ETUDE: runs the commands of commands.txt, like the test of the first day.
here=$(cd "$(dirname "$0")" && pwd)
exec sh "$here/../first_day/test_first_day.sh" "$1" "$here/commands.txt"
