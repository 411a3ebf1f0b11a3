/* A vocabulary of tokens: a SentencePiece model (BPE or unigram). Size and symbols are read from
 * the model's bytes. SentencePiece loads the model when the first line is encoded or decoded; a run
 * whose corpus is already encoded may never need it.
 *
 *     et_vocabulary *vocabulary;
 *     if (et_vocabulary_open(&vocabulary, "vocabulary.model", &error)) ...
 *     et_tokens tokens = ET_TOKENS_INIT;
 *     et_vocabulary_encode(vocabulary, text, length, &tokens, &error);     no EOS appended
 *     et_vocabulary_decode(vocabulary, tokens.ids, tokens.count, &out, &error);
 *
 * A new model is bytes; the trainer writes them into the run. A model file may come from anywhere,
 * so the compiled normalization table, which SentencePiece trusts, is checked before use. Encoding
 * and decoding are thread-safe, with separate tokens for each thread. */
#ifndef ETUDE_DATA_TEXT_VOCABULARY_VOCABULARY_H
#define ETUDE_DATA_TEXT_VOCABULARY_VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/fields.h>

#include "base/arena.h"
#include "base/text/strbuf.h"

/* Largest model file accepted, in bytes. */
#define ET_VOCABULARY_BYTES_MAX ((size_t)256 << 20)
/* Most tokens of a model. SentencePiece takes 8 s to load so many. */
#define ET_VOCABULARY_TOKENS_MAX (1 << 20)

typedef struct et_vocabulary et_vocabulary;

/* The vocabularies of the two sides of a pair; both may be the same one. Borrowed. */
typedef struct et_sides {
    const et_vocabulary *source, *target;
    const struct et_punctuation *punctuation[2]; /* rules for texts of the source and of the target
                                                    (punctuation.h); NULL: none */
} et_sides;

/* Ids of tokens, in memory that is reused from line to line. Free with et_tokens_release. */
typedef struct et_tokens {
    int32_t *ids;           /* [capacity], owned; NULL at first */
    size_t count, capacity; /* of ids: in use, and room for */
} et_tokens;

#define ET_TOKENS_INIT                                                                             \
    {                                                                                              \
        NULL, 0, 0                                                                                 \
    }

void et_tokens_release(et_tokens *tokens);

/* Reads a model from a file, or from bytes; name is for messages (both copied). ET_EFORMAT:
 * damaged, not a SentencePiece model, or without an end symbol. */
int et_vocabulary_open(et_vocabulary **out, const char *path, et_error *error);
int et_vocabulary_parse(et_vocabulary **out, const void *bytes, size_t length, const char *name,
                        et_error *error);
void et_vocabulary_close(et_vocabulary *vocabulary); /* NULL allowed */

/* Has SentencePiece load the model now, as the first line would: for a model that comes from
 * elsewhere, before anything is built on it. ET_EFORMAT: it refuses it. ET_ECONFIG: this build
 * has no SentencePiece. */
int et_vocabulary_load(const et_vocabulary *vocabulary, et_error *error);

/* Replaces tokens with those of a line of UTF-8, without start and end symbol. Also fails as
 * et_vocabulary_load does; so does decode. */
int et_vocabulary_encode(const et_vocabulary *vocabulary, const char *text, size_t length,
                         et_tokens *tokens, et_error *error);

/* Appends the text of ids, as one line. Control symbols (pad, EOS) give no text. Control
 * characters, which tokens for bytes may spell, become spaces. An id outside the vocabulary is
 * ET_EDATA. */
int et_vocabulary_decode(const et_vocabulary *vocabulary, const int32_t *ids, size_t count,
                         et_strbuf *out, et_error *error);

/* Number of tokens; ids are below it. */
int32_t et_vocabulary_size(const et_vocabulary *vocabulary);

/* Ids of the special symbols; -1 if the model lacks the symbol. Every model has EOS. */
int32_t et_vocabulary_eos(const et_vocabulary *vocabulary);
int32_t et_vocabulary_unk(const et_vocabulary *vocabulary);
int32_t et_vocabulary_bos(const et_vocabulary *vocabulary);
int32_t et_vocabulary_pad(const et_vocabulary *vocabulary);

/* The symbol a decoder starts from: pad as in Model Garden, else bos, else EOS. */
int32_t et_vocabulary_start(const et_vocabulary *vocabulary);

/* The text of one token; "" outside the vocabulary, or if it can't be loaded. Borrowed. */
const char *et_vocabulary_token(const et_vocabulary *vocabulary, int32_t id);

/* "unigram", "bpe", "word" or "char". Static. */
const char *et_vocabulary_kind(const et_vocabulary *vocabulary);

/* The model as in its file. Borrowed. */
const char *et_vocabulary_bytes(const et_vocabulary *vocabulary, size_t *length);

/* XXH3-64 of the model's bytes: part of the keys of encoded corpora and runs. */
uint64_t et_vocabulary_checksum(const et_vocabulary *vocabulary);

enum et_vocabulary_kind { ET_VOCABULARY_UNIGRAM, ET_VOCABULARY_BPE };

typedef struct et_vocabulary_options {
    int kind;                  /* et_vocabulary_kind */
    int64_t size;              /* tokens, special symbols counted */
    double character_coverage; /* share of the text's characters that get a token, [0.98, 1] */
    bool at_most;              /* size is a limit: a text that is too small gives fewer tokens */
    bool byte_fallback;        /* 256 tokens for bytes; characters without a token are written with
                                  these, so no character is unknown */
    et_strings symbols;        /* texts that are always one token; borrowed */
} et_vocabulary_options;

/* Model Garden's choices, except kind and size, which Model Garden leaves to the user. Special
 * symbols as in Model Garden: pad 0, EOS 1, unk 2, no bos. */
#define ET_VOCABULARY_OPTIONS_INIT                                                                 \
    {                                                                                              \
        ET_VOCABULARY_BPE, 32000, 0.9995, false, false,                                            \
        {                                                                                          \
            NULL, 0                                                                                \
        }                                                                                          \
    }

/* Gives one line after the other; *text NULL at the end. A line need not be terminated. */
typedef int et_vocabulary_lines_fn(void *payload, const char **text, size_t *length,
                                   et_error *error);

/* Trains a model. *bytes (free with et_free) is a model file's content, for et_vocabulary_parse.
 * The same lines give the same bytes, on any machine and for any number of processors. Lines of
 * more than 4,192 bytes are ignored. With at_most, text that is too small for size gets the largest
 * size that it allows. ET_ECONFIG: size does not fit the text; the message names the largest or
 * smallest possible size. */
int et_vocabulary_train(char **bytes, size_t *length, const et_vocabulary_options *options,
                        et_vocabulary_lines_fn *lines, void *payload, et_error *error);

/* ---- tags for the target language of a multilingual model, as in OPUS-MT: ">>fra<<", which the
 * model expects in front of each source ---- */

bool et_language_tag_is(const char *token);

/* The tags of a vocabulary, in arena. ET_ENOMEM. */
int et_language_tags_read(et_strings *tags, const et_vocabulary *vocabulary, et_arena *arena);
/* Bytes of the tag at the beginning of text; 0: no tag. */
size_t et_language_tag_begins(const et_strings *tags, const char *text, size_t length);

/* Returns the number of tags in a vocabulary, and appends the first ones: ">>deu<< >>fra<<". */
int32_t et_language_tags_list(const et_vocabulary *vocabulary, et_strbuf *list);

#endif
