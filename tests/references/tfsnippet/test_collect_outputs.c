/* TFSnippet, tests/evaluation/test_collect_outputs.py. The placeholder that feed_dict sets is a
 * variable of the store. Outputs have names, as in the reference's dicts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include <etude/flows.h>
#include <etude/layers.h>
#include <etude/loop_evaluator.h>
#include <etude/ops.h>
#include <etude/ops_elementwise.h>
#include <etude/ops_layout.h>
#include <etude/ops_loss.h>
#include <etude/params.h>

#include "calls.h"

enum { ROWS = 10 };

static const float offset = 0.75f;

typedef struct world {
    et_device *device;
    et_params *params;
    et_source *flow;
    et_pass *pass;
    int arrays; /* "a" and "b", or "a" alone */
    bool scalar;
    float a[ROWS][2], b[ROWS][3];
} world;

/* Columns of an array; [rows] of a scalar one. */
static et_shape item_of(const world *w, int array)
{
    return w->scalar ? et_shape_scalar() : et_shape_1(2 + array);
}

/* [rows, 5] as [5, rows]: the product of the unit matrix with it, transposed. */
static et_node *turned(et_scope *s, et_node *x)
{
    const et_matmul_options transposed = { .transpose_b = true };
    et_node *unit = et_variable(s, "unit", et_shape_2(5, 5), (et_init){ ET_INIT_ZEROS, 0 });
    return et_matmul(unit, x, NULL, &transposed);
}

static void build(et_scope *s, void *payload)
{
    const world *w = payload;
    et_node *shift = et_variable(s, "offset", et_shape_scalar(), (et_init){ ET_INIT_ZEROS, 0 });
    et_node *a = et_batch_input(s, "a"), *b = w->arrays > 1 ? et_batch_input(s, "b") : NULL;
    et_node *mask = et_batch_input(s, "mask"), *rows = et_sum(mask);
    et_output(s, "output1", et_add(a, shift));
    et_output(s, "mean1", et_div(et_sum(w->scalar ? et_mul(et_add(a, shift), mask) : a), rows));
    if (!b)
        return;
    et_output(s, "output2", et_add(b, et_scale(shift, 2)));
    if (w->scalar)
        et_output(s, "mean2", et_div(et_sum(et_mul(et_add(b, et_scale(shift, 2)), mask)), rows));
    else
        et_output(s, "turned", turned(s, et_concatenate_columns((et_node *[]){ a, b }, 2)));
}

static void set(et_params *params, const char *name, int element, float value)
{
    et_params_begin_change(params);
    et_params_values(params)[et_params_offset(params, et_params_find(params, name)) + element] =
        value;
    et_params_changed(params, true);
}

/* Ten rows in batches of 3. */
static void open_world(world *w, int arrays, bool scalar)
{
    *w = (world){ .arrays = arrays, .scalar = scalar };
    for (int i = 0; i < ROWS * 2; i++)
        w->a[i / 2][i % 2] = sinf((float)i);
    for (int i = 0; i < ROWS * 3; i++)
        w->b[i / 3][i % 3] = cosf(3 * (float)i);
    const et_array array[] = { { "a", ET_F32, w->a, item_of(w, 0) },
                               { "b", ET_F32, w->b, item_of(w, 1) } };
    const et_batches_options options = { .capacity = { 3 } };
    et_samples *samples;
    assert_ok(et_arrays_open(&samples, array, arrays, ROWS, error));
    assert_ok(et_batches_open(&w->flow, samples, &options, error));
    assert_ok(et_device_open(&w->device, error));
    assert_ok(et_params_new(&w->params, error));
    assert_ok(
        et_pass_open(&w->pass, w->device, w->params, &w->flow->layout, build, w, NULL, error));
    assert_ok(et_params_materialize(w->params, false, error));
    et_init_draw(w->params, 1);
    set(w->params, "offset", 0, offset);
    for (int i = 0; arrays > 1 && !scalar && i < 5; i++)
        set(w->params, "unit", 6 * i, 1);
}

static void close_world(world *w)
{
    et_pass_close(w->pass);
    et_source_close(w->flow);
    et_params_free(w->params);
    et_device_close(w->device);
}

static void near(double value, double expected)
{
    assert_true(fabs(value - expected) <= 1e-6 + 1e-6 * fabs(expected));
}

/* Of a and b, moved by once and twice the offset. */
static void check_moved(const world *w, const et_outputs *outputs)
{
    static const char *const names[] = { "output1", "output2" };
    for (int k = 0; k < w->arrays; k++) {
        const int columns = 2 + k;
        const et_tensor all = et_outputs_tensor(outputs, names[k]);
        const float *from = k ? &w->b[0][0] : &w->a[0][0];
        assert_true(et_shape_equal(all.shape, et_shape_2(ROWS, columns)));
        for (int i = 0; i < ROWS * columns; i++)
            near((double)((const float *)all.data)[i], (double)(from[i] + (float)(k + 1) * offset));
    }
}

static void test_collect_outputs__collect_outputs_concat(void **state)
{
    (void)state;
    static const char *const names[] = { "output1", "output2" }, *const mean[] = { "mean1" },
                             *const turned_one[] = { "turned" };
    et_outputs *outputs;
    world w;
    for (int arrays = 1; arrays < 3; arrays++) {
        open_world(&w, arrays, false);
        assert_ok(et_outputs_collect(&outputs, NULL, w.pass, w.flow, names, arrays, 0, 0, error));
        check_moved(&w, outputs);
        et_outputs_free(outputs);
        assert_fails(et_outputs_collect(&outputs, NULL, w.pass, w.flow, mean, 1, 0, 0, error),
                     ET_ECONFIG, "output mean1 is []: dimension 0 must be the 3 rows");
        if (arrays == 1)
            close_world(&w);
    }
    assert_ok(et_outputs_collect(&outputs, NULL, w.pass, w.flow, turned_one, 1, 1, 0, error));
    const et_tensor all = et_outputs_tensor(outputs, "turned");
    assert_true(et_shape_equal(all.shape, et_shape_2(5, ROWS)));
    for (int i = 0; i < 5 * ROWS; i++) {
        const int row = i % ROWS, column = i / ROWS;
        near((double)((const float *)all.data)[i],
             (double)(column < 2 ? w.a[row][column] : w.b[row][column - 2]));
    }
    et_outputs_free(outputs);
    close_world(&w);
}

static void test_collect_outputs__collect_outputs_average(void **state)
{
    (void)state;
    static const char *const names[] = { "mean1", "mean2" }, *const rows[] = { "output1" };
    double averages[2], expected[2] = { 0 };
    world w;
    for (int arrays = 1; arrays < 3; arrays++) {
        open_world(&w, arrays, true);
        for (int k = 0; k < arrays; k++) {
            const float *from = k ? &w.b[0][0] : &w.a[0][0];
            expected[k] = 0;
            for (int i = 0; i < ROWS; i++)
                expected[k] += (double)(from[i] + (float)(k + 1) * offset) / ROWS;
        }
        assert_ok(et_outputs_average(averages, NULL, w.pass, w.flow, names, arrays, 0, error));
        for (int k = 0; k < arrays; k++)
            near(averages[k], expected[k]);
        assert_fails(et_outputs_average(averages, NULL, w.pass, w.flow, rows, 1, 0, error),
                     ET_ECONFIG, "only a single float can be averaged");
        close_world(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_collect_outputs__collect_outputs_concat),
        cmocka_unit_test(test_collect_outputs__collect_outputs_average),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
