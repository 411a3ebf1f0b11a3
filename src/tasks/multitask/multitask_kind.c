/* The kind for several tasks: its row. Its methods call those of the kinds that the settings
 * name. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "tasks/multitask/multitask_task.h"
#include "train/checkpoint/artifact/artifact.h"
#include "train/checkpoint/run_names.h"

/* ---- methods ---- */

static void begin(const et_task_kind *self, void *options)
{
    ((et_multitask_settings *)options)->of = (const et_multitask_kind *)(const void *)self;
}

static int open_task(et_task **out, const void *options, const et_task_context *context,
                     et_error *error)
{
    return et_multitask_task_open(out, options, context, error);
}

/* A run with other tasks gives nothing; resuming reports that it is another one. */
static void adopt(void *options, const void *kept)
{
    const et_multitask_settings *now = options, *was = kept;
    for (int i = 0; i < (int)now->task_routines.count && i < (int)was->task_routines.count; i++) {
        const et_task_kind *kind = et_multitask_kind_of(now, i);
        if (kind == et_multitask_kind_of(was, i) && kind->adopt)
            kind->adopt(et_multitask_options_of(now, i), et_multitask_options_of(was, i));
    }
}

static void reads(const void *options, void (*file)(void *payload, const char *path), void *payload)
{
    const et_multitask_settings *settings = options;
    for (int i = 0; i < (int)settings->task_routines.count; i++) {
        const et_task_kind *kind = et_multitask_kind_of(settings, i);
        if (kind->reads)
            kind->reads(et_multitask_options_of(settings, i), file, payload);
    }
}

static int inherit(void *options, const char *model_dir, et_arena *arena, const char **taken,
                   et_error *error)
{
    const et_multitask_settings *settings = options;
    int status = ET_OK;
    *taken = NULL;
    for (int i = 0; i < (int)settings->task_routines.count && !status; i++) {
        const et_task_kind *kind = et_multitask_kind_of(settings, i);
        const char *name = et_multitask_routine_at(settings, i)->task_name, *what = NULL;
        char *folder;
        /* Weights are found by the task's name; a task that the run lacks gets nothing. */
        if (!kind->inherit || et_artifact_find_member(&folder, model_dir, name, NULL))
            continue;
        status = kind->inherit(et_multitask_options_of(settings, i), folder, arena, &what, error);
        et_free(folder);
        if (what)
            *taken = "files of tasks";
    }
    return status;
}

static int belongs(const void *options, const char *model_dir, const et_identity *identity,
                   et_error *error)
{
    const et_multitask_settings *settings = options;
    et_arena arena = ET_ARENA_INIT;
    int status = ET_OK;
    for (int i = 0; i < (int)settings->task_routines.count && !status; i++) {
        const et_task_kind *kind = et_multitask_kind_of(settings, i);
        const char *name = et_multitask_routine_at(settings, i)->task_name;
        const et_identity own = et_multitask_identity_of(identity, name);
        const char *folder = et_arena_printf(&arena, "%s/" ET_MULTITASK_FOLDER, model_dir, i + 1);
        if (!folder)
            status = et_alloc_failed(error, strlen(model_dir), "a path");
        else if (kind->belongs && own.values)
            status = kind->belongs(et_multitask_options_of(settings, i), folder, &own, error);
        if (status)
            et_fail_while(error, status, "task %s", name);
    }
    et_arena_release(&arena);
    return status;
}

/* ---- the row ---- */

#define ADAMW                                                                                      \
    "optimizer_config: {optimizer: {type: adamw}, "                                                \
    "learning_rate: {type: constant, constant: {learning_rate: 1e-3}}}"
#define STEPS                                                                                      \
    "train_steps: 10000, steps_per_loop: 100, summary_interval: 100, validation_interval: 1000, "  \
    "checkpoint_interval: 1000"

static const et_experiment_row experiments[] = {
    { "multitask/interleaving", "several tasks; each step trains one task, sampled by weight",
      "{task: {trainer_type: interleaving}, trainer: {" ADAMW ", " STEPS "}}" },
    { "multitask/joint",
      "several tasks; each step trains all tasks on the sum of their weighted losses",
      "{task: {trainer_type: joint}, trainer: {" ADAMW ", " STEPS "}}" },
    { NULL, NULL, NULL },
};

/* The files of all kinds, one after another. NULL: fewer files. */
static const et_run_file *file_of_kinds(const et_multitask_kind *kind, int number)
{
    for (int i = 0; i < kind->count; i++)
        for (const et_run_file *file = kind->kinds[i]->files; file && file->name; file++)
            if (!number--)
                return file;
    return NULL;
}

static int count_files(const et_multitask_kind *kind)
{
    int count = 0;
    while (file_of_kinds(kind, count))
        count++;
    return count;
}

/* In the folder of every task that there may be those of every kind and member.yaml; the folder. */
static et_run_file file(const et_task_kind *self, int i, char buffer[ET_RUN_FILE_NAME])
{
    const et_multitask_kind *kind = (const et_multitask_kind *)(const void *)self;
    const et_run_file member = { ET_RUN_MEMBER, ET_RUN_MADE_AT_START };
    int own = count_files(kind), each = own + 2, task = i / each + 1, number = i % each;
    if (task > ET_MULTITASK_TASKS_MAX)
        return (et_run_file){ .name = NULL };
    int length = snprintf(buffer, ET_RUN_FILE_NAME, ET_MULTITASK_FOLDER, task);
    if (number == own + 1)
        return (et_run_file){ buffer, ET_RUN_FOLDER | ET_RUN_MADE_AT_START };
    const et_run_file *below = number < own ? file_of_kinds(kind, number) : &member;
    et_assert(length + strlen(below->name) + 1 < ET_RUN_FILE_NAME);
    stpcpy(stpcpy(buffer + length, "/"), below->name);
    return (et_run_file){ buffer, below->what };
}

/* The update rules of all kinds, each once. One too many is refused when an experiment begins. */
static void add_rules(et_multitask_kind *kind)
{
    int count = 0;
    for (int i = 0; i < kind->count; i++)
        for (const et_optimizer_rule *const *rule = kind->kinds[i]->rules; rule && *rule; rule++) {
            int k = 0;
            while (k < count && kind->rules[k] != *rule)
                k++;
            if (k == count && count <= ET_OWN_RULES_MAX)
                kind->rules[count++] = *rule;
        }
}

static int make(et_multitask_kind *kind, et_error *error)
{
    add_rules(kind);
    kind->row = (et_task_kind){ .name = "multitask",
                                .fields = et_multitask_make_fields(kind),
                                .size = sizeof(et_multitask_settings),
                                .experiments = experiments,
                                .begin = begin,
                                .open = open_task,
                                .close = et_multitask_task_close,
                                .check = et_multitask_settings_check,
                                .check_metric = et_multitask_check_metric,
                                .adopt = adopt,
                                .reads = reads,
                                .describe = et_multitask_describe,
                                .identify = et_multitask_identify,
                                .belongs = belongs,
                                .example = "--config tasks.yaml",
                                .next_help = "evaluates all tasks (add --task NAME for one)",
                                .inherit = inherit,
                                .set_batch = et_multitask_set_batch,
                                .file = file,
                                .rules = kind->rules };
    return kind->arena.failed ? et_alloc_failed(error, kind->arena.used, "a kind of task") : ET_OK;
}

int et_multitask_kind_new(et_multitask_kind **out, const et_task_kind *const *kinds, int count,
                          et_error *error)
{
    *out = NULL;
    if (count < 1 || count > ET_MULTITASK_KINDS_MAX)
        return et_fail(error, ET_EUSAGE, "%d kinds of task in a multitask: give 1 to %d", count,
                       ET_MULTITASK_KINDS_MAX);
    for (int i = 0; i < count; i++)
        if (!kinds[i] || !kinds[i]->name || !kinds[i]->fields || !kinds[i]->open ||
            !kinds[i]->close || kinds[i]->begin || kinds[i]->file)
            return et_fail(error, ET_EUSAGE,
                           "kind %d of a multitask: needs a name, fields, open and close, and must "
                           "not be a multitask",
                           i + 1);
    et_multitask_kind *kind = et_alloc_zero(1, sizeof *kind);
    if (!kind)
        return et_alloc_failed(error, sizeof *kind, "a kind of task");
    kind->arena = (et_arena)ET_ARENA_INIT;
    kind->count = count;
    memcpy(kind->kinds, kinds, (size_t)count * sizeof(const et_task_kind *));
    int status = make(kind, error);
    if (status)
        et_multitask_kind_free(kind);
    else
        *out = kind;
    return status;
}

void et_multitask_kind_free(et_multitask_kind *kind)
{
    if (!kind)
        return;
    et_arena_release(&kind->arena);
    et_free(kind);
}

const et_task_kind *et_multitask_kind_row(const et_multitask_kind *kind)
{
    return &kind->row;
}
