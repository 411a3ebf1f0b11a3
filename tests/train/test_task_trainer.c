/* A task trainer: what it decides when it is set up, what it logs, what resumes. */
#include "train/task_trainer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <etude/nn.h>

#include "io/files.h"
#include "train/toy_run.h"

enum { NARROW = 4, WIDE = 256 };

static int rows; /* of the toy's batch */

/* A feed-forward layer, and a loss. Its hidden values are most of what the backward pass wants. */
static void build_wide(et_task *self, et_scope *scope, bool training)
{
    (void)self, (void)training;
    et_dense_options wide = { .activation = ET_ACTIVATION_RELU, .recomputable = true };
    et_node *h = et_dense(et_in(scope, "first"), et_batch_input(scope, "x"), NARROW);
    for (int i = 0; i < 3; i++) {
        et_scope *block = et_at(scope, "block", i);
        et_node *inner = et_dense_with(et_in(block, "in"), h, WIDE, &wide);
        h = et_add(h, et_dense(et_in(block, "out"), inner, NARROW));
    }
    et_init init = et_init_glorot_uniform(8, NARROW);
    et_node *table = et_param(scope, "table", et_shape_2(8, NARROW), init);
    et_loss(scope, "loss", et_vocabulary_loss(h, table, et_batch_input(scope, "labels"), 0.1f), 1);
}

static int wide_data(et_task *self, bool training, et_source **out, et_error *error)
{
    static const float x[2 * NARROW];
    static const int32_t labels[2];
    const et_array arrays[] = { { "x", ET_F32, x, et_shape_1(NARROW) },
                                { "labels", ET_I32, labels, et_shape_scalar() } };
    (void)self;
    return training ? toy_source(out, arrays, 2, 2, rows, true, error) : ET_OK;
}

static const et_task_class wide_class = { .name = "wide", .build = build_wide, .data = wide_data };

typedef struct facts {
    et_recompute recompute;
    et_plan_memory memory;
} facts;

static facts facts_with(int recompute)
{
    toy_run r;
    toy_run_init(&r, &wide_class);
    r.trainer_options.recompute = recompute;
    r.trainer_options.batches = 1;
    assert_ok(toy_run_start_trainer(&r, error));
    const et_pass *pass = et_task_trainer_pass(r.trainer);
    facts found = { et_pass_recompute(pass), et_pass_plan_memory(pass) };
    assert_true(et_task_trainer_memory(r.trainer) > found.memory.activations);
    toy_run_close(&r);
    return found;
}

/* By what the batch's values need, and as if it had been asked for. Large ones are planned only:
 * nothing touches their memory. */
static void test_task_trainer__recomputes_layers_of_large_batches(void **state)
{
    (void)state;
    static const struct {
        int rows;
        et_recompute chosen;
    } cases[] = { { 64, ET_RECOMPUTE_CHEAP }, { 1 << 19, ET_RECOMPUTE_MARKED } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rows = cases[i].rows;
        facts automatic = facts_with(ET_RECOMPUTE_AUTO);
        facts asked = facts_with((int)cases[i].chosen);
        assert_int_equal(automatic.recompute, cases[i].chosen);
        assert_int_equal(asked.recompute, cases[i].chosen);
        assert_int_equal(automatic.memory.activations, asked.memory.activations);
    }
    facts cheap = facts_with(ET_RECOMPUTE_CHEAP);
    facts marked = facts_with(ET_RECOMPUTE_MARKED);
    assert_true(cheap.memory.activations > (size_t)1 << 30);
    assert_true(marked.memory.activations < cheap.memory.activations);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_task_trainer__recomputes_layers_of_large_batches),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
