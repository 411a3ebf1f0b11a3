/* etude export of a run of several tasks: one of them as a model of its own kind.
 *
 *   RUN/params.yaml -> settings of the task -> params.yaml of an experiment of its kind
 *   RUN/task_N/     -> what its weights belong to
 *   checkpoint      -> NAME/w as w, and what tasks share; other tasks' weights stay behind */
#include "tasks/multitask/cmd_export.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/strbuf.h"
#include "base/yaml.h"
#include "command/exporting.h"
#include "io/safetensors.h"
#include "tasks/multitask/task.h"
#include "train/experiment.h"
#include "train/model_export.h"

#define TEXT_MOST ((size_t)1 << 30)
#define TEXTS_MAX 64

typedef struct exporting {
    et_exporting_args args;
    const char *task;
    et_arena arena;
    et_experiment experiment, single; /* of the run; of the task alone */
    const et_multitask_settings *settings;
    int number; /* of the task */
    char *path; /* of the checkpoint */
    et_checkpoint_facts facts;
    et_params *from, *to;
    et_model_text texts[TEXTS_MAX]; /* bytes are owned, but for the first's */
    int count;
    et_strbuf params_yaml;
} exporting;

static const char *name_of(const exporting *x, int i)
{
    return et_multitask_routine_at(x->settings, i)->task_name;
}

/* ---- what is exported ---- */

static int find_task(exporting *x, et_error *error)
{
    et_strbuf names = ET_STRBUF_INIT;
    const int count = (int)x->settings->task_routines.count;
    for (x->number = 0; x->task && x->number < count; x->number++)
        if (!strcmp(name_of(x, x->number), x->task))
            return ET_OK;
    for (int i = 0; i < count; i++)
        et_strbuf_printf(&names, "%s%s", i ? ", " : "", name_of(x, i));
    int status =
        et_fail(error, ET_EUSAGE, "export: --task%s%s: name one of %s",
                x->task ? " " : " is missing", x->task ? x->task : "", et_strbuf_text(&names));
    et_strbuf_release(&names);
    return status;
}

/* Best, or else the newest, unless one is named. */
static int find_checkpoint(exporting *x, et_error *error)
{
    if (x->args.checkpoint)
        return et_checkpoint_named(&x->path, x->args.model_dir, x->args.checkpoint, error);
    if (!et_checkpoint_best(&x->path, x->args.model_dir, NULL))
        return ET_OK;
    return et_checkpoint_newest(&x->path, x->args.model_dir, error);
}

static int open_run(exporting *x, const et_call *call, et_error *error)
{
    int status =
        et_experiment_open_run(&x->experiment, call->program, x->args.model_dir, &x->arena, error);
    x->settings = status ? NULL : x->experiment.task;
    if (!status)
        status = find_task(x, error);
    return status ? status : find_checkpoint(x, error);
}

/* ---- weights ---- */

/* A name as the task has it; NULL: it is another one's. */
static const char *own_name(const exporting *x, const char *name)
{
    for (int i = 0; i < (int)x->settings->task_routines.count; i++) {
        size_t length = strlen(name_of(x, i));
        if (!strncmp(name, name_of(x, i), length) && name[length] == '/')
            return i == x->number ? name + length + 1 : NULL;
    }
    return name;
}

static int declare_all(const exporting *x, const et_safetensors *file, et_error *error)
{
    const et_init zeros = { ET_INIT_ZEROS, 0 };
    int status = ET_OK, index;
    for (size_t i = 0; i < et_safetensors_count(file) && !status; i++) {
        const et_safetensors_tensor *there = et_safetensors_at(file, i);
        const char *own = et_state_is_weight(there->name) ? own_name(x, there->name) : NULL;
        if (!own)
            continue;
        status =
            et_params_declare_variable(x->from, there->name, there->shape, zeros, &index, error);
        if (!status)
            status = et_params_declare_variable(x->to, own, there->shape, zeros, &index, error);
    }
    return status;
}

/* Both stores have the same tensors in the same order, so one array is a copy of the other. */
static int load_weights(exporting *x, et_error *error)
{
    et_safetensors *file;
    int status = et_params_new(&x->from, error);
    if (!status)
        status = et_params_new(&x->to, error);
    if (!status)
        status = et_safetensors_open(&file, x->path, error);
    if (status)
        return status;
    status = declare_all(x, file, error);
    et_safetensors_close(file);
    if (!status)
        status = et_params_materialize(x->from, false, error);
    if (!status)
        status = et_params_materialize(x->to, false, error);
    if (!status)
        status =
            et_checkpoint_load_weights(x->from, x->path, !x->args.live_weights, &x->facts, error);
    if (status)
        return status;
    et_params_begin_change(x->to);
    memcpy(et_params_values(x->to), et_params_values(x->from),
           (size_t)et_params_flat_size(x->from) * sizeof(float));
    et_params_changed(x->to, false);
    return ET_OK;
}

/* What lies in the run is what the checkpoint was made with. */
static int check_belongs(const exporting *x, et_error *error)
{
    const et_identity identity = { x->path, x->facts.identity };
    const et_task_kind *kind = x->experiment.kind;
    int status = et_experiment_check_model(&x->experiment, &identity, x->args.model_dir, error);
    return status || !x->facts.identity
               ? status
               : kind->belongs(x->experiment.task, x->args.model_dir, &identity, error);
}

/* ---- what lies beside them ---- */

/* Lines of one text that are none of another. */
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

static int print_task(exporting *x, const et_task_kind *kind, const void *options, et_strbuf *out,
                      et_error *error)
{
    const et_value *values = et_fields_effective(kind->fields, options, &x->arena);
    if (values)
        et_yaml_print(out, values);
    return values && !out->failed ? ET_OK : et_alloc_failed(error, 0, "settings");
}

/* Which of the kind's experiments the task's settings are like: its name is what people read. */
static int choose_experiment(exporting *x, const et_call *call, const char **name, et_error *error)
{
    const et_task_kind *kind = et_multitask_kind_of(x->settings, x->number);
    const void *options = et_multitask_options_of(x->settings, x->number);
    et_strbuf own = ET_STRBUF_INIT, usual = ET_STRBUF_INIT;
    int least = INT_MAX, status = print_task(x, kind, options, &own, error);
    for (const et_experiment_row *row = kind->experiments; row->name && !status; row++) {
        et_experiment one;
        et_strbuf_reset(&usual);
        status = et_experiment_begin(&one, call->program, row->name, &x->arena, error);
        if (!status)
            status = print_task(x, kind, one.task, &usual, error);
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

/* The run's trainer but for its best value, which has the task's name. */
static int make_settings(exporting *x, const et_call *call, et_error *error)
{
    const et_task_kind *kind = et_multitask_kind_of(x->settings, x->number);
    const char *name = kind->experiments->name;
    int status = choose_experiment(x, call, &name, error);
    if (!status)
        status = et_experiment_begin(&x->single, call->program, name, &x->arena, error);
    if (status)
        return status;
    memcpy(x->single.task, et_multitask_options_of(x->settings, x->number), kind->size);
    x->single.trainer = x->experiment.trainer;
    x->single.trainer.best_checkpoint_eval_metric = ET_BEST_AUTO;
    x->single.runtime = x->experiment.runtime;
    status = et_experiment_print(&x->single, &x->params_yaml, error);
    x->texts[x->count++] = (et_model_text){ ET_EXPERIMENT_FILE, et_strbuf_text(&x->params_yaml),
                                            x->params_yaml.length };
    return status;
}

static int read_text(exporting *x, const char *name, et_error *error)
{
    char *bytes;
    size_t length;
    const char *path = et_arena_printf(&x->arena, "%s/" ET_MULTITASK_FOLDER "/%s",
                                       x->args.model_dir, x->number + 1, name);
    if (!path)
        return et_alloc_failed(error, 0, "a path");
    if (!et_file_exists(path) || x->count == TEXTS_MAX)
        return ET_OK;
    int status = et_file_read(&bytes, &length, path, TEXT_MOST, error);
    if (!status)
        x->texts[x->count++] = (et_model_text){ name, bytes, length };
    return status;
}

static int read_texts(exporting *x, et_error *error)
{
    int status = ET_OK;
    for (const et_run_file *file = x->single.kind->files; file && file->name && !status; file++)
        if (file->what & ET_RUN_COMPARED)
            status = read_text(x, file->name, error);
    return status;
}

/* What a run of the task alone would have. */
static int make_identity(exporting *x, et_value **out, et_error *error)
{
    const et_identity whole = { x->path, x->facts.identity };
    const et_identity own = et_multitask_identity_of(&whole, x->task);
    et_value *identity = et_value_dict(&x->arena);
    *out = identity;
    if (!identity)
        return et_alloc_failed(error, 0, "settings");
    int status = own.values ? et_value_merge(identity, own.values, error) : ET_OK;
    return status ? status : et_experiment_identify(&x->single, identity, error);
}

/* ---- the command ---- */

static int export_task(exporting *x, const et_call *call, et_error *error)
{
    et_value *identity;
    int status = et_exporting_check(&x->args, false, call, error);
    if (!status)
        status = open_run(x, call, error);
    if (!status)
        status = load_weights(x, error);
    if (!status)
        status = check_belongs(x, error);
    if (!status)
        status = make_settings(x, call, error);
    if (!status)
        status = read_texts(x, error);
    if (!status)
        status = make_identity(x, &identity, error);
    if (status)
        return status;
    const et_model_export model = { .texts = x->texts,
                                    .count = x->count,
                                    .params = x->to,
                                    .step = x->facts.step,
                                    .identity = x->facts.identity ? identity : NULL,
                                    .precision = x->args.options.precision };
    status = et_model_export_write(&model, x->args.output, error);
    if (!status)
        fprintf(stderr, "exported %s of %s, step %lld: %s\n", x->task, x->path,
                (long long)x->facts.step, x->args.output);
    return status;
}

static void release(exporting *x)
{
    for (int i = 1; i < x->count; i++)
        et_free((char *)x->texts[i].bytes);
    et_strbuf_release(&x->params_yaml);
    et_params_free(x->from);
    et_params_free(x->to);
    et_free(x->path);
    et_arena_release(&x->arena);
}

int et_cmd_export_one_task(const et_call *call, et_error *error)
{
    exporting x = { .arena = ET_ARENA_INIT, .params_yaml = ET_STRBUF_INIT };
    const et_arg table[] = {
        { "model-dir", "DIR", "the run that trained the tasks", ET_ARG_TEXT, &x.args.model_dir,
          NULL },
        { "task", "NAME", "which task", ET_ARG_TEXT, &x.task, NULL },
        ET_EXPORTING_OUTPUT(x.args),
        ET_ARG_CHECKPOINT(x.args.checkpoint),
        ET_EXPORTING_PRECISION(x.args),
        ET_ARG_LIVE_WEIGHTS(x.args.live_weights),
        ET_ARG_RUN(x.args.model_dir),
        ET_ARG_END,
    };
    bool help;
    x.facts.arena = &x.arena;
    int status = et_args_parse(table, call, &help, error);
    if (!status && help)
        et_args_help(stdout, table, call,
                     "Writes one task of a run of several as a trained model of its kind: a RUN "
                     "for the\ncommands of that.",
                     "runs/a --task red --output red" ET_MODEL_SUFFIX);
    else if (!status)
        status = export_task(&x, call, error);
    release(&x);
    return status;
}
