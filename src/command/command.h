/* Shared declarations of the commands: signals, and where messages go. Each command is one file and
 * a row of the table in etude/dispatch.c, or of its kind of task. Only the folders of `command`
 * print, and only this one exits and handles signals.
 *
 * Every command has the same order, so that errors are found as early as possible:
 *
 *   parse      by the caller, with the command's table of options (options/options.h)
 *   check      required values and names; nothing is read or written yet
 *   read       files of lines, settings, the model
 *   work       in the library; results to standard output or to the named file
 *   release    everything, for any status; the status is returned
 *
 * etude/dispatch.c turns the status into an exit code, and its message into one line on standard
 * error. */
#ifndef ETUDE_COMMAND_COMMAND_H
#define ETUDE_COMMAND_COMMAND_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include <etude/command.h>

/* A command, and its options and help. */
#define ET_COMMAND_NAMED(name)                                                                     \
    int et_cmd_##name(const et_call *call, et_error *error);                                       \
    extern const et_usage et_usage_##name

ET_COMMAND_NAMED(train);
ET_COMMAND_NAMED(tune);
ET_COMMAND_NAMED(evaluate);
ET_COMMAND_NAMED(average);
ET_COMMAND_NAMED(keys);
ET_COMMAND_NAMED(init);
ET_COMMAND_NAMED(inspect);
ET_COMMAND_NAMED(list);
ET_COMMAND_NAMED(launch);
ET_COMMAND_NAMED(serve);
ET_COMMAND_NAMED(watch);
ET_COMMAND_NAMED(plot);
ET_COMMAND_NAMED(compare);
ET_COMMAND_NAMED(runs);
ET_COMMAND_NAMED(completion);

/* Commands of every program, in the order of help; etude/dispatch.c. */
extern const et_command et_commands_general[];

#define ET_COMMANDS_MAX 64

/* The commands of a program: general ones and those of its kinds. If several commands have one
 * name, the first is used. */
typedef struct et_commands {
    const et_command *row[ET_COMMANDS_MAX]; /* in the order of help */
    size_t count;
} et_commands;

et_commands et_commands_of(const et_program *program);

/* NULL: no command has this name. */
const et_command *et_commands_find(const et_commands *all, const char *name);

/* The command with this name for runs of a kind; NULL: no such command. */
const et_command *et_command_of(const et_program *program, const et_task_kind *kind,
                                const char *name);

/* Exit code of an interrupted command that can be started again (EX_TEMPFAIL of sysexits.h). */
#define ET_EXIT_INTERRUPTED 75

/* signals.c. A stop is SIGINT, SIGTERM, SIGHUP (unless it was ignored when the program began) or
 * SIGXCPU. After et_signals_catch, a stop sets the first flag and prints a line at once; SIGINT and
 * SIGTERM a second after it or later end the process. SIGUSR1 sets the other flag. erase_bar
 * (static) removes a progress bar from the terminal's last line; quiet: prints nothing, because
 * another process does. */
extern volatile sig_atomic_t et_stop_requested, et_save_requested;
/* True if a time limit (SIGALRM) requested the stop. */
extern volatile sig_atomic_t et_limit_reached;
void et_signals_catch(const char *erase_bar, bool quiet);

/* As et_signals_catch, but a stop only sets its flag and prints nothing. SIGUSR1 does nothing. */
void et_signals_catch_stops(void);

/* For a command that serves. A stop prints text (static), and waiting calls return. A client that
 * disconnects during an answer does not end the process. */
void et_signals_catch_stops_of_server(const char *text);

/* For a command that reads standard input: a stop also ends the reading. SIGUSR1 keeps its
 * handler. */
void et_signals_catch_with_input(void);

/* Until et_signals_catch, a stop ends the process at once, with the exit code of an interruption
 * and text (static) on standard error. For work without partial results, which may be inside a
 * library that cannot be stopped. SIGUSR1 does nothing. */
void et_leave_on_signals(const char *text);

/* For a command that waits for its processes: SIGCHLD and the signals that it passes on to them
 * are blocked, and et_signals_wait takes them; *before is for SIG_SETMASK. */
void et_signals_block(sigset_t *before);

/* Waits a little. The signal to pass on; 0: none. */
int et_signals_wait(void);

/* print.c. Prints an error as one line on standard error, once: error's text is empty
 * afterwards. main prints the error of a command; a command that must print it earlier calls
 * this. */
void et_tell_failure(const et_program *program, int status, et_error *error);

/* Prints the library's warnings on standard error: above a progress bar if there is one, else after
 * the program's name. The bar must outlive this setting, or be replaced by NULL before. */
struct et_progress;
void et_show_log_on(const et_program *program, struct et_progress *progress);

/* A line above a progress bar, or with NULL on standard error; for listeners of a library. */
void et_show_line(void *progress, const char *line);

/* Checksums of printed warnings, because several trainings on the same data give the same
 * warnings. */
#define ET_REPORTED_MAX 64
typedef struct et_reported {
    uint64_t text[ET_REPORTED_MAX];
    int count;
} et_reported;

/* Prints only warnings, for --quiet. The progress has no descriptor, or shows a bar and no lines;
 * the copy of its lines gets the warnings too. Borrowed. */
typedef struct et_quiet_log {
    const et_program *program;
    struct et_progress *progress; /* NULL: none */
    et_reported *reported;        /* prints a warning once; NULL: each time */
    bool bar;                     /* warnings appear above it */
} et_quiet_log;
void et_show_log_quietly(et_quiet_log *log);

#endif
