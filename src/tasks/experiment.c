#include "tasks/experiment.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/yaml.h"

/* Largest settings file accepted, in bytes. */
#define FILE_MAX ((size_t)1 << 20)

static const et_field experiment_fields[] = {
    ET_FIELD_STRUCT(et_experiment, task, &et_translation_fields, "what is learnt, from what"),
    ET_FIELD_STRUCT(et_experiment, trainer, &et_trainer_fields, "how it is trained"),
    ET_FIELD_STRUCT(et_experiment, runtime, &et_runtime_fields, "on what it runs"), ET_FIELD_END
};
const et_fields et_experiment_fields = { "experiment", experiment_fields };

/* ---- the table -------------------------------------------------------------------------- */

static void set_stack(et_translation_stack *stack, int64_t layers, int64_t heads,
                      int64_t intermediate)
{
    stack->num_layers = layers;
    stack->num_attention_heads = heads;
    stack->intermediate_size = intermediate;
}

/* fairseq's transformer: post-norm, biases everywhere, dropout only between sub-layers. */
static void set_fairseq(et_translation_stack *stack, double dropout)
{
    stack->use_bias = true;
    stack->norm_first = stack->final_norm = false;
    stack->norm_epsilon = 1e-5;
    stack->dropout_rate = dropout;
    stack->attention_dropout_rate = stack->intermediate_dropout = 0;
}

static void set_adam(et_optimizer_options *optimizer, double beta_2, double epsilon)
{
    optimizer->type = ET_OPTIMIZER_ADAM;
    optimizer->adam.beta_2 = beta_2;
    optimizer->adam.epsilon = epsilon;
}

/* Model and recipe of Wu et al. 2021, "Good for misconceived reasons" (Multi30k). */
static void configure_tiny(et_experiment *e)
{
    et_translation_model *model = &e->task.model;
    et_optimization_options *o = &e->trainer.optimizer_config;
    set_stack(&model->encoder, 4, 4, 256);
    set_stack(&model->decoder, 4, 4, 256);
    set_fairseq(&model->encoder, 0.3);
    set_fairseq(&model->decoder, 0.3);
    model->embedding_width = 128;
    model->dropout_rate = 0.3;
    set_adam(&o->optimizer, 0.98, 1e-8);
    o->learning_rate.type = ET_RATE_INVERSE_SQRT;
    o->learning_rate.inverse_sqrt.peak_learning_rate = 0.005;
    o->learning_rate.inverse_sqrt.warmup_init_learning_rate = 1e-7;
    o->learning_rate.inverse_sqrt.warmup_steps = 2000;
    e->trainer.train_steps = 6000;
    e->trainer.steps_per_loop = e->trainer.summary_interval = 100;
}

/* The base model of Vaswani et al. 2017 with Model Garden's schedule for it. */
static void configure_base(et_experiment *e)
{
    et_optimization_options *o = &e->trainer.optimizer_config;
    set_adam(&o->optimizer, 0.997, 1e-9);
    o->learning_rate.type = ET_RATE_POWER;
    o->learning_rate.power.initial_learning_rate = 2 / sqrt(512);
    o->learning_rate.power.power = -0.5;
    o->warmup.type = ET_WARMUP_LINEAR;
    o->warmup.linear.warmup_steps = 16000;
    e->task.vocabulary.size = 32000;
    e->task.train_data.global_batch_size = 24576;
    e->trainer.train_steps = 300000;
    e->trainer.steps_per_loop = e->trainer.summary_interval = 1000;
    e->trainer.checkpoint_interval = e->trainer.validation_interval = 5000;
}

static const et_experiment_kind kinds[] = {
    { "translation/tiny", "4+4 layers, width 128, feed-forward 256, 4 heads, post-norm",
      configure_tiny },
    { "translation/base", "6+6 layers, width 512, feed-forward 2,048, 8 heads, pre-norm",
      configure_base },
};

#define KIND_COUNT (sizeof kinds / sizeof kinds[0])

const et_experiment_kind *et_experiment_kinds(size_t *count)
{
    *count = KIND_COUNT;
    return kinds;
}

static int unknown_name(const char *name, et_error *error)
{
    const char *names[KIND_COUNT + 1] = { NULL };
    for (size_t i = 0; i < KIND_COUNT; i++)
        names[i] = kinds[i].name;
    const char *nearest = et_nearest(name, names);
    return et_fail(error, ET_ECONFIG, "no experiment named %s.%s%s `etude list` shows all", name,
                   nearest ? " Nearest: " : "", nearest ? nearest : "");
}

int et_experiment_begin(et_experiment *experiment, const char *name, et_error *error)
{
    for (size_t i = 0; i < KIND_COUNT; i++) {
        if (strcmp(kinds[i].name, name))
            continue;
        et_fields_defaults(&et_experiment_fields, experiment);
        experiment->name = kinds[i].name;
        kinds[i].configure(experiment);
        return ET_OK;
    }
    return unknown_name(name, error);
}

/* ---- reading ---------------------------------------------------------------------------- */

/* A settings file may name the experiment it belongs to; that is not a field. */
static et_value *without_name(const et_value *dict, et_arena *arena)
{
    et_value *rest = et_value_dict(arena);
    if (!rest)
        return NULL;
    *rest = *dict;
    if (dict->first && dict->first->key && !strcmp(dict->first->key, "experiment")) {
        rest->first = dict->first->next;
        rest->count--;
    }
    return rest;
}

static int parse_file(et_value **out, const char *path, et_arena *arena, et_error *error)
{
    char *text;
    size_t length;
    int status = et_file_read(&text, &length, path, FILE_MAX, error);
    if (status)
        return status;
    status = et_yaml_parse(out, arena, text, length, path, error);
    et_free(text);
    return status;
}

int et_experiment_read_file(et_experiment *experiment, const char *path, et_arena *arena,
                            et_error *error)
{
    et_value *dict;
    int status = parse_file(&dict, path, arena, error);
    if (status)
        return status;
    et_value *settings = without_name(dict, arena);
    if (!settings)
        return et_alloc_failed(error, sizeof *settings, "settings");
    return et_fields_read(&et_experiment_fields, experiment, settings, arena, path, "", error);
}

int et_experiment_set(et_experiment *experiment, const char *assignment, et_arena *arena,
                      et_error *error)
{
    const char *equals = strchr(assignment, '=');
    if (!equals || equals == assignment)
        return et_fail(error, ET_EUSAGE, "--set %s: not of the form key=value", assignment);
    char *path = et_arena_printf(arena, "%.*s", (int)(equals - assignment), assignment);
    if (!path)
        return et_alloc_failed(error, strlen(assignment), "a setting");
    return et_fields_set(&et_experiment_fields, experiment, path, equals + 1, arena, error);
}

int et_experiment_check(const et_experiment *experiment, et_error *error)
{
    int status = et_translation_check(&experiment->task, error);
    return status ? status : et_trainer_check(&experiment->trainer, error);
}

/* ---- the run's own settings ------------------------------------------------------------- */

int et_experiment_write(const et_experiment *experiment, const char *path, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_strbuf text = ET_STRBUF_INIT;
    et_value *echo = et_fields_echo(&et_experiment_fields, experiment, &arena);
    et_strbuf_printf(&text, "experiment: %s\n", experiment->name);
    et_yaml_print(&text, echo);
    int status = echo && !text.failed
                     ? et_file_write(path, et_strbuf_text(&text), text.length, error)
                     : et_alloc_failed(error, text.length, "settings");
    et_strbuf_release(&text);
    et_arena_release(&arena);
    return status;
}

int et_experiment_open_run(et_experiment *experiment, const char *model_dir, et_arena *arena,
                           et_error *error)
{
    const char *path = et_arena_printf(arena, "%s/%s", model_dir, ET_EXPERIMENT_FILE);
    et_value *dict;
    const char *name;
    if (!path)
        return et_alloc_failed(error, strlen(model_dir), "a path");
    if (!et_file_exists(path))
        return et_fail(error, ET_ENOTFOUND, "%s: no run of etude: %s is missing", model_dir,
                       ET_EXPERIMENT_FILE);
    int status = parse_file(&dict, path, arena, error);
    if (!status && et_value_read_string(dict, "experiment", &name, error))
        status = et_fail_while(error, ET_EFORMAT, "%s", path);
    if (!status)
        status = et_experiment_begin(experiment, name, error);
    return status ? status : et_experiment_read_file(experiment, path, arena, error);
}

/* Settings that may not change within a run. */
static const char *const fixed[] = {
    "task.model.encoder",
    "task.model.decoder",
    "task.model.embedding_width",
    "task.model.dropout_rate",
    "task.model.label_smoothing",
    "task.train_data",
    "trainer.optimizer_config",
    "trainer.gradient_accumulation",
    "runtime.seed",
    "runtime.mixed_precision_dtype",
};

static void print_value(et_strbuf *out, const et_value *value)
{
    et_strbuf whole = ET_STRBUF_INIT;
    et_yaml_print(&whole, value);
    const char *text = et_strbuf_text(&whole);
    et_strbuf_append_bytes(out, text, strcspn(text, "\n"));
    et_strbuf_release(&whole);
}

static bool same_scalar(const et_value *a, const et_value *b)
{
    et_strbuf left = ET_STRBUF_INIT, right = ET_STRBUF_INIT;
    et_yaml_print(&left, a);
    et_yaml_print(&right, b);
    bool same = !strcmp(et_strbuf_text(&left), et_strbuf_text(&right));
    et_strbuf_release(&left);
    et_strbuf_release(&right);
    return same;
}

/* The first leaf below both that differs; its path is appended to path. */
static bool find_difference(const et_value *a, const et_value *b, et_strbuf *path,
                            const et_value **left, const et_value **right)
{
    if (a->kind != ET_VALUE_DICT || b->kind != ET_VALUE_DICT) {
        *left = a;
        *right = b;
        return !same_scalar(a, b);
    }
    const et_value *x = a->first, *y = b->first;
    for (; x && y; x = x->next, y = y->next) {
        size_t length = path->length;
        et_strbuf_printf(path, ".%s", x->key);
        if (find_difference(x, y, path, left, right))
            return true;
        path->length = length;
        path->data[length] = 0;
    }
    return false;
}

static int report_difference(const char *path, const et_value *left, const et_value *right,
                             const char *model_dir, et_error *error)
{
    et_strbuf kept = ET_STRBUF_INIT, now = ET_STRBUF_INIT;
    print_value(&kept, left);
    print_value(&now, right);
    int status = et_fail(error, ET_ECONFIG,
                         "%s belongs to a run with %s: %s, now it is %s; choose another "
                         "--model-dir, or that value to go on",
                         model_dir, path, et_strbuf_text(&kept), et_strbuf_text(&now));
    et_strbuf_release(&kept);
    et_strbuf_release(&now);
    return status;
}

int et_experiment_check_same(const et_experiment *kept, const et_experiment *now,
                             const char *model_dir, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *a = et_fields_echo(&et_experiment_fields, kept, &arena);
    et_value *b = et_fields_echo(&et_experiment_fields, now, &arena);
    int status = a && b ? ET_OK : et_alloc_failed(error, 0, "settings");
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0] && !status; i++) {
        et_strbuf path = ET_STRBUF_INIT;
        const et_value *left, *right;
        et_strbuf_append(&path, fixed[i]);
        const et_value *x = et_value_path(a, fixed[i]), *y = et_value_path(b, fixed[i]);
        if (x && y && find_difference(x, y, &path, &left, &right))
            status = report_difference(et_strbuf_text(&path), left, right, model_dir, error);
        et_strbuf_release(&path);
    }
    et_arena_release(&arena);
    return status;
}
