/* Searches sequences of tokens with a model of your own: greedy search, beam search or sampling.
 * You give a function that computes the logits of the next tokens, and keep its state. For the
 * translation models of Etude see translator.h and hypotheses.h.
 *
 *     static int bigrams(void *table, const et_sequence_step *step, float *logits, et_error *error)
 *     {
 *         for (int64_t row = 0; row < step->rows; row++) {
 *             int32_t last = step->ids[row * step->stride + step->position];
 *             memcpy(logits + row * 100, (float *)table + last * 100, 100 * sizeof *logits);
 *         }
 *         return ET_OK;
 *     }
 *
 *     const int32_t start[] = { 0, 0 }, end = 1;
 *     et_sequence_options options = { .vocabulary = 100, .max_length = 20, .size = 4, .alpha = 0.6,
 *                                   .ends = &end, .end_count = 1 };
 *     if (et_sequence_search_run(&found, start, 2, &options, bigrams, table, &error)) ...
 *     for (int k = 0; k < et_sequence_search_count(found, 0); k++) {
 *         et_sequence result = et_sequence_search_result(found, 0, k);
 *         printf("%d tokens, score %.2f", result.count, result.score);
 *     }
 *     et_sequence_search_free(found);
 *
 * Beam search and sampling are those of Model Garden's sequence_beam_search and SamplingModule.
 * Random numbers depend on the seed, the number of the sequence, the position and the row's place
 * in its beam: the results of a sequence depend on no other sequence. */
#ifndef ETUDE_SEQUENCE_SEARCH_H
#define ETUDE_SEQUENCE_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#include <etude/error.h>

/* One call of the function of logits. Row sequence * size + place is a place in the beam of a
 * sequence. All rows have the same number of tokens. Some rows have no hypothesis: in the first
 * call all rows of a beam except its first, later all rows of finished sequences. Tokens of these
 * rows are valid ids, and their logits are not read. */
typedef struct et_sequence_step {
    int64_t rows;          /* sequences * size */
    int64_t position;      /* of the next token; 0: only the initial token is there */
    int64_t stride;        /* from row to row of ids */
    const int32_t *ids;    /* [rows, position + 1] the initial token and the chosen ones */
    const int64_t *parent; /* [rows] the row of the last call that the row continues; the row itself
                              in the first call */
} et_sequence_step;

/* Writes logits [rows, vocabulary]. A logit of -INFINITY excludes its token: with such a mask a
 * program allows only some continuations. A row needs one finite logit. A failure ends the search
 * with its status. */
typedef int et_sequence_logits_fn(void *payload, const et_sequence_step *step, float *logits,
                                  et_error *error);

/* Arrays are borrowed during the search. */
typedef struct et_sequence_options {
    int64_t vocabulary; /* tokens; required */
    int64_t max_length; /* most tokens of a result, without the initial one; required */
    int size;     /* of the beam, or number of samples of each sequence, up to 64; 0: 1, which is
                     greedy search */
    int results;  /* wanted of each sequence, at most size; 0: size. Beam search continues until
                     as many have ended, which never changes the first result */
    double alpha; /* exponent of the length norm ((5 + tokens) / 6)^alpha; 0: none */
    const int32_t *ends; /* [end_count] tokens that end a sequence; none: all have max_length */
    int end_count;
    const int32_t *first; /* [first_count] one of these tokens must come first, in each sequence;
                             NULL: any. Their log-probabilities are those among all tokens */
    int first_count;
    bool sampling;      /* draw each token by its probability */
    int64_t top_k;      /* sample from this many most likely tokens; 0: all */
    double top_p;       /* then from the fewest that reach this probability, up to 1; 0: all */
    double temperature; /* log-probabilities are first divided by this number; 0: 1 */
    double noise;       /* Gumbel noise times this number is added to logits; 0: none */
    uint64_t seed;      /* of samples and noise */
} et_sequence_options;

/* A result. ids has neither the initial token nor the end; length counts the end. score is
 * log_probability / ((5 + length) / 6)^alpha. If no hypothesis of a beam has ended, the living ones
 * are the results, with log_probability as score. Samples' probabilities are those before top_k and
 * top_p. */
typedef struct et_sequence {
    const int32_t *ids; /* [count] */
    int count, length;
    double score, log_probability; /* nats */
} et_sequence;

typedef struct et_sequence_search et_sequence_search;

/* Continues each of count sequences from its initial token, until all are finished. *out is yours
 * to free; NULL on failure. ET_ECONFIG: an option is out of range; ET_EDIVERGED: a row that is
 * read has NaN, infinity or no finite logit; ET_ENOMEM. */
ET_API int et_sequence_search_run(et_sequence_search **out, const int32_t *initial, int64_t count,
                                  const et_sequence_options *options, et_sequence_logits_fn *logits,
                                  void *payload, et_error *error);

/* Number of results of a sequence, at most as many as requested; one result by rank, best first,
 * borrowed until free. If the sequence or result does not exist: 0, and a result without ids. */
ET_API int et_sequence_search_count(const et_sequence_search *search, int64_t sequence);
ET_API et_sequence et_sequence_search_result(const et_sequence_search *search, int64_t sequence,
                                             int rank);
ET_API void et_sequence_search_free(et_sequence_search *search); /* NULL allowed */

#endif
