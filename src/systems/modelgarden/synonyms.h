/* Words of other tools, and their counterparts here. A program has one table for its options,
 * commands and experiments (et_program.synonyms).
 *
 *     { ET_SYNONYM_OPTION, "val validation", "train tune", "valid", NULL }    is --valid
 *     { ET_SYNONYM_OPTION, "fp16", "train tune", NULL, "float16 is not ..." } gives this message
 *
 * In texts, `etude` in front of a command is the program's name. A test checks that each option,
 * setting, command and experiment that a row or its text names exists. */
#ifndef ETUDE_SYSTEMS_MODELGARDEN_SYNONYMS_H
#define ETUDE_SYSTEMS_MODELGARDEN_SYNONYMS_H

#include <stdbool.h>
#include <stddef.h>

#include <etude/command.h>

#include "base/text/strbuf.h"

typedef enum et_synonym_of {
    ET_SYNONYM_NONE, /* the end of the table */
    ET_SYNONYM_OPTION,
    ET_SYNONYM_COMMAND,
    ET_SYNONYM_EXPERIMENT,
} et_synonym_of;

typedef struct et_synonym {
    et_synonym_of of;
    const char *words;    /* with blanks between them; - and _ are equal */
    const char *commands; /* of an option: with blanks between them; NULL: all */
    const char *same; /* of an option: the option, or the setting (with a dot, and perhaps a value:
                         a.b=1) with exactly this meaning; NULL: none */
    const char *text; /* what to do instead; NULL: a row with `same` */
} et_synonym;

/* Whether a row has this word [length]. */
bool et_synonym_has(const et_synonym *row, const char *word, size_t length);
/* Whether an option's row is for this command. */
bool et_synonym_is_for(const et_synonym *row, const char *command);
/* The first row with this word; NULL: no such row, or the program has no table. */
const et_synonym *et_synonym_find(const et_program *program, et_synonym_of of, const char *word);
/* Appends ": TEXT", with the program's name in TEXT's commands. row NULL: appends nothing. */
void et_synonym_print(et_strbuf *out, const et_synonym *row, const et_program *program);

#endif
