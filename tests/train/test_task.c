/* Tasks and their trainer as Model Garden has them: each method by its default and overridden, the
 * order of calls, and each member of the trainer. Model Garden's own mock task logs a loss of its
 * own and counts; so do these. */
#include <etude/task.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <etude/log.h>
#include <etude/nn.h>

#include "base/arena.h"
#include "io/files.h"
#include "optim/optimizer.h"
#include "train/step.h"
#include "train/toy_run.h"

enum { SAMPLES = 12, CLASSES = 3, ROWS = 4 };

static char words[4096];

static void say(const char *word)
{
    if (strlen(words) + strlen(word) + 2 < sizeof words) {
        strcat(words, *words ? " " : "");
        strcat(words, word);
    }
}

static float x[SAMPLES * 2];
static int32_t labels[SAMPLES];

static int mock_data(et_task *self, bool training, et_source **out, et_error *error)
{
    const et_array arrays[] = { { "x", ET_F32, x, et_shape_1(2) },
                                { "labels", ET_I32, labels, et_shape_scalar() } };
    (void)self;
    for (int i = 0; i < SAMPLES; i++) {
        labels[i] = i % CLASSES;
        x[2 * i] = (float)(labels[i] - 1) + (float)i / 100;
        x[2 * i + 1] = (float)(i % 5) / 5;
    }
    return toy_source(out, arrays, 2, SAMPLES, ROWS, training, error);
}

static void mock_model(et_task *self, et_scope *s, bool training, et_nodes *outputs,
                       et_nodes *aux_losses)
{
    (void)self, (void)training;
    et_node *logits = et_dense(et_in(s, "logits"), et_batch_input(s, "x"), CLASSES);
    et_node *weight = et_param(s, "penalised", et_shape_scalar(), (et_init){ ET_INIT_ONES, 0 });
    et_output(s, "outputs", logits);
    et_nodes_put(outputs, "logits", logits);
    et_nodes_put(aux_losses, "penalty", et_mul(weight, weight));
}

static void mock_losses(et_task *self, et_scope *s, const et_nodes *outputs,
                        const et_nodes *aux_losses)
{
    assert_null(et_nodes_get(outputs, "no such"));
    et_loss(s, "loss",
            et_softmax_loss(et_nodes_get(outputs, "logits"), et_batch_input(s, "labels"), 0), 1);
    et_task_defaults.build_losses(self, s, outputs, aux_losses);
}

/* ---- a bench for them ---------------------------------------------------------------------------
 */

typedef struct bench {
    toy_run r;
    et_optimizer_setup optimizer;
    et_arena arena;
    et_value *logs;
    et_evaluator *evaluator;
    et_trainer *trainer;
} bench;

static void bench_init(bench *b, const et_task_class *class)
{
    *b = (bench){ .optimizer = { .rule = "sgd", .learning_rate = 0.5 } };
    toy_run_init(&b->r, class);
    b->r.trainer_options.optimizer = &b->optimizer;
    b->r.trainer_options.batches = 1;
    b->r.trainer_options.seed = 3;
    b->logs = et_value_dict(&b->arena);
    words[0] = 0;
}

static int bench_open(bench *b, et_error *error)
{
    int status = toy_run_start_trainer(&b->r, error);
    if (!status)
        status = et_task_trainer_initialize(b->r.trainer, error);
    b->trainer = status ? NULL : et_task_trainer_trainer(b->r.trainer);
    b->evaluator = status ? NULL : et_task_trainer_evaluator(b->r.trainer);
    return status;
}

static void bench_close(bench *b)
{
    toy_run_close(&b->r);
    et_arena_release(&b->arena);
}

static double logged(const bench *b, const char *name)
{
    double value = NAN;
    if (et_value_read_float(b->logs, name, &value, NULL))
        fail_msg("no %s", name);
    return value;
}

/* ---- the defaults ------------------------------------------------------------------------------
 */

static int mock_metrics(et_task *self, bool training, et_metrics *metrics, et_error *error)
{
    (void)self;
    return et_metrics_define(metrics, training ? "hits" : "validation_hits", &et_metric_accuracy,
                             error);
}

static const et_task_class plain_class = { .name = "plain",
                                           .data = mock_data,
                                           .build_model = mock_model,
                                           .build_losses = mock_losses,
                                           .build_metrics = mock_metrics };

/* Metrics of build_metrics see every row of every batch of an update: they agree with the loss's
 * own accuracy. The train loop's end resets. */
static void test_task__defaults(void **state)
{
    (void)state;
    for (int batches = 1; batches <= 2; batches++) {
        bench b;
        bench_init(&b, &plain_class);
        b.r.trainer_options.batches = batches;
        assert_ok(bench_open(&b, error));
        assert_ok(et_task_trainer_train(b.r.trainer, 6, b.logs, error));
        assert_int_equal(b.trainer->step, 6);
        assert_true(logged(&b, "hits") == logged(&b, "training_accuracy"));
        assert_true(logged(&b, "training_penalty") < 1);
        assert_float_equal(logged(&b, "learning_rate"), 0.5, 0);
        double before = logged(&b, "training_loss");
        assert_ok(et_task_trainer_train(b.r.trainer, 6, b.logs, error));
        assert_true(logged(&b, "training_loss") < before);
        assert_ok(et_task_trainer_evaluate(b.r.trainer, -1, b.logs, error));
        assert_true(logged(&b, "validation_hits") == logged(&b, "validation_accuracy"));
        assert_true(logged(&b, "validation_loss") < before);
        bench_close(&b);
    }
}

/* Without an override of build_losses the aux losses are the whole loss. */
static void test_task__aux_losses_alone(void **state)
{
    (void)state;
    static const et_task_class class = { .name = "aux",
                                         .data = mock_data,
                                         .build_model = mock_model };
    bench b;
    bench_init(&b, &class);
    b.optimizer.learning_rate = 0.1;
    assert_ok(bench_open(&b, error));
    assert_ok(et_task_trainer_train(b.r.trainer, 1, b.logs, error));
    assert_float_equal(logged(&b, "training_penalty"), 1. / ROWS, 1e-6);
    bench_close(&b);
}

static volatile sig_atomic_t stop;

static int stop_at_fifth(void *self, et_source *iterator, et_batch *batch, et_error *error)
{
    stop = ++*(int *)self == 5;
    return et_source_next(iterator, batch, error);
}

/* Interrupted in the middle of a window, and gone on with: the same bytes, the task's own metrics
 * and the loss scale's count among them. */
static void test_task__resumes(void **state)
{
    char *bytes[2];
    size_t length[2];
    for (int broken = 0; broken < 2; broken++) {
        const char *directory = in(state, broken ? "two" : "one");
        int taken = broken ? 0 : 100;
        for (int process = 0; process <= broken; process++) {
            et_task_trainer_given given = { .next_train_inputs = stop_at_fifth, .self = &taken };
            bench b;
            stop = 0;
            bench_init(&b, &plain_class);
            b.r.options.train_steps = b.r.options.summary_interval = 8;
            b.r.options.run.stop = &stop;
            b.r.trainer_options.given = &given;
            b.r.trainer_options.loss_scale = ET_LOSS_SCALE_DYNAMIC;
            assert_ok(toy_run_start(&b.r, directory, error));
            int status = et_controller_train(b.r.controller, NULL);
            assert_int_equal(status, process < broken ? ET_EINTERRUPTED : ET_OK);
            bench_close(&b);
        }
        bytes[broken] = get_file(in(state, broken ? "two/checkpoints/ckpt-8.safetensors"
                                                  : "one/checkpoints/ckpt-8.safetensors"),
                                 &length[broken]);
    }
    assert_non_null(strstr(bytes[0] + 8, "task_metrics"));
    assert_non_null(strstr(bytes[0] + 8, "loss_scale"));
    assert_int_equal(length[0], length[1]);
    assert_memory_equal(bytes[0], bytes[1], length[0]);
    free(bytes[0]);
    free(bytes[1]);
}

/* ---- everything overridden ----------------------------------------------------------------------
 */

static double sum_of_labels(const et_batch *batch)
{
    double sum = 0;
    for (int64_t i = 0; i < batch->filled[0]; i++)
        sum += ((const int32_t *)batch->data[1])[i];
    return sum;
}

static void own_model(et_task *self, et_scope *s, bool training, et_nodes *outputs,
                      et_nodes *aux_losses)
{
    say(training ? "build_model" : "build_model(validation)");
    mock_model(self, s, training, outputs, aux_losses);
}

static void own_losses(et_task *self, et_scope *s, const et_nodes *outputs,
                       const et_nodes *aux_losses)
{
    say("build_losses");
    mock_losses(self, s, outputs, aux_losses);
}

static int own_data(et_task *self, bool training, et_source **out, et_error *error)
{
    say(training ? "data" : "data(validation)");
    return mock_data(self, training, out, error);
}

static int own_metrics(et_task *self, bool training, et_metrics *metrics, et_error *error)
{
    (void)self, (void)training;
    say("build_metrics");
    return et_metrics_define(metrics, "labels", &et_metric_sum, error);
}

static int own_optimizer(et_task *self, const et_optimizer_request *request, et_optimizer **out,
                         et_error *error)
{
    say("create_optimizer");
    assert_float_equal(request->setup->learning_rate, 0.5, 0);
    return et_task_defaults.create_optimizer(self, request, out, error);
}

static int own_initialize(et_task *self, et_params *params, et_error *error)
{
    (void)self, (void)error;
    say("initialize");
    int index = et_params_find(params, "penalised");
    et_params_begin_change(params);
    et_params_values(params)[et_params_offset(params, index)] = 7;
    et_params_changed(params, true);
    return ET_OK;
}

static int own_process(et_task *self, const et_task_step *now, et_error *error)
{
    (void)self, (void)error;
    say("metrics");
    et_metrics_add(now->metrics, "labels", sum_of_labels(now->inputs), 1);
    return ET_OK;
}

static int own_compiled(et_task *self, const et_task_step *now, et_error *error)
{
    say("compiled");
    return et_task_defaults.process_compiled_metrics(self, now, error);
}

/* As Model Garden's mock: a loss that is known. */
static int own_train_step(et_task *self, const et_task_step *now, et_value *logs, et_error *error)
{
    say("train_step");
    int status = et_pass_run(now->model, now->inputs, now->seed, now->number, error);
    if (!status)
        status = et_optimizer_update(now->optimizer, now->model, NULL, error);
    if (!status)
        status = et_task_process_metrics(self, now, error);
    if (!status)
        status = et_task_process_compiled_metrics(self, now, error);
    et_value_set_float(logs, "own loss", (double)now->step + 1);
    return status;
}

static int own_validation_step(et_task *self, const et_task_step *now, et_value *logs,
                               et_error *error)
{
    say("validation_step");
    assert_null(now->optimizer);
    int status = et_task_inference_step(self, now, error);
    if (!status)
        status = et_task_process_metrics(self, now, error);
    et_value_set_float(logs, "counter", 1);
    et_value_set_float(logs, "own loss", 10);
    return status;
}

static int own_inference(et_task *self, const et_task_step *now, et_error *error)
{
    say("inference_step");
    return et_task_defaults.inference_step(self, now, error);
}

static int own_aggregate(et_task *self, et_value *state, const et_value *step_outputs,
                         et_error *error)
{
    double before = 0, one;
    (void)self;
    say("aggregate");
    if (et_value_get(state, "counter") && et_value_read_float(state, "counter", &before, error))
        return ET_EFORMAT;
    int status = et_value_read_float(step_outputs, "counter", &one, error);
    et_value_set_float(state, "counter", before + one);
    return status;
}

static int own_reduce(et_task *self, const et_value *aggregated_logs, int64_t global_step,
                      et_value *results, et_error *error)
{
    double counter;
    (void)self;
    say("reduce");
    int status = et_value_read_float(aggregated_logs, "counter", &counter, error);
    et_value_set_float(results, "counter", counter);
    et_value_set_int(results, "at", global_step);
    return status;
}

static const et_task_class own_class = {
    .name = "own",
    .data = own_data,
    .loss = "own loss",
    .build_model = own_model,
    .build_losses = own_losses,
    .build_metrics = own_metrics,
    .create_optimizer = own_optimizer,
    .initialize = own_initialize,
    .process_metrics = own_process,
    .process_compiled_metrics = own_compiled,
    .train_step = own_train_step,
    .validation_step = own_validation_step,
    .inference_step = own_inference,
    .aggregate_logs = own_aggregate,
    .reduce_aggregated_logs = own_reduce,
};

static void assert_said(const char *expected)
{
    assert_string_equal(words, expected);
    words[0] = 0;
}

static void test_task__every_method_overridden(void **state)
{
    (void)state;
    bench b;
    bench_init(&b, &own_class);
    assert_ok(bench_open(&b, error));
    assert_said("data build_model build_losses data(validation) build_model(validation) "
                "build_losses build_metrics build_metrics create_optimizer initialize");
    int index = et_params_find(b.r.params, "penalised");
    assert_float_equal(et_params_values(b.r.params)[et_params_offset(b.r.params, index)], 7, 0);
    assert_ok(et_task_trainer_train(b.r.trainer, 2, b.logs, error));
    assert_said("train_step metrics compiled train_step metrics compiled");
    assert_float_equal(logged(&b, "training_loss"), 1.5, 0); /* the mean of 1 and 2 */
    assert_true(logged(&b, "training_penalty") > 1);
    assert_true(logged(&b, "labels") > 0);
    assert_ok(et_task_trainer_evaluate(b.r.trainer, -1, b.logs, error));
    assert_said("build_metrics validation_step inference_step metrics aggregate validation_step "
                "inference_step metrics aggregate validation_step inference_step metrics aggregate "
                "reduce");
    assert_float_equal(logged(&b, "validation_loss"), 10, 0);
    assert_float_equal(logged(&b, "counter"), SAMPLES / ROWS, 0);
    assert_float_equal(logged(&b, "labels"), SAMPLES, 0); /* 0 + 1 + 2, four times */
    assert_float_equal(logged(&b, "at"), 2, 0);
    assert_string_equal(et_task_loss(&b.r.task), "own loss");
    assert_string_equal(et_task_name(&b.r.task), "own");
    bench_close(&b);
}

static int silent_step(et_task *self, const et_task_step *now, et_value *logs, et_error *error)
{
    (void)logs;
    return et_task_inference_step(self, now, error);
}

static int nan_step(et_task *self, const et_task_step *now, et_value *logs, et_error *error)
{
    et_value_set_float(logs, "loss", NAN);
    return et_task_inference_step(self, now, error);
}

/* A validation that logs no loss has none, one that logs NaN has that; a train step has to log one,
 * and NaN is a divergence. */
static void test_task__no_loss(void **state)
{
    (void)state;
    et_task_class class = plain_class;
    bench b;
    class.validation_step = silent_step;
    bench_init(&b, &class);
    assert_ok(bench_open(&b, error));
    assert_ok(et_task_trainer_evaluate(b.r.trainer, -1, b.logs, error));
    assert_null(et_value_get(b.logs, "validation_loss"));
    assert_non_null(et_value_get(b.logs, "validation_accuracy"));
    bench_close(&b);
    class.validation_step = class.train_step = nan_step;
    bench_init(&b, &class);
    assert_ok(bench_open(&b, error));
    assert_ok(et_task_trainer_evaluate(b.r.trainer, -1, b.logs, error));
    assert_true(isnan(logged(&b, "validation_loss")));
    assert_fails(et_task_trainer_train(b.r.trainer, 1, b.logs, error), ET_EDIVERGED,
                 "step 1: the loss is not a number");
    bench_close(&b);
    class.train_step = silent_step;
    bench_init(&b, &class);
    assert_ok(bench_open(&b, error));
    assert_fails(et_task_trainer_train(b.r.trainer, 1, b.logs, error), ET_ECONFIG,
                 "train_step of task plain logs no loss");
    bench_close(&b);
}

/* An override may do what the default does and more: same weights, bit for bit. */
static int more_train_step(et_task *self, const et_task_step *now, et_value *logs, et_error *error)
{
    int status = et_task_defaults.train_step(self, now, logs, error);
    double loss;
    if (!status)
        status = et_value_read_float(logs, "loss", &loss, error);
    return status;
}

static void test_task__override_calls_default(void **state)
{
    (void)state;
    float *values = NULL;
    size_t bytes = 0;
    for (int own = 0; own < 2; own++) {
        et_task_class class = plain_class;
        class.train_step = own ? more_train_step : NULL;
        bench b;
        bench_init(&b, &class);
        assert_ok(bench_open(&b, error));
        assert_ok(et_task_trainer_train(b.r.trainer, 5, b.logs, error));
        assert_true(logged(&b, "gradient_norm") > 0);
        assert_true(logged(&b, "hits") == logged(&b, "training_accuracy"));
        bytes = (size_t)et_params_flat_size(b.r.params) * sizeof(float);
        if (own)
            assert_memory_equal(values, et_params_values(b.r.params), bytes);
        values = own ? values : malloc(bytes);
        memcpy(values, et_params_values(b.r.params), bytes);
        bench_close(&b);
    }
    free(values);
}

/* ---- members of the trainer ---------------------------------------------------------------------
 */

static void test_task__train_by_parts(void **state)
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

static void test_task__evaluate_by_parts(void **state)
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
    for (int has_state = 0; has_state < 2; has_state++) /* no state is dropped */
        assert_ok(et_task_trainer_create_eval_loop_fn(t, has_state)(t, NULL, 1, error));
    assert_ok(et_task_trainer_eval_end(t, NULL, parts.logs, error));
    assert_float_equal(logged(&parts, "counter"), 2, 0);
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
static void test_task__evaluation_steps(void **state)
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

/* What goes past the model, and whose value counts where both have it; data from outside. */
static void test_task__given(void **state)
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

static void test_task__weights_come_back(void **state)
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
static void test_task__iterators(void **state)
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
    bench_close(&b);
}

/* Members of an evaluation that nobody has begun. */
static void test_task__order_of_calls(void **state)
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
    assert_ok(et_task_trainer_eval_end(t, NULL, NULL, error));
    assert_ok(et_task_trainer_evaluate(t, -1, b.logs, error));
    bench_close(&b);
}

/* ---- data that are given, and closed ---- */

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

/* Both are closed, whichever of them `use` has the trainer read; after a failure neither is. */
static void test_task__given_but_unread(void **state)
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

/* train=False, evaluate=False. */
static void test_task__use(void **state)
{
    (void)state;
    bench b;
    bench_init(&b, &plain_class);
    b.r.trainer_options.use = ET_EVALUATE_ONLY;
    assert_ok(bench_open(&b, error));
    assert_ok(et_task_trainer_evaluate(b.r.trainer, -1, b.logs, error));
    assert_true(logged(&b, "validation_loss") > 0);
    assert_fails(et_task_trainer_train(b.r.trainer, 1, b.logs, error), ET_EUSAGE, "evaluate only");
    assert_true(et_task_trainer_memory(b.r.trainer) > 0);
    bench_close(&b);
    bench_init(&b, &plain_class);
    b.r.trainer_options.use = ET_TRAIN_ONLY;
    assert_ok(bench_open(&b, error));
    assert_null(b.evaluator);
    assert_fails(et_task_trainer_evaluate(b.r.trainer, -1, b.logs, error), ET_EUSAGE,
                 "no validation data");
    bench_close(&b);
}

/* ---- loss scale ---------------------------------------------------------------------------------
 */

static void test_task__loss_scale(void **state)
{
    (void)state;
    static const double scales[] = { 0, 8, ET_LOSS_SCALE_DYNAMIC };
    float *values = NULL;
    for (size_t i = 0; i < 3; i++) {
        bench b;
        bench_init(&b, &plain_class);
        b.r.trainer_options.loss_scale = scales[i];
        assert_ok(bench_open(&b, error));
        assert_ok(et_task_trainer_train(b.r.trainer, 5, b.logs, error));
        size_t count = (size_t)et_params_flat_size(b.r.params);
        /* A power of two changes no bit of a gradient that neither overflows nor underflows. */
        if (values)
            assert_memory_equal(values, et_params_values(b.r.params), count * sizeof(float));
        else
            values = malloc(count * sizeof(float));
        memcpy(values, et_params_values(b.r.params), count * sizeof(float));
        bench_close(&b);
    }
    free(values);
}

/* ---- refused
 * ------------------------------------------------------------------------------------- */

static void bad_model(et_task *self, et_scope *s, bool training, et_nodes *outputs,
                      et_nodes *aux_losses)
{
    mock_model(self, s, training, outputs, aux_losses);
    for (int i = 0; i < ET_NODES_MAX; i++)
        et_nodes_put(outputs, "one more", outputs->node[0]);
}

/* Its logits are no output of the pass. */
static void mute_model(et_task *self, et_scope *s, bool training, et_nodes *outputs,
                       et_nodes *aux_losses)
{
    (void)self, (void)training, (void)aux_losses;
    et_nodes_put(outputs, "logits", et_dense(et_in(s, "logits"), et_batch_input(s, "x"), CLASSES));
}

static int no_data(et_task *self, bool training, et_source **out, et_error *error)
{
    (void)self, (void)training, (void)error;
    *out = NULL;
    return ET_OK;
}

static void test_task__refused(void **state)
{
    (void)state;
    static const struct {
        et_task_class class;
        et_task_trainer_options options;
        int status;
        const char *text;
    } cases[] = {
        { { .name = "t",
            .data = mock_data,
            .build_model = mock_model,
            .create_optimizer = no_optimizer },
          { 0 },
          ET_ECONFIG,
          "create_optimizer of task t gives none" },
        { { .name = "t", .data = mock_data, .build_model = bad_model },
          { 0 },
          ET_EGRAPH,
          "a model gives at most 16 nodes" },
        { { .name = "t", .data = mock_data, .build_model = mock_model, .train_step = silent_step },
          { .batches = 2 },
          ET_ECONFIG,
          "has a train_step of its own" },
        { { .name = "t", .data = mock_data, .build_model = mock_model },
          { .loss_scale = -2 },
          ET_ECONFIG,
          "loss_scale -2" },
        { { .name = "t", .data = mock_data, .build_model = mock_model },
          { .loss_scale = NAN },
          ET_ECONFIG,
          "loss_scale" },
        { { .name = "t", .data = mock_data, .build_model = mock_model },
          { .loss_upper_bound = -1 },
          ET_ECONFIG,
          "loss_upper_bound -1" },
        { { .name = "t", .data = mock_data, .build_model = mock_model },
          { .recovery_begin_steps = -1 },
          ET_ECONFIG,
          "recovery_begin_steps -1" },
        { { .name = "t", .data = mock_data, .build_model = mock_model },
          { .use = 3 },
          ET_ECONFIG,
          "use 3" },
        { { .name = "t", .data = no_data, .build_model = mock_model },
          { .use = ET_EVALUATE_ONLY },
          ET_ECONFIG,
          "t has no validation data" },
        { { .name = "t", .build_model = mock_model }, { 0 }, ET_EUSAGE, "needs a task" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bench b;
        bench_init(&b, &cases[i].class);
        b.r.trainer_options = cases[i].options;
        assert_fails(bench_open(&b, error), cases[i].status, cases[i].text);
        bench_close(&b);
    }
    et_source *source;
    et_task none = { .class = &plain_class };
    et_task_class without = { .name = "w" };
    none.class = &without;
    assert_fails(et_task_build_inputs(&none, true, &source, error), ET_ECONFIG,
                 "task w has no method data");
    /* Metrics without what they compare. */
    et_task_class mute = plain_class;
    mute.build_model = mute_model;
    bench b;
    bench_init(&b, &mute);
    assert_ok(bench_open(&b, error));
    assert_fails(et_task_trainer_train(b.r.trainer, 1, b.logs, error), ET_ECONFIG,
                 "metrics of build_metrics compare");
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_task__defaults),
        cmocka_unit_test(test_task__aux_losses_alone),
        cmocka_unit_test(test_task__resumes),
        cmocka_unit_test(test_task__every_method_overridden),
        cmocka_unit_test(test_task__no_loss),
        cmocka_unit_test(test_task__override_calls_default),
        cmocka_unit_test(test_task__train_by_parts),
        cmocka_unit_test(test_task__evaluate_by_parts),
        cmocka_unit_test(test_task__evaluation_steps),
        cmocka_unit_test(test_task__given),
        cmocka_unit_test(test_task__weights_come_back),
        cmocka_unit_test(test_task__iterators),
        cmocka_unit_test(test_task__order_of_calls),
        cmocka_unit_test(test_task__given_but_unread),
        cmocka_unit_test(test_task__use),
        cmocka_unit_test(test_task__loss_scale),
        cmocka_unit_test(test_task__refused),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
