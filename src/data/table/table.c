/* A table in memory or in a file. Rows are encoded directly into their final place. A row:
 *
 *   item of field 0 | item of field 1 | ... | its line, uint32
 *
 * all of 4 bytes or a multiple, in the order of the layout. So a batch of shuffled rows touches one
 * place for each row. Rows of a file are together, so a row's file is found by binary search. */
#include "data/table/table.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/files/file.h"
#include "base/text/format.h"
#include "base/vector.h"
#include "data/table/features/unknown_values.h"
#include "data/text/corpus.h"
#include "data/text/text.h"
#include "engine/tensor/tensor.h"

/* Bytes that go into the file at once. */
#define CHUNK (UINT64_C(4) << 20)

/* ---- the cache ---- */

/* The cache of a table's rows. The file's name depends on the paths and options, its key on the
 * contents. So when a file changes, its rows are made again in the same place, and no unused rows
 * remain. A note (corpus.h) records the files that were read and undamaged, so the next start reads
 * neither text nor rows. */

/* The file of a table whose rows do not fit into memory, in the machine's byte order (the magic
 * number shows another order):
 *
 *   head      table_head, 32 bytes
 *   rows      [rows] of row_size bytes, as in memory
 *   first     uint64 [files]: the first row of each file
 *   foot      table_foot, 48 bytes: counts, known only at the end
 *
 * Nothing else follows. Head and rows are multiples of 4 bytes and padded to 8, so first and foot
 * are aligned in a mapping. A file is checked in steps; each step trusts only what the earlier ones
 * have checked. Checksums find accidental damage. Malicious contents (ids beyond their tables, NaN)
 * are checked as well. */

typedef struct table_head {
    uint64_t magic;
    uint32_t version, row_size;
    uint64_t key;      /* of the rows' sources */
    uint64_t checksum; /* of the bytes before it */
} table_head;

typedef struct table_foot {
    uint64_t rows, files;
    uint64_t payload;     /* checksum of rows and first */
    uint64_t fingerprint; /* of the samples */
    uint64_t magic;
    uint64_t checksum; /* of the bytes before it */
} table_foot;

/* A file that is mapped, or will be written. */
typedef struct table_parts {
    const unsigned char *rows; /* [count][row_size]; of a file that is written NULL */
    size_t row_size;
    int64_t count;
    const uint64_t *first; /* [files] */
    size_t files;
    uint64_t fingerprint;
} table_parts;

typedef struct table_writer {
    et_file_writer file;
    et_checksum_stream *payload;
} table_writer;

#define MAGIC   UINT64_C(0x316c626174757445) /* "Etutabl1" in little-endian bytes */
#define VERSION 1u

_Static_assert(sizeof(table_head) == 32, "the head has no holes");
_Static_assert(sizeof(table_foot) == 48, "the foot has no holes");

/* Bytes of a row: the items of an encoder's fields, and the line. */
static size_t table_row_size(const et_encoder *encoder)
{
    const et_layout *layout = et_encoder_layout(encoder);
    size_t size = sizeof(uint32_t);
    for (int i = 0; i < et_encoder_fields(encoder); i++)
        size +=
            (size_t)et_shape_count(layout->field[i].item) * et_dtype_size(layout->field[i].dtype);
    return size;
}

/* Bytes of zeros after `bytes` bytes of rows. */
static size_t padding(uint64_t bytes)
{
    return bytes % 8 ? (size_t)(8 - bytes % 8) : 0;
}

/* ---- writing: begin, add rows, then end or abandon ---- */

static void table_writer_abandon(table_writer *writer)
{
    et_file_writer_abandon(&writer->file);
    et_checksum_stream_close(writer->payload);
}

static int table_writer_begin(table_writer *writer, const char *path, uint64_t key, size_t row_size,
                              et_error *error)
{
    table_head head = { MAGIC, VERSION, (uint32_t)row_size, key, 0 };
    head.checksum = et_checksum(&head, offsetof(table_head, checksum));
    writer->payload = NULL;
    int status = et_file_writer_open(&writer->file, path, error);
    if (status)
        return status;
    et_file_writer_put(&writer->file, &head, sizeof head);
    if ((status = et_checksum_stream_open(&writer->payload, error)))
        table_writer_abandon(writer);
    return status;
}

/* Completes the file, which then gets its name. On failure, the file is abandoned. */
static int table_writer_end(table_writer *writer, const table_parts *parts, et_error *error)
{
    static const char zeros[8];
    size_t rows = (size_t)parts->count * parts->row_size;
    et_assert_equal(writer->file.length, sizeof(table_head) + rows);
    table_foot foot = { .rows = (uint64_t)parts->count,
                        .files = parts->files,
                        .fingerprint = parts->fingerprint,
                        .magic = MAGIC };
    const size_t first = parts->files * sizeof *parts->first;
    et_checksum_stream_add(writer->payload, zeros, padding(rows));
    et_checksum_stream_add(writer->payload, parts->first, first);
    foot.payload = et_checksum_stream_value(writer->payload);
    foot.checksum = et_checksum(&foot, offsetof(table_foot, checksum));
    et_checksum_stream_close(writer->payload);
    et_file_writer_put(&writer->file, zeros, padding(rows));
    et_file_writer_put(&writer->file, parts->first, first);
    et_file_writer_put(&writer->file, &foot, sizeof foot);
    return et_file_writer_end(&writer->file, ET_OK, error);
}

/* ---- soundness ---- */

/* Counts are compared before they are multiplied. */
static bool foot_is_sound(table_parts *parts, const et_mapping *mapping, size_t files)
{
    const char *bytes = mapping->data;
    const table_foot *foot = (const void *)(bytes + mapping->length - sizeof *foot);
    const table_head *head = mapping->data;
    if (mapping->length % 8 || foot->magic != MAGIC ||
        foot->checksum != et_checksum(foot, offsetof(table_foot, checksum)))
        return false;
    if (foot->files != files || foot->rows < 1 || foot->rows > UINT32_MAX ||
        foot->rows > mapping->length / parts->row_size)
        return false;
    uint64_t rows = foot->rows * parts->row_size;
    if (mapping->length !=
        sizeof *head + rows + padding(rows) + files * sizeof *parts->first + sizeof *foot)
        return false;
    parts->rows = (const unsigned char *)(head + 1);
    parts->count = (int64_t)foot->rows;
    parts->first = (const void *)(parts->rows + rows + padding(rows));
    parts->files = files;
    parts->fingerprint = foot->fingerprint;
    return true;
}

/* Checks values: ids are below their number, classes are below it or -1, and numbers are finite,
 * except targets. */
static bool item_is_sound(const et_encoded_field *f, const unsigned char *item)
{
    for (int64_t i = 0; i < f->width; i++, item += sizeof(float)) {
        int32_t id;
        float number;
        memcpy(&id, item, sizeof id);
        memcpy(&number, item, sizeof number);
        bool sound = true;
        switch (f->kind) {
        case ET_ENCODED_NUMBERS:
            sound = isfinite(number);
            break;
        case ET_ENCODED_IDS:
            sound = id >= 0 && id < f->cardinality[i];
            break;
        case ET_ENCODED_CLASS:
            sound = id >= -1 && id < f->classes;
            break;
        case ET_ENCODED_LABELS:
            sound = isnan(number) || number == 0 || number == 1;
            break;
        case ET_ENCODED_VALUES:
            sound = !isinf(number);
            break;
        case ET_ENCODED_WORDS:
            sound = id >= -1 && id < f->cardinality[i];
            break;
        case ET_ENCODED_WEIGHT:
            sound = isfinite(number) && number >= 0;
            break;
        case ET_ENCODED_WRITTEN:
            sound = i % 2 || !isinf(et_encoded_written(item, 0));
            break;
        }
        if (!sound)
            return false;
    }
    return true;
}

static bool rows_are_sound(const table_parts *parts, const et_encoder *encoder)
{
    for (int64_t row = 0; row < parts->count; row++) {
        const unsigned char *at = parts->rows + (size_t)row * parts->row_size;
        for (int i = 0; i < et_encoder_fields(encoder); i++) {
            const et_encoded_field *f = et_encoder_field(encoder, i);
            if (!item_is_sound(f, at))
                return false;
            at += f->width * sizeof(float);
        }
    }
    return true;
}

/* The fault of a mapped file, in a word; NULL: none. *current: the head is undamaged and has this
 * key. Only then is the rest checked, and parts point into the file. Another key is no fault: the
 * data or a setting changed and the file is outdated. known: the file was found undamaged and has
 * not been written since, so only head and foot are read. */
static const char *table_file_fault(table_parts *parts, const et_mapping *mapping, uint64_t key,
                                    const et_encoder *encoder, size_t files, bool known,
                                    bool *current)
{
    const table_head *head = mapping->data;
    *parts = (table_parts){ .row_size = table_row_size(encoder) };
    *current = false;
    if (mapping->length < sizeof *head + sizeof(table_foot) || head->magic != MAGIC ||
        head->version != VERSION ||
        head->checksum != et_checksum(head, offsetof(table_head, checksum)))
        return "head";
    if (head->key != key)
        return NULL;
    *current = true;
    if (head->row_size != parts->row_size)
        return "size of rows";
    if (!foot_is_sound(parts, mapping, files))
        return "size";
    if (known)
        return NULL;
    const char *end = (const char *)mapping->data + mapping->length;
    const table_foot *foot = (const void *)(end - sizeof *foot);
    size_t bytes = mapping->length - sizeof(table_head) - sizeof *foot;
    if (foot->payload != et_checksum(parts->rows, bytes))
        return "checksum";
    for (size_t i = 0; i < parts->files; i++)
        if (parts->first[i] > (uint64_t)parts->count ||
            (i ? parts->first[i] < parts->first[i - 1] : parts->first[i] != 0))
            return "files";
    return rows_are_sound(parts, encoder) ? NULL : "rows";
}

/* Raise this number when the layout of rows changes. */
#define FACTS_VERSION 1

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
        et_checksum_stream_add(stream, *m, strlen(*m) + 1);
    cache->facts = et_checksum_stream_value(stream);
    et_checksum_stream_close(stream);
    return ET_OK;
}

/* The list by which notes identify files. */
static et_corpus_paths as_corpus(const et_table_cache *cache)
{
    return (et_corpus_paths){ .tsv = cache->options->paths };
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
    et_encoding_stamp stamp;
    cache->stamp = stamp_of(cache);
    cache->known = et_encoding_stamp_take(&stamp, cache->facts, &corpus, cache->path) &&
                   et_encoding_stamp_recall(&stamp, cache->path, &cache->key);
    if (cache->known)
        return ET_OK;
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
    if (!status) {
        const et_table_samples_options *o = cache->options;
        uint64_t name = cache->facts;
        for (size_t i = 0; i < o->paths.count; i++) {
            const char *path = o->paths.items[i];
            const uint64_t both[] = { name, et_checksum(path, strlen(path)) };
            name = et_checksum(both, sizeof both);
        }
        cache->path = et_arena_printf(&cache->arena, "%s/table-%s.rows", o->cache,
                                      et_checksum_print(name).digits);
        status = cache->path ? ET_OK : et_alloc_failed(error, "a path");
    }
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
static bool use(et_table_cache *cache, table_parts *parts, const et_mapping *mapping,
                const char **fault)
{
    const et_corpus_paths corpus = as_corpus(cache);
    et_encoding_stamp stamp;
    bool current;
    *fault = table_file_fault(parts, mapping, cache->key, cache->encoder,
                              cache->options->paths.count, cache->known, &current);
    if (!*fault && !current)
        *fault = "";
    /* The key belongs to the files as they were before they were read. */
    if (!*fault && !cache->known &&
        et_encoding_stamp_take(&stamp, cache->facts, &corpus, cache->path) &&
        stamp_of(cache) == cache->stamp)
        et_encoding_stamp_note(&stamp, cache->path, cache->key);
    return !*fault;
}

/* Whether the file exists and is sound: then *parts has its rows, and *mapping belongs to the
 * caller. A damaged file is a warning. */
static bool table_cache_find(et_table_cache *cache, table_parts *parts, et_mapping *mapping)
{
    et_error error = ET_ERROR_INIT;
    const char *fault = "";
    *mapping = (et_mapping){ NULL, 0 };
    if (!cache->path || !et_file_exists(cache->path) ||
        et_mapping_open(mapping, cache->path, &error))
        return false;
    if (mapping->data && use(cache, parts, mapping, &fault))
        return true;
    if (!mapping->data || *fault)
        et_log(ET_LOG_WARNING, "%s is damaged (%s); Etude reads the table again", cache->path,
               mapping->data ? fault : "empty");
    et_mapping_close(mapping);
    return false;
}

typedef struct part {
    size_t offset, size; /* of a field's item in a row */
    bool numbers;        /* of a target */
    bool target;
} part;

typedef struct table {
    et_samples samples;
    const unsigned char *rows; /* [count][row_size]: memory's or mapping's */
    unsigned char *memory;     /* owned */
    et_mapping mapping;        /* data NULL: none */
    size_t row_size;           /* with the line */
    part *parts;               /* [fields], in the arena as paths and first */
    int fields;                /* but the mask */
    const char **paths;        /* [files] */
    uint64_t *first;           /* [files]: the first row of each */
    size_t files;
    bool warned;
    et_layout_field *layout; /* owned */
    et_arena arena;
} table;

/* ---- the class ---- */

static int table_fill(et_samples *samples, et_pick pick, et_batch *batch, et_error *error)
{
    (void)error;
    const table *self = (const table *)samples;
    for (int k = 0; k < self->fields; k++) {
        const part *p = &self->parts[k];
        unsigned char *to = (unsigned char *)batch->data[k] + (size_t)batch->filled[0] * p->size;
        for (int64_t i = 0; i < pick.count; i++, to += p->size)
            memcpy(to, self->rows + pick.which[i] * self->row_size + p->offset, p->size);
    }
    batch->filled[0] += pick.count;
    return ET_OK;
}

static void table_describe(const et_samples *samples, uint32_t which, int kind, char *text,
                           size_t size)
{
    (void)kind;
    const table *self = (const table *)samples;
    uint32_t line;
    size_t low = 0, high = self->files - 1;
    while (low < high) {
        size_t middle = low + (high - low + 1) / 2;
        if (self->first[middle] <= which)
            low = middle;
        else
            high = middle - 1;
    }
    memcpy(&line, self->rows + (which + 1) * self->row_size - sizeof line, sizeof line);
    snprintf(text, size, "%s:%lu", self->paths[low], (unsigned long)line);
}

static void table_close(et_samples *samples)
{
    table *self = (table *)samples;
    et_arena_release(&self->arena);
    et_free(self->layout);
    et_free(self->memory);
    et_mapping_close(&self->mapping);
    et_free(self);
}

int64_t et_table_first(const et_samples *samples, size_t file)
{
    const table *self = (const table *)samples;
    et_assert(file < self->files);
    return (int64_t)self->first[file];
}

bool et_table_warned(const et_samples *samples)
{
    return ((const table *)samples)->warned;
}

static const et_samples_class table_class = {
    .name = "table",
    .fill = table_fill,
    .describe = table_describe,
    .close = table_close,
};

/* ---- shape ---- */

static int new_table(table **out, const et_encoder *encoder, const et_strings *paths,
                     et_error *error)
{
    const et_layout *layout = et_encoder_layout(encoder);
    table *self;
    if (ET_ALLOC_ZERO(self, 1, "a table", error))
        return ET_ENOMEM;
    et_arena *arena = &self->arena;
    self->samples.class = &table_class;
    self->samples.layout = *layout;
    self->fields = et_encoder_fields(encoder);
    self->files = paths->count;
    self->parts = et_arena_array(arena, self->fields, sizeof *self->parts);
    self->first = et_arena_array(arena, self->files, sizeof *self->first);
    self->paths = et_arena_array(arena, self->files, sizeof *self->paths);
    for (size_t i = 0; self->paths && i < self->files; i++)
        self->paths[i] = et_arena_strdup(arena, paths->items[i]);
    for (int i = 0; self->parts && i < self->fields; i++) {
        et_encoded_kind kind = et_encoder_field(encoder, i)->kind;
        self->parts[i] = (part){ .offset = self->row_size,
                                 .size = (size_t)et_shape_count(layout->field[i].item) *
                                         et_dtype_size(layout->field[i].dtype),
                                 .numbers = kind != ET_ENCODED_CLASS,
                                 .target = et_encoded_is_target(kind) };
        self->row_size += self->parts[i].size;
    }
    self->row_size += sizeof(uint32_t);
    int status = arena->failed ? et_alloc_failed(error, "a table")
                               : et_layout_own(&self->layout, layout->field, layout->fields, error);
    if (status) {
        table_close(&self->samples);
        return status;
    }
    self->samples.layout.field = self->layout;
    et_assert_equal(self->row_size, table_row_size(encoder));
    *out = self;
    return ET_OK;
}

static void set_count(table *self, int64_t count, uint64_t fingerprint)
{
    et_samples *s = &self->samples;
    s->count = s->total[0] = count;
    s->largest[0] = 1;
    s->fingerprint = fingerprint;
}

/* ---- reading ---- */

/* Adds rows after those in memory. If these are too many, they are written to the file, and so is
 * every following CHUNK. */

typedef struct reading {
    table *self;
    const et_encoder *encoder;
    et_rows *rows;
    const et_table_samples_options *options;
    et_table_cache *cache; /* NULL, or without a path: rows stay in memory */
    table_writer writer;
    bool writing;
    int64_t count, written;     /* rows that were read, and of these in the file */
    uint64_t limit;             /* bytes of rows that may be in memory */
    et_checksum_stream *stream; /* of items, not of lines */
    void **to;                  /* [fields] */
    size_t capacity;            /* bytes */
    int64_t left_out;
    et_unknown_values unseen; /* by options->metadata */
    et_error *error;
} reading;

/* A class of -1, or a value that is NaN. */
static bool is_unlabelled(const table *self, const unsigned char *row)
{
    for (int i = 0; i < self->fields; i++) {
        const part *p = &self->parts[i];
        for (size_t at = 0; p->target && at < p->size; at += sizeof(float)) {
            int32_t class;
            float value;
            memcpy(&class, row + p->offset + at, sizeof class);
            memcpy(&value, row + p->offset + at, sizeof value);
            if (p->numbers ? isnan(value) : class < 0)
                return true;
        }
    }
    return false;
}

/* Appends the rows in memory to the file. */
static int flush(reading *r)
{
    table *self = r->self;
    if (!r->writing) {
        int status;
        if ((status = et_directory_make(r->options->cache, r->error)) ||
            (status = table_writer_begin(&r->writer, r->cache->path, r->cache->key, self->row_size,
                                         r->error)))
            return status;
        r->writing = true;
        r->limit = CHUNK < r->limit ? CHUNK : r->limit;
    }
    const size_t bytes = (size_t)(r->count - r->written) * self->row_size;
    et_checksum_stream_add(r->writer.payload, self->memory, bytes);
    r->written = r->count;
    return et_file_writer_write(&r->writer.file, self->memory, bytes, r->error);
}

/* The place of the next row; a row that is not kept is overwritten by the next. */
static unsigned char *room(reading *r)
{
    table *self = r->self;
    size_t kept = (size_t)(r->count - r->written);
    if (!ET_VECTOR_GROW(self->memory, r->capacity, (kept + 1) * self->row_size))
        return NULL;
    unsigned char *row = self->memory + kept * self->row_size;
    for (int i = 0; i < self->fields; i++)
        r->to[i] = row + self->parts[i].offset;
    return row;
}

static int add_row(reading *r, const et_row *from)
{
    table *self = r->self;
    uint32_t line = (uint32_t)from->number;
    if (r->count == UINT32_MAX || from->number > UINT32_MAX)
        return et_fail(r->error, ET_EDATA, "%s:%lld: more than 4,294,967,295 rows: use fewer",
                       r->rows->paths.items[from->file], (long long)from->number);
    unsigned char *row = room(r);
    if (!row)
        return et_alloc_failed(r->error, "the rows of a table");
    int status = et_row_encode(r->encoder, r->rows, from, r->to, r->error);
    if (status)
        return status;
    if (r->options->metadata)
        et_unknown_values_add(&r->unseen, from->cells, from->values,
                              r->rows->paths.count > 1 ? r->unseen.rows + 1 : from->number);
    if (!r->options->keep_unlabelled && is_unlabelled(self, row)) {
        r->left_out++;
        return ET_OK;
    }
    memcpy(row + self->row_size - sizeof line, &line, sizeof line);
    et_checksum_stream_add(r->stream, row, self->row_size - sizeof line);
    r->count++;
    bool full = (uint64_t)(r->count - r->written) * self->row_size >= r->limit;
    return full && r->cache && r->cache->path ? flush(r) : ET_OK;
}

static int read_rows(reading *r)
{
    table *self = r->self;
    et_row row;
    size_t at = 0;
    int status = ET_OK;
    for (;;) {
        status = et_rows_next(r->rows, &row, r->error);
        if (status || row.end)
            break;
        for (; at < row.file; at++)
            self->first[at + 1] = (uint64_t)r->count;
        status = add_row(r, &row);
        if (status)
            return status;
    }
    for (; at + 1 < self->files; at++)
        self->first[at + 1] = (uint64_t)r->count;
    return status;
}

/* Whether a row has several targets. */
static bool has_several(const table *self)
{
    bool several = false;
    for (int i = 0; i < self->fields; i++)
        several |= self->parts[i].target && self->parts[i].size > sizeof(float);
    return several;
}

static void map_parts(table *self, const table_parts *parts)
{
    self->rows = parts->rows;
    memcpy(self->first, parts->first, self->files * sizeof *self->first);
    set_count(self, parts->count, parts->fingerprint);
}

/* The file is complete: its rows replace the rows in memory. */
static int finish_file(reading *r, uint64_t fingerprint)
{
    table *self = r->self;
    table_parts parts = { .row_size = self->row_size,
                          .count = r->count,
                          .first = self->first,
                          .files = self->files,
                          .fingerprint = fingerprint };
    int status = flush(r);
    if (status)
        return status;
    r->writing = false;
    if ((status = table_writer_end(&r->writer, &parts, r->error)) ||
        (status = et_mapping_open(&self->mapping, r->cache->path, r->error)))
        return status;
    const char *fault;
    if (!use(r->cache, &parts, &self->mapping, &fault)) {
        et_mapping_close(&self->mapping);
        return et_fail(r->error, ET_EFORMAT,
                       "%s is damaged (%s) right after it was written: check the disk",
                       r->cache->path, fault);
    }
    et_free(self->memory);
    self->memory = NULL;
    map_parts(self, &parts);
    return ET_OK;
}

static int finish(reading *r)
{
    table *self = r->self;
    /* Prints the number of rows without a target. If no row is left, this is the error. */
    const char *path = r->rows->paths.items[0];
    int status = ET_OK;
    if (!r->count && r->left_out)
        status = et_fail(r->error, ET_EDATA,
                         "%s: no row has %s: fill in the target (" ET_CSV_MISSING_HINT ")", path,
                         has_several(r->self) ? "all targets" : "a target");
    else if (!r->count)
        status = et_fail(r->error, ET_EDATA, "%s: no rows: give at least one", path);
    else {
        self->warned = r->left_out;
        if (r->left_out)
            et_log(ET_LOG_WARNING, "%s: %s rows %s and are left out (" ET_CSV_MISSING_HINT ")",
                   path, et_format_count(r->left_out).text,
                   has_several(r->self) ? "lack one of the targets" : "have no target");
        const et_strings *paths = &r->rows->paths;
        et_unknown_values_text text;
        int at = 0;
        while (
            et_unknown_values_describe(&r->unseen, &at, paths->count > 1 ? "row" : "line", &text)) {
            et_log(ET_LOG_WARNING, "%s%s: %s", paths->items[0],
                   paths->count > 1 ? " and others" : "", text.text);
            self->warned = true;
        }
        status = r->cache ? et_table_cache_check(r->cache, r->error) : ET_OK;
    }
    const uint64_t print[] = { et_encoder_fingerprint(r->encoder), (uint64_t)r->count,
                               et_checksum_stream_value(r->stream) };
    uint64_t fingerprint = et_checksum(print, sizeof print);
    if (status || r->writing)
        return status ? status : finish_file(r, fingerprint);
    self->rows = self->memory;
    set_count(self, r->count, fingerprint);
    return ET_OK;
}

static int read_all(table *self, const et_encoder *encoder, et_rows *rows,
                    const et_table_samples_options *options, et_table_cache *cache, et_error *error)
{
    reading r = { .self = self,
                  .encoder = encoder,
                  .rows = rows,
                  .options = options,
                  .cache = cache,
                  .error = error };
    const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    r.limit = options->memory         ? options->memory
              : pages > 0 && size > 0 ? (uint64_t)pages / 2 * (uint64_t)size
                                      : UINT64_MAX;
    r.to = et_alloc_zero(self->fields, sizeof *r.to);
    int status =
        r.to ? et_checksum_stream_open(&r.stream, error) : et_alloc_failed(error, "a table");
    if (!status && options->metadata)
        status = et_unknown_values_open(&r.unseen, encoder, options->metadata, error);
    if (!status)
        status = read_rows(&r);
    if (!status)
        status = finish(&r);
    if (r.writing)
        table_writer_abandon(&r.writer);
    et_checksum_stream_close(r.stream);
    et_unknown_values_release(&r.unseen);
    et_free(r.to);
    return status;
}

/* ---- opening ---- */

int et_table_read(et_samples **out, const et_encoder *encoder, et_rows *rows,
                  const et_table_samples_options *options, et_error *error)
{
    table *self = NULL;
    int status = new_table(&self, encoder, &rows->paths, error);
    if (status)
        return status;
    status = read_all(self, encoder, rows, options, NULL, error);
    if (status) {
        table_close(&self->samples);
        return status;
    }
    *out = &self->samples;
    return ET_OK;
}

static int read_files(table *self, const et_encoder *encoder,
                      const et_table_samples_options *options, et_table_cache *cache,
                      et_error *error)
{
    const et_rows_options how = { .csv = options->csv,
                                  .header = options->header,
                                  .no_targets = options->keep_unlabelled };
    et_rows *rows = NULL;
    int status = options->examples
                     ? et_rows_open_examples(&rows, et_encoder_row_layout(encoder), &options->paths,
                                             &how, error)
                     : et_rows_open_files(&rows, et_encoder_row_layout(encoder), &options->paths,
                                          &how, options->metadata, error);
    if (!status)
        status = read_all(self, encoder, rows, options, cache, error);
    et_rows_close(rows);
    return status;
}

int et_table_samples_open(et_samples **out, const et_encoder *encoder,
                          const et_table_samples_options *options, et_error *error)
{
    table *self = NULL;
    et_table_cache cache;
    table_parts parts;
    bool found = false;
    if (!options->paths.count)
        return et_fail(error, ET_ECONFIG, "no data: name at least one file");
    int status = et_table_cache_open(&cache, encoder, options, error);
    if (!status)
        status = new_table(&self, encoder, &options->paths, error);
    if (!status)
        found = table_cache_find(&cache, &parts, &self->mapping);
    if (found)
        map_parts(self, &parts);
    else if (!status)
        status = read_files(self, encoder, options, &cache, error);
    et_table_cache_close(&cache);
    if (status) {
        if (self)
            table_close(&self->samples);
        return status;
    }
    *out = &self->samples;
    return ET_OK;
}
