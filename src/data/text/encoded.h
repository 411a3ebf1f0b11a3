/* An encoded corpus: the pairs for training as ids of tokens, in memory or mapped from a cache
 * file, so that a second start reads no text. Pairs that are too long, empty, lopsided or
 * duplicates are left out and counted.
 *
 * The key of the cache covers the contents: bytes of the text files and of the vocabularies, and
 * the filter. A cache with another key, or a damaged cache (with a warning), is made again. A cache
 * that cannot be written gives only a warning. Finding the key reads the text, and checking the
 * cache reads the file, unless no file was written since the last check (corpus.h). Layout:
 * encoded_private.h.
 *
 *     et_encoded *encoded;
 *     et_encoded_options options = ET_ENCODED_OPTIONS_INIT;
 *     if (et_encoded_open(&encoded, &paths, sides, &options, cache_path, &error)) ...
 *
 * Read-only after open: any number of threads and iterators may share it. */
#ifndef ETUDE_DATA_TEXT_ENCODED_H
#define ETUDE_DATA_TEXT_ENCODED_H

#include "data/text/corpus.h"
#include "data/text/vocabulary/vocabulary.h"

typedef struct et_encoded_options {
    int64_t max_seq_length; /* tokens of a side, EOS counted, that is kept; 0: any */
    double max_ratio;       /* of the longer to the shorter side, EOS counted; 0: any */
    bool deduplicate;       /* keep the first of equal pairs only */
    bool keep_all;          /* evaluation: nothing is filtered or cut (pairs.h cuts) */
    uint64_t expected;      /* the key that text, vocabularies and filter must have; 0: any */
    bool read_only;         /* uses an undamaged cache, and writes none */
    int64_t limit;          /* keep so many pairs and do not read further; 0: all */
} et_encoded_options;

/* max_seq_length as in Model Garden. */
#define ET_ENCODED_OPTIONS_INIT                                                                    \
    {                                                                                              \
        64, 0, false, false, 0, false, 0                                                           \
    }

/* Tokens of all pairs, and of the longest sentences; EOS counted. */
typedef struct et_encoded_sizes {
    int64_t source_tokens, target_tokens;
    int64_t longest_source, longest_target;
} et_encoded_sizes;

/* Members may be read; the functions below interpret them. */
typedef struct et_encoded {
    int64_t pairs;           /* kept */
    const uint64_t *offsets; /* [2 * pairs + 1]: pair i's source tokens are offsets[2 i] to
                                offsets[2 i + 1], its target tokens follow */
    const void *tokens;      /* [offsets[2 * pairs]] uint16_t or uint32_t, no EOS */
    int width;               /* bytes of a token: 2, or 4 for vocabularies above 65,536 */
    const uint32_t *lines;   /* [pairs]: index of the pair in the corpus, from 0 */
    et_corpus_counts counts;
    et_encoded_sizes sizes;
    int32_t start;  /* first token of a target */
    int32_t eos[2]; /* the end of a source, and of a target */
    uint64_t key;   /* of text, vocabularies and filter */
    bool from_cache;
} et_encoded;

/* Encodes the corpus, or maps cache_path if that file holds it (NULL: no cache). paths must outlive
 * the result. ET_EDATA: see text.h and corpus.h; also if the filter leaves no pair, or the key is
 * not the expected one. A different key is reported before a cache is replaced. */
int et_encoded_open(et_encoded **out, const et_corpus_paths *paths, et_sides sides,
                    const et_encoded_options *options, const char *cache_path, et_error *error);
void et_encoded_close(et_encoded *encoded); /* NULL allowed */

/* Tokens of one side of a pair, EOS counted. */
static inline int64_t et_encoded_source_length(const et_encoded *encoded, int64_t pair)
{
    return (int64_t)(encoded->offsets[2 * pair + 1] - encoded->offsets[2 * pair]) + 1;
}

static inline int64_t et_encoded_target_length(const et_encoded *encoded, int64_t pair)
{
    return (int64_t)(encoded->offsets[2 * pair + 2] - encoded->offsets[2 * pair + 1]) + 1;
}

/* The length, cut to `most` tokens (0: no limit). */
static inline int64_t et_encoded_truncated_length(const et_encoded *encoded, int64_t pair,
                                                  bool target, int64_t most)
{
    const int64_t length =
        target ? et_encoded_target_length(encoded, pair) : et_encoded_source_length(encoded, pair);
    return most && length > most ? most : length;
}

/* Writes the ids of one side, EOS last: et_encoded_source_length (target_length) of them. */
void et_encoded_ids(const et_encoded *encoded, int64_t pair, bool target, int32_t *ids);
/* The ids, cut to `most` tokens, EOS included (0: no limit). Returns their number. */
int64_t et_encoded_truncated_ids(const et_encoded *encoded, int64_t pair, bool target, int64_t most,
                                 int32_t *ids);

/* File and line of one side of a pair, for messages. path is borrowed from open's paths. */
void et_encoded_locate(const et_encoded *encoded, int64_t pair, bool target, const char **path,
                       int64_t *line);

#endif
