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

#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/files/file.h"
#include "data/text/encoded_build.h"
#include "data/text/encoded_file.h"
#include "data/text/encoded_seen.h"
#include "data/text/punctuation.h"

/* Everything that an et_encoded owns. `shown` is the first member, so that close can cast back. */
typedef struct whole {
    et_encoded shown;       /* what callers see; points into parts */
    et_corpus_paths paths;  /* lists borrowed */
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

/* Called only if there are records, so that the keys of texts stay valid. Names are hashed with
 * their final 0. */
static int add_records(et_checksum_stream *stream, const et_corpus_paths *paths, et_error *error)
{
    et_checksum_stream_add(stream, paths->source_feature, strlen(paths->source_feature) + 1);
    et_checksum_stream_add(stream, paths->target_feature, strlen(paths->target_feature) + 1);
    return et_text_checksum_files(stream, &paths->records, error);
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
    if (!status && paths->records.count)
        status = add_records(stream, paths, error);
    *key = et_checksum_stream_value(stream);
    et_checksum_stream_close(stream);
    return status;
}

/* ---- the public view ---- */

/* Symbols come from the vocabularies, not from the cache: the key binds them. */
static void show(whole *self, et_sides sides, uint64_t key)
{
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
}

/* ---- cache or text ---- */

/* Sources of the result are tried from the cheapest to the most expensive; a fault in one leads to
 * the next. */

/* The mapping is self's to close from here on. */
static void use_mapping(whole *self, const et_mapping *mapping)
{
    self->mapping = *mapping;
    et_encoded_file_parts(&self->parts, mapping->data);
}

/* Maps the cache if it holds this key. A damaged cache gives a warning, an outdated one does not. A
 * failure is never an error, because the text can be read instead. */
static bool map_cache(whole *self, const char *path, uint64_t key, et_sides sides)
{
    size_t files[2] = { et_corpus_files(&self->paths, false)->count,
                        et_corpus_files(&self->paths, true)->count };
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
    const char *fault = et_encoded_file_fault(&mapping, key, files, tokens, &current);
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

/* Maps a cache that was found intact before, if no file was written since. If anything differs,
 * map_cache reports it. */
static bool map_seen(whole *self, const et_encoded_seen *seen, const char *path, uint64_t *key)
{
    size_t files[2] = { et_corpus_files(&self->paths, false)->count,
                        et_corpus_files(&self->paths, true)->count };
    et_mapping mapping;
    if (!et_encoded_recall(seen, path, key) || et_mapping_open(&mapping, path, NULL))
        return false;
    /* Still checks the header: this costs one page and gives the key. */
    bool sound = et_encoded_file_is_still_sound(&mapping, *key, files);
    if (sound)
        use_mapping(self, &mapping);
    else
        et_mapping_close(&mapping);
    return sound;
}

/* A disk that is full or read-only costs the next start some time and this one nothing. */
static void write_cache(const whole *self, const char *path, uint64_t key)
{
    size_t files[2] = { et_corpus_files(&self->paths, false)->count,
                        et_corpus_files(&self->paths, true)->count };
    et_error error = ET_ERROR_INIT;
    if (path && et_encoded_file_write(&self->parts, key, files, path, &error))
        et_log(ET_LOG_WARNING, "cannot keep encoded pairs for the next start: %s", error.text);
}

/* Reads the text. The key was made before: text that changed since would be kept under a wrong
 * one. */
static int read_text(whole *self, et_sides sides, const et_encoded_options *options, uint64_t key,
                     et_error *error)
{
    uint64_t key_now;
    int status = et_encoded_build(&self->parts, &self->paths, sides, options, error);
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

/* By content: the cache if it has this text, else the text. */
static int open_content(whole *self, et_sides sides, const et_encoded_options *options,
                        const char *cache_path, uint64_t *key, et_error *error)
{
    int status = content_key(key, &self->paths, facts_of(sides, options, &self->paths), error);
    if (!status)
        status = check_expected(self, options, *key, error);
    if (status || map_cache(self, cache_path, *key, sides))
        return status;
    status = read_text(self, sides, options, *key, error);
    if (!status && !options->read_only)
        write_cache(self, cache_path, *key);
    return status;
}

/* The files' facts are read before and after their contents: the note is written only if both are
 * equal, so that a change in between is noticed. It is written for a cache that was read, not for a
 * new one, which would be too recent to be noted. */
static int open_any(whole *self, et_sides sides, const et_encoded_options *options,
                    const char *cache_path, uint64_t *key, et_error *error)
{
    uint64_t facts = facts_of(sides, options, &self->paths);
    et_encoded_seen before, after;
    bool seen = cache_path && et_encoded_look(&before, facts, &self->paths, cache_path);
    if (seen && map_seen(self, &before, cache_path, key))
        return check_expected(self, options, *key, error);
    int status = open_content(self, sides, options, cache_path, key, error);
    if (!status && seen && !options->read_only && self->mapping.data &&
        et_encoded_look(&after, facts, &self->paths, cache_path) && after.stamp == before.stamp)
        et_encoded_note(&before, cache_path, *key);
    return status;
}

/* close takes self in any state, by the mapping or the parts that are there. */
int et_encoded_open(et_encoded **out, const et_corpus_paths *paths, et_sides sides,
                    const et_encoded_options *options, const char *cache_path, et_error *error)
{
    et_assert(options->max_seq_length >= 0 && options->max_ratio >= 0 && options->limit >= 0);
    uint64_t key;
    whole *self = et_alloc_zero(1, sizeof *self);
    if (!self)
        return et_alloc_failed(error, sizeof *self, "the encoded corpus");
    self->paths = *paths;
    int status = et_corpus_paths_check(paths, error);
    if (!status)
        status = open_any(self, sides, options, cache_path, &key, error);
    if (status) {
        et_encoded_close(&self->shown);
        return status;
    }
    show(self, sides, key);
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
        et_encoded_parts_release(&self->parts);
    et_free(self);
}

/* ---- pairs ---- */

/* Three offsets, which may be on two lines of cache: the second is seldom, and left. */
void et_encoded_lengths_soon(const et_encoded *encoded, int64_t pair)
{
    et_assert(pair >= 0 && pair < encoded->pairs);
    __builtin_prefetch(&encoded->offsets[2 * pair], 0, 2);
}

/* Both sides are adjacent. */
void et_encoded_ids_soon(const et_encoded *encoded, int64_t pair)
{
    et_assert(pair >= 0 && pair < encoded->pairs);
    uint64_t width = (uint64_t)encoded->width;
    const char *at = (const char *)encoded->tokens + encoded->offsets[2 * pair] * width;
    const char *end = (const char *)encoded->tokens + encoded->offsets[2 * pair + 2] * width;
    for (; at < end; at += 64)
        __builtin_prefetch(at, 0, 3);
}

/* Ids of two bytes are widened; EOS is added here and is in no file. */
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
