/* Opening an encoded corpus, by the cheapest possible kind:
 *
 *   1. cache and note    no file was written since both were checked: only the header is read
 *   2. cache             the text is read for its key, the file is checked completely and mapped
 *   3. text              read, encoded by all threads, filtered; then written as the cache
 *
 *   key = XXH3-64(facts, for each list: count, for each file: checksum and length of its bytes)
 *   facts = XXH3-64(version, vocabulary, max_seq_length, max_ratio, deduplicate, keep_all[, limit
 *                   [, the target's vocabulary]])
 *
 * Paths and times are not in the key: files may be moved or copied. Everything that the result
 * depends on is in the key, so a cache is right or not used.
 *
 * Invariants:
 *
 *   (1) the parts are either all owned (in memory) or all in the mapping;
 *   (2) a cache is written with the key that the text had both before and after it was read. */
#include "data/text/encoded.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/files/file.h"
#include "base/threads/team.h"
#include "data/text/corpus.h"
#include "data/text/encoded_private.h"
#include "data/text/punctuation.h"

/* ---- building ---- */

/* Text to ids, in chunks of pairs: read (one thread, gzip and UTF-8 checks), encoded (all threads,
 * a pair at a time; SentencePiece takes most of the time), then filtered and appended in the order
 * of the corpus. So the result is the same for any number of threads, and the first error in the
 * order of the text is reported.
 *
 * The filter, in this order; the first reason that applies is counted:
 *
 *   duplicate   both sides equal an earlier pair, byte for byte (deduplicate)
 *   empty       a side without a token
 *   too long    a side of more than max_seq_length tokens, EOS counted
 *   lopsided    longer > max_ratio * shorter, EOS counted in both
 *
 * With keep_all (evaluation) nothing is left out. With a limit, building ends when that many pairs
 * are kept.
 *
 * Memory: the result, which grows by half when it is full, plus a chunk; with deduplicate, also 24
 * bytes per entry of a table that is at most half full. */

/* Pairs that are read, then encoded by all threads, then processed in order. The number is large
 * enough that threads seldom wait for each other, and small enough that the text stays in the
 * cache. */
#define CHUNK 2048

/* Two checksums of a pair's sides: equal by accident once in 2^128. A table of texts would need
 * the corpus in memory. */
typedef struct seen_pair {
    uint64_t source, target;
    bool used; /* false: an empty place */
} seen_pair;

typedef struct builder {
    et_sides sides; /* borrowed, as options and out */
    const et_encoded_options *options;
    et_encoded_parts *out;
    uint64_t token_capacity, line_capacity, offset_capacity; /* elements that fit */
    seen_pair *seen;        /* open addressing; used when duplicates are dropped */
    uint64_t seen_capacity; /* a power of two, or 0 */
    uint64_t seen_count;
    et_strbuf text;          /* texts of the chunk, one side after the other */
    et_corpus_pair *chunk;   /* [CHUNK]; texts are offsets until the chunk is whole */
    et_tokens (*encoded)[2]; /* [CHUNK]: source and target; each chunk reuses the memory */
    et_error *failures;      /* [CHUNK]: status 0 if the pair was encoded */
    int largest;             /* the most pairs of a chunk: only their tokens have memory */
} builder;

/* ---- encoding ---- */

/* Growing arrays of the result, and appending a pair to them. */

/* Gets memory for at least need elements; *capacity becomes their number. NULL: no memory, and the
 * old block stays. Grows by half, so all growth together copies only a few times the result. */
static void *grow(void *memory, uint64_t need, uint64_t *capacity, size_t size)
{
    if (need <= *capacity)
        return memory;
    /* Cannot wrap: a corpus is refused far below 2^63 elements (UINT32_MAX pairs). */
    uint64_t wanted = need + need / 2 + 1024;
    void *grown = et_realloc(memory, wanted, size);
    if (grown)
        *capacity = wanted;
    return grown;
}

/* Vocabularies of up to 65,536 fit in two bytes an id; build_parts has chosen the width. */
static void append_side(builder *build, const int32_t *ids, size_t count)
{
    et_assert(build->out->width == 2 || build->out->width == 4);
    unsigned char *at =
        (unsigned char *)build->out->tokens + build->out->token_count * (size_t)build->out->width;
    if (build->out->width == 4)
        memcpy(at, ids, count * sizeof *ids);
    else
        for (size_t i = 0; i < count; i++)
            ((uint16_t *)at)[i] = (uint16_t)ids[i];
    build->out->token_count += count;
    et_assert(build->out->token_count <= build->token_capacity);
}

/* offsets[2 i] is the end of the pair before; each side adds its own end. */
static int append_pair(builder *build, int64_t index, const et_tokens sides[2], et_error *error)
{
    /* Makes room for one more pair: its tokens, its line, its two offsets and the final offset.
     * There is room for one token more, so that the array is never NULL. */
    uint64_t tokens = sides[0].count + sides[1].count;
    et_encoded_parts *out = build->out;
    /* Grows each array separately, because their rates differ. Stores a new pointer immediately, so
     * that a later failure loses nothing. */
    uint64_t pairs = (uint64_t)out->pairs;
    void *grown = grow(out->tokens, out->token_count + tokens + 1, &build->token_capacity,
                       (size_t)out->width);
    if (!grown)
        return et_alloc_failed(error, "encoded text");
    out->tokens = grown;
    grown = grow(out->lines, pairs + 1, &build->line_capacity, sizeof *out->lines);
    if (!grown)
        return et_alloc_failed(error, "encoded text");
    out->lines = grown;
    grown = grow(out->offsets, 2 * pairs + 3, &build->offset_capacity, sizeof *out->offsets);
    if (!grown)
        return et_alloc_failed(error, "encoded text");
    out->offsets = grown;

    build->out->lines[build->out->pairs] = (uint32_t)index;
    /* Written with every pair, because that is cheaper than testing for the first one. */
    build->out->offsets[0] = 0;
    for (int side = 0; side < 2; side++) {
        append_side(build, sides[side].ids, sides[side].count);
        build->out->offsets[2 * build->out->pairs + side + 1] = build->out->token_count;
    }
    build->out->pairs++;
    build->out->counts.kept++;
    return ET_OK;
}

/* ---- the filter ---- */

/* The entry of a pair, or the empty place for it. The target's checksum is rotated by one, so that
 * pairs with equal sides do not all fall on place 0. Linear probing ends because the table is never
 * full. */
static seen_pair *find_seen(seen_pair *table, uint64_t capacity, uint64_t source, uint64_t target)
{
    et_assert((capacity & (capacity - 1)) == 0);
    et_assert(capacity > 0);
    uint64_t at = (source ^ (target << 1 | target >> 63)) & (capacity - 1);
    /* Stops at the pair's own entry or at the first empty place. */
    while (table[at].used && (table[at].source != source || table[at].target != target))
        at = (at + 1) & (capacity - 1);
    return &table[at];
}

/* Doubles the table and enters all entries again. Without memory, the old table stays. */
static int grow_seen(builder *build, et_error *error)
{
    uint64_t capacity = build->seen_capacity ? 2 * build->seen_capacity : 4096;
    seen_pair *table;
    if (ET_ALLOC_ZERO(table, capacity, "finding duplicates", error))
        return ET_ENOMEM;
    for (uint64_t i = 0; i < build->seen_capacity; i++)
        if (build->seen[i].used)
            *find_seen(table, capacity, build->seen[i].source, build->seen[i].target) =
                build->seen[i];
    et_free(build->seen);
    build->seen = table;
    build->seen_capacity = capacity;
    return ET_OK;
}

/* Also enters pairs that the filter will drop, because their copies would be dropped too. */
static int is_duplicate(builder *build, const et_corpus_pair *pair, bool *duplicate,
                        et_error *error)
{
    *duplicate = false;
    if (!build->options->deduplicate || build->options->keep_all)
        return ET_OK;
    int status = 2 * build->seen_count >= build->seen_capacity ? grow_seen(build, error) : ET_OK;
    if (status)
        return status;
    uint64_t source = et_checksum(pair->source, pair->source_length);
    uint64_t target = et_checksum(pair->target, pair->target_length);
    seen_pair *entry = find_seen(build->seen, build->seen_capacity, source, target);
    *duplicate = entry->used;
    build->seen_count += !entry->used;
    *entry = (seen_pair){ source, target, true };
    return ET_OK;
}

/* The count of the reason to leave a pair out; NULL: the pair is kept. Lengths count EOS, also in
 * max_ratio: a word and two words are 2 to 3, not 1 to 2. */
static int64_t *reason_to_drop(builder *build, size_t source, size_t target)
{
    const et_encoded_options *options = build->options;
    /* Both with EOS; doubles, since the ratio is one. */
    double longer = (double)(source > target ? source : target) + 1;
    double shorter = (double)(source > target ? target : source) + 1;
    if (options->keep_all)
        return NULL;
    if (source == 0 || target == 0)
        return &build->out->counts.empty;
    if (options->max_seq_length && longer > (double)options->max_seq_length)
        return &build->out->counts.too_long;
    if (options->max_ratio > 0 && longer > shorter * options->max_ratio)
        return &build->out->counts.lopsided;
    return NULL;
}

/* Indices of pairs are four bytes in memory and in the file; more pairs are refused. */
static int add_pair(builder *build, const et_corpus_pair *pair, et_tokens sides[2], et_error *error)
{
    bool duplicate;
    build->out->counts.read++;
    /* lines[] holds indices of four bytes. */
    if (build->out->counts.read > UINT32_MAX)
        return et_fail(error, ET_EDATA, "a corpus of more than 4,294,967,295 pairs: use fewer");
    int status = is_duplicate(build, pair, &duplicate, error);
    if (status)
        return status;
    if (duplicate) {
        build->out->counts.duplicate++;
        return ET_OK;
    }
    int64_t *dropped = reason_to_drop(build, sides[0].count, sides[1].count);
    if (dropped) {
        (*dropped)++;
        return ET_OK;
    }
    return append_pair(build, pair->index, sides, error);
}

/* ---- chunks ---- */

/* Every chunk reuses the same memory: text, pairs, tokens, errors. Only SentencePiece runs in
 * parallel; one thread processes its results. */

/* Reads up to CHUNK pairs, keeping their text; *count of them. Fewer than CHUNK: the corpus has
 * ended. The reader's lines are valid only until the next read, so they are copied one after
 * another. */
static int read_chunk(builder *build, et_corpus *corpus, int *count, et_error *error)
{
    et_corpus_pair pair;
    et_strbuf_reset(&build->text);
    for (*count = 0; *count < CHUNK; (*count)++) {
        int status = et_corpus_next(corpus, &pair, error);
        if (status || !pair.source)
            return status;
        build->chunk[*count] = pair;
        /* Source, then target; point_into_text walks the texts in the same order. */
        et_strbuf_append_bytes(&build->text, pair.source, pair.source_length);
        et_strbuf_append_bytes(&build->text, pair.target, pair.target_length);
        if (build->text.failed)
            return et_alloc_failed(error, "text");
    }
    return ET_OK;
}

/* Sets each pair's texts once the buffer no longer grows: while it grew, it may have moved. */
static void point_into_text(builder *build, int count)
{
    et_assert(count >= 0 && count <= CHUNK);
    const char *at = et_strbuf_text(&build->text);
    for (int i = 0; i < count; i++) {
        et_corpus_pair *pair = &build->chunk[i];
        pair->source = at;
        at += pair->source_length;
        pair->target = at;
        at += pair->target_length;
    }
}

/* Called by many threads: everything it writes is of pair i. */
static int encode_pair(builder *build, int i, et_error *error)
{
    const et_corpus_pair *pair = &build->chunk[i];
    int status = et_sides_encode(&build->sides, false, pair->source, pair->source_length,
                                 &build->encoded[i][0], error);
    return status ? status
                  : et_sides_encode(&build->sides, true, pair->target, pair->target_length,
                                    &build->encoded[i][1], error);
}

static bool is_full(const builder *build)
{
    return build->options->limit && build->out->pairs >= build->options->limit;
}

/* Sentences differ in length, so each free thread takes the next 64 pairs. */
static int encode_chunk(builder *build, int count, et_error *error)
{
    point_into_text(build, count);
    build->largest = count > build->largest ? count : build->largest;
#pragma omp parallel for num_threads(et_team_now()) schedule(dynamic, 64)
    for (int i = 0; i < count; i++) {
        build->failures[i].status = ET_OK;
        build->failures[i].status = encode_pair(build, i, &build->failures[i]);
    }
    for (int i = 0; i < count && !is_full(build); i++) {
        if (build->failures[i].status)
            return et_fail(error, build->failures[i].status, "%s", build->failures[i].text);
        int status = add_pair(build, &build->chunk[i], build->encoded[i], error);
        if (status)
            return status;
    }
    return ET_OK;
}

/* ---- the whole ---- */

/* Chunks until the corpus ends; then the lines of each file, and the sizes. */

/* The cure follows from the reason that dropped most. */
static int nothing_left(const et_corpus_paths *paths, const et_corpus_counts *counts,
                        const et_encoded_options *options, et_error *error)
{
    et_strbuf text = ET_STRBUF_INIT;
    et_corpus_counts_print(counts, &text);
    /* The filter that dropped the most pairs decides the cure. */
    const char *cure = "give lines with text";
    if (counts->too_long >= counts->empty && counts->too_long >= counts->lopsided)
        cure = "raise max_seq_length";
    else if (counts->lopsided > counts->empty)
        cure = "raise max_length_ratio";
    int status = et_fail(error, ET_EDATA,
                         "%s: the filter leaves no pair (max_seq_length %" PRId64 "): %s: %s",
                         et_corpus_files(paths, false)->items[0], options->max_seq_length,
                         et_strbuf_text(&text), cure);
    et_strbuf_release(&text);
    return status;
}

/* If a limit ends the build early, each file has the number of lines read so far, which covers
 * every kept pair. A chunk that is not full is the last one; if the corpus ends with a full chunk,
 * an empty chunk follows and does no harm. */
static int build_all(builder *build, et_corpus *corpus, const et_corpus_paths *paths,
                     et_error *error)
{
    int count = CHUNK, status = ET_OK;
    build->chunk = et_alloc_zero(CHUNK, sizeof *build->chunk);
    build->encoded = et_alloc_zero(CHUNK, sizeof *build->encoded);
    build->failures = et_alloc_zero(CHUNK, sizeof *build->failures);
    if (!build->chunk || !build->encoded || !build->failures)
        return et_alloc_failed(error, "encoding");
    while (!status && count == CHUNK && !is_full(build)) {
        status = read_chunk(build, corpus, &count, error);
        if (!status)
            status = encode_chunk(build, count, error);
    }
    if (!status && build->out->pairs == 0)
        status = nothing_left(paths, &build->out->counts, build->options, error);
    if (status)
        return status;
    /* After the end, when every file's lines are known. */
    for (int side = 0; side < 2; side++) {
        size_t files = et_corpus_files(paths, side)->count;
        build->out->file_lines[side] = et_alloc(files, sizeof(int64_t));
        if (!build->out->file_lines[side])
            return et_alloc_failed(error, "the encoded corpus");
        for (size_t i = 0; i < files; i++)
            build->out->file_lines[side][i] = et_corpus_lines(corpus, side, i);
    }
    return ET_OK;
}

static int64_t larger(int64_t left, int64_t right)
{
    return left > right ? left : right;
}

/* Also detects a cache file whose sizes were changed, because the sizes are computed again from the
 * file. */
static et_encoded_sizes measure(const et_encoded_parts *parts)
{
    et_encoded_sizes sizes = { 0 };
    for (int64_t i = 0; i < parts->pairs; i++) {
        const uint64_t *at = parts->offsets + 2 * i;
        int64_t source = (int64_t)(at[1] - at[0]) + 1, target = (int64_t)(at[2] - at[1]) + 1;
        sizes.source_tokens += source;
        sizes.target_tokens += target;
        sizes.longest_source = larger(sizes.longest_source, source);
        sizes.longest_target = larger(sizes.longest_target, target);
    }
    return sizes;
}

/* Not for parts that point into a mapping. */
static void release_parts(et_encoded_parts *parts)
{
    et_free(parts->offsets);
    et_free(parts->lines);
    et_free(parts->tokens);
    et_free(parts->file_lines[0]);
    et_free(parts->file_lines[1]);
    *parts = (et_encoded_parts){ 0 };
}

/* Everything but out is released in any case. */
static int build_parts(et_encoded_parts *out, const et_corpus_paths *paths, et_sides sides,
                       const et_encoded_options *options, et_error *error)
{
    et_corpus *corpus = NULL;
    const bool wide =
        et_vocabulary_size(sides.source) > 65536 || et_vocabulary_size(sides.target) > 65536;
    *out = (et_encoded_parts){ .width = wide ? 4 : 2 };
    builder build = { .sides = sides, .options = options, .out = out };
    int status = et_corpus_open(&corpus, paths, error);
    if (!status)
        status = build_all(&build, corpus, paths, error);
    for (int i = 0; i < build.largest; i++) {
        et_tokens_release(&build.encoded[i][0]);
        et_tokens_release(&build.encoded[i][1]);
    }
    et_free(build.chunk);
    et_free(build.encoded);
    et_free(build.failures);
    et_free(build.seen);
    et_strbuf_release(&build.text);
    et_corpus_close(corpus);
    if (status)
        release_parts(out);
    else
        out->sizes = measure(out);
    return status;
}

/* ---- the file ---- */

/* encoded_private.h has the layout. Wide elements come before narrow ones and the header is a
 * multiple of 8 bytes, so every array is aligned in a mapping, which begins at a page. The file is
 * used in place: a start copies and converts nothing.
 *
 * A file is checked in three steps, each based on the earlier ones: the header by its own checksum;
 * its sizes against the length of the file, before any array is read; then contents, by checksum
 * and by rules. The rules are for malicious files, whose offsets or ids out of bounds would read
 * foreign memory. */

_Static_assert(sizeof(et_encoded_header) == 160, "the header has no holes");

/* A begin for each side of each pair, and the end of the last pair. */
static size_t offset_count(int64_t pairs)
{
    return 2 * (size_t)pairs + 1;
}

/* Bytes after the header. No overflow: the caller limits pairs and tokens. */
static size_t payload_size(const et_encoded_header *head)
{
    return offset_count(head->pairs) * sizeof(uint64_t) +
           (head->source_files + head->target_files) * sizeof(int64_t) +
           head->pairs * sizeof(uint32_t) + head->tokens * head->width;
}

/* The same order as in list_parts and in payload_size. Pointers lose their const: parts are the
 * same struct for memory that is owned, and nothing writes through it here. */
static void file_parts(et_encoded_parts *parts, const void *file)
{
    const et_encoded_header *head = file;
    char *at = (char *)(uintptr_t)(head + 1);
    et_assert((uintptr_t)at % sizeof(uint64_t) == 0);
    *parts = (et_encoded_parts){ .pairs = head->pairs,
                                 .token_count = head->tokens,
                                 .width = (int)head->width,
                                 .counts = head->counts,
                                 .sizes = head->sizes };
    parts->offsets = (uint64_t *)at;
    at += offset_count(head->pairs) * sizeof(uint64_t);
    parts->file_lines[0] = (int64_t *)at;
    at += head->source_files * sizeof(int64_t);
    parts->file_lines[1] = (int64_t *)at;
    at += head->target_files * sizeof(int64_t);
    parts->lines = (uint32_t *)at;
    at += head->pairs * sizeof(uint32_t);
    parts->tokens = at;
}

/* ---- soundness ---- */

/* Each function returns whether its part is valid. Because of the order of the calls in
 * et_encoded_file_fault, each function may rely on the parts before. */

/* A file of another byte order has another magic number, a file of another version another layout.
 * Both have the fault "header" and are made again. */
static bool header_is_sound(const et_mapping *mapping)
{
    const et_encoded_header *head = mapping->data;
    return mapping->length >= sizeof *head && head->magic == ET_ENCODED_MAGIC &&
           head->version == ET_ENCODED_VERSION &&
           head->header_checksum == et_checksum(head, offsetof(et_encoded_header, header_checksum));
}

/* tokens is compared with the length first, so that the product with the width cannot overflow. */
static bool size_is_sound(const et_mapping *mapping, const size_t files[2])
{
    const et_encoded_header *head = mapping->data;
    return (head->width == 2 || head->width == 4) && head->source_files == files[0] &&
           head->target_files == files[1] && head->pairs >= 1 && head->pairs <= UINT32_MAX &&
           head->tokens <= mapping->length && payload_size(head) == mapping->length - sizeof *head;
}

/* The largest id in one pass, for the compiler to make vector code of: no branch in the loop. */
static uint32_t largest_id(const et_encoded_parts *parts, uint64_t begin, uint64_t end)
{
    uint32_t largest = 0;
    const uint16_t *narrow = parts->tokens;
    const uint32_t *wide = parts->tokens;
    for (uint64_t i = begin; parts->width == 2 && i < end; i++)
        largest = narrow[i] > largest ? narrow[i] : largest;
    for (uint64_t i = begin; parts->width == 4 && i < end; i++)
        largest = wide[i] > largest ? wide[i] : largest;
    return largest;
}

/* Compares token by token only if a vocabulary is smaller than the largest id. */
static bool ids_are_below(const et_encoded_parts *parts, const uint32_t tokens[2])
{
    const uint32_t least = tokens[0] < tokens[1] ? tokens[0] : tokens[1];
    if (largest_id(parts, 0, parts->token_count) < least)
        return true;
    for (int64_t i = 0; i < 2 * parts->pairs; i++)
        if (largest_id(parts, parts->offsets[i], parts->offsets[i + 1]) >= tokens[i % 2])
            return false;
    return true;
}

/* Another key is no fault: the text or a setting changed and the file is outdated. */
const char *et_encoded_file_fault(const et_mapping *mapping, uint64_t key, const size_t files[2],
                                  const uint32_t tokens[2], bool *current)
{
    const et_encoded_header *head = mapping->data;
    et_encoded_parts parts;
    *current = false;
    if (!header_is_sound(mapping))
        return "header";
    if (head->key != key)
        return NULL;
    /* From here on a fault means damage, because the header is that of the wanted file. */
    *current = true;
    if (!size_is_sound(mapping, files))
        return "size";
    if (head->payload != et_checksum(head + 1, mapping->length - sizeof *head))
        return "checksum";
    file_parts(&parts, head);
    /* Offsets run from 0 to the number of tokens, so that every side is within the tokens. */
    size_t last = offset_count(parts.pairs) - 1;
    for (size_t i = 0; i < last; i++)
        if (parts.offsets[i] > parts.offsets[i + 1])
            return "offsets";
    if (!(parts.offsets[0] == 0 && parts.offsets[last] == parts.token_count))
        return "offsets";
    if (!ids_are_below(&parts, tokens))
        return "ids";
    /* Every pair names a line that the files have. */
    for (int side = 0; side < 2; side++) {
        /* How many pairs the files of this side hold together. */
        uint64_t lines = 0;
        for (size_t i = 0; i < files[side]; i++)
            lines += (uint64_t)parts.file_lines[side][i];
        for (int64_t i = 0; i < parts.pairs; i++)
            if (parts.lines[i] >= lines)
                return "lines";
    }
    /* Sizes depend on the offsets, so they are computed again and compared. */
    et_encoded_sizes sizes = measure(&parts);
    return memcmp(&sizes, &head->sizes, sizeof sizes) ? "sizes" : NULL;
}

/* ---- writing ---- */

/* The same five parts in the same order, twice. */

/* A run of bytes of the payload: bytes are borrowed. */
typedef struct part {
    const void *bytes;
    size_t length;
} part;

/* offsets, source lines, target lines, lines of pairs, tokens. */
#define PARTS 5

/* In the order of the file. */
static void list_parts(part list[PARTS], const et_encoded_parts *parts, const size_t files[2])
{
    list[0] = (part){ parts->offsets, offset_count(parts->pairs) * sizeof(uint64_t) };
    list[1] = (part){ parts->file_lines[0], files[0] * sizeof(int64_t) };
    list[2] = (part){ parts->file_lines[1], files[1] * sizeof(int64_t) };
    list[3] = (part){ parts->lines, parts->pairs * sizeof(uint32_t) };
    list[4] = (part){ parts->tokens, parts->token_count * (size_t)parts->width };
}

/* Two passes over the payload, one for the checksum and one to write it: the header comes first
 * in the file, and the data is in memory. */
static int make_header(et_encoded_header *head, const et_encoded_parts *parts, uint64_t key,
                       const size_t files[2], et_error *error)
{
    part list[PARTS];
    et_checksum_stream *stream;
    int status = et_checksum_stream_open(&stream, error);
    if (status)
        return status;
    list_parts(list, parts, files);
    for (int i = 0; i < PARTS; i++)
        et_checksum_stream_add(stream, list[i].bytes, list[i].length);
    *head = (et_encoded_header){ .magic = ET_ENCODED_MAGIC,
                                 .version = ET_ENCODED_VERSION,
                                 .width = (uint32_t)parts->width,
                                 .key = key,
                                 .pairs = parts->pairs,
                                 .tokens = parts->token_count,
                                 .source_files = files[0],
                                 .target_files = files[1],
                                 .counts = parts->counts,
                                 .sizes = parts->sizes,
                                 .payload = et_checksum_stream_value(stream) };
    /* Last, over all that is before it, the checksum of the payload included. */
    head->header_checksum = et_checksum(head, offsetof(et_encoded_header, header_checksum));
    et_checksum_stream_close(stream);
    return ET_OK;
}

/* A temporary name until all is written: a kill leaves the old cache or the new one. */
static int file_write(const et_encoded_parts *parts, uint64_t key, const size_t files[2],
                      const char *path, et_error *error)
{
    part list[PARTS];
    et_encoded_header head;
    et_file_writer writer;
    int status;
    if ((status = make_header(&head, parts, key, files, error)) ||
        (status = et_file_writer_open(&writer, path, error)))
        return status;
    et_assert(parts->pairs > 0 && (parts->width == 2 || parts->width == 4));
    list_parts(list, parts, files);
    et_file_writer_put(&writer, &head, sizeof head);
    for (int i = 0; i < PARTS; i++)
        et_file_writer_put(&writer, list[i].bytes, list[i].length);
    return et_file_writer_end(&writer, ET_OK, error);
}

/* Everything that an et_encoded owns. `shown` is the first member, so that close can cast back. */
typedef struct whole {
    et_encoded shown;       /* the part that callers see; points into parts */
    et_corpus_paths paths;  /* lists borrowed */
    size_t files[2];        /* how many they are */
    et_encoded_parts parts; /* owned, or within the mapping */
    et_mapping mapping;     /* of the cache; data is NULL if the parts are in memory */
} whole;

/* ---- the key ---- */

/* 64 bits: for a cache, not for a proof. Two corpora with one key would have to be chosen. */

/* Facts besides text that the result depends on: vocabulary, filter, and ET_ENCODED_VERSION, which
 * you must raise when the filter or the layout changes. The ratio is hashed by its bits. A limit,
 * a separate target vocabulary, rules for punctuation, tags and copies are added only if they are
 * used, so that other keys stay valid. */
#define AUGMENT_VERSION 2 /* raise when copies change */

static uint64_t facts_of(et_sides sides, const et_encoded_options *options,
                         const et_corpus_paths *paths)
{
    uint64_t facts[10] = { ET_ENCODED_VERSION,
                           et_vocabulary_checksum(sides.source),
                           (uint64_t)options->max_seq_length,
                           0,
                           options->deduplicate,
                           options->keep_all,
                           (uint64_t)options->limit,
                           et_vocabulary_checksum(sides.target),
                           et_punctuation_number(sides.punctuation[0]),
                           et_punctuation_number(sides.punctuation[1]) };
    memcpy(&facts[3], &options->max_ratio, sizeof facts[3]);
    const size_t count = facts[8] || facts[9]   ? 10
                         : facts[7] != facts[1] ? 8
                         : options->limit       ? 7
                                                : 6;
    const uint64_t plain = et_checksum(facts, count * sizeof facts[0]);
    const bool tagged = paths->tag && *paths->tag;
    const uint64_t tags[3] = { plain, tagged ? et_checksum(paths->tag, strlen(paths->tag)) : 0,
                               paths->tag_column };
    const uint64_t key = tagged || paths->tag_column ? et_checksum(tags, sizeof tags) : plain;
    uint64_t copies[2 + ET_AUGMENT_KINDS] = { key, AUGMENT_VERSION };
    memcpy(&copies[2], paths->augment.rates, sizeof paths->augment.rates);
    return et_augment_is_used(&paths->augment) ? et_checksum(copies, sizeof copies) : key;
}

/* Reads all bytes of all files, once; packed files are not unpacked. */
static int content_key(uint64_t *key, const et_corpus_paths *paths, uint64_t facts, et_error *error)
{
    et_checksum_stream *stream;
    int status = et_checksum_stream_open(&stream, error);
    if (status)
        return status;
    et_checksum_stream_add(stream, &facts, sizeof facts);
    status = et_text_checksum_files(stream, &paths->source, error);
    if (!status)
        status = et_text_checksum_files(stream, &paths->target, error);
    if (!status)
        status = et_text_checksum_files(stream, &paths->tsv, error);
    if (!status && paths->records.count) {
        /* Not without records, so that the keys of texts stay valid. Names are hashed with their
         * final 0. */
        et_checksum_stream_add(stream, paths->source_feature, strlen(paths->source_feature) + 1);
        et_checksum_stream_add(stream, paths->target_feature, strlen(paths->target_feature) + 1);
        status = et_text_checksum_files(stream, &paths->records, error);
    }
    *key = et_checksum_stream_value(stream);
    et_checksum_stream_close(stream);
    return status;
}

/* ---- cache or text ---- */

/* Sources of the result are tried from the cheapest to the most expensive; a fault in one leads to
 * the next. */

/* From here on, self owns the mapping. */
static void use_mapping(whole *self, const et_mapping *mapping)
{
    self->mapping = *mapping;
    file_parts(&self->parts, mapping->data);
}

/* Maps the cache if it holds this key. A damaged cache gives a warning, an outdated one does not. A
 * failure is never an error, because the text can be read instead. */
static bool map_cache(whole *self, const char *path, uint64_t key, et_sides sides)
{
    const uint32_t tokens[2] = { (uint32_t)et_vocabulary_size(sides.source),
                                 (uint32_t)et_vocabulary_size(sides.target) };
    et_mapping mapping;
    et_error error = ET_ERROR_INIT;
    if (!path || !et_file_exists(path))
        return false;
    if (et_mapping_open(&mapping, path, &error)) {
        et_log(ET_LOG_WARNING, "Etude ignores cached pairs: %s", error.text);
        return false;
    }
    bool current;
    const char *fault = et_encoded_file_fault(&mapping, key, self->files, tokens, &current);
    if (fault)
        et_log(ET_LOG_WARNING, "%s is damaged (%s); Etude makes it again from the text", path,
               fault);
    if (fault || !current) {
        et_mapping_close(&mapping);
        return false;
    }
    use_mapping(self, &mapping);
    return true;
}

/* Maps a cache that was found undamaged before, if no file was written since. If anything differs,
 * map_cache reports the difference. */
static bool map_stamped(whole *self, const et_encoding_stamp *stamp, const char *path,
                        uint64_t *key)
{
    et_mapping mapping;
    if (!et_encoding_stamp_recall(stamp, path, key) || et_mapping_open(&mapping, path, NULL))
        return false;
    /* Still checks the header: this costs one page, whatever the file's length. */
    const et_encoded_header *head = mapping.data;
    bool sound =
        header_is_sound(&mapping) && head->key == *key && size_is_sound(&mapping, self->files);
    if (sound)
        use_mapping(self, &mapping);
    else
        et_mapping_close(&mapping);
    return sound;
}

/* Reads the text. The key was made before: text that changed since would be kept under a wrong
 * one. */
static int read_text(whole *self, et_sides sides, const et_encoded_options *options, uint64_t key,
                     et_error *error)
{
    uint64_t key_now;
    int status = build_parts(&self->parts, &self->paths, sides, options, error);
    if (!status)
        status = content_key(&key_now, &self->paths, facts_of(sides, options, &self->paths), error);
    if (!status && key_now != key)
        status = et_fail(
            error, ET_EDATA,
            "%s: the text changed while Etude read it: start again when no program writes to it",
            et_corpus_files(&self->paths, false)->items[0]);
    return status;
}

/* A key depends on the bytes of all files, not on their paths, which the caller may change. */
static int check_expected(const whole *self, const et_encoded_options *options, uint64_t key,
                          et_error *error)
{
    if (!options->expected || options->expected == key)
        return ET_OK;
    return et_fail(
        error, ET_EDATA,
        "%s: the run was trained on other text (checksum of all files %s, was %s). Name the files "
        "that the run was trained on, or train another run from its weights: --init RUN",
        et_corpus_files(&self->paths, false)->items[0], et_checksum_print(key).digits,
        et_checksum_print(options->expected).digits);
}

/* Chooses by content: the cache if it is of this text, else the text. */
static int open_content(whole *self, et_sides sides, const et_encoded_options *options,
                        const char *cache_path, uint64_t *key, et_error *error)
{
    int status = content_key(key, &self->paths, facts_of(sides, options, &self->paths), error);
    if (!status)
        status = check_expected(self, options, *key, error);
    if (status || map_cache(self, cache_path, *key, sides))
        return status;
    status = read_text(self, sides, options, *key, error);
    /* If the disk is full or read-only, only the next start takes longer. */
    et_error why = ET_ERROR_INIT;
    if (!status && !options->read_only && cache_path &&
        file_write(&self->parts, *key, self->files, cache_path, &why))
        et_log(ET_LOG_WARNING, "cannot keep encoded pairs for the next start: %s", why.text);
    return status;
}

/* The files' facts are read before and after their contents. The note is written only if both are
 * equal, so that a change in between is found. A note is written for a cache that was read; a new
 * cache would be too recent. */
static int open_any(whole *self, et_sides sides, const et_encoded_options *options,
                    const char *cache_path, uint64_t *key, et_error *error)
{
    uint64_t facts = facts_of(sides, options, &self->paths);
    et_encoding_stamp before, after;
    bool stamped = cache_path && et_encoding_stamp_take(&before, facts, &self->paths, cache_path);
    if (stamped && map_stamped(self, &before, cache_path, key))
        return check_expected(self, options, *key, error);
    int status = open_content(self, sides, options, cache_path, key, error);
    if (!status && stamped && !options->read_only && self->mapping.data &&
        et_encoding_stamp_take(&after, facts, &self->paths, cache_path) &&
        after.stamp == before.stamp)
        et_encoding_stamp_note(&before, cache_path, *key);
    return status;
}

/* close accepts self in any state: with the mapping, or with some of the parts. */
int et_encoded_open(et_encoded **out, const et_corpus_paths *paths, et_sides sides,
                    const et_encoded_options *options, const char *cache_path, et_error *error)
{
    et_assert(options->max_seq_length >= 0 && options->max_ratio >= 0 && options->limit >= 0);
    uint64_t key;
    whole *self;
    if (ET_ALLOC_ZERO(self, 1, "the encoded corpus", error))
        return ET_ENOMEM;
    self->paths = *paths;
    int status = et_corpus_paths_check(paths, error);
    self->files[0] = et_corpus_files(paths, false)->count;
    self->files[1] = et_corpus_files(paths, true)->count;
    if (!status)
        status = open_any(self, sides, options, cache_path, &key, error);
    if (status) {
        et_encoded_close(&self->shown);
        return status;
    }
    /* Symbols come from the vocabularies, not from the cache: the key binds them. */
    const et_encoded_parts *parts = &self->parts;
    self->shown =
        (et_encoded){ .pairs = parts->pairs,
                      .offsets = parts->offsets,
                      .tokens = parts->tokens,
                      .width = parts->width,
                      .lines = parts->lines,
                      .counts = parts->counts,
                      .sizes = parts->sizes,
                      .start = et_vocabulary_start(sides.target),
                      .eos = { et_vocabulary_eos(sides.source), et_vocabulary_eos(sides.target) },
                      .key = key,
                      .from_cache = self->mapping.data != NULL };
    *out = &self->shown;
    return ET_OK;
}

/* Parts within a mapping go with it. */
void et_encoded_close(et_encoded *encoded)
{
    _Static_assert(offsetof(whole, shown) == 0, "close goes from one to the other");
    whole *self = (whole *)encoded;
    if (!self)
        return;
    if (self->mapping.data)
        et_mapping_close(&self->mapping);
    else
        release_parts(&self->parts);
    et_free(self);
}

/* ---- pairs ---- */

/* Ids of two bytes are widened. EOS is added here; no file contains it. */
int64_t et_encoded_truncated_ids(const et_encoded *encoded, int64_t pair, bool target, int64_t most,
                                 int32_t *ids)
{
    et_assert(pair >= 0 && pair < encoded->pairs);
    uint64_t begin = encoded->offsets[2 * pair + target];
    size_t count = (size_t)et_encoded_truncated_length(encoded, pair, target, most) - 1;
    const uint16_t *narrow = (const uint16_t *)encoded->tokens + begin;
    if (encoded->width == 4)
        memcpy(ids, (const uint32_t *)encoded->tokens + begin, count * sizeof *ids);
    else
        for (size_t i = 0; i < count; i++)
            ids[i] = narrow[i];
    ids[count] = encoded->eos[target];
    return (int64_t)count + 1;
}

void et_encoded_ids(const et_encoded *encoded, int64_t pair, bool target, int32_t *ids)
{
    et_encoded_truncated_ids(encoded, pair, target, 0, ids);
}

/* lines[pair] is the pair's index among all pairs that were read, so the place is right although
 * earlier pairs were filtered. */
void et_encoded_locate(const et_encoded *encoded, int64_t pair, bool target, const char **path,
                       int64_t *line)
{
    et_assert(pair >= 0 && pair < encoded->pairs);
    const whole *self = (const whole *)encoded;
    et_corpus_locate(&self->paths, self->parts.file_lines[target], target, encoded->lines[pair],
                     path, line);
}
