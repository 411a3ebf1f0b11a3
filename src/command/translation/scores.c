/* Prints scores as sacrebleu (Post 2018, "A call for clarity in reporting BLEU scores") does:
 * the value with its parts, and the signature, which says by what rules it was made. Two lines,
 * BLEU and chrF2; a third where asked for, Model Garden's own uncased BLEU, which has no
 * signature and so gets a name.
 *
 * Both lists of lines are checked by the scores themselves for UTF-8; counts were compared
 * before. */
#include "command/translation/scores.h"

#include <stdio.h>
#include <string.h>

#include <etude/score.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "command/print.h"
#include "metric/score.h"
#include "tasks/translation/translation_options.h"

/* Where a score goes: a line, or its value and signature. */
typedef struct place {
    int width;
    et_value *values, *signatures; /* NULL: lines */
} place;

static void put(const place *to, const char *name, double score, const char *signature)
{
    et_value_set_float(to->values, name, score);
    et_value_set_string(to->signatures, name, signature);
}

/* garden: Model Garden's, which has no signature and so gets a name. */
static int print_bleu(const char *const *hypotheses, const char *const *references, size_t count,
                      const et_bleu_options *bleu_options, bool garden, const place *to,
                      et_error *error)
{
    et_assert(count > 0);
    et_bleu *bleu;
    et_bleu_result result;
    char text[ET_SCORE_TEXT_MAX], signature[ET_SCORE_TEXT_MAX] = "model-garden-uncased";
    int status = et_bleu_new(&bleu, bleu_options, error);
    if (status)
        return status;
    status = et_bleu_add_corpus(bleu, hypotheses, count, references, count, error);
    if (!status)
        status = et_bleu_value(bleu, &result, error);
    if (!status && !garden)
        et_bleu_signature(bleu, signature);
    if (!status && to->values)
        put(to, garden ? ET_TRANSLATION_GARDEN_BLEU : ET_TRANSLATION_BLEU, result.score, signature);
    else if (!status) /* sacrebleu's form: the signature stands between BLEU and the number */
        et_print(stdout, "%s\n", et_bleu_print(&result, to->width, signature, text));
    et_bleu_free(bleu);
    return status;
}

/* Only case is a choice here; the rest is chrF2's. */
static int print_chrf(const char *const *hypotheses, const char *const *references, size_t count,
                      const et_score_options *options, const place *to, et_error *error)
{
    /* chrF2 with sacrebleu's orders: 6 of characters, none of words. */
    et_chrf_options chrf_options = { .lowercase = options->lowercase };
    et_chrf *chrf;
    double score;
    char text[ET_SCORE_TEXT_MAX], signature[ET_SCORE_TEXT_MAX];
    int status = et_chrf_new(&chrf, &chrf_options, error);
    if (status)
        return status;
    status = et_chrf_add_corpus(chrf, hypotheses, count, references, count, error);
    if (!status)
        status = et_chrf_value(chrf, &score, error);
    if (!status)
        et_chrf_signature(chrf, signature);
    if (!status && to->values)
        put(to, ET_TRANSLATION_CHRF, score, signature);
    else if (!status)
        et_print(stdout, "%s\n", et_chrf_print(score, to->width, signature, text));
    et_chrf_free(chrf);
    return status;
}

/* ORDER et_bleu_tokens. */
const char *const et_score_tokens[] = { "13a", "none", "char", NULL };

/* Model Garden's rules are fixed: neither --tokenize nor --lowercase changes its line. */
int et_scores_print(const char *const *hypotheses, const char *const *references, size_t count,
                    const et_score_options *options, et_value *results, et_error *error)
{
    /* sacrebleu's defaults, on top of which the options come; Model Garden's as they are. */
    et_bleu_options bleu = ET_BLEU_OPTIONS_INIT, garden = ET_BLEU_OPTIONS_MODEL_GARDEN;
    place to = { .width = options->width };
    if (options->tokenize >= 0)
        bleu.tokens = (et_bleu_tokens)options->tokenize;
    bleu.lowercase = options->lowercase;
    if (results) {
        to.values = et_value_set_dict(results, "values");
        to.signatures = et_value_set_dict(results, "signatures");
    }
    if (results && !to.signatures)
        return et_alloc_failed(error, 0, "scores");
    int status = print_bleu(hypotheses, references, count, &bleu, false, &to, error);
    if (!status)
        status = print_chrf(hypotheses, references, count, options, &to, error);
    if (!status && options->model_garden)
        status = print_bleu(hypotheses, references, count, &garden, true, &to, error);
    return status;
}
