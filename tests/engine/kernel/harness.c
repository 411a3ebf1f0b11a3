#include "engine/kernel/harness.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"

const char *const table_names[5] = { "plain", "avx2", "avx512", "avx512vnni", "avx512bf16" };
const int64_t some_rows[4] = { 1, 3, 129, 1000 };
const int64_t some_widths[6] = { 1, 7, 16, 33, 128, 514 };

void *make(size_t count, size_t size)
{
    void *memory = malloc(count > 0 ? count * size : 1);
    assert_non_null(memory);
    return memory;
}

float *make_floats(size_t count, float scale, uint32_t use)
{
    return make_act(count, scale, use, ET_F32);
}

void *make_act(size_t count, float scale, uint32_t use, et_dtype dtype)
{
    const et_random random = { .seed = 11, .site = use };
    void *to = make(count, et_dtype_size(dtype));
    et_philox_block block = { { 0 } };
    for (size_t i = 0; i < count; i++) {
        if (i % 4 == 0)
            block = et_random_block(random, i / 4);
        /* a word in [-1, 1) times sqrt 3: variance 1 */
        float value = scale * 1.7320508f * (float)(int32_t)block.word[i % 4] / 2147483648.0f;
        if (dtype == ET_BF16)
            ((et_bf16 *)to)[i] = et_bf16_from_float(value);
        else
            ((float *)to)[i] = value;
    }
    return to;
}

void *copy_act(const void *from, size_t count, et_dtype dtype)
{
    void *to = make(count, et_dtype_size(dtype));
    memcpy(to, from, count * et_dtype_size(dtype));
    return to;
}

void widen(float *to, const void *from, size_t count, et_dtype dtype)
{
    for (size_t i = 0; i < count; i++)
        to[i] = dtype == ET_BF16 ? et_bf16_to_float(((const et_bf16 *)from)[i])
                                 : ((const float *)from)[i];
}

static bool close_enough(double fast, double reference, double absolute, double relative)
{
    if (!isfinite(reference) || !isfinite(fast))
        return (isnan(fast) && isnan(reference)) || fast == reference;
    return fabs(fast - reference) <= absolute + relative * fabs(reference);
}

static void check_close(const char *name, const char *table, const float *fast,
                        const float *reference, size_t size, double absolute, double relative)
{
    for (size_t i = 0; i < size; i++)
        if (!close_enough(fast[i], reference[i], absolute, relative))
            fail_msg("%s, %s: element %zu of %zu is %.9g, reference %.9g", name, table, i, size,
                     fast[i], reference[i]);
}

static void check_threads(const char *name, const et_kernels *table, run_fn *run,
                          const void *setting, size_t size, const float *one)
{
    float *more = make(size, sizeof *more);
    for (int threads = 2; threads <= 3; threads++) {
        omp_set_num_threads(threads);
        memset(more, 0x7f, size * sizeof *more);
        run(table, setting, more);
        if (memcmp(one, more, size * sizeof *more) != 0)
            fail_msg("%s, %s: other bits with %d threads", name, table->name, threads);
    }
    free(more);
}

void check_tables(const char *name, run_fn *run, const void *setting, size_t size, double absolute,
                  double relative)
{
    float *reference = make(size, sizeof *reference), *fast = make(size, sizeof *fast);
    omp_set_num_threads(1);
    run(&et_kernels_reference, setting, reference);
    for (size_t i = 0; i < COUNT(table_names); i++) {
        const et_kernels *table = et_kernels_named(table_names[i]);
        if (!table)
            continue;
        omp_set_num_threads(1);
        memset(fast, 0x7f, size * sizeof *fast);
        run(table, setting, fast);
        check_close(name, table->name, fast, reference, size, absolute, relative);
        check_threads(name, table, run, setting, size, fast);
    }
    free(reference);
    free(fast);
}

double unit_of(et_dtype dtype)
{
    return dtype == ET_BF16 ? 1.0 / 128 : 1e-6;
}

size_t zero_mismatches(const float *a, const float *b, size_t count)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        found += (a[i] == 0) != (b[i] == 0);
    return found;
}
