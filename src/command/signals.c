/* The meaning of signals, by phase:
 *
 *   before the run exists   stop: say that nothing was saved, exit 75; USR1 is ignored
 *   while it trains         stop: save and exit 75
 *                           USR1: save and continue
 *   while --profile is on   stop: write the profile, exit 75
 *   while it serves         stop: answer accepted requests, exit 0
 *   otherwise               the system's default
 *
 * The rows of stops[] are the signals that stop. A second INT or TERM ends the process at once, for
 * a user who does not want to wait for the save. But timeout, Slurm and systemd signal the process
 * and its group, and a closed terminal sends the signal twice (shell and kernel). So signals within
 * IMPATIENT seconds of the first are the same request. SIGHUP and SIGXCPU (a closed terminal, a
 * passed limit) are never a second request.
 *
 * Handlers set flags and call clock_gettime, poll, write, open, dup2, close and _exit, nothing
 * else, because only such functions are safe there. They may run in several threads at once,
 * because OpenMP's threads get signals too; therefore the atomic. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/flag.h"
#include "command/command.h"

/* Nanoseconds after the first request from which a second one counts. */
#define IMPATIENT 1000000000

/* Rows: the signal; whether sending it again ends the process at once; whether it stays ignored if
 * it was ignored at the start (nohup). */
static const struct {
    int number;
    bool hurries, may_be_ignored;
} stops[] = {
    { SIGINT, true, false },  { SIGTERM, true, false },  { SIGHUP, false, true },
    { SIGXCPU, false, true }, { SIGALRM, false, false }, /* --time-limit */
};

enum { STOPS = sizeof stops / sizeof stops[0] };

/* Written by handlers, read by the run between steps (et_run_options.stop, .save). */
volatile sig_atomic_t et_stop_requested, et_save_requested, et_limit_reached;

/* When a stop was asked for, by et_clock_nanoseconds; 0: never. */
static _Atomic int64_t asked;
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "a handler may not wait for a lock");

/* Texts that handlers print, set before handlers can be called; "" prints nothing. */
static const char *leave_text = "", *stop_text = "", *limit_text = "", *save_text = "";

/* Printed before each of these texts: removes a progress bar; "" if there is no bar. */
static const char *erase = "";

/* Writes once, and only if that does not block: a stop must not wait for the reader of standard
 * error. */
static void tell(const char *text)
{
    char line[256];
    size_t before = strlen(erase), length = strlen(text);
    struct pollfd err = { .fd = STDERR_FILENO, .events = POLLOUT };
    if (!length || before + length + 1 > sizeof line || poll(&err, 1, 0) != 1 ||
        !(err.revents & POLLOUT))
        return;
    memcpy(line, erase, before);
    memcpy(line + before, text, length);
    line[before + length] = '\n';
    ssize_t ignored = write(STDERR_FILENO, line, before + length + 1);
    (void)ignored;
}

static bool hurries(int number)
{
    for (int i = 0; i < STOPS; i++)
        if (stops[i].number == number)
            return stops[i].hurries;
    return false;
}

/* Shells report 128 + number for a process that a signal ended. */
static void on_stop(int number)
{
    int saved = errno;
    int64_t first = 0, now = et_clock_nanoseconds();
    if (atomic_compare_exchange_strong(&asked, &first, now)) {
        et_flag_set(&et_limit_reached, number == SIGALRM);
        et_flag_set(&et_stop_requested, true);
        tell(number == SIGALRM ? limit_text : stop_text);
    } else if (hurries(number) && now - first >= IMPATIENT) {
        _exit(128 + number);
    }
    errno = saved;
}

/* A second request before the first is served is the same request. */
static void on_save(int number)
{
    int saved = errno;
    (void)number;
    if (!et_flag_is_set(&et_save_requested))
        tell(save_text);
    et_flag_set(&et_save_requested, true);
    errno = saved;
}

/* No file is left half written: files appear by rename only. */
static void on_leave(int number)
{
    (void)number;
    tell(leave_text);
    _exit(ET_EXIT_INTERRUPTED);
}

/* Closes standard input: a read that was about to begin finds its end, and a waiting read is
 * interrupted. */
static void on_stop_with_input(int number)
{
    int saved = errno, nothing = open("/dev/null", O_RDONLY);
    on_stop(number);
    if (nothing >= 0) {
        dup2(nothing, STDIN_FILENO);
        close(nothing);
    }
    errno = saved;
}

/* Whether the signal is ignored: by nohup, or by a shell for background jobs. Our own handler is
 * never SIG_IGN, so this works at any time. */
static bool is_ignored(int number)
{
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

/* With SA_RESTART, reads and writes continue, so no function below handles signals. */
static void handle_signals(void (*on_end)(int number), int flags, void (*on_usr1)(int number))
{
    /* sigaction and not signal: a handler stays in place after it has run. */
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_end;
    action.sa_flags = flags;
    for (int i = 0; i < STOPS; i++)
        if (!stops[i].may_be_ignored || !is_ignored(stops[i].number))
            sigaction(stops[i].number, &action, NULL);
    action.sa_flags = SA_RESTART;
    action.sa_handler = on_usr1;
    sigaction(SIGUSR1, &action, NULL);
}

void et_signals_catch(const char *erase_bar, bool quiet)
{
    et_assert(erase_bar);
    erase = erase_bar;
    stop_text = quiet ? ""
                      : "stopping     saving a checkpoint; Ctrl-C or SIGTERM again (after a "
                        "second) quits without saving";
    limit_text = quiet ? "" : "time limit   reached: saving a checkpoint";
    save_text = quiet ? "" : "saving       a checkpoint after this step, as asked";
    handle_signals(on_stop, SA_RESTART, on_save);
}

void et_signals_catch_stops(void)
{
    handle_signals(on_stop, SA_RESTART, SIG_IGN);
}

void et_signals_catch_stops_of_server(const char *text)
{
    et_assert(text);
    stop_text = text;
    signal(SIGPIPE, SIG_IGN);
    handle_signals(on_stop, 0, SIG_IGN);
}

void et_signals_catch_with_input(void)
{
    handle_signals(on_stop_with_input, 0, SIG_DFL);
}

static sigset_t awaited_signals(void)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGXCPU, SIGUSR1, SIGALRM, SIGCHLD };
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        sigaddset(&set, numbers[i]);
    return set;
}

void et_signals_block(sigset_t *before)
{
    const sigset_t set = awaited_signals();
    sigprocmask(SIG_BLOCK, &set, before);
}

int et_signals_wait(void)
{
    const sigset_t set = awaited_signals();
    const struct timespec moment = { 0, 200000000 };
    const int number = sigtimedwait(&set, NULL, &moment);
    return number > 0 && number != SIGCHLD ? number : 0;
}

void et_leave_on_signals(const char *text)
{
    et_assert(text);
    leave_text = text;
    handle_signals(on_leave, SA_RESTART, SIG_IGN);
}
