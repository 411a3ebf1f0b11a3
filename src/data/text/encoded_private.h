/* An encoded corpus, for encoded.c and its test: its parts, and its file. */
#ifndef ETUDE_DATA_TEXT_ENCODED_PRIVATE_H
#define ETUDE_DATA_TEXT_ENCODED_PRIVATE_H

#include "base/files/file.h"
#include "data/text/encoded.h"

/* The parts of an encoded corpus in memory; arrays as in et_encoded. */
typedef struct et_encoded_parts {
    uint64_t *offsets;      /* [2 * pairs + 1] */
    uint32_t *lines;        /* [pairs] */
    void *tokens;           /* [token_count] of width bytes */
    int64_t *file_lines[2]; /* [files of that side]: lines of each file */
    int64_t pairs;
    uint64_t token_count;
    int width;
    et_corpus_counts counts;
    et_encoded_sizes sizes;
} et_encoded_parts;

/* The cache file of an encoded corpus: its layout, writing it, and checking it.
 *
 * In the machine's byte order (the magic number shows another order):
 *
 *     header                        et_encoded_header, 160 bytes
 *     offsets   uint64 [2 pairs+1]  of tokens, see et_encoded
 *     source    int64 [files]       lines of each file of the source side
 *     target    int64 [files]       and of the target side
 *     lines     uint32 [pairs]      of each pair in the corpus
 *     tokens    uint16 or uint32 [offsets[2 pairs]]
 *
 * Nothing else follows. Two checksums find accidental damage. Malicious contents (offsets that
 * decrease, ids beyond the vocabulary) are checked as well. */

#define ET_ENCODED_MAGIC   0x3172696150757445u /* "EtuPair1" in little-endian bytes */
#define ET_ENCODED_VERSION 2u

typedef struct et_encoded_header {
    uint64_t magic;
    uint32_t version;
    uint32_t width; /* bytes of a token */
    uint64_t key;
    int64_t pairs;
    uint64_t tokens;
    uint64_t source_files, target_files;
    et_corpus_counts counts;
    uint64_t payload; /* checksum of all that follows the header */
    et_encoded_sizes sizes;
    uint64_t header_checksum; /* checksum of the header before this field */
} et_encoded_header;

/* The fault of a mapped file, in a word; NULL: none. *current: the header is undamaged and has this
 * key; otherwise the rest is not checked. files: number of files of each side. tokens: number of
 * tokens of each side's vocabulary. */
const char *et_encoded_file_fault(const et_mapping *mapping, uint64_t key, const size_t files[2],
                                  const uint32_t tokens[2], bool *current);

#endif
