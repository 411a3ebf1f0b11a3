/* The cache of a table's rows. The file's name depends on the paths and options, its key on the
 * contents. So when a file changes, its rows are made again in the same place, and no unused rows
 * remain. A note (encoded_seen) records what was read and undamaged, so the next start reads
 * neither text nor rows. */
#include "data/table/table_cache.h"

#include <string.h>
#include <sys/stat.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/files/checksum.h"
#include "data/text/encoded_seen.h"
#include "data/text/text.h"

/* Raise this when rows of the same files come to be laid out differently. */
#define FACTS_VERSION 1

static void add_text(et_checksum_stream *stream, const char *text)
{
    et_checksum_stream_add(stream, text, strlen(text) + 1);
}

static int find_facts(et_table_cache *cache, et_error *error)
{
    const et_table_samples_options *o = cache->options;
    const uint64_t numbers[] = { FACTS_VERSION,
                                 et_encoder_fingerprint(cache->encoder),
                                 o->examples,
                                 (uint64_t)(unsigned char)o->csv.delimiter,
                                 (uint64_t)(unsigned char)o->csv.comment,
                                 (uint64_t)o->csv.columns,
                                 o->csv.missing != NULL,
                                 (uint64_t)o->header,
                                 o->keep_unlabelled,
                                 o->paths.count };
    et_checksum_stream *stream;
    int status = et_checksum_stream_open(&stream, error);
    if (status)
        return status;
    et_checksum_stream_add(stream, numbers, sizeof numbers);
    for (const char *const *m = o->csv.missing; m && *m; m++)
        add_text(stream, *m);
    cache->facts = et_checksum_stream_value(stream);
    et_checksum_stream_close(stream);
    return ET_OK;
}

static int find_path(et_table_cache *cache, et_error *error)
{
    const et_table_samples_options *o = cache->options;
    uint64_t name = cache->facts;
    for (size_t i = 0; i < o->paths.count; i++) {
        const char *path = o->paths.items[i];
        const uint64_t both[] = { name, et_checksum(path, strlen(path)) };
        name = et_checksum(both, sizeof both);
    }
    cache->path = et_arena_printf(&cache->arena, "%s/table-%s.rows", o->cache,
                                  et_checksum_print(name).digits);
    return cache->path ? ET_OK : et_alloc_failed(error, strlen(o->cache), "a path");
}

/* The list by which notes identify files. */
static et_corpus_paths as_corpus(const et_table_cache *cache)
{
    return (et_corpus_paths){ .tsv = cache->options->paths };
}

static int read_key(et_table_cache *cache, et_error *error)
{
    const et_strings *paths = &cache->options->paths;
    uint64_t key = cache->facts;
    for (size_t i = 0; i < paths->count; i++) {
        uint64_t all[] = { key, 0, 0 };
        int status = et_text_checksum(&all[1], &all[2], paths->items[i], error);
        if (status)
            return status;
        key = et_checksum(all, sizeof all);
    }
    cache->key = key;
    return ET_OK;
}

/* A stamp of the lengths and times of all files. 0: a file is missing, which reading reports. */
static uint64_t stamp_of(const et_table_cache *cache)
{
    const et_strings *paths = &cache->options->paths;
    uint64_t stamp = 1;
    for (size_t i = 0; i < paths->count; i++) {
        struct stat s;
        if (stat(paths->items[i], &s))
            return 0;
        const uint64_t all[] = { stamp,
                                 (uint64_t)s.st_dev,
                                 (uint64_t)s.st_ino,
                                 (uint64_t)s.st_size,
                                 (uint64_t)s.st_mtim.tv_sec,
                                 (uint64_t)s.st_mtim.tv_nsec };
        stamp = et_checksum(all, sizeof all);
    }
    return stamp;
}

static int find_key(et_table_cache *cache, et_error *error)
{
    const et_corpus_paths corpus = as_corpus(cache);
    et_encoded_seen seen;
    cache->stamp = stamp_of(cache);
    cache->known = et_encoded_look(&seen, cache->facts, &corpus, cache->path) &&
                   et_encoded_recall(&seen, cache->path, &cache->key);
    return cache->known ? ET_OK : read_key(cache, error);
}

int et_table_cache_check(const et_table_cache *cache, et_error *error)
{
    return !cache->path || stamp_of(cache) == cache->stamp
               ? ET_OK
               : et_fail(error, ET_EDATA,
                         "%s or a file next to it changed while Etude read it: start again when no "
                         "program writes to it",
                         cache->options->paths.items[0]);
}

int et_table_cache_open(et_table_cache *cache, const et_encoder *encoder,
                        const et_table_samples_options *options, et_error *error)
{
    *cache = (et_table_cache){ .options = options, .encoder = encoder };
    if (!options->cache)
        return ET_OK;
    int status = find_facts(cache, error);
    if (!status)
        status = find_path(cache, error);
    if (!status)
        status = find_key(cache, error);
    if (status)
        et_table_cache_close(cache);
    return status;
}

void et_table_cache_close(et_table_cache *cache)
{
    et_arena_release(&cache->arena);
    cache->path = NULL;
}

/* *fault: a word; "": the file holds other rows. */
static bool use(et_table_cache *cache, et_table_parts *parts, const et_mapping *mapping,
                const char **fault)
{
    const et_corpus_paths corpus = as_corpus(cache);
    et_encoded_seen seen;
    bool current;
    *fault = et_table_file_fault(parts, mapping, cache->key, cache->encoder,
                                 cache->options->paths.count, cache->known, &current);
    if (!*fault && !current)
        *fault = "";
    /* The key belongs to the files as they were before they were read. */
    if (!*fault && !cache->known && et_encoded_look(&seen, cache->facts, &corpus, cache->path) &&
        stamp_of(cache) == cache->stamp)
        et_encoded_note(&seen, cache->path, cache->key);
    return !*fault;
}

void et_table_cache_find(et_table_cache *cache, et_table_parts *parts, et_mapping *mapping)
{
    et_error error = ET_ERROR_INIT;
    const char *fault = "";
    *mapping = (et_mapping){ NULL, 0 };
    if (!cache->path || !et_file_exists(cache->path) ||
        et_mapping_open(mapping, cache->path, &error))
        return;
    if (mapping->data && use(cache, parts, mapping, &fault))
        return;
    if (!mapping->data || *fault)
        et_log(ET_LOG_WARNING, "%s is damaged (%s); Etude reads the table again", cache->path,
               mapping->data ? fault : "empty");
    et_mapping_close(mapping);
    *mapping = (et_mapping){ NULL, 0 };
}

int et_table_cache_map(et_table_cache *cache, et_table_parts *parts, et_mapping *mapping,
                       et_error *error)
{
    const char *fault;
    int status = et_mapping_open(mapping, cache->path, error);
    if (status || use(cache, parts, mapping, &fault))
        return status;
    et_mapping_close(mapping);
    return et_fail(error, ET_EFORMAT,
                   "%s is damaged (%s) right after it was written: check the disk", cache->path,
                   fault);
}
