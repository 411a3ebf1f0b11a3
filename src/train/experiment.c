/* Experiments and their settings, from the table to a run's own file:
 *
 *   defaults of the fields -> the kind's row -> YAML files -> --set -> checks -> params.yaml
 *
 * Every arrow changes what it names and leaves the rest. The tree of settings is what the field
 * tables say (base/fields.h): task, trainer, runtime; nothing here knows a setting by its path.
 *
 * A settings file may name its experiment in a key of its own, `experiment`, beside the three
 * groups: params.yaml does, so that a run says what it is, and such a file can be given with
 * --config to begin another run like it. */
#include "train/experiment.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/file.h"
#include "base/yaml.h"

/* Largest settings file accepted, in bytes. */
#define FILE_MAX ((size_t)1 << 20)

#define NAMES_MAX 256 /* experiments that the nearest is sought among */

/* ---- the tables -------------------------------------------------------------------------- */

/* The root of all settings: a row for each group. The first is the kind's. */
static const et_field groups[] = {
    { .name = "task",
      .kind = ET_FIELD_KIND_STRUCT,
      .offset = offsetof(et_experiment, task),
      .indirect = true,
      .help = "what is learnt, from what" },
    ET_FIELD_STRUCT(et_experiment, trainer, &et_trainer_fields, "how it is trained"),
    ET_FIELD_STRUCT(et_experiment, runtime, &et_runtime_fields, "on what it runs"),
    ET_FIELD_END
};

/* Defaults first, so that a row need say only what differs. */
static int begin(et_experiment *experiment, const et_program *program, int number,
                 const et_experiment_row *row, et_arena *arena, et_error *error)
{
    const et_task_kind *kind = program->kinds[number];
    et_field *rows = et_arena_alloc(arena, sizeof groups);
    et_fields *table = et_arena_alloc(arena, sizeof *table);
    void *task = et_arena_alloc(arena, kind->size);
    if (!rows || !table || !task)
        return et_alloc_failed(error, sizeof groups + kind->size, "settings");
    memcpy(rows, groups, sizeof groups);
    rows[0].nested = kind->fields;
    *table = (et_fields){ "experiment", rows };
    memset(task, 0, kind->size);
    *experiment = (et_experiment){
        .program = program, .kind = kind, .name = row->name, .task = task, .table = table
    };
    et_fields_defaults(table, experiment);
    int status = row->settings ? et_experiment_set(experiment, row->settings, arena, error) : ET_OK;
    return status ? et_fail_while(error, status, "experiment %s", row->name) : ET_OK;
}

/* With the nearest name, if one is near. */
static int unknown_name(const et_program *program, const char *name, et_error *error)
{
    const char *names[NAMES_MAX + 1];
    size_t count = 0;
    for (int i = 0; i < program->count; i++)
        for (const et_experiment_row *row = program->kinds[i]->experiments; row->name; row++)
            if (count < NAMES_MAX)
                names[count++] = row->name;
    names[count] = NULL;
    return et_fail(error, ET_ECONFIG, "no experiment named %s%s; `%s list` shows all", name,
                   et_nearest_hint(name, names, "").text, program->name);
}

int et_experiment_begin(et_experiment *experiment, const et_program *program, const char *name,
                        et_arena *arena, et_error *error)
{
    et_assert(program && name);
    for (int i = 0; i < program->count; i++)
        for (const et_experiment_row *row = program->kinds[i]->experiments; row->name; row++)
            if (!strcmp(row->name, name))
                return begin(experiment, program, i, row, arena, error);
    return unknown_name(program, name, error);
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
                     const et_program *program, et_error *error)
{
    const et_value *found = et_value_get(dict, NAME_KEY);
    *name = NULL;
    if (!found)
        return ET_OK;
    *line = found->line;
    if (found->kind != ET_VALUE_STRING)
        return et_fail(error, ET_ECONFIG,
                       "%s:%d: " NAME_KEY ": needs a name, not %s; `%s list` shows all", path,
                       found->line, et_value_kind_name(found->kind), program->name);
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
int et_experiment_named_in(const char **name, const et_program *program, const char *path,
                           et_arena *arena, et_error *error)
{
    et_value *dict;
    int line = 0;
    int status = parse_file(&dict, path, arena, error);
    return status ? status : find_name(name, &line, dict, path, program, error);
}

/* Settings of another experiment are refused: they would be mixed with this one's, which differ
 * in what they leave out. */
static int read_settings(et_experiment *experiment, const et_value *dict, const char *path,
                         et_arena *arena, et_error *error)
{
    const char *name;
    int line = 0;
    int status = find_name(&name, &line, dict, path, experiment->program, error);
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
    return et_fields_read(experiment->table, experiment, settings, arena, path, "", error);
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
    const et_task_kind *kind = experiment->kind;
    double scale;
    int status = kind->check ? kind->check(experiment->task, error) : ET_OK;
    if (!status)
        status = et_trainer_check(trainer, error);
    if (!status)
        status = et_runtime_loss_scale(&experiment->runtime, &scale, error);
    if (!status && metric && kind->check_metric)
        status = kind->check_metric(experiment->task, metric, error);
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
    et_value *echo = et_fields_echo(experiment->table, experiment, &arena);
    /* The name is first, where people look. */
    et_strbuf_printf(&text, NAME_KEY ": %s\n", experiment->name);
    if (echo)
        et_yaml_print(&text, echo);
    int status = echo && !text.failed ? write_settings(path, &text, error)
                                      : et_alloc_failed(error, text.length, "settings");
    et_strbuf_release(&text);
    et_arena_release(&arena);
    return status;
}

/* The name first, since the experiment's row is what the rest is put on top of. A directory that
 * is not there and one without a run get different words. */
int et_experiment_open_run(et_experiment *experiment, const et_program *program,
                           const char *model_dir, et_arena *arena, et_error *error)
{
    const char *path = et_arena_printf(arena, "%s/%s", model_dir, ET_EXPERIMENT_FILE);
    et_value *dict;
    const char *name;
    if (!path)
        return et_alloc_failed(error, strlen(model_dir), "a path");
    if (!et_file_exists(path))
        return et_fail(error, ET_ENOTFOUND,
                       et_file_exists(model_dir)
                           ? "%s: no run of %s: " ET_EXPERIMENT_FILE " is missing; name the "
                             "directory that `%s train` wrote to"
                           : "%s: no such directory; name the one that `%s train` wrote to",
                       model_dir, program->name, program->name);
    int line = 0;
    int status = parse_file(&dict, path, arena, error);
    if (!status)
        status = find_name(&name, &line, dict, path, program, error);
    if (!status && !name)
        status = et_fail(error, ET_EFORMAT,
                         "%s: it does not name its " NAME_KEY "; put back the file that `%s "
                         "train` wrote",
                         path, program->name);
    if (!status && et_experiment_begin(experiment, program, name, arena, error))
        status = et_fail_while(error, ET_ECONFIG, "%s:%d", path, line);
    return status ? status : read_settings(experiment, dict, path, arena, error);
}
