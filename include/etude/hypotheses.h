/* Hypotheses: several results per line with scores, scores of given translations, translations of
 * embedded sources, and more ways to search: sampling, noise, other end tokens, first tokens. For
 * one plain translation per line see translator.h.
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
 *     et_embedded source;
 *     if (et_translator_embed(t, "a line", &source, &error) ||
 *         et_translator_search_embedded(t, &source, 1, &found, &error)) ...    rows of a program
 *     et_embedded_release(&source);
 *
 * Beam search, sampling and noise work as in Model Garden's BeamSearch and SamplingModule, with two
 * differences. If you ask for several results, the search continues until as many are finished;
 * this never changes the first result. Random numbers depend on seed, line number, position and
 * hypothesis, so the results of a line depend on no other line. */
#ifndef ETUDE_HYPOTHESES_H
#define ETUDE_HYPOTHESES_H

#include <etude/translator.h>

/* Copied when the translator is opened. */
typedef struct et_decoding_options {
    int results;    /* results per line, best first. Beam search: up to beam_size. Sampling: number
                       of samples, up to 64. 0: 1 */
    int alignments; /* also compute alignments, with this layer of the decoder, from 1; -1: the last
                       layer; 0: none. The model then processes each result once more */
    bool sampling;  /* sample each token by its probability; otherwise beam search */
    int64_t top_k;  /* sample from this many most likely tokens; 0: all */
    double top_p;   /* then from the fewest that reach this probability, up to 1; 0: all */
    double temperature; /* log-probabilities are first divided by this number; 0: 1 */
    double noise;       /* add Gumbel noise times this number to the logits in each step, so that
                           beam search gives different results; scores include the noise; 0: none */
    uint64_t seed;      /* of samples and noise */
    const char *const *ends; /* more tokens that end a translation, as in the vocabulary;
                                "\xE2\x96\x81and" begins a word. Ended by NULL */
    const char *terms; /* a file of terms that translations must have; a line for each: term of
                          the source, TAB, term of the target. A line that has the source's term, as
                          whole words, gets a translation with the target's. Terms without a
                          capital letter are found in any case. With a beam of at least 8. NULL:
                          none */
    const char *const *first; /* tokens, one of which must begin a translation; format as for ends.
                                 Their log-probabilities are those among all tokens */
} et_decoding_options;

/* A word of a result and the aligned word of the line, both counted from 0, split at spaces.
 * weight: attention of the decoder to this source word when it predicts the target word, 0 to 1
 * (mean of all heads of the layer). */
typedef struct et_alignment {
    int source, target;
    double weight;
    const double *weights; /* [source_words] weight of each word of the line. With the weight of the
                              line's end, the sum is 1 */
} et_alignment;

/* A result. tokens includes the end token. As in Wu et al. 2016, score is log_probability / ((5 +
 * tokens) / 6)^alpha. If no hypothesis ended within the greatest length, beam search returns
 * unfinished ones, with log_probability as score. For samples, probabilities are the model's,
 * before top_k and top_p. */
typedef struct et_hypothesis {
    const char *text;
    const int32_t *ids; /* [id_count] tokens, without the end token */
    int id_count, tokens;
    double score, log_probability; /* nats */
    const et_alignment *alignment; /* [alignment_count] one for each word of text, if alignments
                                      were requested */
    int alignment_count, source_words;
} et_hypothesis;

/* Hypotheses of the lines of one call. */
typedef struct et_hypotheses et_hypotheses;

/* Translates as et_translator_translate, and gives all results. *out is yours to free; NULL on
 * failure. A line without words has one empty result with score 0. */
ET_API int et_translator_search(et_translator *translator, const char *const *lines, size_t count,
                                et_hypotheses **out, et_error *error);

/* Scores given targets, one per line, with the end of sentence. Each line has one result, with the
 * target as its text. Sampling, noise, ends and first have no effect. ET_EDATA also: a target has
 * more than 1,023 tokens. */
ET_API int et_translator_score(et_translator *translator, const char *const *lines,
                               const char *const *targets, size_t count, et_hypotheses **out,
                               et_error *error);

/* A source as rows in place of a line: Model Garden's embedded_inputs and input_masks. */
typedef struct et_embedded {
    const float *rows; /* [count, width] as the model embeds tokens: multiplied by its scale,
                          without positions */
    int64_t count, width;
    const bool *mask; /* [count] false: the row is left out, and the others keep their positions.
                         NULL: all rows */
} et_embedded;

/* Looks up the rows of a line; the last row is that of the line's end. A line without words has no
 * rows. Release *out. ET_EDATA as for et_translator_score. */
ET_API int et_translator_embed(et_translator *translator, const char *line, et_embedded *out,
                               et_error *error);
ET_API void et_embedded_release(et_embedded *embedded); /* of et_translator_embed; zeros allowed */

/* Translates as et_translator_search from rows that a program gives. A source without rows has one
 * empty result with score 0. ET_EDATA: rows have another width than the model, are more than 1,024,
 * or are not finite. ET_ECONFIG: the translator is an ensemble, or has alignments or terms. */
ET_API int et_translator_search_embedded(et_translator *translator, const et_embedded *sources,
                                         size_t count, et_hypotheses **out, et_error *error);

/* Number of results of a line (from 0), and one result (rank from 0, best first), borrowed until
 * free. If the line or result does not exist: 0 and NULL. */
ET_API int et_hypotheses_count(const et_hypotheses *hypotheses, size_t line);
ET_API const et_hypothesis *et_hypotheses_at(const et_hypotheses *hypotheses, size_t line,
                                             int rank);
ET_API void et_hypotheses_free(et_hypotheses *hypotheses); /* NULL allowed */

#endif
