#!/bin/sh
# test_planned.sh BENCH_STEP: a step of translation/base, planned as the trainer plans it, needs at
# most 1,800 MB, on this processor and on those that it can emulate. Time is not measured.
set -eu
step=$1
most=1800 # MB
work=$(mktemp -d "$PWD/planned.XXXXXX")
trap 'rm -rf "$work"' EXIT

# A name and its value make a processor; the first is this one.
for processor in THIS=1 ETUDE_ISA=avx512vnni ETUDE_ISA=avx512 ETUDE_ISA=avx2 ETUDE_ISA=plain \
    ETUDE_BF16=widen ONEDNN_MAX_CPU_ISA=AVX512_CORE ONEDNN_MAX_CPU_ISA=AVX2; do
    for type in float32 bfloat16; do
        env "$processor" OMP_NUM_THREADS=2 "$step" base $type plan=yes >"$work/plan"
        planned=$(sed -n 's/\..* MB planned$//p' "$work/plan")
        [ "$planned" ] || { echo "$processor $type: no figure"; exit 1; }
        echo "$processor $type: $planned MB planned"
        [ "$planned" -le $most ] || { echo "more than $most MB"; exit 1; }
    done
done
