/* The whole command for a program with its own tasks: train, evaluate, average, inspect, init,
 * list, and the commands of its kinds of task.
 *
 *     static const et_task_kind *const kinds[] = { &rings };
 *     int code = et_command_main(argc, argv, kinds, 1);         main returns code
 *
 * et_command_main acts for the whole process: it prints, handles signals (SIGINT and SIGTERM save a
 * training and end it) and returns the exit code. Results go to standard output, everything else to
 * standard error. */
#ifndef ETUDE_COMMAND_H
#define ETUDE_COMMAND_H

#include <etude/experiment.h>

/* The parts of a program. */
typedef struct et_program {
    const char *name; /* the word that starts the program, for messages */
    const et_task_kind *const *kinds;
    int count;
    const struct et_command *commands; /* internal: the commands that every program has */
    const struct et_synonym *synonyms; /* internal: words of other tools */
} et_program;

/* A call of a command. */
typedef struct et_call {
    const et_program *program;
    const char *command;
    int argc; /* arguments after the command's name */
    char **argv;
    void *options; /* the struct of the command's usage, filled in; NULL: the command has no
                      usage */
} et_call;

/* A row of a table of commands. */
typedef struct et_command {
    const char *name; /* the word on the command line */
    /* Runs the command and prints results to standard output. A command without usage parses its
     * arguments itself; if --help is the only one, it prints how to call the command and does
     * nothing else. NULL: a group of commands. */
    int (*run)(const et_call *call, et_error *error);
    const char *help;                  /* one line for `--help` */
    const et_usage *usage;             /* its options; NULL: no options that help can show */
    const struct et_command *commands; /* the commands of a group, ended by a row without a name */
} et_command;

#define ET_COMMAND(name_, run_, help_, usage_)                                                     \
    {                                                                                              \
        .name = (name_), .run = (run_), .help = (help_), .usage = (usage_)                         \
    }
#define ET_COMMAND_END                                                                             \
    {                                                                                              \
        .name = NULL                                                                               \
    }

/* Runs the command that argv names and returns the exit code: 0 done, 1 failed, 2 usage, 3 settings
 * or data, 4 memory or disk, 5 diverged, 75 interrupted and saved. kinds: at least one. */
ET_API int et_command_main(int argc, char **argv, const et_task_kind *const *kinds, int count);

#endif
