#include "engine/kernel/harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"

/* There are more slots than positions, a prime number: no row sees a key twice, so the largest
 * score may be in any block of positions. */
enum { SLOTS = 211, LONGEST = 150 };

typedef struct setting {
    int rows, heads, head_dim;
    bool by_slot;
    et_dtype dtype;
    int only; /* run only this row, with -1 all rows */
} setting;

/* out [rows, heads * head_dim]; keys and values are columns of one cache, so strides differ
 * from the width. */
static void run_cached(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    const int width = s->heads * s->head_dim, first = s->only < 0 ? 0 : s->only;
    const int rows = s->only < 0 ? s->rows : 1;
    int32_t *slot = make((size_t)(s->rows * LONGEST), sizeof *slot);
    int32_t *length = make((size_t)s->rows, sizeof *length);
    int32_t *begin = make((size_t)s->rows, sizeof *begin);
    const size_t size = et_dtype_size(s->dtype);
    for (int r = 0; r < s->rows; r++) {
        begin[r] = r * 7 % 20;
        length[r] = r * 37 % (LONGEST + 1);
        for (int p = 0; p < LONGEST; p++)
            slot[r * LONGEST + p] = (p * 13 + r * 5) % SLOTS;
    }
    char *q = make_act((size_t)(s->rows * width), 1, 1, s->dtype);
    char *cache = make_act((size_t)(SLOTS * 2 * width), 1, 2, s->dtype);
    void *out = make((size_t)(rows * width), size);
    const et_cached_attention_shape shape = {
        .rows = rows,
        .length = length + first,
        .slot = s->by_slot ? slot + first * LONGEST : NULL,
        .slot_stride = LONGEST,
        .begin = s->by_slot ? NULL : begin + first,
        .heads = s->heads,
        .head_dim = s->head_dim,
        .query_stride = width,
        .key_stride = 2 * width,
        .value_stride = 2 * width,
        .out_stride = width,
        .scale = 1.0f / sqrtf((float)s->head_dim),
        .dtype = s->dtype,
    };
    table->cached_attention(out, q + (size_t)(first * width) * size, cache,
                            cache + (size_t)width * size, &shape);
    widen(result, out, (size_t)(rows * width), s->dtype);
    free(slot), free(length), free(begin), free(q), free(cache), free(out);
}

static void test_cached_attention__tables(void **state)
{
    (void)state;
    static const struct {
        int rows, heads, head_dim;
    } sizes[] = { { 1, 1, 1 },  { 9, 4, 32 }, { 160, 4, 32 },
                  { 40, 3, 7 }, { 5, 8, 64 }, { 3, 2, 33 } };
    char name[64];
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (int way = 0; way < 4; way++) {
            setting s = { sizes[i].rows,
                          sizes[i].heads,
                          sizes[i].head_dim,
                          way & 1,
                          way & 2 ? ET_BF16 : ET_F32,
                          -1 };
            snprintf(name, sizeof name, "cached %d x %d x %d, way %d", s.rows, s.heads, s.head_dim,
                     way);
            check_tables(name, run_cached, &s, (size_t)(s.rows * s.heads * s.head_dim), 1e-5,
                         unit_of(s.dtype));
        }
}

/* A row has the same bits alone and among others. */
static void test_cached_attention__independent_rows(void **state)
{
    (void)state;
    for (size_t t = 0; t < COUNT(table_names); t++) {
        const et_kernels *table = et_kernels_named(table_names[t]);
        setting s = { 20, 4, 32, true, ET_F32, -1 };
        float all[20 * 128], one[128];
        if (!table)
            continue;
        run_cached(table, &s, all);
        for (s.only = 0; s.only < 20; s.only++) {
            run_cached(table, &s, one);
            assert_memory_equal(one, all + s.only * 128, sizeof one);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cached_attention__tables),
        cmocka_unit_test(test_cached_attention__independent_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
