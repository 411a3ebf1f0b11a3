/* Scores of hypotheses against references, printed as sacrebleu does: for `score` and
 * `evaluate`. */
#ifndef ETUDE_CLI_SCORES_H
#define ETUDE_CLI_SCORES_H

#include <stdbool.h>
#include <stddef.h>

#include <etude/error.h>

typedef struct et_score_options {
    const char *tokenize; /* "13a", "none", "char"; NULL: 13a */
    bool lowercase;
    bool model_garden; /* also Model Garden's uncased BLEU */
    int width;         /* decimals */
} et_score_options;

/* Prints to standard output. ET_EDATA: the counts differ, or text is not UTF-8. */
int et_scores_print(const char *const *hypotheses, size_t hypothesis_count,
                    const char *const *references, size_t reference_count,
                    const et_score_options *options, et_error *error);

#endif
