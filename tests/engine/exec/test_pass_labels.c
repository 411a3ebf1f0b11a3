/* Rows without a label count nowhere: a batch whose second half has no labels gives the loss, the
 * divisor and the gradients of its first half, for every way to build the loss. */
#include "engine/exec/pass_model.h"

#include <math.h>
#include <string.h>

#include <etude/ops_loss.h>

#include "engine/graph/build.h"
#include "engine/tensor/params.h"

enum { HALF = ROWS / 2 };

static et_node *logits_of(et_scope *s)
{
    return et_dense(et_in(s, "logits"), hidden(s), CLASSES);
}

static et_node *labels_of(et_scope *s)
{
    return et_batch_input(s, "labels");
}

static et_node *cross_entropy(et_scope *s)
{
    return et_cross_entropy(logits_of(s), labels_of(s), 0, NULL, NULL);
}

static et_node *mean_of_sums(et_scope *s)
{
    return et_softmax_loss(logits_of(s), labels_of(s), 0);
}

static et_node *scaled(et_scope *s)
{
    return et_scale(et_reshape(cross_entropy(s), et_shape_1(ROWS)), 2);
}

static et_node *smoothed(et_scope *s)
{
    et_node *of_rows = et_cross_entropy(logits_of(s), labels_of(s), 0.1f, NULL, NULL);
    return et_square(et_copy(of_rows, ET_F32, et_node_shape(of_rows)));
}

static et_node *summed(et_scope *s)
{
    return et_weighted_sum(cross_entropy(s), NULL);
}

/* -sum_i t_i log p_i. */
static et_node *by_hand(et_scope *s)
{
    et_node *t = et_one_hot(labels_of(s), CLASSES);
    return et_scale(et_row_sum(et_mul(t, et_log_softmax(logits_of(s)))), -1);
}

static et_node *brier(et_scope *s)
{
    return et_squared_error(et_softmax(logits_of(s)), et_one_hot(labels_of(s), CLASSES));
}

static et_node *each_class(et_scope *s)
{
    et_node *t = et_one_hot(labels_of(s), CLASSES);
    return et_binary_cross_entropy(logits_of(s), et_offset(et_scale(t, 0.9f), 0.05f));
}

static et_node *one_class(et_scope *s)
{
    et_node *t = et_slice_columns(et_one_hot(labels_of(s), CLASSES), 1, 1);
    et_node *rows = et_binary_cross_entropy(et_slice_columns(logits_of(s), 1, 1), t);
    return et_mul(rows, et_labelled(labels_of(s)));
}

static et_node *weighted(et_scope *s)
{
    et_node *weight =
        et_variable(s, "class_weight", et_shape_1(CLASSES), (et_init){ ET_INIT_ONES, 0 });
    et_node *of_rows = et_row_sum(et_mul(et_one_hot(labels_of(s), CLASSES), weight));
    return et_mul(of_rows, cross_entropy(s));
}

/* (1 - p)^2 -log p. */
static et_node *focal(et_scope *s)
{
    et_node *nll = by_hand(s);
    et_node *miss = et_offset(et_scale(et_exp(et_scale(nll, -1)), -1), 1);
    return et_mul(et_square(miss), nll);
}

static et_node *penalized(et_scope *s)
{
    return et_add(cross_entropy(s), et_offset(et_row_mean(et_square(hidden(s))), 1));
}

/* A diamond of 40 floors has 2^40 ways down. */
static et_node *deep(et_scope *s)
{
    et_node *rows = cross_entropy(s);
    for (int i = 0; i < 40; i++)
        rows = et_scale(et_add(rows, rows), 0.5f);
    return rows;
}

typedef et_node *rows_fn(et_scope *s);

static rows_fn *rows;

static void build(et_scope *s, void *payload)
{
    (void)payload;
    et_loss(s, "loss", rows(s), 1);
}

static void open_labelled(model *m, int64_t count, int64_t labelled)
{
    open_model(m, build, &training, count, ROWS);
    int32_t *to = m->batch->data[1];
    for (int64_t i = labelled; i < ROWS; i++)
        to[i] = -1;
    assert_int_equal(et_pass_run(m->pass, m->batch, 1, 0, NULL), ET_OK);
}

static void compare(const char *name, const model *a, const model *b)
{
    if (et_pass_divisor(a->pass) != HALF || et_pass_divisor(b->pass) != HALF)
        fail_msg("%s: divisors %g and %g", name, et_pass_divisor(a->pass),
                 et_pass_divisor(b->pass));
    if (!(fabs(et_pass_loss(a->pass) - et_pass_loss(b->pass)) < 1e-5))
        fail_msg("%s: %g, of half of it %g", name, et_pass_loss(a->pass), et_pass_loss(b->pass));
    const float *of_a = et_params_gradients(a->params), *of_b = et_params_gradients(b->params);
    for (int64_t i = 0; i < et_params_trained_size(a->params); i++)
        if (!(fabsf(of_a[i] - of_b[i]) < 1e-5f))
            fail_msg("%s: gradients %lld: %g, of half of it %g", name, (long long)i,
                     (double)of_a[i], (double)of_b[i]);
}

static void test_pass_labels__rows_without_one_count_nowhere(void **state)
{
    (void)state;
    const struct {
        const char *name;
        rows_fn *rows;
    } losses[] = {
        { "softmax_loss", mean_of_sums },
        { "cross_entropy", cross_entropy },
        { "scaled", scaled },
        { "smoothed", smoothed },
        { "summed", summed },
        { "by_hand", by_hand },
        { "brier", brier },
        { "each_class", each_class },
        { "one_class", one_class },
        { "weighted", weighted },
        { "focal", focal },
        { "penalized", penalized },
        { "deep", deep },
    };
    for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++) {
        model half, whole, padded;
        rows = losses[i].rows;
        open_labelled(&whole, ROWS, HALF);
        open_labelled(&padded, HALF + 1, HALF);
        open_labelled(&half, HALF, ROWS);
        compare(losses[i].name, &whole, &half);
        compare(losses[i].name, &padded, &half);
        close_model(&whole);
        close_model(&padded);
        close_model(&half);
    }
}

/* The mean equals that of the softmax loss. */
static void test_pass_labels__one_mean(void **state)
{
    (void)state;
    model a, b;
    rows = mean_of_sums;
    open_labelled(&a, ROWS, HALF);
    rows = cross_entropy;
    open_labelled(&b, ROWS, HALF);
    assert_float_equal(et_pass_loss(a.pass) / et_pass_divisor(a.pass),
                       et_pass_loss(b.pass) / et_pass_divisor(b.pass), 1e-6);
    assert_float_equal(et_pass_divisor(b.pass), HALF, 0);
    close_model(&a);
    close_model(&b);
}

/* ---- several labels ---- */

static et_node *second_labels(et_scope *s)
{
    return et_reshape(et_slice_columns(et_batch_input(s, "pair"), 0, 1), et_shape_1(ROWS));
}

static et_node *all_of_two(et_scope *s)
{
    return et_mul(cross_entropy(s), et_labelled(second_labels(s)));
}

static et_node *any_of_two(et_scope *s)
{
    return et_add(cross_entropy(s), et_cross_entropy(et_dense(et_in(s, "second"), hidden(s), 2),
                                                     second_labels(s), 0, NULL, NULL));
}

static void test_pass_labels__of_several_kinds(void **state)
{
    (void)state;
    rows_fn *const made[] = { all_of_two, any_of_two };
    for (int k = 0; k < 2; k++) {
        model m;
        rows = made[k];
        open_labelled(&m, ROWS, HALF);
        int32_t(*second)[2] = m.batch->data[3];
        for (int i = 0; i < ROWS; i++)
            second[i][0] = i == 0 || i == ROWS - 1 ? -1 : 1;
        assert_int_equal(et_pass_run(m.pass, m.batch, 1, 0, NULL), ET_OK);
        assert_float_equal(et_pass_divisor(m.pass), k ? ROWS - 1 : HALF - 1, 0);
        close_model(&m);
    }
}

/* ---- integers that are not labels ---- */

static et_node *error_of(et_scope *s, et_node *out)
{
    return et_squared_error(out, et_batch_input(s, "y"));
}

static et_node *looked_up(et_scope *s)
{
    et_node *table = et_param(s, "table", et_shape_1(CLASSES), (et_init){ ET_INIT_ONES, 0 });
    et_node *of_feature = et_row_sum(et_mul(et_one_hot(labels_of(s), CLASSES), table));
    return error_of(s, et_add(of_feature, et_dense(et_in(s, "deep"), hidden(s), 1)));
}

static et_node *multiplied(et_scope *s)
{
    et_node *kept = et_mul(et_batch_input(s, "x"), et_labelled(labels_of(s)));
    return error_of(s, et_dense(et_in(s, "out"), kept, 1));
}

static et_node *hot_multiplied(et_scope *s)
{
    return error_of(s, et_dense(et_in(s, "out"), et_one_hot(labels_of(s), CLASSES), 1));
}

static void test_pass_labels__features_are_none(void **state)
{
    (void)state;
    rows_fn *const made[] = { looked_up, multiplied, hot_multiplied };
    for (int k = 0; k < 3; k++) {
        model m;
        rows = made[k];
        open_labelled(&m, ROWS, HALF);
        assert_float_equal(et_pass_divisor(m.pass), ROWS, 0);
        close_model(&m);
    }
}

/* ---- a divisor of the caller ---- */

static void build_over(et_scope *s, void *payload)
{
    (void)payload;
    et_node *weights = et_batch_input(s, "y");
    et_node *logits = logits_of(s), *every = labels_of(s);
    et_node *of_rows = et_cross_entropy(logits, every, 0, NULL, NULL);
    et_loss_over(s, "loss", et_mul(of_rows, weights), 1, et_sum(weights));
    et_loss_over(s, "second", et_softmax_loss(logits, every, 0), 0.5f, et_sum(weights));
    et_loss_over(s, "third", et_sum(of_rows), 1, et_sum(weights));
    et_penalty(s, "penalty", et_sum(et_scale(et_sum(weights), 0)), 1);
    et_output(s, "rows", of_rows);
}

static void test_pass_labels__own_divisor(void **state)
{
    (void)state;
    model m;
    double weights = 0, total = 0, all = 0;
    open_model(&m, build_over, &training, ROWS, ROWS);
    const float *loss = et_pass_output(m.pass, "rows").data;
    for (int i = 0; i < ROWS; i++) {
        weights += (double)y[i];
        total += (double)y[i] * (double)loss[i];
        all += (double)loss[i];
    }
    assert_float_equal(et_pass_divisor(m.pass), weights, 1e-5);
    assert_float_equal(et_pass_loss(m.pass), total + 1.5 * all, 1e-4);
    const et_measured first = et_pass_measured(m.pass, 0), second = et_pass_measured(m.pass, 1);
    assert_float_equal(first.total / first.weight, total / weights, 1e-5);
    assert_string_equal(second.name, "second");
    assert_float_equal(second.total / second.weight, all / weights, 1e-5);
    assert_float_equal(et_pass_measured(m.pass, 2).weight, ROWS, 0); /* second/nll */
    close_model(&m);
}

static void build_matrix_divisor(et_scope *s, void *payload)
{
    (void)payload;
    et_loss_over(s, "own", cross_entropy(s), 1, et_batch_input(s, "y"));
}

static void build_whole_divisor(et_scope *s, void *payload)
{
    (void)payload;
    et_loss_over(s, "own", cross_entropy(s), 1, labels_of(s));
}

static void test_pass_labels__refused(void **state)
{
    (void)state;
    et_build_fn *const builds[] = { build_matrix_divisor, build_whole_divisor };
    for (int i = 0; i < 2; i++) {
        et_error error = ET_ERROR_INIT;
        model m;
        assert_int_equal(try_model(&m, builds[i], &training, ROWS, ROWS, &error), ET_EGRAPH);
        assert_non_null(
            strstr(error.text, "loss own: the divisor must be a float32 scalar; see et_sum"));
        close_model(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pass_labels__rows_without_one_count_nowhere),
        cmocka_unit_test(test_pass_labels__one_mean),
        cmocka_unit_test(test_pass_labels__of_several_kinds),
        cmocka_unit_test(test_pass_labels__features_are_none),
        cmocka_unit_test(test_pass_labels__own_divisor),
        cmocka_unit_test(test_pass_labels__refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
