/* Phrases that a translation must have: which of them a hypothesis has, and which tokens it needs
 * next. A phrase is met when its tokens stand side by side. If its last token ends in a letter and
 * the next token continues the word, it is no longer met.
 *
 * Phrases may overlap: tokens may belong to several. */
#ifndef ETUDE_TASKS_TRANSLATION_DECODING_PHRASES_H
#define ETUDE_TASKS_TRANSLATION_DECODING_PHRASES_H

#include <stdbool.h>
#include <stdint.h>

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

/* What a hypothesis has: bits of phrases; { 0 } before its first token. */
typedef struct et_phrases_met {
    uint64_t all;
    uint64_t last; /* those of them that the last token completed */
} et_phrases_met;

/* After one more token; before: [length] the tokens before it. */
et_phrases_met et_phrases_follow(const et_phrases *phrases, et_phrases_met met,
                                 const int32_t *before, int length, int32_t token);

bool et_phrases_are_met(const et_phrases *phrases, et_phrases_met met);

/* Tokens of phrases that are met, and of those that the hypothesis has begun: 0 to all tokens of
 * all phrases. */
int et_phrases_tokens(const et_phrases *phrases, et_phrases_met met, const int32_t *ids,
                      int length);

/* The next token of each phrase that is not met, each token once, to next [ET_PHRASES_MAX]; returns
 * how many. */
int et_phrases_next(const et_phrases *phrases, et_phrases_met met, const int32_t *ids, int length,
                    int32_t *next);

#endif
