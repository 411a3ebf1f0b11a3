#include "tasks/translation/decoding/shortlist.h"

#include <string.h>

#include "base/alloc.h"

int et_shortlist_init(et_shortlist *list, const et_lexicon *lexicon, int64_t vocabulary,
                      et_error *error)
{
    const size_t words = (size_t)(vocabulary + 63) / 64;
    *list = (et_shortlist){ .lexicon = lexicon, .vocabulary = vocabulary };
    list->bits = et_alloc(words, sizeof *list->bits);
    return list->bits ? ET_OK : et_alloc_failed(error, words * sizeof *list->bits, "a shortlist");
}

void et_shortlist_release(et_shortlist *list)
{
    et_free(list->bits);
    *list = (et_shortlist){ .bits = NULL };
}

static void add(et_shortlist *list, int64_t token)
{
    list->bits[token / 64] |= (uint64_t)1 << token % 64;
}

static void add_all(et_shortlist *list, const int32_t *tokens, int count)
{
    for (int i = 0; i < count; i++)
        add(list, tokens[i]);
}

/* As Marian makes it: up to a multiple of eight the next tokens after the first ones belong to it.
 */
static void add_source(et_shortlist *list, const et_decoder_sentence *sentence)
{
    const int64_t first = et_lexicon_first(list->lexicon);
    int64_t count = 0;
    for (int64_t token = 0; token < first; token++)
        add(list, token);
    for (int64_t i = 0; i < sentence->length; i++) {
        size_t of;
        const uint32_t *tokens = et_lexicon_of(list->lexicon, sentence->source[i], &of);
        for (size_t k = 0; k < of; k++)
            add(list, tokens[k]);
    }
    for (int64_t part = 0; part < (list->vocabulary + 63) / 64; part++)
        count += __builtin_popcountll(list->bits[part]);
    for (int64_t token = first; token < list->vocabulary && count % 8; token++)
        if (!(list->bits[token / 64] >> token % 64 & 1)) {
            add(list, token);
            count++;
        }
}

int64_t et_shortlist_make(et_shortlist *list, const et_decoder_sentence *sentence,
                          const et_decoder_options *options, int32_t *words)
{
    const et_choice_options *choice = &options->choice;
    const et_phrases *phrases = sentence->phrases;
    const int64_t parts = (list->vocabulary + 63) / 64;
    int64_t count = 0;
    memset(list->bits, 0, (size_t)parts * sizeof *list->bits);
    add_source(list, sentence);
    add(list, options->beam.eos);
    add_all(list, options->beam.ends, options->beam.end_count);
    add_all(list, choice->first, choice->first_count);
    for (int i = 0; phrases && i < phrases->count; i++)
        add_all(list, phrases->items[i].ids, phrases->items[i].count);
    for (int i = 0; i < choice->never_count; i++)
        list->bits[choice->never[i] / 64] &= ~((uint64_t)1 << choice->never[i] % 64);
    for (int64_t part = 0; part < parts; part++)
        for (uint64_t bits = list->bits[part]; bits; bits &= bits - 1)
            words[count++] = (int32_t)(part * 64 + __builtin_ctzll(bits));
    return count;
}
