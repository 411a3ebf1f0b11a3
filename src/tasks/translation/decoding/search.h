/* One thread's part of decoding: seats, each for one sentence from its encoding to its result.
 *
 * When a sentence is finished, its seat is free and another sentence may enter. Every step runs
 * one plan over the hypotheses of the seats in use, and no other rows. Cached keys and values
 * never move: a hypothesis finds its own through a table of slots, and a beam copies only this
 * table.
 *
 * A sentence's result has the same bits with any other sentences: products and everything else work
 * row by row.
 *
 *     et_search_clear(search);
 *     do {
 *         et_search_enter(search, sentences, next_ones);     while some are left
 *         for (count = et_search_step(search, over), i = 0; i < count; i++)
 *             et_search_leave(search, over[i], &beam);
 *     } while (et_search_in_use(search) > 0);
 *
 * Use from one thread at a time. Inside a parallel region a search runs on one thread, otherwise on
 * all. */
#ifndef ETUDE_TASKS_TRANSLATION_DECODING_SEARCH_H
#define ETUDE_TASKS_TRANSLATION_DECODING_SEARCH_H

#include "tasks/translation/decoding/decoder.h"

typedef struct et_search et_search;

static inline bool et_search_is_ended(const et_decoder_sentence *sentence)
{
    return sentence->ended && atomic_load_explicit(sentence->ended, memory_order_relaxed);
}

/* The size of a search. */
typedef struct et_search_size {
    int seats;
    int64_t source; /* tokens of the longest source */
    int64_t target; /* tokens of the longest target */
    /* The totals of all seats. The size of caches depends on these totals, not on the longest
     * sentence. */
    int64_t tokens;    /* source tokens */
    int64_t positions; /* target tokens */
} et_search_size;

/* models: [1 + options->other_count], all borrowed; the options are copied. packed_by: another
 * search of the same models that lends its packed weights and must outlive this search; NULL: the
 * search packs its own. */
int et_search_new(et_search **out, const et_decoder_model *models, et_device *device,
                  const et_decoder_options *options, const et_search_size *size,
                  const et_search *packed_by, et_error *error);
void et_search_free(et_search *search); /* NULL allowed */

/* Packs weights that have changed. Before the searches that share them are used. */
void et_search_refresh(et_search *search);

/* Frees all seats. Sentences that enter from then on must come longest first. */
void et_search_clear(et_search *search);

int et_search_in_use(const et_search *search);
int et_search_capacity(const et_search *search);

/* The most tokens that a sentence may be translated to. */
int64_t et_search_target(const et_decoder_options *options, const et_decoder_sentence *sentence);

/* Encodes count sentences, at most as many as there are free seats. */
void et_search_enter(et_search *search, et_decoder_sentence *const *sentences, int count);

/* Adds one token to all sentences. Writes the seats of finished sentences to over [seats] and
 * returns their number. Finished sentences must leave before the next step. */
int et_search_step(et_search *search, int *over);

/* Frees the seat of a finished sentence. *beam, with its results, is borrowed until others
 * enter. */
et_decoder_sentence *et_search_leave(et_search *search, int p, const et_beam **beam);

/* Frees the seats of sentences that have ended, between two steps; how many they are. */
int et_search_drop_ended(et_search *search);

#endif
