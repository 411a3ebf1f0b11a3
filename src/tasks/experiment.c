/* Experiments and their settings, from the table to a run's own file:
 *
 *   defaults of the fields -> the experiment's row -> YAML files -> --set -> checks -> params.yaml
 *
 * Every arrow changes what it names and leaves the rest. The tree of settings is what the field
 * tables say (base/fields.h): task, trainer, runtime; nothing here knows a setting by its path.
 *
 * A settings file may name its experiment in a key of its own, `experiment`, beside the three
 * groups: params.yaml does, so that a run says what it is, and such a file can be given with
 * --config to begin another run like it.
 *
 * To add an experiment: a function and a row in `kinds`. */
#include "tasks/experiment.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/file.h"
#include "base/yaml.h"

/* Largest settings file accepted, in bytes. */
#define FILE_MAX ((size_t)1 << 20)

/* The root of all settings: a row for each group. */
static const et_field experiment_fields[] = {
    ET_FIELD_STRUCT(et_experiment, task, &et_translation_fields, "what is learnt, from what"),
    ET_FIELD_STRUCT(et_experiment, trainer, &et_trainer_fields, "how it is trained"),
    ET_FIELD_STRUCT(et_experiment, runtime, &et_runtime_fields, "on what it runs"), ET_FIELD_END
};
const et_fields et_experiment_fields = { "experiment", experiment_fields };

/* ---- the table --------------------------------------------------------------------------
 *
 * Each function sets what its recipe says beyond the fields' defaults; the row in `kinds` makes
 * it an experiment. */

/* What models of one kind differ in: the rest of a stack are defaults. */
static void set_stack(et_translation_stack *stack, int64_t layers, int64_t heads,
                      int64_t intermediate)
{
    et_assert(layers > 0 && heads > 0 && intermediate > 0);
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

/* Every recipe has its own two; beta_1 is 0.9 in all of them. */
static void set_adam(et_optimizer_options *optimizer, double beta_2, double epsilon)
{
    optimizer->type = ET_OPTIMIZER_ADAM;
    optimizer->adam.beta_2 = beta_2;
    optimizer->adam.epsilon = epsilon;
}

/* Model and recipe of Wu et al. 2021, "Good for misconceived reasons" (Multi30k). The learning
 * rate rises for 2000 steps to 0.005 and falls with 1/sqrt(step). */
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

/* The base model of Vaswani et al. 2017 with Model Garden's schedule for it. Its rate is
 * width^-0.5 * 2 * min(step^-0.5, step * warmup^-1.5): 2 / sqrt(512) and power -0.5, with the
 * linear warm-up in front. */
static void configure_base(et_experiment *e)
{
    et_optimization_options *o = &e->trainer.optimizer_config;
    set_adam(&o->optimizer, 0.997, 1e-9);
    o->learning_rate.type = ET_RATE_POWER;
    o->learning_rate.power.initial_learning_rate = 2 / sqrt(512);
    o->learning_rate.power.power = -0.5;
    o->warmup.type = ET_WARMUP_LINEAR;
    o->warmup.linear.warmup_steps = 16000;
    e->task.vocabulary.max_size = 32000;
    e->task.train_data.global_batch_size = 24576;
    e->trainer.train_steps = 300000;
    e->trainer.steps_per_loop = e->trainer.summary_interval = 1000;
    e->trainer.checkpoint_interval = e->trainer.validation_interval = 5000;
}

/* Rows: name (in files of runs, so it stays), help, what it sets on top of the defaults. */
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

/* With the nearest name, if one is near. */
static int unknown_name(const char *name, et_error *error)
{
    const char *names[KIND_COUNT + 1] = { NULL };
    for (size_t i = 0; i < KIND_COUNT; i++)
        names[i] = kinds[i].name;
    return et_fail(error, ET_ECONFIG, "no experiment named %s%s; `etude list` shows all", name,
                   et_nearest_hint(name, names, "").text);
}

/* All members are written: defaults first, so that a row need say only what differs. */
int et_experiment_begin(et_experiment *experiment, const char *name, et_error *error)
{
    et_assert(name);
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

/* ---- reading ----------------------------------------------------------------------------
 *
 * YAML text -> tree (base/yaml.h) -> members (base/fields.h). Unknown keys, wrong types and
 * values out of range are found there, with file and line. */

/* The tree keeps copies in arena, so the text can go. */
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

#define NAME_KEY "experiment" /* beside the fields: which experiment a file's settings are for */

/* The name that a file gives; *name NULL if it gives none. *line is that of the key, for
 * messages; untouched if there is none. */
static int find_name(const char **name, int *line, const et_value *dict, const char *path,
                     et_error *error)
{
    const et_value *found = et_value_get(dict, NAME_KEY);
    *name = NULL;
    if (!found)
        return ET_OK;
    *line = found->line;
    if (found->kind != ET_VALUE_STRING)
        return et_fail(error, ET_ECONFIG,
                       "%s:%d: " NAME_KEY ": needs a name, not %s; `etude list` shows all", path,
                       found->line, et_value_kind_name(found->kind));
    *name = found->string;
    return ET_OK;
}

/* All of dict but the name. NULL: no memory. The children are copied, one struct each, since a
 * value hangs in one list only; what is below them is shared. */
static const et_value *without_name(const et_value *dict, et_arena *arena)
{
    /* A dict without the key would need a way to take one out, which values have not. */
    et_value *rest = et_value_dict(arena);
    for (const et_value *child = rest ? dict->first : NULL; child; child = child->next) {
        et_value *copy = et_arena_alloc(arena, sizeof *copy);
        if (!copy)
            return NULL;
        *copy = *child;
        copy->next = NULL;
        if (strcmp(child->key, NAME_KEY))
            et_value_append(rest, child->key, copy);
    }
    return rest;
}

/* Reads the whole file for one key: it is parsed again when the experiment is known. */
int et_experiment_named_in(const char **name, const char *path, et_arena *arena, et_error *error)
{
    et_value *dict;
    int line = 0;
    int status = parse_file(&dict, path, arena, error);
    return status ? status : find_name(name, &line, dict, path, error);
}

/* Settings of another experiment are refused: they would be mixed with this one's, which differ
 * in what they leave out. */
static int read_settings(et_experiment *experiment, const et_value *dict, const char *path,
                         et_arena *arena, et_error *error)
{
    const char *name;
    int line = 0;
    int status = find_name(&name, &line, dict, path, error);
    if (status)
        return status;
    if (name && strcmp(name, experiment->name))
        return et_fail(error, ET_ECONFIG,
                       "%s:%d: these are settings for %s, not for %s; choose that experiment, or "
                       "leave the line out",
                       path, line, name, experiment->name);
    const et_value *settings = dict->kind == ET_VALUE_DICT ? without_name(dict, arena) : dict;
    if (!settings)
        return et_alloc_failed(error, sizeof *settings, "settings");
    return et_fields_read(&et_experiment_fields, experiment, settings, arena, path, "", error);
}

/* What the file does not mention stays as it is. */
int et_experiment_read_file(et_experiment *experiment, const char *path, et_arena *arena,
                            et_error *error)
{
    et_value *dict;
    int status = parse_file(&dict, path, arena, error);
    return status ? status : read_settings(experiment, dict, path, arena, error);
}

/* What takes two groups at once is here; what takes one is that group's. */
int et_experiment_check(const et_experiment *experiment, et_error *error)
{
    const et_trainer_options *trainer = &experiment->trainer;
    const char *metric = trainer->best_checkpoint_eval_metric;
    if (metric && !strcmp(metric, ET_BEST_AUTO))
        metric = NULL; /* there where validation is */
    int status = et_translation_check(&experiment->task, error);
    if (!status)
        status = et_trainer_check(trainer, error);
    if (!status && metric)
        status = et_translation_check_metric(&experiment->task, metric, error);
    if (!status && metric && !trainer->validation_interval)
        status = et_fail(error, ET_ECONFIG,
                         "trainer.best_checkpoint_eval_metric: %s is never known with "
                         "trainer.validation_interval: 0; set an interval",
                         metric);
    return status;
}

/* ---- the run's own settings -------------------------------------------------------------
 *
 * params.yaml: what a run is. It is written when a run begins and again when it goes on under
 * other settings that may change. */

/* Whether these bytes are all that path has. */
static bool is_written(const char *path, const et_strbuf *text)
{
    char *bytes;
    size_t length;
    /* A file that is longer than the text is not it, and is refused by the limit. */
    if (et_file_read(&bytes, &length, path, text->length, NULL))
        return false;
    bool same = length == text->length && !memcmp(bytes, et_strbuf_text(text), length);
    et_free(bytes);
    return same;
}

/* A run that goes on has the same settings, mostly, and a file made durable takes as long as all
 * else that a start does: what stands there already is left alone. */
static int write_settings(const char *path, const et_strbuf *text, et_error *error)
{
    if (is_written(path, text))
        return ET_OK;
    return et_file_write(path, et_strbuf_text(text), text->length, error);
}

/* Every setting is written, defaults too: a later version with other defaults reads the same
 * run. */
int et_experiment_write(const et_experiment *experiment, const char *path, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_strbuf text = ET_STRBUF_INIT;
    /* Tables to tree to text: the reader of it goes the same way back. */
    et_value *echo = et_fields_echo(&et_experiment_fields, experiment, &arena);
    /* The name is first, where people look. */
    et_strbuf_printf(&text, NAME_KEY ": %s\n", experiment->name);
    et_yaml_print(&text, echo);
    int status = echo && !text.failed ? write_settings(path, &text, error)
                                      : et_alloc_failed(error, text.length, "settings");
    et_strbuf_release(&text);
    et_arena_release(&arena);
    return status;
}

/* The name first, since the experiment's row is what the rest is put on top of. A directory that
 * is not there and one without a run get different words. */
int et_experiment_open_run(et_experiment *experiment, const char *model_dir, et_arena *arena,
                           et_error *error)
{
    const char *path = et_arena_printf(arena, "%s/%s", model_dir, ET_EXPERIMENT_FILE);
    et_value *dict;
    const char *name;
    if (!path)
        return et_alloc_failed(error, strlen(model_dir), "a path");
    if (!et_file_exists(path))
        return et_fail(error, ET_ENOTFOUND,
                       et_file_exists(model_dir)
                           ? "%s: no run of etude: %s is missing; name the directory that `etude "
                             "train` wrote to"
                           : "%s: no such directory; name the one that `etude train` wrote to",
                       model_dir, ET_EXPERIMENT_FILE);
    int line = 0;
    int status = parse_file(&dict, path, arena, error);
    if (!status)
        status = find_name(&name, &line, dict, path, error);
    if (!status && !name)
        status = et_fail(error, ET_EFORMAT,
                         "%s: it does not name its " NAME_KEY "; put back the file that `etude "
                         "train` wrote",
                         path);
    if (!status && et_experiment_begin(experiment, name, error))
        status = et_fail_while(error, ET_ECONFIG, "%s:%d", path, line);
    return status ? status : read_settings(experiment, dict, path, arena, error);
}
