/* Candidates for the last word of a command line, by the name of the value (<etude/options.h>).
 * Each candidate is a whole word: it begins with the text before the value in the same word,
 * "--set=". */
#ifndef ETUDE_COMMAND_PAGES_OFFERS_H
#define ETUDE_COMMAND_PAGES_OFFERS_H

#include <stdio.h>

#include <etude/command.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/text/strbuf.h"

typedef struct et_offers {
    const et_program *program;
    const et_task_kind *kind; /* whose settings are offered; NULL: all kinds */
    et_strbuf text;           /* one line each: word, tab, description */
    et_map known;             /* words that are in text, in arena */
    et_arena arena;
} et_offers;

/* Adds before and word, if word begins with typed. help: description of the word; NULL: none. */
void et_offers_add(et_offers *offers, const char *before, const char *typed, const char *word,
                   const char *help);

/* Adds the possible values for word nth of a value's name. choice: a small word is a candidate even
 * if it is the only one. */
void et_offers_add_value(et_offers *offers, const char *before, const char *typed,
                         const char *called, int nth, bool choice);

/* Adds the commands of the program. */
void et_offers_add_commands(et_offers *offers, const char *typed);

void et_offers_release(et_offers *offers);

#endif
