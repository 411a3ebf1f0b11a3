#include "tasks/translation/score.h"

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
