#!/bin/sh
# test_slurm.sh ETUDE SCRIPT: the example for Slurm, with stand-ins for scontrol and for srun, which
# ends a first job as Slurm does at its time limit. The job is queued again, resumes, and ends with
# the bytes of an unbroken run.
set -eu
etude=$1 script=$2
work=$(mktemp -d "$PWD/slurm.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
export ETUDE="$etude" EXPERIMENT=tabular/mlp SHARDS=4 DATA=t.csv RUN=cut

fail() {
    echo "test_slurm: $*" >&2
    cat out >&2
    exit 1
}
awk 'BEGIN { print "size,colour,kind"; for (i = 0; i < 400; i++)
    printf "%d,%s,%s\n", i % 17 + i % 3 * 10, i % 5 ? "red" : "blue", i % 3 ? "round" : "flat" }' >t.csv
mkdir bin
cat >bin/srun <<'END'
#!/bin/sh
# Ranks of one machine; with LIMIT they get SIGTERM once the run has a checkpoint.
[ "$1" = --mpi=pmix ] || exit 9
shift
"$ETUDE" launch -n "$SLURM_NTASKS" -- "$@" &
ranks=$!
while [ -n "${LIMIT:-}" ] && [ ! -e "$RUN/checkpoints/ckpt-50.safetensors" ]; do
    kill -0 $ranks || exit 8
    sleep 0.02
done
[ -z "${LIMIT:-}" ] || kill -TERM $ranks
wait $ranks
END
cat >bin/scontrol <<'END'
#!/bin/sh
echo "$*" >>queue
END
chmod +x bin/srun bin/scontrol
export PATH="$work/bin:$PATH" SLURM_JOB_ID=17 SLURM_NTASKS=2 SLURM_CPUS_PER_TASK=1
options='--target kind --steps 4000 --set trainer.checkpoint_interval=50,trainer.max_to_keep=100 --set trainer.validation_interval=1000'

# Once more where it was at its end before it was stopped.
for try in 1 2 3 4 5 6 7 8 9 10; do
    rm -rf cut queue
    code=0
    # shellcheck disable=SC2086 # words
    LIMIT=yes sh "$script" $options >out 2>&1 || code=$?
    [ $code = 0 ] || [ $code = 8 ] || break
done
[ $code = 75 ] || fail "at the time limit: exit $code, wanted 75"
[ "$(cat queue)" = 'requeue 17' ] || fail "the job is not queued again"
# shellcheck disable=SC2086 # words
sh "$script" $options >out 2>&1 || fail "the second job: exit $?"
[ "$(cat queue)" = 'requeue 17' ] || fail "a job that is done is queued again"
# shellcheck disable=SC2086 # words
OMP_NUM_THREADS=1 "$etude" train --experiment tabular/mlp whole --data t.csv \
    --set runtime.data_shards=4 $options >out 2>&1 || fail "an unbroken run"
cmp whole/checkpoints/ckpt-4000.safetensors cut/checkpoints/ckpt-4000.safetensors >>out 2>&1 ||
    fail "a run that was cut ends elsewhere"
