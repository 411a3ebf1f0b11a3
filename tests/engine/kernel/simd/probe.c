/* The functions of simd/math.h over arrays, compiled once per instruction set with PROBE naming
 * the table, so that test_math can measure their errors. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/kernel/simd/math.h"
#include "engine/kernel/simd/probe.h"

static vf phi(vf x)
{
    vf exponential;
    return v_phi(x, &exponential);
}

#define PROBE_FUNCTION(name, function)                                                             \
    static void name(float *y, const float *x, int64_t count)                                      \
    {                                                                                              \
        for (int64_t i = 0; i < count; i += V_LANES)                                               \
            v_write_n(y, i, function(v_read_n(x, i, count - i, ET_F32)), count - i, ET_F32);       \
    }

PROBE_FUNCTION(probe_exp, v_exp)
PROBE_FUNCTION(probe_exp2, v_exp2)
PROBE_FUNCTION(probe_exp2_fine, v_exp2_fine)
PROBE_FUNCTION(probe_log, v_log)
PROBE_FUNCTION(probe_tanh, v_tanh)
PROBE_FUNCTION(probe_sigmoid, v_sigmoid)
PROBE_FUNCTION(probe_phi, phi)
PROBE_FUNCTION(probe_sin, v_sin)
PROBE_FUNCTION(probe_cos, v_cos)

/* Square blocks of V_LANES rows, transposed in place. */
static void probe_transpose(float *x)
{
    vf square[V_LANES];
    for (int i = 0; i < V_LANES; i++)
        square[i] = v_load(x + i * V_LANES);
    v_transpose(square);
    for (int i = 0; i < V_LANES; i++)
        v_store(x + i * V_LANES, square[i]);
}

static void probe_sums(float *sum, const float *x)
{
    vf square[V_LANES];
    for (int i = 0; i < V_LANES; i++)
        square[i] = v_load(x + i * V_LANES);
    v_store(sum, v_sums(square));
}

static void probe_largests(float *largest, const float *x)
{
    vf square[V_LANES];
    for (int i = 0; i < V_LANES; i++)
        square[i] = v_load(x + i * V_LANES);
    v_store(largest, v_largests(square));
}

const simd_probe PROBE = {
    .lanes = V_LANES,
    .exp = probe_exp,
    .exp2 = probe_exp2,
    .exp2_fine = probe_exp2_fine,
    .log = probe_log,
    .tanh = probe_tanh,
    .sigmoid = probe_sigmoid,
    .phi = probe_phi,
    .sin = probe_sin,
    .cos = probe_cos,
    .transpose = probe_transpose,
    .sums = probe_sums,
    .largests = probe_largests,
};
