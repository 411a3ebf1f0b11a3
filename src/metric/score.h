/* What scores of <etude/score.h> and metrics made of them share. */
#ifndef ETUDE_METRIC_SCORE_H
#define ETUDE_METRIC_SCORE_H

#include <stddef.h>
#include <stdint.h>

#include <etude/score.h>

/* ET_EDATA, with both counts, unless there are as many hypotheses as references and some. */
int et_score_check_counts(size_t hypotheses, size_t references, et_error *error);

/* ET_EDATA unless both are there; names the line and the side that is NULL. */
int et_score_check_pair(const char *hypothesis, const char *reference, int64_t line,
                        et_error *error);

/* Adds size bytes of counts, int64_t all, to sum. ET_EDATA: one is negative, or a sum does not
 * fit; sum is as before. */
int et_score_add_counts(void *sum, const void *counts, size_t size, et_error *error);

/* Decimals of a score that can be printed. */
int et_score_width(int width);

/* The formulas, of sums however they came to be; of no pairs 0. */
void et_bleu_compute(et_bleu_result *result, const et_bleu_counts *counts,
                     const et_bleu_options *options);
double et_chrf_compute(const et_chrf_counts *counts);

/* Adds line by line. ET_EDATA before the first is added: the two counts differ, or are 0. */
int et_bleu_add_corpus(et_bleu *bleu, const char *const *hypotheses, size_t hypothesis_count,
                       const char *const *references, size_t reference_count, et_error *error);
int et_chrf_add_corpus(et_chrf *chrf, const char *const *hypotheses, size_t hypothesis_count,
                       const char *const *references, size_t reference_count, et_error *error);

#endif
