/* Finding the file and its run, and applying them before and after the user's settings. */
#include "systems/training/initial.h"

#include <string.h>

#include <etude/run_files.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "base/values/value.h"
#include "systems/modelgarden/series.h"
#include "train/checkpoint/artifact/artifact.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/run_names.h"

/* The first directory with settings: the parent of path, or the parent of this; NULL: neither has
 * any. */
static const char *run_above(const char *path, et_arena *arena)
{
    et_path above = et_path_print("%s", path);
    for (int i = 0; i < 2; i++) {
        above = et_path_parent(above.text);
        above.text[et_path_length(above.text)] = '\0';
        if (et_file_exists_in(above.text, ET_RUN_SETTINGS))
            return et_arena_strdup(arena, above.text);
    }
    return NULL;
}

/* *whole: path is one file with settings and weights. ET_ECONFIG: the file is one of several models
 * of a run, in which weights have other names. */
static int classify_init(const char *path, bool *whole, et_error *error)
{
    et_artifact artifact;
    const et_artifact_member *member;
    const bool is_open = !et_artifact_open(&artifact, path, NULL);
    int status = ET_OK;
    *whole =
        is_open && et_artifact_is_file(&artifact) && et_artifact_has(&artifact, ET_RUN_SETTINGS);
    if (is_open && (member = artifact.member) != NULL)
        status = et_fail(error, ET_ECONFIG,
                         "%s is one of the tasks of %s; export this task first (export %s --task "
                         "%s --output FILE)",
                         path, member->run, et_shell_quote(member->run).text,
                         et_shell_quote(member->name).text);
    et_artifact_close(&artifact);
    return status;
}

/* Finds the weights of a run or of an export. */
static int find_in(et_initial *initial, et_arena *arena, et_error *error)
{
    char *path = NULL;
    const char *name = "/" ET_ARTIFACT_WEIGHTS;
    if (!et_file_exists_in(initial->run, ET_ARTIFACT_WEIGHTS)) {
        /* Not the file itself: a run that is at work replaces it. */
        const bool best = !et_checkpoint_best(&path, initial->run, NULL);
        int status = best ? ET_OK : et_checkpoint_newest(&path, initial->run, error);
        et_free(path);
        if (status)
            return status;
        name = best ? "/" ET_CHECKPOINT_BEST : "";
    }
    initial->checkpoint = et_arena_printf(arena, "%s%s", initial->run, name);
    return initial->checkpoint ? ET_OK : et_alloc_failed(error, "a path");
}

int et_initial_find(et_initial *initial, const et_program *program, et_arena *arena,
                    et_error *error)
{
    if (!initial->from)
        return ET_OK;
    int status = et_directory_check(initial->from, error);
    if (status)
        return et_fail_while(error, status, "%s", initial->option);
    if (!et_file_exists(initial->from))
        return et_fail(error, ET_ENOTFOUND,
                       "%s: %s does not exist; name a run, a file of weights or the folder of a "
                       "published model (Etude downloads none)",
                       initial->option, initial->from);
    const et_task_kind *kind;
    bool whole;
    status = classify_init(initial->from, &whole, error);
    if (status)
        return et_fail_while(error, status, "%s", initial->option);
    if (et_file_exists_in(initial->from, ET_RUN_SETTINGS)) {
        initial->run = initial->from;
        status = find_in(initial, arena, error);
    } else if (whole) {
        initial->run = initial->checkpoint = initial->from;
    } else if ((kind = et_experiment_find_foreign(program, initial->from)) != NULL) {
        initial->class = kind->foreign;
        initial->run = initial->checkpoint = initial->from;
        status = initial->class->open(&initial->foreign, initial->from, &initial->foreign_settings,
                                      error);
    } else if (et_directory_exists(initial->from) &&
               strcmp(et_path_base(initial->from), ET_CHECKPOINT_BEST) != 0 &&
               !et_checkpoint_is_best_link(initial->from)) {
        status = et_fail(error, ET_ENOTFOUND,
                         "%s has no " ET_RUN_SETTINGS ": name a run, or a file of weights",
                         initial->from);
    } else {
        initial->run = run_above(initial->from, arena);
        initial->checkpoint = initial->from;
        if (et_directory_exists(initial->from) && initial->run)
            status = find_in(initial, arena, error);
    }
    return status ? et_fail_while(error, status, "%s", initial->option) : ET_OK;
}

static int open_model(const et_initial *initial, et_experiment *experiment,
                      const et_program *program, et_arena *arena, et_error *error)
{
    return initial->foreign
               ? et_experiment_open_text(experiment, program, initial->foreign_settings,
                                         initial->run, arena, error)
               : et_experiment_open_run(experiment, program, initial->run, arena, error);
}

int et_initial_begin(et_initial *initial, et_experiment *experiment, const et_program *program,
                     et_arena *arena, et_error *error)
{
    int64_t step;
    et_assert(initial->run);
    initial->settings = true;
    int status = open_model(initial, experiment, program, arena, error);
    if (status)
        return status;
    /* A run that is not finished uses the settings of its own training. */
    const int64_t last = et_trainer_last_step(&experiment->trainer);
    const bool finished =
        initial->foreign || !last || et_run_files_step(initial->run, &step, NULL) || step >= last;
    return finished ? et_recipe_begin_finetuning(experiment, arena, error) : ET_OK;
}

static int assign(const et_initial *initial, et_experiment *experiment, const char *path,
                  const char *text, et_arena *arena, et_error *error)
{
    et_value *value = et_value_new(arena, text ? ET_VALUE_STRING : ET_VALUE_NULL);
    if (!value)
        return et_alloc_failed(error, "settings");
    value->text = value->string = text;
    return et_experiment_assign(experiment, initial->option, path, value, arena, error);
}

static bool has_setting(const et_experiment *experiment, const char *name)
{
    return et_fields_find(experiment->kind->fields, name, strlen(name)) != NULL;
}

/* Copies settings that describe the text of the weights, unless the model gave all settings. */
static int take_settings(const et_initial *initial, et_experiment *experiment,
                         const et_experiment *other, et_arena *arena, et_error *error)
{
    const char *const *path = initial->settings ? NULL : experiment->kind->of_weights;
    if (!path)
        return ET_OK;
    et_value *tree = et_experiment_tree(other, arena);
    int status = et_value_failed(tree) ? et_alloc_failed(error, "settings") : ET_OK;
    for (; *path && !status; path++) {
        et_value *value = et_value_path(tree, *path);
        if (value && value->kind != ET_VALUE_NULL)
            status = et_experiment_assign(experiment, initial->option, *path, value, arena, error);
    }
    return status;
}

int et_initial_apply(et_initial *initial, et_experiment *experiment, et_arena *arena,
                     et_error *error)
{
    const char *model = initial->run;
    const et_task_kind *kind = experiment->kind;
    const bool has_copies = initial->settings && !initial->foreign;
    et_experiment other = { .kind = NULL };
    if (!initial->from)
        return ET_OK;
    /* Weights alone do not name their model. */
    int status = model ? open_model(initial, &other, experiment->program, arena, error) : ET_OK;
    if (status)
        return status;
    if (model && other.kind != kind)
        return et_fail(error, ET_ECONFIG,
                       "%s: %s is a %s of %s, a task of %s, but %s is a task of %s",
                       initial->option, model, et_directory_exists(model) ? "run" : "model",
                       other.name, other.kind->name, experiment->name, kind->name);
    if (model && et_series_of(&other))
        return et_fail(error, ET_EUSAGE,
                       "%s %s: this run is made of several models; name one of the runs in "
                       "%s/" ET_SERIES_FOLDER,
                       initial->option, model,
                       et_file_exists_in(model, ET_SERIES_FOLDER) ? model : "RUN");
    if (model)
        status = take_settings(initial, experiment, &other, arena, error);
    if (!status && initial->settings && has_setting(experiment, "init_pattern"))
        status = assign(initial, experiment, "task.init_pattern", NULL, arena, error);
    /* The files themselves may be gone: the run has its copies. */
    for (const char *const *path = has_copies ? kind->kept : NULL; path && *path && !status; path++)
        status = assign(initial, experiment, *path, NULL, arena, error);
    initial->unset = !has_setting(experiment, "init_checkpoint");
    return status || initial->unset ? status
                                    : assign(initial, experiment, "task.init_checkpoint",
                                             initial->checkpoint, arena, error);
}

int et_initial_inherit(et_initial *initial, et_experiment *experiment, et_arena *arena,
                       et_error *error)
{
    const et_task_kind *kind = experiment->kind;
    return initial->run && kind->inherit
               ? kind->inherit(experiment->task, initial->run, arena, &initial->taken, error)
               : ET_OK;
}

const et_recipe *et_initial_recipe(const et_initial *initial, const et_experiment *experiment)
{
    return initial->settings && !experiment->finetunes ? NULL : et_recipe_of(experiment);
}

void et_initial_close(et_initial *initial)
{
    et_assert(!initial->foreign || initial->class);
    if (initial->foreign)
        initial->class->close(initial->foreign);
    initial->foreign = NULL;
}
