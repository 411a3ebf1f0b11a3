/* Calls of <etude/outer_loop.h>. Each gives the controller's inner loop a goal, or does one part of
 * the loop's work. */
#include <etude/outer_loop.h>

#include <math.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/options.h"
#include "base/values/value.h"
#include "engine/comm/comm.h"
#include "engine/comm/together.h"
#include "systems/orbit/controller_private.h"
#include "train/checkpoint/run_names.h"
#include "train/ranks/broadcast.h"
#include "train/run/run.h"

/* Seconds between two checks for a new checkpoint. */
#define LOOK_EVERY 0.05

/* All ranks make each call, even if they failed in the call before. */
static int need(const et_controller *c, bool there, const char *what, const char *call,
                et_error *error)
{
    et_controller_sane(c);
    et_comm_resume(c->options.run.comm);
    if (!et_controller_is_called(c))
        return et_fail(error, ET_EUSAGE,
                       "`outer_loop` is not set: %s needs a controller that was opened with it",
                       call);
    if (there)
        return ET_OK;
    return et_fail(error, ET_EUSAGE,
                   "`%s` is not set. Pass `%s` to et_controller_open before calling %s", what, what,
                   call);
}

static int check_eval_steps(int64_t steps, et_error *error)
{
    if (steps > 0 || steps == -1)
        return ET_OK;
    return et_fail(error, ET_ECONFIG,
                   "%lld steps of evaluation; give at least 1, or -1 for all data",
                   (long long)steps);
}

/* Gives the program the values of an evaluation and its rate, which is not under "time" as in a
 * log. */
static int give_values(const et_controller *c, et_value *logs, et_error *error)
{
    if (!logs || !c->loop.last)
        return ET_OK;
    int status = et_value_merge(logs, c->loop.last, error);
    if (!status && !isnan(c->evaluation_rate))
        et_value_set_float(logs, "steps_per_second", c->evaluation_rate);
    return status || !et_value_failed(logs) ? status : et_alloc_failed(error, "a log");
}

/* ---- training ---- */

/* eval_every: 0: evaluates only at the end; negative: never. */
static int train_to(et_controller *c, int64_t target, int64_t eval_every, bool saves,
                    et_error *error)
{
    et_assert(target >= 0 && et_controller_trains(c));
    const et_goal goal = { .target = target, .call = true, .saves = saves };
    et_listed_action *rows = c->loop.actions;
    unsigned *validates = &rows[c->own_row[ET_OWN_VALIDATE]].acts;
    unsigned *save = &rows[c->own_row[ET_OWN_SAVE]].acts;
    const bool evaluates = eval_every >= 0;
    c->own[ET_OWN_VALIDATE].every = evaluates ? eval_every : 0;
    *validates = evaluates ? ET_ACTS_WHEN_DUE | ET_ACTS_AT_END : 0;
    *save = ET_ACTS_WHEN_DUE | ET_ACTS_WHEN_EVALUATED | (saves ? ET_ACTS_AT_END : 0);
    *save = c->model_dir ? *save : 0;
    return et_inner_loop_run(&c->loop, &goal, error);
}

int et_controller_train_to(et_controller *c, int64_t steps, bool save_nothing, et_error *error)
{
    int status = need(c, et_controller_trains(c), "trainer", "et_controller_train_to", error);
    if (!status && steps < 0)
        status =
            et_fail(error, ET_ECONFIG, "train to step %lld; give at least 0", (long long)steps);
    return status ? status : train_to(c, steps, -1, !save_nothing, error);
}

int et_controller_train_and_evaluate(et_controller *c, int64_t train_steps, int64_t eval_steps,
                                     int64_t eval_interval, et_value *logs, et_error *error)
{
    static const char name[] = "et_controller_train_and_evaluate";
    int status;
    c->eval_steps = eval_steps;
    if ((status = need(c, et_controller_trains(c), "trainer", name, error)) ||
        (status = need(c, c->options.evaluator, "evaluator", name, error)) ||
        (status = check_eval_steps(eval_steps, error)))
        return status;
    if (train_steps < 0 || eval_interval < 0)
        return et_fail(error, ET_ECONFIG,
                       "train to step %lld, evaluate every %lld; give at least 0 for both",
                       (long long)train_steps, (long long)eval_interval);
    status = train_to(c, train_steps, eval_interval, true, error);
    return status ? status : give_values(c, logs, error);
}

/* ---- checkpoints ---- */

static int save_now(void *self, et_error *error)
{
    et_controller *c = self;
    const int64_t step = c->loop.trainer->step;
    int status =
        need(c, et_controller_trains(c) && c->model_dir,
             et_controller_trains(c) ? "run.model_dir" : "trainer", "et_controller_save", error);
    if (status || (status = et_inner_loop_check_count(&c->loop, error)) ||
        (status = et_run_save(c->run, step, false, error)))
        return status;
    return et_run_await_saves(c->run, step, error);
}

int et_controller_save(et_controller *c, et_error *error)
{
    int status = et_together_run(c->options.run.comm, save_now, c, error);
    if (!status)
        et_controller_tell(c, "saved checkpoint to %s/" ET_CHECKPOINT_FOLDER "/ckpt-%lld.",
                           c->model_dir, (long long)c->loop.trainer->step);
    return status;
}

/* path NULL: the newest checkpoint. */
typedef struct restoring {
    et_controller *controller;
    const char *path;
    int64_t step; /* the restored step; -1: path is NULL and there is no checkpoint */
} restoring;

/* Loads only the weights. */
static int load_weights(void *self, et_error *error)
{
    et_assert(((restoring *)self)->controller->outer.weights);
    restoring *r = self;
    et_controller *c = r->controller;
    const char *path = r->path;
    et_error reason = ET_ERROR_INIT;
    et_checkpoint_facts facts = { .step = -1 };
    bool averages = !c->outer.live_weights;
    char *found = NULL;
    int status = path
                     ? et_checkpoint_load_weights(c->outer.weights, path, averages, &facts, &reason)
                     : et_checkpoint_load(&found, c->outer.weights, c->model_dir, NULL, averages,
                                          &facts, &reason);
    et_checkpoint_free_path(found);
    r->step = facts.step;
    if (status == ET_ENOTFOUND && !path)
        return ET_OK;
    if (status)
        return et_fail(error, status, "%s", reason.text);
    c->loop.trainer->step = facts.step;
    c->restored = true;
    return ET_OK;
}

/* Restores the state of a run that trains. Waits for saves first, because they read the arrays. */
static int restore_state(void *self, et_error *error)
{
    restoring *r = self;
    et_controller *c = r->controller;
    int status = et_run_await_saves(c->run, c->loop.trainer->step, error);
    if (!status)
        status = r->path ? et_run_take_file(c->run, r->path, &r->step, error)
                         : et_inner_loop_start(&c->loop, &r->step, error);
    et_run_touch(c->run);
    if (!status && r->step >= 0)
        c->loop.miscounted = (et_error)ET_ERROR_INIT;
    return status;
}

int et_controller_restore(et_controller *c, const char *path, int64_t *step, et_error *error)
{
    static const char name[] = "et_controller_restore";
    *step = -1;
    int status;
    if ((status = need(c, c->model_dir, "run.model_dir", name, error)) ||
        (status = need(c, et_controller_trains(c) || c->outer.weights, "outer_loop.weights", name,
                       error)))
        return status;
    if (path)
        et_controller_tell(c, "restoring model from %s...", path);
    else
        et_controller_tell(c, "restoring or initializing model...");
    restoring r = { c, path, -1 };
    status = et_together_run(c->options.run.comm,
                             et_controller_trains(c) ? restore_state : load_weights, &r, error);
    *step = r.step;
    if (!status && path)
        et_controller_tell(c, "restored model from %s.", path);
    else if (!status && *step >= 0)
        et_controller_tell(c, "restored model from %s/" ET_CHECKPOINT_FOLDER "/ckpt-%lld.",
                           c->model_dir, (long long)*step);
    return status;
}

/* ---- evaluation ---- */

/* No loop is running, so evaluation actions run now, once. */
static int evaluate(et_controller *c, int64_t eval_steps, bool *stop, et_error *error)
{
    int status = et_run_check(c->run, error);
    if (!status)
        status = et_controller_evaluate_now(c, eval_steps, error);
    const et_action_context now = { .step = c->loop.trainer->step,
                                    .logs = c->loop.evaluation.values,
                                    .stop = stop,
                                    .rank = et_comm_rank(c->options.run.comm) };
    for (int i = 0; !status && i < c->loop.count; i++) {
        const et_listed_action *row = &c->loop.actions[i];
        if (row->needs && row->sees == &c->loop.evaluation)
            status = et_callback_status(row->action->class->act(row->action, &now, error),
                                        "an action", error);
    }
    if (et_controller_trains(c))
        et_run_touch(c->run);
    return status;
}

/* A controller without a trainer loads a run's weights first, instead of initial ones. */
int et_controller_evaluate(et_controller *c, int64_t eval_steps, et_value *logs, et_error *error)
{
    bool stop = false;
    int64_t step = 0;
    int status;
    if ((status = need(c, c->options.evaluator, "evaluator", "et_controller_evaluate", error)) ||
        (status = check_eval_steps(eval_steps, error)) ||
        (!et_controller_trains(c) && !c->restored && c->model_dir &&
         (status = et_controller_restore(c, NULL, &step, error))) ||
        (step < 0 && (status = et_fail(error, ET_ENOTFOUND, "%s: no checkpoint here to evaluate",
                                       c->model_dir))) ||
        (status = evaluate(c, eval_steps, &stop, error)))
        return status;
    return give_values(c, logs, error);
}

typedef struct following {
    et_controller *controller;
    int64_t eval_steps, last; /* last: the last evaluated or skipped step; -1: none */
    double timeout, since;
    et_done_fn *done;
    void *payload;
    bool ended;
} following;

/* Only rank 0 asks the program. */
static int ask_whether_done(et_controller *c, following *w, et_error *error)
{
    et_comm *comm = c->options.run.comm;
    if (!w->ended && w->done && !et_comm_rank(comm))
        w->ended = w->done(w->payload, w->last);
    return et_together_decide(comm, ET_OK, &w->ended, error);
}

static int evaluate_next(et_controller *c, following *w, const char *path, et_error *error)
{
    restoring r = { c, path, -1 };
    et_error reason = ET_ERROR_INIT;
    int status = et_together_run(c->options.run.comm, load_weights, &r, &reason);
    if (status == ET_ENOTFOUND || status == ET_EFORMAT) { /* a rank found it missing or damaged */
        et_comm_resume(c->options.run.comm);
        et_log(ET_LOG_WARNING, "%s; skipped", reason.text);
        return ET_OK;
    }
    if (status)
        return et_fail(error, status, "%s", reason.text);
    et_controller_tell(c, "restored model from %s.", path);
    status = evaluate(c, w->eval_steps, &w->ended, error);
    w->since = et_clock_monotonic();
    if (status)
        return status;
    if (c->options.train_steps && w->last >= c->options.train_steps)
        w->ended = true;
    return ask_whether_done(c, w, error);
}

static int wait_for_more(et_controller *c, following *w, et_error *error)
{
    int status = et_run_meet(c->run, error);
    if (status)
        return status;
    if (et_run_asked_to_stop(c->run))
        return et_fail(error, ET_EINTERRUPTED, "interrupted after the evaluation of step %lld",
                       (long long)w->last);
    double now = et_clock_monotonic();
    bool late = w->timeout >= 0 && now - w->since >= w->timeout;
    if ((status = et_together_decide(c->options.run.comm, ET_OK, &late, error)))
        return status;
    if (!late) {
        et_clock_sleep(LOOK_EVERY);
        return ET_OK;
    }
    w->since = now;
    w->ended = !w->done;
    return ask_whether_done(c, w, error);
}

static int follow(void *self, et_error *error)
{
    static const char name[] = "et_controller_evaluate_continuously";
    following *w = self;
    et_controller *c = w->controller;
    int status;
    c->loop.last = NULL;
    if ((status = need(c, c->options.evaluator, "evaluator", name, error)) ||
        (status = need(c, c->model_dir, "run.model_dir", name, error)))
        return status;
    if (et_controller_trains(c))
        return et_fail(error, ET_EUSAGE,
                       "`trainer` is set, but %s is for a separate process; use "
                       "et_controller_train_and_evaluate",
                       name);
    if ((status = need(c, c->outer.weights, "outer_loop.weights", name, error)) ||
        (status = check_eval_steps(w->eval_steps, error)))
        return status;
    while (!status && !w->ended) {
        char *path;
        status = et_checkpoint_wait_next(c->options.run.comm, &path, &w->last, c->model_dir,
                                         w->last, true, error);
        if (!status)
            status = path ? evaluate_next(c, w, path, error) : wait_for_more(c, w, error);
        et_free(path);
    }
    return status;
}

int et_controller_evaluate_continuously(et_controller *c, int64_t eval_steps, double timeout,
                                        et_done_fn *done, void *payload, et_value *logs,
                                        et_error *error)
{
    following w = { c, eval_steps, -1, timeout, et_clock_monotonic(), done, payload, false };
    int status = et_together_run(c->options.run.comm, follow, &w, error);
    return status ? status : give_values(c, logs, error);
}

/* ---- getters ---- */

int64_t et_controller_step(const et_controller *controller)
{
    return controller->loop.trainer->step;
}

int64_t et_controller_steps_per_loop(const et_controller *c)
{
    const bool known = c->outer.steps_per_loop || c->options.steps_per_loop;
    int64_t steps;
    if (!known || et_inner_loop_steps(&c->loop, c->loop.trainer->step, &steps, NULL))
        return 0;
    return steps;
}
