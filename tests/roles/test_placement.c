/* The placement of parameters on servers: sizes around the limit from which a tensor is cut, more
 * servers than rows, one row, one server. Each element belongs to one server, and the parts
 * together give the whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/tensor/params.h"
#include "roles/cluster.h"

#define LARGE ET_PLACEMENT_LARGE

static et_params *store_of(const et_shape *shapes, int count)
{
    et_params *params;
    et_error error = ET_ERROR_INIT;
    int index;
    assert_int_equal(et_params_new(&params, &error), 0);
    for (int i = 0; i < count; i++) {
        char name[] = "p0";
        name[1] = (char)('0' + i);
        assert_int_equal(et_params_declare(params, name, shapes[i], (et_init){ ET_INIT_ZEROS, 0 },
                                           &index, &error),
                         0);
    }
    assert_int_equal(et_params_materialize(params, false, &error), 0);
    return params;
}

/* The pieces of a parameter: elements of each server, -1 if it has none. */
static void elements_of(const et_placement *p, int param, int64_t *count)
{
    for (int s = 0; s < p->servers; s++) {
        count[s] = -1;
        for (int i = p->first[s]; i < p->first[s + 1]; i++)
            if (p->shards[i].param == param)
                count[s] = p->shards[i].count;
    }
}

/* A store with the parameter after a small one; checks each server's part. */
static void expect(et_shape shape, int servers, bool cuts, const int64_t *expected)
{
    const et_shape shapes[] = { et_shape_1(7), shape,          et_shape_1(8),
                                et_shape_1(9), et_shape_1(10), et_shape_1(11) };
    et_params *params = store_of(shapes, 6);
    et_error error = ET_ERROR_INIT;
    et_placement p;
    int64_t count[8];
    assert_int_equal(et_placement_make(&p, params, servers, cuts, &error), 0);
    elements_of(&p, 1, count);
    for (int s = 0; s < servers; s++)
        assert_int_equal(count[s], expected[s]);
    et_placement_release(&p);
    et_params_free(params);
}

static void test_placement__limit(void **state)
{
    (void)state;
    /* In turn, from the second server on. */
    expect(et_shape_1(LARGE - 1), 2, true, (int64_t[]){ -1, LARGE - 1 });
    expect(et_shape_1(LARGE), 2, true, (int64_t[]){ LARGE / 2, LARGE / 2 });
    expect(et_shape_1(LARGE + 1), 2, true, (int64_t[]){ LARGE / 2, LARGE / 2 + 1 });
    expect(et_shape_2(512, 512), 3, true, (int64_t[]){ 170 * 512, 171 * 512, 171 * 512 });
    expect(et_shape_2(511, 513), 3, true, (int64_t[]){ -1, 511 * 513, -1 });
    /* An optimizer that looks at whole tensors; one server. */
    expect(et_shape_2(512, 512), 3, false, (int64_t[]){ -1, 512 * 512, -1 });
    expect(et_shape_2(512, 512), 1, true, (int64_t[]){ 512 * 512 });
}

static void test_placement__rows(void **state)
{
    (void)state;
    expect(et_shape_2(1, LARGE), 2, true, (int64_t[]){ -1, LARGE });
    expect(et_shape_2(3, LARGE), 4, true, (int64_t[]){ -1, 3 * LARGE, -1, -1 });
    expect(et_shape_2(3, LARGE), 3, true, (int64_t[]){ LARGE, LARGE, LARGE });
    expect(et_shape_2(3, LARGE), 2, true, (int64_t[]){ LARGE, 2 * LARGE });
    expect(et_shape_2(LARGE, 1), 4, true,
           (int64_t[]){ LARGE / 4, LARGE / 4, LARGE / 4, LARGE / 4 });
}

/* All elements, each once, whatever is cut. */
static void test_placement__whole(void **state)
{
    (void)state;
    const et_shape shapes[] = { et_shape_2(517, 509), et_shape_1(3),     et_shape_2(4, LARGE / 4),
                                et_shape_2(1, LARGE), et_shape_1(LARGE), et_shape_1(1) };
    et_params *params = store_of(shapes, 6);
    et_error error = ET_ERROR_INIT;
    int64_t size = et_params_flat_size(params);
    float *flat = malloc((size_t)size * sizeof *flat), *back = malloc((size_t)size * sizeof *back);
    uint64_t fingerprint[8] = { 0 };
    for (int64_t i = 0; i < size; i++)
        flat[i] = (float)(i % 16777213);
    for (int servers = 1; servers <= 6; servers++) {
        et_placement p;
        int64_t all = 0, elements = 0;
        assert_int_equal(et_placement_make(&p, params, servers, true, &error), 0);
        for (int64_t i = 0; i < size; i++)
            back[i] = -1;
        for (int s = 0; s < servers; s++) {
            float *values = malloc((size_t)p.floats[s] * sizeof *values);
            et_placement_gather(&p, params, s, flat, values);
            et_placement_scatter(&p, params, s, values, back);
            free(values);
            all += p.floats[s];
        }
        for (int i = 0; i < 6; i++) {
            int64_t count = et_shape_count(shapes[i]), at = et_params_offset(params, i);
            assert_memory_equal(back + at, flat + at, (size_t)count * sizeof *flat);
            elements += count;
        }
        assert_int_equal(all, elements);
        /* Tasks that place otherwise do not fit together. */
        fingerprint[servers] = et_placement_fingerprint(&p, params, 1);
        for (int s = 0; s < servers; s++)
            assert_true(fingerprint[servers] != fingerprint[s]);
        et_placement_release(&p);
    }
    free(flat);
    free(back);
    et_params_free(params);
}

static void test_placement__too_few(void **state)
{
    (void)state;
    const et_shape shapes[] = { et_shape_2(2, LARGE), et_shape_1(4) };
    et_params *params = store_of(shapes, 2);
    et_error error = ET_ERROR_INIT;
    et_placement p;
    assert_int_equal(et_placement_make(&p, params, 2, true, &error), 0);
    et_placement_release(&p);
    assert_int_equal(et_placement_make(&p, params, 3, true, &error), ET_ECONFIG);
    assert_non_null(strstr(error.text, "3 parameter servers"));
    et_params_free(params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_placement__limit),
        cmocka_unit_test(test_placement__rows),
        cmocka_unit_test(test_placement__whole),
        cmocka_unit_test(test_placement__too_few),
    };
    return cmocka_run_group_tests_name("placement", tests, NULL, NULL);
}
