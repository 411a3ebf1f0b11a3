#include "metric/score.h"

#include <inttypes.h>
#include <stdio.h>

#include <etude/version.h>

#include "base/text/format.h"

/* TER: edits over words of the references, in percent; of empty references 100, or 0 if the
 * hypotheses are empty, too. Words are what white space separates, as in Tercom without its
 * normalization. */

static int words(const et_score *ter, et_tokenizer *tokenizer, const char *text, const char *side,
                 int64_t line, et_error *error)
{
    int status =
        et_tokenizer_run(tokenizer, ET_BLEU_TOKENS_NONE, ter->options.lowercase, text, error);
    return status ? et_fail_while(error, status, "%s line %" PRId64, side, line) : 0;
}

static int count_pair(et_score *ter, et_score_counts *out, int64_t line, const char *hypothesis,
                      const char *reference, et_error *error)
{
    et_ter_counts *counts = &out->ter;
    int status = words(ter, &ter->hypothesis, hypothesis, "hypothesis", line, error);
    if (!status)
        status = words(ter, &ter->reference, reference, "reference", line, error);
    if (!status)
        status = et_words_number(&ter->words, &ter->hypothesis_words, &ter->reference_words,
                                 &ter->hypothesis.line, &ter->reference.line, error);
    if (!status)
        status = et_shift_edits_count(&ter->edits, &ter->hypothesis_words, &ter->reference_words,
                                      &counts->edits, error);
    if (status)
        return status;
    counts->pairs = 1;
    counts->ref_len = (int64_t)ter->reference_words.count;
    return ET_OK;
}

static int check(const et_score_counts *counts, et_error *error)
{
    const et_ter_counts *ter = &counts->ter;
    if (!ter->pairs && (ter->edits || ter->ref_len))
        return et_fail(error, ET_EDATA, "counts to merge: %" PRId64 " edits, but no pair",
                       ter->edits);
    return ET_OK;
}

static void compute(const et_score *ter, et_score_result *result, const et_score_counts *counts)
{
    (void)ter;
    const et_ter_counts *c = &counts->ter;
    const double ratio = c->ref_len ? (double)c->edits / (double)c->ref_len : c->edits > 0;
    *result = (et_score_result){ .score = 100 * ratio, .ref_len = c->ref_len };
}

static void sign(const et_score *ter, char text[ET_SCORE_TEXT_MAX])
{
    snprintf(text, ET_SCORE_TEXT_MAX,
             "nrefs:1|case:%s|tok:tercom|norm:no|punct:yes|asian:no|version:etude-%s",
             ter->options.lowercase ? "lc" : "mixed", ET_VERSION);
}

static void print(const et_score_result *result, int width, const char *name,
                  char text[ET_SCORE_TEXT_MAX])
{
    snprintf(text, ET_SCORE_TEXT_MAX, "%s = %s", name, et_format_fixed(result->score, width).text);
}

static const et_score_class class = { .title = "TER",
                                      .size = sizeof(et_ter_counts),
                                      .count = count_pair,
                                      .check = check,
                                      .compute = compute,
                                      .sign = sign,
                                      .print = print };

int et_ter_new(et_score **out, const et_ter_options *options, et_error *error)
{
    const et_bleu_options own = { .lowercase = !options || !options->case_sensitive };
    return et_score_new(out, &class, &own, error);
}
