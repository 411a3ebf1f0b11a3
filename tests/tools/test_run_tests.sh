#!/bin/sh
# test_run_tests.sh CMAKE: run-tests on a made build: the counts, the skips, the status.
set -eu
cmake=$1
run=$(cd "$(dirname "$0")/../../tools" && pwd)/run-tests
work=$(mktemp -d "$PWD/run_tests.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >CMakeLists.txt <<'X'
cmake_minimum_required(VERSION 3.25)
project(t LANGUAGES NONE)
enable_testing()
add_test(NAME good COMMAND sh -c "echo '[       OK ] test_a__b'; echo '[       OK ] test_a__c'")
add_test(NAME part COMMAND sh -c "echo 'SKIPPED: test_a__d: no data'")
add_test(NAME none COMMAND sh -c "exit 77")
set_tests_properties(none PROPERTIES SKIP_RETURN_CODE 77)
add_test(NAME bad COMMAND sh -c "exit 1")
X
"$cmake" -S . -B b >/dev/null
if "$run" b >said 2>&1; then
    echo "a failing test passes" >&2
    exit 1
fi
wanted="2 passed, 1 failed, 1 skipped (programs; 2 cases in them, 1 skipped)"
[ "$(tail -n 1 said)" = "$wanted" ] || {
    cat said >&2
    exit 1
}
grep -q '^skipped: part: test_a__d: no data$' said
"$run" b -E bad >said 2>&1
[ "$(tail -n 1 said)" = "$(echo "$wanted" | sed 's/1 failed/0 failed/')" ]
if "$run" b -R nothing_is_called_so >said 2>&1; then
    echo "no test at all passes" >&2
    exit 1
fi
echo "run-tests counts right"
