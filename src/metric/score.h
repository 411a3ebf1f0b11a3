/* What all scores of <etude/score.h> refuse in the same words. */
#ifndef ETUDE_METRIC_SCORE_H
#define ETUDE_METRIC_SCORE_H

#include <stddef.h>

#include <etude/error.h>

/* ET_EDATA, with both counts, unless there are as many hypotheses as references and some. */
int et_score_check_counts(size_t hypotheses, size_t references, et_error *error);

#endif
