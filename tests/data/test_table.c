#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <math.h>
#include <unistd.h>

#include <etude/records.h>

#include "base/checksum.h"
#include "base/scarce.h"
#include "calls.h"
#include "data/fixture.h"
#include "data/table.h"
#include "data/table_cache.h"
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

static et_encoder *open_encoder(void)
{
    et_encoder *encoder = NULL;
    assert_ok(encoder_parse(&encoder, schema, metadata, features, error));
    return encoder;
}

static int open_table(et_samples **out, const char *const *paths, size_t count,
                      et_table_options options, et_error *error)
{
    et_encoder *encoder = open_encoder();
    *out = NULL;
    options.paths = (et_strings){ paths, count };
    int status = et_table_open(out, encoder, &options, error);
    et_encoder_free(encoder);
    return status;
}

static int open_text(et_samples **out, fixture *f, const char *text, et_table_options options,
                     et_error *error)
{
    const char *path = write_text(f, "t.csv", text);
    return open_table(out, &path, 1, options, error);
}

/* What a pass in order gives, "age/job/income ..." by number, with each row's place. Closes. */
static const char *read_all(fixture *f, et_samples *samples, bool places)
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

/* Headers in any order with other columns beside, none at all, other delimiters, comments: the
 * same rows, and the same fingerprint. */
static void test_table__same_rows(void **state)
{
    static const struct {
        const char *text;
        et_table_options options;
    } cases[] = {
        { "age,job,income,note\n39,a,low,x\n50,b,high,y\n?,c,low,z\n", { .csv = { 0 } } },
        { "39,a,low,x\n50,b,high,y\n,c,low,z\n", { .csv = { 0 } } },
        { "39, a, low, x\r\n\r\n50, b, high,y\r\nNA,c,low,z", { .csv = { 0 } } },
        { "id\tincome\tage\tmore\tjob\n1\tlow\t39\t\ta\n2\thigh\t50\t\"q\"\tb\n3\tlow\t?\t\tc\n",
          { .csv = { 0 } } },
        { "|1x3 Cross validator\n39, a, low, x\n50, b, high, y\n?, c, low, z\n",
          { .csv = { .comment = '|' } } },
        { "# made today\njob;income;age\na;low;39\nb;high;50\nc;low;?\n",
          { .csv = { .comment = '#' } } },
        { "age,job,income,note\n39,a,low,x\n50,b,high,y\n?,c,low,z\n",
          { .header = ET_HEADER_THERE } },
        { "39,a,low,x\n50,b,high,y\n?,c,low,z\n", { .header = ET_HEADER_ABSENT } },
    };
    uint64_t print = 0;
    for (size_t i = 0; i < COUNT(cases); i++) {
        et_samples *samples = NULL;
        assert_ok(open_text(&samples, *state, cases[i].text, cases[i].options, error));
        assert_int_equal(samples->count, 3);
        assert_true(!print || print == samples->fingerprint);
        print = samples->fingerprint;
        assert_string_equal(read_all(*state, samples, false), "39/0/0 50/1/1 0/2/0");
    }
}

/* Files have columns in orders of their own; samples know their file and line. */
static void test_table__files(void **state)
{
    fixture *f = *state;
    const char *paths[] = {
        write_text(f, "a.csv", "age,job,income\n1,a,low\n2,\"a\n\",low\n3,b,high\n"),
        write_text(f, "b.csv", "income,age,job\nhigh,4,b\n"),
        write_gzip(f, "c.csv.gz", "# none\n5,a,low,n\n6,a,high,n\n"),
    };
    et_samples *samples = NULL, *one = NULL;
    assert_ok(
        open_table(&samples, paths, 3, (et_table_options){ .csv = { .comment = '#' } }, error));
    uint64_t print = samples->fingerprint;
    assert_string_equal(read_all(f, samples, true),
                        "1/0/0@a.csv:2 2/2/0@a.csv:3 3/1/1@a.csv:5 4/1/1@b.csv:2 5/0/0@c.csv.gz:2 "
                        "6/0/1@c.csv.gz:3");
    assert_ok(open_text(&one, f,
                        "age,job,income\n1,a,low\n2,\"a\n\",low\n3,b,high\n4,b,high\n5,a,low\n"
                        "6,a,high\n",
                        (et_table_options){ .csv = { 0 } }, error));
    assert_true(one->fingerprint == print);
    et_samples_close(one);
}

/* Rows without a target are left out, and said; or stay. */
static void test_table__unlabelled(void **state)
{
    fixture *f = *state;
    static const char *const text = "age,job,income\n1,a,low\n2,b,?\n3,b,high\n4,a,\n";
    et_samples *samples = NULL;
    f->logged = 0;
    assert_ok(open_text(&samples, f, text, (et_table_options){ .csv = { 0 } }, error));
    assert_int_equal(f->logged, 1);
    assert_contains(f->log, "t.csv: 2 rows have no target and are filtered");
    assert_string_equal(read_all(f, samples, true), "1/0/0@t.csv:2 3/1/1@t.csv:4");
    assert_ok(open_text(&samples, f, text, (et_table_options){ .keep_unlabelled = true }, error));
    assert_int_equal(f->logged, 1);
    assert_string_equal(read_all(f, samples, false), "1/0/0 2/1/-1 3/1/1 4/0/-1");
    /* The column itself may be absent then, with a header or without. */
    assert_ok(open_text(&samples, f, "age,job\n1,a\n",
                        (et_table_options){ .keep_unlabelled = true }, error));
    assert_string_equal(read_all(f, samples, false), "1/0/-1");
    assert_ok(
        open_text(&samples, f, "1,a,n\n", (et_table_options){ .keep_unlabelled = true }, error));
    assert_string_equal(read_all(f, samples, false), "1/0/-1");
    assert_fails(open_text(&samples, f, "age,job,income\n1,a,?\n",
                           (et_table_options){ .csv = { 0 } }, error),
                 ET_EDATA, "no row has a target");
}

static void test_table__errors(void **state)
{
    static const struct {
        const char *text, *error;
        et_table_options options;
    } cases[] = {
        { "", "t.csv: there is no row in it", { .csv = { 0 } } },
        { "\n\n", "there is no row in it", { .csv = { 0 } } },
        { "age,job,income\n", "there is no row in it", { .csv = { 0 } } },
        { "age,job,income\n1,a\n", "t.csv:2", { .csv = { 0 } } },
        { "age,job,income\n1,a,low\nx,a,low\n",
          "t.csv:3: column age: \"x\" is no number, and the schema says integer",
          { .csv = { 0 } } },
        { "age,job,income\n1,a,low\n1e999,a,low\n",
          "t.csv:3: column age: \"1e999\" is beyond",
          { .csv = { 0 } } },
        { "age,job,income\n1,a,middle\n",
          "t.csv:2: column income: the label \"middle\" is none",
          { .csv = { 0 } } },
        { "age,note\n1,a\n",
          "t.csv:1: the header disagrees with the schema, in 2 places: (1) there is no column job; "
          "(2) there is no column income",
          { .csv = { 0 } } },
        { "age,job,income,age\n1,a,low,2\n",
          "t.csv:1: the header disagrees with the schema: column age is there twice, as column 1 "
          "and 4: rename one",
          { .csv = { 0 } } },
        { "1,a,low\n", "t.csv:1: 3 columns, and the schema has 4", { .csv = { 0 } } },
        { "1,a,low,n,more\n", "t.csv:1: 5 columns, and the schema has 4", { .csv = { 0 } } },
        { "Age,Job,Income\n1,a,low\n", "3 columns, and the schema has 4", { .csv = { 0 } } },
        { "1,a\n", "and the schema has 4, or 3 without the target", { .keep_unlabelled = true } },
        { "1,a,low,n\n", "there is no column age", { .header = ET_HEADER_THERE } },
        { "age,job,income,note\n1,a,low,n\n",
          "t.csv:1: column age: \"age\" is no number",
          { .header = ET_HEADER_ABSENT } },
        { "age,job,income\n1,\"a,low\n2,b,low\n", "t.csv:2", { .csv = { 0 } } },
        { "age,job,income\n1,\xff,low\n", "t.csv:2", { .csv = { 0 } } },
    };
    et_samples *samples = NULL;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_fails(open_text(&samples, *state, cases[i].text, cases[i].options, error), ET_EDATA,
                     cases[i].error);
    const char *absent = fixture_path(*state, "absent.csv");
    assert_fails(open_table(&samples, &absent, 1, (et_table_options){ .csv = { 0 } }, error),
                 ET_ENOTFOUND, "absent.csv");
    assert_fails(open_table(&samples, NULL, 0, (et_table_options){ .csv = { 0 } }, error),
                 ET_ECONFIG, "no data");
}

static const char *write_many(fixture *f, const char *name, int from, int count)
{
    et_strbuf text = ET_STRBUF_INIT;
    et_strbuf_append(&text, "job,age,income\n");
    for (int i = from; i < from + count; i++)
        et_strbuf_printf(&text, "%s,%d,%s\n", i % 3 ? "a" : "b", i, i % 2 ? "low" : "high");
    const char *path = write_text(f, name, et_strbuf_text(&text));
    et_strbuf_release(&text);
    return path;
}

/* From any position on, also in the middle of a pass, batches are the same bits; also where a run
 * that began in memory goes on from a file. */
static void test_table__resume(void **state)
{
    const char *paths[] = { write_many(*state, "r0.csv", 0, 70),
                            write_many(*state, "r1.csv", 70, 31) };
    const et_batches_options options = {
        .seed = 3, .shuffle = true, .repeat = true, .capacity = { 8 }
    };
    et_samples *samples[2];
    et_source *source[2] = { NULL, NULL };
    et_batch *batch[2];
    for (int i = 0; i < 2; i++) {
        const et_table_options where = { .cache = fixture_path(*state, "rows"), .memory = i };
        assert_ok(open_table(&samples[i], paths, 2, where, error));
        assert_ok(et_batches_open(&source[i], samples[i], &options, error));
        assert_ok(et_batch_new(&batch[i], &source[i]->layout, error));
    }
    for (int step = 0; step < 40; step++) {
        et_position position;
        et_source_position(source[0], &position);
        assert_ok(et_source_next(source[0], batch[0], error));
        assert_ok(et_source_seek(source[1], &position, error));
        assert_ok(et_source_next(source[1], batch[1], error));
        for (int k = 0; k < batch[0]->layout->fields; k++)
            assert_memory_equal(batch[0]->data[k], batch[1]->data[k],
                                (size_t)et_shape_count(et_layout_shape(batch[0]->layout, k)) * 4);
    }
    assert_true(batch[0]->epoch >= 2);
    for (int i = 0; i < 2; i++) {
        et_batch_free(batch[i]);
        et_source_close(source[i]);
    }
}

/* ---- rows in a file ---- */

/* Without the care of et_file_write, which waits for the disk. */
static void overwrite(const char *path, const char *bytes, size_t length)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

/* What is in a folder whose name ends so; NULL: nothing. */
static const char *find_file(fixture *f, const char *folder, const char *end)
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

/* In memory and from a file: the same samples, bit for bit, with the same fingerprint. */
static void test_table__cache(void **state)
{
    fixture *f = *state;
    const char *paths[] = { write_many(f, "c0.csv", 0, 70), write_many(f, "c1.csv", 70, 1031) };
    const char *folder = fixture_path(f, "rows/of it");
    et_samples *memory = NULL, *file = NULL;
    char left[100], right[100];
    f->logged = 0;
    for (int i = 0; i < 3; i++) {
        /* Written, used, and used where there would be room in memory. */
        const et_table_options small = { .cache = folder, .memory = i < 2 };
        assert_ok(open_table(&memory, paths, 2, (et_table_options){ .csv = { 0 } }, error));
        assert_ok(open_table(&file, paths, 2, small, error));
        assert_non_null(find_file(f, folder, ".rows"));
        assert_true(memory->fingerprint == file->fingerprint);
        assert_int_equal(memory->count, file->count);
        for (uint32_t k = 0; k < 1101; k += 50) {
            memory->class->describe(memory, k, 0, left, sizeof left);
            file->class->describe(file, k, 0, right, sizeof right);
            assert_string_equal(left, right);
        }
        assert_string_equal(read_all(f, memory, false), read_all(f, file, false));
    }
    assert_int_equal(f->logged, 0);
    /* Where it fits no file is made. */
    const char *other = fixture_path(f, "other");
    assert_ok(open_table(&file, paths, 2, (et_table_options){ .cache = other }, error));
    et_samples_close(file);
    assert_null(find_file(f, other, ".rows"));
    /* A folder that cannot be. */
    const char *none = et_arena_printf(&f->arena, "%s/in", paths[0]);
    assert_fails(
        open_table(&file, paths, 2, (et_table_options){ .cache = none, .memory = 1 }, error),
        ET_EDENIED, "c0.csv");
}

/* Other contents, another encoder, other options: other rows. */
static void test_table__cache_is_by_content(void **state)
{
    fixture *f = *state;
    const char *folder = fixture_path(f, "rows");
    const et_table_options small = { .cache = folder, .memory = 1 };
    et_table_options keep = small;
    keep.keep_unlabelled = true;
    et_samples *samples = NULL;
    assert_ok(open_text(&samples, f, "age,job,income\n1,a,low\n2,a,?\n", small, error));
    assert_string_equal(read_all(f, samples, false), "1/0/0");
    assert_ok(open_text(&samples, f, "age,job,income\n1,a,low\n2,a,?\n", keep, error));
    assert_string_equal(read_all(f, samples, false), "1/0/0 2/0/-1");
    assert_ok(open_text(&samples, f, "age,job,income\n1,a,low\n3,a,?\n", keep, error));
    assert_string_equal(read_all(f, samples, false), "1/0/0 3/0/-1");
}

/* Any byte wrong: a warning, and the rows are made again. */
static void test_table__cache_damaged(void **state)
{
    fixture *f = *state;
    const char *paths[] = { write_many(f, "d.csv", 0, 30) };
    const char *folder = fixture_path(f, "rows");
    const et_table_options small = { .cache = folder, .memory = 1 };
    et_samples *samples = NULL;
    assert_ok(open_table(&samples, paths, 1, small, error));
    const char *right = read_all(f, samples, false), *path = find_file(f, folder, ".rows");
    char *bytes;
    size_t length;
    assert_ok(et_file_read(&bytes, &length, path, 100000, error));
    assert_int_equal(length, 32 + 30 * 16 + 8 + 48);
    for (size_t at = 0; at < length; at += at < 40 || at > 510 ? 1 : 7) {
        bytes[at] ^= 16;
        overwrite(path, bytes, length);
        bytes[at] ^= 16;
        f->logged = 0;
        assert_ok(open_table(&samples, paths, 1, small, error));
        bool key = at >= 16 && at < 24; /* of other rows, unless the checksum tells */
        assert_int_equal(f->logged, 1);
        assert_contains(f->log, key ? "is damaged (head)" : "is damaged");
        assert_string_equal(read_all(f, samples, false), right);
    }
    for (size_t cut = 0; cut < length; cut += 13) {
        overwrite(path, bytes, cut);
        f->logged = 0;
        assert_ok(open_table(&samples, paths, 1, small, error));
        assert_int_equal(f->logged, 1);
        assert_string_equal(read_all(f, samples, false), right);
    }
    et_free(bytes);
}

/* Made with intent, so that every checksum is right: what would lead out of a table is found. */
static void test_table__cache_made(void **state)
{
    fixture *f = *state;
    const char *paths[] = { write_many(f, "i.csv", 0, 30) };
    const char *folder = fixture_path(f, "rows");
    const et_table_options small = { .cache = folder, .memory = 1 };
    static const struct {
        size_t at; /* in the file */
        int32_t value;
        const char *fault;
    } cases[] = {
        { 32 + 4, 4, "rows" },         { 32 + 4, -1, "rows" },     { 32 + 16 + 8, 2, "rows" },
        { 32 + 16 + 8, -2, "rows" },   { 32, 0x7f800000, "rows" }, { 32 + 480, 1, "files" },
        { 32 + 480 + 4, -1, "files" }, { 32 + 488, 31, "size" },   { 32 + 488 + 4, -1, "size" },
        { 32 + 488 + 8, 2, "size" },   { 12, 12, "size of rows" }, { 8, 2, "head" },
    };
    et_samples *samples = NULL;
    assert_ok(open_table(&samples, paths, 1, small, error));
    const char *right = read_all(f, samples, false), *path = find_file(f, folder, ".rows");
    char *bytes;
    size_t length;
    assert_ok(et_file_read(&bytes, &length, path, 100000, error));
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *copy = malloc(length);
        uint64_t sum;
        memcpy(copy, bytes, length);
        memcpy(copy + cases[i].at, &cases[i].value, 4);
        sum = et_checksum(copy, 24);
        memcpy(copy + 24, &sum, 8);
        sum = et_checksum(copy + 32, 488);
        memcpy(copy + 520 + 16, &sum, 8);
        sum = et_checksum(copy + 520, 40);
        memcpy(copy + 520 + 40, &sum, 8);
        overwrite(path, copy, length);
        free(copy);
        f->logged = 0;
        assert_ok(open_table(&samples, paths, 1, small, error));
        assert_int_equal(f->logged, 1);
        char fault[40];
        snprintf(fault, sizeof fault, "is damaged (%s)", cases[i].fault);
        assert_contains(f->log, fault);
        assert_string_equal(read_all(f, samples, false), right);
    }
    et_free(bytes);
}

/* Once files are settled nothing but head and foot is read at a start. */
static void test_table__cache_seen(void **state)
{
    fixture *f = *state;
    const char *paths[] = { write_many(f, "s.csv", 0, 30) };
    const char *folder = fixture_path(f, "rows");
    const et_table_options small = { .cache = folder, .memory = 1 };
    et_samples *samples = NULL;
    assert_ok(open_table(&samples, paths, 1, small, error));
    et_samples_close(samples);
    assert_null(find_file(f, folder, ".seen"));
    sleep(4);
    for (int i = 0; i < 2; i++) {
        assert_ok(open_table(&samples, paths, 1, small, error));
        assert_int_equal(samples->count, 30);
        et_samples_close(samples);
        assert_non_null(find_file(f, folder, ".seen"));
    }
}

/* ---- tf.Examples ---- */

static et_example_builder *example(et_example_builder *b, int64_t age, const char *job,
                                   const char *income)
{
    et_example_reset(b);
    return et_example_add_text(
        et_example_add_text(et_example_add_ints(b, "age", &age, 1), "job", job), "income", income);
}

static const char *write_examples(fixture *f, const char *name, const char *type, int from,
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

/* The rows that CSV gives, plain and GZIP, in memory and in a file. */
static void test_table__examples(void **state)
{
    fixture *f = *state;
    const char *csv[] = { write_many(f, "e.csv", 0, 50) };
    const char *records[] = { write_examples(f, "e.tfrecord", NULL, 0, 20),
                              write_examples(f, "e.gz", "tfrecords_gzip", 20, 30) };
    et_samples *left = NULL, *right = NULL;
    char text[100];
    for (int i = 0; i < 3; i++) {
        const et_table_options options = { .examples = true,
                                           .cache = fixture_path(f, "rows"),
                                           .memory = i ? 1 : 0 };
        assert_ok(open_table(&left, csv, 1, (et_table_options){ .csv = { 0 } }, error));
        assert_ok(open_table(&right, records, 2, options, error));
        assert_true(left->fingerprint == right->fingerprint);
        right->class->describe(right, 21, 0, text, sizeof text);
        assert_contains(text, "e.gz:2");
        assert_string_equal(read_all(f, left, false), read_all(f, right, false));
    }
}

/* One example with a feature in place of age. */
static const char *write_one(fixture *f, const et_feature *feature, const char *job)
{
    const char *path = fixture_path(f, "one");
    et_example_builder *b;
    assert_ok(et_example_builder_new(&b, NULL, error));
    example(b, 3, job, "low");
    if (feature)
        et_example_add_feature(b, feature);
    assert_ok(et_records_write(path, NULL, &b, 1, error));
    et_example_builder_free(b);
    return path;
}

static int open_one(fixture *f, const et_feature *feature, const char *job, et_error *error)
{
    const char *path = write_one(f, feature, job);
    et_samples *samples = NULL;
    int status = open_table(&samples, &path, 1, (et_table_options){ .examples = true }, error);
    et_samples_close(samples);
    return status;
}

static void test_table__bad_examples(void **state)
{
    static const int64_t two[] = { 1, 2 };
    static const float half = 0.5f, nan = NAN, infinite = INFINITY;
    static const et_bytes text = { "17", 2 };
    static const struct {
        et_feature feature;
        const char *job, *error;
    } cases[] = {
        { { .key = "age", .kind = ET_FEATURE_INTS, .count = 2, .ints = two },
          "a",
          "one:1: feature age has 2 values, and the schema says 1" },
        { { .key = "age", .kind = ET_FEATURE_BYTES, .count = 1, .bytes = &text },
          "a",
          "one:1: feature age holds bytes, and the schema says integer" },
        { { .key = "age", .kind = ET_FEATURE_FLOATS, .count = 1, .floats = &half },
          "a",
          "one:1: column age: 0.5 is no integer" },
        { { .key = "age", .kind = ET_FEATURE_FLOATS, .count = 1, .floats = &infinite },
          "a",
          "one:1: column age: inf is no finite number" },
        { { .key = "job", .kind = ET_FEATURE_INTS, .count = 1, .ints = two },
          "a",
          "one:1: feature job holds integers, and the schema says discrete" },
        { { .key = NULL }, "\xff", "one:1: feature job: byte 1 of its text is not UTF-8" },
        { { .key = "income", .kind = ET_FEATURE_BYTES, .count = 1, .bytes = &text },
          "a",
          "one:1: column income: the label \"17\" is none" },
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_fails(
            open_one(*state, cases[i].feature.key ? &cases[i].feature : NULL, cases[i].job, error),
            ET_EDATA, cases[i].error);
    /* Missing: NaN, an empty list, an empty text, no feature at all. */
    const et_feature missing[] = {
        { .key = "age", .kind = ET_FEATURE_FLOATS, .count = 1, .floats = &nan },
        { .key = "age", .kind = ET_FEATURE_INTS },
        { .key = "age", .kind = ET_FEATURE_NONE },
    };
    for (size_t i = 0; i < COUNT(missing); i++)
        assert_ok(open_one(*state, &missing[i], "", error));
    const char *path = write_text(*state, "no.tfrecord", "age,job\n1,2\n");
    et_samples *samples = NULL;
    assert_fails(open_table(&samples, &path, 1, (et_table_options){ .examples = true }, error),
                 ET_EFORMAT, "no.tfrecord: record 1 at byte 0");
}

/* Every byte of a file of records changed: an error that names it, or other rows. */
static void test_table__mutated_examples(void **state)
{
    const char *path = write_examples(*state, "m.tfrecord", NULL, 0, 3);
    char *bytes;
    size_t length;
    assert_ok(et_file_read(&bytes, &length, path, 100000, error));
    for (size_t at = 0; at < length; at++) {
        et_error error = ET_ERROR_INIT;
        et_samples *samples = NULL;
        bytes[at] ^= 8;
        overwrite(path, bytes, length);
        bytes[at] ^= 8;
        assert_int_equal(
            open_table(&samples, &path, 1, (et_table_options){ .examples = true }, &error),
            ET_EFORMAT);
        assert_contains(error.text, "m.tfrecord");
    }
    et_free(bytes);
}

/* Images as bytes, vectors as lists. */
static void test_table__vectors(void **state)
{
    fixture *f = *state;
    static const char *const image_schema = "fields:\n- {name: image, type: integer, length: 4}\n"
                                            "- {name: v, type: real, length: 2}\n";
    static const char *const image_features = "features:\n- {name: X, type: concat, features: ["
                                              "{name: image, type: scale}, {name: v}]}\n";
    static const unsigned char pixels[] = { 0, 51, 255, 102 };
    static const float v[] = { -1, 2.5f }, expected[] = { 0, 0.2f, 1, 0.4f, -1, 2.5f };
    const et_bytes image = { pixels, 4 };
    const char *path = fixture_path(f, "image");
    const char *csv = write_text(f, "image.csv", "0,51,255,102,-1,2.5\n");
    const char *named = write_text(f, "named.csv",
                                   "v[1],v[0],image[3],image[2],image[1],image[0]\n2.5,-1,102,255,"
                                   "51,0\n");
    et_example_builder *b;
    et_encoder *encoder = NULL;
    assert_ok(et_example_builder_new(&b, NULL, error));
    et_example_add_floats(et_example_add_bytes(b, "image", &image, 1), "v", v, 2);
    assert_ok(et_records_write(path, NULL, &b, 1, error));
    et_example_builder_free(b);
    assert_ok(encoder_parse(&encoder, image_schema, "{\"image\": {\"min\": 0, \"max\": 255}}",
                            image_features, error));
    const char *ways[] = { path, csv, named };
    for (int i = 0; i < 3; i++) {
        const et_table_options options = { .paths = { &ways[i], 1 }, .examples = i == 0 };
        et_samples *samples = NULL;
        et_batch *batch;
        assert_ok(et_table_open(&samples, encoder, &options, error));
        et_layout layout = samples->layout;
        layout.capacity[0] = 1;
        assert_ok(et_batch_new(&batch, &layout, error));
        assert_ok(samples->class->fill(samples, (et_pick){ &(uint32_t){ 0 }, 1, 0 }, batch, error));
        for (int k = 0; k < 6; k++)
            assert_true(((float *)batch->data[0])[k] == expected[k]);
        et_batch_free(batch);
        et_samples_close(samples);
    }
    et_encoder_free(encoder);
}

/* Any number of values: every one marks its column. In CSV there is one. */
static void test_table__lists(void **state)
{
    fixture *f = *state;
    static const char *const list_schema = "fields:\n- {name: tags, type: discrete, length: 0}\n"
                                           "- {name: n, type: integer, length: 0}\n";
    static const char *const list_features =
        "features:\n- {name: X, type: concat, features: [{name: tags, type: one-hot}, {name: n, "
        "type: bucketize, transform: {boundaries: [0, 10]}}, {name: n, type: missing}]}\n";
    static const et_bytes tags[] = { { "b", 1 }, { "", 0 }, { "?", 1 }, { "b", 1 } };
    static const int64_t n[] = { 12, -3 };
    static const float half = 0.5f, expected[][7] = { { 0, 1, 1, 1, 0, 1, 0 },
                                                      { 0, 0, 1, 0, 0, 0, 1 },
                                                      { 1, 0, 0, 0, 1, 0, 0 } };
    const char *path = fixture_path(f, "lists"), *bad = fixture_path(f, "bad");
    const char *csv = write_text(f, "lists.csv", "n,tags\n7,a\n");
    et_example_builder *b[3];
    et_encoder *encoder = NULL;
    et_samples *samples = NULL;
    for (int i = 0; i < 3; i++)
        assert_ok(et_example_builder_new(&b[i], NULL, error));
    et_example_add_ints(et_example_add_bytes(b[0], "tags", tags, 4), "n", n, 2);
    et_example_add_bytes(b[1], "tags", tags + 1, 1);
    et_example_add_floats(b[2], "n", &half, 1);
    assert_ok(et_records_write(path, NULL, b, 2, error));
    assert_ok(et_records_write(bad, NULL, b + 2, 1, error));
    assert_ok(encoder_parse(&encoder, list_schema, "{\"tags\": {\"entries\": [\"a\", \"b\"]}}",
                            list_features, error));
    for (int way = 0; way < 2; way++) {
        const et_table_options options = { .paths = { way ? &csv : &path, 1 }, .examples = !way };
        et_batch *batch;
        assert_ok(et_table_open(&samples, encoder, &options, error));
        et_layout layout = samples->layout;
        layout.capacity[0] = samples->count;
        assert_ok(et_batch_new(&batch, &layout, error));
        assert_ok(samples->class->fill(
            samples, (et_pick){ (uint32_t[]){ 0, 1 }, samples->count, 0 }, batch, error));
        assert_memory_equal(batch->data[0], expected[way ? 2 : 0],
                            (size_t)samples->count * sizeof *expected);
        et_batch_free(batch);
        et_samples_close(samples);
    }
    const et_table_options wrong = { .paths = { &bad, 1 }, .examples = true };
    assert_fails(et_table_open(&samples, encoder, &wrong, error), ET_EDATA,
                 "bad:1: column n: 0.5 is no integer");
    for (int i = 0; i < 3; i++)
        et_example_builder_free(b[i]);
    et_encoder_free(encoder);
}

/* A file that changes between being known and being read. */
static void test_table__cache_changed(void **state)
{
    fixture *f = *state;
    const char *path = write_text(f, "w.csv", "age,job,income\n1,a,low\n");
    const et_table_options options = { .paths = { &path, 1 }, .cache = f->directory };
    et_encoder *encoder = open_encoder();
    et_table_cache cache;
    assert_ok(et_table_cache_open(&cache, encoder, &options, error));
    assert_ok(et_table_cache_check(&cache, error));
    write_text(f, "w.csv", "age,job,income\n1,a,low\n2,a,low\n");
    assert_fails(et_table_cache_check(&cache, error), ET_EDATA,
                 "w.csv or a file beside it changed");
    et_table_cache_close(&cache);
    et_encoder_free(encoder);
}

/* Every byte of a CSV file changed, and every length: rows, or an error that names the file. */
static void test_table__mutated(void **state)
{
    fixture *f = *state;
    static const char bytes[] = { 0, '"', '\n', ',', '\xff', '9', '\r' };
    static const char *const text = "age,job,income\n1,a,low\n22,\"b\",high\n,\"c\"\"d\",low\n";
    size_t length = strlen(text);
    int whole = 0;
    for (size_t at = 0; at < length; at++)
        for (size_t k = 0; k <= COUNT(bytes); k++) {
            char copy[100];
            et_samples *samples = NULL;
            et_error error = ET_ERROR_INIT;
            memcpy(copy, text, length);
            if (k < COUNT(bytes))
                copy[at] = bytes[k];
            const char *path = write_bytes(f, "m.csv", copy, k < COUNT(bytes) ? length : at);
            int status = open_table(&samples, &path, 1, (et_table_options){ .csv = { 0 } }, &error);
            if (status)
                assert_contains(error.text, "m.csv");
            else
                whole++;
            et_samples_close(samples);
        }
    assert_true(whole > 20);
}

/* Memory runs out at every place: in memory, into a file, and of records. */
static void test_table__memory(void **state)
{
    fixture *f = *state;
    const char *paths[] = { write_many(f, "m0.csv", 0, 5), write_many(f, "m1.csv", 5, 5) };
    const char *records[] = { write_examples(f, "m.tfrecord", NULL, 0, 3) };
    const et_table_options ways[] = {
        { .paths = { paths, 2 } },
        { .paths = { paths, 2 }, .cache = fixture_path(f, "rows"), .memory = 1 },
        { .paths = { paths, 2 }, .cache = fixture_path(f, "rows"), .memory = 1 },
        { .paths = { records, 1 }, .examples = true },
    };
    et_encoder *encoder = open_encoder();
    for (size_t i = 0; i < COUNT(ways); i++) {
        int status = ET_ENOMEM;
        for (long n = 0; status; n++) {
            et_samples *samples = NULL;
            et_error error = ET_ERROR_INIT;
            scarce_begin(n);
            status = et_table_open(&samples, encoder, &ways[i], &error);
            et_samples_close(samples);
            scarce_end();
            assert_true(status == ET_OK || (scarce_failed && status == ET_ENOMEM));
        }
        assert_null(find_file(f, f->directory, ".tmp"));
    }
    et_encoder_free(encoder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_table__same_rows, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table__files, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table__unlabelled, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table__errors, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table__resume, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table__cache, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table__cache_is_by_content, fixture_open,
                                        fixture_close),
        cmocka_unit_test_setup_teardown(test_table__cache_damaged, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table__cache_made, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table__cache_seen, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table__examples, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table__bad_examples, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table__mutated_examples, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table__vectors, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table__lists, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table__cache_changed, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table__mutated, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table__memory, fixture_open, fixture_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
