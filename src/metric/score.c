/* The common part of BLEU, chrF and TER: pairs become counts, counts are added, and a score is
 * computed from the counts.
 *
 * Every score first refuses an empty corpus and two corpora of different lengths: pairing lines by
 * chance would give a number that looks like a score. */
#include "metric/score.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

/* Which of the two it is decides about the words. */
static int check_counts(size_t hypotheses, size_t references, et_error *error)
{
    if (hypotheses != references)
        return et_fail(error, ET_EDATA,
                       "%zu hypotheses but %zu references: give equal numbers of lines (an empty "
                       "translation is an empty line)",
                       hypotheses, references);
    if (!references)
        return et_fail(error, ET_EDATA, "nothing to score: no pair of hypothesis and reference");
    return 0;
}

/* Names the line and the side that is NULL. */
static int check_pair(const char *hypothesis, const char *reference, int64_t line, et_error *error)
{
    if (hypothesis && reference)
        return 0;
    return et_fail(error, ET_EDATA, "%s line %" PRId64 ": the text is NULL; an empty line is \"\"",
                   hypothesis ? "reference" : "hypothesis", line);
}

/* More than both metrics have. */
enum { COUNTS_MAX = 32 };

int et_score_new(et_score **out, const et_score_class *class, const et_bleu_options *options,
                 et_error *error)
{
    /* Zeros are empty counts, and tokenizers and tables without memory. */
    et_score *score = et_alloc_zero(1, sizeof *score);
    *out = score;
    if (!score)
        return et_alloc_failed(error, sizeof *score, class->title);
    score->class = class;
    score->options = *options;
    return ET_OK;
}

void et_score_free(et_score *score)
{
    if (!score)
        return;
    et_tokenizer_release(&score->hypothesis);
    et_tokenizer_release(&score->reference);
    et_codes_release(&score->hypothesis_words);
    et_codes_release(&score->reference_words);
    et_words_release(&score->words);
    et_ngrams_release(&score->ngrams);
    et_shift_edits_release(&score->edits);
    et_free(score);
}

/* Memory and options stay. */
void et_score_clear(et_score *score)
{
    memset(&score->counts, 0, sizeof score->counts);
    score->line = 0;
}

int et_score_count(et_score *score, et_score_counts *counts, int64_t line, const char *hypothesis,
                   const char *reference, et_error *error)
{
    int status = check_pair(hypothesis, reference, line, error);
    return status ? status : score->class->count(score, counts, line, hypothesis, reference, error);
}

/* A pair that fails is not counted, and neither is its line. Messages count lines from 1: the next
 * one is line + 1. */
int et_score_add(et_score *score, const char *hypothesis, const char *reference, et_error *error)
{
    et_score_counts counts;
    int status = et_score_count(score, &counts, score->line + 1, hypothesis, reference, error);
    if (!status)
        status = et_score_merge(score, &counts, error);
    score->line += !status;
    return status;
}

/* Counts first: with different numbers of lines no pair is added. */
int et_score_add_corpus(et_score *score, const char *const *hypotheses, size_t hypothesis_count,
                        const char *const *references, size_t reference_count, et_error *error)
{
    int status = check_counts(hypothesis_count, reference_count, error);
    if (!status)
        status = check_pair((const char *)hypotheses, (const char *)references, 1, error);
    for (size_t i = 0; !status && i < reference_count; i++)
        status = et_score_add(score, hypotheses[i], references[i], error);
    return status;
}

void et_score_sum(const et_score *score, et_score_counts *sum, const et_score_counts *counts)
{
    int64_t *to = (int64_t *)(void *)sum;
    const int64_t *from = (const int64_t *)(const void *)counts;
    for (size_t i = 0; i < score->class->size / sizeof *to; i++)
        to[i] += from[i];
}

void et_score_compute(const et_score *score, et_score_result *result, const et_score_counts *counts)
{
    score->class->compute(score, result, counts);
}

/* Integers only, so the order of merging changes no bit. A failure changes nothing. */
int et_score_merge(et_score *score, const et_score_counts *counts, et_error *error)
{
    const size_t size = score->class->size;
    int64_t to[COUNTS_MAX], from[COUNTS_MAX];
    et_assert(size <= sizeof to && size % sizeof *to == 0);
    int status = score->class->check(counts, error);
    if (status)
        return status;
    memcpy(to, &score->counts, size);
    memcpy(from, counts, size);
    for (size_t i = 0; i < size / sizeof *to; i++)
        if (from[i] < 0 || __builtin_add_overflow(to[i], from[i], &to[i]))
            return et_fail(error, ET_EDATA, "counts to merge: %" PRId64 " is not a valid count",
                           from[i]);
    memcpy(&score->counts, to, size);
    return ET_OK;
}

/* No pair at all is an error, not a score of 0. */
int et_score_value(const et_score *score, et_score_result *result, et_error *error)
{
    if (!score->counts.bleu.pairs)
        return check_counts(0, 0, error);
    score->class->compute(score, result, &score->counts);
    return ET_OK;
}

/* Counts nothing: the sums are as before. */
int et_score_sentence(et_score *score, et_score_result *result, const char *hypothesis,
                      const char *reference, et_error *error)
{
    et_score_counts counts;
    int status = et_score_count(score, &counts, 1, hypothesis, reference, error);
    if (!status)
        score->class->compute(score, result, &counts);
    return status;
}

const et_score_counts *et_score_total(const et_score *score)
{
    return &score->counts;
}

char *et_score_signature(const et_score *score, char text[ET_SCORE_TEXT_MAX])
{
    score->class->sign(score, text);
    return text;
}

char *et_score_print(const et_score *score, const et_score_result *result, int width,
                     const char *signature, char text[ET_SCORE_TEXT_MAX])
{
    char name[ET_SCORE_TEXT_MAX];
    snprintf(name, sizeof name, "%s%s%s", score->class->title, signature ? "|" : "",
             signature ? signature : "");
    score->class->print(result, width < 0 ? 0 : width > 17 ? 17 : width, name, text);
    return text;
}

void et_shift_edits_release(et_shift_edits *e)
{
    et_codes_release(&e->words);
    et_codes_release(&e->moved);
    et_free(e->begin);
    et_free(e->first);
    et_free(e->wrong);
    et_free(e->cost);
    et_free(e->trial);
    et_free(e->step);
    et_free(e->align);
    et_free(e->reference_wrong);
    *e = (et_shift_edits){ 0 };
}
