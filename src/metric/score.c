/* An empty corpus and two of different lengths are refused by every score before it reads a
 * line: paired by chance, they would give a number that looks like a score. */
#include "metric/score.h"

/* Which of the two it is decides about the words. */
int et_score_check_counts(size_t hypotheses, size_t references, et_error *error)
{
    if (hypotheses != references)
        return et_fail(error, ET_EDATA,
                       "%zu hypotheses but %zu references: each line of one needs its line in the "
                       "other (an empty translation is an empty line)",
                       hypotheses, references);
    if (!references)
        return et_fail(error, ET_EDATA, "nothing to score: no pair of hypothesis and reference");
    return 0;
}
