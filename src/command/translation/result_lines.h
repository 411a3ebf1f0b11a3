/* Prints results of lines, as text or as JSON.
 *
 *     et_result_lines how = { .scores = true };
 *     et_result_lines_print(&text, found, lines, 0, &how);
 *
 *   Ein Hund rennt.                                              one result
 *   Ein Hund rennt. ||| 0-0 1-1 2-2                              with alignments, source-target
 *   0 ||| Ein Hund rennt. ||| logp=-1.8301 score=-0.9204         several results, or with scores
 *   {"line": 0, "hypotheses": [{"text": "Ein Hund rennt.", "score": -0.9204,
 *    "log_probability": -1.8301, "alignment": [[0, 0], [1, 1], [2, 2]]}]}       as JSON
 *
 * JSON is on one line, with full numbers; "alignment" is there if it was requested. */
#ifndef ETUDE_COMMAND_TRANSLATION_RESULT_LINES_H
#define ETUDE_COMMAND_TRANSLATION_RESULT_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include <etude/hypotheses.h>

#include "base/text/strbuf.h"

typedef struct et_result_lines {
    bool json, scores, alignments;
    bool several; /* results of a line, so that its number is needed */
} et_result_lines;

/* first: the number of the first of the lines, from 0. */
void et_result_lines_print(et_strbuf *out, const et_hypotheses *found, size_t lines, size_t first,
                           const et_result_lines *how);

/* [{"text": ..., "score": ..., "log_probability": ...}, ...]: the results of one line. */
void et_result_lines_print_json(et_strbuf *out, const et_hypotheses *found, size_t line,
                                bool alignments);

#endif
