#!/bin/sh
# test_second_day.sh ETUDE: types what stands in commands.txt, as the first day's test does.
here=$(cd "$(dirname "$0")" && pwd)
exec sh "$here/../first_day/test_first_day.sh" "$1" "$here/commands.txt"
