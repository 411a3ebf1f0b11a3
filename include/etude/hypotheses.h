/* Several results of a line with their scores, targets that are scored, and the ways to search
 * that a plain translation does without (translator.h): sampling, noise, other ends, first tokens.
 *
 *     et_decoding_options decoding = { .results = 4 };
 *     et_translator_options options = { .beam_size = 4, .decoding = &decoding };
 *     et_hypotheses *found;
 *     if (et_translator_open(&t, "runs/help", &options, &error)) ...
 *     if (et_translator_search(t, lines, 2, &found, &error)) ...
 *     const et_hypothesis *best = et_hypotheses_at(found, 0, 0);
 *     printf("%s (%.2f)", best->text, best->score);
 *     et_hypotheses_free(found);
 *
 *     if (et_translator_score(t, lines, targets, 2, &found, &error)) ...     given translations
 *     for (size_t i = 0; i < 2; i++)
 *         printf("%d\n", (int)et_hypotheses_count(found, i));
 *
 * Beam search, samples and noise are those of Model Garden's BeamSearch and SamplingModule. What
 * differs: with several results wanted the search goes on until as many have finished, which never
 * changes the first; random numbers are functions of the seed, the line's number, the position and
 * the hypothesis, so a line's results depend on no other line. */
#ifndef ETUDE_HYPOTHESES_H
#define ETUDE_HYPOTHESES_H

#include <etude/translator.h>

/* Copied when the translator is opened. */
typedef struct et_decoding_options {
    int results;    /* of a line, best first: up to the beam's size; of samples, how many are
                       drawn, up to 64; 0: 1 */
    int alignments; /* results have theirs, by this layer of the decoder, from 1; -1: by the last
                       one; 0: none. Each result goes through the model again for it */
    bool sampling;  /* draws each token by its probability; else beam search */
    int64_t top_k;  /* draws from the so many likeliest; 0: all */
    double top_p;   /* of those from as few as reach this probability, up to 1; 0: all */
    double temperature; /* log-probabilities are divided by it before; 0: 1 */
    double noise;       /* Gumbel noise times this is added to logits in each step, so that a beam
                           search finds others; scores are those of the sums; 0: none */
    uint64_t seed;      /* of samples and noise */
    const char *const *ends;  /* further tokens that end a translation, as the vocabulary writes
                                 them, "\xE2\x96\x81and" for one that begins a word; ended by NULL */
    const char *const *first; /* tokens of which a translation begins with one; likewise. Their
                                 log-probabilities are those among all */
} et_decoding_options;

/* A word of a result and the word of the line that it comes from, counted from 0, by spaces.
 * weight: what of the decoder's attention that word has when the other is predicted, 0 to 1 (of the
 * layer that was asked for, the mean of all heads). */
typedef struct et_alignment {
    int source, target;
    double weight;
    const double *weights; /* [source_words] what each word of the line has: their sum and what the
                              end of the line has is 1 */
} et_alignment;

/* Tokens count with the one that ended it, as in Wu et al. 2016: score is log_probability over
 * ((5 + tokens) / 6)^alpha. Where nothing ended within the greatest length, a beam
 * search gives what it has, with log_probability as score. A sample's probabilities are the
 * model's, before any filter. */
typedef struct et_hypothesis {
    const char *text;
    const int32_t *ids; /* [id_count] tokens, without the one that ended it */
    int id_count, tokens;
    double score, log_probability; /* nats */
    const et_alignment *alignment; /* [alignment_count] one for each word of text, where they are
                                      asked for */
    int alignment_count, source_words;
} et_hypothesis;

/* Of the lines of one call. */
typedef struct et_hypotheses et_hypotheses;

/* As et_translator_translate, with all that was found; *out is yours to free, NULL on failure. A
 * line without a word has one empty result of score 0. */
ET_API int et_translator_search(et_translator *translator, const char *const *lines, size_t count,
                                et_hypotheses **out, et_error *error);

/* What the model says of given targets, one for each line, with the end of sentence: one result a
 * line, its text the target. Sampling, noise, ends and first do not matter. ET_EDATA also: a target
 * of more than 1,023 tokens. */
ET_API int et_translator_score(et_translator *translator, const char *const *lines,
                               const char *const *targets, size_t count, et_hypotheses **out,
                               et_error *error);

/* Results of a line, lines from 0, and each of them, borrowed until free; 0 and NULL: there is no
 * such line or result. */
ET_API int et_hypotheses_count(const et_hypotheses *hypotheses, size_t line);
ET_API const et_hypothesis *et_hypotheses_at(const et_hypotheses *hypotheses, size_t line,
                                             int rank);
ET_API void et_hypotheses_free(et_hypotheses *hypotheses); /* NULL allowed */

#endif
