/* Orbit, orbit/controller_test.py. A checkpoint is always saved in the background, so the cases
 * that differ in that alone are one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "references/orbit/runner.h"

static void train_and_evaluate(runner *r, int64_t interval)
{
    assert_ok(et_controller_train_and_evaluate(r->controller, 10, 2, interval, NULL, error));
    assert_int_equal(r->trainer.trainer.step, 10);
}

static void open_controller(runner *r)
{
    assert_ok(et_controller_open(&r->controller, &r->options, error));
}

static void test_controller_test__no_checkpoint(void **state)
{
    const char *directory = in(state, "no_checkpoint");
    runner r = { .options = { .steps_per_loop = 2, .run.summary_dir = directory } };
    prepare(&r);
    open_controller(&r);
    train_and_evaluate(&r, 6);
    r.trainer.trainer.step = 0;
    train_and_evaluate(&r, 6);
    assert_int_equal(r.steps, 20);
    finish(&r);
    assert_int_equal(events(below(directory, "train"), "loss"), 10);
    assert_int_equal(events(below(directory, "eval"), "eval_loss"), 4);
}

static void test_controller_test__no_checkpoint_and_summaries(void **state)
{
    (void)state;
    runner r = { .options.steps_per_loop = 2 };
    prepare(&r);
    open_controller(&r);
    train_and_evaluate(&r, 6);
    finish(&r);
}

/* Here: a run with a directory writes its summaries there, unless no_logs is set. */
static void test_controller_test__has_checkpoint_no_summaries(void **state)
{
    const char *directory = in(state, "no_summaries");
    runner r = { .options = { .steps_per_loop = 2,
                              .run = { .model_dir = directory, .no_logs = true } } };
    prepare(&r);
    open_controller(&r);
    train_and_evaluate(&r, 6);
    finish(&r);
    assert_int_equal(events(directory, ""), 0);
    assert_false(file_is_there(below(directory, "train")));
}

/* Here: a run with a directory writes its summaries there, unless no_logs is set. */
static void test_controller_test__has_checkpoint_eval_summary_only(void **state)
{
    const char *directory = in(state, "eval_only"), *eval = in(state, "eval_only/summaries/eval");
    runner r = { .options = { .steps_per_loop = 2,
                              .run = { .model_dir = directory, .no_logs = true } } };
    assert_ok(et_sink_events_open(&r.outer.eval_summaries, eval, NULL, error));
    prepare(&r);
    open_controller(&r);
    train_and_evaluate(&r, 6);
    finish(&r);
    assert_ok(et_sink_close(r.outer.eval_summaries, error));
    assert_int_equal(events(directory, ""), 0);
    assert_false(file_is_there(below(directory, "train")));
    assert_int_equal(events(eval, "eval_loss"), 2);
}

static void test_controller_test__restore_from_most_recent_checkpoint(void **state)
{
    const char *directory = in(state, "restore");
    runner r = { .options = {
                     .steps_per_loop = 5, .checkpoint_interval = 5, .run.model_dir = directory } };
    int64_t step;
    prepare(&r);
    open_controller(&r);
    assert_ok(et_controller_train_to(r.controller, 20, false, error));
    assert_string_equal(checkpoints(directory), "5 10 15 20 ");
    assert_ok(et_controller_restore(r.controller, NULL, &step, error));
    assert_int_equal(step, 20);
    finish(&r);
}

static void test_controller_test__train_and_evaluate(void **state)
{
    const char *directory = in(state, "train_and_evaluate");
    runner r = { .options = {
                     .steps_per_loop = 2, .checkpoint_interval = 10, .run.model_dir = directory } };
    prepare(&r);
    open_controller(&r);
    train_and_evaluate(&r, 6);
    finish(&r);
    assert_string_not_equal(checkpoints(directory), "");
    assert_int_equal(events(below(directory, "train"), "loss"), 5);
    assert_int_equal(events(below(directory, "eval"), "eval_loss"), 2);
}

static void test_controller_test__train_only(void **state)
{
    const char *directory = in(state, "train_only");
    runner r = { .options = {
                     .steps_per_loop = 2, .checkpoint_interval = 10, .run.model_dir = directory } };
    prepare(&r);
    r.options.evaluator = NULL;
    open_controller(&r);
    assert_ok(et_controller_train_to(r.controller, 10, false, error));
    finish(&r);
    assert_string_equal(checkpoints(directory), "10 ");
    assert_int_equal(events(below(directory, "train"), "loss"), 5);
    assert_false(file_is_there(below(directory, "eval")));
}

/* Saves the initial weights, and opens a controller without a trainer. */
static void open_evaluating(runner *r, const char *directory)
{
    r->options.run.model_dir = directory;
    r->options.run.no_logs = true;
    r->options.steps_per_loop = 1;
    r->outer.weights = r->params;
    r->options.trainer = &r->trainer.trainer;
    r->options.evaluator = &r->evaluator.evaluator;
    open_controller(r);
    assert_ok(et_controller_save(r->controller, error));
    assert_ok(et_controller_close(r->controller, error));
    r->options.trainer = NULL;
    open_controller(r);
}

static bool write_done(void *path, int64_t step)
{
    (void)step;
    put_file(path, "DONE", 4);
    return true;
}

static void test_controller_test__evaluate_only(void **state)
{
    const char *directory = in(state, "evaluate_only");
    const char *summaries = in(state, "evaluate_only/summaries");
    const char *done = in(state, "evaluate_only/summaries/eval/Done");
    runner r = { .options.run.summary_dir = summaries };
    et_arena *arena = et_arena_new();
    et_value *results = et_value_dict(arena);
    prepare(&r);
    open_evaluating(&r, directory);
    assert_ok(et_controller_evaluate(r.controller, 2, results, error));
    assert_non_null(et_value_get(results, "eval_loss"));
    assert_false(file_is_there(below(summaries, "train")));
    assert_ok(et_controller_close(r.controller, error));
    assert_int_equal(events(below(summaries, "eval"), "eval_loss"), 1);
    open_controller(&r);
    assert_ok(et_controller_evaluate_continuously(r.controller, 2, 1, write_done, (void *)done,
                                                  NULL, error));
    finish(&r);
    assert_true(file_is_there(done));
    et_arena_free(arena);
}

static void test_controller_test__no_eval_steps(void **state)
{
    runner r = { .steps = 0 };
    et_arena *arena = et_arena_new();
    et_value *results = et_value_dict(arena);
    prepare(&r);
    open_evaluating(&r, in(state, "no_eval_steps"));
    assert_ok(et_controller_evaluate(r.controller, -1, results, error));
    assert_int_equal(results->count, 1);
    assert_int_equal(r.evaluator.evaluator.done, 100);
    finish(&r);
    et_arena_free(arena);
}

static void test_controller_test__already_trained_model(void **state)
{
    const char *directory = in(state, "already_trained");
    runner r = { .options = {
                     .steps_per_loop = 2, .checkpoint_interval = 10, .run.model_dir = directory } };
    prepare(&r);
    r.options.evaluator = NULL;
    r.trainer.trainer.step = 10;
    open_controller(&r);
    assert_ok(et_controller_train_to(r.controller, 10, false, error));
    assert_int_equal(r.steps, 0);
    assert_int_equal(et_controller_step(r.controller), 10);
    finish(&r);
    assert_string_equal(checkpoints(directory), "10 ");
}

/* A scalar and a histogram inside a step. */
static int train_with_summaries(et_standard_trainer *self, et_source_tree_cursor *cursor,
                                et_error *error)
{
    runner *r = of_trainer(self);
    et_summary *summary = NULL;
    double loss;
    int status = run_batch(r, 0, cursor, &loss, error);
    const bool records = !status && et_trainer_records(&self->trainer);
    if (records)
        status = et_summary_new(&summary, error);
    if (!status && records)
        status = et_summary_add_scalar(summary, "loss", loss, error);
    if (!status && records)
        status = et_summary_add_histogram(summary, "histogram", &loss, 1, error);
    if (!status && records)
        status = et_trainer_write_summary(&self->trainer, summary, error);
    et_summary_free(summary);
    return status ? status : et_optimizer_update(r->optimizer, r->pass[0], NULL, error);
}

/* Here: a run with a directory saves its last step there, unless save_nothing is true. */
static void test_controller_test__summaries_inside_train_fn(void **state)
{
    static const et_standard_trainer_class with_summaries = { .name = "TestTrainerWithSummaries",
                                                              .attach = attach,
                                                              .train_step = train_with_summaries };
    const char *directory = in(state, "inside");
    const char *summaries = in(state, "inside/summaries");
    runner r = { .loop.tpu_summary_optimization = true,
                 .options = { .steps_per_loop = 2,
                              .summary_interval = 2,
                              .run = { .model_dir = directory, .summary_dir = summaries } } };
    prepare_as(&r, &with_summaries, &evaluates);
    r.options.trainer = &r.trainer.trainer;
    open_controller(&r);
    assert_ok(et_controller_train_to(r.controller, 10, true, error));
    finish(&r);
    assert_string_equal(checkpoints(directory), "");
    assert_int_equal(events(below(summaries, "train"), "loss"), 5);
    assert_int_equal(events(below(summaries, "train"), "histogram"), 5);
    assert_false(file_is_there(below(summaries, "eval")));
}

static void test_controller_test__train_and_evaluate_with_same_summary_dir(void **state)
{
    const char *directory = in(state, "same");
    const char *summaries = in(state, "same/summaries");
    runner r = { .options = { .steps_per_loop = 2, .run.model_dir = directory } };
    assert_ok(et_sink_events_open(&r.outer.summaries, summaries, NULL, error));
    r.outer.eval_summaries = r.outer.summaries;
    prepare(&r);
    open_controller(&r);
    train_and_evaluate(&r, 6);
    finish(&r);
    assert_ok(et_sink_close(r.outer.summaries, error));
    assert_int_equal(events(summaries, "loss"), 7);
    assert_int_equal(events(summaries, "eval_loss"), 2);
}

static void test_controller_test__early_stop_on_eval_loss(void **state)
{
    runner r = { .options = { .steps_per_loop = 2,
                              .checkpoint_interval = 10,
                              .run.model_dir = in(state, "early_stop") } };
    const int64_t *step = &r.trainer.trainer.step;
    prepare(&r);
    open_controller(&r);
    do {
        assert_ok(et_controller_train_to(r.controller, *step + 2, true, error));
        assert_ok(et_controller_evaluate(r.controller, 6, NULL, error));
    } while (*step < 10 && et_metrics_value(r.metrics, "eval_loss") >= 0.1);
    assert_true(*step < 10);
    finish(&r);
}

/* TestEvaluator: the loss of a step is an output, and the state a list of outputs. */
typedef struct outputs {
    double loss[10];
    int count;
} outputs;

static outputs seen;

static int begin_list(et_standard_evaluator *self, void **state, et_error *error)
{
    (void)self, (void)error;
    seen.count = 0;
    *state = &seen;
    return ET_OK;
}

static int give_loss(et_standard_evaluator *self, et_source_tree_cursor *cursor, void **output,
                     et_error *error)
{
    static double loss;
    *output = &loss;
    return run_batch(of_evaluator(self), 1, cursor, &loss, error);
}

static int append_loss(et_standard_evaluator *self, void **state, void *output, et_error *error)
{
    (void)self, (void)error;
    outputs *list = *state;
    list->loss[list->count++] = *(double *)output;
    return ET_OK;
}

static int mean_of_list(et_standard_evaluator *self, void *state, et_value *logs, et_error *error)
{
    (void)self, (void)error;
    const outputs *list = state;
    double sum = 0;
    for (int i = 0; i < list->count; i++)
        sum += list->loss[i];
    et_value_set_float(logs, "eval_loss", sum / list->count);
    return ET_OK;
}

static void test_controller_test__evaluate_with_loss_output(void **state)
{
    static const et_standard_evaluator_class lists = { .name = "eval",
                                                       .eval_begin = begin_list,
                                                       .eval_step = give_loss,
                                                       .eval_reduce = append_loss,
                                                       .eval_end = mean_of_list };
    const char *directory = in(state, "loss_output");
    const char *summaries = in(state, "loss_output/summaries");
    runner r = { .options.run.summary_dir = summaries };
    prepare_as(&r, &trains, &lists);
    open_evaluating(&r, directory);
    assert_ok(et_controller_evaluate(r.controller, 5, NULL, error));
    finish(&r);
    assert_int_equal(seen.count, 5);
    assert_int_equal(events(below(summaries, "eval"), "eval_loss"), 1);
}

static int evaluate_nothing(et_evaluator *self, bool *more, et_error *error)
{
    (void)self, (void)more, (void)error;
    return ET_OK;
}

static void test_controller_test__evaluate_with_no_output(void **state)
{
    static const et_evaluator_class no_output = { .name = "eval", .step = evaluate_nothing };
    et_evaluator evaluator = { .class = &no_output };
    const et_outer_loop_options outer = { 0 };
    const et_controller_options options = { .evaluator = &evaluator,
                                            .outer_loop = &outer,
                                            .run.summary_dir = in(state, "no_output") };
    et_controller *controller;
    et_arena *arena = et_arena_new();
    et_value *results = et_value_dict(arena);
    assert_ok(et_controller_open(&controller, &options, error));
    assert_ok(et_controller_evaluate(controller, 5, results, error));
    assert_int_equal(results->count, 1);
    assert_string_equal(results->first->key, "steps_per_second");
    assert_ok(et_controller_close(controller, error));
    et_arena_free(arena);
}

static void test_controller_test__train_and_evaluate_reset_datasets(void **state)
{
    (void)state;
    runner r = { .options.steps_per_loop = 2 };
    prepare(&r);
    open_controller(&r);
    train_and_evaluate(&r, 6);
    assert_ok(et_standard_trainer_set_dataset(&r.trainer, &r.data[2], error));
    assert_ok(et_standard_evaluator_set_dataset(&r.evaluator, &r.data[3], error));
    train_and_evaluate(&r, 6);
    finish(&r);
}

static void test_controller_test__eval_and_checkpoint_interval(void **state)
{
    const char *directory = in(state, "intervals");
    runner r = { .options = {
                     .steps_per_loop = 10, .checkpoint_interval = 5, .run.model_dir = directory } };
    assert_ok(et_sink_events_open(&r.outer.summaries, directory, NULL, error));
    prepare(&r);
    open_controller(&r);
    train_and_evaluate(&r, 5);
    finish(&r);
    assert_ok(et_sink_close(r.outer.summaries, error));
    assert_string_equal(checkpoints(directory), "5 10 ");
    assert_int_equal(events(directory, "eval_loss"), 2);
}

static int end_nested(et_standard_evaluator *self, void *state, et_value *logs, et_error *error)
{
    (void)self, (void)state, (void)error;
    for (int i = 0; i < 2; i++) {
        et_value *set = et_value_set_dict(logs, i ? "dataset2" : "dataset");
        et_value_set_float(set, "loss", 1);
        et_value_set_float(set, "accuracy", 0);
    }
    return ET_OK;
}

/* Both data sets are read. */
static int step_nested(et_standard_evaluator *self, et_source_tree_cursor *cursor, void **output,
                       et_error *error)
{
    const et_batch *batch;
    (void)self, (void)output;
    int status = et_source_tree_cursor_next(cursor, "dataset", &batch, error);
    return status ? status : et_source_tree_cursor_next(cursor, "dataset2", &batch, error);
}

static void test_controller_test__evaluate_with_nested_summaries(void **state)
{
    static const et_standard_evaluator_class nested = { .name = "eval",
                                                        .eval_step = step_nested,
                                                        .eval_end = end_nested };
    for (int inject = 0; inject < 2; inject++) {
        const char *directory = in(state, inject ? "injected" : "nested");
        runner r = { .steps = 0 };
        et_sink *sink;
        assert_ok(et_sink_events_open(&sink, directory, NULL, error));
        *(inject ? &r.outer.summaries : &r.outer.eval_summaries) = sink;
        prepare_as(&r, &trains, &nested);
        const et_source_tree parts[] = { { .name = "dataset", .source = r.source[2] },
                                         { .name = "dataset2", .source = r.source[3] } };
        const et_source_tree both = { .parts = parts, .count = 2 };
        assert_ok(et_standard_evaluator_set_dataset(&r.evaluator, &both, error));
        r.options.evaluator = &r.evaluator.evaluator;
        open_controller(&r);
        assert_ok(et_controller_evaluate(r.controller, 5, NULL, error));
        finish(&r);
        assert_ok(et_sink_close(sink, error));
        for (int i = 0; i < 2; i++) {
            const char *set = below(directory, i ? "dataset2" : "dataset");
            assert_int_equal(events(set, "loss"), 1);
            assert_int_equal(events(set, "accuracy"), 1);
        }
    }
}

typedef struct recorder {
    et_action action;
    const char *name; /* of a value */
    int outputs;
} recorder;

static int record(et_action *self, const et_action_context *now, et_error *error)
{
    recorder *r = (recorder *)self;
    double value;
    int status = et_value_read_float(now->logs, r->name, &value, error);
    r->outputs += !status && value >= 0;
    return status;
}

static void test_controller_test__actions(void **state)
{
    static const et_action_class train_class = { .name = "train_recorder", .act = record };
    static const et_action_class eval_class = { .name = "eval_recorder", .act = record };
    recorder train = { .action.class = &train_class, .name = "loss" };
    recorder eval = { .action.class = &eval_class, .name = "eval_loss" };
    et_action *const train_actions[] = { &train.action }, *const eval_actions[] = { &eval.action };
    runner r = { .outer = { .train_actions = train_actions,
                            .eval_actions = eval_actions,
                            .train_action_count = 1,
                            .eval_action_count = 1 },
                 .options = { .steps_per_loop = 2,
                              .checkpoint_interval = 10,
                              .run.model_dir = in(state, "actions") } };
    prepare(&r);
    open_controller(&r);
    train_and_evaluate(&r, 6);
    assert_int_equal(train.outputs, 5);
    assert_int_equal(eval.outputs, 2);
    finish(&r);
}

static int64_t steps_per_loop(void *payload, int64_t step)
{
    (void)payload;
    return step > 4 ? 4 : 2;
}

static void test_controller_test__step_per_loop_callable(void **state)
{
    runner r = { .outer.steps_per_loop = steps_per_loop,
                 .options = { .checkpoint_interval = 10, .run.model_dir = in(state, "callable") } };
    prepare(&r);
    r.options.evaluator = NULL;
    open_controller(&r);
    assert_ok(et_controller_train_to(r.controller, 10, false, error));
    assert_int_equal(r.trainer.trainer.step, 10);
    assert_int_equal(et_controller_steps_per_loop(r.controller), 4);
    finish(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_controller_test__no_checkpoint),
        cmocka_unit_test(test_controller_test__no_checkpoint_and_summaries),
        cmocka_unit_test(test_controller_test__has_checkpoint_no_summaries),
        cmocka_unit_test(test_controller_test__has_checkpoint_eval_summary_only),
        cmocka_unit_test(test_controller_test__restore_from_most_recent_checkpoint),
        cmocka_unit_test(test_controller_test__train_and_evaluate),
        cmocka_unit_test(test_controller_test__train_only),
        cmocka_unit_test(test_controller_test__evaluate_only),
        cmocka_unit_test(test_controller_test__no_eval_steps),
        cmocka_unit_test(test_controller_test__already_trained_model),
        cmocka_unit_test(test_controller_test__summaries_inside_train_fn),
        cmocka_unit_test(test_controller_test__train_and_evaluate_with_same_summary_dir),
        cmocka_unit_test(test_controller_test__early_stop_on_eval_loss),
        cmocka_unit_test(test_controller_test__evaluate_with_loss_output),
        cmocka_unit_test(test_controller_test__evaluate_with_no_output),
        cmocka_unit_test(test_controller_test__train_and_evaluate_reset_datasets),
        cmocka_unit_test(test_controller_test__eval_and_checkpoint_interval),
        cmocka_unit_test(test_controller_test__evaluate_with_nested_summaries),
        cmocka_unit_test(test_controller_test__actions),
        cmocka_unit_test(test_controller_test__step_per_loop_callable),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
