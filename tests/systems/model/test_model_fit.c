/* et_model_fit: length of training, messages, and runs that resume. */
#include "systems/model/disc.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <etude/log.h>

#include "engine/tensor/params.h"

typedef struct heard {
    int epochs, stop_at;
    double loss[64], validation[64];
} heard;

static int hear(void *payload, int64_t epoch, const et_value *logs, bool *stop, et_error *error)
{
    heard *h = payload;
    assert_int_equal(epoch, ++h->epochs);
    int status = et_value_read_float(logs, "training_loss", &h->loss[epoch], error);
    h->validation[epoch] = NAN;
    if (!status && et_value_get(logs, "validation_loss"))
        status = et_value_read_float(logs, "validation_loss", &h->validation[epoch], error);
    *stop = h->epochs == h->stop_at;
    return status;
}

static void test_fit__tells_each_epoch(void **state)
{
    heard h = { 0 };
    (void)state;
    et_model *model = open_disc();
    fit_disc(model, &(et_fit){ .epochs = 6,
                               .batch_size = 50,
                               .validation_part = 0.25,
                               .callback = hear,
                               .payload = &h });
    assert_int_equal(h.epochs, 6);
    assert_true(h.loss[6] < h.loss[1]);
    assert_true(h.validation[6] < h.validation[1]);
    /* 450 rows in batches of 50, six times */
    assert_int_equal(et_optimizer_iterations(et_model_optimizer(model)), 54);
    et_model_close(model);
}

static void test_fit__ends_when_the_program_says_so(void **state)
{
    heard h = { .stop_at = 3 };
    (void)state;
    et_model *model = open_disc();
    fit_disc(model, &(et_fit){ .epochs = 6, .batch_size = 50, .callback = hear, .payload = &h });
    assert_int_equal(h.epochs, 3);
    assert_int_equal(et_optimizer_iterations(et_model_optimizer(model)), 36);
    et_model_close(model);
}

/* With a rate near 0 no validation is much better than the last: float32 weights do not change. */
static void test_fit__patience_ends_it(void **state)
{
    heard h = { 0 };
    (void)state;
    et_model *model;
    et_model_options options = disc;
    options.optimizer = (et_optimizer_setup){ .rule = "sgd", .learning_rate = 1e-30 };
    assert_ok(et_model_open(&model, build_disc, NULL, &options, error));
    fit_disc(model, &(et_fit){ .epochs = 20,
                               .validation_part = 0.25,
                               .patience = 3,
                               .callback = hear,
                               .payload = &h });
    assert_int_equal(h.epochs, 4);
    et_model_close(model);
}

/* 3 and 3 epochs equal 6, with the optimizer's state; the order of the data starts again. */
static void test_fit__continues(void **state)
{
    heard h = { 0 };
    (void)state;
    et_model *model = open_disc();
    fit_disc(model, &(et_fit){ .epochs = 3, .callback = hear, .payload = &h });
    const double before = h.loss[3];
    h.epochs = 0;
    fit_disc(model, &(et_fit){ .epochs = 3, .callback = hear, .payload = &h });
    assert_true(h.loss[1] < before);
    assert_int_equal(et_optimizer_iterations(et_model_optimizer(model)), 6 * 19);
    et_model_close(model);
}

/* ---- a program's own sources ---- */

static void build_places(et_scope *s, void *payload)
{
    (void)payload;
    et_node *h = et_relu(et_dense(et_in(s, "hidden"), et_batch_input(s, "place"), 16));
    h = et_dense(et_in(s, "logits"), h, 2);
    et_loss(s, "loss", et_softmax_loss(h, et_batch_input(s, "kind"), 0), 1);
    et_output(s, "scores", h);
}

static et_source *open_places(int from, int count, bool train)
{
    const et_array arrays[] = { { "place", ET_F32, points[from], { 1, { 2 } } },
                                { "kind", ET_I32, inside + from, { 0, { 0 } } } };
    const et_batches_options options = { .shuffle = train, .repeat = train, .capacity = { 40 } };
    et_samples *samples;
    et_source *source;
    assert_ok(et_arrays_open(&samples, arrays, 2, count, error));
    assert_ok(et_batches_open(&source, samples, &options, error));
    return source;
}

/* The layout that a model was opened with may be gone. */
static void test_fit__takes_sources(void **state)
{
    heard h = { 0 };
    (void)state;
    float out[2];
    et_model *model;
    et_source *sources[] = { open_places(0, 400, true), open_places(400, 200, false) };
    et_source *example = open_places(0, 40, false);
    const et_model_options options = { .layout = &example->layout };
    assert_ok(et_model_open(&model, build_places, NULL, &options, error));
    et_source_close(example);
    const et_fit fit = { .epochs = 8, .validation = sources[1], .callback = hear, .payload = &h };
    assert_ok(et_model_fit(model, sources[0], &fit, error));
    assert_int_equal(h.epochs, 8);
    assert_true(h.validation[8] < h.validation[1]);
    assert_int_equal(et_optimizer_iterations(et_model_optimizer(model)), 80);
    assert_fails(et_model_predict(model, points, 1, out, error), ET_EUSAGE, "x and y");
    assert_fails(et_model_fit_arrays(model, points, inside, 9, NULL, error), ET_EUSAGE, "x and y");
    et_source_close(sources[0]);
    et_source_close(sources[1]);
    et_model_close(model);
}

static void fit_steps(et_model *model, et_source *source, int64_t steps)
{
    assert_ok(et_model_fit(model, source, &(et_fit){ .steps = steps }, error));
}

/* Each fit begins a pass at its beginning, whoever has read the source before, and a source that
 * ends begins again. Ten batches are a pass. */
static void test_fit__begins_at_the_beginning(void **state)
{
    (void)state;
    et_model *models[2];
    et_source *again = open_places(0, 400, false), *fresh = open_places(0, 400, false);
    const et_model_options options = { .layout = &again->layout };
    et_batch *batch;
    assert_ok(et_batch_new(&batch, &again->layout, error));
    for (int i = 0; i < 2; i++)
        assert_ok(et_model_open(&models[i], build_places, NULL, &options, error));
    for (int i = 0; i < 3; i++)
        assert_ok(et_source_next(again, batch, error));
    fit_steps(models[0], again, 25);
    fit_steps(models[0], again, 4);
    fit_steps(models[1], fresh, 25);
    et_source_close(fresh);
    fresh = open_places(0, 400, false);
    fit_steps(models[1], fresh, 4);
    et_params *params = et_model_params(models[0]);
    assert_memory_equal(et_params_values(params), et_params_values(et_model_params(models[1])),
                        (size_t)et_params_flat_size(params) * sizeof(float));
    const et_fit both = { .steps = 4, .validation = again };
    assert_fails(et_model_fit(models[0], again, &both, error), ET_EUSAGE,
                 "an evaluation cannot begin a pass of this source, because a pass of a training");
    fit_steps(models[0], again, 1);
    et_batch_free(batch);
    et_source_close(again);
    et_source_close(fresh);
    et_model_close(models[0]);
    et_model_close(models[1]);
}

/* ---- a model in use while it trains ---- */

static int use(void *payload, int64_t epoch, const et_value *logs, bool *stop, et_error *error)
{
    static float scores[POINTS][2];
    (void)epoch, (void)logs, (void)stop;
    int status = et_model_predict(payload, points, POINTS, scores, error);
    return status ? status : et_model_save(payload, "within.safetensors", error);
}

static void test_fit__a_model_is_used_between_epochs(void **state)
{
    (void)state;
    et_model *model[2];
    et_model_options options = disc;
    options.optimizer.average_decay = 0.9;
    for (int k = 0; k < 2; k++) {
        assert_ok(et_model_open(&model[k], build_disc, NULL, &options, error));
        fit_disc(model[k],
                 &(et_fit){ .epochs = 3, .callback = k ? use : NULL, .payload = model[k] });
    }
    assert_same_weights(model[0], model[1]);
    et_model_close(model[0]);
    et_model_close(model[1]);
    unlink("within.safetensors");
}

static int refuse(void *payload, int64_t epoch, const et_value *logs, bool *stop, et_error *error)
{
    (void)payload, (void)epoch, (void)logs, (void)stop, (void)error;
    return ET_EDATA;
}

/* A program may look at error->status alone, so a callback's number is never without a text. */
static void test_fit__a_callback_that_fails_without_a_text_gets_one(void **state)
{
    (void)state;
    et_model *model;
    et_error silent = ET_ERROR_INIT;
    assert_ok(et_model_open(&model, build_disc, NULL, &disc, error));
    const et_fit fit = { .epochs = 2, .callback = refuse };
    assert_int_equal(et_model_fit_arrays(model, points, inside, POINTS, &fit, &silent), ET_EDATA);
    assert_int_equal(silent.status, ET_EDATA);
    assert_non_null(strstr(silent.text, "the callback of et_fit returned 4"));
    et_model_close(model);
}

/* ---- runs ---- */

/* Trains in a separate process that kills itself in the middle of an epoch; 0: it does not. */
typedef struct end {
    int epochs, kill_at;
} end;

static int die(void *payload, int64_t epoch, const et_value *logs, bool *stop, et_error *error)
{
    end *e = payload;
    (void)epoch, (void)logs, (void)stop, (void)error;
    if (++e->epochs == e->kill_at)
        raise(SIGKILL);
    return 0;
}

static int train(const char *run, int64_t epochs, int kill_at)
{
    static const et_parameter_group groups[] = {
        { "hidden", .learning_rate_multiplier = 0.3, .weight_decay_rate = 0.1 },
        { "logits/bias", .learning_rate_multiplier = 2 },
    };
    int code = -1;
    const pid_t child = fork();
    if (!child) {
        end e = { 0, kill_at };
        et_error error = ET_ERROR_INIT;
        et_model *model;
        et_model_options options = disc;
        int drops = 1;
        options.optimizer =
            (et_optimizer_setup){ .adamw = &(et_adamw){ .beta_1 = 0.8 },
                                  .parameter_groups = groups,
                                  .parameter_group_count = 2,
                                  .cosine = &(et_schedule_cosine){ .initial_learning_rate = 0.01 },
                                  .average_decay = 0.95 };
        const et_fit fit = {
            .epochs = epochs, .validation_part = 0.2, .run_dir = run, .callback = die, .payload = &e
        };
        int status = et_model_open(&model, build_disc, &drops, &options, &error) ||
                     et_model_fit_arrays(model, points, inside, POINTS, &fit, &error);
        if (status)
            fprintf(stderr, "%s\n", error.text);
        _exit(status != 0);
    }
    assert_true(child > 0 && waitpid(child, &code, 0) == child);
    return WIFSIGNALED(code) ? WTERMSIG(code) : WEXITSTATUS(code);
}

static void test_fit__resumes_to_the_same_bytes(void **state)
{
    (void)state;
    assert_int_equal(system("rm -rf whole killed"), 0);
    assert_int_equal(train("whole", 8, 0), 0);
    assert_int_equal(train("killed", 8, 3), SIGKILL);
    assert_int_equal(train("killed", 8, 2), SIGKILL);
    assert_int_equal(train("killed", 8, 0), 0);
    assert_int_equal(system("cmp whole/checkpoints/ckpt-120.safetensors "
                            "killed/checkpoints/ckpt-120.safetensors"),
                     0);
    assert_int_equal(train("killed", 8, 1), 0); /* the run is done already */
    assert_int_equal(system("rm -rf whole killed"), 0);
}

static volatile sig_atomic_t asked;

static int ask(void *left, et_batch *batch, et_error *error)
{
    (void)batch, (void)error;
    asked = --*(int *)left == 0;
    return ET_OK;
}

/* Asked to stop in the validation of the second epoch: the next process hears of this epoch with
 * the values of its training. */
static void test_fit__resumes_in_a_validation(void **state)
{
    (void)state;
    assert_int_equal(system("rm -rf asked"), 0);
    for (int process = 0; process < 2; process++) {
        heard h = { .epochs = process };
        asked = 0;
        int left = process ? 0 : 6 + 2; /* batches; the evaluation of an epoch has 5 and an end */
        et_model *model;
        et_source *training = open_places(0, 400, true), *held = open_places(400, 200, false);
        const et_model_options options = { .layout = &training->layout };
        assert_ok(et_model_open(&model, build_places, NULL, &options, error));
        assert_ok(et_map_open(&held, held, ask, &left, error));
        const et_fit fit = { .epochs = 2,
                             .validation = held,
                             .run_dir = "asked",
                             .callback = hear,
                             .payload = &h,
                             .stop = &asked };
        if (process)
            assert_ok(et_model_fit(model, training, &fit, error));
        else
            assert_fails(et_model_fit(model, training, &fit, error), ET_EINTERRUPTED, "step 20");
        assert_int_equal(h.epochs, process + 1);
        et_model_close(model);
        et_source_close(training);
        et_source_close(held);
    }
    assert_int_equal(system("rm -rf asked"), 0);
}

static void test_fit__a_run_is_loaded(void **state)
{
    (void)state;
    assert_int_equal(system("rm -rf loaded"), 0);
    et_model *model = open_disc(), *best = open_disc();
    fit_disc(model, &(et_fit){ .epochs = 4, .validation_part = 0.2, .run_dir = "loaded" });
    assert_ok(et_model_load(best, "loaded", error));
    assert_same_weights(model, best);
    et_model_close(model);
    et_model_close(best);
    assert_int_equal(system("rm -rf loaded"), 0);
}

/* A rate far too large makes losses jump, so the best of 12 epochs is seldom the last. The model
 * has the best epoch's weights without a run as with one, and averages of weights where the
 * optimizer keeps them. Another name of the loss is a loss, too. */
static void test_fit__the_best_weights_stay(void **state)
{
    (void)state;
    enum { EPOCHS = 12, HELD = POINTS / 4 };
    assert_int_equal(system("rm -rf best_run"), 0);
    for (int kind = 0; kind < 5; kind++) {
        heard h = { 0 };
        et_model *model;
        et_arena *arena;
        et_model_options options = disc;
        options.optimizer = (et_optimizer_setup){ .rule = "adam",
                                                  .learning_rate = 0.5,
                                                  .average_decay = kind == 2 ? 0.9 : 0 };
        const bool last = kind == 1;
        arena = et_arena_new();
        assert_ok(et_model_open(&model, build_disc, NULL, &options, error));
        fit_disc(model, &(et_fit){ .epochs = EPOCHS,
                                   .validation_part = 0.25,
                                   .last_weights = last,
                                   .run_dir = kind == 3 ? "best_run" : NULL,
                                   .monitor = kind == 4 ? "validation_nll" : NULL,
                                   .callback = hear,
                                   .payload = &h });
        double loss, best = INFINITY;
        for (int i = 1; i <= EPOCHS; i++)
            best = fmin(best, h.validation[i]);
        et_value *logs = et_value_dict(arena);
        assert_ok(et_model_evaluate(model, points + POINTS - HELD, inside + POINTS - HELD, HELD,
                                    logs, error));
        assert_ok(et_value_read_float(logs, "validation_loss", &loss, error));
        assert_true(best < h.validation[EPOCHS]);
        const double expected = last ? h.validation[EPOCHS] : best;
        assert_true(fabs(loss - expected) < 1e-5 * (1 + expected));
        et_model_close(model);
        et_arena_free(arena);
    }
    assert_int_equal(system("rm -rf best_run"), 0);
}

static void test_fit__without_a_run_writes_nothing(void **state)
{
    (void)state;
    struct stat before, after;
    assert_int_equal(mkdir("empty", 0777), 0);
    assert_int_equal(chdir("empty"), 0);
    assert_int_equal(stat(".", &before), 0);
    et_model *model = open_disc();
    fit_disc(model, &(et_fit){ .epochs = 2, .validation_part = 0.2, .patience = 1 });
    et_model_close(model);
    assert_int_equal(stat(".", &after), 0);
    assert_true(before.st_mtim.tv_sec == after.st_mtim.tv_sec &&
                before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
    assert_int_equal(chdir(".."), 0);
    assert_int_equal(rmdir("empty"), 0);
}

static void test_fit__stops_when_asked(void **state)
{
    (void)state;
    const volatile sig_atomic_t stop = 1;
    et_model *model = open_disc();
    assert_fails(et_model_fit_arrays(model, points, inside, POINTS,
                                     &(et_fit){ .epochs = 2, .stop = &stop }, error),
                 ET_EINTERRUPTED, "interrupted");
    et_model_close(model);
}

/* ---- a training that teaches nothing ---- */

static char warnings[4000];

static void note(void *payload, et_log_level level, const char *text)
{
    (void)payload;
    if (level == ET_LOG_WARNING && strlen(warnings) + strlen(text) + 2 < sizeof warnings)
        strcat(strcat(warnings, text), "\n");
}

static void build_zeros(et_scope *s, void *payload)
{
    const et_init zeros = { ET_INIT_ZEROS, 0 };
    (void)payload;
    et_node *weight = et_param(et_in(s, "zero"), "weight", et_shape_2(2, 16), zeros);
    et_node *h = et_relu(et_matmul(et_batch_input(s, ET_MODEL_X), weight, NULL, NULL));
    h = et_dense(et_in(s, "logits"), h, 2);
    et_loss(s, "loss", et_softmax_loss(h, et_batch_input(s, ET_MODEL_Y), 0), 1);
    et_output(s, "scores", et_softmax(h));
}

static void warn_of(et_build_fn *build, const et_optimizer_setup *optimizer)
{
    et_model_options options = disc;
    et_model *model;
    options.optimizer = *optimizer;
    warnings[0] = 0;
    et_log_set(note, NULL);
    assert_ok(et_model_open(&model, build, NULL, &options, error));
    fit_disc(model, &(et_fit){ .epochs = 3, .batch_size = 50, .validation_part = 0.25 });
    et_model_close(model);
    et_log_set(NULL, NULL);
}

static void test_fit__names_gradients_of_zero(void **state)
{
    (void)state;
    warn_of(build_zeros, &disc.optimizer);
    assert_non_null(strstr(warnings,
                           "2 of 3 parameters are not trained: their gradient was exactly "
                           "zero in the first 10 updates (zero/weight, logits/weight)"));
    warn_of(build_disc, &disc.optimizer);
    assert_string_equal(warnings, "");
}

static void test_fit__names_a_training_that_changes_nothing(void **state)
{
    (void)state;
    warn_of(build_disc, &(et_optimizer_setup){ .rule = "sgd", .learning_rate = 1e-30 });
    assert_non_null(strstr(warnings, "all 3 validations from step 9 to step 27 gave exactly the "
                                     "same values"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fit__tells_each_epoch),
        cmocka_unit_test(test_fit__ends_when_the_program_says_so),
        cmocka_unit_test(test_fit__patience_ends_it),
        cmocka_unit_test(test_fit__continues),
        cmocka_unit_test(test_fit__takes_sources),
        cmocka_unit_test(test_fit__begins_at_the_beginning),
        cmocka_unit_test(test_fit__a_model_is_used_between_epochs),
        cmocka_unit_test(test_fit__a_callback_that_fails_without_a_text_gets_one),
        cmocka_unit_test(test_fit__resumes_to_the_same_bytes),
        cmocka_unit_test(test_fit__resumes_in_a_validation),
        cmocka_unit_test(test_fit__a_run_is_loaded),
        cmocka_unit_test(test_fit__the_best_weights_stay),
        cmocka_unit_test(test_fit__without_a_run_writes_nothing),
        cmocka_unit_test(test_fit__stops_when_asked),
        cmocka_unit_test(test_fit__names_gradients_of_zero),
        cmocka_unit_test(test_fit__names_a_training_that_changes_nothing),
    };
    return cmocka_run_group_tests(tests, draw_points, NULL);
}
