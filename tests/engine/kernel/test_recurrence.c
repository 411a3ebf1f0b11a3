/* The recurrence of the SSRU in every table: against the reference, with 1, 2 and 3 threads, and
 * row by row. */
#include "engine/kernel/harness.h"

#include <stdlib.h>
#include <string.h>

typedef struct setting {
    int64_t rows, width;
    et_dtype dtype;
    bool one_alone; /* only one of the two derivatives is wanted */
} setting;

enum { SEGMENTS = 5 };

/* Segments of different lengths, one of them empty; the last rows are in none. */
static void set_offsets(int32_t offsets[SEGMENTS + 1], int64_t rows)
{
    const int64_t used = rows > 3 ? rows - 2 : rows;
    const int64_t ends[SEGMENTS + 1] = { 0, used / 7, used / 7, used / 2, used / 2 + 1, used };
    for (int i = 0; i <= SEGMENTS; i++)
        offsets[i] = (int32_t)(ends[i] < used ? ends[i] : used);
}

/* Result: c, dx, dgate. Rows outside the segments keep their zeros. */
static void run_segments(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    const size_t count = (size_t)(s->rows * s->width), size = et_dtype_size(s->dtype);
    int32_t offsets[SEGMENTS + 1];
    void *x = make_act(count, 1, 1, s->dtype), *gate = make_act(count, 2, 2, s->dtype);
    void *dc = make_act(count, 1, 3, s->dtype), *c = make(count, size);
    void *dx = make(count, size), *dgate = make(count, size);
    memset(c, 0, count * size);
    memset(dx, 0, count * size);
    memset(dgate, 0, count * size);
    set_offsets(offsets, s->rows);
    const et_recurrence r = { .x = x,
                              .gate = gate,
                              .segments = SEGMENTS,
                              .width = s->width,
                              .offsets = offsets,
                              .dtype = s->dtype };
    table->recurrence(c, &r);
    table->recurrence_grad(s->one_alone ? NULL : dx, dgate, dc, c, &r);
    widen(result, c, count, s->dtype);
    widen(result + count, dx, count, s->dtype);
    widen(result + 2 * count, dgate, count, s->dtype);
    free(x);
    free(gate);
    free(dc);
    free(c);
    free(dx);
    free(dgate);
}

static void test_recurrence__tables(void **state)
{
    (void)state;
    for (int dtype = ET_F32; dtype <= ET_BF16; dtype++)
        for (size_t r = 0; r < COUNT(some_rows); r++)
            for (size_t w = 0; w < COUNT(some_widths); w++)
                for (int alone = 0; alone < 2; alone++) {
                    setting s = { some_rows[r], some_widths[w], (et_dtype)dtype, alone != 0 };
                    check_tables("recurrence", run_segments, &s, 3 * (size_t)(s.rows * s.width),
                                 dtype ? 2e-2 : 2e-5, unit_of(s.dtype));
                }
}

/* Row by row with a state, as in decoding: the bits of the whole segment, in each table. The slots
 * of two hypotheses take turns, and each goes on from the other's. */
static void test_recurrence__row_by_row(void **state)
{
    (void)state;
    enum { ROWS = 9, WIDTH = 77 };
    const int32_t offsets[] = { 0, ROWS };
    for (int dtype = ET_F32; dtype <= ET_BF16; dtype++)
        for (size_t t = 0; t < COUNT(table_names); t++) {
            const et_kernels *table = et_kernels_named(table_names[t]);
            const size_t size = et_dtype_size((et_dtype)dtype);
            if (!table)
                continue;
            char *x = make_act(ROWS * WIDTH, 1, 1, (et_dtype)dtype);
            char *gate = make_act(ROWS * WIDTH, 2, 2, (et_dtype)dtype);
            char *whole = make(ROWS * WIDTH, size), *row = make(WIDTH, size);
            float *slots = make_floats((size_t)4 * WIDTH, 9, 3);
            const et_recurrence all = { .x = x,
                                        .gate = gate,
                                        .segments = 1,
                                        .width = WIDTH,
                                        .offsets = offsets,
                                        .dtype = (et_dtype)dtype };
            table->recurrence(whole, &all);
            for (int32_t i = 0; i < ROWS; i++) {
                const int32_t where[] = { i ? (i + 1) % 2 * 3 : -1, i % 2 * 3 };
                const size_t at = (size_t)i * WIDTH * size;
                const et_recurrence one = { .x = x + at,
                                            .gate = gate + at,
                                            .segments = 1,
                                            .width = WIDTH,
                                            .where = where,
                                            .state = slots,
                                            .dtype = (et_dtype)dtype };
                table->recurrence(row, &one);
                assert_memory_equal(row, whole + at, WIDTH * size);
            }
            free(x);
            free(gate);
            free(whole);
            free(row);
            free(slots);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recurrence__tables),
        cmocka_unit_test(test_recurrence__row_by_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
