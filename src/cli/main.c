/* etude: the command. Results go to standard output, everything else to standard error.
 *
 * What is here is the process: its streams, its messages and its exit code; what signals mean is in
 * signals.c. A command is a function that gets its arguments and returns a status; what it prints
 * is results. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <etude/log.h>
#include <etude/version.h>

#include "base/assert.h"
#include "base/fields.h"
#include "cli/command.h"
#include "cli/stack.h"
#include "cli/uncaught.h"
#include "cli/waiting.h"
#include "io/progress.h"
#include "kernel/kernels.h"

/* Rows: name, function, one line of help, in the order help shows them. To add one, see
 * README.md. */
static const et_command commands[] = {
    { "train", et_cmd_train, "train a model, or go on where it was interrupted" },
    { "evaluate", et_cmd_evaluate, "score a trained model on parallel text" },
    { "translate", et_cmd_translate, "translate lines from standard input" },
    { "score", et_cmd_score, "BLEU and chrF of lines from standard input" },
    { "average", et_cmd_average, "average the weights of checkpoints" },
    { "inspect", et_cmd_inspect, "show a checkpoint and say whether it is sound" },
    { "list", et_cmd_list, "list experiments, or all settings of one" },
};

#define COMMAND_COUNT (sizeof commands / sizeof commands[0])

/* Names of files are in messages, and may hold anything: a message is one line, and no escape
 * sequence reaches the terminal. */
static void make_printable(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
}

/* Above the bar where there is one. 2,100 bytes: an error's text twice and the word before it. */
static void show_message(void *payload, et_log_level level, const char *text)
{
    et_progress *progress = payload;
    if (level < ET_LOG_WARNING)
        return;
    char line[2100];
    snprintf(line, sizeof line, "%s: %s", level == ET_LOG_ERROR ? "error" : "warning", text);
    make_printable(line);
    if (progress)
        et_progress_message(progress, line);
    else
        fprintf(stderr, "etude: %s\n", line);
}

/* NULL: lines on standard error. The bar must outlive this, or be replaced by NULL first. */
void et_show_log_on(struct et_progress *progress)
{
    et_log_set(show_message, progress);
}

/* Help that was asked for is a result; help in place of a missing command is a message. */
static void print_help(FILE *to)
{
    fprintf(to, "usage: etude COMMAND [OPTION]...\n\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(to, "    %-10s %s\n", commands[i].name, commands[i].help);
    fprintf(to, "\n`etude COMMAND --help` says more and gives an example.\n");
}

/* The nearest by et_nearest, or none if none is near. */
static int unknown_command(const char *name, et_error *error)
{
    /* The list ends in NULL, as et_nearest wants it. */
    const char *names[COMMAND_COUNT + 1] = { NULL };
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        names[i] = commands[i].name;
    return et_fail(error, ET_EUSAGE, "no command %s%s; `etude --help` shows all", name,
                   et_nearest_hint(name, names, "").text);
}

/* argv: what stands behind the command's name. */
static int run_command(const char *name, int argc, char **argv, et_error *error)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (!strcmp(name, commands[i].name))
            return commands[i].run(argc, argv, error);
    return unknown_command(name, error);
}

/* `etude help train` is `etude train --help`. Anything behind a second word is passed over. */
static int help(int argc, char **argv, et_error *error)
{
    /* argv is not const by tradition, so this is an array that could be written to. */
    static char option[] = "--help", *const options[] = { option, NULL };
    if (argc)
        return run_command(argv[0], 1, (char **)options, error);
    print_help(stdout);
    return ET_OK;
}

/* `etude`, `etude --help`, `etude help COMMAND`, `etude --version`, or a command. */
static int run(int argc, char **argv, et_error *error)
{
    /* Help on standard error: nobody asked for it, so it is no result. */
    if (argc < 2) {
        print_help(stderr);
        return et_fail(error, ET_EUSAGE, "no command given");
    }
    const char *name = argv[1];
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help"))
        return help(argc - 2, argv + 2, error);
    if (!strcmp(name, "--version")) {
        printf("etude %s\n", et_version());
        return ET_OK;
    }
    return run_command(name, argc - 2, argv + 2, error);
}

/* Exit codes, as the manual has them: 2 the command line; 3 settings, data, files of the user's;
 * 4 memory or disk; 5 the loss; 75 interrupted, start again; 1 all else. Scripts rely on them. */
static int exit_code(int status)
{
    switch (status) {
    case ET_OK:
        return 0;
    case ET_EUSAGE:
        return 2;
    case ET_ECONFIG:
    case ET_EDATA:
    case ET_EFORMAT:
    case ET_ENOTFOUND:
    case ET_EGRAPH:
    case ET_EDENIED:
        return 3;
    case ET_ENOMEM:
    case ET_ENOSPACE:
        return 4;
    case ET_EDIVERGED:
        return 5;
    case ET_EINTERRUPTED:
        return ET_EXIT_INTERRUPTED;
    default:
        return 1;
    }
}

/* A program may be started with these closed; then the first file opened would take their
 * place, and messages would end in it. Opened the wrong way round, so that use still fails. */
static void hold_standard_streams(void)
{
    /* Standard input can only be written to, the others only read: every use of them fails at
     * once. */
    static const int modes[] = { O_WRONLY, O_RDONLY, O_RDONLY };
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", modes[fd]) != fd)
            _exit(1);
}

/* An interruption is no failure and has no "etude:" before it. */
static void print_failure(int status, et_error *error)
{
    make_printable(error->text);
    fprintf(stderr, status == ET_EINTERRUPTED ? "%s\n" : "etude: %s\n", error->text);
}

/* The variable that chooses kernels is for trying and comparing: a misspelt one would compare
 * the same kernels with themselves. */
static void check_isa(void)
{
    /* Unset, or a name that this CPU has: nothing to say. */
    const char *wanted = et_kernels_wanted();
    char names[256] = "";
    if (!wanted || et_kernels_named(wanted))
        return;
    for (int i = 0; et_kernels_names[i]; i++)
        if (et_kernels_named(et_kernels_names[i])) {
            size_t length = strlen(names);
            snprintf(names + length, sizeof names - length, "%s%s", length ? ", " : "",
                     et_kernels_names[i]);
        }
    et_log(ET_LOG_WARNING, "ETUDE_ISA=%s names no kernels of this CPU, so %s are used; it has: %s",
           wanted, et_kernels_best()->name, names);
}

/* Standard output is flushed and looked at before the exit code is made: a full disk behind a
 * pipe is a failure of the command, though nothing in it noticed. */
static int begin(int argc, char **argv)
{
    et_error error = ET_ERROR_INIT;
    hold_standard_streams();
    signal(SIGXFSZ, SIG_IGN); /* a write past ulimit -f fails, and says so */
    et_show_log_on(NULL);
    et_say_uncaught(exit_code(ET_ENOMEM));
    check_isa();
    int status = run(argc, argv, &error);
    if (!status && (fflush(stdout) || ferror(stdout)))
        status = et_fail_errno(&error, "standard output");
    if (status)
        print_failure(status, &error);
    return exit_code(status);
}

int main(int argc, char **argv)
{
    /* First, since it may begin the program anew. */
    et_shorten_waiting(argv);
    return et_with_stack(begin, argc, argv);
}
