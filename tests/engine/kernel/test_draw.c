#include "engine/kernel/harness.h"

#include <math.h>
#include <stdlib.h>

typedef struct setting {
    bool normal;
    int64_t first, count;
    uint64_t seed, step;
} setting;

static void run_draw(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    et_random random = { s->seed, s->step, et_random_site("encoder/weight") };
    if (s->normal)
        table->draw_normal(result, s->first, s->count, 0.3f, random);
    else
        table->draw_uniform(result, s->first, s->count, 0.3f, random);
}

/* The same bits wherever a run of elements begins and ends; the last row has counters and keys of
 * more than 32 bits, and elements far enough out for both of the polynomials. */
static void test_draw__equal_bits(void **state)
{
    (void)state;
    static const setting rows[] = {
        { false, 0, 1, 1, 0 },      { true, 0, 1, 1, 0 },     { false, 0, 256, 7, 0 },
        { true, 0, 256, 7, 0 },     { false, 3, 5, 7, 0 },    { true, 3, 5, 7, 0 },
        { false, 255, 258, 7, 0 },  { true, 255, 258, 7, 0 }, { false, 1000, 1777, 7, 2 },
        { true, 1000, 1777, 7, 2 },
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        check_tables(rows[i].normal ? "draw_normal" : "draw_uniform", run_draw, &rows[i],
                     (size_t)rows[i].count, 0, 0);
    for (int normal = 0; normal < 2; normal++) {
        const setting far = { normal, (INT64_C(5) << 34) - 77, 70001, UINT64_C(9) << 33 | 1,
                              UINT64_C(3) << 40 };
        check_tables("draw far", run_draw, &far, (size_t)far.count, 0, 0);
    }
}

/* Nothing beyond count is written. */
static void test_draw__stays_within(void **state)
{
    (void)state;
    for (size_t t = 0; t < COUNT(table_names); t++) {
        const et_kernels *table = et_kernels_named(table_names[t]);
        if (!table)
            continue;
        for (int64_t count = 0; count < 40; count++) {
            float *exact = make((size_t)count + 1, sizeof *exact);
            exact[count] = 5;
            table->draw_normal(exact, 2, count, 1, (et_random){ 1, 0, 1 });
            table->draw_uniform(exact, 2, count, 1, (et_random){ 1, 0, 1 });
            assert_true(exact[count] == 5);
            free(exact);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draw__equal_bits),
        cmocka_unit_test(test_draw__stays_within),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
