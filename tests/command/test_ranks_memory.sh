#!/bin/sh
# test_ranks_memory.sh ETUDE PRELOADED: one malloc of one rank fails, every so many calls in turn.
# Either all ranks end with code 4 and a message, or they end as with memory. No rank waits for one
# that has failed. PRELOADED is malloc_fails_once as a shared library.
set -eu
etude=$1
preloaded=$2
directory=$(mktemp -d "$PWD/ranksmemory.XXXXXX")
trap 'rm -rf "$directory"' EXIT
cd "$directory"
OMP_NUM_THREADS=1 LC_ALL=C
export OMP_NUM_THREADS LC_ALL preloaded

awk 'BEGIN { print "a,b,c,y"; for (i = 0; i < 120; i++)
    printf "%d,%.2f,%s,%s\n", i % 7, i / 9, i % 3 ? "left" : "right", i % 2 ? "yes" : "no" }' >t.csv
table='--data t.csv --target y --set runtime.data_shards=2'
# shellcheck disable=SC2086 # words
"$etude" train run --experiment tabular/mlp_small $table --steps 6 >messages 2>&1 || {
    cat messages
    exit 1
}

# short COMMAND...: without malloc $n in rank $who.
cat >short <<'END'
#!/bin/sh
if [ "$ETUDE_RANK" = "$who" ]; then
    MALLOC_FAILS=$n MALLOC_REPORT=report LD_PRELOAD=$preloaded
    export MALLOC_FAILS MALLOC_REPORT LD_PRELOAD
fi
exec "$@"
END
chmod +x short

fails() {
    echo "test_ranks_memory: etude $what: rank $who without malloc $n: exit code $ended: $1"
    cat err
    exit 1
}

# each STEP WORD...: what ends by SIGSEGV is oneDNN's.
each() {
    step=$1 refused=0
    shift
    what=$*
    for who in 0/2 1/2; do
        export who
        n=40
        while :; do
            export n
            rm -rf new report
            ended=0
            timeout 60 "$etude" launch -n 2 -- ./short "$etude" "$@" >out 2>err || ended=$?
            case $ended in
            0) [ -f report ] || break ;;
            4) refused=$((refused + 1))
                grep -q '^etude: .*memory' err || fails 'it is not said' ;;
            139) ;;
            124) fails 'a rank waits for ever' ;;
            *) fails 'another code than 4' ;;
            esac
            n=$((n + step))
        done
    done
    echo "etude $what: $refused refused of the mallocs up to $n"
    [ $refused -gt 6 ]
}

# shellcheck disable=SC2086 # words
each 331 train new $table --experiment tabular/mlp_small --steps 6 \
    --set trainer.checkpoint_interval=2,trainer.validation_interval=2
# shellcheck disable=SC2086 # words
each 211 train new $table --experiment tabular/mlp_small --steps 6 --dry-run
# shellcheck disable=SC2086 # words
each 397 train new $table --experiment tabular/mlp
each 443 evaluate run
