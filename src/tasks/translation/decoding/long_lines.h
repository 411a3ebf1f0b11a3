/* Lines with more tokens than a model reads: they are cut at ends of sentences, else at blanks, and
 * their translations are joined again. */
#ifndef ETUDE_TASKS_TRANSLATION_DECODING_LONG_LINES_H
#define ETUDE_TASKS_TRANSLATION_DECODING_LONG_LINES_H

#include "tasks/translation/decoding/translator_private.h"

/* The pieces of all lines, in order. In the arena, or borrowed from the lines. */
typedef struct et_long_lines {
    const char *const *pieces; /* [count] */
    size_t count;
    const size_t *line; /* [count] the index of its line; NULL: its own, no line is cut */
    const bool *blank;  /* [count] a blank of the line was before it */
} et_long_lines;

/* lines: valid UTF-8. A warning names each line that is cut. */
int et_long_lines_cut(et_long_lines *out, const et_translator *translator, const char *const *lines,
                      size_t count, et_arena *arena, et_error *error);

/* Joins translations of pieces, which become those of lines: results[0] to results[lines - 1]. The
 * others are freed. ET_ENOMEM: some results are there, and some pieces. */
int et_long_lines_join(const et_long_lines *cut, char **pieces, char **results, size_t lines,
                       et_error *error);

#endif
