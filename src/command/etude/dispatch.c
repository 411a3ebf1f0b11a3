/* The command of any program. Results go to standard output, everything else to standard error.
 *
 * This file has the table of general commands, finds the command and runs it, and sets the streams
 * and the exit code of the process. print.c prints messages, signals.c handles signals. A command
 * is a function that gets its arguments and returns a status; it prints results. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <etude/log.h>
#include <etude/version.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "command/command.h"
#include "command/lost_file.h"
#include "command/options/named_run.h"
#include "command/options/options.h"
#include "command/pages/pages.h"
#include "command/print.h"
#include "command/ranks.h"
#include "engine/comm/comm.h"
#include "engine/kernel/kernels.h"
#include "systems/modelgarden/experiment.h"
#include "train/checkpoint/artifact/artifact.h"

/* The general commands, in the order of help. Help shows the commands of the kinds of task after
 * the first row. To add a command, see README.md. */
#define ROW(name, help) ET_COMMAND(#name, et_cmd_##name, help, &et_usage_##name)

const et_command et_commands_general[] = {
    ROW(train, "train a model, or resume where it was interrupted"),
    ROW(tune, "search for better settings by trials"),
    ROW(evaluate, "evaluate a trained model"),
    ROW(average, "average the weights of checkpoints"),
    ROW(inspect, "show a checkpoint, and check whether it is intact"),
    ROW(init, "write a file of settings that you can change"),
    ROW(list, "list experiments, or the settings of one"),
    ROW(launch, "train with several processes on this machine"),
    ROW(plot, "draw curves of the logged values"),
    ROW(runs, "list runs with progress, results and settings"),
    ROW(compare, "compare runs"),
    ROW(keys, "make the keys of a cluster's tasks"),
    ROW(watch, "follow runs in a browser"),
    ROW(serve, "serve a trained model over HTTP"),
    ROW(completion, "print the completion script for bash, zsh or fish"),
    ET_COMMAND_END,
};

/* Help that was asked for is a result; help in place of a missing command is a message. */
static void print_help(const et_program *program, FILE *to)
{
    et_commands all = et_commands_of(program);
    fprintf(to, "usage: %s COMMAND [OPTION]...\n\n", program->name);
    for (size_t i = 0; i < all.count; i++)
        fprintf(to, "    %-10s %s\n", all.row[i]->name, all.row[i]->help);
    fputc('\n', to);
    et_print_help(to, "`%s COMMAND --help` explains a command and gives an example.\n",
                  program->name);
    et_print_help(to, "`%s version` prints the version.\n", program->name);
}

/* For lines that all ranks would print: drops standard output of all other ranks from now on. */
static void report_first(void)
{
    const int nowhere = et_comm_started_rank() ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;
    if (nowhere < 0)
        return;
    dup2(nowhere, STDOUT_FILENO);
    close(nowhere);
}

static int unknown_command(const et_call *call, const et_commands *all, et_error *error)
{
    /* The list ends in NULL, as et_nearest_hint wants it. */
    const char *names[ET_COMMANDS_MAX + 1] = { NULL };
    for (size_t i = 0; i < all->count; i++)
        names[i] = all->row[i]->name;
    et_strbuf hint = ET_STRBUF_INIT;
    et_synonym_print(&hint, et_synonym_find(call->program, ET_SYNONYM_COMMAND, call->command),
                     call->program);
    if (!hint.length)
        et_strbuf_append(&hint, et_nearest_hint(call->command, names, "").text);
    int status = et_fail(error, ET_EUSAGE, "no command %s%s; `%s --help` shows all", call->command,
                         et_strbuf_text(&hint), call->program->name);
    et_strbuf_release(&hint);
    return status;
}

/* Looks for help before the words are parsed, because the command, and so the table of options, may
 * not be known yet. */
static bool asks_for_help(const et_call *call)
{
    for (int i = 0; i < call->argc && strcmp(call->argv[i], "--"); i++)
        if (!strcmp(call->argv[i], "--help") || !strcmp(call->argv[i], "-h"))
            return true;
    return false;
}

/* Whether a kind names this command as the one that uses its trained models. Then its argument is a
 * model directory. */
static bool is_for_models(const et_program *program, const char *command)
{
    for (int k = 0; k < program->count; k++)
        if (program->kinds[k]->next && !strcmp(program->kinds[k]->next, command))
            return true;
    return false;
}

static bool has_form(const et_option *rows, et_option_form form)
{
    for (const et_option *row = rows; row && row->field.name; row++)
        if (row->form == form || (row->form == ET_OPTION_FORM_GROUP && has_form(row->rows, form)))
            return true;
    return false;
}

/* Whether the command has an option of a form, such as ET_OPTION_FORM_TASK. */
static bool command_has(const et_command *row, et_option_form form)
{
    return row->usage && has_form(row->usage->options, form);
}

static bool has_name(const et_option *rows, const char *name, size_t length)
{
    for (const et_option *row = rows; row && row->field.name; row++) {
        const et_option_name typed = et_option_typed(row);
        if (row->form == ET_OPTION_FORM_GROUP
                ? has_name(row->rows, name, length)
                : strlen(typed.text) == length && !memcmp(typed.text, name, length))
            return true;
    }
    return false;
}

/* Whether the command has an option with this name. word: "--name", perhaps "--name=value". */
static bool command_takes(const et_command *row, const char *word)
{
    et_assert(!strncmp(word, "--", 2));
    return row->usage && has_name(row->usage->options, word + 2, strcspn(word + 2, "="));
}

/* Whether a command takes one task of a run of several, by whatever kind. */
static bool takes_task(const et_call *call, const et_command *row)
{
    bool takes = command_has(row, ET_OPTION_FORM_TASK);
    for (int k = 0; k < call->program->count && !takes; k++) {
        const et_command *own =
            et_command_of(call->program, call->program->kinds[k], call->command);
        takes = own && command_has(own, ET_OPTION_FORM_TASK);
    }
    return takes;
}

/* Fails with the message for a run whose kind lacks this command. */
static int not_for(const et_call *call, const et_command *row, const et_named_run *named,
                   et_error *error)
{
    char *folder = NULL;
    int status = !named->of_task && takes_task(call, row)
                     ? et_artifact_check_single(named->run, error)
                     : ET_OK;
    if (status && named->task)
        status = et_artifact_find_member(&folder, named->run, named->task, error);
    et_free(folder);
    if (status)
        return et_fail_while(error, status, "%s", call->command);
    if (is_for_models(call->program, call->command))
        return et_fail(error, ET_ECONFIG, "%s: this is a %s model; use `%s %s`", call->command,
                       named->kind->name, call->program->name,
                       named->kind->next ? named->kind->next : "evaluate");
    const et_task_kind *const *kind = call->program->kinds;
    while (et_command_of(call->program, *kind, call->command) != row)
        kind++;
    return command_takes(row, "--model-dir")
               ? et_fail(error, ET_ECONFIG, "%s: this is a %s model; `%s %s` takes %s models",
                         call->command, named->kind->name, call->program->name, call->command,
                         (*kind)->name)
               : ET_OK;
}

/* Whether kinds have different commands of this name. Otherwise the command is known without the
 * run's settings. */
static bool differs_by_kind(const et_program *program, const et_command *row)
{
    for (int k = 0; k < program->count; k++)
        if (et_command_of(program, program->kinds[k], row->name) != row)
            return true;
    return false;
}

/* The kind whose command takes *word of the line, which own does not take; NULL: none. */
static const et_task_kind *kind_taking(const char **word, const et_call *call,
                                       const et_command *own)
{
    const et_program *program = call->program;
    for (int i = 0; i < call->argc && strcmp(call->argv[i], "--") != 0; i++)
        for (int k = 0; k < program->count && !strncmp(call->argv[i], "--", 2); k++) {
            const et_command *other = et_command_of(program, program->kinds[k], call->command);
            *word = call->argv[i];
            if (other && other != own && command_takes(other, *word) && !command_takes(own, *word))
                return program->kinds[k];
        }
    return NULL;
}

/* If several kinds have a command of this name, the run's kind selects one; without a run, the
 * options do. If the run's kind lacks this command, the message names a command that fits. */
static int choose(const et_command **row, const et_call *call, const et_commands *all,
                  et_error *error)
{
    *row = et_commands_find(all, call->command);
    const bool asks = *row && call->program->count > 1 && differs_by_kind(call->program, *row);
    const et_named_run named = asks ? et_run_named(call) : (et_named_run){ .kind = NULL };
    const bool helps = asks_for_help(call);
    const char *word;
    const et_task_kind *kind =
        named.kind || !asks || helps ? named.kind : kind_taking(&word, call, *row);
    const et_command *own = kind ? et_command_of(call->program, kind, call->command) : NULL;
    int status = kind && !own && !helps ? not_for(call, *row, &named, error) : ET_OK;
    if (own && named.kind && (kind = kind_taking(&word, call, own)))
        status = et_fail(error, ET_EUSAGE,
                         "%s: %.*s is for %s models, and %.300s is a %s model; leave the option "
                         "out, or see `%s %s --help`",
                         call->command, (int)strcspn(word, "="), word, kind->name, named.run,
                         named.kind->name, call->program->name, call->command);
    *row = own ? own : *row;
    return status;
}

static int run_with(const et_command *row, et_call *call, et_arena *arena, et_error *error)
{
    et_assert(row->usage && row->run);
    et_command_line line;
    call->options = et_arena_alloc(arena, row->usage->size + 1);
    if (!call->options)
        return et_alloc_failed(error, "options");
    int status = et_command_line_open(&line, row->usage, call->options, call, arena, error);
    if (!status)
        status = et_command_line_parse(&line, error);
    const et_option_slot *quiet = et_command_line_find(&line, "quiet", 5);
    if (!status && !line.help && line.synonyms && !(quiet && *(const bool *)quiet->member) &&
        !et_comm_started_rank())
        et_print(stderr, "%-12s %s\n", "note", line.synonyms);
    if (status)
        return status;
    if (!line.help)
        return row->run(call, error);
    et_command_line_help(stdout, &line, row->usage);
    return ET_OK;
}

static void print_group(const et_command *row, const et_call *call, FILE *to)
{
    et_assert(row->commands && row->help);
    fprintf(to, "usage: %s %s COMMAND [OPTION]...\n\n%s.\n\n", call->program->name, row->name,
            row->help);
    for (const et_command *one = row->commands; one->name; one++)
        fprintf(to, "    %-10s %s\n", one->name, one->help);
}

/* The command of a group that the first word names, and its call. whole: "data analyze". *entered
 * does not change if help was printed, or after a failure. */
static int enter_group(const et_command *row, const et_command **entered, et_call *call,
                       char whole[64], et_error *error)
{
    if (!call->argc) {
        print_group(row, call, stderr);
        /* "train, predict or scaffold" */
        et_strbuf names = ET_STRBUF_INIT;
        for (const et_command *one = row->commands; one->name; one++)
            et_strbuf_printf(&names, "%s%s",
                             one == row->commands ? ""
                             : one[1].name        ? ", "
                                                  : " or ",
                             one->name);
        int status = et_fail(error, ET_EUSAGE, "%s: no command given: %s", row->name,
                             et_strbuf_text(&names));
        et_strbuf_release(&names);
        return status;
    }
    const char *name = call->argv[0];
    if (!strcmp(name, "--help") || !strcmp(name, "-h")) {
        print_group(row, call, stdout);
        return ET_OK;
    }
    const et_command *one = row->commands;
    while (one->name && strcmp(one->name, name))
        one++;
    if (!one->name) {
        const char *names[ET_COMMANDS_MAX + 1] = { NULL };
        for (int i = 0; i < ET_COMMANDS_MAX && row->commands[i].name; i++)
            names[i] = row->commands[i].name;
        return et_fail(error, ET_EUSAGE, "%s: no command %s%s", row->name, name,
                       et_nearest_hint(name, names, "").text);
    }
    snprintf(whole, 64, "%s %s", call->command, name);
    call->command = whole;
    call->argc--;
    call->argv++;
    *entered = one;
    return ET_OK;
}

/* Runs the command of a row. If the row is a group, the first word names the command. Parses the
 * words by the command's usage into call->options. If a word asks for help, prints help instead. */
static int run_row(const et_command *row, const et_call *call, et_error *error)
{
    et_call own = *call;
    if (row->commands) {
        char whole[64];
        const et_command *one = NULL;
        int status = enter_group(row, &one, &own, whole, error);
        return one ? run_row(one, &own, error) : status;
    }
    et_assert(row->run);
    et_arena arena = ET_ARENA_INIT;
    int status = row->usage ? run_with(row, &own, &arena, error) : row->run(&own, error);
    et_arena_release(&arena);
    return status;
}

/* Before ranks are connected, every rank parses the same words and finds the same errors, so one
 * rank prints them. Later, a rank sends its own error to the others. A printed error has no
 * text. */
static int tell_once(const et_program *program, const et_command *row, int status, et_error *error)
{
    bool shared = !row || et_ranks_may_run(program, row->name);
    return status && shared && error->text[0] ? et_ranks_leave(NULL, program, status, error)
                                              : status;
}

/* For help without a run: lists commands of the same name for other kinds of models, which have
 * other options. */
static int help_on_others(const et_call *call, const et_command *row, et_error *error)
{
    const et_program *program = call->program;
    int status = ET_OK;
    if (!asks_for_help(call) || !differs_by_kind(program, row) || et_run_named(call).kind)
        return ET_OK;
    for (int k = 0; k < program->count && !status; k++) {
        const et_command *own = et_command_of(program, program->kinds[k], call->command);
        bool reported = !own || own == row;
        for (int i = 0; i < k && !reported; i++)
            reported = et_command_of(program, program->kinds[i], call->command) == own;
        if (reported)
            continue;
        printf("\n%s of a %s model:\n\n", call->command, program->kinds[k]->name);
        status = run_row(own, call, error);
    }
    return status;
}

/* argv: the words after the command's name. */
static int run_command(const et_program *program, const char *name, int argc, char **argv,
                       et_error *error)
{
    const et_call call = { .program = program, .command = name, .argc = argc, .argv = argv };
    const et_commands all = et_commands_of(program);
    const et_command *row;
    if (asks_for_help(&call))
        report_first();
    int status = choose(&row, &call, &all, error);
    if (!status)
        status = row ? run_row(row, &call, error) : unknown_command(&call, &all, error);
    if (!status && row)
        status = help_on_others(&call, row, error);
    return tell_once(program, row, status, error);
}

/* name NULL: the program's own page. */
static int print_man(const et_program *program, const char *name, et_error *error)
{
    const et_commands all = et_commands_of(program);
    const et_call call = { .program = program, .command = name };
    const et_command *row = name ? et_commands_find(&all, name) : NULL;
    if (!name) {
        et_man_print_program(stdout, program, &all);
        return ET_OK;
    }
    if (!row)
        return unknown_command(&call, &all, error);
    return et_man_print(stdout, program, row, error);
}

/* `etude help train` is `etude train --help`, `etude help --man train` its page for man. Further
 * words after `help tfx` are ignored. */
static int help(const et_program *program, int argc, char **argv, et_error *error)
{
    for (int i = 0; i < 2 && i < argc; i++)
        if (!strcmp(argv[i], "--man") && argc > 2)
            return et_fail(error, ET_EUSAGE, "help --man: %s: name one command only", argv[2]);
    char option[] = "--help", *options[] = { option, NULL };
    report_first();
    if (argc && !strcmp(argv[0], "--man"))
        return print_man(program, argc > 1 ? argv[1] : NULL, error);
    if (argc > 1 && !strcmp(argv[1], "--man"))
        return print_man(program, argv[0], error);
    if (argc)
        return run_command(program, argv[0], 1, options, error);
    print_help(program, stdout);
    return ET_OK;
}

/* `etude`, `etude --help`, `etude help COMMAND`, `etude version`, or a command. */
static int run(const et_program *program, int argc, char **argv, et_error *error)
{
    /* Help goes to standard error, because nobody asked for it. */
    if (argc < 2) {
        if (!et_comm_started_rank())
            print_help(program, stderr);
        return tell_once(program, NULL, et_fail(error, ET_EUSAGE, "no command given"), error);
    }
    const char *name = argv[1];
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help"))
        return help(program, argc - 2, argv + 2, error);
    if (!strcmp(name, "--version") || !strcmp(name, "-V") || !strcmp(name, "version")) {
        report_first();
        printf("etude %s\n", et_version());
        return ET_OK;
    }
    if (!strcmp(name, "complete"))
        return et_complete(program, argc - 2, argv + 2, error);
    return run_command(program, name, argc - 2, argv + 2, error);
}

/* Exit codes, as in the manual: 2 the command line; 3 settings, data or the user's files; 4 memory
 * or disk; 5 the loss diverged; 75 interrupted, start again; 1 any other failure. Scripts rely on
 * these codes. */
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

/* Warns of a wrong name in the variable that chooses kernels. People use it to compare kernels, and
 * a misspelt name would compare the default with itself. */
static void check_isa(void)
{
    /* No warning if the variable is unset, or names kernels of this CPU. */
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
    et_log(ET_LOG_WARNING,
           "ETUDE_ISA=%s: this CPU has no such kernels; Etude uses %s (available: %s)", wanted,
           et_kernels_best()->name, names);
}

/* Whether the command's printed text is its result. Other commands run until they are stopped, and
 * report a lack of memory themselves. */
static bool prints(const char *command)
{
    static const char *const others[] = { "train", "launch", "serve", "watch" };
    for (size_t i = 0; command && i < sizeof others / sizeof others[0]; i++)
        if (!strcmp(command, others[i]))
            return false;
    return true;
}

int et_command_main(int argc, char **argv, const et_task_kind *const *kinds, int count)
{
    et_error error = ET_ERROR_INIT;
    const et_program program = { .name = argc ? et_path_base(argv[0]) : "etude",
                                 .kinds = kinds,
                                 .count = count,
                                 .commands = et_commands_general,
                                 .synonyms = et_synonyms };
    /* Opens standard streams that are closed. Otherwise the first opened file would take the number
     * of a stream, and messages would end in it. Standard input is opened for writing only, the
     * others for reading only, so every use of them fails immediately. */
    static const int modes[] = { O_WRONLY, O_RDONLY, O_RDONLY };
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", modes[fd]) != fd)
            _exit(1);
    et_tell_lost_files(program.name);
    signal(SIGXFSZ, SIG_IGN); /* a write past ulimit -f then fails with an error */
    et_show_log_on(&program, NULL);
    check_isa();
    int status = et_program_check(&program, &error);
    if (!status)
        status = run(&program, argc, argv, &error);
    /* Makes the command fail if the output could not be written (a full disk), although no function
     * noticed. It also fails if memory was short, because a list may be incomplete. */
    if (!status && (fflush(stdout) || ferror(stdout)))
        status = et_fail_errno(&error, "standard output");
    else if (!status && et_alloc_refused() && prints(argc > 1 ? argv[1] : NULL))
        status = et_fail(&error, ET_ENOMEM, "out of memory: the output may be incomplete");
    if (status)
        et_tell_failure(&program, status, &error);
    et_log_set(NULL, NULL);
    return exit_code(status);
}
