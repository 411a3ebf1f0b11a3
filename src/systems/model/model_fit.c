/* Training, evaluation and prediction. A training is one call, for which a controller runs the
 * model's trainer. With a run directory, the call is a run like any other, so the same call resumes
 * it. Without a run directory, nothing is saved. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include <etude/checkpoint.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/options.h"
#include "base/values/value.h"
#include "data/batches/source.h"
#include "engine/exec/pass.h"
#include "engine/tensor/tensor.h"
#include "formats/events/log_names.h"
#include "formats/events/progress.h"
#include "systems/model/model_private.h"
#include "systems/modelgarden/task_trainer.h"
#include "systems/modelgarden/training_table.h"
#include "systems/orbit/controller.h"
#include "train/checkpoint/metric_name.h"
#include "train/checkpoint/run_names.h"

/* Reports of a training to the program and the user. An action at the end of each epoch merges the
 * epoch's logs, prints a row of the table and calls the program's function. Without a run
 * directory, the action also copies the weights of the best validation. An observer draws the
 * progress bar. */
typedef struct fit_monitor {
    et_action action;
    et_controller *const *controller; /* the model's */
    const et_fit *fit;
    int64_t epoch_steps;   /* 0: unknown, so the training is one epoch */
    int64_t base, target;  /* steps */
    et_arena arena;        /* of logs */
    et_value *logs;        /* of training, since the last line; NULL: none */
    et_progress *progress; /* NULL: quiet */
    const char *monitored; /* the value, borrowed; NULL: none */
    et_sink *table;        /* of the rows; NULL: no row yet, or quiet */
    et_arena names;        /* that the table borrows */
    et_showing showing;    /* the same */
    double began;          /* monotonic time */
    et_model *keeps;       /* the model whose best weights are copied; NULL: no copies */
    float *best;           /* [elements] a copy, parameter after parameter; owned; NULL: none yet */
    int64_t best_step;     /* of the best validation; -1: there was none */
} fit_monitor;

#define COLUMNS 3 /* of validation, at most */

/* ---- logs of training ---- */

static void forget_logs(fit_monitor *w)
{
    et_arena_release(&w->arena);
    w->logs = NULL;
}

/* The values of training that this or an earlier process has logged. */
static int keep_logs(fit_monitor *w, et_error *error)
{
    const et_value *steps = et_controller_facts_of(*w->controller).steps;
    forget_logs(w);
    w->logs = et_value_dict(&w->arena);
    return w->logs && steps ? et_value_merge(w->logs, steps, error) : ET_OK;
}

/* ---- the end of an epoch ---- */

static int64_t due(const et_action *self, int64_t step)
{
    const fit_monitor *w =
        (const fit_monitor *)(const void *)((const char *)self - offsetof(fit_monitor, action));
    const int64_t each = w->epoch_steps;
    return each ? w->base + ((step - w->base) / each + 1) * each : ET_ACTION_NEVER;
}

static int64_t epoch_of(const fit_monitor *w, int64_t step)
{
    return w->epoch_steps ? (step - w->base + w->epoch_steps - 1) / w->epoch_steps : 1;
}

/* The first validation decides the columns: the monitored value, then others in the order of the
 * logs. */
static int open_table(fit_monitor *w, const et_value *validation, et_error *error)
{
    const char *directory = w->fit->run_dir;
    et_training_table_options options = {
        .progress = w->progress,
        .best = w->monitored,
        .lowest = w->monitored && et_metric_lower_is_better(w->monitored),
        .epochs = true,
        .steps = w->target,
        .began = w->began,
        .now = &w->showing,
        .log = directory ? et_arena_printf(&w->names, "%s/" ET_RUN_LOG, directory) : NULL,
    };
    if (w->monitored)
        et_main_metrics_add(&options.metrics, w->monitored);
    for (const et_value *v = validation ? validation->first : NULL; v; v = v->next)
        if (v->kind == ET_VALUE_FLOAT && et_logged_prefix(v->key) &&
            options.metrics.count < COLUMNS) {
            const char *name = et_arena_strdup(&w->names, v->key);
            if (name)
                et_main_metrics_add(&options.metrics, name);
        }
    options.most = options.metrics.count;
    return w->names.failed ? et_alloc_failed(error, "a table")
                           : et_training_table_open(&w->table, &options, error);
}

static int print_row(fit_monitor *w, int64_t step, const et_value *validation, et_error *error)
{
    et_value *values = et_value_dict(&w->arena);
    et_value *train = et_value_set_dict(values, ET_LOGGED_TRAIN);
    int status = w->table ? ET_OK : open_table(w, validation, error);
    if (!status && train && w->logs)
        status = et_value_merge(train, w->logs, error);
    et_value *valid = validation ? et_value_set_dict(values, ET_LOGGED_VALIDATION) : NULL;
    if (!status && valid)
        status = et_value_merge(valid, validation, error);
    if (!status && (!values || et_value_failed(values)))
        status = et_alloc_failed(error, "the values of an epoch");
    w->showing.epoch = epoch_of(w, step);
    return status ? status : w->table->class->write(w->table, step, values, error);
}

/* Copies weights from the model, as a reader of the model sees them, or back. */
static void copy_weights(const fit_monitor *w, bool back)
{
    et_assert(w->keeps && w->best);
    et_params *params = w->keeps->params;
    float *values = et_params_values(params), *kept = w->best;
    for (int i = 0; i < et_params_count(params); i++) {
        const size_t count = (size_t)et_shape_count(et_params_shape(params, i));
        float *own = values + et_params_offset(params, i);
        memcpy(back ? own : kept, back ? kept : own, count * sizeof *own);
        kept += count;
    }
}

static int keep_best(fit_monitor *w, const et_action_context *now, et_error *error)
{
    const et_value *step = now->logs ? et_value_get(now->logs, ET_LOGGED_BEST_STEP) : NULL;
    if (!step)
        return ET_OK;
    w->best_step = step->integer;
    if (!w->keeps || w->best_step != now->step)
        return ET_OK;
    const size_t count = (size_t)et_params_elements(w->keeps->params);
    if (!w->best && ET_ALLOC(w->best, count, "the best weights", error))
        return ET_ENOMEM;
    const bool shown = et_model_show_average(w->keeps);
    copy_weights(w, false);
    if (shown)
        et_model_hide_average(w->keeps);
    return ET_OK;
}

static int end_epoch(et_action *self, const et_action_context *now, et_error *error)
{
    fit_monitor *w = (fit_monitor *)(void *)((char *)self - offsetof(fit_monitor, action));
    const et_fit *fit = w->fit;
    int status = keep_logs(w, error);
    et_value *logs = w->logs;
    if (!status && w->progress)
        status = print_row(w, now->step, now->logs, error);
    if (!status)
        status = logs ? keep_best(w, now, error) : et_alloc_failed(error, "the values of an epoch");
    if (!status && now->logs)
        status = et_value_merge(logs, now->logs, error);
    if (!status && et_value_failed(logs))
        status = et_alloc_failed(error, "the values of an epoch");
    if (!status && fit->callback)
        status = et_callback_status(
            fit->callback(fit->payload, epoch_of(w, now->step), logs, now->stop, error),
            "the callback of et_fit", error);
    forget_logs(w);
    return status;
}

/* ---- the bar ---- */

static void show(void *self, const et_showing *showing)
{
    fit_monitor *w = self;
    et_progress_field fields[] = { { ET_LOGGED_LOSS, showing->loss, true } };
    const et_progress_state state = { .step = showing->step,
                                      .steps = showing->steps,
                                      .fields = fields,
                                      .field_count = 1,
                                      .rate = showing->rate,
                                      .unit = "samples/s",
                                      .epoch = showing->epoch,
                                      .seconds_left = NAN,
                                      .time = showing->time };
    et_progress_update(w->progress, &state);
}

static void hear(void *self, const char *text)
{
    et_progress_message(((fit_monitor *)self)->progress, text);
}

static int monitor_open(fit_monitor *w, const et_fit *fit, et_error *error)
{
    static const et_action_class action = { .name = "epoch", .due = due, .act = end_epoch };
    et_progress_options options = ET_PROGRESS_OPTIONS_INIT;
    et_assert(fit);
    *w = (fit_monitor){ .action = { &action }, .fit = fit, .best_step = -1 };
    w->showing = (et_showing){ .loss = (double)NAN };
    w->began = et_clock_monotonic();
    options.fd = STDERR_FILENO;
    options.mode = fit->verbose == ET_FIT_BAR ? ET_PROGRESS_AUTO : ET_PROGRESS_QUIET;
    return fit->verbose == ET_FIT_QUIET ? ET_OK : et_progress_open(&w->progress, &options, error);
}

/* ---- requests of callers ---- */

static int check_fit(const et_model *m, const et_fit *fit, et_error *error)
{
    if (m->kind->no_training)
        return et_fail(error, ET_EUSAGE, "%s", m->kind->no_training);
    if (fit->epochs < 0 || fit->steps < 0 || fit->batch_size < 0 || fit->patience < 0)
        return et_fail(error, ET_ECONFIG,
                       "et_fit: epochs %lld, steps %lld, batch_size %lld and patience %lld must be "
                       "at least 0",
                       (long long)fit->epochs, (long long)fit->steps, (long long)fit->batch_size,
                       (long long)fit->patience);
    if (fit->epochs && fit->steps)
        return et_fail(error, ET_ECONFIG, "et_fit has both epochs and steps: give one of them");
    if (fit->batch_size > UINT32_MAX)
        return et_fail(error, ET_ECONFIG, "et_fit.batch_size: %lld samples are too many",
                       (long long)fit->batch_size);
    if (!(fit->validation_part >= 0 && fit->validation_part < 1))
        return et_fail(error, ET_ECONFIG,
                       "et_fit.validation_part: %g; give a part from 0 to below 1",
                       fit->validation_part);
    if (fit->validation_part > 0 && fit->validation)
        return et_fail(error, ET_ECONFIG,
                       "et_fit has both validation_part and validation: give one of them");
    if (fit->verbose < ET_FIT_QUIET || fit->verbose > ET_FIT_LINES)
        return et_fail(error, ET_ECONFIG, "et_fit.verbose: %d; give 0, 1 (a bar) or 2 (lines)",
                       fit->verbose);
    if (fit->run_dir && !*fit->run_dir)
        return et_fail(error, ET_ECONFIG,
                       "et_fit.run_dir: \"\" is no directory; give NULL to write nothing");
    if (fit->monitor && !*fit->monitor)
        return et_fail(error, ET_ECONFIG,
                       "et_fit.monitor: \"\" names no value; give one such as "
                       "\"validation_loss\", or NULL");
    if (m->controller)
        return et_fail(error, ET_EUSAGE,
                       "this model is being trained: wait until et_model_fit returns");
    return ET_OK;
}

/* ---- a training ---- */

typedef struct fitting {
    et_model *model;
    const et_fit *fit;
    et_source *source; /* borrowed */
    et_source *own;    /* replaces source if the model's kind gives batches; NULL: none */
    fit_monitor monitor;
    int64_t epoch_steps; /* 0: not known */
    const et_value *identity;
    bool validates;
} fitting;

/* A run counts its steps from the model's step at the first training in this directory. */
static int note_run(et_model *m, const char *run_dir, et_error *error)
{
    const bool same = run_dir && m->run_dir && !strcmp(run_dir, m->run_dir);
    if (same)
        return ET_OK;
    m->base = et_model_step(m);
    et_free(m->run_dir);
    m->run_dir = run_dir ? et_strdup(run_dir) : NULL;
    return run_dir && !m->run_dir ? et_alloc_failed(error, "a path") : ET_OK;
}

static int64_t steps_of(const fitting *f)
{
    const int64_t epochs = f->fit->epochs ? f->fit->epochs : 1;
    return f->fit->steps                             ? f->fit->steps
           : epochs > INT64_MAX / 2 / f->epoch_steps ? INT64_MAX / 2
                                                     : epochs * f->epoch_steps;
}

/* Refuses settings that need a validation. */
static int check_validated(const et_fit *fit, et_error *error)
{
    return !fit->patience && !fit->monitor
               ? ET_OK
               : et_fail(error, ET_ECONFIG,
                         "et_fit.%s needs validation data: give validation_part or validation",
                         fit->patience ? "patience" : "monitor");
}

static int open_data(fitting *f, et_error *error)
{
    et_model *m = f->model;
    const et_fit *fit = f->fit;
    int status =
        m->kind->open_training ? m->kind->open_training(m, f->source, fit, &f->own, error) : ET_OK;
    if (status)
        return status;
    if (f->own)
        f->source = f->own;
    else if (fit->batch_size)
        return et_fail(error, ET_ECONFIG,
                       "et_fit.batch_size is for arrays and tables; a source makes its own "
                       "batches");
    if ((status = et_source_batches(f->source, &f->epoch_steps, error)))
        return status;
    if (f->epoch_steps <= 0 && !fit->steps)
        return et_fail(error, ET_ECONFIG,
                       "et_fit.epochs: the source does not say how many batches a pass has; give "
                       "steps");
    if ((status = et_model_open_trainer(m, f->source->layout.capacity[0], steps_of(f), error)) ||
        (status = et_model_source_set(&m->train, f->source, error)))
        return status;
    if (m->own_valid && fit->validation)
        return et_fail(error, ET_ECONFIG,
                       "et_fit.validation: %s validates on its held-out rows; leave it out",
                       m->kind->name);
    if (!m->own_valid && (status = et_model_source_set(&m->valid, fit->validation, error)))
        return status;
    f->validates =
        m->own_valid ? et_task_trainer_evaluator(m->trainer) != NULL : fit->validation != NULL;
    return f->validates ? ET_OK : check_validated(fit, error);
}

static int run(fitting *f, et_error *error)
{
    et_model *m = f->model;
    fit_monitor *w = &f->monitor;
    et_assert(!m->controller);
    const char *monitor = w->monitored;
    const int64_t each = f->epoch_steps ? f->epoch_steps : w->target - m->base;
    et_action *const actions[] = { &w->action };
    const et_controller_options options = {
        .trainer = et_task_trainer_trainer(m->trainer),
        .evaluator = f->validates ? et_task_trainer_evaluator(m->trainer) : NULL,
        .actions = actions,
        .action_count = 1,
        .run = { .model_dir = f->fit->run_dir,
                 .best_metric = monitor,
                 .best_comparison = monitor && et_metric_lower_is_better(monitor)
                                        ? ET_COMPARE_LOWER
                                        : ET_COMPARE_HIGHER,
                 .best_data =
                     f->validates && !m->own_valid ? et_source_content(&m->valid.source) : 0,
                 .observer = { .self = w,
                               .show = f->fit->verbose == ET_FIT_BAR ? show : NULL,
                               .tell = w->progress ? hear : NULL },
                 .identity = f->identity,
                 .stop = f->fit->stop },
        .train_steps = w->target,
        .summary_interval = each,
        .validation_interval = f->validates ? each : 0,
        .checkpoint_interval = each,
        .patience = f->fit->patience,
    };
    int status = et_controller_open(&m->controller, &options, error);
    if (!status)
        status = et_controller_train(m->controller, error);
    int closed = et_controller_close(m->controller, status ? NULL : error);
    m->controller = NULL;
    return status ? status : closed;
}

/* Restores the weights of the best validation. Without a run directory this is the copy, even after
 * a failed training. With a run directory, another process may have saved them. The optimizer and
 * its averages remain those of the last step. */
static int take_best(fitting *f, int status, et_error *error)
{
    et_model *m = f->model;
    et_error reason = ET_ERROR_INIT;
    char *path = NULL;
    if (f->monitor.best) {
        et_params_begin_change(f->monitor.keeps->params);
        copy_weights(&f->monitor, true);
        et_params_changed(f->monitor.keeps->params, true);
    } else if (!status && f->fit->run_dir) {
        status = et_checkpoint_load(&path, m->params, f->fit->run_dir, ET_CHECKPOINT_BEST, true,
                                    NULL, &reason);
    } else {
        return status;
    }
    if (status == ET_ENOTFOUND) /* no validation gave a number */
        return ET_OK;
    if (reason.status)
        status = et_fail(error, status, "%s", reason.text);
    et_checkpoint_free_path(path);
    et_model_close_trainer(m);
    return status;
}

static int fit_source(fitting *f, et_error *error)
{
    et_model *m = f->model;
    fit_monitor *w = &f->monitor;
    int status;
    if ((status = open_data(f, error)) || (status = note_run(m, f->fit->run_dir, error)) ||
        (m->kind->begin && (status = m->kind->begin(m, f->fit->run_dir, &f->identity, error))) ||
        (status = monitor_open(w, f->fit, error)))
        return status;
    const int64_t step = et_model_step(m);
    if (m->has_weights)
        et_task_trainer_keep_weights(m->trainer, step);
    w->monitored = !f->validates      ? NULL
                   : f->fit->monitor  ? f->fit->monitor
                   : m->kind->monitor ? m->kind->monitor
                                      : m->task->class->best_metric;
    w->controller = &m->controller;
    w->epoch_steps = f->epoch_steps;
    w->base = f->fit->run_dir ? m->base : step;
    w->target = w->base + steps_of(f);
    const bool best = f->validates && !f->fit->last_weights;
    w->keeps = best && !f->fit->run_dir ? m : NULL;
    status = run(f, error);
    if (best && w->best_step != et_model_step(m))
        status = take_best(f, status, error);
    m->has_weights = true;
    m->version++;
    if (w->table)
        (void)w->table->class->close(w->table, NULL);
    et_arena_release(&w->names);
    et_progress_close(w->progress);
    et_free(w->best);
    et_arena_release(&w->arena);
    return status;
}

int et_model_fit(et_model *m, et_source *source, const et_fit *fit, et_error *error)
{
    static const et_fit defaults = { 0 };
    fitting f = { .model = m, .fit = fit ? fit : &defaults, .source = source };
    int status = check_fit(m, f.fit, error);
    if (!status && !source)
        status = et_fail(error, ET_EUSAGE,
                         "et_model_fit: source is NULL; give batches to train "
                         "on, or call et_model_fit_arrays");
    if (!status && f.fit->validation_part > 0)
        status = et_fail(error, ET_ECONFIG,
                         "et_fit.validation_part is for arrays; for a source give validation");
    if (!status && !m->own_valid && !f.fit->validation)
        status = check_validated(f.fit, error);
    if (status) /* a training that is running keeps its sources */
        return status;
    status = fit_source(&f, error);
    et_model_source_set(&m->train, NULL, NULL);
    et_model_source_set(&m->valid, NULL, NULL);
    et_source_close(f.own);
    return status;
}

/* ---- arrays ---- */

/* Checks the arguments of a call on arrays. ET_EUSAGE, ET_ECONFIG. */
static int check_arrays(const et_model *m, const void *x, const void *y, int64_t count,
                        et_error *error)
{
    if (m->kind->no_arrays)
        return et_fail(error, ET_EUSAGE, "%s", m->kind->no_arrays);
    if (m->x < 0 || m->y < 0 || m->layout.fields != 3)
        return et_fail(error, ET_EUSAGE,
                       "this model's batches have other fields than x and y: call et_model_fit or "
                       "et_model_evaluate_source");
    if (!x || !y)
        return et_fail(error, ET_EUSAGE, "the array %s is NULL", x ? "y" : "x");
    if (count < 1 || count > UINT32_MAX)
        return et_fail(error, ET_ECONFIG, "%lld samples: give at least 1, and below 2^32",
                       (long long)count);
    return ET_OK;
}

/* Samples of arrays as a source; y NULL: no labels. */
static int open_samples(et_model *m, const void *x, const void *y, int64_t count,
                        const et_batches_options *options, et_source **out, et_error *error)
{
    et_assert(m->x >= 0 && m->y >= 0 && count > 0);
    const et_layout_field *fx = &m->layout.field[m->x], *fy = &m->layout.field[m->y];
    const et_array arrays[] = { { ET_MODEL_X, fx->dtype, x, fx->item },
                                { ET_MODEL_Y, fy->dtype, y, fy->item } };
    et_samples *samples;
    const int status = et_arrays_open(&samples, arrays, 2, count, error);
    return status ? status : et_batches_take(out, samples, options, error);
}

/* Bytes of a sample's field. */
static int64_t size_of(const et_model *m, int field)
{
    const et_layout_field *f = &m->layout.field[field];
    return et_shape_count(f->item) * (int64_t)et_dtype_size(f->dtype);
}

static int open_arrays(et_model *m, const void *x, const void *y, int64_t count, const et_fit *fit,
                       et_source *sources[2], et_error *error)
{
    const int64_t batch = fit->batch_size ? fit->batch_size : ET_MODEL_BATCH;
    int64_t held = (int64_t)((double)count * fit->validation_part + 0.5);
    if (fit->validation_part > 0 && held < 1)
        held = 1; /* at least one sample for each part */
    held = held < count ? held : count - 1;
    const int64_t from = count - held;
    const et_batches_options learns = { .seed = m->seed,
                                        .shuffle = true,
                                        .repeat = true,
                                        .capacity = { batch },
                                        .setting = "et_fit.batch_size" };
    const et_batches_options validates = { .capacity = { batch } };
    int status;
    if ((status = open_samples(m, x, y, from, &learns, &sources[0], error)))
        return status;
    return held ? open_samples(m, (const char *)x + from * size_of(m, m->x),
                               (const char *)y + from * size_of(m, m->y), held, &validates,
                               &sources[1], error)
                : ET_OK;
}

int et_model_fit_arrays(et_model *m, const void *x, const void *y, int64_t count, const et_fit *fit,
                        et_error *error)
{
    static const et_fit defaults = { 0 };
    et_fit own = fit ? *fit : defaults;
    et_source *sources[2] = { NULL, NULL };

    int status = check_fit(m, &own, error);
    if (!status)
        status = check_arrays(m, x, y, count, error);
    if (!status && own.validation_part > 0 && count < 2)
        status = et_fail(error, ET_ECONFIG, "et_fit.validation_part: 1 sample cannot be divided");
    if (!status)
        status = open_arrays(m, x, y, count, &own, sources, error);
    own.validation_part = 0;
    own.batch_size = 0;
    if (sources[1])
        own.validation = sources[1];
    if (!status)
        status = et_model_fit(m, sources[0], &own, error);
    et_source_close(sources[0]);
    et_source_close(sources[1]);
    return status;
}

/* ---- evaluation ---- */

int et_model_evaluate_source(et_model *m, et_source *source, et_value *logs, et_error *error)
{
    if (m->controller || m->kind->no_training)
        return et_fail(error, ET_EUSAGE, "%s",
                       m->controller ? "et_model_evaluate: not during training"
                                     : m->kind->no_training);
    if (m->own_valid && !m->has_weights)
        return et_fail(error, ET_EUSAGE,
                       "et_model_evaluate_source: this model is neither trained "
                       "nor loaded");
    if (!source && !m->own_valid)
        return et_fail(error, ET_EUSAGE, "et_model_evaluate_source: source is NULL");
    if (!logs || logs->kind != ET_VALUE_DICT)
        return et_fail(error, ET_EUSAGE, "et_model_evaluate: logs is no dict (et_value_dict)");
    if (source && m->own_valid)
        return et_fail(
            error, ET_EUSAGE,
            "et_model_evaluate_source: %s has its own held-out rows; give NULL as the source",
            m->kind->name);
    const int64_t capacity = source        ? source->layout.capacity[0]
                             : m->capacity ? m->capacity
                                           : ET_MODEL_BATCH;
    int status = et_model_open_trainer(m, capacity, 0, error);
    if (!status && source)
        status = et_model_source_set(&m->valid, source, error);
    if (!status && !et_task_trainer_evaluator(m->trainer))
        status =
            et_fail(error, ET_ECONFIG, "%s has no held-out rows to evaluate on", m->kind->name);
    if (!status)
        status = et_task_trainer_evaluate(m->trainer, -1, logs, error);
    et_model_source_set(&m->valid, NULL, NULL);
    return status;
}

int et_model_evaluate(et_model *m, const void *x, const void *y, int64_t count, et_value *logs,
                      et_error *error)
{
    const et_batches_options once = { .capacity = { m->trainer ? m->capacity : ET_MODEL_BATCH } };
    et_source *source = NULL;
    int status = check_arrays(m, x, y, count, error);
    if (!status && !(status = open_samples(m, x, y, count, &once, &source, error)))
        status = et_model_evaluate_source(m, source, logs, error);
    et_source_close(source);
    return status;
}

/* ---- prediction ---- */

/* A batch has one size, filled or not, so that a sample's prediction does not depend on the others.
 */

/* Also fills the labels: integers with -1, floats with 0. */
static void fill_batch(et_model *m, const char *x, int64_t count)
{
    et_assert(m->x >= 0 && count > 0 && count <= ET_MODEL_PREDICTS);
    et_batch_clear(m->batch);
    memcpy(m->batch->data[m->x], x, (size_t)(count * size_of(m, m->x)));
    if (m->y >= 0)
        memset(m->batch->data[m->y], m->layout.field[m->y].dtype == ET_I32 ? 0xff : 0,
               (size_t)(count * size_of(m, m->y)));
    m->batch->filled[0] = count;
    et_batch_finish(m->batch);
}

static void copy_output(const et_model *m, float *out, int64_t count)
{
    const et_tensor output = et_pass_output(m->pass, et_pass_output_name(m->pass, 0));
    const int64_t numbers = count * m->width;
    et_assert(output.data && m->width > 0);
    if (output.dtype == ET_F32)
        memcpy(out, output.data, numbers * sizeof *out);
    else
        for (int64_t i = 0; i < numbers; i++)
            out[i] = (float)et_tensor_number(output, i);
}

int et_model_predict(et_model *m, const void *x, int64_t count, void *out, et_error *error)
{
    if (m->kind->no_arrays)
        return et_fail(error, ET_EUSAGE, "%s", m->kind->no_arrays);
    if (m->x < 0 || m->layout.fields != (m->y < 0 ? 2 : 3))
        return et_fail(error, ET_EUSAGE,
                       "et_model_predict: this model's batches have other fields than x and y; run "
                       "et_model_pass on a batch of yours");
    if (count < 0 || (count && (!x || !out)))
        return et_fail(error, ET_EUSAGE, "et_model_predict: %lld samples, and %s", (long long)count,
                       count < 0 ? "no number below 0 is allowed"
                       : !x      ? "x is NULL"
                                 : "out is NULL");
    const bool shown = et_model_show_average(m);
    const int64_t size = size_of(m, m->x);
    int status = ET_OK;
    for (int64_t at = 0; at < count && !status; at += ET_MODEL_PREDICTS) {
        const int64_t part =
            count - at < ET_MODEL_PREDICTS ? count - at : (int64_t)ET_MODEL_PREDICTS;
        fill_batch(m, (const char *)x + at * size, part);
        status = et_pass_run(m->pass, m->batch, 0, 0, error);
        if (!status)
            copy_output(m, (float *)out + at * m->width, part);
    }
    if (shown)
        et_model_hide_average(m);
    return status;
}
