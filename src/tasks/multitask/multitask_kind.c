/* The kind for several tasks: its row. Its methods call those of the kinds that the settings
 * name. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/files/file.h"
#include "base/text/format.h"
#include "base/text/pattern.h"
#include "base/text/strbuf.h"
#include "base/values/yaml.h"
#include "engine/tensor/params.h"
#include "formats/events/log_names.h"
#include "systems/modelgarden/experiment.h"
#include "systems/modelgarden/multitask.h"
#include "tasks/multitask/multitask_options.h"
#include "train/checkpoint/artifact/artifact.h"
#include "train/checkpoint/run_names.h"

/* ---- multitask task ---- */

/* A task that consists of other tasks. The kind of each opens it, with a view of the store and its
 * own folder in the run. This task builds no graph; its trainable trains the other tasks
 * (systems/modelgarden/multitask.h). */

#define ET_MULTITASK_FOLDER "task_%d" /* in the run; from 1 */
#define ET_MULTITASK_TASKS                                                                         \
    ET_ARTIFACT_MEMBERS /* key of an identity: a dict of the tasks' own, by name */

typedef struct part {
    et_task *task; /* owned, as params */
    const et_task_kind *kind;
    et_params *params; /* a view of the store */
    et_identity identity;
} part;

typedef struct several {
    et_task task;
    const et_multitask_settings *settings; /* borrowed */
    et_task_context context;
    et_arena arena; /* of paths and names */
    et_patterns *shared;
    part *parts; /* [count] */
    int count;
} several;

static several *downcast(const et_task *task)
{
    return (several *)(void *)task;
}

static bool shares(const void *payload, const char *name)
{
    return et_patterns_match(((const several *)payload)->shared, name);
}

/* The identity of one of the tasks, from the identity of the whole run. */
static et_identity identity_of(const et_identity *whole, const char *name)
{
    const et_value *tasks = whole ? et_value_get(whole->values, ET_MULTITASK_TASKS) : NULL;
    const et_value *own = tasks && tasks->kind == ET_VALUE_DICT ? et_value_get(tasks, name) : NULL;
    bool there = own && own->kind == ET_VALUE_DICT;
    return (et_identity){ whole ? whole->checkpoint : NULL, there ? own : NULL };
}

/* ---- the trainable ---- */

/* An alpha of 0 draws all alike. */
static et_multitask_options options_of(const et_multitask_settings *settings,
                                       const et_task_trainer_options *trainer)
{
    static const int orders[] = {
        [ET_MULTITASK_SAMPLER_UNIFORM] = ET_MULTITASK_UNIFORM,
        [ET_MULTITASK_SAMPLER_PROPORTIONAL] = ET_MULTITASK_PROPORTIONAL,
        [ET_MULTITASK_SAMPLER_ANNEALING] = ET_MULTITASK_ANNEALING,
    };
    const et_multitask_sampler *s = &settings->task_sampler;
    const bool joint = settings->trainer_type == ET_MULTITASK_TRAINER_JOINT;
    et_multitask_options options = {
        .trainer = trainer,
        .order = joint ? ET_MULTITASK_JOINT : orders[s->type],
        .alpha = s->alpha,
        .steps_per_epoch = s->steps_per_epoch,
        .total_steps = s->total_steps,
    };
    if (options.order == ET_MULTITASK_PROPORTIONAL && s->alpha == 0)
        options.order = ET_MULTITASK_UNIFORM;
    return options;
}

/* Whether a parameter of the store is one of all tasks. */
static bool is_shared(const several *s, const char *name)
{
    for (int i = 0; i < s->count; i++) {
        const char *task = et_multitask_routine_at(s->settings, i)->task_name;
        size_t length = strlen(task);
        if (!strncmp(name, task, length) && name[length] == '/')
            return false;
    }
    return true;
}

/* Refuses an expression that matches no parameter, because a misspelt one would share nothing. */
static int check_shared(const several *s, et_error *error)
{
    const et_strings *all = &s->settings->shared;
    int status = ET_OK;
    for (size_t k = 0; k < all->count && !status; k++) {
        et_patterns *one;
        bool found = false;
        status = et_patterns_new(&one, (et_strings){ &all->items[k], 1 }, "task.shared", error);
        if (status)
            return status;
        for (int i = 0; i < et_params_count(s->context.params) && !found; i++) {
            const char *name = et_params_name(s->context.params, i);
            found = is_shared(s, name) && et_patterns_match(one, name);
        }
        if (!found)
            status = et_fail(error, ET_ECONFIG,
                             "task.shared: no parameter of any task matches \"%s\"; `etude "
                             "inspect` shows the names of a run",
                             all->items[k]);
        et_patterns_free(one);
    }
    return status;
}

static int open_multitask(et_task *self, const struct et_multitask_request *request,
                          struct et_multitask **out, et_error *error)
{
    const several *s = downcast(self);
    const et_multitask_options options = options_of(s->settings, request->options);
    et_multitask_part parts[ET_MULTITASK_TASKS_MAX] = { { 0 } };
    et_params *views[ET_MULTITASK_TASKS_MAX];
    et_multitask *multitask;
    for (int i = 0; i < s->count; i++) {
        const et_multitask_routine *routine = et_multitask_routine_at(s->settings, i);
        parts[i] = (et_multitask_part){ .task = s->parts[i].task,
                                        .weight = routine->task_weight,
                                        .size = routine->task_weight,
                                        .eval_steps = routine->eval_steps };
        views[i] = s->parts[i].params;
    }
    const et_multitask_internals inside = { views, self };
    int status = et_multitask_open_internal(&multitask, parts, s->count, &inside, request->device,
                                            request->params, &options, error);
    if (!status)
        status = check_shared(s, error);
    if (!status)
        *out = multitask;
    else
        et_multitask_close(multitask);
    return status;
}

/* ---- telling ---- */

static void describe(et_task *task)
{
    const several *s = downcast(task);
    et_params *params = s->context.params;
    int64_t shared = 0;
    for (int i = 0; i < s->count; i++) {
        const et_multitask_routine *routine = et_multitask_routine_at(s->settings, i);
        et_task_tell(&s->context, "task         %s: %s, weight %g", routine->task_name,
                     s->parts[i].kind->name, routine->task_weight);
        if (s->parts[i].kind->describe)
            s->parts[i].kind->describe(s->parts[i].task);
    }
    for (int i = 0; i < et_params_count(params); i++)
        if (is_shared(s, et_params_name(params, i)))
            shared += et_shape_count(et_params_shape(params, i));
    et_task_tell(&s->context, "all          %s parameters, of which %s %s shared%s",
                 et_format_count(et_params_elements(params)).text,
                 shared ? et_format_count(shared).text : "none",
                 shared == 1 || !shared ? "is" : "are",
                 s->settings->shared.count ? "" : " (task.shared is empty)");
}

static int identify(const et_task *task, et_value *identity, et_error *error)
{
    const several *s = downcast(task);
    et_value *tasks = et_value_set_dict(identity, ET_MULTITASK_TASKS);
    int status = tasks ? ET_OK : et_alloc_failed(error, "settings");
    for (int i = 0; i < s->count && !status; i++) {
        const part *one = &s->parts[i];
        et_value *own =
            et_value_set_dict(tasks, et_multitask_routine_at(s->settings, i)->task_name);
        status = !own                  ? et_alloc_failed(error, "settings")
                 : one->kind->identify ? one->kind->identify(one->task, own, error)
                                       : ET_OK;
    }
    return status;
}

/* ---- the folder of a task ---- */

/* Counts the lines of one text that the other text lacks. */
static int count_others(const char *text, const char *other)
{
    int count = 0;
    for (size_t length; *text; text += length + (text[length] != 0)) {
        const char *at = other;
        length = strcspn(text, "\n");
        while (at && (strncmp(at, text, length) != 0 || (at[length] && at[length] != '\n')))
            at = (at = strchr(at, '\n')) ? at + 1 : NULL;
        count += !at;
    }
    return count;
}

static int print_task(const et_task_kind *kind, const void *options, et_arena *arena,
                      et_strbuf *out, et_error *error)
{
    const et_value *values = et_fields_effective(kind->fields, options, arena);
    if (values)
        et_yaml_print(out, values);
    return values && !out->failed ? ET_OK : et_alloc_failed(error, "settings");
}

/* Finds the kind's experiment that the task's settings resemble, for its name in messages. An
 * experiment with wrong settings is ignored. */
static int choose_experiment(const et_multitask_settings *settings, int i, et_arena *arena,
                             const char **name, et_error *error)
{
    const et_task_kind *kind = et_multitask_kind_of(settings, i);
    const et_program program = { .name = "etude", .kinds = &kind, .count = 1 };
    et_strbuf own = ET_STRBUF_INIT, usual = ET_STRBUF_INIT;
    int least = INT_MAX;
    int status = print_task(kind, et_multitask_options_of(settings, i), arena, &own, error);
    *name = kind->experiments->name;
    for (const et_experiment_row *row = kind->experiments; row->name && !status; row++) {
        et_experiment one;
        et_strbuf_reset(&usual);
        if (et_experiment_begin(&one, &program, row->name, arena, NULL))
            continue;
        status = print_task(kind, one.task, arena, &usual, error);
        int others = status ? INT_MAX : count_others(et_strbuf_text(&own), et_strbuf_text(&usual));
        if (others < least) {
            least = others;
            *name = row->name;
        }
    }
    et_strbuf_release(&own);
    et_strbuf_release(&usual);
    return status;
}

/* Writes member.yaml of task i, which makes its folder in a run a model of the task's kind
 * (train/checkpoint/artifact/artifact.h). */
static int write_member(const et_multitask_settings *settings, int i, const char *folder,
                        et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_artifact_member member = { .name = et_multitask_routine_at(settings, i)->task_name };
    int status = choose_experiment(settings, i, &arena, &member.experiment, error);
    member.settings = et_arena_printf(&arena, "task.task_routines[%d].task_config.%s", i,
                                      et_multitask_kind_of(settings, i)->name);
    if (!status)
        status = member.settings ? et_artifact_write_member(folder, &member, error)
                                 : et_alloc_failed(error, "settings");
    et_arena_release(&arena);
    return status;
}

/* ---- opening and closing ---- */

static const et_task_class class = { .name = "multitask", .open_multitask = open_multitask };

/* The folder is made with the first file of the run, by the rank that writes. */
static int open_part(several *s, int i, et_error *error)
{
    const et_multitask_routine *routine = et_multitask_routine_at(s->settings, i);
    part *one = &s->parts[i];
    et_task_context context = s->context;
    const et_params_naming naming = { et_arena_printf(&s->arena, "%s/", routine->task_name), shares,
                                      s };
    context.model_dir =
        et_arena_printf(&s->arena, "%s/" ET_MULTITASK_FOLDER, s->context.model_dir, i + 1);
    if (context.shown_dir)
        context.shown_dir =
            et_arena_printf(&s->arena, "%s/" ET_MULTITASK_FOLDER, s->context.shown_dir, i + 1);
    if (!naming.prefix || !context.model_dir || (s->context.shown_dir && !context.shown_dir))
        return et_alloc_failed(error, "a task");
    int status = s->context.reader ? ET_OK : et_directory_make(context.model_dir, error);
    if (!status && !s->context.reader)
        status = write_member(s->settings, i, context.model_dir, error);
    if (!status)
        status = et_params_view_new(&one->params, s->context.params, &naming, error);
    one->kind = et_multitask_kind_of(s->settings, i);
    one->identity = identity_of(s->context.identity, routine->task_name);
    context.identity = s->context.identity ? &one->identity : NULL;
    context.params = one->params;
    if (s->context.best_metric)
        context.best_metric = et_logged_below(s->context.best_metric, routine->task_name);
    if (!status)
        status =
            one->kind->open(&one->task, et_multitask_options_of(s->settings, i), &context, error);
    if (status)
        return et_fail_while(error, status, "task %s", routine->task_name);
    one->task->name = routine->task_name;
    if (one->task->init_checkpoint && *one->task->init_checkpoint)
        return et_fail(error, ET_ECONFIG,
                       "task %s: init_checkpoint: set task.init_checkpoint for all tasks instead",
                       routine->task_name);
    return ET_OK;
}

static void close_task(et_task *task)
{
    if (!task)
        return;
    several *s = downcast(task);
    for (int i = 0; i < s->count; i++) {
        if (s->parts[i].task)
            s->parts[i].kind->close(s->parts[i].task);
        et_params_free(s->parts[i].params);
    }
    et_patterns_free(s->shared);
    et_arena_release(&s->arena);
    et_free(s->parts);
    et_free(s);
}

/* options and everything they point to must outlive the task, as must the members of context. */
static int open_task(et_task **out, const void *options, const et_task_context *context,
                     et_error *error)
{
    const et_multitask_settings *settings = options;
    const size_t count = settings->task_routines.count;
    *out = NULL;
    int status = et_multitask_settings_check(settings, error);
    several *s = status ? NULL : et_alloc_zero(1, sizeof *s);
    part *parts = s ? et_alloc_zero(count, sizeof *parts) : NULL;
    if (!parts) {
        et_free(s);
        return status ? status : et_alloc_failed(error, "a task");
    }
    *s = (several){ .task = { .class = &class,
                              .logging_dir = context->model_dir,
                              .task_config = settings,
                              .init_checkpoint = settings->init_checkpoint,
                              .init_pattern = settings->init_pattern },
                    .settings = settings,
                    .context = *context,
                    .arena = ET_ARENA_INIT,
                    .parts = parts,
                    .count = (int)count };
    status = et_patterns_new(&s->shared, settings->shared, "task.shared", error);
    for (int i = 0; i < s->count && !status; i++)
        status = open_part(s, i, error);
    if (status)
        close_task(&s->task);
    else
        *out = &s->task;
    return status;
}

/* ---- methods ---- */

static void begin(const et_task_kind *self, void *options)
{
    ((et_multitask_settings *)options)->of = (const et_multitask_kind *)(const void *)self;
}

/* A run with other tasks gives no settings; resuming then reports the difference. */
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
        /* Weights are found by the task's name. A task that the other run lacks gets no weights. */
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
    int status = ET_OK;
    for (int i = 0; i < (int)settings->task_routines.count && !status; i++) {
        const et_task_kind *kind = et_multitask_kind_of(settings, i);
        const char *name = et_multitask_routine_at(settings, i)->task_name;
        const et_identity own = identity_of(identity, name);
        const et_path folder = et_path_print("%s/" ET_MULTITASK_FOLDER, model_dir, i + 1);
        if (kind->belongs && own.values)
            status = kind->belongs(et_multitask_options_of(settings, i), folder.text, &own, error);
        if (status)
            et_fail_while(error, status, "task %s", name);
    }
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

/* Files of a run: in the folder of each possible task the files of every kind and member.yaml; then
 * the folder. */
static et_run_file file(const et_task_kind *self, int i, char buffer[ET_RUN_FILE_NAME])
{
    const et_multitask_kind *kind = (const et_multitask_kind *)(const void *)self;
    const et_run_file member = { ET_RUN_MEMBER, ET_RUN_MADE_AT_START };
    int own = 0;
    while (file_of_kinds(kind, own))
        own++;
    const int each = own + 2, task = i / each + 1, number = i % each;
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

static int make(et_multitask_kind *kind, et_error *error)
{
    /* Lists the update rules of all kinds, each once. When an experiment begins, a number above the
     * limit is refused. */
    int count = 0;
    for (int i = 0; i < kind->count; i++)
        for (const et_optimizer_rule *const *rule = kind->kinds[i]->rules; rule && *rule; rule++) {
            int k = 0;
            while (k < count && kind->rules[k] != *rule)
                k++;
            if (k == count && count <= ET_OWN_RULES_MAX)
                kind->rules[count++] = *rule;
        }
    kind->row = (et_task_kind){ .name = "multitask",
                                .fields = et_multitask_make_fields(kind),
                                .size = sizeof(et_multitask_settings),
                                .experiments = experiments,
                                .begin = begin,
                                .open = open_task,
                                .close = close_task,
                                .check = et_multitask_settings_check,
                                .check_metric = et_multitask_check_metric,
                                .adopt = adopt,
                                .reads = reads,
                                .describe = describe,
                                .identify = identify,
                                .belongs = belongs,
                                .example = "--config tasks.yaml",
                                .next_help = "evaluates all tasks (add --task NAME for one)",
                                .inherit = inherit,
                                .set_batch = et_multitask_set_batch,
                                .file = file,
                                .rules = kind->rules };
    return kind->arena.failed ? et_alloc_failed(error, "a kind of task") : ET_OK;
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
    et_multitask_kind *kind;
    if (ET_ALLOC_ZERO(kind, 1, "a kind of task", error))
        return ET_ENOMEM;
    kind->count = count;
    memcpy(kind->kinds, kinds, count * sizeof(const et_task_kind *));
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
