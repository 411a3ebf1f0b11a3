/* Scores of hypotheses and references, printed as by sacrebleu: for `score` and `evaluate`. Several
 * outputs for the same references are compared in a table. */
#ifndef ETUDE_COMMAND_TRANSLATION_SCORES_H
#define ETUDE_COMMAND_TRANSLATION_SCORES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/fields.h>
#include <etude/options.h>
#include <etude/value.h>

/* How scores are computed and printed. Zeros, but tokenize, are sacrebleu's defaults. */
typedef struct et_score_options {
    et_strings metrics;    /* of --metrics; empty: BLEU and chrF2 */
    int tokenize;          /* its number among et_score_tokens; -1: sacrebleu's default, 13a */
    bool lowercase;        /* of BLEU and chrF2 */
    bool case_sensitive;   /* of TER */
    bool model_garden;     /* also Model Garden's uncased BLEU */
    int width;             /* decimals */
    bool significance;     /* resample */
    int64_t samples, seed; /* of resampling */
} et_score_options;

/* Rows of a table of options: metrics, tokenize, lowercase and case_sensitive. */
extern const et_option et_scores_options[];

/* Values of --tokenize: sacrebleu's names, ended by NULL. */
extern const char *const et_score_tokens[];

/* ET_EUSAGE: an unknown metric. */
int et_scores_check(const et_score_options *options, et_error *error);

/* Prints to standard output; or, of results (a dict), adds "values" with the names that validation
 * has for them, and "signatures". ET_EDATA: text is not UTF-8. */
int et_scores_print(const char *const *hypotheses, const char *const *references, size_t count,
                    const et_score_options *options, et_value *results, et_error *error);

#endif
