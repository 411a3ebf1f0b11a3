/* Trainers and evaluators with hooks, as classes of <etude/trainer.h>.
 *
 *   train   train_loop_begin, a cursor if there is none, train_step n times, train_loop_end
 *   eval    eval_begin, a cursor (new, unless kept), eval_step and eval_reduce n times, eval_end
 *
 * A driver calls loop_begin right after a log. train_loop_begin is called later, before the first
 * step, so the actions after the log come first. A run that was saved in between calls the hook
 * when it resumes. */
#include <etude/standard.h>

#include <math.h>
#include <string.h>

#include <etude/controller.h>
#include <etude/module.h>
#include <etude/ready_actions.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/strbuf.h"
#include "data/batches/source.h"
#include "formats/events/log_names.h"

/* A cursor over a data set, which is a tree of sources, lives from begin until it is dropped, and
 * continues over the calls in between. Batches are allocated with the cursor, so reading allocates
 * nothing. Other readers may read the same sources between two batches. Each reader continues after
 * its own last batch. */
typedef struct leaf {
    char *path; /* owned; "" of a data set that is one source */
    et_source *source;
    et_batch *batch;   /* owned: the last batch */
    et_position after; /* the position after this batch */
    et_position mark;
} leaf;

struct et_source_tree_cursor {
    const et_source_tree *dataset;
    leaf *leaves; /* [count] */
    int count;
    bool lives, marked_alive;
};

/* ---- cursors: making ---- */

static leaf *find_path(const et_source_tree_cursor *cursor, const char *path)
{
    for (int i = 0; i < cursor->count; i++)
        if (cursor->leaves[i].path && !strcmp(cursor->leaves[i].path, path))
            return &cursor->leaves[i];
    return NULL;
}

/* A source has one position, so it can be in the tree only once. */
static int add_leaf(et_source_tree_cursor *cursor, const et_source_tree *dataset, const char *path,
                    et_error *error)
{
    et_source *source = dataset->source;
    et_assert(source && path);
    if (find_path(cursor, path))
        return et_fail(error, ET_EUSAGE, "a data set has two sources called %s", path);
    for (int i = 0; i < cursor->count; i++)
        if (cursor->leaves[i].source == source)
            return et_fail(error, ET_EUSAGE, "a data set has the same source twice: %s and %s",
                           cursor->leaves[i].path, path);
    leaf *to = &cursor->leaves[cursor->count++];
    to->path = et_strdup(path);
    to->source = source;
    et_source_position(source, &to->after);
    return to->path ? et_batch_new(&to->batch, &source->layout, error)
                    : et_alloc_failed(error, "a data set");
}

/* Extends the path on the way down and truncates it on the way up. */
static int add_leaves(et_source_tree_cursor *cursor, const et_source_tree *dataset, et_strbuf *path,
                      et_error *error)
{
    if (dataset->source)
        return add_leaf(cursor, dataset, et_strbuf_text(path), error);
    int status = ET_OK;
    for (int i = 0; !status && i < dataset->count; i++) {
        const et_source_tree *part = &dataset->parts[i];
        size_t length = path->length;
        if (!part->name || !*part->name || strchr(part->name, '/'))
            return et_fail(error, ET_EUSAGE, "a part of a data set needs a name without '/'");
        et_strbuf_printf(path, "%s%s", length ? "/" : "", part->name);
        status = path->failed ? et_alloc_failed(error, "a data set")
                              : add_leaves(cursor, part, path, error);
        et_strbuf_truncate(path, length);
    }
    return status;
}

static int64_t count_leaves(const et_source_tree *dataset)
{
    int64_t count = dataset->source != NULL;
    for (int i = 0; !dataset->source && i < dataset->count; i++)
        count += count_leaves(&dataset->parts[i]);
    return count;
}

static void cursor_free(et_source_tree_cursor *cursor)
{
    if (!cursor)
        return;
    for (int i = 0; cursor->leaves && i < cursor->count; i++) {
        et_free(cursor->leaves[i].path);
        et_batch_free(cursor->leaves[i].batch);
    }
    et_free(cursor->leaves);
    et_free(cursor);
}

static int cursor_new(et_source_tree_cursor **out, const et_source_tree *dataset, et_error *error)
{
    *out = NULL;
    int64_t count = dataset ? count_leaves(dataset) : 0;
    if (!count)
        return et_fail(error, ET_EUSAGE, "a data set has no source");
    et_source_tree_cursor *cursor = et_alloc_zero(1, sizeof *cursor);
    if (cursor)
        cursor->leaves = et_alloc_zero(count, sizeof *cursor->leaves);
    if (!cursor || !cursor->leaves) {
        cursor_free(cursor);
        return et_alloc_failed(error, "a data set");
    }
    et_strbuf path = ET_STRBUF_INIT;
    cursor->dataset = dataset;
    int status = add_leaves(cursor, dataset, &path, error);
    et_strbuf_release(&path);
    if (status)
        cursor_free(cursor);
    else
        *out = cursor;
    return status;
}

/* ---- reading ---- */

static int cursor_rewind(et_source_tree_cursor *cursor, et_error *error)
{
    int status = ET_OK;
    for (int i = 0; !status && i < cursor->count; i++) {
        status = et_source_rewind(cursor->leaves[i].source, error);
        et_source_position(cursor->leaves[i].source, &cursor->leaves[i].after);
    }
    return status;
}

static int cursor_begin(et_source_tree_cursor *cursor, et_error *error)
{
    int status = cursor->lives ? ET_OK : cursor_rewind(cursor, error);
    cursor->lives = !status;
    return status;
}

int et_source_tree_cursor_next(et_source_tree_cursor *cursor, const char *path,
                               const et_batch **batch, et_error *error)
{
    et_assert(cursor->lives);
    leaf *from = find_path(cursor, path ? path : "");
    et_position now;
    *batch = NULL;
    if (!from)
        return et_fail(error, ET_EUSAGE, "the data set has no source %s; one is called %s",
                       path && *path ? path : "without a name", cursor->leaves[0].path);
    et_source_position(from->source, &now);
    int status = et_position_equal(&now, &from->after)
                     ? ET_OK
                     : et_source_seek(from->source, &from->after, error);
    if (!status)
        status = et_source_next(from->source, from->batch, error);
    et_source_position(from->source, &from->after);
    if (status)
        return status;
    *batch = from->batch;
    return from->batch->filled[0] ? ET_OK : ET_CURSOR_ENDED;
}

static void cursor_mark(et_source_tree_cursor *cursor)
{
    cursor->marked_alive = cursor->lives;
    for (int i = 0; i < cursor->count; i++)
        cursor->leaves[i].mark = cursor->leaves[i].after;
}

static int cursor_return(et_source_tree_cursor *cursor, et_error *error)
{
    int status = ET_OK;
    for (int i = 0; !status && i < cursor->count; i++) {
        leaf *to = &cursor->leaves[i];
        status = et_source_seek(to->source, &to->mark, error);
        to->after = to->mark;
    }
    cursor->lives = cursor->marked_alive;
    return status;
}

/* ---- state that resumes ---- */

struct et_standard_data {
    et_source_tree_cursor *cursor;
    et_module *module;
    bool in_loop;                 /* of a trainer: between train_loop_begin and train_loop_end */
    et_evaluator_class evaluator; /* with the name of this evaluator */
    et_standard_evaluator_options options;
    void *state;  /* of the current evaluation */
    bool entered; /* its eval_begin was called */
};

static int save_cursor(const void *self, et_value *dict, et_error *error)
{
    const et_source_tree_cursor *cursor = ((const struct et_standard_data *)self)->cursor;
    int status = ET_OK;
    et_value_set_bool(dict, "live", cursor->lives);
    et_value *sources = cursor->lives ? et_value_set_dict(dict, "sources") : NULL;
    for (int i = 0; sources && !status && i < cursor->count; i++) {
        const leaf *from = &cursor->leaves[i];
        status = et_position_save(&from->after, et_value_set_dict(sources, from->path), error);
    }
    return status;
}

static int restore_cursor(void *self, const et_value *dict, et_error *error)
{
    et_source_tree_cursor *cursor = ((struct et_standard_data *)self)->cursor;
    bool lives = false;
    int status = et_value_read_bool(dict, "live", &lives, error);
    const et_value *sources = et_value_get(dict, "sources");
    for (int i = 0; lives && !status && i < cursor->count; i++) {
        leaf *to = &cursor->leaves[i];
        const et_value *position = et_value_get(sources, to->path);
        status =
            position
                ? et_source_part.restore(to->source, position, error)
                : et_fail(
                      error, ET_EDATA,
                      "no position of source %s is saved: the checkpoint is from another data set",
                      *to->path ? to->path : "without a name");
        et_source_position(to->source, &to->after);
    }
    cursor->lives = !status && lives;
    return status;
}

/* After a failure, *out is NULL. */
static int data_new(struct et_standard_data **out, const char *name, const et_source_tree *dataset,
                    et_error *error)
{
    struct et_standard_data *data;
    *out = NULL;
    if (ET_ALLOC_ZERO(data, 1, "a trainer", error))
        return ET_ENOMEM;
    int status = et_module_new(&data->module, name, NULL, NULL, error);
    if (!status)
        status = cursor_new(&data->cursor, dataset, error);
    if (status) {
        et_module_free(data->module);
        et_free(data);
        return status;
    }
    *out = data;
    return ET_OK;
}

static void data_free(struct et_standard_data *data)
{
    if (!data)
        return;
    cursor_free(data->cursor);
    et_module_free(data->module);
    et_free(data);
}

static int replace_cursor(struct et_standard_data *data, const et_source_tree *dataset,
                          et_error *error)
{
    et_source_tree_cursor *cursor;
    cursor_mark(data->cursor);
    int status = cursor_rewind(data->cursor, error);
    if (!status)
        status = cursor_new(&cursor, dataset, error);
    if (status) {
        cursor_return(data->cursor, NULL);
        return status;
    }
    cursor_free(data->cursor);
    data->cursor = cursor;
    return ET_OK;
}

/* ---- training ---- */

static et_standard_trainer *trainer_of(et_trainer *trainer)
{
    return (et_standard_trainer *)(void *)trainer;
}

static int save_training(const void *self, et_value *dict, et_error *error)
{
    et_value_set_bool(dict, "in_loop", ((const struct et_standard_data *)self)->in_loop);
    return save_cursor(self, dict, error);
}

static int restore_training(void *self, const et_value *dict, et_error *error)
{
    struct et_standard_data *data = self;
    int status = et_value_read_bool(dict, "in_loop", &data->in_loop, error);
    return status ? status : restore_cursor(self, dict, error);
}

static const et_part_class training_part = { "training data", save_training, restore_training };

/* Attaches the data first: the hook may read their position. */
static int attach_training(et_trainer *trainer, et_state *state, et_error *error)
{
    et_standard_trainer *t = trainer_of(trainer);
    int status = et_state_add(state, "train_data", &training_part, t->data, error);
    return status || !t->class->attach ? status : t->class->attach(t, state, error);
}

/* Also called if a resumed run begins anew. */
static int start_training(et_trainer *trainer, et_error *error)
{
    et_standard_trainer *t = trainer_of(trainer);
    t->data->in_loop = false;
    t->data->cursor->lives = false;
    return t->class->start ? t->class->start(t, error) : ET_OK;
}

static int begin_loop(et_standard_trainer *t, et_error *error)
{
    et_assert(!t->data->in_loop);
    int status = t->class->train_loop_begin ? t->class->train_loop_begin(t, error) : ET_OK;
    if (!status)
        status = cursor_begin(t->data->cursor, error);
    t->data->in_loop = !status;
    return status;
}

static int run_step(et_trainer *trainer, et_error *error)
{
    et_standard_trainer *t = trainer_of(trainer);
    int status = t->data->in_loop ? ET_OK : begin_loop(t, error);
    if (!status)
        status = cursor_begin(t->data->cursor, error); /* one that has been replaced in the loop */
    if (!status)
        status = t->class->train_step(t, t->data->cursor, error);
    if (status && status != ET_EINTERRUPTED)
        t->data->in_loop = false; /* the next call begins a new one */
    if (status == ET_CURSOR_ENDED)
        return et_fail(error, ET_EDATA,
                       "the data ended at step %lld: make it repeat, or train fewer steps",
                       (long long)trainer->step + 1);
    return status;
}

static int end_loop(et_trainer *trainer, et_value *logs, et_error *error)
{
    et_standard_trainer *t = trainer_of(trainer);
    int status = t->data->in_loop ? ET_OK : begin_loop(t, error); /* of no steps */
    if (!status && t->class->train_loop_end)
        status = t->class->train_loop_end(t, logs, error);
    t->data->in_loop = t->data->in_loop && status;
    return status;
}

static const et_trainer_class trainer_class = {
    .name = "standard",
    .attach = attach_training,
    .start = start_training,
    .step = run_step,
    .loop_end = end_loop,
};

int et_standard_trainer_init(et_standard_trainer *self, const et_standard_trainer_class *class,
                             const et_source_tree *train_dataset,
                             const et_standard_trainer_options *options, et_error *error)
{
    self->trainer = (et_trainer){ .class = &trainer_class };
    self->class = class;
    self->data = NULL;
    if (!class->name || !class->train_step)
        return et_fail(error, ET_EUSAGE, "a standard trainer needs a name and a train_step");
    if (options && options->no_tf_function && !options->no_tf_while_loop)
        return et_fail(error, ET_ECONFIG,
                       "`use_tf_while_loop=True` and `use_tf_function=False` is not supported");
    if (options && options->no_tf_while_loop && options->tpu_summary_optimization)
        return et_fail(error, ET_ECONFIG,
                       "`use_tpu_summary_optimization=True` and `use_tf_while_loop=False` is not "
                       "supported");
    int status = data_new(&self->data, class->name, train_dataset, error);
    if (!status)
        self->trainer.module = self->data->module;
    return status;
}

void et_standard_trainer_release(et_standard_trainer *self)
{
    data_free(self->data);
    self->data = NULL;
    self->trainer.module = NULL;
}

int et_standard_trainer_set_dataset(et_standard_trainer *self, const et_source_tree *train_dataset,
                                    et_error *error)
{
    return replace_cursor(self->data, train_dataset, error);
}

/* ---- evaluation ---- */

static et_standard_evaluator *evaluator_of(et_evaluator *evaluator)
{
    return (et_standard_evaluator *)(void *)evaluator;
}

static const et_part_class evaluation_part = { "evaluation data", save_cursor, restore_cursor };

static int attach_evaluation(et_evaluator *evaluator, et_state *state, et_error *error)
{
    et_standard_evaluator *e = evaluator_of(evaluator);
    int status = e->data->options.keep_iterator
                     ? et_state_add(state, "eval_data", &evaluation_part, e->data, error)
                     : ET_OK;
    return status || !e->class->attach ? status : e->class->attach(e, state, error);
}

static int begin_evaluation(et_evaluator *evaluator, int64_t step, et_error *error)
{
    et_standard_evaluator *e = evaluator_of(evaluator);
    struct et_standard_data *data = e->data;
    (void)step;
    data->state = NULL;
    data->entered = false;
    cursor_mark(data->cursor);
    if (data->options.tf_while_loop && !evaluator->limit)
        return et_fail(error, ET_ECONFIG,
                       "Looping until exhausted is not supported if `options.use_tf_while_loop` is "
                       "`True`");
    data->entered = true;
    int status = e->class->eval_begin ? e->class->eval_begin(e, &data->state, error) : ET_OK;
    if (!data->options.keep_iterator)
        data->cursor->lives = false;
    return status ? status : cursor_begin(data->cursor, error);
}

static int evaluate_step(et_evaluator *evaluator, bool *more, et_error *error)
{
    et_standard_evaluator *e = evaluator_of(evaluator);
    void *outputs = NULL;
    int status = e->class->eval_step(e, e->data->cursor, &outputs, error);
    *more = status != ET_CURSOR_ENDED;
    if (!*more)
        return ET_OK;
    return status || !e->class->eval_reduce
               ? status
               : e->class->eval_reduce(e, &e->data->state, outputs, error);
}

/* An interrupted evaluation is repeated from its beginning. */
static int end_evaluation(et_evaluator *evaluator, et_value *logs, et_error *error)
{
    et_standard_evaluator *e = evaluator_of(evaluator);
    bool ends = e->class->eval_end && e->data->entered;
    int status = ends ? e->class->eval_end(e, e->data->state, logs, error) : ET_OK;
    e->data->state = NULL;
    if (logs && !status)
        return ET_OK;
    int returned = cursor_return(e->data->cursor, status ? NULL : error);
    return status ? status : returned;
}

static const et_evaluator_class evaluator_class = {
    .begin = begin_evaluation,
    .step = evaluate_step,
    .end = end_evaluation,
    .attach = attach_evaluation,
};

int et_standard_evaluator_init(et_standard_evaluator *self,
                               const et_standard_evaluator_class *class,
                               const et_source_tree *eval_dataset,
                               const et_standard_evaluator_options *options, et_error *error)
{
    static const et_standard_evaluator_options defaults = { 0 };
    self->evaluator = (et_evaluator){ 0 };
    self->class = class;
    self->data = NULL;
    if (!class->name || !class->eval_step)
        return et_fail(error, ET_EUSAGE, "a standard evaluator needs a name and an eval_step");
    if (options && options->tf_while_loop && options->no_tf_function)
        return et_fail(error, ET_ECONFIG,
                       "`use_tf_while_loop=True` and `use_tf_function=False` is not supported");
    int status = data_new(&self->data, class->name, eval_dataset, error);
    if (status)
        return status;
    self->data->options = options ? *options : defaults;
    self->data->evaluator = evaluator_class;
    self->data->evaluator.name = class->name;
    self->evaluator =
        (et_evaluator){ .class = &self->data->evaluator, .module = self->data->module };
    return ET_OK;
}

void et_standard_evaluator_release(et_standard_evaluator *self)
{
    data_free(self->data);
    self->data = NULL;
    self->evaluator = (et_evaluator){ 0 };
}

int et_standard_evaluator_set_dataset(et_standard_evaluator *self,
                                      const et_source_tree *eval_dataset, et_error *error)
{
    return replace_cursor(self->data, eval_dataset, error);
}

/* ---- conditional actions ---- */

static int64_t due(const et_action *action, int64_t step)
{
    const et_conditional *self = (const et_conditional *)action;
    int64_t first = ET_ACTION_NEVER;
    if (self->interval)
        return step > INT64_MAX - self->interval ? ET_ACTION_NEVER
                                                 : (step / self->interval + 1) * self->interval;
    for (int i = 0; i < self->count; i++) {
        const et_action_class *class = self->actions[i]->class;
        int64_t next = class->due ? class->due(self->actions[i], step) : ET_ACTION_NEVER;
        first = next < first ? next : first;
    }
    return first;
}

static int act(et_action *action, const et_action_context *now, et_error *error)
{
    const et_conditional *self = (const et_conditional *)action;
    bool holds = false;
    int status = self->condition(self->payload, now, &holds, error);
    for (int i = 0; holds && !status && i < self->count; i++)
        status = self->actions[i]->class->act(self->actions[i], now, error);
    return status;
}

void et_conditional_init(et_conditional *self, const char *name, et_condition_fn *condition,
                         void *payload, et_action *const *actions, int count)
{
    *self = (et_conditional){ .kind = { name, due, act },
                              .condition = condition,
                              .payload = payload,
                              .actions = actions,
                              .count = count };
    self->action.class = &self->kind;
}

static int is_multiple(void *interval, const et_action_context *now, bool *holds, et_error *error)
{
    (void)error;
    *holds = now->step % *(const int64_t *)interval == 0;
    return ET_OK;
}

int et_periodic_init(et_conditional *self, const char *name, int64_t interval,
                     et_action *const *actions, int count, et_error *error)
{
    if (interval < 1)
        return et_fail(error, ET_ECONFIG, "action %s: the interval is %lld steps; give at least 1",
                       name ? name : "", (long long)interval);
    et_conditional_init(self, name, is_multiple, &self->interval, actions, count);
    self->interval = interval;
    return ET_OK;
}

int et_recovery_condition_holds(void *recovery_condition, const et_action_context *now, bool *holds,
                                et_error *error)
{
    et_recovery_condition *self = recovery_condition;
    double loss;
    *holds = false;
    if (!now->logs || et_value_read_float(now->logs, ET_LOGGED_TRAINING_LOSS, &loss, NULL))
        return et_fail(error, ET_ECONFIG,
                       "step %lld: logs have no number " ET_LOGGED_TRAINING_LOSS
                       "; a recovery condition is for train actions",
                       (long long)now->step);
    *holds =
        isnan(loss) || (now->step >= self->recovery_begin_steps && loss > self->loss_upper_bound);
    if (!*holds || ++self->recover_counter <= self->recovery_max_trials)
        return ET_OK;
    return et_fail(error, ET_EDIVERGED,
                   "step %lld: " ET_LOGGED_TRAINING_LOSS " is %g, and the bound is %g. This "
                   "happened %lld times; the limit is %lld (recovery_max_trials)",
                   (long long)now->step, loss, self->loss_upper_bound,
                   (long long)self->recover_counter, (long long)self->recovery_max_trials);
}
