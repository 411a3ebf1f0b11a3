/* From text to ids: reads a corpus, encodes it on all processors, filters, and counts. The result
 * does not depend on the number of threads. Part of encoded.c. */
#ifndef ETUDE_DATA_TEXT_ENCODED_BUILD_H
#define ETUDE_DATA_TEXT_ENCODED_BUILD_H

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

/* The sizes, from offsets and pairs. */
et_encoded_sizes et_encoded_measure(const et_encoded_parts *parts);

/* ET_EDATA: bad text, or nothing left. On failure out is released. */
int et_encoded_build(et_encoded_parts *out, const et_corpus_paths *paths, et_sides sides,
                     const et_encoded_options *options, et_error *error);
void et_encoded_parts_release(et_encoded_parts *parts);

#endif
