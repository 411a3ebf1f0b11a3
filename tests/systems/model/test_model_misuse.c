/* The refusals of each call, each in one clear sentence. */
#include "systems/model/disc.h"

#include <math.h>
#include <stdio.h>

#include "base/scarce.h"

static et_model *model;
static et_arena *arena;

static int open_all(void **state)
{
    draw_points(state);
    arena = et_arena_new();
    model = open_disc();
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    et_model_close(model);
    et_arena_free(arena);
    return 0;
}

/* ---- et_fit ---- */

typedef struct wrong_fit {
    et_fit fit;
    const char *says;
} wrong_fit;

static const wrong_fit fits[] = {
    { { .epochs = -1 }, "epochs -1" },
    { { .steps = -1 }, "steps -1" },
    { { .batch_size = -1 }, "batch_size -1" },
    { { .patience = -1, .validation_part = 0.5 }, "patience -1" },
    { { .epochs = 1, .steps = 1 }, "both epochs and steps" },
    { { .validation_part = 1 }, "validation_part: 1" },
    { { .validation_part = -0.1 }, "validation_part: -0.1" },
    { { .validation_part = NAN }, "validation_part: nan" },
    { { .patience = 1 }, "patience needs validation data" },
    { { .monitor = "validation_loss" }, "monitor needs validation data" },
    { { .verbose = 3 }, "verbose: 3" },
    { { .run_dir = "" }, "run_dir" },
    { { .monitor = "", .validation_part = 0.5 }, "et_fit.monitor: \"\" names no value" },
    { { .batch_size = (int64_t)1 << 40 }, "too many" },
};

static void test_misuse__of_fit(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof fits / sizeof *fits; i++)
        assert_fails(et_model_fit_arrays(model, points, inside, POINTS, &fits[i].fit, error),
                     ET_ECONFIG, fits[i].says);
    assert_null(et_model_optimizer(model)); /* nothing has begun */
}

/* A monitored value that validation does not have is reported at the first validation. */
static void test_misuse__of_monitor(void **state)
{
    (void)state;
    et_model *own = open_disc();
    et_fit fit = { .epochs = 1, .validation_part = 0.5, .monitor = "validation_f1" };
    assert_fails(et_model_fit_arrays(own, points, inside, POINTS, &fit, error), ET_ECONFIG,
                 "no value validation_f1, which chooses the best checkpoint "
                 "(trainer.best_checkpoint_eval_metric; in a program run.best_metric or "
                 "et_fit.monitor)");
    et_model_close(own);
}

/* ---- opening ---- */

static void no_loss(et_scope *s, void *payload)
{
    (void)payload;
    et_output(s, "scores", et_dense(et_in(s, "logits"), et_batch_input(s, ET_MODEL_X), 2));
}

static void no_output(et_scope *s, void *payload)
{
    (void)payload;
    et_node *h = et_dense(et_in(s, "logits"), et_batch_input(s, ET_MODEL_X), 2);
    et_loss(s, "loss", et_softmax_loss(h, et_batch_input(s, ET_MODEL_Y), 0), 1);
}

static void scalar_output(et_scope *s, void *payload)
{
    no_output(s, payload);
    et_output(s, "mean", et_mean(et_batch_input(s, ET_MODEL_X)));
}

static void other_field(et_scope *s, void *payload)
{
    (void)payload;
    et_batch_input(s, "pixels");
}

typedef struct wrong_open {
    et_build_fn *build;
    et_model_options options;
    int status;
    const char *says;
} wrong_open;

#define LAYOUT(...)                                                                                \
    {                                                                                              \
        .layout = &(const et_layout)__VA_ARGS__                                                    \
    }
#define FIELD(...)                                                                                 \
    (const et_layout_field[])                                                                      \
    {                                                                                              \
        {                                                                                          \
            .name = __VA_ARGS__                                                                    \
        }                                                                                          \
    }

#define GROUP(...)                                                                                 \
    {                                                                                              \
        .parameter_groups = &(const et_parameter_group)__VA_ARGS__, .parameter_group_count = 1     \
    }

static const wrong_open opens[] = {
    { NULL, { .x = { 1, { 2 } } }, ET_EUSAGE, "build is NULL" },
    { no_loss, { .x = { 1, { 2 } }, .y_type = ET_I32 }, ET_EGRAPH, "no loss" },
    { no_output, { .x = { 1, { 2 } }, .y_type = ET_I32 }, ET_EGRAPH, "names no output" },
    { scalar_output, { .x = { 1, { 2 } }, .y_type = ET_I32 }, ET_EGRAPH, "output mean" },
    { other_field, { .x = { 1, { 2 } } }, ET_EGRAPH, "pixels" },
    { no_loss, { .x = { 1, { 0 } } }, ET_ECONFIG, "et_model_options.x" },
    { no_loss, { .x = { 4, { 1, 1, 1, 1 } } }, ET_ECONFIG, "et_model_options.x" },
    { no_loss, { .x_type = ET_U8 }, ET_ECONFIG, "x_type" },
    { no_loss, { .y = { 1, { -1 } } }, ET_ECONFIG, "et_model_options.y" },
    { no_loss, { .optimizer = { .rule = "adamm" } }, ET_ECONFIG, "adamm" },
    { no_loss, { .optimizer = { .learning_rate = -1 } }, ET_ECONFIG, "learning_rate" },
    { no_loss,
      { .optimizer = { .adam = &(const et_adam){ 0 }, .sgd = &(const et_sgd){ 0 } } },
      ET_ECONFIG,
      "both sgd and adam" },
    { no_loss,
      { .optimizer = { .rule = "sgd", .adam = &(const et_adam){ 0 } } },
      ET_ECONFIG,
      "settings of adam" },
    { no_loss,
      { .optimizer = { .learning_rate = 1, .cosine = &(const et_schedule_cosine){ 0 } } },
      ET_ECONFIG,
      "schedule cosine" },
    { no_loss,
      { .optimizer = { .adam = &(const et_adam){ .beta_1 = 2 } } },
      ET_ECONFIG,
      "optimizer.adam.beta_1" },
    { no_loss, { .optimizer = { .warmup_steps = -1 } }, ET_ECONFIG, "warmup_steps -1" },
    { no_loss,
      { .optimizer = { .parameter_groups = &(const et_parameter_group){ .pattern = "hidden" } } },
      ET_ECONFIG,
      "parameter_groups is not NULL and parameter_group_count is 0" },
    { no_loss,
      { .optimizer = { .parameter_group_count = 1 } },
      ET_ECONFIG,
      "parameter_groups is NULL and parameter_group_count is 1" },
    { no_loss,
      { .optimizer = { .parameter_groups = &(const et_parameter_group){ .pattern = "hidden" },
                       .parameter_group_count = -1 } },
      ET_ECONFIG,
      "parameter_group_count is -1" },
    { no_loss,
      { .optimizer = GROUP({ "hidden", .learning_rate_multiplier = -2 }) },
      ET_ECONFIG,
      "learning_rate_multiplier: -2" },
    { no_loss,
      { .optimizer = GROUP({ "hidden", .weight_decay_rate = -1 }) },
      ET_ECONFIG,
      "parameter_groups[0].weight_decay_rate: -1; give at least 0" },
    { no_loss,
      { .optimizer = GROUP({ "hidden", .weight_decay_rate = 0.1, .no_weight_decay = true }) },
      ET_ECONFIG,
      "both no_weight_decay and weight_decay_rate" },
    { no_loss, { .optimizer = { .average_decay = 2 } }, ET_ECONFIG, "average_decay 2" },
    { no_loss, LAYOUT({ 0 }), ET_ECONFIG, "batches of 0 fields and 0 kinds" },
    { no_loss, LAYOUT({ .kinds = 99, .fields = 1, .field = FIELD("x") }), ET_ECONFIG, "99 kinds" },
    { no_loss, LAYOUT({ .kinds = 1, .fields = 1, .field = FIELD(NULL) }), ET_ECONFIG, "no name" },
    { no_loss, LAYOUT({ .kinds = 1, .fields = 1, .unit = 1, .field = FIELD("x") }), ET_ECONFIG,
      "whose unit is the kind 1: give 0 to 0" },
};

static void test_misuse__of_open(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof opens / sizeof *opens; i++) {
        et_model *own = model;
        assert_fails(et_model_open(&own, opens[i].build, NULL, &opens[i].options, error),
                     opens[i].status, opens[i].says);
        assert_null(own);
    }
}

/* ---- parameter groups: what only the names of parameters can tell, at the first training ---- */

typedef struct wrong_group {
    et_parameter_group groups[2];
    const char *says;
} wrong_group;

static const wrong_group groups[] = {
    { { { .pattern = "hiden" }, { .pattern = "logits" } },
      "'hiden' matches no parameter; the first one is called hidden/" },
    { { { .pattern = "hidden" }, { .pattern = NULL } }, "parameter_groups[1].pattern is not set" },
    { { { .pattern = "hidden" }, { .pattern = "" } }, "parameter_groups[1].pattern is not set" },
    { { { .pattern = "hidden" }, { .pattern = "(" } }, "parameter_groups[1].pattern" },
    { { { .pattern = "bias" }, { .pattern = "hidden/" } },
      "hidden/bias is in two groups, 'bias' and 'hidden/'" },
    { { { "logits", .no_weight_decay = true }, { .pattern = "hidden" } },
      "the update rule adam has no weight decay" },
};

static void test_misuse__of_groups(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        et_model *own;
        et_model_options options = disc;
        options.optimizer.parameter_groups = groups[i].groups;
        options.optimizer.parameter_group_count = 2;
        assert_ok(et_model_open(&own, build_disc, NULL, &options, error));
        assert_fails(et_model_fit_arrays(own, points, inside, POINTS, NULL, error), ET_ECONFIG,
                     groups[i].says);
        et_model_close(own);
    }
}

/* ---- other calls ---- */

static void test_misuse__of_arrays(void **state)
{
    (void)state;
    static float out[2];
    et_value *logs = et_value_dict(arena), *list = et_value_set_list(logs, "list");
    assert_fails(et_model_fit_arrays(model, NULL, inside, 5, NULL, error), ET_EUSAGE, "x is NULL");
    assert_fails(et_model_fit_arrays(model, points, NULL, 5, NULL, error), ET_EUSAGE, "y is NULL");
    assert_fails(et_model_fit_arrays(model, points, inside, 0, NULL, error), ET_ECONFIG,
                 "0 samples");
    assert_fails(et_model_evaluate(model, points, inside, -1, logs, error), ET_ECONFIG,
                 "-1 samples");
    assert_fails(et_model_evaluate(model, points, inside, 5, NULL, error), ET_EUSAGE, "logs");
    assert_fails(et_model_evaluate(model, points, inside, 5, list, error), ET_EUSAGE, "logs");
    assert_fails(et_model_evaluate_source(model, NULL, logs, error), ET_EUSAGE, "NULL");
    assert_fails(et_model_fit(model, NULL, NULL, error), ET_EUSAGE, "source is NULL");
    assert_fails(et_model_predict(model, NULL, 1, out, error), ET_EUSAGE, "x is NULL");
    assert_fails(et_model_predict(model, points, 1, NULL, error), ET_EUSAGE, "out is NULL");
    assert_fails(et_model_predict(model, points, -1, out, error), ET_EUSAGE, "-1 samples");
}

static void test_misuse__of_labels(void **state)
{
    (void)state;
    static const int32_t three[2] = { 0, 3 };
    et_model *own = open_disc();
    assert_fails(et_model_fit_arrays(own, points, three, 2, NULL, error), ET_EDATA, "3");
    et_model_close(own);
}

/* Names the row, the value and the field, and not the batch. */
static void test_misuse__of_numbers(void **state)
{
    (void)state;
    static float x[40][2];
    static int32_t y[40];
    static const struct {
        float value;
        const char *says;
    } rows[] = { { NAN, "row 33 has nan in x" }, { -INFINITY, "row 33 has -inf in x" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        et_model *own = open_disc();
        char says[200];
        x[33][1] = rows[i].value;
        snprintf(says, sizeof says, ": the loss or gradient is not finite: %s; correct this value",
                 rows[i].says);
        assert_fails(et_model_fit_arrays(own, x, y, 40, NULL, error), ET_EDIVERGED, says);
        et_model_close(own);
    }
}

static void test_misuse__of_files(void **state)
{
    (void)state;
    assert_fails(et_model_save(model, "", error), ET_ECONFIG, "name");
    assert_fails(et_model_load(model, "", error), ET_ECONFIG, "et_model_load");
    assert_fails(et_model_load(model, NULL, error), ET_ECONFIG, "et_model_load");
    assert_fails(et_model_load(model, "nowhere.safetensors", error), ET_ENOTFOUND,
                 "nowhere.safetensors");
    assert_fails(et_model_summary(model, NULL, error), ET_EUSAGE, "stdout");
    assert_fails(et_freeze(model, "encoder/*", error), ET_ECONFIG, "encoder/*");
    assert_fails(et_freeze(model, "", error), ET_ECONFIG, "\"\" names no parameter");
    assert_fails(et_model_save(model, NULL, error), ET_ECONFIG, "no name");
    assert_fails(et_freeze(model, "*", error), ET_ECONFIG, "no parameter to train");
    assert_fails(et_freeze(model, "hidden", error), ET_ECONFIG, "hidden/weight");
    assert_fails(et_model_predict(model, points, -3, inside, error), ET_EUSAGE,
                 "no number below 0");
    bool failed = true;
    for (long n = 0; failed; n++) {
        et_error why = ET_ERROR_INIT;
        et_model *own = open_disc();
        scarce_begin(n);
        const int status = et_freeze(own, "hidden*", &why);
        failed = scarce_failed;
        et_allocator_set(NULL);
        et_model_close(own);
        if (status != (failed ? ET_ENOMEM : ET_OK))
            fail_msg("allocation %ld: %d, %s", n, status, why.text);
    }
}

static void wider(et_scope *s, void *payload)
{
    (void)payload;
    et_node *h = et_dense(et_in(s, "hidden"), et_batch_input(s, ET_MODEL_X), 17);
    h = et_dense(et_in(s, "logits"), h, 2);
    et_loss(s, "loss", et_softmax_loss(h, et_batch_input(s, ET_MODEL_Y), 0), 1);
    et_output(s, "scores", h);
}

static void test_misuse__of_other_weights(void **state)
{
    (void)state;
    et_model *other;
    assert_ok(et_model_save(model, "narrow.safetensors", error));
    assert_ok(et_model_open(&other, wider, NULL, &disc, error));
    assert_fails(et_model_load(other, "narrow.safetensors", error), ET_ECONFIG, "hidden/");
    et_model_close(other);
    unlink("narrow.safetensors");
}

/* Another size of batches after training; a source of other batches. */
static void test_misuse__of_batches(void **state)
{
    (void)state;
    et_model *own = open_disc();
    et_samples *samples;
    et_source *source;
    const et_array pixels[] = { { "pixels", ET_F32, points, et_shape_1(2) } };
    fit_disc(own, &(et_fit){ .steps = 1 });
    assert_fails(et_model_fit_arrays(own, points, inside, POINTS,
                                     &(et_fit){ .steps = 1, .batch_size = 64 }, error),
                 ET_ECONFIG, "batches of 64");
    assert_ok(et_arrays_open(&samples, pixels, 1, POINTS, error));
    assert_ok(et_batches_open(&source, samples, &(et_batches_options){ .repeat = true }, error));
    assert_fails(et_model_fit(own, source, NULL, error), ET_ECONFIG, "field x");
    assert_fails(et_model_fit(own, source, &(et_fit){ .batch_size = 32 }, error), ET_ECONFIG,
                 "batch_size is for arrays");
    et_source_close(source);
    et_model_close(own);
}

static int train_inside(void *payload, int64_t epoch, const et_value *logs, bool *stop,
                        et_error *error)
{
    (void)epoch, (void)logs, (void)stop;
    return et_model_fit_arrays(payload, points, inside, POINTS, NULL, error);
}

static void test_misuse__of_a_callback(void **state)
{
    (void)state;
    et_model *own = open_disc();
    et_fit fit = { .epochs = 1, .callback = train_inside, .payload = own };
    assert_fails(et_model_fit_arrays(own, points, inside, POINTS, &fit, error), ET_EUSAGE,
                 "being trained");
    et_model_close(own);
}

static int try_inside(void *payload, int64_t epoch, const et_value *logs, bool *stop,
                      et_error *error)
{
    et_error own = ET_ERROR_INIT;
    (void)epoch, (void)logs, (void)stop, (void)error;
    assert_int_equal(et_model_fit(payload, NULL, NULL, &own), ET_EUSAGE);
    return ET_OK;
}

/* A refused call does not change the training under way. */
static void test_misuse__of_a_callback_that_goes_on(void **state)
{
    (void)state;
    static float scores[2][POINTS][2];
    for (int i = 0; i < 2; i++) {
        et_model *own = open_disc();
        et_fit fit = { .epochs = 3, .callback = i ? try_inside : NULL, .payload = own };
        assert_ok(et_model_fit_arrays(own, points, inside, POINTS, &fit, error));
        assert_ok(et_model_predict(own, points, POINTS, scores[i], error));
        et_model_close(own);
    }
    assert_memory_equal(scores[0], scores[1], sizeof scores[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_misuse__of_fit),
        cmocka_unit_test(test_misuse__of_monitor),
        cmocka_unit_test(test_misuse__of_open),
        cmocka_unit_test(test_misuse__of_groups),
        cmocka_unit_test(test_misuse__of_arrays),
        cmocka_unit_test(test_misuse__of_labels),
        cmocka_unit_test(test_misuse__of_numbers),
        cmocka_unit_test(test_misuse__of_files),
        cmocka_unit_test(test_misuse__of_other_weights),
        cmocka_unit_test(test_misuse__of_batches),
        cmocka_unit_test(test_misuse__of_a_callback),
        cmocka_unit_test(test_misuse__of_a_callback_that_goes_on),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
