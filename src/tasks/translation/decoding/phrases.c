#include "tasks/translation/decoding/phrases.h"

#include "base/assert.h"

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
