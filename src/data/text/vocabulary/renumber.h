/* Gives the pieces of a SentencePiece model other numbers. Some programs number tokens by a list of
 * their own, and use SentencePiece only to split text: a piece that is not in the list is unknown,
 * and tokens of the list that are not pieces come from elsewhere (another language's model, tags).
 *
 *     et_vocabulary_list list = { .tokens = tokens, .count = count, .eos = 0, .unk = 1, .pad = 2 };
 *     if (et_vocabulary_renumber(&bytes, &length, &list, model, model_length, name, &error)) ...
 *     et_vocabulary_parse(&vocabulary, bytes, length, name, &error);
 *
 * The result is a SentencePiece model whose first pieces are the list, in its order. Tokens that
 * the model does not have are unused pieces: no text becomes one of them, but their numbers have a
 * text. Pieces that the list does not have follow, without a number (vocabulary_check.h), so text
 * is split as the model splits it. A model that has these numbers is the result itself. */
#ifndef ETUDE_DATA_TEXT_VOCABULARY_RENUMBER_H
#define ETUDE_DATA_TEXT_VOCABULARY_RENUMBER_H

#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

/* Tokens by number, all different and none empty; borrowed. */
typedef struct et_vocabulary_list {
    const char *const *tokens; /* [count] */
    int32_t count;
    int32_t eos, unk, pad; /* numbers of the special symbols */
    int32_t added; /* the last tokens: a text that has one becomes it, whatever the model says */
} et_vocabulary_list;

/* *bytes: free with et_free. name: of the model, for messages. ET_EFORMAT: the model is damaged, or
 * of a kind whose segmentation would change: only a unigram model can have pieces of its own and
 * tokens of others. */
int et_vocabulary_renumber(char **bytes, size_t *length, const et_vocabulary_list *list,
                           const void *model, size_t model_length, const char *name,
                           et_error *error);

#endif
