/* The fewest edits from a hypothesis to a reference, where an edit inserts, deletes or replaces a
 * word, or moves a block of words (Snover et al. 2006, "A study of translation edit rate with
 * targeted human annotation", https://aclanthology.org/2006.amta-papers.25). Moves are searched
 * greedily: of all moves of a block to where the reference has it, the one that saves most is made,
 * until none saves anything. Limits are those of Tercom, and results those of sacrebleu 2:
 *
 *   - a block has at most 10 words and moves to a place at most 50 words away;
 *   - the distance between two lines is computed in a band of 25 words around the diagonal;
 *   - at most 1,000 moves of a pair are tried.
 *
 *     et_shift_edits edits = { 0 };
 *     if (et_shift_edits_count(&edits, &hypothesis, &reference, &count, &error)) ...
 *     et_shift_edits_release(&edits); */
#ifndef ETUDE_METRIC_SHIFT_EDITS_H
#define ETUDE_METRIC_SHIFT_EDITS_H

#include <stddef.h>
#include <stdint.h>

#include "base/text/unicode.h"

/* Memory for one pair, used again for the next; all owned. Zeros are empty. Row i of the matrix is
 * for the first i words of the hypothesis; its cells are for columns from first[i], a column for
 * each number of reference words. */
typedef struct et_shift_edits {
    et_codes words, moved; /* the hypothesis after the moves so far, and with one more */
    size_t *begin;         /* [rows + 1] of a row's cells in the next three */
    size_t *first;         /* [rows] */
    int32_t *cost, *trial; /* of words and of moved */
    char *step;            /* of words: how its cell was reached */
    size_t row_capacity, cell_capacity, column_capacity;
    int64_t *align;        /* [reference] the word before which a reference word stands; -1: none */
    char *reference_wrong; /* [reference] 1: it does not match */
    char *wrong;           /* [hypothesis] the same */
} et_shift_edits;

/* Words are numbers; equal words have equal ones (et_words_number). */
int et_shift_edits_count(et_shift_edits *edits, const et_codes *hypothesis,
                         const et_codes *reference, int64_t *count, et_error *error);

void et_shift_edits_release(et_shift_edits *edits);

#endif
