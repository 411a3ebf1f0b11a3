/* A lexical shortlist of Marian, "lex.*.s2t.bin": for each source token the target tokens that may
 * translate it, little-endian.
 *
 *   u64 magic | u64 checksum | u64 first | u64 best | u64 n | u64 m | u64 offsets [n] | u32 list
 * [m]
 *
 * Source token s of n - 1 allows list[offsets[s]] to list[offsets[s + 1] - 1]. The first `first`
 * target tokens are always allowed. best, the limit per source token when the file was made, is not
 * needed. Format: Marian's data/shortlist.h. Read-only, for all threads. */
#ifndef ETUDE_FORMATS_MARIAN_LEXICON_H
#define ETUDE_FORMATS_MARIAN_LEXICON_H

#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

#define ET_LEXICON_MAGIC  UINT64_C(17373278592220534773)
#define ET_LEXICON_HEADER (6 * sizeof(uint64_t))

/* Largest file that is read. */
#define ET_LEXICON_BYTES_MAX ((size_t)1 << 30)

typedef struct et_lexicon et_lexicon;

/* bytes, from et_alloc, become the lexicon's, also after a failure. source, target: tokens of the
 * vocabularies that the file may name. name: for messages, copied. ET_EFORMAT: damaged, or of
 * larger vocabularies. */
int et_lexicon_open(et_lexicon **out, char *bytes, size_t length, int64_t source, int64_t target,
                    const char *name, et_error *error);
void et_lexicon_close(et_lexicon *lexicon); /* NULL allowed */

/* The number of tokens that may always come; at most the target's. */
int64_t et_lexicon_first(const et_lexicon *lexicon);

/* Target tokens [*count] for a source token; none if the file does not have the source token.
 * Borrowed. */
const uint32_t *et_lexicon_of(const et_lexicon *lexicon, int32_t source, size_t *count);

/* The file. Borrowed. */
const char *et_lexicon_bytes(const et_lexicon *lexicon, size_t *length);

/* The checksum that a file of these bytes has. */
uint64_t et_lexicon_checksum(const char *bytes, size_t length);

/* Makes a file: source token s has the target tokens list[offsets[s]] to list[offsets[s + 1] - 1].
 * offsets: [sources + 1]. *bytes is the caller's (et_free). ET_ENOMEM. */
int et_lexicon_make(const uint64_t *offsets, int64_t sources, const uint32_t *list, int64_t first,
                    int64_t best, char **bytes, size_t *length, et_error *error);

#endif
