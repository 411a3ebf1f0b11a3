/* Scores of hypotheses against references, printed as sacrebleu does: for `score` and
 * `evaluate`. */
#ifndef ETUDE_TASKS_TRANSLATION_COMMAND_SCORES_H
#define ETUDE_TASKS_TRANSLATION_COMMAND_SCORES_H

#include <stdbool.h>
#include <stddef.h>

#include <etude/value.h>

/* How scores are computed and printed: what --tokenize, --lowercase and --width say. */
typedef struct et_score_options {
    const char *tokenize; /* "13a", "none", "char"; NULL: 13a */
    bool lowercase;
    bool model_garden; /* also Model Garden's uncased BLEU */
    int width;         /* decimals */
} et_score_options;

/* ET_EUSAGE: no such tokenization; to be asked before long work. */
int et_scores_check(const et_score_options *options, et_error *error);

/* Prints to standard output; or, of results (a dict), adds "values" with the names that validation
 * has for them, and "signatures". ET_EDATA: text is not UTF-8. */
int et_scores_print(const char *const *hypotheses, const char *const *references, size_t count,
                    const et_score_options *options, et_value *results, et_error *error);

#endif
