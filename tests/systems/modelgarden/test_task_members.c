/* Each member of a task's trainer as Model Garden has it: the whole and by parts, the order of
 * calls, data and steps that the program gives. */
#include <etude/task.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <etude/log.h>

#include "base/values/value.h"
#include "engine/tensor/params.h"
#include "systems/modelgarden/task_trainer_private.h"
#include "train/mock_task.h"

/* ---- by parts ---- */

static void test_task_members__train_by_parts(void **state)
{
    (void)state;
    bench whole, parts;
    bench_init(&whole, &plain_class);
    assert_ok(bench_open(&whole, error));
    assert_ok(et_task_trainer_train(whole.r.trainer, 3, whole.logs, error));
    bench_init(&parts, &plain_class);
    assert_ok(bench_open(&parts, error));
    et_task_trainer *t = parts.r.trainer;
    et_batch *inputs, *again;
    assert_ok(et_task_trainer_train_loop_begin(t, error));
    assert_ok(et_task_trainer_next_train_inputs(t, NULL, &inputs, error));
    assert_int_equal(inputs->filled[0], ROWS);
    assert_ok(et_task_trainer_next_train_inputs(t, NULL, &again, error)); /* is that one still */
    assert_ptr_equal(inputs, again);
    assert_ok(et_task_trainer_train_step(t, NULL, error));
    assert_ok(et_task_trainer_create_train_loop_fn(t)(t, NULL, 2, error));
    assert_int_equal(parts.trainer->step, 3);
    assert_ok(et_task_trainer_train_loop_end(t, parts.logs, error));
    assert_true(logged(&parts, "training_loss") == logged(&whole, "training_loss"));
    assert_ok(et_task_trainer_train_loop_end(t, parts.logs, error));
    assert_true(isnan(logged(&parts, "training_loss"))); /* was reset */
    bench_close(&whole);
    bench_close(&parts);
}

static void test_task_members__evaluate_by_parts(void **state)
{
    (void)state;
    bench whole, parts;
    bench_init(&whole, &own_class);
    assert_ok(bench_open(&whole, error));
    assert_ok(et_task_trainer_evaluate(whole.r.trainer, 2, whole.logs, error));
    bench_init(&parts, &own_class);
    assert_ok(bench_open(&parts, error));
    et_task_trainer *t = parts.r.trainer;
    et_value *kept = et_value_dict(&parts.arena);
    assert_ok(et_task_trainer_eval_begin(t, error));
    for (int i = 0; i < 2; i++) {
        et_batch *inputs;
        bool more;
        et_value *outputs = et_value_dict(&parts.arena);
        assert_ok(et_task_trainer_next_eval_inputs(t, NULL, &inputs, NULL, error));
        assert_int_equal(inputs->filled[0], ROWS);
        assert_ok(et_task_trainer_eval_step(t, NULL, outputs, &more, error));
        assert_true(more);
        assert_ok(et_task_trainer_eval_reduce(t, kept, outputs, error));
    }
    assert_ok(et_task_trainer_eval_end(t, kept, parts.logs, error));
    assert_true(logged(&parts, "counter") == 2 && logged(&whole, "counter") == 2);
    assert_true(logged(&parts, "labels") == logged(&whole, "labels"));
    assert_ok(et_task_trainer_eval_begin(t, error));
    for (int i = 0; i < 2; i++)
        assert_ok(et_task_trainer_create_eval_loop_fn(t, true)(t, NULL, 1, error));
    assert_ok(et_task_trainer_eval_end(t, NULL, parts.logs, error));
    assert_float_equal(logged(&parts, "counter"), 2, 0);

    /* Neither after the end, nor a step before the begin. */
    bool more;
    assert_fails(et_task_trainer_eval_step(t, NULL, NULL, &more, error), ET_EUSAGE, "eval_begin");
    assert_fails(et_task_trainer_eval_reduce(t, kept, kept, error), ET_EUSAGE, "eval_begin");
    assert_fails(et_task_trainer_eval_end(t, NULL, parts.logs, error), ET_EUSAGE, "eval_begin");
    assert_ok(et_task_trainer_eval_begin(t, error));
    assert_fails(et_task_trainer_train_step(t, NULL, error), ET_EUSAGE, "call eval_end");
    assert_fails(et_task_trainer_initialize(t, error), ET_EUSAGE, "call eval_end");
    assert_ok(et_task_trainer_eval_end(t, NULL, NULL, error));
    assert_ok(et_task_trainer_train(t, 1, NULL, error));
    assert_ok(et_trainer_train(et_task_trainer_trainer(t), 1, NULL, error));
    bench_close(&whole);
    bench_close(&parts);
}

static char last_warning[256];

static void listen(void *payload, et_log_level level, const char *text)
{
    (void)payload;
    if (level == ET_LOG_WARNING)
        snprintf(last_warning, sizeof last_warning, "%s", text);
}

/* Fewer data than asked for: what there is, with a warning. */
static void test_task_members__evaluation_steps(void **state)
{
    (void)state;
    bench b;
    bench_init(&b, &own_class);
    assert_ok(bench_open(&b, error));
    et_log_set(listen, NULL);
    last_warning[0] = 0;
    assert_ok(et_task_trainer_evaluate(b.r.trainer, 3, b.logs, error));
    assert_string_equal(last_warning, "");
    assert_ok(et_task_trainer_evaluate(b.r.trainer, 5, b.logs, error));
    et_log_set(NULL, NULL);
    assert_float_equal(logged(&b, "counter"), 3, 0);
    assert_non_null(strstr(last_warning, "the data ended after 3 of 5 evaluation steps"));
    assert_fails(et_task_trainer_evaluate(b.r.trainer, -2, b.logs, error), ET_EUSAGE, "-2");
    assert_fails(et_task_trainer_train(b.r.trainer, -1, b.logs, error), ET_EUSAGE, "-1");
    bench_close(&b);
}

/* Data that repeat: all of them are one pass; with a number of steps they go on. */
static void test_task_members__evaluates_one_pass(void **state)
{
    (void)state;
    bench b;
    et_task_trainer_given given = { 0 };
    bench_init(&b, &own_class);
    assert_ok(mock_data(NULL, true, &given.validation_dataset, error));
    b.r.trainer_options.given = &given;
    assert_ok(bench_open(&b, error));
    for (int i = 0; i < 2; i++) {
        assert_ok(et_task_trainer_evaluate(b.r.trainer, -1, b.logs, error));
        assert_float_equal(logged(&b, "counter"), 3, 0);
        assert_ok(et_evaluate(b.evaluator, 0, -1, NULL, NULL, b.logs, error));
        assert_float_equal(logged(&b, "counter"), 3, 0);
        assert_ok(et_task_trainer_evaluate(b.r.trainer, 5, b.logs, error));
        assert_float_equal(logged(&b, "counter"), 5, 0);
    }
    bench_close(&b);
}

/* ---- the program's own batches and outputs ---- */

typedef struct given {
    int train, eval, exported;
    bool fails;
} given;

static int next_train(void *self, et_source *iterator, et_batch *batch, et_error *error)
{
    ((given *)self)->train++;
    return et_source_next(iterator, batch, error);
}

static int next_eval(void *self, et_source *iterator, et_batch *batch, et_value *extra,
                     et_error *error)
{
    given *g = self;
    et_value_set_float(extra, "counter", 100);
    et_value_set_int(extra, "host", ++g->eval);
    return et_source_next(iterator, batch, error);
}

static int export(void *self, int64_t step, et_value *logs, et_error *error)
{
    given *g = self;
    g->exported++;
    et_value_set_float(logs, "best_counter", (double)step);
    return g->fails ? et_fail(error, ET_EIO, "the disk is gone") : ET_OK;
}

static int host_aggregate(et_task *self, et_value *state, const et_value *step_outputs,
                          et_error *error)
{
    double host = 0, counter = 0;
    int status = et_value_read_float(step_outputs, "host", &host, error);
    if (!status)
        status = et_value_read_float(step_outputs, "counter", &counter, error);
    assert_float_equal(counter, 1, 0); /* the model's, not the 100 that went past it */
    et_value_set_float(state, "host", host);
    return status ? status : own_aggregate(self, state, step_outputs, error);
}

/* Values from outside the model, the precedence if both have a value, and data from outside. */
static void test_task_members__given(void **state)
{
    (void)state;
    et_task_class class = own_class;
    class.aggregate_logs = host_aggregate;
    class.data = NULL;
    given g = { 0 };
    et_task_trainer_given from_outside = { .next_train_inputs = next_train,
                                           .next_eval_inputs = next_eval,
                                           .checkpoint_exporter = export,
                                           .self = &g };
    bench b;
    bench_init(&b, &class);
    assert_ok(mock_data(NULL, true, &from_outside.train_dataset, error));
    assert_ok(mock_data(NULL, false, &from_outside.validation_dataset, error));
    b.r.trainer_options.given = &from_outside;
    assert_ok(bench_open(&b, error));
    assert_ok(et_task_trainer_train(b.r.trainer, 4, b.logs, error));
    assert_int_equal(g.train, 4);
    et_log_set(listen, NULL);
    assert_ok(et_task_trainer_evaluate(b.r.trainer, -1, b.logs, error));
    et_log_set(NULL, NULL);
    assert_non_null(strstr(last_warning, "counter"));
    assert_int_equal(g.eval, 4); /* the end among them */
    assert_int_equal(g.exported, 1);
    assert_float_equal(logged(&b, "best_counter"), 4, 0);
    assert_float_equal(logged(&b, "counter"), 3, 0);
    g.fails = true;
    assert_fails(et_task_trainer_evaluate(b.r.trainer, -1, b.logs, error), ET_EIO, "disk is gone");
    bench_close(&b);
}

static int no_optimizer(et_task *self, const et_optimizer_request *request, et_optimizer **out,
                        et_error *error)
{
    (void)self, (void)request, (void)error;
    *out = NULL;
    return ET_OK;
}

typedef struct closed_source {
    et_source source;
    et_source *inner;
    int *closed;
} closed_source;

static int pass_next(et_source *self, et_batch *batch, et_error *error)
{
    return et_source_next(((closed_source *)(void *)self)->inner, batch, error);
}

static void pass_position(const et_source *self, et_position *position)
{
    et_source_position(((const closed_source *)(const void *)self)->inner, position);
}

static int pass_seek(et_source *self, const et_position *position, et_error *error)
{
    return et_source_seek(((closed_source *)(void *)self)->inner, position, error);
}

static void pass_close(et_source *self)
{
    closed_source *c = (closed_source *)(void *)self;
    ++*c->closed;
    et_source_close(c->inner);
    free(c);
}

static et_source *watched(bool training, int *closed)
{
    static const et_source_class class = { .name = "watched",
                                           .next = pass_next,
                                           .position = pass_position,
                                           .seek = pass_seek,
                                           .close = pass_close };
    closed_source *c = calloc(1, sizeof *c);
    assert_non_null(c);
    assert_ok(mock_data(NULL, training, &c->inner, error));
    c->closed = closed;
    c->source = (et_source){ .class = &class, .layout = c->inner->layout };
    return &c->source;
}

/* Evaluations would move the training data. */
static void test_task_members__given_twice(void **state)
{
    (void)state;
    int closed = 0;
    et_source *source = watched(true, &closed);
    et_task_trainer_given both = { .train_dataset = source, .validation_dataset = source };
    bench b;
    bench_init(&b, &plain_class);
    b.r.trainer_options.given = &both;
    assert_fails(bench_open(&b, error), ET_EUSAGE,
                 "train_dataset and validation_dataset are one source");
    bench_close(&b);
    assert_int_equal(closed, 0);
    et_source_close(source);
}

/* Both are closed, whichever of them `use` has the trainer read; after a failure neither is. */
static void test_task_members__given_but_unread(void **state)
{
    (void)state;
    for (int use = ET_TRAIN_AND_EVALUATE; use <= ET_EVALUATE_ONLY; use++)
        for (int fails = 0; fails < 2; fails++) {
            et_task_class class = plain_class;
            int closed = 0;
            bench b;
            class.data = NULL;
            class.create_optimizer = fails ? no_optimizer : NULL;
            et_task_trainer_given both = { .train_dataset = watched(true, &closed),
                                           .validation_dataset = watched(false, &closed) };
            bench_init(&b, &class);
            b.r.trainer_options.given = &both;
            b.r.trainer_options.use = use;
            assert_int_equal(bench_open(&b, NULL), fails ? ET_ECONFIG : ET_OK);
            bench_close(&b);
            assert_int_equal(closed, fails ? 0 : 2);
            if (fails) {
                et_source_close(both.train_dataset);
                et_source_close(both.validation_dataset);
            }
        }
}

/* ---- an evaluation that fails, calls in another order ---- */

/* Weights come back however an evaluation ends: there is an average, so it shows others. */
static int failing_step(et_task *self, const et_task_step *now, et_value *logs, et_error *error)
{
    (void)self, (void)now, (void)logs;
    return et_fail(error, ET_EIO, "gone");
}

static int failing_reduce(et_task *self, const et_value *aggregated_logs, int64_t global_step,
                          et_value *results, et_error *error)
{
    (void)self, (void)aggregated_logs, (void)global_step, (void)results;
    return et_fail(error, ET_EIO, "gone");
}

static void test_task_members__weights_come_back(void **state)
{
    (void)state;
    for (int where = 0; where < 3; where++) {
        et_task_class class = plain_class;
        class.aggregate_logs = own_aggregate; /* fails: nothing logs a counter */
        if (where == 1)
            class.validation_step = failing_step;
        if (where == 2) {
            class = own_class;
            class.reduce_aggregated_logs = failing_reduce;
        }
        bench b;
        bench_init(&b, &class);
        b.optimizer.settings = "ema: {enabled: true, average_decay: 0.5}";
        assert_ok(bench_open(&b, error));
        assert_ok(et_task_trainer_train(b.r.trainer, 4, b.logs, error));
        const float *shown = et_params_values(b.r.params);
        size_t bytes = (size_t)et_params_flat_size(b.r.params) * sizeof(float);
        float *before = malloc(bytes);
        memcpy(before, shown, bytes);
        assert_int_not_equal(et_task_trainer_evaluate(b.r.trainer, -1, b.logs, NULL), ET_OK);
        assert_ptr_equal(et_params_values(b.r.params), shown);
        assert_memory_equal(before, shown, bytes);
        free(before);
        bench_close(&b);
    }
}

static int open_shard(void *payload, const et_input_context *context, et_source **out,
                      et_error *error)
{
    assert_int_equal(context->input_pipelines, 1);
    assert_int_equal(context->input_pipeline, 0);
    return mock_data(payload, true, out, error);
}

/* Another iterator for a step. */
static void test_task_members__iterators(void **state)
{
    (void)state;
    bench b;
    bench_init(&b, &plain_class);
    assert_ok(bench_open(&b, error));
    et_source *other;
    assert_ok(et_task_trainer_distribute_dataset(b.r.trainer, open_shard, NULL, &other, error));
    assert_ok(et_task_trainer_train_step(b.r.trainer, other, error));
    assert_ok(et_task_trainer_train_step(b.r.trainer, NULL, error));
    assert_int_equal(b.trainer->step, 2);
    et_position position;
    et_source_position(other, &position);
    et_batch *batch;
    assert_ok(et_batch_new(&batch, &other->layout, error));
    assert_ok(et_source_next(other, batch, error));
    et_batch_free(batch);
    et_source_close(other);
    assert_fails(et_task_trainer_distribute_dataset(b.r.trainer, NULL, NULL, &other, error),
                 ET_EUSAGE, "needs a function");
    assert_fails(et_task_trainer_distribute_source(b.r.trainer, NULL, &other, error), ET_EUSAGE,
                 "needs a data set");
    /* A data set that is open already; two that the model cannot read. */
    et_source *dataset;
    assert_ok(mock_data(NULL, true, &dataset, error));
    assert_ok(et_task_trainer_distribute_source(b.r.trainer, dataset, &other, error));
    assert_ptr_equal(other, dataset);
    assert_ok(et_task_trainer_train_step(b.r.trainer, other, error));
    et_source_close(dataset);
    static int32_t whole[SAMPLES * 2];
    const et_array wrong[] = { { "x", ET_I32, whole, et_shape_1(2) },
                               { "labels", ET_I32, whole, et_shape_scalar() } };
    assert_ok(toy_source(&dataset, wrong, 1, SAMPLES, ROWS, true, error));
    assert_fails(et_task_trainer_distribute_source(b.r.trainer, dataset, &other, error), ET_ECONFIG,
                 "field x of the data set");
    et_source_close(dataset);
    assert_ok(toy_source(&dataset, wrong + 1, 1, SAMPLES, ROWS, true, error));
    assert_fails(et_task_trainer_distribute_source(b.r.trainer, dataset, &other, error), ET_ECONFIG,
                 "no field x");
    et_source_close(dataset);
    bench_close(&b);
}

/* ---- members that a program overrides ---- */

typedef struct overrides {
    bool alone;     /* the trainer's own are not called */
    int64_t added;  /* since train_loop_begin, which resets it */
    bool fails;     /* eval_begin does */
    bool stateless; /* eval_end was given no state */
} overrides;

static int given_train_loop_begin(void *self, et_task_trainer *t, et_error *error)
{
    overrides *o = self;
    say("begin");
    o->added = 0;
    return o->alone ? ET_OK : et_task_trainer_train_loop_begin(t, error);
}

static int given_next(void *self, et_source *iterator, et_batch *batch, et_error *error)
{
    ((overrides *)self)->added++;
    return et_source_next(iterator, batch, error);
}

static int given_train_loop_end(void *self, et_task_trainer *t, et_value *logs, et_error *error)
{
    overrides *o = self;
    say("end");
    et_value_set_int(logs, "added", o->added);
    return o->alone ? ET_OK : et_task_trainer_train_loop_end(t, logs, error);
}

static int given_eval_begin(void *self, et_task_trainer *t, et_error *error)
{
    overrides *o = self;
    say("eval_begin");
    if (o->fails)
        return et_fail(error, ET_EIO, "gone");
    return o->alone ? ET_OK : et_task_trainer_eval_begin(t, error);
}

static int given_eval_reduce(void *self, et_task_trainer *t, et_value *state,
                             const et_value *step_outputs, et_error *error)
{
    overrides *o = self;
    int64_t steps = 0;
    say("reduce");
    if (et_value_get(state, "steps") && et_value_read_int(state, "steps", &steps, error))
        return ET_EFAIL;
    et_value_set_int(state, "steps", steps + 1);
    return o->alone ? ET_OK : et_task_trainer_eval_reduce(t, state, step_outputs, error);
}

static int given_eval_end(void *self, et_task_trainer *t, const et_value *aggregated_logs,
                          et_value *logs, et_error *error)
{
    overrides *o = self;
    say("eval_end");
    o->stateless = !aggregated_logs;
    if (aggregated_logs && et_value_merge(logs, aggregated_logs, error))
        return ET_EFAIL;
    return o->alone ? ET_OK : et_task_trainer_eval_end(t, aggregated_logs, logs, error);
}

static et_task_trainer_given all_given(overrides *o)
{
    return (et_task_trainer_given){ .next_train_inputs = given_next,
                                    .train_loop_begin = given_train_loop_begin,
                                    .train_loop_end = given_train_loop_end,
                                    .eval_begin = given_eval_begin,
                                    .eval_reduce = given_eval_reduce,
                                    .eval_end = given_eval_end,
                                    .self = o };
}

static void open_overridden(bench *b, const et_task_class *class, et_task_trainer_given *own)
{
    bench_init(b, class);
    b->optimizer.settings = "ema: {enabled: true, average_decay: 0.5}";
    b->r.trainer_options.given = own;
    assert_ok(bench_open(b, error));
    words[0] = 0;
}

/* The begin word occurs once, and before the other. */
static void assert_once_in_order(const char *begin, const char *end)
{
    const char *first = strstr(words, begin), *last = strstr(words, end);
    if (!first || !last || last < first || strstr(first + 1, begin) || strstr(last + 1, end))
        fail_msg("%s", words);
}

/* What calls the trainer's own adds to it: by the members and by a driver. */
static void test_task_members__overridden(void **state)
{
    (void)state;
    for (int driven = 0; driven < 2; driven++) {
        overrides o = { .alone = false };
        et_task_trainer_given own = all_given(&o);
        bench plain, b;
        open_overridden(&plain, &own_class, NULL);
        open_overridden(&b, &own_class, &own);
        et_task_trainer *t = b.r.trainer;
        for (int loop = 0; loop < 2; loop++) {
            assert_ok(et_task_trainer_train(plain.r.trainer, 2, plain.logs, error));
            words[0] = 0;
            assert_ok(driven ? et_trainer_train(b.trainer, 2, b.logs, error)
                             : et_task_trainer_train(t, 2, b.logs, error));
            assert_once_in_order("begin", "end");
            assert_true(logged(&b, "added") == 2);
            assert_true(logged(&b, "training_loss") == logged(&plain, "training_loss"));
            assert_ok(et_task_trainer_evaluate(plain.r.trainer, 2, plain.logs, error));
            words[0] = 0;
            assert_ok(driven
                          ? et_evaluate(b.evaluator, b.trainer->step, 2, NULL, NULL, b.logs, error)
                          : et_task_trainer_evaluate(t, 2, b.logs, error));
            assert_once_in_order("eval_begin", "eval_end");
            assert_non_null(strstr(words, "reduce"));
            assert_true(logged(&b, "steps") == 2);
            assert_true(logged(&b, "counter") == logged(&plain, "counter"));
            assert_true(logged(&b, "validation_loss") == logged(&plain, "validation_loss"));
        }
        words[0] = 0;
        assert_ok(et_task_trainer_train(t, 0, b.logs, error));
        assert_ok(et_trainer_train(b.trainer, 0, b.logs, error));
        assert_string_equal(words, "begin end begin end");
        bench_close(&plain);
        bench_close(&b);
    }
}

/* In place of the trainer's own, which do nothing then. */
static void test_task_members__overridden_alone(void **state)
{
    (void)state;
    overrides o = { .alone = true };
    et_task_trainer_given own = all_given(&o);
    bench plain, b;
    open_overridden(&plain, &plain_class, NULL);
    open_overridden(&b, &plain_class, &own);
    et_task_trainer *t = b.r.trainer;
    for (int i = 0; i < 2; i++)
        assert_ok(et_task_trainer_train(t, 2, b.logs, error));
    assert_string_equal(words, "begin end begin end");
    assert_null(et_value_get(b.logs, "training_loss"));
    assert_true(logged(&b, "added") == 2);
    /* Nothing has reset metrics: those at the trainer's own end cover all four steps. */
    assert_ok(et_task_trainer_train(plain.r.trainer, 4, plain.logs, error));
    o.alone = false;
    assert_ok(et_task_trainer_train_loop_end(t, b.logs, error));
    assert_true(logged(&b, "training_loss") == logged(&plain, "training_loss"));
    o.alone = true;
    words[0] = 0;
    assert_ok(et_task_trainer_evaluate(t, 2, b.logs, error));
    assert_string_equal(words, "eval_begin reduce reduce eval_end");
    assert_true(logged(&b, "steps") == 2);
    assert_null(et_value_get(b.logs, "validation_loss"));
    bench_close(&b);
    /* Nothing shows averaged weights or resets metrics: the loss is that of the weights before and
     * after the second training. */
    own.eval_end = NULL;
    open_overridden(&b, &plain_class, &own);
    assert_ok(et_task_trainer_evaluate(plain.r.trainer, 2, plain.logs, error));
    assert_ok(et_task_trainer_train(b.r.trainer, 4, b.logs, error));
    assert_ok(et_task_trainer_evaluate(b.r.trainer, 2, b.logs, error));
    const double before = logged(&b, "validation_loss");
    assert_true(before != logged(&plain, "validation_loss"));
    assert_ok(et_task_trainer_train(b.r.trainer, 9, b.logs, error));
    assert_ok(et_task_trainer_evaluate(b.r.trainer, 2, b.logs, error));
    const double both = logged(&b, "validation_loss");
    assert_ok(et_task_trainer_evaluate(b.r.trainer, 2, b.logs, error));
    assert_true(both < before && logged(&b, "validation_loss") < both);
    /* If a begin fails, no evaluation has begun. */
    o.fails = true;
    assert_fails(et_task_trainer_evaluate(b.r.trainer, 2, b.logs, error), ET_EIO, "gone");
    assert_fails(et_task_trainer_eval_begin(b.r.trainer, error), ET_EIO, "gone");
    assert_ok(et_task_trainer_train(b.r.trainer, 1, b.logs, error));
    bench_close(&plain);
    bench_close(&b);
}

/* Overriding functions that call a function of the step or the evaluation in which they are. */
static et_task_trainer *under_way;

static int train_in_next(void *self, et_source *iterator, et_batch *batch, et_error *error)
{
    (void)self, (void)batch;
    return et_task_trainer_next_train_inputs(under_way, iterator, &(et_batch *){ NULL }, error);
}

static int next_in_next(void *self, et_source *iterator, et_batch *batch, et_value *extra,
                        et_error *error)
{
    (void)self, (void)batch;
    return et_task_trainer_next_eval_inputs(under_way, iterator, &(et_batch *){ NULL }, extra,
                                            error);
}

static int end_in_reduce(void *self, et_task_trainer *t, et_value *state,
                         const et_value *step_outputs, et_error *error)
{
    (void)self, (void)state, (void)step_outputs;
    return et_task_trainer_eval_end(t, NULL, NULL, error);
}

static void test_task_members__overridden_within(void **state)
{
    (void)state;
    et_task_trainer_given own[] = { { .next_train_inputs = train_in_next },
                                    { .next_eval_inputs = next_in_next },
                                    { .eval_reduce = end_in_reduce } };
    static const char *const says[] = { "next_train_inputs of own calls",
                                        "next_eval_inputs of own calls",
                                        "eval_reduce of own calls" };
    for (int i = 0; i < 3; i++) {
        bench b;
        open_overridden(&b, &own_class, &own[i]);
        under_way = b.r.trainer;
        assert_fails(i ? et_task_trainer_evaluate(under_way, -1, b.logs, error)
                       : et_task_trainer_train(under_way, 1, b.logs, error),
                     ET_EUSAGE, says[i]);
        assert_fails(et_task_trainer_eval_end(under_way, NULL, b.logs, error), ET_EUSAGE, "begun");
        bench_close(&b);
    }
}

/* Without a state the task's aggregation is no part of an evaluation. */
static void test_task_members__has_state(void **state)
{
    (void)state;
    for (int has_state = 0; has_state < 2; has_state++) {
        overrides o = { .alone = false };
        et_task_trainer_given own = { .eval_end = given_eval_end, .self = &o };
        bench b;
        open_overridden(&b, &own_class, &own);
        et_task_trainer *t = b.r.trainer;
        et_loop_fn *loop = et_task_trainer_create_eval_loop_fn(t, has_state);
        assert_true(et_task_trainer_create_eval_loop_fn(t, has_state) == loop);
        assert_ok(et_task_trainer_eval_begin(t, error));
        assert_ok(loop(t, NULL, 2, error));
        assert_ok(et_task_trainer_eval_end(t, NULL, b.logs, error));
        assert_int_equal(o.stateless, !has_state);
        assert_int_equal(et_value_get(b.logs, "counter") != NULL, has_state);
        assert_true(logged(&b, "validation_loss") > 0);
        /* The next evaluation has one. */
        assert_ok(et_task_trainer_evaluate(t, 2, b.logs, error));
        assert_true(logged(&b, "counter") == 2);
        bench_close(&b);
    }
}

/* Members of an evaluation that nobody has begun. */
static void test_task_members__order_of_calls(void **state)
{
    (void)state;
    bench b;
    et_batch *inputs;
    bool more;
    bench_init(&b, &plain_class);
    assert_ok(bench_open(&b, error));
    et_task_trainer *t = b.r.trainer;
    assert_fails(et_task_trainer_next_eval_inputs(t, NULL, &inputs, NULL, error), ET_EUSAGE,
                 "call eval_begin first");
    assert_fails(et_task_trainer_eval_step(t, NULL, NULL, &more, error), ET_EUSAGE, "eval_begin");
    assert_fails(et_task_trainer_create_eval_loop_fn(t, false)(t, NULL, 1, error), ET_EUSAGE,
                 "eval_begin");
    assert_fails(et_task_trainer_eval_end(t, NULL, b.logs, error), ET_EUSAGE, "eval_begin");
    assert_fails(et_task_trainer_eval_end(t, NULL, NULL, error), ET_EUSAGE, "eval_begin");
    assert_ok(et_task_trainer_evaluate(t, -1, b.logs, error));
    bench_close(&b);
}

/* train=False, evaluate=False. */
static void test_task_members__use(void **state)
{
    (void)state;
    bench b;
    bench_init(&b, &plain_class);
    b.r.trainer_options.use = ET_EVALUATE_ONLY;
    assert_ok(bench_open(&b, error));
    assert_ok(et_task_trainer_evaluate(b.r.trainer, -1, b.logs, error));
    assert_true(logged(&b, "validation_loss") > 0);
    assert_fails(et_task_trainer_train(b.r.trainer, 1, b.logs, error), ET_EUSAGE, "evaluate only");
    bench_close(&b);
    bench_init(&b, &plain_class);
    b.r.trainer_options.use = ET_TRAIN_ONLY;
    assert_ok(bench_open(&b, error));
    assert_null(b.evaluator);
    assert_fails(et_task_trainer_evaluate(b.r.trainer, -1, b.logs, error), ET_EUSAGE,
                 "no validation data");
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_task_members__train_by_parts),
        cmocka_unit_test(test_task_members__evaluate_by_parts),
        cmocka_unit_test(test_task_members__evaluation_steps),
        cmocka_unit_test(test_task_members__evaluates_one_pass),
        cmocka_unit_test(test_task_members__overridden),
        cmocka_unit_test(test_task_members__overridden_alone),
        cmocka_unit_test(test_task_members__overridden_within),
        cmocka_unit_test(test_task_members__has_state),
        cmocka_unit_test(test_task_members__given),
        cmocka_unit_test(test_task_members__given_but_unread),
        cmocka_unit_test(test_task_members__given_twice),
        cmocka_unit_test(test_task_members__weights_come_back),
        cmocka_unit_test(test_task_members__iterators),
        cmocka_unit_test(test_task_members__order_of_calls),
        cmocka_unit_test(test_task_members__use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
