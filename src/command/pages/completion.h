/* Completion of a shell, made of what help is made of: commands, options, the words that a value
 * may be, experiments, files, and directories of runs. A script is whole by itself: it asks neither
 * the command nor another package while one types. */
#ifndef ETUDE_COMMAND_PAGES_COMPLETION_H
#define ETUDE_COMMAND_PAGES_COMPLETION_H

#include "base/strbuf.h"
#include "command/pages/described.h"

/* A command with all ways to call it, and what is asked of it. */
typedef struct et_completion {
    const et_program *program;
    const et_commands *commands;
    const et_description *described; /* [commands->count] */
    const char *word;                /* the program's name, as far as a function may have it */
} et_completion;

void et_completion_bash(FILE *to, const et_completion *all);
void et_completion_zsh(FILE *to, const et_completion *all);
void et_completion_fish(FILE *to, const et_completion *all);

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
