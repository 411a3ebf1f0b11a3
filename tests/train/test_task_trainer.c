/* What a run decides when it is set up. */
#include "train/run.h"

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
static et_node *build_loss(et_task *self, et_scope *scope)
{
    (void)self;
    et_dense_options wide = { .activation = ET_ACTIVATION_RELU, .recomputable = true };
    et_node *x = et_input(scope, "x", ET_F32, et_shape_2(rows, NARROW));
    et_node *h = et_dense(et_in(scope, "first"), x, NARROW);
    for (int i = 0; i < 3; i++) {
        et_scope *block = et_at(scope, "block", i);
        et_node *inner = et_dense_with(et_in(block, "in"), h, WIDE, &wide);
        h = et_add(h, et_dense(et_in(block, "out"), inner, NARROW));
    }
    et_init init = et_init_glorot_uniform(8, NARROW);
    et_node *table = et_param(scope, "table", et_shape_2(8, NARROW), init);
    return et_vocabulary_loss(h, table, et_input(scope, "labels", ET_I32, et_shape_1(rows)), 0.1f);
}

static et_run_facts facts_with(void **state, int recompute)
{
    et_error error = ET_ERROR_INIT;
    toy_run r;
    assert_int_equal(toy_run_open(&r, build_loss, in(state, "run"), recompute, &error), 0);
    et_run_facts facts = et_run_facts_of(r.run);
    toy_run_close(&r);
    return facts;
}

/* By what the batch's values need, and as if it had been asked for. Large ones are planned only:
 * nothing touches their memory. */
static void test_run__recomputes_layers_of_large_batches(void **state)
{
    static const struct {
        int rows;
        et_recompute chosen;
    } cases[] = { { 64, ET_RECOMPUTE_CHEAP }, { 1 << 19, ET_RECOMPUTE_MARKED } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rows = cases[i].rows;
        et_run_facts automatic = facts_with(state, ET_RECOMPUTE_AUTO);
        et_run_facts asked = facts_with(state, (int)cases[i].chosen);
        assert_int_equal(automatic.recompute, cases[i].chosen);
        assert_int_equal(asked.recompute, cases[i].chosen);
        assert_int_equal(automatic.memory.activations, asked.memory.activations);
    }
    et_run_facts cheap = facts_with(state, ET_RECOMPUTE_CHEAP);
    et_run_facts marked = facts_with(state, ET_RECOMPUTE_MARKED);
    assert_true(cheap.memory.activations > (size_t)1 << 30);
    assert_true(marked.memory.activations < cheap.memory.activations);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run__recomputes_layers_of_large_batches),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
