/* What scores of <etude/score.h> and metrics made of them share. */
#ifndef ETUDE_METRIC_SCORE_H
#define ETUDE_METRIC_SCORE_H

#include <stddef.h>

#include <etude/score.h>

/* ET_EDATA, with both counts, unless there are as many hypotheses as references and some. */
int et_score_check_counts(size_t hypotheses, size_t references, et_error *error);

/* The formulas, of sums however they came to be; of no pairs 0. */
void et_bleu_compute(et_bleu_result *result, const et_bleu_counts *counts,
                     const et_bleu_options *options);
double et_chrf_compute(const et_chrf_counts *counts);

#endif
