/* What a run decides when it is set up. */
#include "train/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <etude/nn.h>

#include "train/train.h"

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

static int attach_nothing(et_task *self, et_state *state, et_error *error)
{
    (void)self, (void)state, (void)error;
    return ET_OK;
}

static const et_task_class toy_task = { .name = "toy",
                                        .build_loss = build_loss,
                                        .attach = attach_nothing };

static et_run_facts facts_with(void **state, int recompute)
{
    et_error error = ET_ERROR_INIT;
    et_trainer_options trainer;
    et_device *device = NULL;
    et_params *params = NULL;
    et_run *run = NULL;
    et_task task = { &toy_task };
    et_fields_defaults(&et_trainer_fields, &trainer);
    trainer.optimizer_config.optimizer.type = ET_OPTIMIZER_ADAM;
    trainer.optimizer_config.learning_rate.type = ET_RATE_CONSTANT;
    assert_int_equal(et_device_open(&device, &error), 0);
    assert_int_equal(et_params_new(&params, &error), 0);
    et_run_options options = { .model_dir = in(state, "run"),
                               .trainer = &trainer,
                               .act = ET_F32,
                               .recompute = recompute,
                               .device = device,
                               .params = params };
    assert_int_equal(et_run_open(&run, &task, &options, &error), 0);
    et_run_facts facts = et_run_facts_of(run);
    et_run_close(run, NULL);
    et_params_free(params);
    et_device_close(device);
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
