/* The tokens that the translation of a sentence may have, by a lexicon
 * (formats/marian/lexicon.h): those that its source tokens may give, those that may always come,
 * and those that the search needs. */
#ifndef ETUDE_TASKS_TRANSLATION_DECODING_SHORTLIST_H
#define ETUDE_TASKS_TRANSLATION_DECODING_SHORTLIST_H

#include "formats/marian/lexicon.h"
#include "tasks/translation/decoding/decoder.h"

/* Room for one list at a time. */
typedef struct et_shortlist {
    const et_lexicon *lexicon; /* borrowed */
    uint64_t *bits;            /* [vocabulary / 64] owned */
    int64_t vocabulary;
} et_shortlist;

/* ET_ENOMEM, or 0. */
int et_shortlist_init(et_shortlist *list, const et_lexicon *lexicon, int64_t vocabulary,
                      et_error *error);
void et_shortlist_release(et_shortlist *list); /* one of zeros, too */

/* Writes the tokens of a sentence to words [vocabulary], ascending; returns their number. Ends of a
 * translation, tokens that it may begin with, and those of its phrases are among them; tokens that
 * are never generated are not. */
int64_t et_shortlist_make(et_shortlist *list, const et_decoder_sentence *sentence,
                          const et_decoder_options *options, int32_t *words);

#endif
