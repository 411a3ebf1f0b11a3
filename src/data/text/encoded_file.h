/* The cache file of an encoded corpus: its layout, writing it, and checking it. Part of encoded.c.
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
#ifndef ETUDE_DATA_TEXT_ENCODED_FILE_H
#define ETUDE_DATA_TEXT_ENCODED_FILE_H

#include "base/files/file.h"
#include "data/text/encoded_build.h"

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

/* Points `parts` into a complete file; nothing is owned. */
void et_encoded_file_parts(et_encoded_parts *parts, const void *file);

/* The fault of a mapped file, in a word; NULL: none. *current: the file is sound up to its header
 * and holds key; only then is the rest checked. files: of each side; tokens: of each side's
 * vocabulary. */
const char *et_encoded_file_fault(const et_mapping *mapping, uint64_t key, const size_t files[2],
                                  const uint32_t tokens[2], bool *current);

/* The same for a file that was sound and has not been written since: checks only its header. */
bool et_encoded_file_is_still_sound(const et_mapping *mapping, uint64_t key, const size_t files[2]);

/* Writes path atomically. */
int et_encoded_file_write(const et_encoded_parts *parts, uint64_t key, const size_t files[2],
                          const char *path, et_error *error);

#endif
