/* What the help of commands says, kept in place of printed: man pages and completion are made of
 * it, so a table of options is written once. A command is asked for its help as a person asks; that
 * it is to be kept stands in the call, where et_args_help sees it. Of a command that prints its
 * help by itself, as one of a program's own does, what it printed is kept.
 *
 *     et_description all = ET_DESCRIPTION_INIT;
 *     status = et_describe(&all, program, row, &error);
 *     for (const et_described *one = all.first; one; one = one->next) ...
 *     et_description_release(&all); */
#ifndef ETUDE_COMMAND_PAGES_DESCRIBED_H
#define ETUDE_COMMAND_PAGES_DESCRIBED_H

#include "base/arena.h"
#include "command/command.h"
#include "command/options/args.h"

/* A way to call a command. One name has several where kinds of task have commands of their own, or
 * where it is a group of commands. All texts live as long as the description. */
typedef struct et_described {
    const char *command;       /* as typed: "train", "tfx train" */
    const char *kind;          /* of task whose command it is, of several of one name; else NULL */
    const char *about;         /* "" where there is a text */
    const char *example;       /* what stands behind the command's name; NULL: none */
    const char *text;          /* printed by the command itself; NULL where there are rows */
    const et_arg *rows;        /* without targets, ended by ET_ARG_END */
    struct et_described *next; /* NULL: it is the last */
} et_described;

typedef struct et_description {
    et_arena arena;
    et_described *first, *last;
    const char *kind; /* of what is added */
} et_description;

#define ET_DESCRIPTION_INIT                                                                        \
    {                                                                                              \
        ET_ARENA_INIT, NULL, NULL, NULL                                                            \
    }

/* Adds all ways to call the command of a row (of et_commands). Standard output is turned aside
 * meanwhile. ET_ENOMEM, or what the command says of --help. */
int et_describe(et_description *to, const et_program *program, const et_command *row,
                et_error *error);

/* What et_args_help does in such a call. The table is copied. */
void et_description_add(et_description *to, const et_call *call, const et_arg *table,
                        const char *about, const char *example);

void et_description_release(et_description *description);

/* The words that a value may be, as its name in help says it: "float32|int8" has two, in FILE, DIR,
 * RUN and the like any name of that kind. */
typedef struct et_completes {
    char words[256]; /* with blanks between; "" if any */
    int most;        /* words that belong to the option; 0: it is a flag */
    bool files, directories, runs, experiments, commands;
    bool settings; /* KEY=VALUE */
} et_completes;

et_completes et_completes_of(const et_arg *row);

#endif
