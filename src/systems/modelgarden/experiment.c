/* Experiments and their settings, from the table to a run's file:
 *
 *   defaults of the fields -> the kind's row -> files -> --set -> checks -> lock -> params.yaml
 *
 * Every step changes the settings that its input names and keeps the others. The field tables
 * (base/fields/fields.h) define the tree of settings: task, trainer, runtime. Nothing here knows a
 * setting by its path.
 *
 * A settings file may name its experiment with the key `experiment`, next to the three groups.
 * params.yaml does so: it identifies its run, and --config with this file starts a run with the
 * same settings. A version of Etude may add a setting that the params.yaml of an older run lacks.
 * Then the run uses the field's default, because the row's value is for new runs. */
#include "systems/modelgarden/experiment.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/fields/settings.h"
#include "base/files/file.h"
#include "base/values/value.h"
#include "base/values/yaml.h"
#include "formats/events/log_names.h"
#include "systems/modelgarden/series.h"
#include "systems/modelgarden/synonyms.h"
#include "train/checkpoint/run_names.h"

#define NAMES_MAX 256 /* experiments among which the nearest name is searched */

/* ---- the tables ---- */

/* The root of all settings: a row for each group. The first is the kind's. */
static const et_field groups[] = {
    { .name = "task",
      .kind = ET_FIELD_KIND_STRUCT,
      .offset = offsetof(et_experiment, task),
      .indirect = true,
      .help = "task and data" },
    ET_FIELD_STRUCT(et_experiment, trainer, &et_trainer_fields, "training"),
    ET_FIELD_STRUCT(et_experiment, runtime, &et_runtime_fields, "runtime"),
    ET_FIELD_END
};

/* Sets defaults first, so a row contains only differences. settings: of the row, or NULL. */
static int begin(et_experiment *experiment, const et_program *program, int number,
                 const et_experiment_row *row, const char *settings, et_arena *arena,
                 et_error *error)
{
    const et_task_kind *kind = program->kinds[number];
    et_assert(number >= 0 && number < program->count);
    et_field *rows = et_arena_alloc(arena, sizeof groups);
    et_fields *table = et_arena_alloc(arena, sizeof *table);
    void *task = et_arena_alloc(arena, kind->size);
    if (!rows || !table || !task)
        return et_alloc_failed(error, "settings");
    memcpy(rows, groups, sizeof groups);
    rows[0].nested = kind->fields;
    *table = (et_fields){ "experiment", rows };
    memset(task, 0, kind->size);
    *experiment = (et_experiment){
        .program = program,
        .kind = kind,
        .name = row->name,
        .task = task,
        .table = table,
        .given = { .arena = arena },
    };
    int status =
        et_trainer_register(&rows[1].nested, &experiment->trainer, kind->rules, arena, error);
    if (status)
        return et_fail_while(error, status, "kind %s", kind->name);
    et_fields_defaults(table, experiment);
    if (kind->begin)
        kind->begin(kind, task);
    status = settings ? et_experiment_set(experiment, settings, arena, error) : ET_OK;
    experiment->given = (et_fields_given){ .arena = arena };
    return status ? et_fail_while(error, status, "experiment %s", row->name) : ET_OK;
}

/* ---- names ---- */

/* All names of a program, ended by NULL; up to NAMES_MAX. */
static size_t list_names(const char *names[NAMES_MAX + 1], const et_program *program)
{
    size_t count = 0;
    for (int i = 0; i < program->count; i++)
        for (const et_experiment_row *row = program->kinds[i]->experiments; row->name; row++)
            if (count < NAMES_MAX)
                names[count++] = row->name;
    names[count] = NULL;
    return count;
}

/* "tabular/mlp" -> "mlp" */
static const char *short_name(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

/* Collects the names in a folder, "tabular", or the names that end in a word, "auto". Returns their
 * number. */
static int list_related(et_strbuf *out, const char *const *names, const char *name)
{
    const size_t length = strlen(name) - (*name && name[strlen(name) - 1] == '/');
    int count = 0;
    for (int folder = 1; folder >= 0 && !count; folder--)
        for (size_t i = 0; names[i]; i++)
            if (folder ? !strncmp(names[i], name, length) && names[i][length] == '/'
                       : !strcmp(short_name(names[i]), name))
                et_strbuf_printf(out, "%s%s", count++ ? ", " : "", names[i]);
    return count;
}

/* The error names the counterpart in Etude, the possible names or the nearest name, and the part of
 * the name that does not exist. */
static int unknown_name(const et_program *program, const char *name, et_error *error)
{
    const char *names[NAMES_MAX + 1];
    size_t count = list_names(names, program), folder = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; name[k] && name[k] == names[i][k]; k++)
            if (name[k] == '/' && k + 1 > folder)
                folder = k + 1; /* of the longest folder that a name shares */
    char where[160] = "";
    if (folder)
        snprintf(where, sizeof where, " (%.*s has no %s)", (int)folder, name, name + folder);
    et_strbuf hint = ET_STRBUF_INIT, related = ET_STRBUF_INIT;
    const et_synonym *synonym = et_synonym_find(program, ET_SYNONYM_EXPERIMENT, short_name(name));
    et_synonym_print(&hint, synonym, program);
    if (!synonym && list_related(&related, names, name))
        et_strbuf_printf(&hint, "; there are %s", et_strbuf_text(&related));
    if (!hint.length)
        et_strbuf_append(&hint, et_nearest_hint(name, names, "").text);
    int status = et_fail(error, ET_ECONFIG, "no experiment is called %s%s; `%s list` shows all%s",
                         name, et_strbuf_text(&hint), program->name, where);
    et_strbuf_release(&hint);
    et_strbuf_release(&related);
    return status;
}

static int check_kind(const et_program *program, int number, et_error *error)
{
    const et_task_kind *kind = program->kinds[number];
    if (!kind || !kind->name || !kind->fields || !kind->size || !kind->experiments ||
        !kind->experiments->name || !kind->open || !kind->close)
        return et_fail(
            error, ET_EUSAGE,
            "kind of task %d, %s: needs a name, fields, their size, an experiment, open and close",
            number + 1, kind && kind->name ? kind->name : "without a name");
    for (int i = 0; i < number; i++)
        if (!strcmp(program->kinds[i]->name, kind->name))
            return et_fail(error, ET_EUSAGE, "kinds of task %d and %d are both called %s", i + 1,
                           number + 1, kind->name);
    for (const et_option *row = kind->options; row && row->field.name; row++)
        if (row->form != ET_OPTION_FORM_SETS || !row->sets || !row->field.help)
            return et_fail(error, ET_EUSAGE,
                           "kind of task %d, %s: option %s: it needs settings and a help "
                           "(ET_OPTION_SETS)",
                           number + 1, kind->name, row->field.name);
    return ET_OK;
}

et_run_file et_kind_file(const et_task_kind *kind, int i, char buffer[ET_RUN_FILE_NAME])
{
    if (kind->file)
        return kind->file(kind, i, buffer);
    return kind->files ? kind->files[i] : (et_run_file){ .name = NULL };
}

/* Refuses ambiguous names, because the order of tables would decide. */
int et_program_check(const et_program *program, et_error *error)
{
    const char *names[NAMES_MAX + 1];
    int status =
        program->count > 0 ? ET_OK : et_fail(error, ET_EUSAGE, "this program has no kind of task");
    for (int i = 0; !status && i < program->count; i++)
        status = check_kind(program, i, error);
    size_t count = status ? 0 : list_names(names, program);
    for (size_t i = 0; i < count; i++) {
        const size_t length = strlen(names[i]);
        for (size_t k = 0; k < count; k++)
            if (i != k && !strncmp(names[i], names[k], length) &&
                (!names[k][length] || names[k][length] == '/'))
                return et_fail(
                    error, ET_EUSAGE,
                    strcmp(names[i], names[k])
                        ? "experiments %s and %s: one name is a folder of the other; rename one"
                        : "experiment %s is registered twice (%s); rename one",
                    names[i], names[k]);
    }
    return status;
}

const et_experiment_row *et_experiment_find(const et_program *program, const char *name,
                                            int *number)
{
    const et_experiment_row *found = NULL;
    bool unique = true;
    for (int i = 0; i < program->count; i++)
        for (const et_experiment_row *row = program->kinds[i]->experiments; row->name; row++) {
            const bool whole = !strcmp(row->name, name);
            if (!whole && strcmp(short_name(row->name), name) != 0)
                continue;
            unique = whole || !found;
            found = row;
            *number = i;
            if (whole)
                return row;
        }
    return unique ? found : NULL;
}

/* with_row: with the settings of the experiment's row. */
static int begin_named(et_experiment *experiment, const et_program *program, const char *name,
                       bool with_row, et_arena *arena, et_error *error)
{
    et_assert(program && name);
    int number;
    const et_experiment_row *row = et_experiment_find(program, name, &number);
    return row ? begin(experiment, program, number, row, with_row ? row->settings : NULL, arena,
                       error)
               : unknown_name(program, name, error);
}

int et_experiment_begin(et_experiment *experiment, const et_program *program, const char *name,
                        et_arena *arena, et_error *error)
{
    return begin_named(experiment, program, name, true, arena, error);
}

/* ---- reading ---- */

/* Text -> tree -> members (base/fields/settings.h), which reports unknown keys, wrong types and
 * values out of range with file and line. */

static et_settings settings_of(et_experiment *experiment, et_arena *arena)
{
    et_assert(experiment->table && arena);
    return (et_settings){ .table = experiment->table,
                          .options = experiment,
                          .arena = arena,
                          .locked = experiment->locked,
                          .source = experiment->source,
                          .given = &experiment->given };
}

#define NAME_KEY "experiment" /* in addition to the fields: the experiment of a settings file */

/* Reads the name in a file; *name NULL: the file names no experiment. *where: file and line of the
 * key, for messages; not set without the key. JSON has no lines. */
static int find_name(const char **name, et_path *where, const et_value *dict, const char *path,
                     const et_program *program, et_error *error)
{
    const et_value *found = et_value_get(dict, NAME_KEY);
    *name = NULL;
    if (!found)
        return ET_OK;
    *where = found->line ? et_path_print("%s:%d", path, found->line) : et_path_print("%s", path);
    if (found->kind != ET_VALUE_STRING)
        return et_fail(error, ET_ECONFIG,
                       "%s: " NAME_KEY ": needs a name, not %s; `%s list` shows all", where->text,
                       et_value_kind_name(found->kind), program->name);
    *name = found->string;
    return ET_OK;
}

/* Copies dict without the name. NULL: no memory. Each child is copied as one struct, since a value
 * is in only one list; the contents are shared. */
static const et_value *without_name(const et_value *dict, et_arena *arena)
{
    /* Values have no function that removes a key. */
    et_value *rest = et_value_dict(arena);
    for (const et_value *child = rest ? dict->first : NULL; child; child = child->next)
        if (strcmp(child->key, NAME_KEY) != 0 && !et_value_append_copy(rest, child->key, child))
            return NULL;
    return rest;
}

/* Reads the whole file for one key. It is parsed again when the experiment is known. */
int et_experiment_named_in(const char **name, const et_program *program, const char *path,
                           et_arena *arena, et_error *error)
{
    et_value *dict;
    et_path where;
    int status = et_settings_parse_file(&dict, path, arena, error);
    return status ? status : find_name(name, &where, dict, path, program, error);
}

/* Refuses settings of another experiment: a file omits different settings for each experiment. */
static int read_settings(et_experiment *experiment, const et_value *dict, const char *path,
                         et_arena *arena, et_error *error)
{
    const char *name;
    et_path where;
    int status = find_name(&name, &where, dict, path, experiment->program, error);
    if (status)
        return status;
    if (name && strcmp(name, experiment->name))
        return et_fail(error, ET_ECONFIG,
                       "%s: these are settings for %s, not for %s; choose that experiment, or "
                       "remove the line",
                       where.text, name, experiment->name);
    const et_value *rest = dict->kind == ET_VALUE_DICT ? without_name(dict, arena) : dict;
    if (!rest)
        return et_alloc_failed(error, "settings");
    et_settings settings = settings_of(experiment, arena);
    status = et_settings_read(&settings, rest, path, error);
    et_fields_given_settle(&experiment->given, experiment->table, experiment);
    return status;
}

/* Settings that the file does not mention stay. */
int et_experiment_read_file(et_experiment *experiment, const char *path, et_arena *arena,
                            et_error *error)
{
    et_value *dict;
    int status = et_settings_parse_file(&dict, path, arena, error);
    return status ? status : read_settings(experiment, dict, path, arena, error);
}

/* A tree or a file may name its experiment, as with --config. */
int et_experiment_set(et_experiment *experiment, const char *text, et_arena *arena, et_error *error)
{
    et_value *tree;
    const char *name;
    et_settings settings = settings_of(experiment, arena);
    int status = et_settings_parse(&tree, &name, &settings, text, error);
    if (status)
        return status;
    return tree ? read_settings(experiment, tree, name, arena, error)
                : et_settings_assign(&settings, text, error);
}

static int assign_value(et_experiment *experiment, const char *name, const char *path,
                        const et_value *value, bool typed, et_arena *arena, et_error *error)
{
    const et_fields_origin from = {
        .name = name, .arena = arena, .given = &experiment->given, .typed = typed
    };
    return et_fields_set_from(&from, experiment->table, experiment, path, value, NULL, error);
}

int et_experiment_assign(et_experiment *experiment, const char *name, const char *path,
                         const et_value *value, et_arena *arena, et_error *error)
{
    return assign_value(experiment, name, path, value, false, arena, error);
}

int et_experiment_assign_typed(et_experiment *experiment, const char *name, const char *path,
                               const et_value *value, et_arena *arena, et_error *error)
{
    return assign_value(experiment, name, path, value, true, arena, error);
}

int et_experiment_set_batch(et_experiment *experiment, const et_experiment *like, int64_t batch,
                            et_arena *arena, et_error *error)
{
    const et_task_kind *kind = experiment->kind;
    if (!kind->batch && kind->set_batch)
        return kind->set_batch(experiment->task, like ? like->task : NULL, batch, error);
    if (!kind->batch)
        return et_fail(error, ET_EUSAGE,
                       "--memory: tasks of %s do not define which setting is the batch size; set "
                       "the batch size instead",
                       kind->name);
    if (like == experiment)
        return ET_OK;
    et_value *made = et_value_new(arena, ET_VALUE_INT);
    const et_value *echo = like ? et_fields_echo(like->table, like, arena) : NULL;
    const et_value *value = like ? et_value_path(echo, kind->batch) : made;
    if (made)
        made->integer = batch;
    return value ? et_experiment_assign(experiment, "--memory", kind->batch, value, arena, error)
                 : et_alloc_failed(error, "settings");
}

int et_task_context_batch(const et_task_context *context, int64_t global, const char *setting,
                          int64_t *size, et_error *error)
{
    const int shards = context->data_shards > 1 ? context->data_shards : 1;
    const int64_t rest = global % shards, below = global - rest;
    const int64_t nearest = below > 0 && 2 * rest <= shards ? below : below + shards;
    *size = global / shards;
    if (global > 0 && rest == 0)
        return ET_OK;
    return et_fail(
        error, ET_ECONFIG,
        "%s: %lld cannot be split into runtime.data_shards: %d equal parts; nearest: %lld", setting,
        (long long)global, shards, (long long)nearest);
}

int et_experiment_complete(et_experiment *experiment, et_error *error)
{
    et_optimization_options *o = &experiment->trainer.optimizer_config;
    const et_task_kind *kind = experiment->kind;
    et_arena *arena = experiment->given.arena;
    const char *path = et_arena_printf(arena, "trainer.optimizer_config.learning_rate.%s",
                                       et_optimization_peak_name(o));
    if (!path)
        return et_alloc_failed(error, "settings");
    if (o->learning_rate.peak >= 0 && et_fields_is_given(&experiment->given, path))
        return et_fail(error, ET_ECONFIG,
                       "trainer.optimizer_config.learning_rate: %g and %s set the same rate; "
                       "remove one of them",
                       o->learning_rate.peak, path);
    if (o->learning_rate.peak >= 0 && !et_fields_given_add(&experiment->given, path, path))
        return et_alloc_failed(error, "settings");
    int status = et_optimization_use_peak(o, arena, error);
    const char *metric = et_trainer_own_metric(&experiment->trainer);
    if (status || !metric || !kind->check_metric ||
        !kind->check_metric(experiment->task, metric, NULL))
        return status;
    /* A metric "auc" does not exist: the name means "validation_auc", and "new/auc" means
     * "new/validation_auc". */
    size_t last = strlen(metric);
    while (last && !strchr("|/.", metric[last - 1]))
        last--;
    const char *whole =
        et_arena_printf(arena, "%.*s" ET_LOGGED_VALIDATION "_%s", (int)last, metric, metric + last);
    if (!whole)
        return et_alloc_failed(error, "settings");
    if (!kind->check_metric(experiment->task, whole, NULL))
        experiment->trainer.best_checkpoint_eval_metric = whole;
    return ET_OK;
}

/* Refuses a setting that needs several trainings if there is only one. Its default, 0, is allowed,
 * because it may come from the settings of another run or rank. */
static int check_alone(const et_experiment *experiment, et_error *error)
{
    const et_series *series = experiment->kind->series;
    if (!series || !series->alone || !et_fields_was_given(&experiment->given, series->alone) ||
        et_series_of(experiment))
        return ET_OK;
    et_arena arena = ET_ARENA_INIT;
    const et_value *all = et_fields_echo(experiment->table, experiment, &arena);
    const et_value *value = all ? et_value_path(all, series->alone) : NULL;
    int status = all ? ET_OK : et_alloc_failed(error, "settings");
    if (value && (value->kind != ET_VALUE_INT || value->integer))
        status = et_fail(error, ET_ECONFIG,
                         "%s: has no effect on %s, which is a single training; leave it out",
                         series->alone, experiment->name);
    et_arena_release(&arena);
    return status;
}

/* Checks that need two groups; each group makes its own checks. */
int et_experiment_check(const et_experiment *experiment, et_error *error)
{
    const et_trainer_options *trainer = &experiment->trainer;
    const char *metric = et_trainer_own_metric(trainer);
    const et_task_kind *kind = experiment->kind;
    const et_settings settings = { .table = experiment->table, .options = (void *)experiment };
    et_trainer_options checked = *trainer;
    if (experiment->unknown_rule && checked.optimizer_config.optimizer.type == ET_OPTIMIZER_NONE)
        checked.optimizer_config.optimizer.type = ET_OPTIMIZER_ADAMW; /* only training needs it */
    int status = et_fields_given_check(&experiment->given, experiment->table, experiment, error);
    for (const et_restriction *row = kind->restrictions; row && row->text && !status; row++)
        if (!row->experiment || !strcmp(row->experiment, experiment->name))
            status = et_settings_check(&settings, (const char *const[]){ row->text, NULL }, error);
    if (status || (status = check_alone(experiment, error)) ||
        (kind->check && (status = kind->check(experiment->task, error))) ||
        (status = et_trainer_check(&checked, error)) ||
        (status = et_runtime_check(&experiment->runtime, error)) ||
        (metric && kind->check_metric &&
         (status = kind->check_metric(experiment->task, metric, error))))
        return status;
    return !metric || trainer->validation_interval
               ? ET_OK
               : et_fail(error, ET_ECONFIG,
                         "trainer.best_checkpoint_eval_metric: %s needs validation, but "
                         "trainer.validation_interval is 0; set an interval",
                         metric);
}

/* ---- the run's own settings ---- */

/* params.yaml has all settings of a run. A run writes the file when it begins, and again when it
 * continues with changed settings. */

/* Writes every setting that has an effect, also defaults, because a later version may have other
 * defaults. The name of the experiment comes first, where people look. */
static int put_out(const et_experiment *experiment, const char *path, et_strbuf *text,
                   et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_settings settings = { .table = experiment->table, .options = (void *)experiment };
    const char *head = et_arena_printf(&arena, NAME_KEY ": %s\n", experiment->name);
    int status = !head  ? et_alloc_failed(error, "settings")
                 : text ? et_settings_print(&settings, head, text, error)
                        : et_settings_write_with(&settings, head, path, error);
    et_arena_release(&arena);
    return status;
}

et_value *et_experiment_tree(const et_experiment *experiment, et_arena *arena)
{
    et_value *tree = et_value_dict(arena);
    et_value *settings = et_fields_effective(experiment->table, experiment, arena);
    if (!settings || !et_value_set_string(tree, NAME_KEY, experiment->name))
        return NULL;
    for (const et_value *group = settings->first; group; group = group->next)
        if (!et_value_append_copy(tree, group->key, group))
            return NULL;
    return tree;
}

int et_experiment_write(const et_experiment *experiment, const char *path, et_error *error)
{
    return put_out(experiment, path, NULL, error);
}

int et_experiment_print(const et_experiment *experiment, et_strbuf *text, et_error *error)
{
    return put_out(experiment, NULL, text, error);
}

#define SETTINGS_MAX ((size_t)1 << 20) /* bytes, as of any file of settings */

int et_experiment_no_directory(const et_program *program, const char *name, et_error *error)
{
    return et_fail(error, ET_ENOTFOUND,
                   "%s: no such directory; name a directory that `%s train` wrote", name,
                   program->name);
}

/* Three errors: the directory is missing, is a job of another program, or has no run. */
static int check_run(const et_program *program, const et_artifact *artifact, et_error *error)
{
    if (et_artifact_has(artifact, ET_RUN_SETTINGS))
        return ET_OK;
    if (et_artifact_has(artifact, ET_RUN_BUILDER))
        return et_fail(error, ET_ENOTFOUND,
                       "%s: a job of another program, not a run of %s: use that program, or its "
                       "export, the folder model in the job, with `%s predict`",
                       artifact->name, program->name, program->name);
    int status = et_artifact_check_folder(artifact, error);
    if (status)
        return status;
    if (!et_file_exists(artifact->name))
        return et_experiment_no_directory(program, artifact->name, error);
    if (et_experiment_find_foreign(program, artifact->name))
        return et_fail(error, ET_ENOTFOUND,
                       "%s: a model of another program, not a run of %s; make a run of it: "
                       "%s import %s --output RUN",
                       artifact->name, program->name, program->name, artifact->name);
    return et_fail(error, ET_ENOTFOUND,
                   "%s: not a run of %s: " ET_RUN_SETTINGS
                   " is missing; name a directory that `%s train` wrote",
                   artifact->name, program->name, program->name);
}

static int read_tree(et_value **dict, const et_artifact *artifact, const char *path,
                     et_arena *arena, et_error *error)
{
    char *text;
    size_t length;
    int status = et_artifact_read(artifact, ET_RUN_SETTINGS, SETTINGS_MAX, &text, &length, error);
    if (!status)
        status = et_yaml_parse(dict, arena, text, length, path, error);
    et_free(text);
    return status;
}

/* Etude can use a run that another program trained by its own update rule, but cannot train it. */
static void leave_unknown_rule(et_experiment *experiment, et_value *dict)
{
    et_value *config = et_value_path(dict, "trainer.optimizer_config");
    const et_value *type = et_value_path(config, "optimizer.type");
    if (!type || type->kind != ET_VALUE_STRING || !strcmp(type->string, "none") ||
        et_optimizer_type(type->string, experiment->kind->rules) != ET_OPTIMIZER_NONE)
        return;
    experiment->unknown_rule = type->string;
    et_value_set_string(et_value_set_dict(config, "optimizer"), "type", "none");
}

/* Reads the name first, because the settings are applied to the experiment's defaults. dict: of the
 * file at path. */
static int open_tree(et_experiment *experiment, const et_program *program, et_value *dict,
                     const char *path, et_arena *arena, et_error *error)
{
    const char *name = NULL;
    et_path where;
    int status = find_name(&name, &where, dict, path, program, error);
    if (!status && !name)
        status = et_fail(error, ET_EFORMAT,
                         "%s: it does not name its " NAME_KEY
                         "; put back the file that `%s train` wrote",
                         path, program->name);
    if (status)
        return status;
    /* Files by et_experiment_write have all groups; files by users rarely do. */
    const et_field *group = groups;
    while (group->kind != ET_FIELD_KIND_END && et_value_get(dict, group->name))
        group++;
    const bool whole = group->kind == ET_FIELD_KIND_END;
    status = begin_named(experiment, program, name, !whole, arena, error);
    if (status)
        return et_fail_while(error, status, "%s", where.text);
    leave_unknown_rule(experiment, dict);
    status = read_settings(experiment, dict, path, arena, error);
    /* No person has set them in this process. */
    experiment->given = (et_fields_given){ .arena = arena };
    return status;
}

int et_experiment_open_artifact(et_experiment *experiment, const et_program *program,
                                const et_artifact *artifact, et_arena *arena, et_error *error)
{
    const char *path = et_artifact_path(artifact, ET_RUN_SETTINGS, arena);
    et_value *dict;
    int status = path ? check_run(program, artifact, error) : et_alloc_failed(error, "a path");
    if (!status)
        status = read_tree(&dict, artifact, path, arena, error);
    return status ? status : open_tree(experiment, program, dict, path, arena, error);
}

int et_experiment_open_own(et_experiment *experiment, const et_program *program,
                           const et_artifact *artifact, et_arena *arena, et_error *error)
{
    et_assert(program->count == 1);
    const char *path = et_artifact_path(artifact, ET_RUN_SETTINGS, arena), *name = NULL;
    const char *own = program->kinds[0]->experiments->name; /* "translation/tiny" */
    et_value *dict;
    et_path where;
    int number;
    int status = path ? check_run(program, artifact, error) : et_alloc_failed(error, "a path");
    if (!status)
        status = read_tree(&dict, artifact, path, arena, error);
    if (!status)
        status = find_name(&name, &where, dict, path, program, error);
    if (!status && name && strncmp(name, own, strcspn(own, "/") + 1) != 0 &&
        !et_experiment_find(program, name, &number))
        return et_fail(error, ET_ECONFIG, "%s: a run of %s, which is not a %s task", artifact->name,
                       name, program->kinds[0]->name);
    return status ? status : open_tree(experiment, program, dict, path, arena, error);
}

const et_task_kind *et_experiment_find_foreign(const et_program *program, const char *path)
{
    for (int i = 0; i < program->count; i++) {
        const et_foreign_class *class = program->kinds[i]->foreign;
        if (class && class->is(path))
            return program->kinds[i];
    }
    return NULL;
}

int et_experiment_open_model(et_artifact *artifact, const et_program *program, const char *path,
                             et_error *error)
{
    const et_task_kind *kind = et_experiment_find_foreign(program, path);
    return kind && kind->foreign->open_export ? kind->foreign->open_export(artifact, path, error)
                                              : et_artifact_open(artifact, path, error);
}

int et_experiment_find_kind(const et_task_kind **out, const et_program *program, const char *path,
                            et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_experiment experiment = { .kind = NULL };
    const et_task_kind *foreign = et_experiment_find_foreign(program, path);
    int status =
        foreign ? ET_OK : et_experiment_open_run(&experiment, program, path, &arena, error);
    *out = foreign ? foreign : status ? NULL : experiment.kind;
    et_arena_release(&arena);
    return status;
}

int et_experiment_open_text(et_experiment *experiment, const et_program *program, const char *text,
                            const char *path, et_arena *arena, et_error *error)
{
    et_value *dict;
    int status = et_yaml_parse(&dict, arena, text, strlen(text), path, error);
    return status ? status : open_tree(experiment, program, dict, path, arena, error);
}

int et_experiment_open_run(et_experiment *experiment, const et_program *program,
                           const char *model_dir, et_arena *arena, et_error *error)
{
    et_artifact artifact;
    int status = et_artifact_open(&artifact, model_dir, error);
    if (!status)
        status = et_experiment_open_artifact(experiment, program, &artifact, arena, error);
    et_artifact_close(&artifact);
    return status;
}

const et_series *et_series_of(const et_experiment *experiment)
{
    const et_series *series = experiment->kind->series;
    return series && series->wanted(experiment->name, experiment->task) ? series : NULL;
}
