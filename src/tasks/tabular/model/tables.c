/* A table: a task without a trainer. A task has its texts in its run's directory; here that is a
 * temporary one, which is gone as soon as the task is open, so that one code infers and reads them.
 */
#include "tasks/tabular/model/tables.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/files/file.h"
#include "base/values/value.h"
#include "data/batches/source.h"
#include "tasks/tabular/ensemble/ensemble.h"
#include "tasks/tabular/setup/setup.h"
#include "tasks/tabular/tabular_kind.h"
#include "tasks/tabular/tabular_task.h"
#include "train/checkpoint/identity.h"

static int assign(et_experiment *e, const char *path, const char *text, et_arena *arena,
                  et_error *error)
{
    et_value *dict = et_value_dict(arena);
    const et_value *value = et_value_set_string(dict, "value", text);
    return value ? et_experiment_assign(e, "et_table_open", path, value, arena, error)
                 : et_alloc_failed(error, strlen(text), "a table");
}

/* ---- settings ---- */

/* Settings that a model object has calls for, or does not support; and exceptions. */
static const char *const refused[] = { "trainer", "runtime", NULL };
static const char *const taken[] = { "trainer.optimizer_config", "runtime.seed",
                                     "runtime.mixed_precision_dtype", NULL };

/* The first changed setting below path; NULL: none, or no memory. */
static const char *first_other(const et_value *before, const et_value *now, const char *path,
                               et_arena *arena)
{
    const char *found = NULL;
    if (!now || et_is_one_of(path, taken))
        return NULL;
    if (now->kind != ET_VALUE_DICT || !before || before->kind != ET_VALUE_DICT)
        return before && et_identity_same(before, now) ? NULL : path;
    for (const et_value *v = now->first; v && !found; v = v->next) {
        const char *below = et_arena_printf(arena, "%s.%s", path, v->key);
        found = below ? first_other(et_value_get(before, v->key), v, below, arena) : NULL;
    }
    return found;
}

static int check_taken(const et_value *before, const et_experiment *e, et_arena *arena,
                       et_error *error)
{
    const et_value *now = et_experiment_tree(e, arena);
    const char *other = NULL;
    for (int i = 0; now && refused[i] && !other; i++)
        other = first_other(et_value_path(before, refused[i]), et_value_path(now, refused[i]),
                            refused[i], arena);
    if (!before || !now)
        return et_alloc_failed(error, 0, "settings");
    if (et_privacy_in(e->kind->fields, e->task))
        other = "task.differential_privacy_config";
    if (other)
        return et_fail(
            error, ET_ECONFIG,
            "%s has no effect on a model object: its length, saves and validations are those "
            "of et_fit; for this setting use `etude train`",
            other);
    /* The ensemble of a pack is chosen by the validations of a run; a model object also evaluates
     * other data. */
    if (et_tabular_is_pack(e->task))
        return et_fail(error, ET_ECONFIG,
                       "a model object cannot train a pack (task.model.type: pack): train it "
                       "with `etude train` and open the run with et_model_open_saved, or choose "
                       "another model");
    return ET_OK;
}

int et_table_experiment(et_experiment *e, const et_table *table, const char *name,
                        const char *settings, et_arena *arena, et_error *error)
{
    et_assert(e && table && name && arena);
    int status = et_experiment_begin(e, &et_tabular_program, name, arena, error);
    if (status)
        return status;
    const et_value *before = et_experiment_tree(e, arena);
    if ((status = assign(e, "task.train_data.input_path", table->path, arena, error)) ||
        (table->target && (status = assign(e, "task.target", table->target, arena, error))) ||
        (table->settings && (status = et_experiment_set(e, table->settings, arena, error))) ||
        (settings && (status = et_experiment_set(e, settings, arena, error))) ||
        (status = et_experiment_complete(e, error)) ||
        (status = check_taken(before, e, arena, error)))
        return status;
    if (et_tabular_series.wanted(e->name, e->task))
        return et_fail(error, ET_ECONFIG,
                       "%s with these settings trains several models, which a model object does "
                       "not; name one of them, or one fold, or use `etude train`",
                       e->name);
    return et_experiment_check(e, error);
}

/* ---- texts ---- */

static int write_texts(const et_table *t, const char *directory, et_error *error)
{
    int status = ET_OK;
    for (int i = 0; i < ET_TABLE_FILES && !status && t->text[i].bytes; i++) {
        char *path = et_path_join(directory, et_table_file_names[i]);
        status = path ? et_file_write(path, t->text[i].bytes, t->text[i].length, error)
                      : et_alloc_failed(error, strlen(directory), "a path");
        et_free(path);
    }
    return status;
}

static int read_texts(et_table *t, const char *directory, et_error *error)
{
    int status = ET_OK;
    for (int i = 0; i < ET_TABLE_FILES && !status && !t->text[i].bytes; i++) {
        char *bytes = NULL, *path = et_path_join(directory, et_table_file_names[i]);
        et_artifact_text *text = &t->text[i];
        text->name = et_table_file_names[i];
        status = path ? et_file_read(&bytes, &text->length, path, ET_TABLE_BYTES_MAX, error)
                      : et_alloc_failed(error, strlen(directory), "a path");
        text->bytes = bytes;
        et_free(path);
    }
    return status;
}

int et_table_task(et_task **out, et_table *t, const et_experiment *e, et_device *device,
                  et_params *params, et_arena *arena, et_error *error)
{
    et_assert(out && t && e && device && params && arena);
    char *directory = NULL;
    et_task_context context = { .params = params,
                                .device = device,
                                .seed = (uint64_t)e->runtime.seed,
                                .validation_interval = 1,
                                .best_metric = et_trainer_own_metric(&e->trainer) };
    int status = et_scratch_open(&directory, "etude-table", error);
    context.model_dir = status ? NULL : et_arena_strdup(arena, directory);
    if (!status && !context.model_dir)
        status = et_alloc_failed(error, strlen(directory), "a path");
    if (!status)
        status = write_texts(t, directory, error);
    if (!status)
        status = et_tabular_task_open(out, e->task, &context, error);
    if (!status)
        status = read_texts(t, directory, error);
    et_scratch_close(directory);
    return status;
}

/* ---- a table ---- */

int et_table_open(et_table **out, const char *path, const char *target, const char *settings,
                  et_error *error)
{
    *out = NULL;
    if (!path || !*path || (target ? !*target : !settings))
        return et_fail(error, ET_ECONFIG, "et_table_open: give %s",
                       path && *path ? "the column to predict" : "a CSV file");
    et_table *t = et_alloc_zero(1, sizeof *t);
    if (!t)
        return et_alloc_failed(error, sizeof *t, "a table");
    t->arena = (et_arena)ET_ARENA_INIT;
    t->path = et_arena_strdup(&t->arena, path);
    t->target = target ? et_arena_strdup(&t->arena, target) : NULL;
    t->settings = settings ? et_arena_strdup(&t->arena, settings) : NULL;
    int status = t->arena.failed ? et_alloc_failed(error, strlen(path), "a table")
                                 : et_table_experiment(&t->experiment, t, "tabular/mlp", NULL,
                                                       &t->arena, error);
    if (!status)
        status = et_device_open(&t->device, error);
    if (!status)
        status = et_params_new(&t->params, error);
    if (!status)
        status = et_table_task(&t->task, t, &t->experiment, t->device, t->params, &t->arena, error);
    if (!status)
        status = et_task_build_inputs(t->task, &(et_data_config){ .training = true }, NULL,
                                      &t->source, error);
    if (status)
        et_table_close(t);
    else
        *out = t;
    return status;
}

void et_table_close(et_table *t)
{
    if (!t)
        return;
    et_source_close(t->source);
    et_tabular_task_close(t->task);
    et_params_free(t->params);
    et_device_close(t->device);
    for (int i = 0; i < ET_TABLE_FILES; i++)
        et_free((char *)t->text[i].bytes);
    et_arena_release(&t->arena);
    et_free(t);
}

et_source *et_table_source(et_table *t)
{
    (void)et_source_rewind(t->source, NULL); /* its own source can */
    return t->source;
}
