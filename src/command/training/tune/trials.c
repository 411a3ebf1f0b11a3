/* A trial runs in a fork of this process. This process computes nothing, so OpenMP has no threads
 * yet. The fork has its own process group: signals of the terminal reach only this process, which
 * passes them on once. If this process is killed, its trial is killed too, and is resumed later. */
#include "command/training/tune/trials.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "command/command.h"
#include "command/runs/history.h"
#include "formats/events/log_names.h"
#include "train/run/options.h"

#define MESSAGES_MAX ((size_t)16 << 20) /* bytes that are read for the reason of a failure */

enum { EXIT_STOPPED = 75 }; /* of a process: saved */

/* ---- results ---- */

/* Of a run that keeps no best checkpoint, its last validation counts, as its last weights do. */
static bool take_last(et_trial *t, const et_history *h)
{
    const et_value *asked = et_history_setting(h, "trainer.best_checkpoint_eval_metric");
    const bool own = asked && asked->kind == ET_VALUE_STRING && asked->string[0] &&
                     strcmp(asked->string, ET_BEST_AUTO) != 0;
    const char *name = own ? asked->string : ET_LOGGED_VALIDATION_LOSS;
    const et_history_series *series[1];
    if (!et_history_match(h, name, series, 1) || !series[0]->count)
        return false;
    const et_history_point *last = &series[0]->points[series[0]->count - 1];
    snprintf(t->metric, sizeof t->metric, "%s", name);
    t->lower = et_history_is_lower_better(h, series[0]);
    t->value = last->value;
    t->step = last->step;
    return isfinite(last->value);
}

static bool take_best(et_trial *t, const et_history *h)
{
    const et_history_best best = et_history_best_of(h);
    if (!best.series || best.step < 0 || !isfinite(best.value))
        return take_last(t, h);
    snprintf(t->metric, sizeof t->metric, "%s", best.metric);
    t->lower = best.lower;
    t->value = best.value;
    t->step = best.step;
    return true;
}

double et_trial_seconds(const char *model_dir)
{
    et_assert(model_dir);
    et_history *h = NULL;
    double seconds = 0;
    if (et_history_is_run(model_dir) && !et_history_open(&h, model_dir, NULL))
        seconds = et_history_seconds_in_all(h);
    et_history_close(h);
    return isnan(seconds) ? 0 : seconds;
}

/* exited: train says that the run is done. The record of a run that was killed after its last step
 * does not, although nothing is left to do. */
static bool read_run(et_trial *t, bool exited)
{
    et_history *h = NULL;
    bool done = et_history_is_run(t->model_dir) && !et_history_open(&h, t->model_dir, NULL) &&
                (exited || et_history_state_of(h) == ET_HISTORY_DONE) && take_best(t, h);
    if (done) {
        t->end = ET_TRIAL_DONE;
        t->seconds = et_trial_seconds(t->model_dir);
    }
    et_history_close(h);
    return done;
}

/* The last line that the process has printed. */
static void read_reason(et_trial *t, const et_program *program, int code)
{
    char *text = NULL;
    size_t length = 0;
    snprintf(t->reason, sizeof t->reason, "exit code %d", code);
    if (et_file_read(&text, &length, t->messages, MESSAGES_MAX, NULL))
        return;
    while (length && (text[length - 1] == '\n' || text[length - 1] == ' '))
        text[--length] = 0;
    const char *line = strrchr(text, '\n');
    line = line ? line + 1 : text;
    const size_t name = strlen(program->name);
    line += !strncmp(line, program->name, name) && !strncmp(line + name, ": ", 2) ? name + 2 : 0;
    if (length)
        snprintf(t->reason, sizeof t->reason, "%s", line);
    et_free(text);
}

/* Signals that other processes send, such as the kernel when memory is short. */
static bool is_killed(int code)
{
    return code == -SIGKILL || code == -SIGTERM || code == -SIGHUP || code == -SIGINT;
}

/* status: of the command, if it returned. */
static int take_results(et_trial *t, const et_program *program, int how, int status,
                        et_error *error)
{
    const int code = WIFEXITED(how) ? WEXITSTATUS(how) : -WTERMSIG(how);
    t->code = code;
    t->seconds = et_trial_seconds(t->model_dir);
    t->end = code == EXIT_STOPPED ? ET_TRIAL_STOPPED : code ? ET_TRIAL_FAILED : ET_TRIAL_DONE;
    if (t->end == ET_TRIAL_FAILED && code < 0)
        snprintf(t->reason, sizeof t->reason, "ended by signal %d, %s", -code, strsignal(-code));
    else if (t->end == ET_TRIAL_FAILED)
        read_reason(t, program, code);
    if (t->end == ET_TRIAL_FAILED && (is_killed(code) || status == ET_ENOSPACE))
        t->end = ET_TRIAL_LOST;
    if (t->end == ET_TRIAL_DONE && !read_run(t, true))
        return et_fail(error, ET_EDATA,
                       "%s: the run has no validation to compare trials by; name validation data, "
                       "such as --valid",
                       t->model_dir);
    return ET_OK;
}

/* ---- the process ---- */

static int train(const et_trial *t, const et_program *program, pid_t parent, const sigset_t *before,
                 et_error *error)
{
    const et_command *row = program->commands;
    while (row->name && strcmp(row->name, "train") != 0)
        row++;
    const int messages = open(t->messages, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (messages < 0 || dup2(messages, STDOUT_FILENO) < 0 || dup2(messages, STDERR_FILENO) < 0)
        return et_fail_errno(error, "%s", t->messages);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigprocmask(SIG_SETMASK, before, NULL);
    if (getppid() != parent)
        return et_fail(error, ET_EINTERRUPTED, "tune has ended");
    const et_call call = {
        .program = program, .command = "train", .argc = t->argc, .argv = t->argv
    };
    return et_command_run(row, &call, error);
}

/* Passes the first signal on, which saves and ends the trial. */
static int wait_for(et_trial *t, pid_t pid, const sigset_t *signals)
{
    int how = 0;
    while (waitpid(pid, &how, WNOHANG) == 0) {
        const struct timespec moment = { 0, 200000000 };
        const int number = sigtimedwait(signals, NULL, &moment);
        if (number <= 0 || number == SIGCHLD)
            continue;
        kill(pid, number == SIGHUP ? SIGTERM : number);
        t->asked |= number != SIGUSR1;
    }
    return how;
}

int et_trial_run(et_trial *t, const et_program *program, bool *child, et_error *error)
{
    et_assert(t->model_dir && t->argc > 0 && t->messages);
    static const int awaited[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD };
    sigset_t signals, before;
    const pid_t parent = getpid();
    *child = false;
    if (read_run(t, false))
        return ET_OK;
    int *ended =
        mmap(NULL, sizeof *ended, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (ended == MAP_FAILED)
        return et_fail_errno(error, "a process for a trial");
    sigemptyset(&signals);
    for (size_t i = 0; i < sizeof awaited / sizeof awaited[0]; i++)
        sigaddset(&signals, awaited[i]);
    fflush(NULL);
    sigprocmask(SIG_BLOCK, &signals, &before);
    const pid_t pid = fork();
    *child = pid == 0;
    if (*child)
        return *ended = train(t, program, parent, &before, error);
    const int how = pid < 0 ? 0 : wait_for(t, pid, &signals);
    sigprocmask(SIG_SETMASK, &before, NULL);
    int status = pid < 0 ? et_fail_errno(error, "a process for a trial")
                         : take_results(t, program, how, *ended, error);
    munmap(ended, sizeof *ended);
    return status;
}
