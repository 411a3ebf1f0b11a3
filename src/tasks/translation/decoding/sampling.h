/* The next tokens: from the logits of one hypothesis to log-probabilities, with noise if requested,
 * and then to the most likely tokens or to a sampled one.
 *
 * For an ensemble, the probabilities of its models are averaged with weights: p = sum over models
 * of w p_model. This mean is a probability, so scores, samples and given targets mean the same as
 * for one model. The mean of logarithms would not be a probability, and one model could veto a
 * token.
 *
 * Sampling follows Model Garden's SamplingModule: log-probabilities are divided by temperature;
 * only the top_k largest stay; of these, only the fewest largest that together reach top_p stay;
 * one of them is drawn. The sample's log-probability is the model's, without these changes.
 *
 * Random numbers are functions of (seed, sentence, position, hypothesis, token): a sample of a
 * sentence does not depend on other sentences, on threads or on earlier samples. */
#ifndef ETUDE_TASKS_TRANSLATION_DECODING_SAMPLING_H
#define ETUDE_TASKS_TRANSLATION_DECODING_SAMPLING_H

#include <stdbool.h>
#include <stdint.h>

#include <etude/error.h>

/* Most models of an ensemble. */
#define ET_CHOICE_MODELS_MAX 32

#define ET_SAMPLING_MAX 1000.0 /* of temperature and noise */

/* { 0 }: the likeliest tokens of one model, without noise. Arrays are borrowed. */
typedef struct et_sampling_options {
    bool sampling;
    int64_t top_k;      /* 0: all */
    double top_p;       /* 0 or 1: all */
    double temperature; /* 0: 1 */
    double noise;       /* Gumbel noise times this is added to logits */
    uint64_t seed;
    const int32_t *first; /* tokens that a target may begin with; NULL: any */
    int first_count;
    const int32_t *never; /* tokens that are not generated */
    int never_count;
    const double *weights; /* [model_count] > 0, sum 1 */
    int model_count;       /* 0 or 1: no ensemble */
} et_sampling_options;

/* A hypothesis: number of its sentence, position of the next token, and number of the hypothesis,
 * below 64. */
typedef struct et_sampling_position {
    uint64_t sentence;
    int position, hypothesis;
} et_sampling_position;

/* Scratch for one row at a time; draws in one thread only. A row is over all tokens, or over a list
 * of tokens (et_sampling_set_words). */
typedef struct et_sampling {
    et_sampling_options options;
    int64_t vocabulary;
    const int32_t *words; /* [count] tokens of a row, ascending; NULL: all. Borrowed */
    int64_t count;        /* of a row */
    float *log_p;         /* [count] of the row that was read last; owned, as the next */
    float *each;          /* [models + 1, vocabulary] of an ensemble's models, and their sum */
    int32_t *order;       /* [count] indices in the row */
    uint64_t *allowed;    /* [vocabulary / 64] bits of the tokens that come first; NULL: any */
} et_sampling;

/* Whether options need all logits, not only the likeliest tokens. */
bool et_sampling_reads_logits(const et_sampling_options *options);

/* ET_ENOMEM, or 0. */
int et_sampling_init(et_sampling *choice, const et_sampling_options *options, int64_t vocabulary,
                     et_error *error);
void et_sampling_release(et_sampling *choice);

/* Restricts the next rows to these tokens, ascending and without those that are never generated.
 * NULL: all tokens. Borrowed until the next call. Only for one model. */
void et_sampling_set_words(et_sampling *choice, const int32_t *words, int64_t count);

/* log p of a token in the row that was read last; minus infinity if the token is not in the row's
 * list. */
float et_sampling_log_p(const et_sampling *choice, int32_t token);

/* Reads a row of logits [count] of each model: log_p becomes log(softmax(logits + noise)). For an
 * ensemble, logits are the logarithms of the averaged probabilities. A token that is never
 * generated has minus infinity and is left out of the softmax. At position 0, tokens that may not
 * come first also have minus infinity, but other tokens keep their values. False: logits are not
 * finite, so no token is likelier than another. */
bool et_sampling_read(et_sampling *choice, const float *const *logits, et_sampling_position which);

/* The `count` likeliest tokens of the row, best first, equal ones by number; count is at most the
 * vocabulary. If the row's list has fewer tokens, its last token is repeated, with minus
 * infinity. */
void et_sampling_best(const et_sampling *choice, int count, float *log_p, int32_t *token);

/* Draws one token of the row. */
int32_t et_sampling_draw(et_sampling *choice, et_sampling_position which);

#endif
