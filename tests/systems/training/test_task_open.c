/* A task of a kind, opened by a program with settings: the effect of settings, a run that resumes,
 * and refusals. tests/examples/test_faces.sh compares the bytes with those of `etude train`. */
#include <etude/etude.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "engine/optim/own_rule.h"
#include "formats/files.h"
#include "systems/modelgarden/recipe.h"

/* ---- a kind: y = 2 x, by one weight ---- */

typedef struct line_options {
    int64_t rows;
    double slope;
} line_options;

static const et_field rows[] = {
    ET_FIELD_INT(line_options, rows, 64, 8, 1000, "points", .change = ET_CHANGE_FIXED),
    ET_FIELD_FLOAT(line_options, slope, 2, -9, 9, "of the line", .change = ET_CHANGE_FIXED),
    ET_FIELD_END
};
static const et_fields fields = { "task", rows };

typedef struct line {
    et_task task;
    line_options options;
    float x[1000], y[1000];
} line;

static int opened;

static void build(et_task *self, et_scope *s, bool training)
{
    (void)self, (void)training;
    et_node *slope = et_dense(et_in(s, "slope"), et_batch_input(s, "x"), 1);
    et_loss(s, "loss", et_square(et_sub(slope, et_batch_input(s, "y"))), 1);
}

static int data(et_task *self, bool training, et_source **out, et_error *error_)
{
    line *l = (line *)self;
    et_array arrays[] = { { "x", ET_F32, l->x, et_shape_1(1) },
                          { "y", ET_F32, l->y, et_shape_1(1) } };
    et_batches_options options = { .shuffle = training, .repeat = training, .capacity = { 8 } };
    et_samples *samples;
    int status = et_arrays_open(&samples, arrays, 2, l->options.rows, error_);
    return status ? status : et_batches_open(out, samples, &options, error_);
}

static const et_task_class line_class = {
    .name = "line", .build = build, .data = data, .best_metric = "validation_loss"
};

static int open_line(et_task **out, const void *settings, const et_task_context *context,
                     et_error *error_)
{
    line *l = calloc(1, sizeof *l);
    (void)context;
    if (!l)
        return et_fail(error_, ET_ENOMEM, "a line");
    l->task.class = &line_class;
    l->options = *(const line_options *)settings;
    for (int64_t i = 0; i < l->options.rows; i++) {
        l->x[i] = (float)(i % 16) / 8 - 1;
        l->y[i] = (float)l->options.slope * l->x[i];
    }
    opened++;
    *out = &l->task;
    return ET_OK;
}

static void close_line(et_task *task)
{
    opened--;
    free(task);
}

static const et_experiment_row experiments[] = {
    { "line/short", "a few steps",
      "{trainer: {train_steps: 20, summary_interval: 10, validation_interval: 10, max_to_keep: 3, "
      "best_checkpoint_eval_metric: validation_loss, optimizer_config: {optimizer: {type: sgd}, "
      "learning_rate: {type: constant, constant: {learning_rate: 0.1}}}}, "
      "runtime: {mixed_precision_dtype: float32, seed: 5}}" },
    { "line/epochs", "by passes",
      "{trainer: {train_steps: 2ep, optimizer_config: {optimizer: {type: sgd}, "
      "learning_rate: {type: constant, constant: {learning_rate: 0.1}}}}, "
      "runtime: {mixed_precision_dtype: float32}}" },
    { NULL, NULL, NULL },
};
static et_task_kind line_kind = { .name = "line",
                                  .fields = &fields,
                                  .size = sizeof(line_options),
                                  .experiments = experiments,
                                  .open = open_line,
                                  .close = close_line,
                                  .rules = own_rules };

/* ---- all of it ---- */

typedef struct parts {
    et_task_context context;
    et_task *task;
    et_task_trainer *trainer;
    et_controller_options options;
} parts;

static void open_parts_from(parts *p, const char *init, const char *experiment,
                            const char *settings)
{
    assert_ok(et_device_open(&p->context.device, error));
    assert_ok(et_params_new(&p->context.params, error));
    assert_ok(
        et_task_open_from(&p->task, &line_kind, init, experiment, settings, &p->context, error));
    assert_ok(et_task_trainer_open(&p->trainer, p->task, p->context.device, p->context.params,
                                   et_task_trainer_config(p->task), error));
    assert_ok(et_task_controller_config(p->task, p->trainer, &p->options, error));
}

static void open_parts(parts *p, const char *directory, const char *experiment,
                       const char *settings)
{
    *p = (parts){ .context = { .model_dir = directory, .seed = 99 } };
    open_parts_from(p, NULL, experiment, settings);
}

static void close_parts(parts *p)
{
    et_task_trainer_close(p->trainer);
    et_task_close(p->task);
    et_params_free(p->context.params);
    et_device_close(p->context.device);
}

static void train(const char *directory, const char *settings, int64_t steps)
{
    parts p;
    et_controller *controller;
    open_parts(&p, directory, "line/short", settings);
    assert_ok(et_controller_open(&controller, &p.options, error));
    assert_ok(et_controller_train(controller, error));
    assert_int_equal(p.options.trainer->step, steps);
    assert_ok(et_controller_close(controller, error));
    close_parts(&p);
}

static void test_task_open__settings(void **state)
{
    const char *run = in(state, "a");
    parts p;
    open_parts(&p, run, NULL,
               "task.rows=40, trainer.early_stopping.patience=2, "
               "trainer.gradient_accumulation=2");
    const et_task_trainer_options *config = et_task_trainer_config(p.task);
    assert_int_equal(((line *)p.task)->options.rows, 40);
    assert_int_equal(config->seed, 5); /* the settings', not the context's */
    assert_int_equal(config->batches, 2);
    assert_int_equal(p.options.train_steps, 20);
    assert_int_equal(p.options.validation_interval, 10);
    assert_int_equal(p.options.patience, 2);
    assert_int_equal(p.options.run.max_to_keep, 3);
    assert_int_equal(p.options.run.best_comparison, ET_COMPARE_LOWER);
    assert_string_equal(p.options.run.best_metric, "validation_loss");
    assert_string_equal(p.options.run.model_dir, run);
    assert_non_null(p.options.run.identity);
    assert_true(file_is_there(in(state, "a/params.yaml")));
    close_parts(&p);
    assert_int_equal(opened, 0);
}

static void test_task_open__steps_in_epochs(void **state)
{
    parts p;
    open_parts(&p, in(state, "b"), "line/epochs", "task.rows=40");
    assert_int_equal(p.options.train_steps, 10); /* two passes of five batches */
    close_parts(&p);
}

/* The second program goes on where the first one ended; other settings are another run. */
static void test_task_open__resumes(void **state)
{
    const char *run = in(state, "c");
    train(run, NULL, 20);
    train(run, "trainer.train_steps=30", 30);
    assert_true(file_is_there(in(state, "c/checkpoints/ckpt-30.safetensors")));
    parts p = { .context = { .model_dir = run } };
    assert_ok(et_device_open(&p.context.device, error));
    assert_ok(et_params_new(&p.context.params, error));
    assert_fails(et_task_open(&p.task, &line_kind, NULL, "task.slope=3", &p.context, error),
                 ET_ECONFIG, "task.slope: 2.0, but now it is 3.0");
    assert_null(p.task);
    close_parts(&p);
    assert_int_equal(opened, 0);
}

/* A rule of the program has settings like Etude's, and resumes bit by bit. */
static void test_task_open__own_rule(void **state)
{
#define LION                                                                                       \
    "trainer.optimizer_config={optimizer: {type: lion, lion: {beta_1: 0.8, weight_decay_rate: "    \
    "0.1}}, ema: {enabled: true}}"
    static const char checkpoint[] = "checkpoints/ckpt-30.safetensors";
    const char *whole = in(state, "whole"), *parts_of = in(state, "parts");
    size_t size[2], length;
    char *bytes[2];
    train(whole, LION ",trainer.train_steps=30,trainer.checkpoint_interval=7", 30);
    train(parts_of, LION ",trainer.train_steps=17,trainer.checkpoint_interval=7", 17);
    train(parts_of, LION ",trainer.train_steps=30,trainer.checkpoint_interval=7", 30);
    for (int i = 0; i < 2; i++)
        bytes[i] = get_file(below(i ? parts_of : whole, checkpoint), &size[i]);
    assert_int_equal(size[0], size[1]);
    /* The header has times; weights, slots and average follow it. */
    const uint64_t begin = 8 + *(const uint64_t *)(const void *)bytes[0];
    assert_true(begin < size[0] && *(const uint64_t *)(const void *)bytes[1] == begin - 8);
    assert_non_null(strstr(bytes[0] + 8, "lion_m"));
    assert_memory_equal(bytes[0] + begin, bytes[1] + begin, size[0] - begin);
    char *settings = get_file(below(whole, "params.yaml"), &length);
    assert_non_null(strstr(settings, "type: lion"));
    assert_non_null(strstr(settings, "beta_1: 0.8"));
    assert_non_null(strstr(settings, "beta_2: 0.99"));
    free(settings), free(bytes[0]), free(bytes[1]);
    parts p = { .context = { .model_dir = in(state, "bad") } };
    assert_ok(et_device_open(&p.context.device, error));
    assert_ok(et_params_new(&p.context.params, error));
    static const char *const cases[][2] = {
        { "type=lyon", "Nearest: lion" },
        { "lion.beta_3=1", "Nearest: beta_" },
        { "lion.beta_1=1.5", "beta_1" },
        { "type=lion,trainer.optimizer_config.optimizer.lion.exclude_from_weight_decay='('",
          "lion.exclude_from_weight_decay" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[200];
        snprintf(text, sizeof text, "trainer.optimizer_config.optimizer.%s", cases[i][0]);
        assert_fails(et_task_open(&p.task, &line_kind, NULL, text, &p.context, error), ET_ECONFIG,
                     cases[i][1]);
    }
    et_task_kind twice = line_kind;
    twice.rules = (const et_optimizer_rule *const[]){ &lion, &lion, NULL };
    assert_fails(et_task_open(&p.task, &twice, NULL, NULL, &p.context, error), ET_EUSAGE,
                 "kind line: the update rule lion is already registered");
    /* A program without the rule reads the run, but does not train with it. */
    et_task_kind other = line_kind;
    other.rules = NULL;
    p.context.model_dir = whole;
    assert_fails(et_task_open(&p.task, &other, NULL, NULL, &p.context, error), ET_ECONFIG,
                 "optimizer.type: lion, but now it is sgd");
    close_parts(&p);
}

/* ---- a recipe ---- */

static const et_recipe_row row[] = { { "trainer.summary_interval", "summaries", false, NULL } };

static int measure(const void *options, et_recipe_amounts *amounts, et_error *error_)
{
    (void)error_;
    amounts->samples = ((const line_options *)options)->rows;
    amounts->units = (double)amounts->samples;
    amounts->epochs = 3;
    return ET_OK;
}

/* A tenth of the run; without a length in steps as many as passes. */
static void choose(const void *options, const et_recipe_amounts *amounts, et_recipe_value *values)
{
    (void)options;
    if (!values->given)
        values->number = amounts->steps ? (double)amounts->steps / 10 : amounts->epochs;
}

static const et_recipe line_recipe = { .experiment = "line/short",
                                       .noun = "point",
                                       .rows = row,
                                       .count = 1,
                                       .measure = measure,
                                       .choose = choose };
static const et_recipe line_finetuning = { .settings = "trainer.train_steps=2ep",
                                           .noun = "point",
                                           .rows = row,
                                           .count = 1,
                                           .measure = measure,
                                           .choose = choose };

/* The recipe chooses for the length that is given, or gives one; a person's settings stay; a run
 * that goes on keeps what was chosen. */
static void test_task_open__recipe(void **state)
{
    const et_task_kind plain = line_kind;
    const struct {
        const char *run, *settings;
        int64_t steps, summaries;
    } cases[] = { { "steps", "task.rows=40,trainer.train_steps=50", 50, 5 },
                  { "steps", "task.rows=40", 50, 5 },
                  { "none", "task.rows=40", 15, 3 },
                  { "epochs", "task.rows=80,trainer.train_epochs=7", 70, 7 },
                  { "given", "trainer.train_steps=50,trainer.summary_interval=4", 50, 4 } };
    line_kind.recipe = &line_recipe;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        parts p;
        open_parts(&p, in(state, cases[i].run), NULL, cases[i].settings);
        assert_int_equal(p.options.train_steps, cases[i].steps);
        assert_int_equal(p.options.summary_interval, cases[i].summaries);
        close_parts(&p);
    }
    line_kind = plain;
    assert_int_equal(opened, 0);
}

/* ---- fine-tuning ---- */

/* The weights of a run, with its settings and, once it is finished, the recipe of fine-tuning, or
 * with those of an experiment. */
static void test_task_open__from(void **state)
{
    const et_task_kind plain = line_kind;
    char *from = strdup(in(state, "trained")),
         *file = strdup(below(from, "checkpoints/ckpt-200.safetensors"));
    train(from, "task.slope=5,trainer.train_steps=200", 200);
    line_kind.finetuning = &line_finetuning;
    const struct {
        const char *run, *init, *experiment;
        int64_t steps, summaries;
        double slope;
    } cases[] = { { "tuned", from, NULL, 24, 3, 5 },
                  { "again", from, "line/short", 20, 10, 2 },
                  { "file", file, "line/epochs", 16, 1000, 2 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        parts p = { .context = { .model_dir = in(state, cases[i].run) } };
        open_parts_from(&p, cases[i].init, cases[i].experiment, NULL);
        assert_int_equal(p.options.train_steps, cases[i].steps);
        assert_int_equal(p.options.summary_interval, cases[i].summaries);
        assert_float_equal(((line *)p.task)->options.slope, cases[i].slope, 0);
        assert_ok(et_task_trainer_initialize(p.trainer, error));
        const float *weight = et_params_values(p.context.params);
        assert_float_equal(weight[0] + weight[1], 5, 0.2);
        close_parts(&p);
    }
    /* A run that goes on has its own settings, also if what it began with is gone. */
    for (int i = 0; i < 2; i++) {
        parts p = { .context = { .model_dir = in(state, "tuned") } };
        et_controller *controller;
        open_parts_from(&p, from, NULL, NULL);
        assert_int_equal(p.options.train_steps, 24);
        assert_float_equal(((line *)p.task)->options.slope, 5, 0);
        assert_ok(et_controller_open(&controller, &p.options, error));
        assert_ok(et_controller_train(controller, error));
        assert_int_equal(p.options.trainer->step, 24);
        assert_ok(et_controller_close(controller, error));
        close_parts(&p);
        if (!i)
            assert_int_equal(rename(from, in(state, "gone")), 0);
    }
    parts p = { .context = { .model_dir = in(state, "wrong") } };
    assert_ok(et_device_open(&p.context.device, error));
    assert_ok(et_params_new(&p.context.params, error));
    assert_fails(
        et_task_open_from(&p.task, &line_kind, in(state, "nothing"), NULL, NULL, &p.context, error),
        ET_ENOTFOUND, "et_task_open_from: ");
    close_parts(&p);
    free(from), free(file);
    line_kind = plain;
    assert_int_equal(opened, 0);
}

static void test_task_open__refused(void **state)
{
    const char *run = in(state, "d");
    et_device *device;
    et_params *params;
    assert_ok(et_device_open(&device, error));
    assert_ok(et_params_new(&params, error));
    const et_task_context context = { .model_dir = run, .device = device, .params = params };
    const et_task_context no_run = { .device = device, .params = params };
    const et_task_context no_device = { .model_dir = run, .params = params };
    const et_task_context no_params = { .model_dir = run, .device = device };
    const et_task_kind *kind = &line_kind;
    const struct {
        const et_task_kind *kind;
        const char *experiment, *settings;
        const et_task_context *context;
        int status;
        const char *words;
    } cases[] = {
        { NULL, NULL, NULL, &context, ET_EUSAGE, "et_task_open: kind is NULL" },
        { kind, NULL, NULL, NULL, ET_EUSAGE, "context is NULL" },
        { kind, NULL, NULL, &no_run, ET_EUSAGE, "context->model_dir is NULL" },
        { kind, NULL, NULL, &no_device, ET_EUSAGE, "context->device is NULL" },
        { kind, NULL, NULL, &no_params, ET_EUSAGE, "context->params is NULL" },
        { kind, "line/shor", NULL, &context, ET_ECONFIG, "Nearest: line/short" },
        { kind, NULL, "task.row=9", &context, ET_ECONFIG, "Nearest: rows" },
        { kind, NULL, "task.rows=1", &context, ET_ECONFIG, "8 to 1,000" },
        { kind, NULL, "rows", &context, ET_EUSAGE, "rows" },
        { kind, NULL, "trainer.train_steps=-1", &context, ET_ECONFIG, "trainer.train_steps" },
        { &et_translation_kind, NULL,
          "task.train_data.source_path=a.en,task.train_data.target_path=a.de", &context,
          ET_ENOTFOUND, "a.en" },
        { &et_translation_kind, "translation/tiny", NULL, &context, ET_ECONFIG, "source_path" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        et_task *task = (et_task *)&i;
        assert_fails(et_task_open(&task, cases[i].kind, cases[i].experiment, cases[i].settings,
                                  cases[i].context, error),
                     cases[i].status, cases[i].words);
        assert_null(task);
    }
    assert_false(file_is_there(in(state, "d/params.yaml")));
    et_task_close(NULL);
    et_params_free(params);
    et_device_close(device);
}

static void test_task_open__other_trainer(void **state)
{
    parts p, q;
    et_controller_options options;
    et_task own = { .class = &line_class };
    open_parts(&p, in(state, "e"), NULL, NULL);
    open_parts(&q, in(state, "f"), NULL, NULL);
    assert_fails(et_task_controller_config(p.task, q.trainer, &options, error), ET_EUSAGE,
                 "the trainer that was opened with this task");
    assert_fails(et_task_controller_config(&own, q.trainer, &options, error), ET_EUSAGE,
                 "give a task of et_task_open");
    assert_fails(et_task_controller_config(p.task, NULL, &options, error), ET_EUSAGE,
                 "the trainer that was opened with this task");
    assert_null(et_task_trainer_config(&own));
    assert_null(et_task_trainer_config(NULL));
    et_task_close(&own);
    close_parts(&p);
    close_parts(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_task_open__settings),
        cmocka_unit_test(test_task_open__steps_in_epochs),
        cmocka_unit_test(test_task_open__resumes),
        cmocka_unit_test(test_task_open__own_rule),
        cmocka_unit_test(test_task_open__recipe),
        cmocka_unit_test(test_task_open__from),
        cmocka_unit_test(test_task_open__refused),
        cmocka_unit_test(test_task_open__other_trainer),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
