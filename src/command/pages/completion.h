/* Completion of a shell, made of what help is made of: commands, options, the words that a value
 * may be, experiments, files, directories of runs; and of the tables of settings: their names, a
 * part between dots at a time, and the words that they may be. A script is whole by itself: it asks
 * neither the command nor another package while one types. Settings are those of the experiment
 * that stands on the line, or of the run there (its params.yaml begins with the name), else all. */
#ifndef ETUDE_COMMAND_PAGES_COMPLETION_H
#define ETUDE_COMMAND_PAGES_COMPLETION_H

#include "base/text/strbuf.h"
#include "command/pages/described.h"

/* A command with all ways to call it, and what is asked of it. */
typedef struct et_completion {
    const et_program *program;
    const et_commands *commands;
    const et_description *described; /* [commands->count] */
    const char *word;                /* the program's name, as far as a function may have it */
    const et_strbuf *settings;       /* [kinds of the program]: et_completion_settings */
} et_completion;

/* Appends "task.a= task.b=true|false ...": names, and after the sign the words that may follow. */
int et_completion_settings(et_strbuf *to, const et_program *program, const et_task_kind *kind,
                           et_error *error);

void et_completion_bash(FILE *to, const et_completion *all);
void et_completion_zsh(FILE *to, const et_completion *all);
void et_completion_fish(FILE *to, const et_completion *all);

/* For shells that have sh's functions: _WORD_settings EXPERIMENT prints these, of an experiment
 * that is not known those of all kinds. */
void et_completion_print_settings(FILE *to, const et_completion *all);

/* Prints a part of a script in which @@ stands for WORD. */
void et_completion_print_lines(FILE *to, const et_completion *all, const char *text);

/* Appends text in single quotes. */
void et_shell_quote(et_strbuf *to, const char *text);

/* Appends the words of a value and names of experiments and commands, with blanks between. */
void et_completion_words(et_strbuf *to, const et_completion *all, const et_completes *value);

/* Whether an option is offered: not those of other systems that take nothing here. A row of the
 * same name in an earlier way to call the command was offered there. */
bool et_completion_offers(const et_description *described, const et_described *in,
                          const et_arg *row);

/* What plain words of a command may be, in any of its ways, with the command's second word. */
et_completes et_completion_plain(const et_description *described);

#endif
