#include "tasks/multitask/multitask_options.h"

#include <math.h>
#include <string.h>

#include <etude/settings.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/values/value.h"
#include "formats/events/log_names.h"
#include "train/run/options.h"

static const char *const trainer_names[] = { "interleaving", "joint", NULL };
static const char *const sampler_names[] = { "uniform", "proportional", "annealing", NULL };

static const et_field uniform_fields[] = { ET_FIELD_END };
static const et_fields uniform_table = { "uniform", uniform_fields };

static const et_field proportional_fields[] = { ET_FIELD_FLOAT(
                                                    et_multitask_sampler, alpha, 1, 0, 1e6,
                                                    "probability of a task ~ task_weight^alpha"),
                                                ET_FIELD_END };
static const et_fields proportional_table = { "proportional", proportional_fields };

static const et_field annealing_fields[] = {
    ET_FIELD_INT(et_multitask_sampler, steps_per_epoch, 5, 1, 1e12, "steps per epoch"),
    ET_FIELD_INT(et_multitask_sampler, total_steps, 20, 1, 1e12,
                 "steps in which alpha falls, epoch by epoch, from above 1 to 0.2"),
    ET_FIELD_END
};
static const et_fields annealing_table = { "annealing", annealing_fields };

/* All three fill one struct. */
#define SAMPLER(id, table, text)                                                                   \
    {                                                                                              \
        .name = #id, .kind = ET_FIELD_KIND_STRUCT, .nested = (table), .help = (text)               \
    }
static const et_field sampler_fields[] = {
    ET_FIELD_CHOICE(et_multitask_sampler, type, ET_MULTITASK_SAMPLER_PROPORTIONAL, sampler_names,
                    "how the task of a step is sampled", .selects = true),
    SAMPLER(uniform, &uniform_table, "all tasks equally"),
    SAMPLER(proportional, &proportional_table, "by weight"),
    SAMPLER(annealing, &annealing_table, "first by weight, then more and more equally"),
    ET_FIELD_END
};
static const et_fields sampler_table = { "task_sampler", sampler_fields };

/* ---- tables that are made ---- */

static et_fields *make_table(et_arena *arena, const char *name, const et_field *fields)
{
    et_fields *table = et_arena_alloc(arena, sizeof *table);
    if (table)
        *table = (et_fields){ name, fields };
    return fields ? table : NULL;
}

/* {type, tabular: {...}, translation: {...}}: offsets are within the routine. */
static et_fields *make_config(et_multitask_kind *kind, size_t *size)
{
    const size_t grain = sizeof(double) > sizeof(void *) ? sizeof(double) : sizeof(void *);
    et_field *fields = et_arena_array(&kind->arena, (size_t)kind->count + 2, sizeof *fields);
    const char **names = et_arena_array(&kind->arena, (size_t)kind->count + 1, sizeof *names);
    if (!fields || !names)
        return NULL;
    *size = sizeof(et_multitask_routine);
    fields[0] = (et_field)ET_FIELD_CHOICE(et_multitask_routine, type, 0, names,
                                          "kind of task; the group of this name has its settings",
                                          .selects = true, .change = ET_CHANGE_MODEL);
    for (int i = 0; i < kind->count; i++) {
        *size = (*size + grain - 1) / grain * grain;
        kind->offset[i] = *size;
        names[i] = kind->kinds[i]->name;
        fields[i + 1] = (et_field){ .name = names[i],
                                    .kind = ET_FIELD_KIND_STRUCT,
                                    .offset = *size,
                                    .nested = kind->kinds[i]->fields,
                                    .help = "settings as `task` of an experiment of this kind" };
        *size += kind->kinds[i]->size;
    }
    *size = (*size + grain - 1) / grain * grain;
    return make_table(&kind->arena, "task_config", fields);
}

static et_fields *make_routine(et_multitask_kind *kind, size_t *size)
{
    const et_field rows[] = {
        ET_FIELD_STRING(et_multitask_routine, task_name, "",
                        "prefix of the task's logged values: NAME/" ET_LOGGED_VALIDATION_LOSS,
                        .change = ET_CHANGE_MODEL),
        ET_FIELD_FLOAT(
            et_multitask_routine, task_weight, 1, 1e-9, 1e12,
            "joint: weight of the task's loss; interleaving: weight for sampling the task",
            .change = ET_CHANGE_FIXED, .nullable = true),
        ET_FIELD_INT(et_multitask_routine, eval_steps, 0, 0, 1e12,
                     "validation batches of this task; 0: trainer.validation_steps",
                     .nullable = true),
        { .name = "task_config",
          .kind = ET_FIELD_KIND_STRUCT,
          .nested = make_config(kind, size),
          .help = "task and data" },
        ET_FIELD_END,
    };
    et_field *fields = rows[3].nested ? et_arena_alloc(&kind->arena, sizeof rows) : NULL;
    if (fields)
        memcpy(fields, rows, sizeof rows);
    return make_table(&kind->arena, "task_routines", fields);
}

const et_fields *et_multitask_make_fields(et_multitask_kind *kind)
{
    size_t size = 0;
    const et_fields *routine = make_routine(kind, &size);
    const et_field rows[] = {
        { .name = "task_routines",
          .kind = ET_FIELD_KIND_STRUCTS,
          .offset = offsetof(et_multitask_settings, task_routines),
          .nested = routine,
          .item_size = size,
          .help = "the tasks" },
        ET_FIELD_STRINGS(et_multitask_settings, shared,
                         "parameters that tasks share: regular expressions of names without the "
                         "task's prefix; equal names need equal shapes",
                         .change = ET_CHANGE_MODEL),
        ET_FIELD_CHOICE(et_multitask_settings, trainer_type, ET_MULTITASK_TRAINER_INTERLEAVING,
                        trainer_names, "whether a step trains one task or all tasks together",
                        .change = ET_CHANGE_FIXED),
        ET_FIELD_STRUCT(et_multitask_settings, task_sampler, &sampler_table,
                        "for interleaving: sampling of the step's task", .change = ET_CHANGE_FIXED,
                        .with = "trainer_type=interleaving"),
        ET_FIELD_STRING(et_multitask_settings, init_checkpoint, NULL,
                        "initial weights of a new run: a file, a run's directory (its newest "
                        "checkpoint) or its best/; null: random"),
        ET_FIELD_STRING(
            et_multitask_settings, init_pattern, NULL,
            "regular expression: parameters that init_checkpoint initializes; null: all",
            .with = "init_checkpoint=*"),
        ET_FIELD_ONLY("model", "null",
                      "each task has its own model; use shared for common parameters"),
        ET_FIELD_ONLY("differential_privacy_config", "null",
                      "differential privacy is not supported for several tasks"),
        ET_FIELD_END,
    };
    et_field *fields = routine ? et_arena_alloc(&kind->arena, sizeof rows) : NULL;
    if (fields)
        memcpy(fields, rows, sizeof rows);
    return make_table(&kind->arena, "task", fields);
}

/* ---- the tasks of the settings ---- */

const et_multitask_routine *et_multitask_routine_at(const et_multitask_settings *settings, int i)
{
    et_assert(i >= 0 && (size_t)i < settings->task_routines.count);
    const char *items = settings->task_routines.items;
    return (const void *)(items + (size_t)i * settings->of->row.fields->fields[0].item_size);
}

const et_task_kind *et_multitask_kind_of(const et_multitask_settings *settings, int i)
{
    return settings->of->kinds[et_multitask_routine_at(settings, i)->type];
}

void *et_multitask_options_of(const et_multitask_settings *settings, int i)
{
    const et_multitask_routine *routine = et_multitask_routine_at(settings, i);
    return (char *)(void *)routine + settings->of->offset[routine->type];
}

/* ---- checks ---- */

/* Names are prefixes of names of parameters and of parts of a state. */
static int check_name(const et_multitask_settings *settings, int i, et_error *error)
{
    static const char *const taken[] = { "optimizer", "average", "export", NULL };
    const char *name = et_multitask_routine_at(settings, i)->task_name;
    name = name ? name : "";
    if (!et_is_item_name(name))
        return et_fail(
            error, ET_ECONFIG,
            "task.task_routines[%d].task_name: \"%.64s\": give up to %d letters, digits, _ and -",
            i, name, ET_ITEM_NAME_MAX);
    for (int k = 0; taken[k]; k++)
        if (!strcmp(taken[k], name))
            return et_fail(error, ET_ECONFIG,
                           "task.task_routines[%d].task_name: %s is a reserved name in "
                           "checkpoints; choose another",
                           i, name);
    for (int k = 0; k < i; k++)
        if (!strcmp(et_multitask_routine_at(settings, k)->task_name, name))
            return et_fail(
                error, ET_ECONFIG,
                "task.task_routines[%d].task_name: [%d] also has the name %s; rename one", i, k,
                name);
    return ET_OK;
}

/* Its paths begin with task, as in the kind's own experiments. */
static int check_restrictions(const et_task_kind *kind, void *options, et_error *error)
{
    const et_field root[] = {
        { .name = "task", .kind = ET_FIELD_KIND_STRUCT, .nested = kind->fields }, ET_FIELD_END
    };
    const et_fields table = { "task_config", root };
    const et_settings settings = { .table = &table, .options = options };
    int status = ET_OK;
    for (const et_restriction *row = kind->restrictions; row && row->text && !status; row++)
        if (!row->experiment)
            status = et_settings_check(&settings, (const char *const[]){ row->text, NULL }, error);
    return status;
}

static int check_routine(const et_multitask_settings *settings, int i, et_error *error)
{
    const et_task_kind *kind = et_multitask_kind_of(settings, i);
    void *options = et_multitask_options_of(settings, i);
    int status = check_name(settings, i, error);
    if (status)
        return status;
    status = check_restrictions(kind, options, error);
    if (!status && kind->check)
        status = kind->check(options, error);
    if (!status && et_privacy_in(kind->fields, options))
        status =
            et_fail(error, ET_ECONFIG,
                    "differential_privacy_config: not supported for several tasks; leave it out");
    return status ? et_fail_while(error, status, "task.task_routines[%d], %s (%s)", i,
                                  et_multitask_routine_at(settings, i)->task_name, kind->name)
                  : ET_OK;
}

int et_multitask_settings_check(const void *options, et_error *error)
{
    const et_multitask_settings *settings = options;
    const size_t count = settings->task_routines.count;
    int status = ET_OK;
    if (count < 1 || count > ET_MULTITASK_TASKS_MAX)
        return et_fail(
            error, ET_ECONFIG,
            "task.task_routines: %zu tasks; give 1 to %d, for example in a file for --config: "
            "task: {task_routines: [{task_name: a, task_config: {type: %s, %s: {...}}}, ...]}",
            count, ET_MULTITASK_TASKS_MAX, settings->of->kinds[0]->name,
            settings->of->kinds[0]->name);
    for (int i = 0; i < (int)count && !status; i++)
        status = check_routine(settings, i, error);
    return status;
}

int et_multitask_check_metric(const void *options, const char *name, et_error *error)
{
    const et_multitask_settings *settings = options;
    for (int i = 0; i < (int)settings->task_routines.count; i++) {
        const et_task_kind *kind = et_multitask_kind_of(settings, i);
        const char *own = et_logged_below(name, et_multitask_routine_at(settings, i)->task_name);
        if (!own)
            continue;
        int status = kind->check_metric
                         ? kind->check_metric(et_multitask_options_of(settings, i), own, error)
                         : ET_OK;
        return status ? et_fail_while(error, status, "task %s",
                                      et_multitask_routine_at(settings, i)->task_name)
                      : ET_OK;
    }
    return et_fail(error, ET_ECONFIG,
                   "trainer.best_checkpoint_eval_metric: %s does not name a task; write "
                   "TASK/METRIC, such as %s/" ET_LOGGED_VALIDATION_LOSS,
                   name, et_multitask_routine_at(settings, 0)->task_name);
}

/* ---- batches ---- */

#define SETTINGS "task." /* that a path of a kind's begins with */

/* The batch size in a task's settings; *path: path of this setting, below `task`. */
static int read_batch(const et_multitask_settings *settings, int i, const char **path,
                      int64_t *batch, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    const et_task_kind *kind = et_multitask_kind_of(settings, i);
    const char *whole = kind->batch ? kind->batch : "";
    *path = whole + (strncmp(whole, SETTINGS, strlen(SETTINGS)) ? 0 : strlen(SETTINGS));
    const et_value *echo =
        et_fields_echo(kind->fields, et_multitask_options_of(settings, i), &arena);
    const et_value *value = et_value_path(echo, *path);
    int status = !kind->batch ? et_fail(error, ET_EUSAGE,
                                        "--memory: tasks of %s do not define which setting is the "
                                        "batch size; set the batch size instead",
                                        kind->name)
                 : !echo      ? et_alloc_failed(error, "settings")
                 : !value || value->kind != ET_VALUE_INT || value->integer < 1
                     ? et_fail(error, ET_ECONFIG, "--memory: task %s: %s is not set; set it first",
                               et_multitask_routine_at(settings, i)->task_name, whole)
                     : ET_OK;
    *batch = status ? 0 : value->integer;
    et_arena_release(&arena);
    return status;
}

static int write_batch(const et_multitask_settings *settings, int i, const char *path,
                       int64_t batch, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    const et_fields_origin from = { .name = "--memory", .arena = &arena };
    et_value *value = et_value_new(&arena, ET_VALUE_INT);
    int status = value ? ET_OK : et_alloc_failed(error, "settings");
    if (value) {
        value->integer = batch;
        status = et_fields_set_from(&from, et_multitask_kind_of(settings, i)->fields,
                                    et_multitask_options_of(settings, i), path, value, NULL, error);
    }
    et_arena_release(&arena);
    return status;
}

/* In proportion to the original settings, however often another size is tried. */
int et_multitask_set_batch(void *options, const void *like, int64_t batch, et_error *error)
{
    const et_multitask_settings *settings = options, *other = like ? like : options;
    et_multitask_routine *first = (et_multitask_routine *)et_multitask_routine_at(settings, 0);
    int status = ET_OK;
    for (int i = 0; i < (int)settings->task_routines.count && !status; i++) {
        et_multitask_routine *one = (et_multitask_routine *)et_multitask_routine_at(settings, i);
        const char *path;
        int64_t size;
        const bool same = i < (int)other->task_routines.count &&
                          et_multitask_kind_of(other, i) == et_multitask_kind_of(settings, i);
        status = read_batch(same ? other : settings, i, &path, &size, error);
        if (!one->batch)
            one->batch = size;
        if (!like && !status)
            size = (int64_t)llround((double)one->batch * (double)batch / (double)first->batch);
        if (!status)
            status = write_batch(settings, i, path, size < 1 ? 1 : size, error);
    }
    return status;
}
