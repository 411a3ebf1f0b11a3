/* recovery.json:
 *
 *   {"trials":1,"all":2,"step":1000,"failed":1250,"memory":{"data":{...}}}
 *
 * The file is written before the state goes back. A run that finds the file and resumes from
 * checkpoint "step" continues with "memory". If it resumes from a newer checkpoint, the recovery
 * has already happened, and only the number of trials counts. */
#include "train/run/inner_loop.h"

#include <stdio.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/aside.h"
#include "base/files/file.h"
#include "base/text/format.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "engine/comm/together.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/run_names.h"
#include "train/ranks/broadcast.h"
#include "train/run/run_private.h"

#define FILE_MOST   (1 << 20)
#define TRIALS_MOST INT32_MAX

/* ---- the file ---- */

static int write_trials(const et_recovery *r, const et_run *run, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *dict = et_value_dict(&arena);
    et_value_set_int(dict, "trials", r->trials);
    et_value_set_int(dict, "all", r->all);
    et_value_set_int(dict, "step", r->step);
    et_value_set_int(dict, "failed", r->failed);
    et_value *memory = et_value_set_dict(dict, "memory");
    int status = memory && r->memory ? et_value_merge(memory, r->memory, error) : ET_OK;
    if (!status)
        status = et_json_write(et_path_of(run->options.model_dir, ET_RUN_RECOVERY).text, dict, 0,
                               "\n", error);
    et_arena_release(&arena);
    return status;
}

static int read_file(et_recovery *r, const char *path, et_error *error)
{
    et_value *dict;
    int status = et_json_read(&dict, &r->arena, path, FILE_MOST, error);
    if (status)
        return status;
    r->memory = et_value_get(dict, "memory");
    if ((status = et_value_read_int(dict, "trials", &r->trials, error)) ||
        (status = et_value_read_int(dict, "all", &r->all, error)) ||
        (status = et_value_read_int(dict, "step", &r->step, error)) ||
        (status = et_value_read_int(dict, "failed", &r->failed, error)))
        return et_fail_while(error, status, "%s", path);
    if (r->trials < 1 || r->all < r->trials || r->all > TRIALS_MOST || r->step < 0 ||
        r->failed <= r->step)
        status = et_fail(
            error, ET_EFORMAT, "trials %lld of %lld, from step %lld after %lld: impossible",
            (long long)r->trials, (long long)r->all, (long long)r->step, (long long)r->failed);
    else if (!r->memory || r->memory->kind != ET_VALUE_DICT)
        status = et_fail(error, ET_EFORMAT, "memory: missing or not a dict");
    return status ? et_fail_while(error, status, "%s", path) : ET_OK;
}

/* ---- resuming, going back ---- */

/* The numbers of a file that read_file accepts, or none yet. */
static void sane(const et_recovery *r)
{
    et_assert(r->trials >= 0 && r->trials <= r->all);
    et_assert(r->all <= TRIALS_MOST);
    et_assert(!r->all || (r->step >= 0 && r->failed > r->step));
    et_assert(!r->memory || r->memory->kind == ET_VALUE_DICT);
}

static int retry(const et_recovery *r, et_trainer *trainer, int64_t step, et_error *error)
{
    const et_trainer_class *class = trainer->class;
    if (!r->all || !class->retry)
        return ET_OK;
    return class->retry(trainer, r->all, step == r->step ? r->memory : NULL, error);
}

/* Gives all ranks what rank 0 has read or decided. */
static int broadcast(et_recovery *r, et_run *run, int status, et_error *error)
{
    et_comm *comm = run->options.comm;
    int64_t numbers[] = { r->trials, r->all, r->step, r->failed, r->memory != NULL };
    status = et_together_give(comm, status, numbers, sizeof numbers, error);
    if (status)
        return status;
    if (et_comm_rank(comm))
        et_arena_release(&r->arena);
    if (numbers[4])
        status = et_values_broadcast(r->memory, &r->memory, &r->arena, comm, ET_OK, error);
    r->trials = numbers[0];
    r->all = numbers[1];
    r->step = numbers[2];
    r->failed = numbers[3];
    return status;
}

/* A file without its checkpoint belongs to an earlier run. */
static int begin(et_recovery *r, et_run *run, int64_t step, et_error *error)
{
    if (et_comm_rank(run->options.comm))
        return ET_OK;
    if (!run->options.model_dir)
        return r->max_trials <= 0 ? ET_OK
                                  : et_fail(error, ET_ECONFIG,
                                            "recovery_max_trials: a run without model_dir has no "
                                            "checkpoint to go back to; give it one");
    const et_path path = et_path_of(run->options.model_dir, ET_RUN_RECOVERY);
    if (!et_file_exists(path.text))
        return ET_OK;
    return step >= 0 ? read_file(r, path.text, error) : et_aside_move_path(path.text, error);
}

int et_recovery_open(et_recovery *r, et_run *run, et_trainer *trainer, int64_t step,
                     et_error *error)
{
    int status = begin(r, run, step, error);
    if (!status && step < 0 && r->max_trials > 0)
        status = et_run_save(run, trainer->step, false, error);
    status = broadcast(r, run, status, error);
    if (!status && (status = retry(r, trainer, step, error)))
        et_fail_while(error, status, "%s/" ET_RUN_RECOVERY,
                      run->options.model_dir ? run->options.model_dir : "the run");
    return status;
}

/* The next trial, if there is one left. */
static int count_trial(et_recovery *r, const et_run *run, int64_t failed, et_error *error)
{
    char what[ET_ERROR_TEXT_MAX];
    snprintf(what, sizeof what, "%s", error ? error->text : "");
    int64_t newest = et_checkpoints_newest_step(run->checkpoints);
    bool new_row = !r->all || newest >= r->failed;
    int64_t trials = new_row ? 1 : r->trials + 1;
    if (trials > r->max_trials)
        return et_fail(
            error, ET_EDIVERGED,
            "%.700s. This happened %lld times in a row; the limit is %lld (recovery_max_trials)",
            what, (long long)trials, (long long)r->max_trials);
    et_log(ET_LOG_WARNING, "%.700s. Going back to step %s: trial %lld of %lld", what,
           et_format_count(newest).text, (long long)trials, (long long)r->max_trials);
    r->trials = trials;
    r->all++;
    r->step = newest;
    r->failed = failed;
    sane(r);
    return ET_OK;
}

static int decide(et_recovery *r, et_run *run, et_trainer *trainer, et_error *error)
{
    if (et_comm_rank(run->options.comm))
        return ET_OK;
    et_error failure = ET_ERROR_INIT;
    int status = et_run_settle(run, &failure);
    if (!status)
        status = et_checkpoints_drop_newer(run->checkpoints, trainer->step, &failure);
    if (status)
        return et_fail(error, status, "%s", failure.text);
    if ((status = count_trial(r, run, trainer->step + 1, error)))
        return status;
    et_arena_release(&r->arena);
    et_value *memory = et_value_dict(&r->arena);
    status = trainer->class->diverged ? trainer->class->diverged(trainer, memory, error) : ET_OK;
    r->memory = memory;
    if (!status && et_value_failed(memory))
        status = et_alloc_failed(error, 0, "the state");
    return status ? status : write_trials(r, run, error);
}

int et_recovery_go_back(et_recovery *r, et_run *run, et_trainer *trainer, et_error *error)
{
    int64_t step;
    sane(r);
    if (r->max_trials <= 0)
        return ET_EDIVERGED;
    int status = broadcast(r, run, decide(r, run, trainer, error), error);
    if (!status)
        status = et_run_rewind(run, &step, error);
    if (!status && step != r->step) {
        r->step = step;
        status = et_comm_rank(run->options.comm) ? ET_OK : write_trials(r, run, error);
    }
    return status ? status : retry(r, trainer, step, error);
}
