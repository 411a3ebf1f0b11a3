# shellcheck shell=sh
# Sourced by tests of several processes, which are called with ETUDE BUILD [MPI...]. Makes a table
# t.csv in the test's own folder, sets one thread for each process, and leaves the MPIs as
# arguments.
. "$(dirname "$0")/command.sh"
build=$2
shift 2
export OMP_NUM_THREADS=1

make_table

# ranks PID: the processes that a launch has started and that are there.
ranks() {
    cat "/proc/$1/task/$1/children" 2>/dev/null || true
}
# finds MPI: how it is started in `start` and `more`. Where it is not there, that is said.
finds() {
    start=mpirun.$1 more=
    [ "$1" = mpich ] || more='--allow-run-as-root --oversubscribe'
    command -v "$start" >/dev/null && [ -e "$build/etude_mpi_$1.so" ] && return 0
    echo "SKIPPED: $1: no $start, or built without it"
    return 1
}
