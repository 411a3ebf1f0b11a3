/* Orbit, orbit/standard_runner_test.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <etude/standard.h>

#include "calls.h"

/* Numbers from 0, one in a batch. */
static et_source *range(int count, bool repeat)
{
    static int32_t numbers[10];
    const et_array arrays[] = { { "n", ET_I32, numbers, et_shape_scalar() } };
    et_samples *samples;
    et_source *source;
    for (int i = 0; i < 10; i++)
        numbers[i] = i;
    assert_ok(et_arrays_open(&samples, arrays, 1, count, error));
    assert_ok(et_batches_open(&source, samples,
                              &(et_batches_options){ .repeat = repeat, .capacity = { 1 } }, error));
    return source;
}

/* The result of a loop. */
static int64_t result_of(const et_value *logs)
{
    int64_t result;
    assert_ok(et_value_read_int(logs, "result", &result, error));
    return result;
}

/* ---- a trainer that counts the steps of a loop ---- */

typedef struct trainer {
    et_standard_trainer standard;
    int64_t count;
} trainer;

static int train_loop_begin(et_standard_trainer *self, et_error *error)
{
    (void)error;
    ((trainer *)self)->count = 0;
    return ET_OK;
}

static int train_step(et_standard_trainer *self, et_source_tree_cursor *cursor, et_error *error)
{
    const et_batch *batch;
    int status = et_source_tree_cursor_next(cursor, NULL, &batch, error);
    ((trainer *)self)->count += !status;
    return status;
}

static int train_loop_end(et_standard_trainer *self, et_value *logs, et_error *error)
{
    (void)error;
    et_value_set_int(logs, "result", ((trainer *)self)->count);
    return ET_OK;
}

static void train(bool tpu_summary_optimization)
{
    static const et_standard_trainer_class class = { .name = "TestTrainer",
                                                     .train_loop_begin = train_loop_begin,
                                                     .train_step = train_step,
                                                     .train_loop_end = train_loop_end };
    const et_source_tree data = { .source = range(1, true) };
    const et_standard_trainer_options options = { .tpu_summary_optimization =
                                                      tpu_summary_optimization };
    et_arena *arena = et_arena_new();
    et_value *logs = et_value_dict(arena);
    trainer t = { .count = 7 };
    assert_ok(et_standard_trainer_init(&t.standard, &class, &data, &options, error));
    assert_ok(et_trainer_train(&t.standard.trainer, 10, logs, error));
    assert_int_equal(result_of(logs), 10);
    et_standard_trainer_release(&t.standard);
    et_source_close(data.source);
    et_arena_free(arena);
}

static void test_standard_runner_test__default_trainer(void **state)
{
    (void)state;
    train(false);
}

static void test_standard_runner_test__trainer_with_tpu_summary_optimization(void **state)
{
    (void)state;
    train(true);
}

/* ---- evaluators that count, or add the numbers ---- */

typedef struct evaluator {
    et_standard_evaluator standard;
    int64_t count, sum;
} evaluator;

static int eval_begin(et_standard_evaluator *self, void **state, et_error *error)
{
    evaluator *e = (evaluator *)self;
    (void)error;
    e->count = e->sum = 0;
    *state = &e->sum;
    return ET_OK;
}

static int eval_step(et_standard_evaluator *self, et_source_tree_cursor *cursor, void **outputs,
                     et_error *error)
{
    const et_batch *batch;
    int status = et_source_tree_cursor_next(cursor, NULL, &batch, error);
    if (!status)
        *outputs = batch->data[0];
    ((evaluator *)self)->count += !status;
    return status;
}

static int eval_reduce(et_standard_evaluator *self, void **state, void *outputs, et_error *error)
{
    (void)self, (void)error;
    *(int64_t *)*state += *(const int32_t *)outputs;
    return ET_OK;
}

static int eval_end_count(et_standard_evaluator *self, void *state, et_value *logs, et_error *error)
{
    (void)state, (void)error;
    et_value_set_int(logs, "result", ((evaluator *)self)->count);
    return ET_OK;
}

static int eval_end_sum(et_standard_evaluator *self, void *state, et_value *logs, et_error *error)
{
    (void)self, (void)error;
    et_value_set_int(logs, "result", *(const int64_t *)state);
    return ET_OK;
}

static const et_standard_evaluator_class counts = {
    .name = "counts", .eval_begin = eval_begin, .eval_step = eval_step, .eval_end = eval_end_count
};
static const et_standard_evaluator_class adds = { .name = "adds",
                                                  .eval_begin = eval_begin,
                                                  .eval_step = eval_step,
                                                  .eval_reduce = eval_reduce,
                                                  .eval_end = eval_end_sum };

static int64_t evaluate(evaluator *e, int64_t steps)
{
    et_arena *arena = et_arena_new();
    et_value *logs = et_value_dict(arena);
    assert_ok(et_evaluate(&e->standard.evaluator, 0, steps, NULL, NULL, logs, error));
    const int64_t result = result_of(logs);
    et_arena_free(arena);
    return result;
}

static void test_standard_runner_test__default_evaluator(void **state)
{
    (void)state;
    for (int loop = 0; loop < 2; loop++) {
        const et_source_tree data = { .source = range(1, true) };
        evaluator e = { .count = 7 };
        assert_ok(et_standard_evaluator_init(
            &e.standard, &counts, &data, &(et_standard_evaluator_options){ .tf_while_loop = loop },
            error));
        assert_int_equal(evaluate(&e, 10), 10);
        et_standard_evaluator_release(&e.standard);
        et_source_close(data.source);
    }
}

static void test_standard_runner_test__evaluator_with_outputs_aggregation(void **state)
{
    (void)state;
    for (int loop = 0; loop < 2; loop++) {
        const et_source_tree data = { .source = range(10, false) };
        evaluator e = { .count = 7 };
        assert_ok(et_standard_evaluator_init(
            &e.standard, &adds, &data, &(et_standard_evaluator_options){ .tf_while_loop = loop },
            error));
        assert_int_equal(evaluate(&e, 10), 45);
        et_standard_evaluator_release(&e.standard);
        et_source_close(data.source);
    }
}

static void test_standard_runner_test__evaluator_with_repeat_dataset(void **state)
{
    (void)state;
    for (int keep = 0; keep < 2; keep++) {
        const et_source_tree data = { .source = range(10, false) };
        evaluator e = { .count = 7 };
        assert_ok(et_standard_evaluator_init(
            &e.standard, &adds, &data, &(et_standard_evaluator_options){ .keep_iterator = keep },
            error));
        assert_int_equal(evaluate(&e, 5), 10);
        assert_int_equal(evaluate(&e, 5), keep ? 35 : 10);
        et_standard_evaluator_release(&e.standard);
        et_source_close(data.source);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_standard_runner_test__default_trainer),
        cmocka_unit_test(test_standard_runner_test__trainer_with_tpu_summary_optimization),
        cmocka_unit_test(test_standard_runner_test__default_evaluator),
        cmocka_unit_test(test_standard_runner_test__evaluator_with_outputs_aggregation),
        cmocka_unit_test(test_standard_runner_test__evaluator_with_repeat_dataset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
