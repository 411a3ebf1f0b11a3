#include "engine/kernel/harness.h"

#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"

enum { VOCABULARY = 37, POSITIONS = 11 };

typedef struct setting {
    int64_t rows, width;
    et_dtype dtype;
    bool positions;
} setting;

/* Ids with many repeats and some empty rows. */
static int32_t *make_ids(int64_t rows)
{
    int32_t *ids = make((size_t)rows, sizeof *ids);
    const et_random random = { .seed = 1, .site = 2 };
    for (int64_t t = 0; t < rows; t++)
        ids[t] = (int32_t)et_random_below(random, (uint64_t)t, VOCABULARY + 3) - 3;
    return ids;
}

static void run_embedding(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    const size_t count = (size_t)(s->rows * s->width);
    int32_t *ids = make_ids(s->rows), *position = make((size_t)s->rows, sizeof *position);
    float *weights = make_floats((size_t)(VOCABULARY * s->width), 1, 1);
    float *positions = make_floats((size_t)(POSITIONS * s->width), 1, 2);
    void *y = make(count, et_dtype_size(s->dtype));
    for (int64_t t = 0; t < s->rows; t++)
        position[t] = (int32_t)(t % POSITIONS);
    table->embedding(y, ids, position, weights, s->positions ? positions : NULL, 11.3f, s->rows,
                     s->width, s->dtype);
    widen(result, y, count, s->dtype);
    free(ids);
    free(position);
    free(weights);
    free(positions);
    free(y);
}

/* The result is added to the old values. */
static void run_grad(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    int32_t *ids = make_ids(s->rows);
    void *dy = make_act((size_t)(s->rows * s->width), 1, 3, s->dtype);
    float *before = make_floats((size_t)(VOCABULARY * s->width), 1, 4);
    memcpy(result, before, (size_t)(VOCABULARY * s->width) * sizeof *result);
    table->embedding_grad(result, ids, dy, 11.3f, s->rows, s->width, VOCABULARY, s->dtype);
    free(ids);
    free(dy);
    free(before);
}

static void each_size(const char *name, run_fn *run, bool grad)
{
    for (int dtype = ET_F32; dtype <= ET_BF16; dtype++)
        for (size_t r = 0; r < COUNT(some_rows); r++)
            for (size_t w = 0; w < COUNT(some_widths); w++)
                for (int positions = 0; positions < 2; positions++) {
                    setting s = { some_rows[r], some_widths[w], (et_dtype)dtype, positions };
                    int64_t size = (grad ? VOCABULARY : s.rows) * s.width;
                    check_tables(name, run, &s, (size_t)size, grad ? 1e-3 : 1e-5, unit_of(s.dtype));
                }
}

static void test_embedding__lookup(void **state)
{
    (void)state;
    each_size("embedding", run_embedding, false);
}

static void test_embedding__grad(void **state)
{
    (void)state;
    each_size("embedding_grad", run_grad, true);
}

/* The derivative is linear: a row of ones counts how often its id was used, times scale. */
static void test_embedding__grad_counts(void **state)
{
    (void)state;
    static const int32_t ids[] = { 2, -1, 0, 2, 2, -7, 1 };
    static const float expected[] = { 0.5f, 0.5f, 1.5f, 0.0f };
    float dy[7], dtable[4];
    for (int i = 0; i < 7; i++)
        dy[i] = 1.0f;
    for (size_t t = 0; t <= COUNT(table_names); t++) {
        const et_kernels *table =
            t < COUNT(table_names) ? et_kernels_named(table_names[t]) : &et_kernels_reference;
        if (!table)
            continue;
        memset(dtable, 0, sizeof dtable);
        table->embedding_grad(dtable, ids, dy, 0.5f, 7, 1, 4, ET_F32);
        assert_memory_equal(dtable, expected, sizeof expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embedding__lookup),
        cmocka_unit_test(test_embedding__grad),
        cmocka_unit_test(test_embedding__grad_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
