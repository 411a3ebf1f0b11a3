/* TFSnippet's mnist example on digits that are made here: settings from flags, an annealed learning
 * rate, a trainer with an evaluator and logs, results in files; and the same run split into two
 * loops, which ends with the same bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <etude/etude.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/tensor/params.h"
#include "formats/files.h"

enum { PIXELS = 64, TRAIN = 1000, TEST = 300, DIGITS = 10 };

/* ---- settings, as of the example ---- */

typedef struct settings {
    int64_t max_epoch, batch_size, lr_anneal_epochs, test_epochs;
    double initial_lr, lr_anneal_factor, l2_reg;
} settings;

static const et_field rows[] = {
    ET_FIELD_INT(settings, max_epoch, 6, 1, 1000, "epochs"),
    ET_FIELD_INT(settings, batch_size, 50, 1, 1000, "images of a step"),
    ET_FIELD_INT(settings, lr_anneal_epochs, 300, 1, 1000, "after which the rate is annealed"),
    ET_FIELD_INT(settings, test_epochs, 2, 1, 1000, "after which the test set is looked at"),
    ET_FIELD_FLOAT(settings, initial_lr, 0.001, 0, 1, "learning rate at the start"),
    ET_FIELD_FLOAT(settings, lr_anneal_factor, 0.5, 0, 1, "what annealing makes of it"),
    ET_FIELD_FLOAT(settings, l2_reg, 0.0001, 0, 1, "of the hidden layer's weights"),
    ET_FIELD_END,
};
static const et_fields table = { "mnist", rows };

typedef struct program {
    settings settings;
    et_device *device;
    et_params *params;
    et_source *train, *test;
    et_pass *learn, *judge;
    et_optimizer *optimizer;
    et_annealing_variable rate;
    et_loop *loop;
    et_loop_trainer *trainer;
    et_loop_evaluator *evaluator;
    et_results *results;
    int tested;
} program;

/* ---- data and model ---- */

static float pixels[TRAIN + TEST][PIXELS];
static int32_t digits[TRAIN + TEST];

/* A digit is brighter where its number is written, in noise. */
static void make_digits(void)
{
    uint32_t seed = 1;
    for (int i = 0; i < TRAIN + TEST; i++) {
        digits[i] = i % DIGITS;
        for (int p = 0; p < PIXELS; p++) {
            seed = seed * 1664525u + 1013904223u;
            pixels[i][p] = (float)(seed >> 8) / 16777216.0f + (p * 7 % DIGITS == digits[i]) * 0.7f;
        }
    }
}

static et_source *source_of(int first, int count, int64_t batch, bool training)
{
    const et_array arrays[] = { { "x", ET_F32, pixels[first], et_shape_1(PIXELS) },
                                { "y", ET_I32, digits + first, et_shape_scalar() } };
    const et_batches_options options = { .shuffle = training,
                                         .repeat = true,
                                         .capacity = { batch } };
    et_samples *samples;
    et_source *source;
    assert_ok(et_arrays_open(&samples, arrays, 2, count, error));
    assert_ok(et_batches_open(&source, samples, &options, error));
    return source;
}

static void build(et_scope *s, void *payload)
{
    const program *p = payload;
    const et_init zeros = { ET_INIT_ZEROS, 0 };
    const et_dense_options relu = { .activation = ET_ACTIVATION_RELU };
    et_node *h = et_dense_with(et_in(s, "hidden"), et_batch_input(s, "x"), 32, &relu);
    et_variable(s, "learning_rate", et_shape_scalar(), zeros);
    et_output(s, "hidden", et_sum(h));
    et_loss(s, "l2", et_scale(et_square(h), (float)p->settings.l2_reg), 1);
    et_loss(s, "loss",
            et_softmax_loss(et_dense(et_in(s, "logits"), h, DIGITS), et_batch_input(s, "y"), 0), 1);
}

/* ---- the program ---- */

static int note_results(void *payload, const char *event, const void *what, et_error *error)
{
    program *p = payload;
    const et_loop_metric *metrics;
    int status = ET_OK, count = et_loop_evaluator_last_metrics(p->evaluator, &metrics);
    (void)event, (void)what;
    for (int i = 0; i < count && !status; i++)
        status = et_results_set(p->results, metrics[i].name, metrics[i].value, error);
    p->tested++;
    return status;
}

static void open_model(program *p)
{
    const et_pass_options training = { .training = true };
    p->train = source_of(0, TRAIN, p->settings.batch_size, true);
    p->test = source_of(TRAIN, TEST, p->settings.batch_size, false);
    assert_ok(et_device_open(&p->device, error));
    assert_ok(et_params_new(&p->params, error));
    assert_ok(et_pass_open(&p->learn, p->device, p->params, &p->train->layout, build, p, &training,
                           error));
    assert_ok(
        et_pass_open(&p->judge, p->device, p->params, &p->test->layout, build, p, NULL, error));
    assert_ok(et_params_materialize(p->params, false, error));
    assert_ok(et_optimizer_open(&p->optimizer, p->device, p->params, NULL, NULL, error));
    et_init_draw(p->params, 1);
    assert_ok(et_annealing_variable_init(&p->rate, p->params, "learning_rate",
                                         p->settings.initial_lr, p->settings.lr_anneal_factor, 0,
                                         error));
}

static void open_loop(program *p, const char *directory)
{
    const et_loop_measure learnt[] = { { "loss", "loss" }, { "acc", "accuracy" } };
    const et_loop_measure tested[] = { { "test_loss", "loss" }, { "test_acc", "accuracy" } };
    const et_bound_value bound = { .optimizer = p->optimizer,
                                   .value = et_scheduled_variable_dynamic(&p->rate.variable) };
    et_loop_options options = { .max_epoch = p->settings.max_epoch, .checkpoint_epoch_freq = 1 };
    options.checkpoint_dir = options.summary_dir = directory;
    assert_ok(et_loop_open(&p->loop, p->params, &options, error));
    const et_loop_trainer_options trains = { .source = p->train,
                                             .pass = p->learn,
                                             .optimizer = p->optimizer,
                                             .metrics = learnt,
                                             .metric_count = 2,
                                             .bound_values = &bound,
                                             .bound_value_count = 1 };
    assert_ok(et_loop_trainer_open(&p->trainer, p->loop, &trains, error));
    assert_ok(et_loop_trainer_anneal_after(p->trainer, &p->rate,
                                           ET_EVERY_EPOCHS(p->settings.lr_anneal_epochs), error));
    const et_loop_evaluator_options evaluates = { .source = p->test,
                                                  .pass = p->judge,
                                                  .metrics = tested,
                                                  .metric_count = 2,
                                                  .time_metric = "test_time" };
    assert_ok(et_loop_evaluator_open(&p->evaluator, p->loop, &evaluates, error));
    assert_ok(et_event_hub_on(et_loop_evaluator_events(p->evaluator), ET_EVENT_AFTER_EXECUTION,
                              note_results, p, error));
    assert_ok(et_loop_trainer_evaluate_after(p->trainer, p->evaluator,
                                             ET_EVERY_EPOCHS(p->settings.test_epochs), error));
    assert_ok(et_loop_trainer_log_after(p->trainer, ET_EVERY_EPOCHS(1), error));
}

/* Runs up to an epoch, with these flags; the trained values go to `values`, the results to `text`.
 */
static void run(const char *directory, const char *flag, float *values, char *text, size_t size)
{
    program p = { .tested = 0 };
    settings defaults;
    char name[700], epochs[] = "--mnist.max_epoch", rate[] = "--mnist.initial_lr=0.01";
    char anneal[] = "--mnist.lr_anneal_epochs=4", steps[20];
    snprintf(steps, sizeof steps, "%s", flag);
    char *argv[] = { name, epochs, steps, rate, anneal, NULL };
    int argc = 5;
    et_arena *arena = et_arena_new();
    snprintf(name, sizeof name, "%s/results", directory);
    et_fields_defaults(&table, &p.settings);
    et_fields_defaults(&table, &defaults);
    assert_ok(et_fields_flags(&table, &p.settings, "mnist", &argc, argv, arena, error));
    assert_int_equal(argc, 1);
    assert_ok(et_results_open(&p.results, name, NULL, error));
    assert_ok(et_results_save_config(p.results, &table, &p.settings, &defaults, error));
    open_model(&p);
    open_loop(&p, directory);
    assert_ok(et_loop_begin(p.loop, error));
    assert_ok(et_loop_trainer_run(p.trainer, error));
    const double annealed = p.settings.max_epoch >= 4 ? 0.005 : 0.01;
    assert_true(fabs(et_scheduled_variable_get(&p.rate.variable) - annealed) < 1e-9);
    assert_ok(et_loop_end(p.loop, error));
    memcpy(values, et_params_values(p.params),
           (size_t)et_params_flat_size(p.params) * sizeof *values);
    snprintf(text, size, "%s", et_results_format(p.results, arena));
    et_loop_evaluator_close(p.evaluator), et_loop_trainer_close(p.trainer), et_loop_close(p.loop);
    et_optimizer_free(p.optimizer), et_pass_close(p.learn), et_pass_close(p.judge);
    et_source_close(p.train), et_source_close(p.test), et_results_close(p.results);
    et_params_free(p.params), et_device_close(p.device);
    et_arena_free(arena);
}

static void test_mnist_by_trainer(void **state)
{
    static float whole[4096], parts[4096];
    char results[2][400], path[700];
    const char *once = in(state, "once");
    make_digits();
    run(once, "6", whole, results[0], sizeof results[0]);
    const char *twice = in(state, "twice");
    run(twice, "3", parts, results[1], sizeof results[1]);
    assert_int_not_equal(memcmp(whole, parts, sizeof whole), 0);
    run(twice, "6", parts, results[1], sizeof results[1]);
    assert_memory_equal(whole, parts, sizeof whole);
    assert_string_equal(results[0], results[1]);

    double accuracy = 0;
    assert_int_equal(sscanf(results[0], "test_acc %lf", &accuracy), 1);
    assert_true(accuracy > 0.9);
    size_t length;
    snprintf(path, sizeof path, "%s/results/config.json", in(state, "once"));
    char *text = get_file(path, &length);
    assert_non_null(strstr(text, "\"lr_anneal_epochs\": 4"));
    assert_null(strstr(text, "batch_size")); /* as by default */
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_mnist_by_trainer) };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
