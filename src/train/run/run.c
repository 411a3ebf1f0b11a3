/* The directory of a run and its files.
 *
 *   metrics.jsonl, events   logs; part "logs" of the state has their ends, where a resumed run cuts
 *                           them off
 *   best/                   the step with the best validation; part "best" has its number
 *   checkpoints/            saving.c handles saves that fail
 *
 * Invariants: (1) `unsaved` is false until something happens after the last save or restore; (2)
 * the state that resumes contains no rate and no date. */
#include "train/run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/files/checksum.h"
#include "base/files/file.h"
#include "base/flag.h"
#include "base/inline.h"
#include "base/options.h"
#include "base/text/format.h"
#include "base/values/value.h"
#include "engine/comm/comm.h"
#include "engine/comm/together.h"
#include "formats/events/log_names.h"
#include "formats/events/sink.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/checkpoint/identity.h"
#include "train/checkpoint/metric_name.h"
#include "train/checkpoint/run_names.h"
#include "train/ranks/broadcast.h"
#include "train/run/run_private.h"

/* Bytes of warnings that wait for the next step. */
#define KEPT_MAX ((size_t)64 << 10)

/* ---- train.log ---- */

/* Local time, because people look for events by their own clock. */
void et_run_messages_print(et_strbuf *out, const char *text, time_t when)
{
    char day[32];
    struct tm now;
    localtime_r(&when, &now);
    strftime(day, sizeof day, "%Y-%m-%d %H:%M:%S", &now);
    for (const char *end; *text; text = *end ? end + 1 : end) {
        end = strchrnul(text, '\n');
        et_strbuf_printf(out, "%s  %.*s\n", day, (int)(end - text), text);
    }
}

/* Not blocking, because a pipe of that name would stop the run. */
int et_run_messages_write(const char *path, const et_strbuf *lines, bool first)
{
    struct stat info;
    char last = '\n';
    errno = 0;
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
    bool fine = fd >= 0 && !fstat(fd, &info) && S_ISREG(info.st_mode) && !lines->failed;
    if (fine && first && info.st_size > 0)
        fine = pread(fd, &last, 1, info.st_size - 1) == 1;
    if (fine && last != '\n')
        fine = !et_fd_write(fd, "\n", 1, path, NULL);
    if (fine)
        fine = !et_fd_write(fd, lines->data, lines->length, path, NULL);
    int failed = fine ? 0 : errno ? errno : EIO;
    if (fd >= 0)
        close(fd);
    return failed;
}

/* ---- warnings ---- */

static bool has_warnings(const et_run_warnings *warnings)
{
    return __atomic_load_n(&warnings->waiting, __ATOMIC_RELAXED);
}

/* Any thread may log a warning. */
static void take(void *payload, et_log_level level, const char *text)
{
    et_run_warnings *w = payload;
    if (level < ET_LOG_WARNING)
        return;
    pthread_mutex_lock(&w->mutex);
    if (w->texts.length + strlen(text) < KEPT_MAX)
        et_strbuf_append_bytes(&w->texts, text, strlen(text) + 1);
    else
        w->dropped++;
    __atomic_store_n(&w->waiting, true, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&w->mutex);
}

/* ---- the run's parts of the state ---- */

static et_run_best no_best(const et_run *run)
{
    return (et_run_best){ .metric = run->options.best_metric,
                          .lower = run->options.best_comparison == ET_COMPARE_LOWER,
                          .data = run->options.best_data,
                          .tie = NAN };
}

/* Bit for bit, since the value may be NaN or infinite. */
static int save_best(const void *self, et_value *dict, et_error *error)
{
    (void)error;
    const et_run_best *best = &((const et_run *)self)->best;
    if (best->metric) {
        et_value_set_string(dict, "metric", best->metric);
        et_value_set_bool(dict, "lower", best->lower);
    }
    et_value_set_bool(dict, "known", best->known);
    et_value_set_int(dict, "step", best->step);
    et_value_set_int(dict, "since", best->since);
    if (best->data)
        et_value_set_string(dict, "data", et_checksum_print(best->data).digits);
    if (!isnan(best->tie))
        et_part_set_real(dict, "tie", best->tie);
    if (best->lost) {
        et_value_set_int(dict, "lost_step", best->lost_step);
        et_part_set_real(dict, "lost_value", best->lost_value);
        et_part_set_real(dict, "lost_tie", best->lost_tie);
    }
    et_part_set_real(dict, "value", best->value);
    return ET_OK;
}

/* Checkpoints of earlier versions have no metric: then this run's own counts. */
static int restore_criterion(et_run *run, const et_value *dict, et_error *error)
{
    const char *metric;
    run->best = no_best(run);
    if (!et_value_get(dict, "metric"))
        return ET_OK;
    int status;
    if ((status = et_value_read_string(dict, "metric", &metric, error)) ||
        (status = et_value_read_bool(dict, "lower", &run->best.lower, error)))
        return status;
    run->best.metric = et_arena_strdup(&run->arena, metric);
    return run->best.metric ? ET_OK : et_alloc_failed(error, "the state");
}

static int restore_best(void *self, const et_value *dict, et_error *error)
{
    et_run_best *best = &((et_run *)self)->best;
    const char *digits;
    int status;
    if ((status = restore_criterion(self, dict, error)) ||
        (status = et_value_read_bool(dict, "known", &best->known, error)) ||
        (status = et_value_read_int(dict, "step", &best->step, error)))
        return status;
    if (et_value_get(dict, "since") &&
        (status = et_value_read_int(dict, "since", &best->since, error)))
        return status;
    /* Checkpoints of earlier versions have no "data", and neither have checkpoints of data without
     * a fingerprint. */
    best->data = 0;
    if (et_value_get(dict, "data")) {
        if ((status = et_value_read_string(dict, "data", &digits, error)))
            return status;
        if (!et_checksum_parse(&best->data, digits))
            return et_fail(error, ET_EFORMAT, "data: %.40s is not a checksum", digits);
    }
    best->lost = et_value_get(dict, "lost_step") != NULL;
    if (best->lost && ((status = et_value_read_int(dict, "lost_step", &best->lost_step, error)) ||
                       (status = et_part_read_real(dict, "lost_value", &best->lost_value, error)) ||
                       (status = et_part_read_real(dict, "lost_tie", &best->lost_tie, error))))
        return status;
    if (et_value_get(dict, "tie") && (status = et_part_read_real(dict, "tie", &best->tie, error)))
        return status;
    return et_part_read_real(dict, "value", &best->value, error);
}

static const et_part_class best_part = { "best", save_best, restore_best };

/* The end of each file, by kind of sink. Empty until the sinks are open. */
static int save_logs(const void *self, et_value *dict, et_error *error)
{
    (void)error;
    const et_run *run = self;
    if (run->sink)
        et_sink_positions(run->sink, dict);
    return ET_OK;
}

/* Kept in the run's arena until the sinks are opened, after the restore. */
static int restore_logs(void *self, const et_value *dict, et_error *error)
{
    et_run *run = self;
    run->positions = et_value_dict(&run->arena);
    if (!run->positions)
        return et_alloc_failed(error, "the state");
    return et_value_merge(run->positions, dict, error);
}

static const et_part_class logs_part = { "logs", save_logs, restore_logs };

/* ---- opening and closing ---- */

static int check_options(const et_run_options *options, et_error *error)
{
    int status = et_options_need(options, "et_run_options", error);
    if (status)
        return status;
    if (!options->state)
        return et_fail(error, ET_EUSAGE, "a run needs a state");
    if (options->on_failed_save < ET_FAILED_SAVE_STOP ||
        options->on_failed_save > ET_FAILED_SAVE_GO_ON)
        return et_fail(error, ET_ECONFIG, "on_failed_save: %d does not exist",
                       options->on_failed_save);
    if (options->best_comparison < ET_COMPARE_HIGHER || options->best_comparison > ET_COMPARE_LOWER)
        return et_fail(error, ET_ECONFIG, "best_comparison: %d does not exist",
                       options->best_comparison);
    return ET_OK;
}

/* NULL stays NULL. False: no memory. */
static bool copy_text(const char **text)
{
    const char *given = *text;
    return !given || (*text = et_strdup(given)) != NULL;
}

int et_run_open(et_run **out, const et_run_options *options, et_error *error)
{
    *out = NULL;
    int status = check_options(options, error);
    et_run *run = status ? NULL : et_alloc_zero(1, sizeof *run);
    if (!run) {
        et_sink_close(options ? options->console : NULL, NULL);
        return status ? status : et_alloc_failed(error, "a run");
    }
    et_internals internals =
        options->internals ? *options->internals : (et_internals){ .lock = NULL };
    internals.asks = true;
    et_checkpoint_options checkpoints = { .max_to_keep = options->max_to_keep,
                                          .other_optimizer = options->other_optimizer,
                                          .partial = options->partial,
                                          .internals = &internals,
                                          .keep_every_n_hours = options->keep_every_n_hours };
    et_run_warnings *warnings = &run->warnings;
    *warnings =
        (et_run_warnings){ .tap = { .take = take, .payload = warnings }, .texts = ET_STRBUF_INIT };
    pthread_mutex_init(&warnings->mutex, NULL);
    et_log_tap_add(&warnings->tap);
    /* Only rank 0 has files. The other ranks run without a directory. */
    run->options = *options;
    if (et_comm_rank(options->comm))
        run->options.model_dir = run->options.summary_dir = NULL;
    bool copied = copy_text(&run->options.model_dir);
    copied = copy_text(&run->options.summary_dir) && copied;
    copied = copy_text(&run->options.best_link) && copied;
    status = copied ? ET_OK : et_alloc_failed(error, "a run");
    run->best = no_best(run);
    run->saves.best_saved = -1;
    run->alone = et_comm_size(options->comm) == 1;
    run->in_parts = options->model_dir && et_state_ranks(options->state);
    checkpoints.best_link = options->best_metric ? run->options.best_link : NULL;
    if (!status && !(status = et_state_add(options->state, "best", &best_part, run, error)) &&
        !(status = et_state_add(options->state, "logs", &logs_part, run, error)) &&
        options->identity)
        status = et_state_add_identity(options->state, options->identity, error);
    if (!status && run->options.model_dir)
        status = et_checkpoints_open(&run->checkpoints, run->options.model_dir, options->state,
                                     &checkpoints, error);
    if (status)
        et_run_close(run, NULL);
    else
        *out = run;
    return status;
}

/* The checkpoints first: their thread may still be reading arrays. The first error is returned. A
 * caller that closes the run after an error passes no error: then a failure is only a warning. */
int et_run_close(et_run *run, et_error *error)
{
    if (!run)
        return ET_OK;
    et_error failure = ET_ERROR_INIT;
    int status = et_run_end_saves(run, &failure);
    int closed = et_checkpoints_close(run->checkpoints, status ? NULL : &failure);
    status = status ? status : closed;
    if (status && !error)
        et_log(ET_LOG_WARNING, "%s", failure.text);
    if (status)
        et_fail(error, status, "%s", failure.text);
    closed = et_sink_close(run->sink, status ? NULL : error);
    et_sink_close(run->options.console, NULL);
    et_run_tell_warnings(run);
    et_log_tap_remove(&run->warnings.tap);
    pthread_mutex_destroy(&run->warnings.mutex);
    et_strbuf_release(&run->warnings.texts);
    et_arena_release(&run->arena);
    et_free((char *)run->options.model_dir);
    et_free((char *)run->options.summary_dir);
    et_free((char *)run->options.best_link);
    et_free(run);
    return status ? status : closed;
}

/* Gives rank 0's state to all ranks. */
static int broadcast(et_run *run, et_error *error)
{
    int status = et_state_broadcast(run->options.state, run->options.comm, error);
    if (!status)
        et_state_start_slots(run->options.state, !et_comm_rank(run->options.comm));
    if (run->checkpoints)
        et_checkpoints_end_restore(run->checkpoints);
    return status;
}

static const char *direction(bool lower)
{
    return lower ? "lower is better" : "higher is better";
}

static void tell_other_best(const et_run *run)
{
    const et_run_best *best = &run->best;
    const char *own = run->options.best_metric;
    if (!best->known || !own || et_run_has_own_best(run))
        return;
    if (et_run_has_own_criterion(run))
        et_log(ET_LOG_WARNING,
               "the best step so far, %s, is from other validation data: the next validation "
               "starts a new best",
               et_format_count(best->step).text);
    else
        et_log(ET_LOG_WARNING,
               "the best step so far, %s, was chosen by %s (%s), but now it is %s (%s): the next "
               "validation starts a new best",
               et_format_count(best->step).text, best->metric, direction(best->lower), own,
               direction(run->options.best_comparison == ET_COMPARE_LOWER));
}

int et_run_restore(et_run *run, int64_t *step, et_error *error)
{
    et_comm *comm = run->options.comm;
    *step = -1;
    int status = run->checkpoints ? et_checkpoints_restore(run->checkpoints, step, error) : ET_OK;
    status = et_together_give(comm, status, step, sizeof *step, error);
    if (!status && *step >= 0 && !et_comm_rank(comm))
        tell_other_best(run);
    return status || *step < 0 ? status : broadcast(run, error);
}

int et_run_take_file(et_run *run, const char *path, int64_t *step, et_error *error)
{
    return run->checkpoints
               ? et_checkpoints_restore_at(run->checkpoints, path, step, error)
               : et_checkpoint_restore_file(
                     run->options.state, path,
                     run->options.partial ? ET_RESTORE_PARTIAL : ET_RESTORE_STRICT, step, error);
}

int et_run_restore_file(et_run *run, const char *path, et_error *error)
{
    const bool reads = !et_comm_rank(run->options.comm);
    int64_t step;
    int status = reads ? et_run_take_file(run, path, &step, error) : ET_OK;
    status = et_run_agree(run, status, error);
    if (!status && reads)
        tell_other_best(run);
    return status ? status : broadcast(run, error);
}

/* Marks the existing logs that belong to the run. At the start of a run these are none. Later, they
 * are the logs since the start, except those after an older checkpoint. */
static int claim_logs(et_run *run, et_error *error)
{
    const et_checkpoints *checkpoints = run->checkpoints;
    const bool restored = run->positions != NULL;
    bool here = false;
    double begun = checkpoints ? et_checkpoints_begun(checkpoints, &here) : 0;
    if (!restored && (here || !checkpoints))
        return ET_OK;
    if (!restored)
        run->positions = et_value_dict(&run->arena);
    bool whole = run->positions != NULL;
    if (whole && begun > 0)
        whole = et_value_set_float(run->positions, ET_SINK_SINCE, begun);
    if (whole && restored && !(checkpoints && et_checkpoints_resumed(checkpoints)))
        whole = et_value_set_bool(run->positions, ET_SINK_KEEPS, true);
    return whole ? ET_OK : et_alloc_failed(error, "the state");
}

/* metrics.jsonl for programs, in its own directory only; event files for TensorBoard. Without
 * positions the files start anew. After a failure, closes the opened sinks, unless
 * et_sink_multi_open has adopted them. */
static int open_sinks(et_run *run, et_error *error)
{
    const et_run_options *o = &run->options;
    const char *directory = o->summary_dir ? o->summary_dir : o->no_logs ? NULL : o->model_dir;
    et_sink *sinks[2] = { NULL, NULL };
    size_t count = 0;
    int status = claim_logs(run, error);
    if (!status && directory && !o->summary_dir) {
        status = et_sink_jsonl_open(&sinks[count], et_path_of(directory, ET_RUN_LOG).text,
                                    run->positions, error);
        count += !status;
    }
    if (!status && directory) {
        status = et_sink_events_open(&sinks[count], directory, run->positions, error);
        count += !status;
    }
    if (!status)
        return count ? et_sink_multi_open(&run->sink, sinks, count, error) : ET_OK;
    while (count)
        et_sink_close(sinks[--count], NULL);
    return status;
}

int et_run_begin(et_run *run, et_error *error)
{
    int status = run->checkpoints ? et_checkpoints_check_space(run->checkpoints, error) : ET_OK;
    if (!status && run->checkpoints)
        status = et_checkpoints_begin(run->checkpoints, error);
    return status ? status : open_sinks(run, error);
}

/* Cuts off the logs after the checkpoint, as a run does that resumes after a kill. */
int et_run_rewind(et_run *run, int64_t *step, et_error *error)
{
    int status = et_run_settle(run, error);
    *step = -1;
    if (!status)
        status = et_run_restore(run, step, error);
    if (!status && *step < 0)
        status = et_fail(error, ET_ENOTFOUND, "%s has no checkpoint to go back to",
                         run->options.model_dir ? run->options.model_dir : "the run");
    if (status)
        return status;
    status = et_sink_close(run->sink, error);
    run->sink = NULL;
    run->unsaved = false;
    return status ? status : open_sinks(run, error);
}

/* ---- requests ---- */

int et_run_check(et_run *run, et_error *error)
{
    return run->checkpoints ? et_checkpoints_check_lock(run->checkpoints, error) : ET_OK;
}

/* A signal handler sets the flag; this function only reads it. */
bool et_run_signalled(const et_run *run)
{
    return et_flag_is_set(run->options.stop);
}

enum { ASKED_TO_STOP = 1, ASKED_TO_SAVE = 2, SAVES_AGAIN = 4 };

int et_run_meet(et_run *run, et_error *error)
{
    volatile sig_atomic_t *save = run->options.save;
    if (run->alone)
        return ET_OK;
    unsigned asked = et_run_signalled(run) ? ASKED_TO_STOP : 0;
    if (et_flag_is_set(save)) {
        et_flag_set(save, false);
        asked |= ASKED_TO_SAVE;
    }
    if (run->saves.again)
        asked |= SAVES_AGAIN;
    int status = et_comm_agree(run->options.comm, ET_OK, &asked, error);
    run->stops = asked & ASKED_TO_STOP;
    run->asked_to_save |= (asked & ASKED_TO_SAVE) != 0;
    run->saves_again = asked & SAVES_AGAIN;
    return status;
}

int et_run_agree(et_run *run, int status, et_error *error)
{
    return et_comm_agree(run->options.comm, status, NULL, error);
}

bool et_run_asked_to_stop(const et_run *run)
{
    return run->alone ? et_run_signalled(run) : run->stops;
}

static bool is_asked_to_save(const et_run *run)
{
    return run->alone ? et_flag_is_set(run->options.save) : run->asked_to_save;
}

ET_NOINLINE static int serve(et_run *run, int64_t step, et_error *error)
{
    et_run_tell_warnings(run);
    int status = et_run_meet(run, error);
    if (!status && et_run_asked_to_stop(run))
        return ET_EINTERRUPTED;
    if (!status)
        status = et_run_look_after_saves(run, step, error);
    if (status || !is_asked_to_save(run))
        return status;
    /* Clear the request before the save, so that a new request causes another save. A saved state
     * is not written again. */
    if (run->alone)
        et_flag_set(run->options.save, false);
    run->asked_to_save = false;
    et_run_tell(run, "saving       step %s, as asked", et_format_count(step).text);
    return et_run_save_unsaved(run, step, true, error);
}

int et_run_between_steps(et_run *run, int64_t step, et_error *error)
{
    /* A single process without a request, a save or a warning, as between most steps. */
    bool saving = run->checkpoints && et_checkpoints_saving(run->checkpoints);
    bool again = run->saves.again || run->saves_again;
    bool due = run->saves.held && et_run_is_held_due(run);
    bool undisturbed = run->alone && !saving && !again && !due && !et_run_signalled(run) &&
                       !is_asked_to_save(run) && !has_warnings(&run->warnings);
    return undisturbed ? ET_OK : serve(run, step, error);
}

void et_run_touch(et_run *run)
{
    run->unsaved = true;
}

/* ---- logs ---- */

/* Flushes logs at most once per second. A small model may write many logs per second, and each
 * flush takes as long as a checkpoint. A resumed run needs only the logs up to its checkpoint. */
#define FLUSH_SECONDS 1

static bool is_saving(const et_run *run)
{
    return run->checkpoints && et_checkpoints_saving(run->checkpoints);
}

/* During a save, does not wait for the disk: a file system may write the save's bytes first. */
static int write_files(et_run *run, int64_t step, const et_value *logs, et_error *error)
{
    int status = et_sink_write(run->sink, step, logs, error);
    const double now = et_clock_monotonic();
    if (status || is_saving(run) || (run->flushed && now < run->flushed + FLUSH_SECONDS))
        return status;
    run->flushed = now;
    return et_sink_flush(run->sink, error);
}

/* If on_failed_save lets failed saves pass, a failed log only gives a warning, because both most
 * often fail on the same disk. The line for people is shown in any case. */
int et_run_log(et_run *run, int64_t step, const et_value *logs, et_error *error)
{
    et_sink *console = run->options.console;
    et_error failure = ET_ERROR_INIT;
    et_run_tell_warnings(run);
    int status = run->sink ? write_files(run, step, logs, &failure) : ET_OK;
    if (console) {
        et_error *second = status ? NULL : &failure;
        int shown = et_sink_write(console, step, logs, second);
        if (!shown && !is_saving(run))
            shown = et_sink_flush(console, second);
        status = status ? status : shown;
    }
    if (!status)
        return ET_OK;
    if (run->options.on_failed_save == ET_FAILED_SAVE_STOP)
        return et_fail(error, status, "%s", failure.text);
    et_log(ET_LOG_WARNING, "%s; training continues without this log", failure.text);
    return ET_OK;
}

/* NaN is never lower, and any number is lower than NaN. */
static bool is_lower(double value, double than)
{
    return !isnan(value) && (isnan(than) || value < than);
}

static bool is_better_than(const et_run *run, double value, double than)
{
    return run->options.best_comparison == ET_COMPARE_HIGHER ? value > than : value < than;
}

/* Whether the best that could not be saved is better than a later one. */
static bool is_lost_better(const et_run *run, double value, double tie)
{
    const et_run_best *best = &run->best;
    if (best->lost_value == value)
        return run->options.best_tie && is_lower(best->lost_tie, tie);
    return is_better_than(run, best->lost_value, value);
}

int64_t et_run_best_step(const et_run *run, double *value)
{
    bool known = et_run_has_own_best(run) && run->best.known;
    *value = known ? run->best.value : (double)NAN;
    return known ? run->best.step : -1;
}

int64_t et_run_since_best(const et_run *run)
{
    return et_run_has_own_best(run) ? run->best.since : 0;
}

double et_run_best_tie(const et_run *run)
{
    return et_run_has_own_best(run) && run->best.known && run->options.best_tie ? run->best.tie
                                                                                : (double)NAN;
}

et_sink *et_run_sink(et_run *run)
{
    return run->sink;
}

/* Warns once, because later validations most likely give NaN too. */
static void tell_not_a_number(et_run *run, int64_t step)
{
    if (run->reported_not_a_number || et_comm_rank(run->options.comm))
        return;
    run->reported_not_a_number = true;
    et_log(ET_LOG_WARNING,
           "%s, which chooses the best checkpoint, is not a number at step %s: this validation "
           "cannot be the best, and early stopping ignores it",
           run->options.best_metric, et_format_count(step).text);
}

typedef struct validated {
    et_run *run;
    int64_t step;
    const et_value *values;
} validated;

static int keep_best(void *self, et_error *error)
{
    const validated *v = self;
    et_run *run = v->run;
    const char *name = run->options.best_metric;
    double value, tie = NAN;
    if (!et_metric_named(v->values, name, &value))
        return et_fail(error, ET_ECONFIG,
                       "validation has no value %s, which chooses the best checkpoint "
                       "(trainer.best_checkpoint_eval_metric; in a program run.best_metric or "
                       "et_fit.monitor)",
                       name);
    if (run->options.best_tie)
        et_metric_named(v->values, run->options.best_tie, &tie);
    if (!et_run_has_own_best(run))
        run->best = no_best(run);
    if (!run->best.data)
        run->best.data = run->options.best_data;
    if (isnan(value)) {
        tell_not_a_number(run, v->step);
        return ET_OK;
    }
    const bool better =
        !run->best.known || isnan(run->best.value) || is_better_than(run, value, run->best.value);
    run->best.since += !better;
    /* Among equal values, the lower tie is better; among equal or unknown ties, the later step. */
    if (!better &&
        !(run->options.best_tie && value == run->best.value && !is_lower(run->best.tie, tie)))
        return ET_OK;
    et_run_best best = run->best;
    best.known = true;
    best.value = value;
    best.step = v->step;
    best.since = better ? 0 : best.since;
    best.data = run->options.best_data;
    best.tie = tie;
    best.lost = best.lost && is_lost_better(run, value, tie);
    return et_run_save_best(run, &best, v->values, error);
}

int et_run_broadcast_best(et_run *run, int status, et_error *error)
{
    et_comm *comm = run->options.comm;
    et_run_best best = et_run_has_own_best(run) ? run->best : no_best(run);
    best.metric = NULL;
    status = et_together_give(comm, status, &best, sizeof best, error);
    if (status || et_comm_rank(comm) == 0)
        return status;
    best.metric = run->options.best_metric;
    run->best = best;
    return ET_OK;
}

/* All ranks note the validation. If the state is in parts, a failed save may have returned rank 0
 * to an earlier best. So only rank 0 decides whether it saves. */
int et_run_note_best(et_run *run, int64_t step, et_value *values, et_error *error)
{
    const char *metric = run->options.best_metric;
    validated v = { run, step, values };
    if (!metric)
        return ET_OK;
    int status = run->in_parts ? et_run_with_parts(run, keep_best, &v, error) : ET_OK;
    if (!status && (!run->in_parts || et_comm_rank(run->options.comm)))
        status = keep_best(&v, error);
    status = et_run_broadcast_best(run, status, error);
    if (status || !run->best.known)
        return status;
    char key[256];
    snprintf(key, sizeof key, ET_LOGGED_OF_BEST "%s", metric);
    et_value_set_float(values, key, run->best.value);
    et_value_set_int(values, ET_LOGGED_BEST_STEP, run->best.step);
    if (run->best.step == step && run->checkpoints && !run->options.best_unsaved)
        et_value_set_string(values, ET_SINK_NOTE, "best so far");
    return ET_OK;
}

/* ---- people ---- */

/* The observer gets a warning, and the file its line. */
static void tell_warning(const et_run *run, const char *text, et_strbuf *lines)
{
    const et_observer *observer = &run->options.observer;
    et_strbuf line = ET_STRBUF_INIT;
    et_strbuf_printf(&line, "warning: %s", text);
    if (!line.failed) {
        et_run_messages_print(lines, line.data, time(NULL));
        if (observer->tell)
            observer->tell(observer->self, line.data);
    }
    et_strbuf_release(&line);
}

void et_run_tell_warnings(et_run *run)
{
    et_strbuf texts, lines = ET_STRBUF_INIT;
    size_t dropped;
    if (!has_warnings(&run->warnings))
        return;
    et_run_warnings *warnings = &run->warnings;
    pthread_mutex_lock(&warnings->mutex);
    texts = warnings->texts;
    dropped = warnings->dropped;
    warnings->texts = (et_strbuf)ET_STRBUF_INIT;
    warnings->dropped = 0;
    __atomic_store_n(&warnings->waiting, false, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&warnings->mutex);
    for (size_t at = 0; !texts.failed && at < texts.length; at += strlen(texts.data + at) + 1)
        tell_warning(run, texts.data + at, &lines);
    if (dropped || texts.failed)
        tell_warning(run, "there were more warnings, which are not shown", &lines);
    const char *directory =
        run->options.model_dir ? run->options.model_dir : run->options.summary_dir;
    if (directory && et_directory_exists(directory) && lines.length)
        et_run_messages_write(et_path_of(directory, ET_RUN_MESSAGES).text, &lines, true);
    et_strbuf_release(&texts);
    et_strbuf_release(&lines);
}

void et_run_show(const et_run *run, const et_showing *showing)
{
    if (run->options.observer.show)
        run->options.observer.show(run->options.observer.self, showing);
}
