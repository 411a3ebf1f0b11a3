/* Beam search over one sentence. Living hypotheses are in two halves of ids that take turns. A step
 * reads the hypotheses of one half and writes their successors to the other half, because a parent
 * may have several successors or none. The third part of ids is the pool of finished hypotheses.
 *
 *     ids:  alive, side 0 [size][capacity] | alive, side 1 | finished [size][capacity]
 *
 * Invariants:
 *
 *   1. alive[0] and finished[0] are the best of their lists, and finished[] is sorted.
 *   2. All living hypotheses have the same number of tokens. Finished ones end with EOS or another
 *      end token; samples may also have the greatest length.
 *   3. log p of a hypothesis is a sum of float32 numbers in the order of its tokens, and the place
 *      in the list decides between equal values: nothing depends on other sentences.
 *
 * Lists are short (at most 2 size), so they are sorted by insertion. Formula of the scores: Wu et
 * al. 2016, "Google's neural machine translation system", equation 14, without its coverage
 * penalty. */
#include "tasks/translation/decoding/beam.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

/* Minus infinity that may be multiplied by 0. */
#define NEVER (-1e7f)

typedef et_beam_candidate candidate;

/* A sentence of one token has 1; with alpha 0 all have, and scores are plain log p. Example:
 * length 13 and alpha 0.6 give 3^0.6 = 1.93. */
double et_beam_length_norm(int length, const et_beam_options *options)
{
    et_assert(length >= 0);
    return pow(options->by_length ? length : (5.0 + length) / 6.0, options->alpha);
}

int et_beam_init(et_beam *beam, const et_beam_options *options, int capacity, et_error *error)
{
    et_assert(options->size >= 1 && options->size <= ET_BEAM_SIZE_MAX && capacity >= 1);
    *beam = (et_beam){ .options = *options, .capacity = capacity };
    size_t count = (size_t)3 * (size_t)options->size * (size_t)capacity;
    beam->ids = et_alloc(count, sizeof *beam->ids);
    const size_t size = (size_t)options->size, offers = size * (2 * size + ET_PHRASES_MAX);
    if (options->phrases)
        beam->offers = et_alloc(offers, sizeof *beam->offers);
    return beam->ids && (beam->offers || !options->phrases) ? ET_OK
                                                            : et_alloc_failed(error, "a beam");
}

void et_beam_release(et_beam *beam)
{
    et_free(beam->ids);
    et_free(beam->offers);
    beam->ids = NULL;
    beam->offers = NULL;
}

/* Tokens of hypothesis i of a side. Both sides and the finished pool are one block, so the pool
 * is side 2. */
static int32_t *alive_ids(const et_beam *beam, int side, int i)
{
    return beam->ids + (ptrdiff_t)(side * beam->options.size + i) * beam->capacity;
}

static int32_t *finished_ids(const et_beam *beam, int i)
{
    return alive_ids(beam, 2, i);
}

/* Only the empty hypothesis 0 lives, with log p 0; the others cannot win against its continuations.
 * ids need no clearing, because no token beyond a length is read. */
void et_beam_begin(et_beam *beam, int max_length)
{
    et_assert(max_length >= 1 && max_length <= beam->capacity);
    beam->max_length = max_length;
    beam->length = 0;
    beam->living = 1;
    beam->width = beam->options.size;
    beam->over = false;
    beam->finished_count = 0;
    beam->phrases = NULL;
    beam->side = 0;
    for (int i = 0; i < beam->options.size; i++)
        beam->alive[i] = i ? NEVER : 0;
}

/* EOS, or another token that ends a hypothesis. */
static bool is_end(const et_beam *beam, int32_t token)
{
    if (token == beam->options.eos)
        return true;
    for (int i = 0; i < beam->options.end_count; i++)
        if (token == beam->options.ends[i])
            return true;
    return false;
}

static int wanted(const et_beam *beam)
{
    return beam->options.results ? beam->options.results : 1;
}

/* Best first; ties by hypothesis, then by order among its tokens. An item equal to an earlier one
 * goes after it. Items beyond `most` are dropped. */
static void insert(candidate *list, int *count, int most, candidate item)
{
    int at = *count;
    while (at > 0 && list[at - 1].log_p < item.log_p)
        at--;
    if (at >= most)
        return;
    int moved = (*count < most ? *count : most - 1) - at;
    memmove(&list[at + 1], &list[at], moved * sizeof *list);
    list[at] = item;
    if (*count < most)
        (*count)++;
}

/* Finds the best 2 size of all continuations. If only EOS ends a hypothesis, at most `size` of them
 * end, so `size` others remain to live on. At length 0 only one hypothesis counts, because equal
 * copies would fill the beam with the same sentence. */
static int best_candidates(const et_beam *beam, const float *log_p, const int32_t *token,
                           candidate *list)
{
    int size = beam->options.size, count = 0;
    if (beam->options.force_end && beam->length + 1 >= beam->max_length) {
        for (int i = 0; i < (beam->length ? size : 1); i++)
            insert(list, &count, 2 * size, (candidate){ beam->alive[i], i, beam->options.eos });
        return count;
    }
    for (int i = 0; i < (beam->length ? size : 1); i++)
        for (int k = 0; k < 2 * size; k++)
            insert(list, &count, 2 * size,
                   (candidate){ beam->alive[i] + log_p[i * 2 * size + k], i,
                                token[i * 2 * size + k] });
    return count;
}

/* Adds a hypothesis to the finished pool, if it is among the best `size`. EOS counts in its length.
 * Worse hypotheses move down by one, and the last leaves a full pool. Among equal scores, the
 * earlier one stays first. */
static void finish(et_beam *beam, const candidate *item)
{
    int size = beam->options.size, length = beam->length + 1;
    float score = (float)(item->log_p / et_beam_length_norm(length, &beam->options));
    int at = beam->finished_count;
    while (at > 0 && beam->finished[at - 1] < score)
        at--;
    if (at >= size)
        return;
    int from = beam->finished_count < size ? beam->finished_count : size - 1;
    for (int i = from; i > at; i--) {
        beam->finished[i] = beam->finished[i - 1];
        beam->finished_log_p[i] = beam->finished_log_p[i - 1];
        beam->finished_length[i] = beam->finished_length[i - 1];
        memcpy(finished_ids(beam, i), finished_ids(beam, i - 1),
               beam->finished_length[i] * sizeof(int32_t));
    }
    beam->finished[at] = score;
    beam->finished_log_p[at] = item->log_p;
    beam->finished_length[at] = length;
    int32_t *ids = finished_ids(beam, at);
    memcpy(ids, alive_ids(beam, beam->side, item->parent), beam->length * sizeof(int32_t));
    ids[beam->length] = item->token;
    if (beam->finished_count < size)
        beam->finished_count++;
}

/* Item becomes hypothesis i of the other side; the current side must not change until all have been
 * copied. */
static void live_on(et_beam *beam, const candidate *item, int i, int *parent, int32_t *next)
{
    int32_t *ids = alive_ids(beam, !beam->side, i);
    memcpy(ids, alive_ids(beam, beam->side, item->parent), beam->length * sizeof(int32_t));
    ids[beam->length] = item->token;
    parent[i] = item->parent;
    next[i] = item->token;
}

/* Whether no living hypothesis can still beat the worst finished one. log p falls with each token,
 * and the divisor is largest at max_length. log p is negative, so alive[0] / norm(max_length)
 * bounds all reachable scores. Example: alive[0] = -6 and a norm of 2 reach -3 at most, so a worst
 * finished score of -2.9 ends the search. */
static bool is_settled(const et_beam *beam)
{
    if (beam->alive[0] <= NEVER)
        return true;
    const et_beam_options *o = &beam->options;
    if (o->shrinks && !beam->phrases)
        return beam->width <= 0;
    if (beam->finished_count < (o->by_length ? o->size : wanted(beam)))
        return false;
    if (o->by_length)
        return beam->finished[beam->finished_count - 1] >=
               (float)(beam->alive[0] / et_beam_length_norm(beam->length, o));
    double reach = beam->alive[0] / et_beam_length_norm(beam->max_length, &beam->options);
    return beam->finished[beam->finished_count - 1] > reach;
}

/* Whether candidate number c is finished. With by_length, candidates after the best `width` only
 * fill the living hypotheses. At the greatest length all other candidates are finished
 * unchanged. */
static bool finishes(const et_beam *beam, const candidate *item, int c)
{
    const bool ends = is_end(beam, item->token);
    if (!beam->options.by_length && !beam->options.shrinks)
        return ends;
    return c < beam->width && (ends || beam->length + 1 >= beam->max_length);
}

/* Candidates come best first, so both lists are sorted. Candidates after the `size` living ones may
 * still finish, so all 2 size are checked. */
void et_beam_advance(et_beam *beam, const float *log_p, const int32_t *token, int *parent,
                     int32_t *next)
{
    candidate list[2 * ET_BEAM_SIZE_MAX];
    float alive[ET_BEAM_SIZE_MAX];
    int size = beam->options.size, count = best_candidates(beam, log_p, token, list), lives = 0;
    int ended = 0;
    et_assert(!beam->over && count > 0);
    if (beam->options.shrinks && count > beam->width)
        count = beam->width;
    for (int c = 0; c < count; c++) {
        if (list[c].log_p > NEVER && finishes(beam, &list[c], c)) {
            finish(beam, &list[c]);
            ended++;
        }
        if (!is_end(beam, list[c].token) && lives < size) {
            live_on(beam, &list[c], lives, parent, next);
            alive[lives++] = list[c].log_p;
        }
    }
    for (; lives < size; lives++) { /* fewer hypotheses live on than the beam is wide */
        live_on(beam, &list[0], lives, parent, next);
        alive[lives] = NEVER;
    }
    memcpy(beam->alive, alive, size * sizeof *alive);
    beam->side = !beam->side;
    beam->living = size;
    beam->length++;
    beam->width -= beam->options.shrinks ? ended : 0;
    beam->over = beam->length >= beam->max_length || is_settled(beam);
}

/* Living samples close gaps but keep their numbers, because random numbers depend on the sample's
 * number. Each sample has its own room in the pool, so none is lost. */
void et_beam_extend(et_beam *beam, const float *log_p, const int32_t *token, int *parent,
                    int32_t *next)
{
    const bool first = beam->length == 0, last = beam->length + 1 >= beam->max_length;
    const int count = first ? beam->options.size : beam->living;
    int lives = 0;
    et_assert(!beam->over && count > 0);
    for (int i = 0; i < count; i++) {
        float before = first ? 0 : beam->alive[i];
        candidate item = { before + log_p[i], first ? 0 : i, token[i] };
        if (last || is_end(beam, item.token)) {
            finish(beam, &item);
            continue;
        }
        live_on(beam, &item, lives, parent, next);
        beam->alive[lives] = item.log_p;
        beam->sample[lives++] = first ? i : beam->sample[i];
    }
    beam->side = !beam->side;
    beam->living = lives;
    beam->length++;
    beam->over = lives == 0;
}

/* ---- phrases ---- */

void et_beam_begin_phrases(et_beam *beam, int max_length, const et_phrases *phrases)
{
    et_assert(beam->offers);
    et_beam_begin(beam, max_length);
    beam->phrases = phrases;
    beam->met[0] = (et_phrases_met){ 0 };
    beam->offer_count = 0;
}

int et_beam_needs(const et_beam *beam, int hypothesis, int32_t *next)
{
    et_assert(beam->phrases && hypothesis >= 0 && hypothesis < beam->living);
    return et_phrases_next(beam->phrases, beam->met[hypothesis],
                           alive_ids(beam, beam->side, hypothesis), beam->length, next);
}

/* With force_end, EOS replaces the proposed token at the greatest length. */
void et_beam_propose(et_beam *beam, int hypothesis, float log_p, int32_t token)
{
    et_assert(hypothesis >= 0 && hypothesis < beam->living && token >= 0);
    const int32_t *ids = alive_ids(beam, beam->side, hypothesis);
    const bool last = beam->length + 1 >= beam->max_length,
               forced = last && beam->options.force_end;
    et_beam_offer *offer = &beam->offers[beam->offer_count];
    if (forced && beam->offer_count && offer[-1].candidate.parent == hypothesis)
        return;
    offer->candidate = (candidate){ beam->alive[hypothesis] + (forced ? 0 : log_p), hypothesis,
                                    forced ? beam->options.eos : token };
    if (!(offer->candidate.log_p > NEVER))
        return;
    et_assert(beam->offer_count < beam->options.size * (2 * beam->options.size + ET_PHRASES_MAX));
    offer->met = et_phrases_follow(beam->phrases, beam->met[hypothesis], ids, beam->length,
                                   offer->candidate.token);
    const bool ends = is_end(beam, offer->candidate.token);
    beam->offer_count += forced || !ends || et_phrases_are_met(beam->phrases, offer->met);
}

/* The highest bank first, in it the likeliest; ties by hypothesis, then by token. */
static int by_bank(const void *left, const void *right)
{
    const et_beam_offer *a = left, *b = right;
    const candidate *one = &a->candidate, *other = &b->candidate;
    if (a->bank != b->bank)
        return a->bank > b->bank ? -1 : 1;
    if (one->log_p != other->log_p)
        return one->log_p > other->log_p ? -1 : 1;
    if (one->parent != other->parent)
        return one->parent < other->parent ? -1 : 1;
    return one->token < other->token ? -1 : one->token > other->token;
}

/* Candidates that end leave the list; the best of them with all phrases are finished. If nothing
 * else is left at the greatest length, the candidate with most phrases is finished. Returns the
 * number of remaining candidates. */
static int finish_offers(et_beam *beam)
{
    int kept = 0, all = 0;
    if (!beam->offer_count)
        return 0;
    const et_beam_offer first = beam->offers[0];
    for (int c = 0; c < beam->offer_count; c++) {
        const et_beam_offer *offer = &beam->offers[c];
        const bool met = et_phrases_are_met(beam->phrases, offer->met);
        all += met;
        if (!is_end(beam, offer->candidate.token))
            beam->offers[kept++] = *offer;
        else if (met && all <= 2 * beam->options.size)
            finish(beam, &offer->candidate);
    }
    if (!kept && !beam->finished_count)
        finish(beam, &first.candidate);
    return kept;
}

/* Takes one candidate of each bank in turn, from the highest bank to the lowest, until the beam is
 * full. Banks with few candidates leave their share to the others. Taken candidates get bank -1. */
static int share_beam(et_beam *beam, int count, et_beam_offer *chosen)
{
    int taken = 0;
    for (bool some = true; some && taken < beam->options.size;) {
        int bank = -1;
        some = false;
        for (int c = 0; c < count && taken < beam->options.size; c++) {
            et_beam_offer *offer = &beam->offers[c];
            if (offer->bank < 0 || offer->bank == bank)
                continue;
            bank = offer->bank;
            chosen[taken++] = *offer;
            offer->bank = -1;
            some = true;
        }
    }
    return taken;
}

void et_beam_choose(et_beam *beam, int *parent, int32_t *next)
{
    et_beam_offer chosen[ET_BEAM_SIZE_MAX];
    et_assert(!beam->over);
    /* To count begun phrases by the tokens of the candidate, its last token is temporarily written
     * after its hypothesis. */
    for (int c = 0; c < beam->offer_count; c++) {
        et_beam_offer *offer = &beam->offers[c];
        int32_t *ids = alive_ids(beam, beam->side, offer->candidate.parent);
        ids[beam->length] = offer->candidate.token;
        offer->bank = et_phrases_tokens(beam->phrases, offer->met, ids, beam->length + 1);
    }
    qsort(beam->offers, beam->offer_count, sizeof *beam->offers, by_bank);
    const int count = share_beam(beam, finish_offers(beam), chosen);
    /* Puts the likeliest candidate first, because the first hypothesis decides about the end of the
     * search. If the search ends now without results, the candidates with most tokens of phrases
     * come first. */
    const bool unfinished = beam->length + 1 >= beam->max_length && !beam->finished_count;
    for (int i = 0; i < count && !unfinished; i++)
        chosen[i].bank = 0;
    qsort(chosen, count, sizeof *chosen, by_bank);
    for (int i = 0; i < count; i++) {
        live_on(beam, &chosen[i].candidate, i, parent, next);
        beam->alive[i] = chosen[i].candidate.log_p;
        beam->met[i] = chosen[i].met;
    }
    beam->side = !beam->side;
    beam->living = count;
    beam->length++;
    beam->offer_count = 0;
    beam->over = !count || beam->length >= beam->max_length || is_settled(beam);
}

bool et_beam_row_fills(const et_beam *beam, int i)
{
    et_assert(i >= 0);
    return !(beam->alive[i] > NEVER);
}

void et_beam_abandon(et_beam *beam)
{
    beam->finished_count = 0;
    beam->living = 0;
    beam->over = true;
}

/* Unfinished hypotheses count only if the greatest length was reached and nothing has finished.
 * Hypotheses that only fill the beam (log p NEVER) do not count. */
int et_beam_results(const et_beam *beam)
{
    int count = beam->finished_count;
    if (!count)
        while (count < beam->living && !et_beam_row_fills(beam, count))
            count++;
    return count < wanted(beam) ? count : wanted(beam);
}

et_beam_hypothesis et_beam_result(const et_beam *beam, int rank)
{
    et_assert(rank >= 0 && rank < et_beam_results(beam));
    if (!beam->finished_count)
        return (et_beam_hypothesis){ alive_ids(beam, beam->side, rank), beam->length, beam->length,
                                     beam->alive[rank], beam->alive[rank] };
    int length = beam->finished_length[rank];
    const int32_t *ids = finished_ids(beam, rank);
    return (et_beam_hypothesis){ ids, is_end(beam, ids[length - 1]) ? length - 1 : length, length,
                                 beam->finished[rank], beam->finished_log_p[rank] };
}

static uint64_t bit(int i)
{
    return (uint64_t)1 << i;
}

/* Whether ids ends in the first `count` tokens of a phrase. */
static bool ends_in(const et_phrase *phrase, int count, const int32_t *ids, int length)
{
    if (count > length)
        return false;
    for (int i = 0; i < count; i++)
        if (ids[length - count + i] != phrase->ids[i])
            return false;
    return true;
}

/* Tokens of a phrase that the hypothesis has begun, fewer than all. */
static int begun(const et_phrase *phrase, const int32_t *ids, int length)
{
    int count = phrase->count - 1;
    while (count > 0 && !ends_in(phrase, count, ids, length))
        count--;
    return count;
}

et_phrases_met et_phrases_follow(const et_phrases *phrases, et_phrases_met met,
                                 const int32_t *before, int length, int32_t token)
{
    et_assert(phrases->count <= ET_PHRASES_MAX);
    if (phrases->continues[token])
        met.all &= ~met.last;
    met.last = 0;
    for (int i = 0; i < phrases->count; i++) {
        const et_phrase *phrase = &phrases->items[i];
        const int count = phrase->count - 1;
        if (met.all & bit(i) || phrase->ids[count] != token ||
            !ends_in(phrase, count, before, length))
            continue;
        met.all |= bit(i);
        met.last |= phrase->ends_in_word ? bit(i) : 0;
    }
    return met;
}

bool et_phrases_are_met(const et_phrases *phrases, et_phrases_met met)
{
    const uint64_t all = phrases->count == 64 ? UINT64_MAX : bit(phrases->count) - 1;
    return met.all == all;
}

int et_phrases_tokens(const et_phrases *phrases, et_phrases_met met, const int32_t *ids, int length)
{
    et_assert(phrases && length >= 0);
    int tokens = 0, longest = 0;
    for (int i = 0; i < phrases->count; i++) {
        const et_phrase *phrase = &phrases->items[i];
        const bool is_met = met.all & bit(i);
        const int count = is_met ? 0 : begun(phrase, ids, length);
        tokens += is_met ? phrase->count : 0;
        longest = count > longest ? count : longest;
    }
    return tokens + longest;
}

int et_phrases_next(const et_phrases *phrases, et_phrases_met met, const int32_t *ids, int length,
                    int32_t *next)
{
    et_assert(phrases && next && length >= 0);
    int count = 0;
    for (int i = 0; i < phrases->count; i++) {
        const et_phrase *phrase = &phrases->items[i];
        if (met.all & bit(i))
            continue;
        const int32_t token = phrase->ids[begun(phrase, ids, length)];
        int known = 0;
        while (known < count && next[known] != token)
            known++;
        if (known == count)
            next[count++] = token;
    }
    return count;
}
