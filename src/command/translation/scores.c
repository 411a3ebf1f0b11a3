/* Prints scores as sacrebleu does (Post 2018, "A call for clarity in reporting BLEU scores"): the
 * value with its parts, and the signature, which gives the rules. Two lines, BLEU and chrF2, and on
 * request a third: Model Garden's uncased BLEU, which has no signature and so gets a name.
 *
 * The scores check both lists of lines for UTF-8; the caller has compared the numbers of lines. */
#include "command/translation/scores.h"

#include <stdio.h>
#include <string.h>

#include <etude/score.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "command/print.h"
#include "metric/score.h"
#include "tasks/translation/translation_options.h"

/* Where a score is printed: a line, or its value and signature. */
typedef struct target {
    int width;
    et_value *values, *signatures; /* NULL: lines */
} target;

static void put(const target *to, const char *name, double score, const char *signature)
{
    et_value_set_float(to->values, name, score);
    et_value_set_string(to->signatures, name, signature);
}

/* A score of the lines, which goes with it. signature: NULL: the score's own. */
static int print_score(et_score *score, const char *name, const char *signature,
                       const char *const *hypotheses, const char *const *references, size_t count,
                       const target *to, et_error *error)
{
    et_assert(count > 0);
    et_score_result result = { .score = 0 };
    char text[ET_SCORE_TEXT_MAX], own[ET_SCORE_TEXT_MAX];
    int status = et_score_add_corpus(score, hypotheses, count, references, count, error);
    if (!status)
        status = et_score_value(score, &result, error);
    if (!signature)
        signature = et_score_signature(score, own);
    if (!status && to->values)
        put(to, name, result.score, signature);
    else if (!status) /* sacrebleu's format puts the signature between "BLEU" and the number */
        et_print(stdout, "%s\n", et_score_print(score, &result, to->width, signature, text));
    et_score_free(score);
    return status;
}

/* Model Garden's rules are fixed, and its score has no signature: it gets a name. */
static int print_garden(const char *const *hypotheses, const char *const *references, size_t count,
                        const target *to, et_error *error)
{
    et_bleu_options options = ET_BLEU_OPTIONS_MODEL_GARDEN;
    et_score *score;
    int status = et_bleu_new(&score, &options, error);
    return status ? status
                  : print_score(score, ET_TRANSLATION_GARDEN_BLEU, "model-garden-uncased",
                                hypotheses, references, count, to, error);
}

/* ORDER et_bleu_tokens. */
const char *const et_score_tokens[] = { "13a", "none", "char", NULL };

/* Model Garden's tokenization is fixed, so --tokenize and --lowercase do not change its line. */
int et_scores_print(const char *const *hypotheses, const char *const *references, size_t count,
                    const et_score_options *options, et_value *results, et_error *error)
{
    /* Options change sacrebleu's defaults; chrF2 only has a choice of case. */
    et_bleu_options bleu = ET_BLEU_OPTIONS_INIT;
    et_chrf_options chrf = { .lowercase = options->lowercase };
    target to = { .width = options->width };
    if (options->tokenize >= 0)
        bleu.tokens = (et_bleu_tokens)options->tokenize;
    bleu.lowercase = options->lowercase;
    if (results) {
        to.values = et_value_set_dict(results, "values");
        to.signatures = et_value_set_dict(results, "signatures");
    }
    if (results && !to.signatures)
        return et_alloc_failed(error, 0, "scores");
    et_score *score;
    int status = et_bleu_new(&score, &bleu, error);
    if (!status)
        status = print_score(score, ET_TRANSLATION_BLEU, NULL, hypotheses, references, count, &to,
                             error);
    if (!status)
        status = et_chrf_new(&score, &chrf, error);
    if (!status)
        status = print_score(score, ET_TRANSLATION_CHRF, NULL, hypotheses, references, count, &to,
                             error);
    if (!status && options->model_garden)
        status = print_garden(hypotheses, references, count, &to, error);
    return status;
}
