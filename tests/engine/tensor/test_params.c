/* The parameter store: declarations, places, and sharing. */
#include <etude/params.h>

#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/dtype.h"
#include "base/scarce.h"
#include "engine/tensor/params.h"
#include "formats/files.h"

static const et_init normal = { ET_INIT_NORMAL, 0.5f };

static et_params *make(void)
{
    et_params *params;
    assert_int_equal(et_params_new(&params, NULL), ET_OK);
    return params;
}

static int declare(et_params *params, const char *name, et_shape shape)
{
    int index = -1;
    assert_int_equal(et_params_declare(params, name, shape, normal, &index, NULL), ET_OK);
    return index;
}

/* Places are in the order of names, padded to 64 bytes; the padding is zero. */
static void test_params__flat(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        et_shape shape;
        int64_t offset;
    } cases[] = {
        { "a", { 1, { 1 } }, 0 },
        { "b/weight", { 2, { 3, 7 } }, 16 },
        { "b/bias", { 1, { 16 } }, 48 },
        { "c", { 0, { 0 } }, 64 },
    };
    et_params *params = make();
    for (int i = 0; i < 4; i++)
        assert_int_equal(declare(params, cases[i].name, cases[i].shape), i);
    assert_false(et_params_ready(params));
    assert_int_equal(et_params_materialize(params, true, NULL), ET_OK);
    assert_true(et_params_ready(params));
    assert_int_equal(et_params_count(params), 4);
    assert_int_equal(et_params_elements(params), 1 + 21 + 16 + 1);
    assert_int_equal(et_params_flat_size(params), 80);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(et_params_name(params, i), cases[i].name);
        assert_int_equal(et_params_find(params, cases[i].name), i);
        assert_int_equal(et_params_offset(params, i), cases[i].offset);
        assert_true(et_shape_equal(et_params_shape(params, i), cases[i].shape));
        assert_int_equal(et_params_init(params, i).kind, ET_INIT_NORMAL);
    }
    assert_int_equal(et_params_find(params, "b"), -1);
    assert_int_equal((uintptr_t)et_params_values(params) % 64, 0);
    assert_int_equal((uintptr_t)et_params_gradients(params) % 64, 0);
    for (int i = 0; i < 80; i++) {
        assert_true(et_params_values(params)[i] == 0 && et_params_gradients(params)[i] == 0);
        assert_int_equal(et_params_shadow(params)[i], 0);
    }
    et_params_free(params);
    et_params_free(NULL);
}

/* Graphs share a store: existing parameters may be declared again, before and after it is closed.
 */
static void test_params__shared(void **state)
{
    (void)state;
    et_params *params = make();
    int index;
    assert_int_equal(declare(params, "w", et_shape_2(2, 3)), 0);
    assert_int_equal(declare(params, "w", et_shape_2(2, 3)), 0);
    assert_fails(et_params_declare(params, "w", et_shape_2(3, 2), normal, &index, error), ET_EGRAPH,
                 "parameter w: declared as [2, 3] before, now as [3, 2]");
    assert_ok(et_params_materialize(params, false, error));
    assert_null(et_params_shadow(params));
    assert_int_equal(declare(params, "w", et_shape_2(2, 3)), 0);
    assert_fails(et_params_declare(params, "v", et_shape_1(3), normal, &index, error), ET_EGRAPH,
                 "parameter v: not part of this model");
    assert_int_equal(et_params_count(params), 1);
    et_params_free(params);
}

/* Invalid declarations are refused, by name, and change nothing. */
static void test_params__refuses(void **state)
{
    (void)state;
    static const et_init uniform = { ET_INIT_UNIFORM, 1 };
    const struct {
        const char *name;
        et_shape shape;
        et_init init;
        const char *says;
    } cases[] = {
        { NULL, { 1, { 3 } }, uniform, "a parameter without a name" },
        { "", { 1, { 3 } }, uniform, "a parameter without a name" },
        { "layer\n1/w", { 1, { 3 } }, uniform, "parameter layer\\n1/w: the name has control" },
        { "\xc2\x9b", { 1, { 3 } }, uniform, "parameter \\u009b: the name has control" },
        { "w\xff", { 1, { 3 } }, uniform, "parameter w\\xff: the name is not UTF-8" },
        { "__metadata__",
          { 1, { 3 } },
          uniform,
          "__metadata__: the name is reserved by the file format" },
        { "w", { 2, { 4, -3 } }, uniform, "parameter w: [4, -3] is not a shape" },
        { "w", { 2, { INT64_MAX, 3 } }, uniform, "parameter w: [9223372036854775807, 3] is" },
        { "w", { 5, { 1, 1, 1, 1 } }, uniform, "parameter w: [rank 5] is not a shape" },
        { "w", { -1, { 0 } }, uniform, "parameter w: [rank -1] is not a shape" },
        { "w",
          { 1, { 3 } },
          { (et_init_kind)9, 1 },
          "parameter w: 9 is not a kind of initial values" },
        { "w",
          { 1, { 3 } },
          { ET_INIT_NORMAL, NAN },
          "parameter w: initial values with scale nan" },
        { "w", { 1, { 3 } }, { ET_INIT_UNIFORM, -1 }, "parameter w: initial values with scale -1" },
        { "w",
          { 1, { 3 } },
          et_init_glorot_uniform(0, 0),
          ": initial values with scale inf: give a finite number of at least 0" },
    };
    et_params *params = make();
    int index;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_fails(
            et_params_declare(params, cases[i].name, cases[i].shape, cases[i].init, &index, error),
            ET_EGRAPH, cases[i].says);
    assert_int_equal(et_params_count(params), 0);
    for (int i = 0; i < 300; i++) {
        char name[16];
        et_error error = ET_ERROR_INIT;
        snprintf(name, sizeof name, "p%d", i);
        /* Each is a shape; all of them are not. */
        if (et_params_declare(params, name, et_shape_1((int64_t)1 << 54), uniform, &index, &error))
            break;
    }
    assert_in_range(et_params_count(params), 1, 256);
    assert_true(et_params_flat_size(params) > 0);
    assert_fails(et_params_materialize(params, true, error), ET_ENOMEM, "out of memory");
    et_params_free(params);
}

/* An index that nothing was declared under, as et_params_find gives for an unknown name. */
static void test_params__no_index(void **state)
{
    (void)state;
    static const int wrong[] = { -1, 1, INT_MAX, INT_MIN };
    et_params *params = make();
    declare(params, "w", et_shape_1(3));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_null(et_params_name(params, wrong[i]));
        assert_int_equal(et_params_shape(params, wrong[i]).rank, 0);
        assert_int_equal(et_params_init(params, wrong[i]).kind, ET_INIT_ZEROS);
        assert_int_equal(et_params_offset(params, wrong[i]), -1);
    }
    assert_int_equal(et_params_find(params, NULL), -1);
    assert_ok(et_params_materialize(params, false, error));
    float *values = et_params_values(params);
    assert_fails(et_params_materialize(params, true, error), ET_EGRAPH,
                 "the parameters already have memory");
    assert_ptr_equal(et_params_values(params), values);
    et_params_free(params);
}

/* Other values for a while: products' copies and the shadow follow, gradients do not. */
static void test_params__other_values(void **state)
{
    (void)state;
    et_params *params = make();
    declare(params, "w", et_shape_1(16));
    assert_ok(et_params_materialize(params, true, error));
    float average[16], *own = et_params_values(params), *gradients = et_params_gradients(params);
    for (int i = 0; i < 16; i++) {
        own[i] = (float)i;
        average[i] = -2.0f * (float)i;
    }
    uint64_t version = et_params_version(params);
    et_params_begin_change(params);
    et_params_changed(params, true);
    assert_true(et_params_version(params) > version);
    assert_true(et_bf16_to_float(et_params_shadow(params)[5]) == 5);
    version = et_params_version(params);
    et_params_use(params, average);
    assert_ptr_equal(et_params_values(params), average);
    assert_ptr_equal(et_params_gradients(params), gradients);
    assert_true(et_params_version(params) > version);
    assert_true(et_bf16_to_float(et_params_shadow(params)[5]) == -10);
    version = et_params_version(params);
    et_params_use(params, NULL);
    assert_ptr_equal(et_params_values(params), own);
    assert_true(et_params_version(params) > version);
    assert_true(et_bf16_to_float(et_params_shadow(params)[5]) == 5);
    et_params_free(params);
}

/* Variables come after all trained parameters, wherever they were declared, and have no gradient.
 */
static void test_params__variables(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool trained;
        int64_t size, offset;
        int place;
    } rows[] = { { "mean", false, 3, 64, 2 },
                 { "a", true, 17, 0, 0 },
                 { "scale", false, 1, 80, 3 },
                 { "b", true, 20, 32, 1 } };
    et_params *params = make();
    int index;
    for (int i = 0; i < 4; i++) {
        et_shape shape = et_shape_1(rows[i].size);
        assert_ok(
            rows[i].trained
                ? et_params_declare(params, rows[i].name, shape, normal, &index, error)
                : et_params_declare_variable(params, rows[i].name, shape, normal, &index, error));
        assert_int_equal(index, i);
    }
    assert_ok(et_params_declare_variable(params, "mean", et_shape_1(3), normal, &index, error));
    assert_int_equal(index, 0);
    assert_fails(et_params_declare(params, "mean", et_shape_1(3), normal, &index, error), ET_EGRAPH,
                 "mean: declared as a variable before, now as a parameter");
    assert_fails(et_params_declare_variable(params, "a", et_shape_1(17), normal, &index, error),
                 ET_EGRAPH, "a: declared as a parameter before, now as a variable");
    assert_ok(et_params_materialize(params, true, error));
    for (int i = 0; i < 4; i++) {
        assert_int_equal(et_params_offset(params, i), rows[i].offset);
        assert_int_equal(et_params_is_trained(params, i), rows[i].trained);
        assert_int_equal(et_params_in_order(params, rows[i].place), i);
    }
    assert_int_equal(et_params_trained_size(params), 64);
    assert_int_equal(et_params_flat_size(params), 96);
    assert_int_equal(et_params_elements(params), 41);
    assert_true(et_params_values(params)[95] == 0 && et_params_gradients(params)[63] == 0);
    et_params_free(params);
}

typedef struct counting_reader {
    et_params_reader reader;
    int waits;
} counting_reader;

static void count_wait(et_params_reader *self)
{
    ((counting_reader *)(void *)self)->waits++;
}

/* A change waits once for every reader, however often its beginning is reported. */
static void test_params__readers(void **state)
{
    (void)state;
    counting_reader first = { { count_wait, NULL }, 0 }, second = first;
    et_params *params = make();
    declare(params, "w", et_shape_1(1));
    assert_ok(et_params_materialize(params, false, error));
    et_params_begin_change(params);
    et_params_changed(params, false);
    et_params_add_reader(params, &first.reader);
    et_params_add_reader(params, &second.reader);
    for (int i = 1; i <= 2; i++) {
        et_params_begin_change(params);
        et_params_begin_change(params);
        et_params_changed(params, false);
        assert_int_equal(first.waits, i);
        assert_int_equal(second.waits, i);
    }
    et_params_remove_reader(params, &first.reader);
    et_params_begin_change(params);
    et_params_changed(params, false);
    assert_int_equal(first.waits, 2);
    assert_int_equal(second.waits, 3);
    et_params_remove_reader(params, &second.reader);
    et_params_free(params);
}

/* Many names, and memory that runs out at each call: an error, and nothing lost. */
static bool is_body(const void *payload, const char *name)
{
    return !strncmp(name, payload, strlen(payload));
}

/* Two models in one store: equal names mean different parameters, except for shared ones. */
static void test_params__views(void **state)
{
    (void)state;
    et_params *params, *view[2];
    const et_params_naming naming[2] = { { "a/", is_body, "body" }, { "b/", is_body, "body" } };
    const et_init zeros = { ET_INIT_ZEROS, 0 };
    int head[2], body[2], variable;
    assert_ok(et_params_new(&params, error));
    for (int i = 0; i < 2; i++) {
        assert_ok(et_params_view_new(&view[i], params, &naming[i], error));
        for (int again = 0; again < 2; again++) {
            assert_ok(
                et_params_declare(view[i], "head", et_shape_1(2 + i), zeros, &head[i], error));
            assert_ok(et_params_declare(view[i], "body", et_shape_1(5), zeros, &body[i], error));
        }
    }
    assert_ok(et_params_declare_variable(view[1], "mean", et_shape_1(1), zeros, &variable, error));
    assert_int_equal(body[0], body[1]);
    assert_string_equal(et_params_name(view[1], head[1]), "b/head");
    assert_string_equal(et_params_name(params, body[1]), "body");
    assert_string_equal(et_params_name(params, variable), "b/mean");
    assert_int_equal(et_params_find(view[1], "head"), head[1]);
    assert_int_equal(et_params_find(view[0], "mean"), -1);
    assert_int_equal(et_params_find(params, "head"), -1);
    assert_int_equal(et_params_count(view[0]), 4);
    assert_int_equal(et_params_elements(view[0]), 7);
    assert_int_equal(et_params_elements(view[1]), 9);
    assert_int_equal(et_params_elements(params), 11);
    assert_fails(et_params_declare(view[1], "body", et_shape_1(6), zeros, &body[1], error),
                 ET_EGRAPH, "parameter body: declared as [5] before, now as [6]");
    assert_fails(et_params_declare(view[1], "", et_shape_1(6), zeros, &body[1], error), ET_EGRAPH,
                 "without a name");
    assert_ok(et_params_materialize(view[0], true, error));
    assert_true(et_params_ready(params) && et_params_values(view[1]) == et_params_values(params));
    et_params_begin_change(view[1]);
    et_params_values(view[1])[et_params_offset(view[1], head[1])] = 3;
    et_params_changed(view[1], true);
    assert_int_equal(et_params_version(params), et_params_version(view[0]));
    assert_true(et_params_values(params)[et_params_offset(params, head[1])] == 3);
    assert_fails(et_params_declare(view[0], "new", et_shape_1(1), zeros, &variable, error),
                 ET_EGRAPH, "parameter a/new: not part of this model");
    et_params_free(view[0]);
    et_params_free(view[1]);
    et_params_free(params);
}

static void test_params__out_of_memory(void **state)
{
    (void)state;
    bool whole = false;
    for (long n = 0; !whole; n++) {
        et_error error = ET_ERROR_INIT;
        et_params *params = NULL;
        scarce_begin(n);
        int status = et_params_new(&params, &error);
        for (int i = 0; i < 100 && !status; i++) {
            char name[16];
            int index;
            snprintf(name, sizeof name, "p%d", i);
            status = et_params_declare(params, name, et_shape_1(i), normal, &index, &error);
            assert_true(status || index == i);
        }
        if (!status)
            status = et_params_materialize(params, true, &error);
        whole = !scarce_failed;
        assert_int_equal(status, whole ? ET_OK : ET_ENOMEM);
        et_params_free(params);
        scarce_end();
        assert_true(n < 1000);
    }
}

/* A row of zeros has no gradient. */
static void test_params__held_zeros(void **state)
{
    (void)state;
    et_params *params = make();
    declare(params, "a", et_shape_1(3));
    const int table = declare(params, "b", et_shape_2(3, 7));
    assert_int_equal(et_params_materialize(params, false, NULL), ET_OK);
    float *gradients = et_params_gradients(params);
    for (int held = 0; held < 2; held++) {
        for (int64_t i = 0; i < et_params_trained_size(params); i++)
            gradients[i] = 1;
        if (held)
            et_params_hold_zeros(params, table, 1);
        et_params_clear_held(params, gradients);
        for (int64_t i = 0; i < et_params_trained_size(params); i++) {
            const int64_t at = i - et_params_offset(params, table) - 7;
            assert_true(gradients[i] == (held && at >= 0 && at < 7 ? 0 : 1));
        }
    }
    et_params_free(params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_params__flat),         cmocka_unit_test(test_params__shared),
        cmocka_unit_test(test_params__refuses),      cmocka_unit_test(test_params__no_index),
        cmocka_unit_test(test_params__other_values), cmocka_unit_test(test_params__variables),
        cmocka_unit_test(test_params__views),        cmocka_unit_test(test_params__readers),
        cmocka_unit_test(test_params__held_zeros),   cmocka_unit_test(test_params__out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
