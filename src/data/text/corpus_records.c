/* Files are opened one after the other, but all are looked at before the first record is read, as
 * text.c does: a misspelt last one is not found late. A pair's strings lie in the arena of its
 * record, which goes with the next one. */
#include "data/text/corpus_records.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/unicode.h"
#include "formats/records/example.h"
#include "formats/records/record_file.h"

struct et_corpus_records {
    const et_corpus_paths *paths;
    int64_t *lines;           /* of the paths' files */
    size_t file;              /* that is open, or the number of files */
    et_record_reader *reader; /* NULL: none is open */
    et_arena arena;           /* of the record given last */
};

int et_corpus_records_open(et_corpus_records **out, const et_corpus_paths *paths, int64_t *lines,
                           et_error *error)
{
    et_assert(paths->records.count > 0 && paths->source_feature && paths->target_feature);
    for (size_t i = 0; i < paths->records.count; i++) {
        et_record_reader *reader;
        int status = et_record_reader_open(&reader, paths->records.items[i], error);
        if (status)
            return status;
        et_record_reader_close(reader);
    }
    et_corpus_records *self = et_alloc_zero(1, sizeof *self);
    if (!self)
        return et_alloc_failed(error, sizeof *self, "a corpus reader");
    self->paths = paths;
    self->lines = lines;
    *out = self;
    return ET_OK;
}

void et_corpus_records_close(et_corpus_records *records)
{
    if (!records)
        return;
    et_record_reader_close(records->reader);
    et_arena_release(&records->arena);
    et_free(records);
}

/* ---- a record's strings ---- */

/* With the names that there are, since one of them is most often meant. */
static int no_feature(const et_example *example, const char *name, const char *setting,
                      et_error *error)
{
    et_strbuf names = ET_STRBUF_INIT;
    for (size_t i = 0; i < example->count && names.length < 256; i++)
        et_strbuf_printf(&names, "%s%s", i ? ", " : "", example->features[i].key);
    int status = et_fail(error, ET_EDATA,
                         "no feature %s (the record has: %s): set %s to the name of "
                         "one",
                         name, et_strbuf_text(&names), setting);
    et_strbuf_release(&names);
    return status;
}

static int check_text(const et_bytes *text, const char *name, et_error *error)
{
    size_t at;
    if (text->length > ET_TEXT_LINE_MAX)
        return et_fail(error, ET_EDATA,
                       "feature %s: a string of more than %zu bytes: it must be one sentence", name,
                       ET_TEXT_LINE_MAX);
    const char *nul = text->length ? memchr(text->data, 0, text->length) : NULL;
    if (nul)
        return et_fail(error, ET_EDATA, "feature %s: byte %zu is NUL: write UTF-8 text", name,
                       (size_t)(nul - (const char *)text->data) + 1);
    if (!et_utf8_valid(text->length ? text->data : "", text->length, &at))
        return et_fail(error, ET_EDATA,
                       "feature %s: byte %zu (0x%02X) is not UTF-8: write UTF-8 "
                       "text",
                       name, at + 1, (unsigned)((const unsigned char *)text->data)[at]);
    return ET_OK;
}

static int find_text(et_bytes *out, const et_example *example, const char *name,
                     const char *setting, et_error *error)
{
    const et_feature *f = et_example_last(example, name);
    if (!f)
        return no_feature(example, name, setting, error);
    if (f->kind != ET_FEATURE_BYTES || f->count != 1)
        return et_fail(error, ET_EDATA, "feature %s holds %zu values (%s): one string is needed",
                       name, f->count, et_feature_kind_name(f->kind));
    *out = f->bytes[0];
    return check_text(out, name, error);
}

static int read_pair(et_corpus_records *self, const void *bytes, size_t length,
                     et_corpus_pair *pair, et_error *error)
{
    et_example_room room = { .arena = &self->arena };
    et_example example;
    et_bytes source = { 0 }, target = { 0 };
    int status = et_example_read(&example, &room, bytes, length, error);
    if (!status)
        status = find_text(&source, &example, self->paths->source_feature, "src_lang", error);
    if (!status)
        status = find_text(&target, &example, self->paths->target_feature, "tgt_lang", error);
    if (!status)
        *pair =
            (et_corpus_pair){ source.length ? source.data : "", target.length ? target.data : "",
                              source.length, target.length, 0 };
    return status;
}

/* ---- records ---- */

/* *bytes NULL at the end of all files. */
static int next_record(et_corpus_records *self, et_record_place *place, const void **bytes,
                       size_t *length, et_error *error)
{
    const et_strings *files = &self->paths->records;
    int status = ET_OK;
    *bytes = NULL;
    while (!status && !*bytes && self->file < files->count) {
        if (!self->reader)
            status = et_record_reader_open(&self->reader, files->items[self->file], error);
        if (status)
            break;
        *place = et_record_reader_place(self->reader);
        status = et_record_read(self->reader, bytes, length, error);
        if (status || *bytes)
            break;
        et_record_reader_close(self->reader);
        self->reader = NULL;
        self->file++;
    }
    return status;
}

int et_corpus_records_next(et_corpus_records *self, et_corpus_pair *pair, et_error *error)
{
    et_record_place place;
    const void *bytes;
    size_t length;
    et_arena_release(&self->arena);
    int status = next_record(self, &place, &bytes, &length, error);
    if (status || !bytes)
        return status;
    self->lines[self->file]++;
    status = read_pair(self, bytes, length, pair, error);
    return status ? et_record_blame(&place, status, error) : ET_OK;
}
