/* Scores of hypotheses and references, printed as by sacrebleu: for `score` and `evaluate`. */
#ifndef ETUDE_COMMAND_TRANSLATION_SCORES_H
#define ETUDE_COMMAND_TRANSLATION_SCORES_H

#include <stdbool.h>
#include <stddef.h>

#include <etude/value.h>

/* How scores are computed and printed: what --tokenize, --lowercase and --width say. */
typedef struct et_score_options {
    int tokenize; /* its place among et_score_tokens; -1: sacrebleu's default, 13a */
    bool lowercase;
    bool model_garden; /* also Model Garden's uncased BLEU */
    int width;         /* decimals */
} et_score_options;

/* What --tokenize may be: sacrebleu's names, ended by NULL. */
extern const char *const et_score_tokens[];

/* Prints to standard output; or, of results (a dict), adds "values" with the names that validation
 * has for them, and "signatures". ET_EDATA: text is not UTF-8. */
int et_scores_print(const char *const *hypotheses, const char *const *references, size_t count,
                    const et_score_options *options, et_value *results, et_error *error);

#endif
