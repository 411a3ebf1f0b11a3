#include "data/encoded.h"

#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/file.h"
#include "data/encoded_build.h"
#include "data/encoded_file.h"
#include "data/encoded_seen.h"
#include "io/checksum.h"

/* What an et_encoded owns besides what it shows. */
typedef struct whole {
    et_encoded shown;
    et_corpus_paths paths;  /* lists borrowed */
    et_encoded_parts parts; /* owned, or within the mapping */
    et_mapping mapping;     /* of the cache; data is NULL if the parts are in memory */
} whole;

/* ---- the key ---- */

static int add_files(et_checksum_stream *stream, const et_strings *files, et_error *error)
{
    uint64_t facts[2] = { files->count, 0 };
    et_checksum_stream_add(stream, facts, sizeof facts);
    for (size_t i = 0; i < files->count; i++) {
        int status = et_text_checksum(&facts[0], &facts[1], files->items[i], error);
        if (status)
            return status;
        et_checksum_stream_add(stream, facts, sizeof facts);
    }
    return ET_OK;
}

/* What the result depends on besides text: vocabulary, filter, and how they become a result. */
static uint64_t facts_of(const et_vocabulary *vocabulary, const et_encoded_options *options)
{
    uint64_t facts[6] = { ET_ENCODED_VERSION,
                          et_vocabulary_checksum(vocabulary),
                          (uint64_t)options->max_seq_length,
                          0,
                          options->deduplicate,
                          options->keep_all };
    memcpy(&facts[3], &options->max_ratio, sizeof facts[3]);
    return et_checksum(facts, sizeof facts);
}

static int content_key(uint64_t *key, const et_corpus_paths *paths, uint64_t facts, et_error *error)
{
    et_checksum_stream *stream;
    int status = et_checksum_stream_open(&stream, error);
    if (status)
        return status;
    et_checksum_stream_add(stream, &facts, sizeof facts);
    status = add_files(stream, &paths->source, error);
    if (!status)
        status = add_files(stream, &paths->target, error);
    if (!status)
        status = add_files(stream, &paths->tsv, error);
    *key = et_checksum_stream_value(stream);
    et_checksum_stream_close(stream);
    return status;
}

/* ---- what is shown ---- */

static void show(whole *self, const et_vocabulary *vocabulary, uint64_t key)
{
    const et_encoded_parts *parts = &self->parts;
    self->shown = (et_encoded){ .pairs = parts->pairs,
                                .offsets = parts->offsets,
                                .pieces = parts->pieces,
                                .width = parts->width,
                                .lines = parts->lines,
                                .counts = parts->counts,
                                .sizes = parts->sizes,
                                .start = et_vocabulary_start(vocabulary),
                                .eos = et_vocabulary_eos(vocabulary),
                                .vocabulary_size = et_vocabulary_size(vocabulary),
                                .key = key,
                                .from_cache = self->mapping.data != NULL };
}

/* ---- cache or text ---- */

static void use_mapping(whole *self, const et_mapping *mapping)
{
    self->mapping = *mapping;
    et_encoded_file_parts(&self->parts, mapping->data);
}

/* Maps the cache if it holds this key. A damaged one is worth a warning, an outdated one not. */
static bool map_cache(whole *self, const char *path, uint64_t key, uint32_t vocabulary_size)
{
    size_t files[2] = { et_corpus_files(&self->paths, false)->count,
                        et_corpus_files(&self->paths, true)->count };
    et_mapping mapping;
    et_error error = ET_ERROR_INIT;
    if (!path || !et_file_exists(path))
        return false;
    if (et_mapping_open(&mapping, path, &error)) {
        et_log(ET_LOG_WARNING, "cached pairs are not used: %s", error.text);
        return false;
    }
    bool current;
    const char *fault = et_encoded_file_fault(&mapping, key, files, vocabulary_size, &current);
    if (fault)
        et_log(ET_LOG_WARNING, "%s is damaged (%s): made again from the text", path, fault);
    if (fault || !current) {
        et_mapping_close(&mapping);
        return false;
    }
    use_mapping(self, &mapping);
    return true;
}

/* Maps a cache that was found sound before, if nothing was written since; what is not as it
 * should be is left to map_cache to say. */
static bool map_seen(whole *self, const et_encoded_seen *seen, const char *path, uint64_t *key)
{
    size_t files[2] = { et_corpus_files(&self->paths, false)->count,
                        et_corpus_files(&self->paths, true)->count };
    et_mapping mapping;
    if (!et_encoded_recall(seen, path, key) || et_mapping_open(&mapping, path, NULL))
        return false;
    bool sound = et_encoded_file_is_still_sound(&mapping, *key, files);
    if (sound)
        use_mapping(self, &mapping);
    else
        et_mapping_close(&mapping);
    return sound;
}

static void write_cache(const whole *self, const char *path, uint64_t key)
{
    size_t files[2] = { et_corpus_files(&self->paths, false)->count,
                        et_corpus_files(&self->paths, true)->count };
    et_error error = ET_ERROR_INIT;
    if (path && et_encoded_file_write(&self->parts, key, files, path, &error))
        et_log(ET_LOG_WARNING, "encoded pairs are not kept for the next start: %s", error.text);
}

/* Reads the text. The key was made before: text that changed since would be kept under a wrong
 * one. */
static int read_text(whole *self, const et_vocabulary *vocabulary,
                     const et_encoded_options *options, uint64_t key, et_error *error)
{
    uint64_t key_now;
    int status = et_encoded_build(&self->parts, &self->paths, vocabulary, options, error);
    if (!status)
        status = content_key(&key_now, &self->paths, facts_of(vocabulary, options), error);
    if (!status && key_now != key)
        status = et_fail(error, ET_EDATA,
                         "%s: the text changed while it was read: start again when it is done",
                         et_corpus_files(&self->paths, false)->items[0]);
    return status;
}

/* By content: the cache if it has this text, else the text. */
static int open_content(whole *self, const et_vocabulary *vocabulary,
                        const et_encoded_options *options, const char *cache_path, uint64_t *key,
                        et_error *error)
{
    int status = content_key(key, &self->paths, facts_of(vocabulary, options), error);
    if (status || map_cache(self, cache_path, *key, (uint32_t)et_vocabulary_size(vocabulary)))
        return status;
    status = read_text(self, vocabulary, options, *key, error);
    if (!status)
        write_cache(self, cache_path, *key);
    return status;
}

static int open_any(whole *self, const et_vocabulary *vocabulary, const et_encoded_options *options,
                    const char *cache_path, uint64_t *key, et_error *error)
{
    uint64_t facts = facts_of(vocabulary, options);
    et_encoded_seen before, after;
    bool seen = cache_path && et_encoded_look(&before, facts, &self->paths, cache_path);
    if (seen && map_seen(self, &before, cache_path, key))
        return ET_OK;
    int status = open_content(self, vocabulary, options, cache_path, key, error);
    if (!status && seen && self->mapping.data &&
        et_encoded_look(&after, facts, &self->paths, cache_path) && after.stamp == before.stamp)
        et_encoded_note(&before, cache_path, *key);
    return status;
}

int et_encoded_open(et_encoded **out, const et_corpus_paths *paths, const et_vocabulary *vocabulary,
                    const et_encoded_options *options, const char *cache_path, et_error *error)
{
    et_assert(options->max_seq_length >= 0 && options->max_ratio >= 0);
    uint64_t key;
    whole *self = et_alloc_zero(1, sizeof *self);
    if (!self)
        return et_alloc_failed(error, sizeof *self, "the encoded corpus");
    self->paths = *paths;
    int status = et_corpus_paths_check(paths, error);
    if (!status)
        status = open_any(self, vocabulary, options, cache_path, &key, error);
    if (status) {
        et_encoded_close(&self->shown);
        return status;
    }
    show(self, vocabulary, key);
    *out = &self->shown;
    return ET_OK;
}

void et_encoded_close(et_encoded *encoded)
{
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

void et_encoded_ids(const et_encoded *encoded, int64_t pair, bool target, int32_t *ids)
{
    et_assert(pair >= 0 && pair < encoded->pairs);
    uint64_t begin = encoded->offsets[2 * pair + target];
    size_t count = (size_t)(encoded->offsets[2 * pair + target + 1] - begin);
    const uint16_t *narrow = (const uint16_t *)encoded->pieces + begin;
    if (encoded->width == 4)
        memcpy(ids, (const uint32_t *)encoded->pieces + begin, count * sizeof *ids);
    else
        for (size_t i = 0; i < count; i++)
            ids[i] = narrow[i];
    ids[count] = encoded->eos;
}

void et_encoded_place(const et_encoded *encoded, int64_t pair, bool target, const char **path,
                      int64_t *line)
{
    et_assert(pair >= 0 && pair < encoded->pairs);
    const whole *self = (const whole *)encoded;
    et_corpus_place(&self->paths, self->parts.file_lines[target], target, encoded->lines[pair],
                    path, line);
}
