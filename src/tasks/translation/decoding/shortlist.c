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

static void add(et_shortlist *list, const int32_t *tokens, int count)
{
    for (int i = 0; i < count; i++)
        list->bits[tokens[i] / 64] |= (uint64_t)1 << tokens[i] % 64;
}

static void add_source(et_shortlist *list, const et_decoder_sentence *sentence)
{
    const int64_t first = et_lexicon_first(list->lexicon);
    for (int64_t token = 0; token < first; token++)
        list->bits[token / 64] |= (uint64_t)1 << token % 64;
    for (int64_t i = 0; i < sentence->length; i++) {
        size_t count;
        const uint32_t *tokens = et_lexicon_of(list->lexicon, sentence->source[i], &count);
        for (size_t k = 0; k < count; k++)
            list->bits[tokens[k] / 64] |= (uint64_t)1 << tokens[k] % 64;
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
    add(list, &options->beam.eos, 1);
    add(list, options->beam.ends, options->beam.end_count);
    add(list, choice->first, choice->first_count);
    for (int i = 0; phrases && i < phrases->count; i++)
        add(list, phrases->items[i].ids, phrases->items[i].count);
    for (int i = 0; i < choice->never_count; i++)
        list->bits[choice->never[i] / 64] &= ~((uint64_t)1 << choice->never[i] % 64);
    for (int64_t part = 0; part < parts; part++)
        for (uint64_t bits = list->bits[part]; bits; bits &= bits - 1)
            words[count++] = (int32_t)(part * 64 + __builtin_ctzll(bits));
    return count;
}
