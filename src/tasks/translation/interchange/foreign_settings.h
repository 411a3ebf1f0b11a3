/* Settings of other programs as tables. A row has a field of the other program's file and its
 * counterpart in Etude: a setting of task.model or a fact about the files. Import reads a table and
 * export writes the same table, both in the order of its rows.
 *
 *   config.json --et_foreign_read--> settings, facts --et_foreign_write--> config.json
 *
 * If a row has no counterpart, its field must have one fixed value. If a row has no field, its
 * setting has one value in all models of the program. Separate code of import and export handles
 * relations of several fields, symbols and files. */
#ifndef ETUDE_TASKS_TRANSLATION_INTERCHANGE_FOREIGN_SETTINGS_H
#define ETUDE_TASKS_TRANSLATION_INTERCHANGE_FOREIGN_SETTINGS_H

#include <etude/error.h>
#include <etude/value.h>

#include <stddef.h>
#include <stdint.h>

#include "tasks/translation/settings/translation_options.h"
#include "tasks/translation/settings/vocabularies.h"

typedef enum et_foreign_kind {
    ET_FOREIGN_END,      /* the row after the last */
    ET_FOREIGN_COUNT,    /* 0 to INT32_MAX; required */
    ET_FOREIGN_OPTIONAL, /* 0 to INT32_MAX; if missing or null, the fact is unchanged */
    ET_FOREIGN_SIZE,     /* 1 to `number`; with `why`, it divides the width, which is read before */
    ET_FOREIGN_WIDTH,    /* even, at least 4 */
    ET_FOREIGN_BEAMS,    /* 1 to 64; 1 if missing or null */
    ET_FOREIGN_POWER,    /* 0 to 10; `number` if missing or null */
    ET_FOREIGN_RATE,     /* 0 to 1; `number` if missing or null */
    ET_FOREIGN_FLAG,     /* true or false; `number` if missing or null */
    ET_FOREIGN_WORD,     /* one of `words`; the first if missing. `number` 1: required */
    /* Always `number`, or one of `words`, of which the first is written; a list without other
     * elements. A missing field, or null, has this value. Import ignores a field without `why`. */
    ET_FOREIGN_IS_FLAG,
    ET_FOREIGN_IS_COUNT,
    ET_FOREIGN_IS_REAL,
    ET_FOREIGN_IS_WORD,
    ET_FOREIGN_IS_LIST,
} et_foreign_kind;

typedef struct et_foreign_row {
    const char *field;   /* in the other program; several in a table that is only read; NULL: no
                            counterpart */
    const char *setting; /* of task.model; "*.name": of both stacks; NULL: no counterpart */
    et_foreign_kind kind;
    double number;
    const char *why;                           /* ends the message that refuses a value */
    const char *const *words, *const *written; /* ended by NULL; written: of WORD */
    const char *needs;                         /* `written` in a message */
    size_t fact;                               /* offset in et_foreign_model; 0: no fact */
} et_foreign_row;

/* Tables of a program, ended by ET_FOREIGN_END. */
typedef struct et_foreign_program {
    const char *name;           /* in messages of export */
    bool retrains;              /* these messages propose another training */
    const et_foreign_row *both; /* read and written */
    const et_foreign_row *read; /* only read; export refuses a model with other settings */
    const et_foreign_row *search, *search_read; /* as both and read, of the file with the settings
                                                   of the search */
} et_foreign_program;

extern const et_foreign_program et_foreign_transformers, et_foreign_marian;
extern const et_foreign_row et_foreign_symbols[]; /* of both files of transformers */

/* A model between two programs. */
typedef struct et_foreign_model {
    et_value *settings;       /* task.model, borrowed; reading needs its two stacks */
    int64_t tokens[ET_SIDES]; /* rows of the two tables */
    int64_t eos, pad, start;  /* numbers of the symbols */
    int64_t shared, tied;     /* truth: both sides have one table; the target's is the output's */
    int64_t only_shared, only_tied, all_tied; /* shared and tied as Marian's fields express them */
    int64_t positions, longest; /* rows of the positions, longest target; 0: not given */
} et_foreign_model;

/* A file of settings, a dict; borrowed. */
typedef struct et_foreign_file {
    const char *name; /* in messages */
    const et_value *values;
    const struct et_foreign_file *older; /* file in which fields missing in this file are searched;
                                            NULL: none */
} et_foreign_file;

/* The value of a field, and the file that has it; NULL: neither has it. */
const et_value *et_foreign_find(const et_foreign_file **file, const char *field);

/* ET_ECONFIG: "config.json: FIELD is VALUE, WHY" */
int et_foreign_refuse(const et_foreign_file *file, const et_value *value, const char *why,
                      et_error *error);

/* Reads all rows. ET_ECONFIG, ET_EFORMAT: names the file, the field and its value. m->settings
 * remembers a lack of memory. */
int et_foreign_read(const et_foreign_file *file, const et_foreign_row *rows, et_foreign_model *m,
                    et_error *error);

/* Appends all fields; dict remembers a lack of memory. */
void et_foreign_write(const et_foreign_row *rows, const et_foreign_model *m, et_value *dict);

/* task.model as values in arena; NULL: no memory. */
et_value *et_foreign_settings(const et_translation_options *options, et_arena *arena);

/* ET_ECONFIG: names a setting that the program does not have, and the cure. */
int et_foreign_check(const et_foreign_program *program, const et_translation_options *options,
                     et_error *error);

#endif
