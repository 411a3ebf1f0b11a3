/* Checks that bytes are a SentencePiece model that is safe to load. The library parses the bytes
 * safely, but it trusts their compiled normalization table: a double array whose nodes it follows
 * without checking bounds. So a damaged file could make the library read outside the table. This
 * check ensures that reads stay within the table for any text, and that scores are numbers.
 *
 * The check also reads the facts that a run needs before it encodes a line, because loading the
 * model would take longer than the rest of a start. */
#ifndef ETUDE_DATA_TEXT_VOCABULARY_VOCABULARY_CHECK_H
#define ETUDE_DATA_TEXT_VOCABULARY_VOCABULARY_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

typedef struct et_vocabulary_facts {
    int model_type;             /* of SentencePiece: 1 unigram, 2 bpe, 3 word, 4 char */
    int32_t pieces;             /* how many the model has */
    int32_t tokens;             /* how many have a number; ids are below it */
    bool tags;                  /* a line may begin with a token of the form >>name<< */
    int32_t eos, unk, bos, pad; /* ids, -1: none */
} et_vocabulary_facts;

/* Fields of the model's message that SentencePiece leaves to others (200 and above). A model may
 * say how many of its pieces, from the first, have a number; text that becomes another piece is
 * unknown. So pieces can be known to the segmentation without being tokens. */
enum { ET_VOCABULARY_FIELD_TOKENS = 1000, ET_VOCABULARY_FIELD_TAGS = 1001 };

/* ET_EFORMAT: not a model, or damaged; name is for the message. */
int et_vocabulary_check(et_vocabulary_facts *facts, const void *bytes, size_t length,
                        const char *name, et_error *error);

/* ET_EFORMAT: a checked model has no end token, or no token for unknown text. */
int et_vocabulary_check_symbols(const et_vocabulary_facts *facts, const void *bytes, size_t length,
                                const char *name, et_error *error);

/* A field of the model's message, as it is in the bytes. */
typedef struct et_vocabulary_part {
    uint32_t number;
    const void *whole, *bytes; /* the field with its tag; the content of a field of bytes */
    size_t whole_length, length;
} et_vocabulary_part;

/* The next part of a model that was checked. *at is 0 for the first part. false: no more. */
bool et_vocabulary_next_part(const void *bytes, size_t length, size_t *at,
                             et_vocabulary_part *part);

/* A token as the model has it. */
typedef struct et_vocabulary_piece {
    const char *text; /* [length], in the model's bytes, without a final 0 */
    size_t length;
    float score;
    int type; /* of SentencePiece: 1 normal, 2 unknown, 3 control, 4 the user's, 5 unused, 6 a byte
               */
} et_vocabulary_piece;

#define ET_VOCABULARY_PIECE_NORMAL 1

/* The next token of a model that was checked, in the order of IDs. *at is 0 for the first token.
 * false: no more. */
bool et_vocabulary_next_piece(const void *bytes, size_t length, size_t *at,
                              et_vocabulary_piece *piece);

#endif
