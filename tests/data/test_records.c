#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>

#include <etude/records.h>

#include "base/scarce.h"
#include "calls.h"
#include "data/batches/source.h"
#include "data/fixture.h"

#define GOLDEN       ET_TEST_SOURCE "/tests/data/records/"
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* count records: "x" two floats i and -i, "id" the number, "ids" i % 4 integers i * 10 + k. */
static const char *write_records(fixture *f, const char *name, const char *type, int first,
                                 int count)
{
    const char *path = fixture_path(f, name);
    et_record_writer *writer;
    et_example_builder *b;
    assert_ok(et_record_writer_open(&writer, path, type, error));
    assert_ok(et_example_builder_new(&b, NULL, error));
    for (int i = first; i < first + count; i++) {
        const float x[] = { (float)i, (float)-i };
        const int64_t id = i, ids[] = { i * 10, i * 10 + 1, i * 10 + 2 };
        et_example_reset(b);
        et_example_add_floats(b, "x", x, 2);
        et_example_add_ints(et_example_add_ints(b, "id", &id, 1), "ids", ids, (size_t)(i % 4));
        assert_ok(et_record_write_example(writer, b, error));
    }
    et_example_builder_free(b);
    assert_ok(et_record_writer_close(writer, error));
    return path;
}

static const et_record_field fields[] = {
    { .name = "x", .dtype = ET_F32, .shape = { .rank = 1, .size = { 2 } } },
    { .name = "ids", .dtype = ET_I32, .variable = true },
    { .name = "id", .dtype = ET_I32 },
};

static et_samples *open_records(const char *const *paths, size_t count,
                                const et_records_options *options)
{
    et_samples *samples = NULL;
    assert_ok(et_records_open(&samples, paths, count, fields, 3, options, error));
    return samples;
}

/* Sample n of open_records, from any batch that it begins. */
static void check_sample(const et_batch *batch, int64_t at, int n)
{
    const et_layout *layout = batch->layout;
    const float *x = batch->data[et_layout_find(layout, "x")];
    const int32_t *ids = batch->data[et_layout_find(layout, "ids")];
    const int32_t *offsets = batch->data[et_layout_find(layout, "ids_offsets")];
    assert_int_equal(((int32_t *)batch->data[et_layout_find(layout, "id")])[at], n);
    assert_true(x[2 * at] == (float)n && x[2 * at + 1] == (float)-n);
    assert_int_equal(offsets[at + 1] - offsets[at], n % 4);
    for (int k = 0; k < n % 4; k++)
        assert_int_equal(ids[offsets[at] + k], n * 10 + k);
}

/* The ids of a pass in order; checks each sample; closes the samples. */
static int64_t read_ids(et_samples *samples, int32_t *out)
{
    const et_batches_options options = { .capacity = { 5, 16 } };
    et_source *source = NULL;
    et_batch *batch;
    int64_t count = 0;
    assert_ok(et_batches_open(&source, samples, &options, error));
    assert_ok(et_batch_new(&batch, &source->layout, error));
    for (;;) {
        assert_ok(et_source_next(source, batch, error));
        if (!batch->filled[0])
            break;
        const int32_t *ids = batch->data[et_layout_find(batch->layout, "id")];
        for (int64_t i = 0; i < batch->filled[0]; i++) {
            check_sample(batch, i, ids[i]);
            out[count++] = ids[i];
        }
    }
    et_batch_free(batch);
    et_source_close(source);
    return count;
}

static void test_records__pass(void **state)
{
    int32_t ids[100];
    const char *paths[] = { write_records(*state, "a.tfrecord", NULL, 0, 13),
                            write_records(*state, "b.tfrecord", "tfrecords_gzip", 13, 9) };
    et_samples *samples = open_records(paths, 2, NULL);
    char text[200];
    assert_int_equal(samples->count, 22);
    assert_int_equal(samples->total[1], 31);
    assert_int_equal(samples->largest[1], 3);
    samples->class->describe(samples, 14, 0, text, sizeof text);
    assert_contains(text, "b.tfrecord:2");
    assert_int_equal(read_ids(samples, ids), 22);
    for (int i = 0; i < 22; i++)
        assert_int_equal(ids[i], i);
}

/* Patterns and lists as paths; the fingerprint depends on the records' contents, not on how files
 * divide them. */
static void test_records__same_content(void **state)
{
    fixture *f = *state;
    uint64_t prints[5];
    write_records(f, "s-0", NULL, 0, 5);
    write_records(f, "s-1", NULL, 5, 5);
    char list[200], pattern[100];
    snprintf(list, sizeof list, "%s/s-0, %s/s-1", f->directory, f->directory);
    snprintf(pattern, sizeof pattern, "%s/s-?", f->directory);
    const char *ways[] = { pattern, list, write_records(f, "all", NULL, 0, 10),
                           write_records(f, "all.gz", "tfrecords_gzip", 0, 10),
                           write_records(f, "other", NULL, 1, 10) };
    for (int i = 0; i < 5; i++) {
        et_samples *samples = open_records(&ways[i], 1, NULL);
        assert_int_equal(samples->count, 10);
        prints[i] = samples->fingerprint;
        et_samples_close(samples);
    }
    assert_true(prints[0] == prints[1] && prints[0] == prints[2] && prints[0] == prints[3]);
    assert_true(prints[0] != prints[4]);
}

/* From any position on, batches are the same bits: shuffled, repeated, from both kinds of file. */
static void test_records__resume(void **state)
{
    const char *paths[] = { write_records(*state, "r.tfrecord", NULL, 0, 40),
                            write_records(*state, "r.gz", "tfrecords_gzip", 40, 30) };
    const et_batches_options options = {
        .seed = 3, .shuffle = true, .bucket = true, .repeat = true, .capacity = { 6, 9 }, .pool = 20
    };
    et_source *whole = NULL, *resumed = NULL;
    et_batch *left, *right;
    assert_ok(et_batches_open(&whole, open_records(paths, 2, NULL), &options, error));
    assert_ok(et_batches_open(&resumed, open_records(paths, 2, NULL), &options, error));
    assert_ok(et_batch_new(&left, &whole->layout, error));
    assert_ok(et_batch_new(&right, &resumed->layout, error));
    for (int step = 0; step < 60; step++) {
        et_position position;
        et_source_position(whole, &position);
        assert_ok(et_source_next(whole, left, error));
        assert_ok(et_source_seek(resumed, &position, error));
        assert_ok(et_source_next(resumed, right, error));
        assert_int_equal(left->epoch, right->epoch);
        assert_memory_equal(left->filled, right->filled, sizeof left->filled);
        for (int i = 0; i < left->layout->fields; i++)
            assert_memory_equal(left->data[i], right->data[i],
                                (size_t)et_shape_count(et_layout_shape(left->layout, i)) * 4);
    }
    assert_true(left->epoch > 1);
    et_batch_free(left);
    et_batch_free(right);
    et_source_close(whole);
    et_source_close(resumed);
}

/* A pass over records asks for no memory. */
static void test_records__allocates_nothing(void **state)
{
    const char *path = write_records(*state, "n.tfrecord", NULL, 0, 40);
    const et_batches_options options = { .repeat = true, .capacity = { 6, 18 } };
    et_source *source = NULL;
    et_batch *batch;
    assert_ok(et_batches_open(&source, open_records(&path, 1, NULL), &options, error));
    assert_ok(et_batch_new(&batch, &source->layout, error));
    size_t before = et_alloc_count();
    for (int i = 0; i < 30; i++)
        assert_ok(et_source_next(source, batch, error));
    assert_int_equal(et_alloc_count(), before);
    et_batch_free(batch);
    et_source_close(source);
}

static int count_files(const char *folder)
{
    int count = 0;
    DIR *directory = opendir(folder);
    if (!directory)
        return -1;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

/* Unpacked once, by content; a damaged file is made again with a warning; without room on disk it
 * goes into memory. */
static void test_records__cache(void **state)
{
    fixture *f = *state;
    int32_t ids[100];
    const char *packed = write_records(f, "c.gz", "tfrecords_gzip", 0, 20);
    const char *folder = fixture_path(f, "cache"), *cached = NULL;
    const et_records_options options = { .cache = folder };
    f->logged = 0;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(read_ids(open_records(&packed, 1, &options), ids), 20);
        assert_int_equal(count_files(folder), 1);
        assert_int_equal(f->logged, 0);
    }
    DIR *directory = opendir(folder);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        if (entry->d_name[0] != '.')
            cached = et_arena_printf(&f->arena, "%s/%s", folder, entry->d_name);
    closedir(directory);
    char *bytes;
    size_t length;
    assert_ok(et_file_read(&bytes, &length, cached, 100000, error));
    for (size_t at = 0; at < length; at += 97) {
        bytes[at] ^= 4;
        assert_ok(et_file_write(cached, bytes, length, error));
        bytes[at] ^= 4;
        f->logged = 0;
        assert_int_equal(read_ids(open_records(&packed, 1, &options), ids), 20);
        assert_int_equal(f->logged, 1);
        assert_contains(f->log, "again");
    }
    et_free(bytes);
    const char *file = write_text(f, "file", "x");
    f->logged = 0;
    const et_records_options no_folder = { .cache = file };
    assert_int_equal(read_ids(open_records(&packed, 1, &no_folder), ids), 20);
    assert_int_equal(f->logged, 1);
    assert_contains(f->log, "cannot keep unpacked records for the next start");
}

/* By file if there are enough files, else by record; all samples, none twice. */
static void test_records__shards(void **state)
{
    const char *paths[] = { write_records(*state, "h0", NULL, 0, 4),
                            write_records(*state, "h1", NULL, 4, 5),
                            write_records(*state, "h2", NULL, 9, 3) };
    static const struct {
        int64_t shard, shards;
        int32_t ids[12];
        int64_t count;
    } cases[] = {
        { 0, 1, { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 }, 12 },
        { 0, 2, { 0, 1, 2, 3, 9, 10, 11 }, 7 },
        { 1, 2, { 4, 5, 6, 7, 8 }, 5 },
        { 2, 3, { 9, 10, 11 }, 3 },
        { 0, 4, { 0, 4, 8 }, 3 },
        { 3, 4, { 3, 7, 11 }, 3 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const et_records_options options = { .shard = cases[i].shard, .shards = cases[i].shards };
        int32_t ids[20];
        assert_int_equal(read_ids(open_records(paths, 3, &options), ids), cases[i].count);
        assert_memory_equal(ids, cases[i].ids, (size_t)cases[i].count * sizeof *ids);
    }
}

/* What TensorFlow wrote: every kind, a default, bytes as numbers. */
static void test_records__tensorflow(void **state)
{
    (void)state;
    static const float missing = 9;
    static const et_record_field kinds[] = {
        { .name = "label", .dtype = ET_I32 },
        { .name = "weight", .dtype = ET_F32, .missing = &missing },
        { .name = "image", .dtype = ET_F32, .shape = { .rank = 2, .size = { 2, 2 } } },
        { .name = "ids", .dtype = ET_I32, .variable = true },
        { .name = "pair",
          .dtype = ET_F32,
          .shape = { .rank = 1, .size = { 2 } },
          .variable = true },
        { .name = "absent", .dtype = ET_I32, .variable = true, .missing = &missing },
    };
    static const int32_t labels[] = { 7, -1, INT32_MAX },
                         ids[] = { 1, -2, 3, INT32_MAX, INT32_MIN };
    static const int32_t offsets[] = { 0, 3, 3, 5 }, pair_offsets[] = { 0, 1, 2, 3 };
    static const float weights[] = { 0.5f, -1e30f, 9 }, image[] = { 0, 1, 128, 255, 4, 3, 2, 1 };
    static const float pairs[] = { 1, 2, 3, 4, 5, 6 };
    const char *path = GOLDEN "kinds.tfrecord";
    const et_batches_options options = { .capacity = { 3, 5, 3, 1 } };
    et_samples *samples = NULL;
    et_source *source = NULL;
    et_batch *batch;
    assert_ok(et_records_open(&samples, &path, 1, kinds, 6, NULL, error));
    assert_ok(et_batches_open(&source, samples, &options, error));
    assert_ok(et_batch_new(&batch, &source->layout, error));
    assert_ok(et_source_next(source, batch, error));
    assert_int_equal(batch->filled[0], 3);
    const et_layout *l = batch->layout;
    assert_memory_equal(batch->data[et_layout_find(l, "label")], labels, sizeof labels);
    assert_memory_equal(batch->data[et_layout_find(l, "weight")], weights, sizeof weights);
    assert_memory_equal(batch->data[et_layout_find(l, "image")], image, sizeof image);
    assert_memory_equal(batch->data[et_layout_find(l, "ids")], ids, sizeof ids);
    assert_memory_equal(batch->data[et_layout_find(l, "ids_offsets")], offsets, sizeof offsets);
    assert_memory_equal(batch->data[et_layout_find(l, "pair")], pairs, sizeof pairs);
    assert_memory_equal(batch->data[et_layout_find(l, "pair_offsets")], pair_offsets,
                        sizeof pair_offsets);
    assert_int_equal(batch->filled[3], 0);
    et_batch_free(batch);
    et_source_close(source);
}

#define FIELD(...) { { __VA_ARGS__ } }, 1
#define TWO                                                                                        \
    {                                                                                              \
        .rank = 1, .size = { 2 }                                                                   \
    }

/* Errors in the declaration, and in the records. */
static void test_records__errors(void **state)
{
    static const struct {
        const char *path;
        et_record_field fields[4];
        int count;
        et_records_options options;
        int status;
        const char *error;
    } cases[] = {
        { "e.tfrecord", { { 0 } }, 0, { 0 }, ET_ECONFIG, "0 fields of records: give at least one" },
        { "e.tfrecord", FIELD(.name = ""), { 0 }, ET_ECONFIG, "has no name" },
        { "e.tfrecord",
          FIELD(.name = "mask"),
          { 0 },
          ET_ECONFIG,
          "this name is reserved for batches" },
        { "e.tfrecord",
          FIELD(.name = "x", .dtype = ET_BF16),
          { 0 },
          ET_ECONFIG,
          "field x: records can only give int32 and float32" },
        { "e.tfrecord",
          FIELD(.name = "x", .shape = { .rank = 1, .size = { 0 } }),
          { 0 },
          ET_ECONFIG,
          "field x: a shape of 0 elements: give at least 1 element, in fewer than" },
        { "e.tfrecord",
          { { .name = "id", .dtype = ET_I32 }, { .name = "id", .dtype = ET_I32 } },
          2,
          { 0 },
          ET_ECONFIG,
          "field id: two fields have this name" },
        { "e.tfrecord",
          { { .name = "ids", .dtype = ET_I32, .variable = true },
            { .name = "ids_offsets", .dtype = ET_I32 } },
          2,
          { 0 },
          ET_ECONFIG,
          "field ids_offsets: two fields have this name" },
        { "e.tfrecord",
          { { .name = "a", .variable = true },
            { .name = "b", .variable = true },
            { .name = "c", .variable = true },
            { .name = "d", .variable = true } },
          4,
          { 0 },
          ET_ECONFIG,
          "field d: at most 3 fields of variable length" },
        { "e.tfrecord",
          FIELD(.name = "id", .dtype = ET_I32),
          { .shards = 2, .shard = 2 },
          ET_ECONFIG,
          "shard 2 of 2: shards are numbered from 0" },
        { "e.tfrecord",
          FIELD(.name = "id", .dtype = ET_I32),
          { .shard = 1 },
          ET_ECONFIG,
          "shard 1 of 0" },
        { "e.tfrecord",
          FIELD(.name = "id", .dtype = ET_I32),
          { .shards = 100, .shard = 50 },
          ET_ECONFIG,
          "shard 50 of 100 over 3 samples is empty" },
        { "e.tfrecord",
          FIELD(.name = "label", .dtype = ET_I32),
          { 0 },
          ET_EDATA,
          "e.tfrecord: record 1 at byte 0: no feature label: add it to every record, or give the "
          "field a default" },
        { "e.tfrecord",
          FIELD(.name = "id", .dtype = ET_F32),
          { 0 },
          ET_EDATA,
          "feature id has integers, but a field of float32 needs floats, or one string of bytes" },
        { "e.tfrecord",
          FIELD(.name = "x", .dtype = ET_I32, .shape = TWO),
          { 0 },
          ET_EDATA,
          "feature x has floats, but a field of int32 needs integers" },
        { "e.tfrecord",
          FIELD(.name = "x", .dtype = ET_F32),
          { 0 },
          ET_EDATA,
          "feature x: 2 values, but 1 are declared" },
        { "e.tfrecord",
          FIELD(.name = "ids", .dtype = ET_I32, .shape = TWO, .variable = true),
          { 0 },
          ET_EDATA,
          "record 2 at byte 61: feature ids: 1 values, but a multiple of 2 are declared" },
        { "wide.tfrecord",
          FIELD(.name = "id", .dtype = ET_I32),
          { 0 },
          ET_EDATA,
          "feature id: 2147483648 does not fit in 32 bits; write smaller integers" },
        { GOLDEN "kinds.tfrecord",
          FIELD(.name = "names", .dtype = ET_I32),
          { 0 },
          ET_EDATA,
          "feature names has several strings, or none" },
        { GOLDEN "kinds.tfrecord",
          FIELD(.name = "weight", .dtype = ET_F32),
          { 0 },
          ET_EDATA,
          "kinds.tfrecord: record 3 at byte" },
        { "text.tfrecord",
          FIELD(.name = "id", .dtype = ET_I32),
          { 0 },
          ET_EFORMAT,
          "record 1 at byte 0: not a tf.Example: name a file of tf.Example records" },
        { "text",
          FIELD(.name = "id", .dtype = ET_I32),
          { 0 },
          ET_EFORMAT,
          "the checksum of its length does not match" },
        { "nothing",
          FIELD(.name = "id", .dtype = ET_I32),
          { 0 },
          ET_EDATA,
          "nothing: no records: name files with records" },
        { "none", FIELD(.name = "id", .dtype = ET_I32), { 0 }, ET_ENOTFOUND, "none" },
        { "*.none", FIELD(.name = "id", .dtype = ET_I32), { 0 }, ET_EDATA, "no file matches" },
        { "cut.gz",
          FIELD(.name = "id", .dtype = ET_I32),
          { 0 },
          ET_EFORMAT,
          "the gzip file ends in the middle of its data" },
        { "cut.gz",
          FIELD(.name = "id", .dtype = ET_I32),
          { .cache = "records-cut-cache" },
          ET_EFORMAT,
          "the gzip file ends in the middle of its data" },
    };
    fixture *f = *state;
    et_record_writer *writer;
    et_example_builder *b;
    const int64_t wide = (int64_t)INT32_MAX + 1;
    write_records(f, "e.tfrecord", NULL, 0, 3);
    write_text(f, "text", "lines of text\nand more of it\n");
    write_text(f, "nothing", "");
    assert_ok(et_record_writer_open(&writer, fixture_path(f, "text.tfrecord"), NULL, error));
    assert_ok(et_record_write(writer, "lines of text", 13, error));
    assert_ok(et_record_writer_close(writer, error));
    assert_ok(et_example_builder_new(&b, NULL, error));
    et_example_add_ints(b, "id", &wide, 1);
    assert_ok(et_records_write(fixture_path(f, "wide.tfrecord"), NULL, &b, 1, error));
    et_example_builder_free(b);
    char *bytes;
    size_t length;
    assert_ok(et_file_read(&bytes, &length, write_records(f, "cut.gz", "tfrecords_gzip", 0, 20),
                           100000, error));
    write_bytes(f, "cut.gz", bytes, length / 2);
    et_free(bytes);
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *path = cases[i].path[0] == '/' ? cases[i].path : fixture_path(f, cases[i].path);
        et_samples *samples = NULL;
        et_error error = ET_ERROR_INIT;
        int status = et_records_open(&samples, &path, 1, cases[i].fields, cases[i].count,
                                     &cases[i].options, &error);
        assert_contains(error.text, cases[i].error);
        assert_int_equal(status, cases[i].status);
    }
    rmdir("records-cut-cache");
    et_samples *samples = NULL;
    assert_fails(et_records_open(&samples, NULL, 0, fields, 3, NULL, error), ET_ECONFIG,
                 "no record file is given: name at least one");
    const char *none = NULL;
    assert_fails(et_records_open(&samples, &none, 1, fields, 3, NULL, error), ET_EDATA,
                 "a path is empty");
}

static void test_records__out_of_memory(void **state)
{
    const char *paths[] = { write_records(*state, "m.tfrecord", NULL, 0, 3),
                            write_records(*state, "m.gz", "tfrecords_gzip", 3, 3) };
    const char *cache = fixture_path(*state, "memory-cache");
    int status = ET_ENOMEM;
    for (long calls = 0; status; calls++) {
        const et_records_options options = { .cache = calls % 2 ? cache : NULL };
        et_samples *samples = NULL;
        scarce_begin(calls);
        status = et_records_open(&samples, paths, 2, fields, 3, &options, NULL);
        et_samples_close(samples);
        scarce_end();
        /* A cache that fails is a warning. */
        assert_true(status == ET_OK || (status == ET_ENOMEM && scarce_failed));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records__pass),
        cmocka_unit_test(test_records__same_content),
        cmocka_unit_test(test_records__resume),
        cmocka_unit_test(test_records__allocates_nothing),
        cmocka_unit_test(test_records__cache),
        cmocka_unit_test(test_records__shards),
        cmocka_unit_test(test_records__tensorflow),
        cmocka_unit_test(test_records__errors),
        cmocka_unit_test(test_records__out_of_memory),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
