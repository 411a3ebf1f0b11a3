/* An empty corpus and two of different lengths are refused by every score before it reads a
 * line: paired by chance, they would give a number that looks like a score. */
#include "metric/score.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"

/* Which of the two it is decides about the words. */
int et_score_check_counts(size_t hypotheses, size_t references, et_error *error)
{
    if (hypotheses != references)
        return et_fail(error, ET_EDATA,
                       "%zu hypotheses but %zu references: give equal numbers of lines (an empty "
                       "translation is an empty line)",
                       hypotheses, references);
    if (!references)
        return et_fail(error, ET_EDATA, "nothing to score: no pair of hypothesis and reference");
    return 0;
}

int et_score_check_pair(const char *hypothesis, const char *reference, int64_t line,
                        et_error *error)
{
    if (hypothesis && reference)
        return 0;
    return et_fail(error, ET_EDATA, "%s line %" PRId64 ": the text is NULL; an empty line is \"\"",
                   hypothesis ? "reference" : "hypothesis", line);
}

/* More than both metrics have. */
enum { COUNTS_MAX = 32 };

int et_score_add_counts(void *sum, const void *counts, size_t size, et_error *error)
{
    int64_t to[COUNTS_MAX], from[COUNTS_MAX];
    et_assert(size <= sizeof to && size % sizeof *to == 0);
    memcpy(to, sum, size);
    memcpy(from, counts, size);
    for (size_t i = 0; i < size / sizeof *to; i++)
        if (from[i] < 0 || __builtin_add_overflow(to[i], from[i], &to[i]))
            return et_fail(error, ET_EDATA, "counts to merge: %" PRId64 " is not a valid count",
                           from[i]);
    memcpy(sum, to, size);
    return 0;
}

int et_score_width(int width)
{
    return width < 0 ? 0 : width > 17 ? 17 : width;
}
