/* What a shell may put in the place of the last word of a line: candidates for a value, by what the
 * value is called (<etude/options.h>). Each is a whole word, so it begins with what stands before
 * the value in the same word, "--set=". */
#ifndef ETUDE_COMMAND_PAGES_OFFERS_H
#define ETUDE_COMMAND_PAGES_OFFERS_H

#include <stdio.h>

#include <etude/command.h>

#include "base/map.h"
#include "base/text/strbuf.h"

typedef struct et_offers {
    const et_program *program;
    const et_task_kind *kind; /* whose settings are offered; NULL: those of all kinds */
    et_strbuf text;           /* a line for each: the word and, behind a tab, what it is */
    et_map known;             /* words that are there */
} et_offers;

/* Adds a word that begins with typed. before: what stands before it; help NULL: nothing to say. */
void et_offers_add(et_offers *offers, const char *before, const char *typed, const char *word,
                   const char *help);

/* Adds what a value may be: the word nth of those that it is called by. choice: a small word of the
 * name is typed as it is, though it is the only one. */
void et_offers_add_value(et_offers *offers, const char *before, const char *typed,
                         const char *called, int nth, bool choice);

/* Adds the commands of the program. */
void et_offers_add_commands(et_offers *offers, const char *typed);

void et_offers_release(et_offers *offers);

#endif
