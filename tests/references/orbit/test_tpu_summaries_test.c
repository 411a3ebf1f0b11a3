/* Orbit, orbit/utils/tpu_summaries_test.py: four calls of ten steps, and a summary at each step for
 * which summaries are recorded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "references/orbit/runner.h"

static int write_step(et_trainer *self, et_error *error)
{
    et_summary *summary;
    if (!et_trainer_records(self))
        return ET_OK;
    int status = et_summary_new(&summary, error);
    if (status)
        return status;
    status = et_summary_add_scalar(summary, "step", (double)self->step, error);
    if (!status)
        status = et_trainer_write_summary(self, summary, error);
    et_summary_free(summary);
    return status;
}

/* A decorated method: the option is the trainer's. */
static int train_step_of_data(et_standard_trainer *self, et_source_tree_cursor *cursor,
                              et_error *error)
{
    const et_batch *batch;
    int status = et_source_tree_cursor_next(cursor, NULL, &batch, error);
    return status ? status : write_step(&self->trainer, error);
}

static int return_step(et_standard_trainer *self, et_value *logs, et_error *error)
{
    (void)error;
    et_value_set_int(logs, "output", self->trainer.step);
    return ET_OK;
}

/* A plain function with its own loop. */
static int train_steps(et_trainer *self, int64_t num_steps, et_value *logs, et_error *error)
{
    int status = ET_OK;
    for (int64_t i = 0; !status && i < num_steps; i++) {
        status = write_step(self, error);
        self->step += !status;
    }
    et_value_set_int(logs, "output", self->step);
    return status;
}

typedef struct output {
    et_action action;
    int64_t value;
} output;

static int keep_output(et_action *self, const et_action_context *now, et_error *error)
{
    return et_value_read_int(now->logs, "output", &((output *)self)->value, error);
}

typedef struct steps {
    int step[8]; /* [count]: of events with a value "step" */
    int count;
} steps;

/* An event begins with the time, field 1 of 8 bytes, and the step, field 2. */
static void add_step(void *payload, const void *bytes, size_t length)
{
    static const char tag[] = "\n\4step"; /* field 1 of a value */
    const uint8_t *event = bytes;
    steps *s = payload;
    if (!memmem(bytes, length, tag, strlen(tag)))
        return;
    assert_in_range(s->count, 0, 7);
    assert_int_equal(event[9], 0x10);
    s->step[s->count++] = event[10];
}

static void validate(const char *directory, et_trainer *trainer)
{
    static const et_action_class class = { .name = "output", .act = keep_output };
    output last = { .action.class = &class };
    et_action *const actions[] = { &last.action };
    const et_outer_loop_options outer = { .train_actions = actions, .train_action_count = 1 };
    const et_controller_options options = { .trainer = trainer,
                                            .outer_loop = &outer,
                                            .steps_per_loop = 10,
                                            .summary_interval = 20,
                                            .run.summary_dir = directory };
    et_controller *controller;
    steps found = { .count = 0 };
    assert_ok(et_controller_open(&controller, &options, error));
    for (int call = 1; call <= 4; call++)
        assert_ok(et_controller_train_to(controller, 10 * call, true, error));
    assert_ok(et_controller_close(controller, error));
    assert_int_equal(trainer->step, 40);
    assert_int_equal(last.value, trainer->step);
    each_event(below(directory, "train"), add_step, &found);
    assert_int_equal(found.count, 2);
    assert_int_equal(found.step[0], 20);
    assert_int_equal(found.step[1], 40);
}

/* Differs: a summary has the number of steps done, so the first is that of step 20 and not of 0. */
static void test_tpu_summaries_test__train_with_tpu_summary_optimization(void **state)
{
    static const et_standard_trainer_class class = { .name = "DummyTrainer",
                                                     .train_step = train_step_of_data,
                                                     .train_loop_end = return_step };
    runner r = { .loop.tpu_summary_optimization = true };
    prepare_as(&r, &class, &evaluates);
    validate(in(state, "decorated"), &r.trainer.trainer);
    finish(&r);
}

/* Differs: a summary has the number of steps done, so the first is that of step 20 and not of 0. */
static void test_tpu_summaries_test__train_with_tpu_summary_optimization_no_decorator(void **state)
{
    static const et_trainer_class class = { .name = "DummyTrainer", .train = train_steps };
    et_trainer trainer = { .class = &class };
    validate(in(state, "plain"), &trainer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tpu_summaries_test__train_with_tpu_summary_optimization),
        cmocka_unit_test(test_tpu_summaries_test__train_with_tpu_summary_optimization_no_decorator),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
