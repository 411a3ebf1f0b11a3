/* Steps beside a save: what is written is the state of the step that was saved, whole, although
 * the next steps follow at once and writing it takes longer than they do. */
#include "train/step.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "exec/model.h"
#include "io/safetensors.h"
#include "train/train.h"

enum { ROWS = 2, WIDTH = 64, WORDS = 20000, STEPS = 6 };

static int32_t labels[ROWS];

/* A large table of which every step moves all: with momentum and the average 15 MB are saved. */
static et_node *build(et_scope *scope)
{
    et_init init = et_init_glorot_uniform(WIDTH, WORDS);
    et_node *h = et_param(scope, "h", et_shape_2(ROWS, WIDTH), init);
    et_node *table = et_param(scope, "table", et_shape_2(WORDS, WIDTH), init);
    return et_vocabulary_loss(h, table, et_input(scope, "labels", ET_I32, et_shape_1(ROWS)), 0.1f);
}

static int next(et_task *self, et_plan *plan, et_error *error)
{
    (void)self, (void)error;
    labels[0] = (labels[0] + 7) % WORDS;
    et_plan_bind(plan, "labels", labels);
    return ET_OK;
}

static const et_task_class class = { .name = "toy", .next = next };

typedef struct steps {
    test_model model;
    et_task task;
    et_optimizer *optimizer;
    et_metrics *metrics;
    et_state *state;
    et_step step;
} steps;

static void steps_open(steps *s, const char *directory)
{
    et_optimization_options options;
    et_checkpoint_options checkpoints = { .max_to_keep = STEPS };
    et_fields_defaults(&et_optimization_fields, &options);
    options.optimizer.type = ET_OPTIMIZER_SGD;
    options.optimizer.sgd.momentum = 0.9;
    options.learning_rate.type = ET_RATE_CONSTANT;
    options.ema.enabled = true;
    *s = (steps){ .task = { &class } };
    test_model_open(&s->model, build);
    const et_kernels *kernels = s->model.device->kernels;
    assert_ok(et_optimizer_new(&s->optimizer, s->model.params, kernels, &options, error));
    assert_ok(et_metrics_new(&s->metrics, error));
    assert_ok(et_state_new(&s->state, error));
    assert_ok(et_state_add_params(s->state, s->model.params, error));
    assert_ok(et_state_add_optimizer(s->state, s->optimizer, s->model.params, error));
    s->step = (et_step){ .task = &s->task, .plan = s->model.plan, .optimizer = s->optimizer };
    assert_ok(et_step_define_metrics(&s->step, s->metrics, error));
    assert_ok(et_accumulator_init(&s->step.accumulator, s->model.params, kernels, 1, error));
    assert_ok(et_checkpoints_open(&s->step.checkpoints, directory, s->state, &checkpoints, error));
}

static void steps_close(steps *s)
{
    assert_ok(et_checkpoints_close(s->step.checkpoints, error));
    et_accumulator_release(&s->step.accumulator);
    et_state_free(s->state);
    et_metrics_free(s->metrics);
    et_optimizer_free(s->optimizer);
    test_model_close(&s->model);
}

/* A saved step equals that of a run which does nothing else meanwhile. */
static void check(const steps *alone, const char *directory, int step)
{
    char name[64];
    et_safetensors *file;
    snprintf(name, sizeof name, "checkpoints/ckpt-%d.safetensors", step);
    assert_ok(et_safetensors_open(&file, below(directory, name), error));
    assert_ok(et_safetensors_verify(file, error));
    assert_int_equal(et_safetensors_count(file), et_state_tensor_count(alone->state));
    for (size_t i = 0; i < et_state_tensor_count(alone->state); i++) {
        const et_state_tensor *expected = et_state_tensor_at(alone->state, i);
        const et_safetensors_tensor *found = et_safetensors_find(file, expected->name);
        if (memcmp(expected->data, found->data, found->bytes))
            fail_msg("step %d: %s is not what was saved", step, expected->name);
    }
    et_safetensors_close(file);
}

static void test_step__beside_saves(void **state)
{
    static steps saving, alone;
    const char *directory = in(state, "saving");
    steps_open(&saving, directory);
    for (int i = 1; i <= STEPS; i++) {
        assert_ok(et_step_run(&saving.step, error));
        assert_ok(et_checkpoints_save(saving.step.checkpoints, i, error));
    }
    assert_ok(et_step_run(&saving.step, error));
    assert_ok(et_checkpoints_wait(saving.step.checkpoints, error));

    steps_open(&alone, in(state, "alone"));
    labels[0] = 0;
    for (int i = 1; i <= STEPS; i++) {
        assert_ok(et_step_run(&alone.step, error));
        check(&alone, directory, i);
    }
    steps_close(&saving);
    steps_close(&alone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step__beside_saves),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
