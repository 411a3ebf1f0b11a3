/* Chooses the table of kernels: the best for this CPU, or the one in ETUDE_ISA, for tests and
 * comparisons. Tables are compiled with different flags; using one on a CPU without its
 * instructions would be an illegal instruction, so the CPU is checked before a pointer is returned.
 *
 * Also the values that all tables must agree on: threshold and scale of dropout, the size of
 * attention's scratch. */
#include "engine/kernel/kernels.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "engine/kernel/arguments.h"
#include "engine/kernel/tables.h"

#ifdef __x86_64__
/* bmi2 is among the flags that the table is compiled with. */
static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi2");
}

/* The features that simd/targets/avx512.h needs. */
static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
#endif

/* NULL: an unknown name, or a table that this CPU cannot run. */
const et_kernels *et_kernels_named(const char *name)
{
    if (strcmp(name, "plain") == 0)
        return &et_kernels_plain;
#ifdef __x86_64__
    if (strcmp(name, "avx2") == 0 && has_avx2())
        return &et_kernels_avx2;
    if (strcmp(name, "avx512") == 0 && has_avx512())
        return &et_kernels_avx512;
    if (strcmp(name, "avx512vnni") == 0 && has_avx512() && __builtin_cpu_supports("avx512vnni"))
        return &et_kernels_avx512vnni;
    if (strcmp(name, "avx512bf16") == 0 && has_avx512() && __builtin_cpu_supports("avx512vnni") &&
        __builtin_cpu_supports("avx512bf16"))
        return &et_kernels_avx512bf16;
#endif
    return NULL;
}

/* Best first; ends in NULL. Plain is last: it is always there. */
const char *const et_kernels_names[] = {
    "avx512bf16", "avx512vnni", "avx512", "avx2", "plain", NULL,
};

/* An empty variable counts as unset, because scripts may leave it empty. */
const char *et_kernels_wanted(void)
{
    const char *name = getenv("ETUDE_ISA");
    return name && *name ? name : NULL;
}

/* A name that ETUDE_ISA gives and the CPU has not is passed over; the command warns of it. */
const et_kernels *et_kernels_best(void)
{
    const char *wanted = et_kernels_wanted();
    const et_kernels *best = wanted ? et_kernels_named(wanted) : NULL;
    for (size_t i = 0; !best; i++) /* "plain" is always there */
        best = et_kernels_named(et_kernels_names[i]);
    return best;
}

/* Enough for the longest segment of keys: what room_of (attention.inc.c) cuts. */
size_t et_attention_scratch(int longest_key, int head_dim)
{
    et_assert(longest_key >= 0 && head_dim > 0);
    size_t keys = et_attention_padded((size_t)longest_key);
    size_t dim = et_attention_padded((size_t)head_dim);
    /* k, its transpose, v's transpose, dk, dv; q, dout, dq of a pass; weights and their
     * gradient of a pass; its dropout bits; one line of slack for alignment. */
    return 5 * keys * dim + ET_ATTENTION_ROWS * (3 * dim + 2 * keys) + keys + 2 + ET_ATTENTION_PAD;
}
