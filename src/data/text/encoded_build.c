/* Text to ids, in chunks of pairs: read (one thread, gzip and UTF-8 checks), encoded (all threads,
 * a pair at a time; SentencePiece takes most of the time), then filtered and appended in the order
 * of the corpus. So the result is the same for any number of threads, and the first error in the
 * order of the text is reported.
 *
 * The filter, in this order; the first reason that applies is counted:
 *
 *   duplicate   both sides equal, byte for byte, those of an earlier pair (deduplicate)
 *   empty       a side without a token
 *   too long    a side of more than max_seq_length tokens, EOS counted
 *   lopsided    longer > max_ratio * shorter, EOS counted in both
 *
 * With keep_all (evaluation) nothing is left out. With a limit, building ends when that many pairs
 * are kept.
 *
 * Memory: the result, which grows by half when it is full, plus a chunk; with deduplicate, also 24
 * bytes per entry of a table that is at most half full. */
#include "data/text/encoded_private.h"
#include "data/text/punctuation.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/threads/team.h"

/* Pairs that are read, then encoded by all threads, then looked at in order. Enough that threads
 * seldom wait for each other at its end, few enough that its text stays in the cache. */
#define CHUNK 2048

/* Two checksums of a pair's sides: equal by accident once in 2^128. A table of texts would need
 * the corpus in memory. */
typedef struct seen {
    uint64_t source, target;
    bool used; /* false: an empty place */
} seen;

typedef struct builder {
    et_sides sides; /* borrowed, as options and out */
    const et_encoded_options *options;
    et_encoded_parts *out;
    uint64_t token_capacity, line_capacity, offset_capacity; /* elements there is room for */
    seen *seen;             /* open addressing; used when duplicates are dropped */
    uint64_t seen_capacity; /* a power of two, or 0 */
    uint64_t seen_count;
    et_strbuf text;          /* texts of the chunk, one side after the other */
    et_corpus_pair *chunk;   /* [CHUNK]; texts are offsets until the chunk is whole */
    et_tokens (*encoded)[2]; /* [CHUNK]: source and target; memory is used again by each chunk */
    et_error *failures;      /* [CHUNK]: status 0 if the pair was encoded */
    int largest;             /* the most pairs of a chunk: only their tokens have memory */
} builder;

/* ---- encoding ---- */

/* Growing arrays of the result, and appending a pair to them. */

/* Memory for at least need elements; *capacity of them. NULL: none left, the old one stays. Half
 * as much again each time: the copying of all growth together is a few times the result. */
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

/* Vocabularies of up to 65,536 fit in two bytes an id; et_encoded_build has chosen the width. */
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
    /* Grows each array separately, since they grow at different rates; the new pointer is stored at
     * once, so that a later failure loses nothing. */
    uint64_t pairs = (uint64_t)out->pairs;
    void *grown = grow(out->tokens, out->token_count + tokens + 1, &build->token_capacity,
                       (size_t)out->width);
    if (!grown)
        return et_alloc_failed(error, out->token_count * (size_t)out->width, "encoded text");
    out->tokens = grown;
    grown = grow(out->lines, pairs + 1, &build->line_capacity, sizeof *out->lines);
    if (!grown)
        return et_alloc_failed(error, pairs * sizeof *out->lines, "encoded text");
    out->lines = grown;
    grown = grow(out->offsets, 2 * pairs + 3, &build->offset_capacity, sizeof *out->offsets);
    if (!grown)
        return et_alloc_failed(error, 2 * pairs * sizeof *out->offsets, "encoded text");
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
static seen *find_seen(seen *table, uint64_t capacity, uint64_t source, uint64_t target)
{
    et_assert((capacity & (capacity - 1)) == 0);
    et_assert(capacity > 0);
    uint64_t at = (source ^ (target << 1 | target >> 63)) & (capacity - 1);
    /* Stops at the pair's own entry or at the first empty place. */
    while (table[at].used && (table[at].source != source || table[at].target != target))
        at = (at + 1) & (capacity - 1);
    return &table[at];
}

/* Doubles the size and enters the entries again. The old table stays if there is no memory. */
static int grow_seen(builder *build, et_error *error)
{
    uint64_t capacity = build->seen_capacity ? 2 * build->seen_capacity : 4096;
    seen *table = et_alloc_zero(capacity, sizeof *table);
    if (!table)
        return et_alloc_failed(error, capacity * sizeof *table, "finding duplicates");
    for (uint64_t i = 0; i < build->seen_capacity; i++)
        if (build->seen[i].used)
            *find_seen(table, capacity, build->seen[i].source, build->seen[i].target) =
                build->seen[i];
    et_free(build->seen);
    build->seen = table;
    build->seen_capacity = capacity;
    return ET_OK;
}

/* Also enters pairs that the filter will drop: their copies would be dropped too. */
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
    seen *entry = find_seen(build->seen, build->seen_capacity, source, target);
    *duplicate = entry->used;
    build->seen_count += !entry->used;
    *entry = (seen){ source, target, true };
    return ET_OK;
}

/* The count that a pair belongs to, NULL if it is kept. Lengths count EOS. max_ratio is of
 * lengths that count EOS: a word against two is 2 to 3, not 1 to 2. */
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
        /* Source, then target: point_into_text walks them in the same order. */
        et_strbuf_append_bytes(&build->text, pair.source, pair.source_length);
        et_strbuf_append_bytes(&build->text, pair.target, pair.target_length);
        if (build->text.failed)
            return et_alloc_failed(error, build->text.length, "text");
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
    if (!status)
        status = et_sides_encode(&build->sides, true, pair->target, pair->target_length,
                                 &build->encoded[i][1], error);
    return status;
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

/* If it fails, close_builder frees what was allocated. */
static int open_builder(builder *build, et_error *error)
{
    build->chunk = et_alloc_zero(CHUNK, sizeof *build->chunk);
    build->encoded = et_alloc_zero(CHUNK, sizeof *build->encoded);
    build->failures = et_alloc_zero(CHUNK, sizeof *build->failures);
    if (!build->chunk || !build->encoded || !build->failures)
        return et_alloc_failed(error, CHUNK * sizeof *build->failures, "encoding");
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
        cure = "raise max_ratio";
    int status = et_fail(error, ET_EDATA,
                         "%s: the filter leaves no pair (max_seq_length %" PRId64 "): %s: %s",
                         et_corpus_files(paths, false)->items[0], options->max_seq_length,
                         et_strbuf_text(&text), cure);
    et_strbuf_release(&text);
    return status;
}

/* If a limit ends the build early, each file's lines are those read so far, which covers every kept
 * pair. A chunk that is not full is the last one; if the corpus ends with a full chunk, an empty
 * chunk follows and does no harm. */
static int build_all(builder *build, et_corpus *corpus, const et_corpus_paths *paths,
                     et_error *error)
{
    int count = CHUNK;
    int status = open_builder(build, error);
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
            return et_alloc_failed(error, files * sizeof(int64_t), "the encoded corpus");
        for (size_t i = 0; i < files; i++)
            build->out->file_lines[side][i] = et_corpus_lines(corpus, side, i);
    }
    return ET_OK;
}

/* Bytes of an id, of whichever side. */
static int width_of(et_sides sides)
{
    return et_vocabulary_size(sides.source) > 65536 || et_vocabulary_size(sides.target) > 65536 ? 4
                                                                                                : 2;
}

/* Everything but out is released in any case. */
int et_encoded_build(et_encoded_parts *out, const et_corpus_paths *paths, et_sides sides,
                     const et_encoded_options *options, et_error *error)
{
    et_corpus *corpus = NULL;
    *out = (et_encoded_parts){ .width = width_of(sides) };
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
        et_encoded_parts_release(out);
    else
        out->sizes = et_encoded_measure(out);
    return status;
}

static int64_t larger(int64_t left, int64_t right)
{
    return left > right ? left : right;
}

/* Also detects a cache file whose sizes were changed, because they are computed again from it. */
et_encoded_sizes et_encoded_measure(const et_encoded_parts *parts)
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
void et_encoded_parts_release(et_encoded_parts *parts)
{
    et_free(parts->offsets);
    et_free(parts->lines);
    et_free(parts->tokens);
    et_free(parts->file_lines[0]);
    et_free(parts->file_lines[1]);
    *parts = (et_encoded_parts){ 0 };
}
