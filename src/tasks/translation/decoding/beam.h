/* Beam search over one sentence: the bookkeeping, without a model. For each living hypothesis, the
 * caller gives the 2 * size most likely next tokens. The beam chooses the hypotheses that live on,
 * each with its parent and token.
 *
 * As in Model Garden, the best 2 * size continuations are considered. Continuations that end go to
 * the finished pool with score log p / ((5 + length) / 6)^alpha (Wu et al. 2016; length includes
 * EOS). The best `size` others live on. The search ends at the greatest length, or when the worst
 * finished score is better than any score that the best living hypothesis can still reach. If
 * nothing has finished, the living hypotheses are the results, with log p as score.
 *
 * by_length is the search of transformers: scores are log p / length^alpha. An ending continuation
 * is finished only if it is among the best `size`. The search ends when `size` hypotheses have
 * finished and the worst of these has at least the score of the best living hypothesis at its
 * present length. At the greatest length the living hypotheses finish, too; with force_end
 * (forced_eos_token_id in transformers), EOS replaces their last token.
 *
 * With shrinks, as in Marian, each finished hypothesis makes the beam narrower by one. The best
 * continuations, as many as the beam is wide, either end and finish, or live on. The search ends
 * when the beam has no width left, or at the greatest length, where all finish.
 *
 * Equal scores are ordered by hypothesis, then by token, so results do not depend on batches. size
 * 1 is greedy search.
 *
 * A sentence may have phrases that its translation must have. Then the hypotheses that have equally
 * many tokens of phrases are a bank, and the beam is shared evenly among the banks (Post and Vilar
 * 2018, "Fast Lexically Constrained Decoding with Dynamic Beam Allocation for Neural Machine
 * Translation"). Each hypothesis is also continued by the next token of each phrase that it lacks.
 * Only a hypothesis with all phrases may end. So after at most as many steps as the phrases have
 * tokens, a hypothesis has all phrases.
 *
 * If several results are requested, the search continues until as many have finished; the first
 * result stays the same. For samples (et_beam_extend), each hypothesis continues alone, and all are
 * results, best first. */
#ifndef ETUDE_TASKS_TRANSLATION_DECODING_BEAM_H
#define ETUDE_TASKS_TRANSLATION_DECODING_BEAM_H

#include <stdbool.h>
#include <stdint.h>

#include <etude/error.h>

/* ---- phrases ---- */

/* Phrases that a translation must have: the phrases that a hypothesis has, and the tokens that it
 * needs next. A phrase is met if its tokens are consecutive. If its last token ends in a letter and
 * the next token continues the word, the phrase is no longer met.
 *
 * Phrases may overlap: tokens may belong to several. */

/* Most phrases of a sentence. */
#define ET_PHRASES_MAX 64

typedef struct et_phrase {
    const int32_t *ids; /* [count] */
    int count;
    bool ends_in_word; /* it must not be continued */
} et_phrase;

/* All borrowed. */
typedef struct et_phrases {
    const et_phrase *items; /* [count] */
    int count;              /* 0: none */
    const bool *continues;  /* [vocabulary] tokens that continue a word */
} et_phrases;

/* Phrases of a hypothesis, as bits; { 0 } before its first token. */
typedef struct et_phrases_met {
    uint64_t all;
    uint64_t last; /* phrases that the last token completed */
} et_phrases_met;

/* After one more token; before: [length] the tokens before it. */
et_phrases_met et_phrases_follow(const et_phrases *phrases, et_phrases_met met,
                                 const int32_t *before, int length, int32_t token);

bool et_phrases_are_met(const et_phrases *phrases, et_phrases_met met);

/* Number of tokens of met phrases and of begun phrases: from 0 to all tokens of all phrases. */
int et_phrases_tokens(const et_phrases *phrases, et_phrases_met met, const int32_t *ids,
                      int length);

/* Writes the next token of each phrase that is not met, each token once, to next [ET_PHRASES_MAX].
 * Returns their number. */
int et_phrases_next(const et_phrases *phrases, et_phrases_met met, const int32_t *ids, int length,
                    int32_t *next);

/* ---- beams ---- */

#define ET_BEAM_SIZE_MAX 64

/* size: hypotheses that live, 1 to ET_BEAM_SIZE_MAX. alpha: length normalization; 0: none, larger
 * values prefer longer hypotheses. eos, ends (borrowed): tokens that end a hypothesis. results:
 * number of results, at most size; 0: 1. */
typedef struct et_beam_options {
    int size;
    double alpha;
    int32_t eos;
    const int32_t *ends;
    int end_count;
    int results;
    bool by_length, shrinks;
    bool force_end; /* the last token of the greatest length is EOS, at no cost */
    bool phrases;   /* sentences may have some */
} et_beam_options;

/* A continuation: hypothesis `parent`, followed by token. log_p is of the whole. */
typedef struct et_beam_candidate {
    float log_p;
    int parent;
    int32_t token;
} et_beam_candidate;

/* The same with phrases. */
typedef struct et_beam_offer {
    et_beam_candidate candidate;
    int bank; /* number of tokens of phrases that the hypothesis has */
    et_phrases_met met;
} et_beam_offer;

/* A result: its tokens without the final one, and their number with it. */
typedef struct et_beam_hypothesis {
    const int32_t *ids;
    int count, length;
    float score, log_p;
} et_beam_hypothesis;

/* Numbers of one sentence's search. The arrays have options.size entries in use. */
typedef struct et_beam {
    et_beam_options options;
    int capacity;   /* tokens that a hypothesis can hold */
    int max_length; /* of this sentence, EOS counted */
    int length;     /* tokens of each hypothesis alive */
    int living;     /* hypotheses alive after a step */
    int width;      /* with shrinks: hypotheses that may live on */
    bool over;
    int32_t *ids; /* [2][size][capacity] alive, then [size][capacity] finished; owned */
    int side;     /* which half of alive holds the current ones */
    float alive[ET_BEAM_SIZE_MAX];    /* log p */
    int sample[ET_BEAM_SIZE_MAX];     /* of samples: which one each of the alive is */
    float finished[ET_BEAM_SIZE_MAX]; /* scores, best first */
    float finished_log_p[ET_BEAM_SIZE_MAX];
    int finished_length[ET_BEAM_SIZE_MAX];
    int finished_count;
    const et_phrases *phrases;            /* of the sentence, or NULL; borrowed */
    et_phrases_met met[ET_BEAM_SIZE_MAX]; /* of those alive */
    et_beam_offer *offers;                /* of the current step; owned; NULL without
                                             options.phrases */
    int offer_count;
} et_beam;

/* ids are made for `capacity` tokens and serve sentence after sentence. ET_ENOMEM, or 0. */
int et_beam_init(et_beam *beam, const et_beam_options *options, int capacity, et_error *error);
void et_beam_release(et_beam *beam);

/* Starts a sentence; max_length <= capacity. */
void et_beam_begin(et_beam *beam, int max_length);

/* One step. log_p [size, 2 size] are the log-probabilities of the best next tokens of each living
 * hypothesis, best first; token [size, 2 size] are these tokens. At the first step only hypothesis
 * 0 lives, and [1, 2 size] is read. Writes parent[size] and next[size]: hypothesis i is now the
 * former parent[i], followed by next[i]. */
void et_beam_advance(et_beam *beam, const float *log_p, const int32_t *token, int *parent,
                     int32_t *next);

/* Starts a sentence with phrases, of a beam with options.phrases. */
void et_beam_begin_phrases(et_beam *beam, int max_length, const et_phrases *phrases);

/* A step of a sentence with phrases, in place of et_beam_advance. For each of the `living`
 * hypotheses, et_beam_needs writes the tokens that its phrases need next to next [ET_PHRASES_MAX]
 * and returns their number. Propose these and the 2 size likeliest tokens, each once, in an order
 * that depends only on the sentence; then let the beam choose. */
int et_beam_needs(const et_beam *beam, int hypothesis, int32_t *next);
void et_beam_propose(et_beam *beam, int hypothesis, float log_p, int32_t token);
void et_beam_choose(et_beam *beam, int *parent, int32_t *next);

/* One step of `size` samples: each continues with its own token. log_p [living] and token [living]
 * are those of each living hypothesis; at the first step all `size` samples begin, from the empty
 * hypothesis. A hypothesis that ends, or reaches the longest length, is finished. The others close
 * the gaps: living hypothesis i is the former parent[i], followed by next[i]. */
void et_beam_extend(et_beam *beam, const float *log_p, const int32_t *token, int *parent,
                    int32_t *next);

/* Whether row i only fills the beam, because there are fewer living hypotheses than rows. The next
 * tokens of such a row change no result. */
bool et_beam_row_fills(const et_beam *beam, int i);

/* Ends the sentence without results, because its next tokens are unknown. */
void et_beam_abandon(et_beam *beam);

/* Number of results, at most as many as requested, and 0 for an abandoned sentence; one result by
 * rank, best first. Ids are borrowed until the next begin. */
int et_beam_results(const et_beam *beam);
et_beam_hypothesis et_beam_result(const et_beam *beam, int rank);

/* ((5 + length) / 6)^alpha; by_length: length^alpha */
double et_beam_length_norm(int length, const et_beam_options *options);

#endif
