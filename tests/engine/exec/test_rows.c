/* Plans whose rows do not depend on each other: batches that are not full, weights that another
 * plan has packed, weights as bytes, and the likeliest tokens. */
#include "engine/exec/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/graph/build.h"

#define ROWS   21
#define WIDTH  24
#define PIECES 70
#define COUNT  5

static int32_t ids[ROWS];

/* From ids to the likeliest pieces; *piece: which they are. */
static et_node *likeliest(et_scope *s, et_node **piece)
{
    et_init init = { ET_INIT_NORMAL, 1 };
    et_node *table = et_param(s, "table", et_shape_2(PIECES, WIDTH), init);
    et_node *x = et_embedding(et_input(s, "ids", ET_I32, et_shape_1(ROWS)), table, 1, NULL, NULL);
    et_dense_options wide = { .activation = ET_ACTIVATION_RELU, .row_tile = 32 };
    et_dense_options narrow = { .row_tile = 32 };
    et_node *h = et_dense_with(et_in(s, "in"), x, 2 * WIDTH, &wide);
    h = et_norm(et_in(s, "norm"), et_add(x, et_dense_with(et_in(s, "out"), h, WIDTH, &narrow)),
                1e-6f);
    return et_vocabulary_best(h, table, COUNT, piece);
}

typedef struct fixture {
    et_params *params;
    et_device *device;
    et_graph *graph;
    et_node *best[2];
} fixture;

static void open_fixture(fixture *f, et_dtype act)
{
    et_error error = ET_ERROR_INIT;
    et_graph_options options = { .training = false, .act = act };
    assert_int_equal(et_params_new(&f->params, &error), ET_OK);
    assert_int_equal(et_graph_new(&f->graph, f->params, &options, &error), ET_OK);
    f->best[0] = likeliest(et_graph_scope(f->graph), &f->best[1]);
    if (et_graph_finish(f->graph, &error))
        fail_msg("%s", error.text);
    assert_int_equal(et_params_materialize(f->params, act == ET_BF16, &error), ET_OK);
    et_init_draw(f->params, 7);
    assert_int_equal(et_device_open(&f->device, &error), ET_OK);
    for (int i = 0; i < ROWS; i++)
        ids[i] = i * 11 % PIECES;
}

static void close_fixture(fixture *f)
{
    et_graph_free(f->graph);
    et_params_free(f->params);
    et_device_close(f->device);
}

static et_plan *plan_of(const fixture *f, bool int8, const et_plan *packed_by)
{
    et_error error = ET_ERROR_INIT;
    et_plan *plan;
    et_plan_options options = ET_PLAN_OPTIONS_INIT;
    options.int8 = int8;
    options.packed_by = packed_by;
    if (et_plan_new(&plan, f->graph, f->device, f->best, 2, &options, &error))
        fail_msg("%s", error.text);
    et_plan_bind(plan, "ids", ids);
    return plan;
}

typedef struct outcome {
    float log_p[ROWS][COUNT];
    int32_t piece[ROWS][COUNT];
} outcome;

static void run(et_plan *plan, outcome *out)
{
    et_plan_run(plan, (et_random){ 0 });
    memcpy(out->log_p, et_plan_output(plan, 0).data, sizeof out->log_p);
    memcpy(out->piece, et_plan_output(plan, 1).data, sizeof out->piece);
}

/* Fewer rows give the same results as among all; other rows are not written. */
static void check_some_rows(et_dtype act)
{
    fixture f;
    outcome all, some;
    open_fixture(&f, act);
    et_plan *plan = plan_of(&f, false, NULL);
    run(plan, &all);
    for (int rows = 0; rows <= ROWS; rows += 7) {
        memset(et_plan_output(plan, 1).data, 0x7f, sizeof some.piece);
        et_plan_set_rows(plan, ROWS, rows);
        run(plan, &some);
        assert_memory_equal(all.log_p, some.log_p, (size_t)rows * sizeof *all.log_p);
        assert_memory_equal(all.piece, some.piece, (size_t)rows * sizeof *all.piece);
        assert_int_equal(et_plan_output(plan, 0).shape.size[0], rows);
        for (int i = rows; i < ROWS; i++)
            assert_int_equal(some.piece[i][0], 0x7f7f7f7f);
    }
    et_plan_free(plan);
    close_fixture(&f);
}

static void test_rows__some_of_them(void **state)
{
    (void)state;
    check_some_rows(ET_F32);
    if (et_gemm_has_bf16())
        check_some_rows(ET_BF16);
}

/* Best first; the log-probabilities of distinct pieces. */
static void test_rows__best_tokens(void **state)
{
    (void)state;
    fixture f;
    outcome all;
    open_fixture(&f, ET_F32);
    et_plan *plan = plan_of(&f, false, NULL);
    run(plan, &all);
    for (int r = 0; r < ROWS; r++) {
        double sum = 0;
        for (int k = 0; k < COUNT; k++) {
            sum += exp(all.log_p[r][k]);
            assert_true(k == 0 || all.log_p[r][k] < all.log_p[r][k - 1]);
            assert_true(all.piece[r][k] >= 0 && all.piece[r][k] < PIECES);
        }
        assert_true(sum > 0.01 && sum < 1.001);
    }
    et_plan_free(plan);
    close_fixture(&f);
}

/* A plan that reads another plan's packed weights packs none, and sees their changes. */
static void check_shared(et_dtype act)
{
    fixture f;
    outcome first, second;
    open_fixture(&f, act);
    et_plan *owner = plan_of(&f, false, NULL), *reader = plan_of(&f, false, owner);
    assert_true(et_plan_memory_needed(owner).packed > 0);
    assert_int_equal(et_plan_memory_needed(reader).packed, 0);
    for (int round = 0; round < 2; round++) {
        et_plan_refresh(owner);
        run(reader, &second);
        run(owner, &first);
        assert_memory_equal(&first, &second, sizeof first);
        et_params_values(f.params)[3] += 1;
        et_params_begin_change(f.params);
        et_params_changed(f.params, true);
    }
    et_plan_free(reader);
    et_plan_free(owner);
    close_fixture(&f);
}

static void test_rows__shared_weights(void **state)
{
    (void)state;
    check_shared(ET_F32);
    if (et_gemm_has_bf16())
        check_shared(ET_BF16);
}

static void run_once(et_dtype act, outcome *out)
{
    fixture f;
    open_fixture(&f, act);
    et_plan *plan = plan_of(&f, false, NULL);
    run(plan, out);
    et_plan_free(plan);
    close_fixture(&f);
}

/* If bfloat16 is multiplied as float32, its products go by rows too; log-probabilities change
 * little. */
static void test_rows__widened(void **state)
{
    (void)state;
    outcome exact, rounded;
    double off = 0;
    run_once(ET_F32, &exact);
    setenv("ETUDE_BF16", "widen", 1);
    check_some_rows(ET_BF16);
    check_shared(ET_BF16);
    run_once(ET_BF16, &rounded);
    unsetenv("ETUDE_BF16");
    for (int r = 0; r < ROWS; r++) {
        assert_int_equal(exact.piece[r][0], rounded.piece[r][0]);
        off = fmax(off, fabs((double)exact.log_p[r][0] - rounded.log_p[r][0]));
    }
    assert_true(off > 0 && off < 0.1);
}

/* Bytes change log-probabilities by little. */
static void test_rows__as_bytes(void **state)
{
    (void)state;
    fixture f;
    outcome exact, bytes;
    double off = 0;
    open_fixture(&f, ET_F32);
    et_plan *plan = plan_of(&f, false, NULL), *small = plan_of(&f, true, NULL);
    assert_true(et_plan_memory_needed(small).packed < et_plan_memory_needed(plan).packed);
    run(plan, &exact);
    run(small, &bytes);
    for (int r = 0; r < ROWS; r++) {
        assert_int_equal(exact.piece[r][0], bytes.piece[r][0]);
        off = fmax(off, fabs((double)exact.log_p[r][0] - bytes.log_p[r][0]));
    }
    assert_true(off > 0 && off < 0.1);
    et_plan_free(plan);
    et_plan_free(small);
    close_fixture(&f);
}

static void test_rows__refused(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_params *params;
    et_graph *graph;
    et_node *piece;
    assert_int_equal(et_params_new(&params, &error), ET_OK);
    assert_int_equal(et_graph_new(&graph, params, NULL, &error), ET_OK);
    et_scope *s = et_graph_scope(graph);
    et_node *table = et_param(s, "table", et_shape_2(4, 3), (et_init){ ET_INIT_ZEROS, 0 });
    et_vocabulary_best(et_input(s, "h", ET_F32, et_shape_2(2, 3)), table, 5, &piece);
    assert_int_equal(et_graph_finish(graph, &error), ET_EGRAPH);
    assert_non_null(strstr(error.text, "too few tokens"));
    et_graph_free(graph);
    et_params_free(params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows__some_of_them),   cmocka_unit_test(test_rows__best_tokens),
        cmocka_unit_test(test_rows__shared_weights), cmocka_unit_test(test_rows__as_bytes),
        cmocka_unit_test(test_rows__refused),        cmocka_unit_test(test_rows__widened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
