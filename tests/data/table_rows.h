/* Shared code of the tests of tables: a table of three columns, written as CSV or as tf.Examples,
 * opened and read back as text. Include after cmocka.h. */
#ifndef ETUDE_TESTS_DATA_TABLE_ROWS_H
#define ETUDE_TESTS_DATA_TABLE_ROWS_H

#include <dirent.h>

#include <etude/records.h>

#include "calls.h"
#include "data/fixture.h"
#include "data/table/table.h"
#include "data/table_fixture.h"

static const char *const schema = "fields:\n"
                                  "  - {name: age, type: integer}\n"
                                  "  - {name: job, type: discrete}\n"
                                  "  - {name: income, type: discrete}\n"
                                  "  - {name: note, type: discrete}\n";
static const char *const metadata = "{\"job\": {\"entries\": [\"a\", \"b\"]},"
                                    " \"income\": {\"entries\": [\"low\", \"high\"]}}";
static const char *const features = "features:\n- {name: X, fields: age}\n"
                                    "- {name: E, type: embed, fields: job}\n"
                                    "- {name: Y, type: target, fields: income}\n";

static inline et_encoder *open_encoder(void)
{
    et_encoder *encoder = NULL;
    assert_ok(encoder_parse(&encoder, schema, metadata, features, error));
    return encoder;
}

static inline int open_table(et_samples **out, const char *const *paths, size_t count,
                             et_table_samples_options options, et_error *error)
{
    et_encoder *encoder = open_encoder();
    *out = NULL;
    options.paths = (et_strings){ paths, count };
    int status = et_table_samples_open(out, encoder, &options, error);
    et_encoder_free(encoder);
    return status;
}

static inline int open_text(et_samples **out, fixture *f, const char *text,
                            et_table_samples_options options, et_error *error)
{
    const char *path = write_text(f, "t.csv", text);
    return open_table(out, &path, 1, options, error);
}

/* The samples of a pass in order, "age/job/income ..." by number, with each row's place. Closes
 * samples. */
static inline const char *read_all(fixture *f, et_samples *samples, bool places)
{
    const et_batches_options options = { .capacity = { 3 } };
    et_strbuf out = ET_STRBUF_INIT;
    et_source *source = NULL;
    et_batch *batch;
    assert_ok(et_batches_open(&source, samples, &options, error));
    assert_ok(et_batch_new(&batch, &source->layout, error));
    for (;;) {
        assert_ok(et_source_next(source, batch, error));
        const float *x = batch->data[0], *mask = batch->data[3];
        const int32_t *e = batch->data[1], *y = batch->data[2];
        for (int64_t i = 0; i < batch->filled[0]; i++) {
            char place[300] = "";
            if (places)
                samples->class->describe(samples, batch->sample[i], 0, place, sizeof place);
            et_strbuf_printf(&out, "%s%g/%d/%d%s%s", out.length ? " " : "", (double)x[i], (int)e[i],
                             (int)y[i], places ? "@" : "", places ? et_path_base(place) : "");
            assert_true(mask[i] == 1);
        }
        if (!batch->filled[0])
            break;
    }
    et_batch_free(batch);
    et_source_close(source);
    const char *text = et_arena_strdup(&f->arena, et_strbuf_text(&out));
    et_strbuf_release(&out);
    return text;
}

static inline const char *write_many(fixture *f, const char *name, int from, int count)
{
    et_strbuf text = ET_STRBUF_INIT;
    et_strbuf_append(&text, "job,age,income\n");
    for (int i = from; i < from + count; i++)
        et_strbuf_printf(&text, "%s,%d,%s\n", i % 3 ? "a" : "b", i, i % 2 ? "low" : "high");
    const char *path = write_text(f, name, et_strbuf_text(&text));
    et_strbuf_release(&text);
    return path;
}

/* Without the care of et_file_write, which waits for the disk. */
static inline void overwrite(const char *path, const char *bytes, size_t length)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

/* A file of the folder whose name ends so; NULL: none. */
static inline const char *find_file(fixture *f, const char *folder, const char *end)
{
    const char *found = NULL;
    DIR *directory = opendir(folder);
    for (struct dirent *entry; directory && (entry = readdir(directory)) != NULL;) {
        size_t length = strlen(entry->d_name), tail = strlen(end);
        if (length > tail && !strcmp(entry->d_name + length - tail, end))
            found = et_arena_printf(&f->arena, "%s/%s", folder, entry->d_name);
    }
    if (directory)
        closedir(directory);
    return found;
}

static inline et_example_builder *example(et_example_builder *b, int64_t age, const char *job,
                                          const char *income)
{
    et_example_reset(b);
    return et_example_add_text(
        et_example_add_text(et_example_add_ints(b, "age", &age, 1), "job", job), "income", income);
}

static inline const char *write_examples(fixture *f, const char *name, const char *type, int from,
                                         int count)
{
    const char *path = fixture_path(f, name);
    et_record_writer *writer;
    et_example_builder *b;
    assert_ok(et_record_writer_open(&writer, path, type, error));
    assert_ok(et_example_builder_new(&b, NULL, error));
    for (int i = from; i < from + count; i++)
        assert_ok(et_record_write_example(
            writer, example(b, i, i % 3 ? "a" : "b", i % 2 ? "low" : "high"), error));
    et_example_builder_free(b);
    assert_ok(et_record_writer_close(writer, error));
    return path;
}

#endif
