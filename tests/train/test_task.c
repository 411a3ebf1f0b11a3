/* Tasks as Model Garden has them: each method by its default and overridden. test_task_members.c is
 * the trainer's side. */
#include <etude/task.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "engine/tensor/params.h"
#include "train/mock_task.h"

/* ---- the defaults ---- */

/* Metrics of build_metrics see every row of every batch of an update: they agree with the loss's
 * own accuracy. The train loop's end resets. */
static void test_task__defaults(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        bench b;
        bench_init(&b, &plain_class);
        b.r.trainer_options.batches = 1 + kind % 2;
        b.r.trainer_options.bfloat16 = kind / 2;
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

static double penalised(const bench *b)
{
    int i = et_params_find(b->r.params, "penalised");
    return et_params_values(b->r.params)[et_params_offset(b->r.params, i)];
}

/* Without an override of build_losses the aux losses are the whole loss. Model Garden adds them to
 * a mean: w^2 with rate 0.1 makes w 0.8 of itself, for any number of rows. */
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
    assert_float_equal(logged(&b, "training_penalty"), 1, 1e-6);
    assert_float_equal(logged(&b, "training_loss"), 1, 1e-6);
    assert_float_equal(penalised(&b), 0.8, 1e-6);
    bench_close(&b);
}

static int default_train_step(et_task *self, const et_task_step *now, et_value *logs,
                              et_error *error)
{
    return et_task_defaults.train_step(self, now, logs, error);
}

static int default_validation_step(et_task *self, const et_task_step *now, et_value *logs,
                                   et_error *error)
{
    return et_task_defaults.validation_step(self, now, logs, error);
}

/* Only the logged loss is minimized, and an override that calls the default, which reports it,
 * changes nothing. */
static void test_task__loss_is_all(void **state)
{
    (void)state;
    double losses[2][2];
    for (int own = 0; own < 2; own++) {
        et_task_class class = plain_class;
        class.train_step = own ? default_train_step : NULL;
        class.validation_step = own ? default_validation_step : NULL;
        bench b;
        bench_init(&b, &class);
        b.optimizer.learning_rate = 0.1;
        assert_ok(bench_open(&b, error));
        assert_ok(et_task_trainer_train(b.r.trainer, 1, b.logs, error));
        losses[own][0] = logged(&b, "training_loss");
        assert_float_equal(logged(&b, "training_penalty"), 1, 1e-6);
        assert_true(losses[own][0] > 1.5); /* log 3, or so, and the penalty */
        assert_float_equal(penalised(&b), 0.8, 1e-6);
        assert_ok(et_task_trainer_evaluate(b.r.trainer, 2, b.logs, error));
        losses[own][1] = logged(&b, "validation_loss");
        assert_float_equal(logged(&b, "validation_penalty"), 0.64, 1e-6);
        bench_close(&b);
    }
    assert_float_equal(losses[0][0], losses[1][0], 1e-6);
    assert_float_equal(losses[0][1], losses[1][1], 1e-6);
}

static void misnamed_losses(et_task *self, et_scope *s, const et_nodes *own,
                            const et_nodes *outputs, const et_nodes *aux_losses)
{
    (void)self, (void)own, (void)aux_losses;
    et_node *logits = et_nodes_need(s, outputs, "logit");
    et_loss(s, "loss", et_softmax_loss(logits, et_batch_input(s, "labels"), 0), 1);
}

static void test_task__misnamed_node(void **state)
{
    (void)state;
    et_task_class class = plain_class;
    bench b;
    class.build_losses = misnamed_losses;
    bench_init(&b, &class);
    assert_fails(bench_open(&b, error), ET_EGRAPH, "no node is called logit; there are: logits");
    bench_close(&b);
}

static int metrics_asked[2];

static int count_metrics(et_task *self, bool training, et_metrics *metrics, et_error *error)
{
    metrics_asked[training]++;
    return mock_metrics(self, training, metrics, error);
}

static int metric_of_the_model(et_task *self, bool training, et_metrics *metrics, et_error *error)
{
    (void)self, (void)training;
    return et_metrics_define(metrics, "training_accuracy", &et_metric_accuracy, error);
}

/* Both kinds are requested at the start, and neither may hide the model's measures. */
static void test_task__metrics_of_its_own(void **state)
{
    (void)state;
    et_task_class class = plain_class;
    bench b;
    class.build_metrics = count_metrics;
    bench_init(&b, &class);
    assert_ok(bench_open(&b, error));
    assert_true(metrics_asked[true] > 0 && metrics_asked[false] == 1);
    assert_ok(et_task_trainer_evaluate(b.r.trainer, 1, b.logs, error));
    assert_int_equal(metrics_asked[false], 1);
    bench_close(&b);
    class.build_metrics = metric_of_the_model;
    bench_init(&b, &class);
    assert_fails(bench_open(&b, error), ET_ECONFIG, ": build_metrics defines training_accuracy");
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

/* ---- overridden ---- */

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
    assert_said(
        "data build_model build_losses data(validation) build_model(validation) "
        "build_losses build_metrics build_metrics build_metrics create_optimizer initialize");
    int index = et_params_find(b.r.params, "penalised");
    assert_float_equal(et_params_values(b.r.params)[et_params_offset(b.r.params, index)], 7, 0);
    assert_ok(et_task_trainer_train(b.r.trainer, 2, b.logs, error));
    assert_said("train_step metrics compiled train_step metrics compiled");
    assert_float_equal(logged(&b, "training_loss"), 1.5, 0); /* the mean of 1 and 2 */
    assert_true(logged(&b, "training_penalty") > 1);
    assert_true(logged(&b, "labels") > 0);
    assert_ok(et_task_trainer_evaluate(b.r.trainer, -1, b.logs, error));
    assert_said("validation_step inference_step metrics aggregate validation_step "
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
    return et_task_inference_step(self, now, NULL, error);
}

static int nan_step(et_task *self, const et_task_step *now, et_value *logs, et_error *error)
{
    et_value_set_float(logs, "loss", NAN);
    return et_task_inference_step(self, now, NULL, error);
}

/* A validation that logs no loss has none, one that logs NaN has NaN; a train step must log one,
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

/* An override may do more than the default: same weights, bit for bit. */
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

/* ---- loss scale ---- */

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

static int no_optimizer(et_task *self, const et_optimizer_request *request, et_optimizer **out,
                        et_error *error)
{
    (void)self, (void)request, (void)error;
    *out = NULL;
    return ET_OK;
}

/* Validation uses the average of weights, whose value does not depend on the scale. */
static void test_task__loss_scale_and_average(void **state)
{
    (void)state;
    static const double scales[] = { 0, 8, ET_LOSS_SCALE_DYNAMIC };
    double loss[2][3];
    for (size_t i = 0; i < 6; i++) {
        bench b;
        bench_init(&b, &plain_class);
        b.r.trainer_options.loss_scale = scales[i / 2];
        b.optimizer.settings = i % 2 ? "ema: {enabled: true, average_decay: 0.5}" : NULL;
        assert_ok(bench_open(&b, error));
        assert_ok(et_task_trainer_train(b.r.trainer, 5, b.logs, error));
        assert_ok(et_task_trainer_evaluate(b.r.trainer, -1, b.logs, error));
        assert_ok(et_value_read_float(b.logs, "validation_loss", &loss[i % 2][i / 2], error));
        bench_close(&b);
    }
    assert_true(loss[0][0] != loss[1][0]);
    for (int average = 0; average < 2; average++)
        for (int i = 1; i < 3; i++)
            assert_true(loss[average][i] == loss[average][0]);
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
          "create_optimizer of task t gives no optimizer" },
        { { .name = "t", .data = mock_data, .build_model = bad_model },
          { 0 },
          ET_EGRAPH,
          ": a model can output at most 16 nodes" },
        { { .name = "t", .data = mock_data, .build_model = mock_model, .train_step = silent_step },
          { .batches = 2 },
          ET_ECONFIG,
          "has its own train_step" },
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
          "t has no validation data; name data in its settings" },
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
    assert_fails(et_task_build_inputs(&none, NULL, NULL, &source, error), ET_ECONFIG,
                 "task w has no method data");
    /* Metrics without the values that they compare. */
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
        cmocka_unit_test(test_task__loss_is_all),
        cmocka_unit_test(test_task__misnamed_node),
        cmocka_unit_test(test_task__metrics_of_its_own),
        cmocka_unit_test(test_task__resumes),
        cmocka_unit_test(test_task__every_method_overridden),
        cmocka_unit_test(test_task__no_loss),
        cmocka_unit_test(test_task__override_calls_default),
        cmocka_unit_test(test_task__loss_scale),
        cmocka_unit_test(test_task__loss_scale_and_average),
        cmocka_unit_test(test_task__refused),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
