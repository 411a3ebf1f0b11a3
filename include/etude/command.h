/* The whole command, for a program with tasks of its own: train, evaluate, average, inspect, init,
 * list and what its kinds add.
 *
 *     static const et_task_kind *const kinds[] = { &rings };
 *     int code = et_command_main(argc, argv, kinds, 1);         what main returns
 *
 * This is the process: it prints, handles signals (SIGINT and SIGTERM save and end a training) and
 * gives the exit code. Results go to standard output, everything else to standard error. */
#ifndef ETUDE_COMMAND_H
#define ETUDE_COMMAND_H

#include <etude/experiment.h>

/* What a program is made of. */
typedef struct et_program {
    const char *name; /* as typed, for messages */
    const et_task_kind *const *kinds;
    int count;
    const struct et_command *commands; /* the library's own: what every program has */
} et_program;

/* How a command was called. */
typedef struct et_call {
    const et_program *program;
    const char *command;
    int argc; /* arguments behind the command's name */
    char **argv;
    void *options; /* the struct of the command's usage, filled in; NULL: it has no usage */
} et_call;

/* A row of a table of commands. */
typedef struct et_command {
    const char *name; /* as typed */
    /* Results go to standard output. Without a usage it parses its words itself, and with --help
     * alone prints how it is called and does nothing else. NULL: a group of commands. */
    int (*run)(const et_call *call, et_error *error);
    const char *help;                  /* a line for `--help` */
    const et_usage *usage;             /* its options; NULL: it has none that help can show */
    const struct et_command *commands; /* of a group, ended by a row without a name */
} et_command;

#define ET_COMMAND(name_, run_, help_, usage_)                                                     \
    {                                                                                              \
        .name = (name_), .run = (run_), .help = (help_), .usage = (usage_)                         \
    }
#define ET_COMMAND_END                                                                             \
    {                                                                                              \
        .name = NULL                                                                               \
    }

/* Runs the command that argv names: the exit code. 0 done, 1 failed, 2 usage, 3 settings or data,
 * 4 memory or disk, 5 diverged, 75 interrupted and saved. kinds: at least one. */
ET_API int et_command_main(int argc, char **argv, const et_task_kind *const *kinds, int count);

#endif
