#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include <etude/records.h>

#include "base/scarce.h"
#include "calls.h"
#include "data/fixture.h"
#include "data/table/features/encoder.h"
#include "data/table/table_set.h"
#include "data/table_fixture.h"

static const char *const schema = "fields:\n"
                                  "  - {name: species, type: discrete}\n"
                                  "  - {name: width, type: real}\n"
                                  "  - {name: count, type: integer}\n";
static const char *const metadata = "{\"species\": {\"entries\": [\"setosa\", \"virginica\"]}}";
static const char *const features = "features:\n- {name: X, fields: [width, count]}\n"
                                    "- {name: Y, type: target, fields: species}\n";

/* The three as files. */
static et_table_set_options write_three(fixture *f)
{
    return (et_table_set_options){ .schema_path = write_text(f, "schema.yaml", schema),
                                   .metadata_path = write_text(f, "metadata.json", metadata),
                                   .features_path = write_text(f, "features.yaml", features) };
}

static et_table_set *open_csv(fixture *f)
{
    const et_table_set_path paths[] = {
        { "train", write_text(f, "train.csv", "setosa,0.5,1\nvirginica,1.5,2\nsetosa,2.5,3\n") },
        { "eval", write_text(f, "eval.csv", "count,width,species\n9,3.5,virginica\n") },
    };
    const et_table_set_options options = write_three(f);
    et_table_set *set = NULL;
    assert_ok(et_csv_table_set_open(&set, paths, 2, NULL, &options, error));
    return set;
}

/* "0.5,1:0 ..." of all that a source gives; closes it. */
static const char *read_all(fixture *f, et_source *source)
{
    et_strbuf out = ET_STRBUF_INIT;
    et_batch *batch;
    assert_ok(et_batch_new(&batch, &source->layout, error));
    for (;;) {
        assert_ok(et_source_next(source, batch, error));
        if (!batch->filled[0])
            break;
        const float *x = batch->data[0];
        const int32_t *y = batch->data[1];
        for (int64_t i = 0; i < batch->filled[0]; i++)
            et_strbuf_printf(&out, "%s%g,%g:%d", out.length ? " " : "", (double)x[2 * i],
                             (double)x[2 * i + 1], (int)y[i]);
        et_strbuf_append(&out, ";");
    }
    et_batch_free(batch);
    et_source_close(source);
    const char *text = et_arena_strdup(&f->arena, et_strbuf_text(&out));
    et_strbuf_release(&out);
    return text;
}

static const char *read_source(fixture *f, const et_table_columns *source,
                               const et_read_options *options)
{
    et_source *read = NULL;
    assert_ok(et_table_columns_read(&read, source, options, error));
    return read_all(f, read);
}

static const char *read_samples(fixture *f, et_samples *samples)
{
    const et_batches_options options = { .capacity = { 8 } };
    et_source *source = NULL;
    assert_ok(et_batches_open(&source, samples, &options, error));
    return read_all(f, source);
}

static void test_table_set__csv(void **state)
{
    fixture *f = *state;
    et_table_set *set = open_csv(f);
    assert_int_equal(et_table_set_count(set), 2);
    et_table_columns *train = et_table_set_columns(set, "train");
    assert_ptr_equal(train, et_table_set_at(set, 0));
    assert_string_equal(et_table_columns_name(et_table_set_at(set, 1)), "eval");
    assert_null(et_table_set_columns(set, "test"));
    assert_null(et_table_set_columns(set, NULL));
    assert_null(et_table_set_at(set, 2));
    assert_int_equal(et_schema_count(et_table_set_schema(set)), 3);
    assert_int_equal(et_metadata_find(et_table_set_metadata(set), "species")->entry_count, 2);
    assert_int_equal(et_feature_set_count(et_table_set_features(set)), 2);
    assert_int_equal(et_layout_find(et_encoder_layout(et_table_set_encoder(set)), "Y"), 1);
    et_samples *samples = NULL;
    assert_ok(et_table_columns_samples(&samples, train, NULL, error));
    assert_int_equal(samples->count, 3);
    et_samples_close(samples);
    const et_read_options once = { .epochs = 1 };
    assert_string_equal(read_source(f, train, &once), "0.5,1:0 1.5,2:1 2.5,3:0;");
    assert_string_equal(read_source(f, et_table_set_columns(set, "eval"), &once), "3.5,9:1;");
    et_table_set_close(set);
}

/* batch, epochs, threads, shuffle. */
static void test_table_set__read(void **state)
{
    fixture *f = *state;
    et_table_set *set = open_csv(f);
    et_table_columns *train = et_table_set_columns(set, "train");
    for (int threads = 0; threads < 4; threads++) {
        const et_read_options twice = { .batch = 2, .epochs = 2, .threads = threads };
        assert_string_equal(read_source(f, train, &twice),
                            "0.5,1:0 1.5,2:1; 2.5,3:0; 0.5,1:0 1.5,2:1; 2.5,3:0;");
    }
    /* Without end: 128 rows by default, pass after pass. */
    et_source *source = NULL;
    et_batch *batch;
    assert_ok(et_table_columns_read(&source, train, NULL, error));
    assert_int_equal(source->layout.capacity[0], 128);
    assert_ok(et_batch_new(&batch, &source->layout, error));
    for (int i = 0; i < 50; i++) {
        assert_ok(et_source_next(source, batch, error));
        assert_true(batch->filled[0] == 3 && batch->epoch == i);
    }
    et_batch_free(batch);
    et_source_close(source);
    const et_read_options mixed = { .shuffle = true, .shuffle_buffer = 1, .epochs = 40, .seed = 5 };
    const char *first = read_source(f, train, &mixed);
    assert_string_equal(read_source(f, train, &mixed), first);
    assert_non_null(strstr(first, "2.5,3:0 0.5,1:0 1.5,2:1;")); /* other orders come up */
    assert_non_null(strstr(first, "1.5,2:1 0.5,1:0 2.5,3:0;"));
    et_table_set_close(set);
}

/* A position is restored within and at the end of so many passes. */
static void test_table_set__resume(void **state)
{
    et_table_set *set = open_csv(*state);
    const et_read_options options = { .batch = 2, .epochs = 3, .shuffle = true };
    et_source *whole = NULL, *resumed = NULL;
    et_batch *left, *right;
    assert_ok(et_table_columns_read(&whole, et_table_set_at(set, 0), &options, error));
    assert_ok(et_table_columns_read(&resumed, et_table_set_at(set, 0), &options, error));
    assert_ok(et_batch_new(&left, &whole->layout, error));
    assert_ok(et_batch_new(&right, &whole->layout, error));
    for (int i = 0; i < 9; i++) {
        et_position position;
        et_source_position(whole, &position);
        assert_ok(et_source_next(whole, left, error));
        assert_ok(et_source_seek(resumed, &position, error));
        assert_ok(et_source_next(resumed, right, error));
        assert_int_equal(left->filled[0], i < 6 ? (i % 2 ? 1 : 2) : 0);
        assert_int_equal(left->filled[0], right->filled[0]);
        assert_memory_equal(left->data[0], right->data[0], 16);
    }
    et_batch_free(left);
    et_batch_free(right);
    et_source_close(whole);
    et_source_close(resumed);
    et_table_set_close(set);
}

/* Objects in place of files, other delimiters, comments, missing texts, patterns. */
static void test_table_set__format(void **state)
{
    fixture *f = *state;
    static const char *const none[] = { "n/a", "-", NULL };
    const et_csv_format format = {
        .delimiter = ';', .comment = '#', .missing = none, .header = true
    };
    three t;
    et_table_set *set = NULL;
    et_table_columns *source = NULL;
    write_text(f, "p1.csv", "species;width;count\n# no\nsetosa;n/a;4\n");
    write_gzip(f, "p2.csv", "width;species;count\n0.25;virginica;-\n");
    char pattern[100];
    snprintf(pattern, sizeof pattern, "%s/p?.csv", f->directory);
    assert_ok(three_parse(&t, schema, metadata, features, error));
    assert_ok(et_csv_columns_open(&source, pattern, &format, error));
    const et_table_set_member part = { "train", source };
    assert_null(et_table_columns_name(source));
    const et_table_set_options options = { .schema = t.schema,
                                           .metadata = t.metadata,
                                           .features = t.features };
    assert_ok(et_table_set_open(&set, &part, 1, &options, error));
    three_free(&t);
    const et_read_options once = { .epochs = 1 };
    assert_string_equal(read_source(f, source, &once), "0,4:0 0.25,0:1;");
    et_table_set_close(set);
}

/* Without features each field is one. */
static void test_table_set__no_features(void **state)
{
    fixture *f = *state;
    et_table_set_options options = write_three(f);
    options.features_path = NULL;
    const et_table_set_path path = { "a", write_text(f, "n.csv", "virginica,0.5,1\n") };
    et_table_set *set = NULL;
    et_samples *samples = NULL;
    assert_ok(et_csv_table_set_open(&set, &path, 1, NULL, &options, error));
    const et_layout *layout = et_encoder_layout(et_table_set_encoder(set));
    assert_int_equal(layout->fields, 4);
    assert_true(layout->field[0].dtype == ET_I32 && layout->field[1].dtype == ET_F32);
    assert_string_equal(layout->field[2].name, "count");
    assert_ok(et_table_columns_samples(&samples, et_table_set_at(set, 0), NULL, error));
    et_samples_close(samples);
    /* TensorFX's rule: one column too few is the first. */
    const et_bytes instance = { "0.5,1", 5 };
    assert_ok(et_table_set_parse_instances(&samples, set, &instance, 1, true, error));
    et_layout one = samples->layout;
    et_batch *batch;
    one.capacity[0] = 1;
    assert_ok(et_batch_new(&batch, &one, error));
    assert_ok(samples->class->fill(samples, (et_pick){ &(uint32_t){ 0 }, 1, 0 }, batch, error));
    assert_int_equal(*(int32_t *)batch->data[0], 3); /* missing */
    assert_true(*(float *)batch->data[1] == 0.5f && *(float *)batch->data[2] == 1);
    et_batch_free(batch);
    et_samples_close(samples);
    et_table_set_close(set);
}

/* Fields of variable length: counted if there are entries to count, and otherwise without a
 * feature. */
static void test_table_set__no_features_of_lists(void **state)
{
    fixture *f = *state;
    et_table_set_options options = {
        .schema_path = write_text(f, "lists.yaml",
                                  "fields:\n- {name: ids, type: integer, length: 0}\n"
                                  "- {name: tags, type: discrete, length: 0}\n"
                                  "- {name: words, type: discrete, length: 0}\n"
                                  "- {name: width, type: real}\n"),
        .metadata_path = write_text(f, "lists.json", "{\"tags\": {\"entries\": [\"a\", \"b\"]}}")
    };
    const et_table_set_path path = { "train", fixture_path(f, "lists") };
    static const et_bytes tags[] = { { "b", 1 }, { "b", 1 }, { "?", 1 } };
    et_example_builder *b;
    et_table_set *set = NULL;
    et_samples *samples = NULL;
    et_batch *batch;
    assert_ok(et_example_builder_new(&b, NULL, error));
    et_example_add_floats(et_example_add_bytes(b, "tags", tags, 3), "width", &(float){ 2 }, 1);
    assert_ok(et_records_write(path.path, NULL, &b, 1, error));
    et_example_builder_free(b);
    assert_ok(et_examples_table_set_open(&set, &path, 1, &options, error));
    assert_ok(et_table_columns_samples(&samples, et_table_set_at(set, 0), NULL, error));
    et_layout layout = samples->layout;
    assert_int_equal(layout.fields, 3);
    assert_string_equal(layout.field[0].name, "tags");
    assert_string_equal(layout.field[1].name, "width");
    layout.capacity[0] = 1;
    assert_ok(et_batch_new(&batch, &layout, error));
    assert_ok(samples->class->fill(samples, (et_pick){ &(uint32_t){ 0 }, 1, 0 }, batch, error));
    assert_memory_equal(batch->data[0], ((const float[]){ 0, 1, 1 }), 3 * sizeof(float));
    et_batch_free(batch);
    et_samples_close(samples);
    et_table_set_close(set);
}

/* ---- tf.Examples ---- */

static et_example_builder *example(et_example_builder *b, const char *species, float width,
                                   int64_t count)
{
    et_example_reset(b);
    et_example_add_floats(et_example_add_ints(b, "count", &count, 1), "width", &width, 1);
    return species ? et_example_add_text(b, "species", species) : b;
}

static void test_table_set__examples(void **state)
{
    fixture *f = *state;
    const char *path = fixture_path(f, "train.gz");
    et_example_builder *b;
    et_record_writer *writer;
    assert_ok(et_example_builder_new(&b, NULL, error));
    assert_ok(et_record_writer_open(&writer, path, "tfrecords_gzip", error));
    assert_ok(et_record_write_example(writer, example(b, "virginica", 0.5f, 7), error));
    assert_ok(et_record_write_example(writer, example(b, "setosa", 1.5f, 8), error));
    assert_ok(et_record_writer_close(writer, error));
    const et_table_set_path paths[] = { { "train", path } };
    const et_table_set_options options = write_three(f);
    et_table_set *set = NULL;
    assert_ok(et_examples_table_set_open(&set, paths, 1, &options, error));
    const et_read_options once = { .epochs = 1 };
    assert_string_equal(read_source(f, et_table_set_at(set, 0), &once), "0.5,7:1 1.5,8:0;");
    /* Instances are serialized examples. */
    const void *bytes;
    size_t length;
    et_samples *samples = NULL;
    assert_ok(et_example_serialized(example(b, NULL, 2.5f, 9), &bytes, &length, error));
    const et_bytes instances[] = { { bytes, length }, { bytes, length } };
    assert_ok(et_table_set_parse_instances(&samples, set, instances, 2, true, error));
    assert_string_equal(read_samples(f, samples), "2.5,9:-1 2.5,9:-1;");
    const et_bytes bad[] = { { bytes, length }, { "\xff", 1 } };
    assert_fails(et_table_set_parse_instances(&samples, set, bad, 2, true, error), ET_EFORMAT,
                 "instance:2: ");
    et_example_builder_free(b);
    et_table_set_close(set);
}

/* ---- frames ---- */

static void test_table_set__frames(void **state)
{
    fixture *f = *state;
    static const char *const species[] = { "virginica", "setosa", NULL, "setosa" };
    static const double width[] = { 0.5, NAN, 2.5, 4.5 };
    static const int32_t count[] = { 4, 2, 3, 1 };
    static const int64_t large[] = { 4, 2, 3, 1 };
    static const float small[] = { 1, 2, 3, NAN };
    const et_frame_column columns[] = { { "species", ET_COLUMN_CATEGORY, species },
                                        { "width", ET_COLUMN_FLOAT64, width },
                                        { "count", ET_COLUMN_INT32, count },
                                        { "large", ET_COLUMN_INT64, large },
                                        { "small", ET_COLUMN_FLOAT32, small } };
    const et_frame_column other[] = { { "small", ET_COLUMN_FLOAT64, width },
                                      { "species", ET_COLUMN_CATEGORY, species },
                                      { "count", ET_COLUMN_INT64, large },
                                      { "width", ET_COLUMN_FLOAT32, small } };
    const et_table_set_frame frames[] = { { "train", { columns, 5, 4 } },
                                          { "eval", { other, 4, 2 } } };
    const et_table_set_options options = { .features_path =
                                               write_text(f, "features.yaml", features) };
    et_table_set *set = NULL;
    assert_ok(et_frame_table_set_open(&set, frames, 2, &options, error));
    static const et_schema_type types[] = { ET_SCHEMA_DISCRETE, ET_SCHEMA_REAL, ET_SCHEMA_INTEGER,
                                            ET_SCHEMA_INTEGER, ET_SCHEMA_REAL };
    for (int i = 0; i < 5; i++) {
        assert_string_equal(et_schema_at(et_table_set_schema(set), i)->name, columns[i].name);
        assert_int_equal(et_schema_at(et_table_set_schema(set), i)->type, types[i]);
    }
    const et_column_metadata *m = et_metadata_find(et_table_set_metadata(set), "species");
    assert_true(m->count == 3 && m->missing == 1 && m->entry_count == 2);
    assert_string_equal(m->entries[0], "setosa"); /* sorted */
    assert_true(m->counts[0] == 2 && m->counts[1] == 1);
    m = et_metadata_find(et_table_set_metadata(set), "width");
    assert_true(m->min == 0.5 && m->max == 4.5 && m->mean == 2.5 && m->missing == 1);
    assert_true(fabs(m->std - sqrt(8.0 / 3)) < 1e-15);
    assert_true(m->quantile_count == 1001 && m->quantiles[250] == 1.5 && m->quantiles[500] == 2.5);
    const et_read_options once = { .epochs = 1 }, keep = { .epochs = 1, .keep_unlabelled = true };
    assert_string_equal(read_source(f, et_table_set_at(set, 0), &keep),
                        "0.5,4:1 0,2:0 2.5,3:-1 4.5,1:0;");
    f->logged = 0;
    assert_string_equal(read_source(f, et_table_set_at(set, 0), &once), "0.5,4:1 0,2:0 4.5,1:0;");
    assert_contains(f->log, "train: 1 rows have no target and are left out (");
    assert_string_equal(read_source(f, et_table_set_at(set, 1), &once), "1,4:1 2,2:0;");
    /* Instances are rows of CSV. */
    const et_bytes instance = { "setosa,7,8,,", 12 };
    et_samples *samples = NULL;
    assert_ok(et_table_set_parse_instances(&samples, set, &instance, 1, false, error));
    assert_string_equal(read_samples(f, samples), "7,8:0;");
    et_table_set_close(set);
}

static void test_table_set__bad_frames(void **state)
{
    fixture *f = *state;
    static const double width[] = { 0.5, INFINITY }, half[] = { 0.5, 1 };
    static const char *const odd[] = { "\xff", "a" };
    static const char *const species[] = { "a", "b" };
    static const struct {
        et_frame_column columns[3];
        int count;
        int64_t rows;
        int status;
        const char *error;
    } cases[] = {
        { { { "a", ET_COLUMN_FLOAT64, width } }, 0, 2, ET_ECONFIG, "a frame of 0 columns and" },
        { { { "a", ET_COLUMN_FLOAT64, width } }, 1, 0, ET_ECONFIG, "and 0 rows" },
        { { { "", ET_COLUMN_FLOAT64, width } }, 1, 2, ET_ECONFIG, "needs a name and data" },
        { { { "a", ET_COLUMN_FLOAT64, NULL } }, 1, 2, ET_ECONFIG, "needs a name and data" },
        { { { "a", (et_column_type)7, width } },
          1,
          2,
          ET_ECONFIG,
          "column a of a frame: the type must be category, int32" },
        { { { "a", ET_COLUMN_FLOAT64, width }, { "a", ET_COLUMN_FLOAT64, width } },
          2,
          2,
          ET_ECONFIG,
          "two columns are called a" },
        { { { "a", ET_COLUMN_FLOAT64, width } },
          1,
          2,
          ET_EDATA,
          "column a, row 2: inf is not finite" },
        { { { "a", ET_COLUMN_CATEGORY, odd } }, 1, 2, ET_ECONFIG, "UTF-8" },
        { { { "species", ET_COLUMN_CATEGORY, species }, { "width", ET_COLUMN_FLOAT64, half } },
          2,
          2,
          ET_ECONFIG,
          "the schema has no field count" },
    };
    const et_table_set_options options = { .features_path =
                                               write_text(f, "features.yaml", features) };
    et_table_set *set = NULL;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const et_table_set_frame frame = { "train",
                                           { cases[i].columns, cases[i].count, cases[i].rows } };
        assert_fails(et_frame_table_set_open(&set, &frame, 1, &options, error), cases[i].status,
                     cases[i].error);
    }
    /* A second frame that is not like the first. */
    static const int32_t counts[] = { 1, 2 };
    const et_frame_column good[] = { { "species", ET_COLUMN_CATEGORY, species },
                                     { "width", ET_COLUMN_FLOAT64, half },
                                     { "count", ET_COLUMN_INT32, counts } };
    const et_frame_column bad[] = { { "species", ET_COLUMN_FLOAT64, half },
                                    { "count", ET_COLUMN_INT32, counts } };
    const et_table_set_frame frames[] = { { "train", { good, 3, 2 } }, { "eval", { bad, 2, 2 } } };
    et_source *source = NULL;
    assert_ok(et_frame_table_set_open(&set, frames, 2, &options, error));
    assert_fails(et_table_columns_read(&source, et_table_set_at(set, 1), NULL, error), ET_EDATA,
                 "source eval: eval does not match the schema, in 2 places: (1) column species has "
                 "numbers, but the field is discrete; (2) there is no column width");
    et_table_set_close(set);
}

/* ---- instances ---- */

static void test_table_set__instances(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *instances[3];
        bool all; /* not for prediction */
        const char *rows;
    } cases[] = {
        { { "setosa,0.5,1", "virginica,1.5,2" }, false, "0.5,1:0 1.5,2:1;" },
        { { "0.5,1", "1.5,2\n" }, false, "0.5,1:-1 1.5,2:-1;" },
        { { "0.5,1", ",2", "?,3" }, false, "0.5,1:-1 0,2:-1 0,3:-1;" },
        { { ",0.5,1" }, false, "0.5,1:-1;" },
        { { "count,width", "1,0.5" }, false, "0.5,1:-1;" },
        { { "count,more,width,species", "1,x,0.5,setosa" }, false, "0.5,1:0;" },
        { { "setosa;0.5;1", "virginica;\"1.5\";2\r\n" }, true, "0.5,1:0 1.5,2:1;" },
    };
    et_table_set *set = open_csv(f);
    for (size_t i = 0; i < COUNT(cases); i++) {
        et_bytes instances[3];
        et_samples *samples = NULL;
        size_t count = 0;
        for (; count < 3 && cases[i].instances[count]; count++)
            instances[count] =
                (et_bytes){ cases[i].instances[count], strlen(cases[i].instances[count]) };
        assert_ok(
            et_table_set_parse_instances(&samples, set, instances, count, !cases[i].all, error));
        assert_string_equal(read_samples(f, samples), cases[i].rows);
    }
    et_table_set_close(set);
}

static void test_table_set__bad_instances(void **state)
{
    static const struct {
        const char *instances[2];
        bool all;
        const char *error;
    } cases[] = {
        { { "0.5" }, false, "instance:1: 1 column, but the schema has 3, or 2 without the target" },
        { { "0.5,1" }, true, "instance:1: 2 columns, but the schema has 3" },
        { { "0.5,1", "0.5" }, false, "instance:2" },
        { { "0.5,1", "0.5,1,2" }, false, "instance:2" },
        { { "0.5,1", "" }, false, "instance:2: the text is empty" },
        { { "0.5,1\n0.5,1" }, false, "instance:1: the text is more than one row" },
        { { "0.5,\"1" }, false, "instance:1" },
        { { "0.5,\xff" }, false, "instance:1" },
        { { "0.5,1", "x,1" }, false, "instance:2: column width: \"x\" is not a number" },
        { { "count,species", "1,setosa" },
          false,
          "instance:1: the header does not match the schema: there is no column width" },
        { { "count,width" }, false, "no rows: give at least one" },
        { { "rosea,0.5,1" }, false, "instance:1: column species: the label \"rosea\"" },
    };
    et_table_set *set = open_csv(*state);
    et_samples *samples = NULL;
    for (size_t i = 0; i < COUNT(cases); i++) {
        et_bytes instances[2];
        size_t count = 0;
        for (; count < 2 && cases[i].instances[count]; count++)
            instances[count] =
                (et_bytes){ cases[i].instances[count], strlen(cases[i].instances[count]) };
        assert_fails(
            et_table_set_parse_instances(&samples, set, instances, count, !cases[i].all, error),
            ET_EDATA, cases[i].error);
    }
    assert_fails(et_table_set_parse_instances(&samples, set, NULL, 0, true, error), ET_EDATA,
                 "no instance");
    const et_bytes nul = { "0.5\0,1", 6 };
    assert_fails(et_table_set_parse_instances(&samples, set, &nul, 1, true, error), ET_EDATA,
                 "instance:1");
    et_table_set_close(set);
}

/* For a model that was trained elsewhere. */
static void test_table_set__bare(void **state)
{
    fixture *f = *state;
    const et_table_set_options options = write_three(f);
    et_table_set *set = NULL;
    et_samples *samples = NULL;
    const et_bytes instance = { "0.5,1", 5 };
    assert_ok(et_table_set_open(&set, NULL, 0, &options, error));
    assert_int_equal(et_table_set_count(set), 0);
    assert_ok(et_table_set_parse_instances(&samples, set, &instance, 1, true, error));
    assert_string_equal(read_samples(f, samples), "0.5,1:-1;");
    et_table_set_close(set);
}

/* ---- a class of a program ---- */

typedef struct lines {
    et_own_columns source;
    const et_bytes *items; /* [count] */
    size_t count;
    int reads, closes;
} lines;

static int lines_read(et_own_columns *source, et_instances *to, et_error *read_error)
{
    lines *self = (lines *)source;
    int status = ET_OK;
    self->reads++;
    for (size_t i = 0; i < self->count && !status; i++)
        status = et_instances_add(to, self->items[i].data, self->items[i].length, read_error);
    return status;
}

static void lines_close(et_own_columns *source)
{
    ((lines *)source)->closes++;
}

static const et_own_columns_class lines_class = { .name = "lines",
                                                  .read_instances = lines_read,
                                                  .close = lines_close };
static const et_own_columns_class unread_class = { .name = "unread" };

#define TEXT(text)                                                                                 \
    {                                                                                              \
        text, sizeof text - 1                                                                      \
    }

static void test_table_set__own_class(void **state)
{
    fixture *f = *state;
    static const et_bytes rows[] = { TEXT("setosa,0.5,1"), TEXT("virginica,1.5,2"),
                                     TEXT("setosa,2.5,3") };
    static const et_bytes named[] = { TEXT("count,width,species"), TEXT("9,3.5,virginica") };
    const et_table_set_options options = write_three(f);
    const et_read_options once = { .epochs = 1 };
    const et_read_options twice = { .batch = 2, .epochs = 2, .threads = 2 };
    lines train = { { &lines_class }, rows, 3, 0, 0 }, eval = { { &lines_class }, named, 2, 0, 0 };
    et_table_columns *sources[3];
    et_table_set *set = NULL;
    assert_ok(et_own_columns_open(&sources[0], &train.source, error));
    assert_ok(et_own_columns_open(&sources[1], &eval.source, error));
    assert_ok(
        et_csv_columns_open(&sources[2], write_text(f, "x.csv", "setosa,4,5\n"), NULL, error));
    const et_table_set_member members[] = { { "train", sources[0] },
                                            { "eval", sources[1] },
                                            { "file", sources[2] } };
    assert_ok(et_table_set_open(&set, members, 3, &options, error));
    assert_int_equal(train.reads, 0);
    assert_string_equal(read_source(f, sources[0], &once), "0.5,1:0 1.5,2:1 2.5,3:0;");
    assert_string_equal(read_source(f, sources[0], &twice),
                        "0.5,1:0 1.5,2:1; 2.5,3:0; 0.5,1:0 1.5,2:1; 2.5,3:0;");
    assert_string_equal(read_source(f, sources[1], &once), "3.5,9:1;");
    assert_string_equal(read_source(f, sources[2], &once), "4,5:0;");
    assert_int_equal(train.reads, 2);
    et_samples *samples = NULL;
    assert_ok(et_table_set_parse_instances(&samples, set, rows, 1, false, error));
    assert_string_equal(read_samples(f, samples), "0.5,1:0;");
    et_table_set_close(set);
    assert_int_equal(train.closes, 1);
    assert_int_equal(eval.closes, 1);
}

static void test_table_set__own_class_of_examples(void **state)
{
    fixture *f = *state;
    static const et_own_columns_class class = { .name = "records",
                                                .examples = true,
                                                .read_instances = lines_read };
    static const float width = 1.5f;
    static const int64_t count = 4;
    const et_table_set_options options = write_three(f);
    const et_read_options once = { .epochs = 1 };
    et_example_builder *b;
    et_table_columns *source;
    et_table_set *set = NULL;
    assert_ok(et_example_builder_new(&b, NULL, error));
    et_example_add_text(b, "species", "virginica");
    et_example_add_floats(b, "width", &width, 1);
    et_example_add_ints(b, "count", &count, 1);
    et_bytes record;
    assert_ok(et_example_serialized(b, &record.data, &record.length, error));
    lines train = { { &class }, &record, 1, 0, 0 };
    assert_ok(et_own_columns_open(&source, &train.source, error));
    assert_ok(
        et_table_set_open(&set, &(et_table_set_member){ "train", source }, 1, &options, error));
    assert_string_equal(read_source(f, source, &once), "1.5,4:1;");
    et_table_set_close(set);
    et_example_builder_free(b);
}

static void test_table_set__own_class_errors(void **state)
{
    static const et_bytes bad[] = { TEXT("setosa,0.5,1"), TEXT("setosa,x,1") }, null = { NULL, 3 };
    const et_table_set_options options = write_three(*state);
    const struct {
        lines lines;
        int status;
        const char *error;
    } cases[] = {
        { { { &unread_class }, NULL, 0, 0, 0 },
          ET_EUSAGE,
          "source train: read_instances must be implemented by the class of the source, unread" },
        { { { &lines_class }, NULL, 0, 0, 0 },
          ET_EDATA,
          "source train: class lines gave no instance" },
        { { { &lines_class }, bad, 2, 0, 0 },
          ET_EDATA,
          "source train: instance:2: column width: \"x\" is not a number" },
        { { { &lines_class }, &null, 1, 0, 0 }, ET_EDATA, "source train: instance 1 is NULL" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        lines own = cases[i].lines;
        et_table_columns *source;
        et_table_set *set = NULL;
        et_source *read = NULL;
        assert_ok(et_own_columns_open(&source, &own.source, error));
        assert_ok(
            et_table_set_open(&set, &(et_table_set_member){ "train", source }, 1, &options, error));
        assert_fails(et_table_columns_read(&read, source, NULL, error), cases[i].status,
                     cases[i].error);
        et_table_set_close(set);
    }
    et_table_columns *none;
    assert_fails(et_own_columns_open(&none, &(et_own_columns){ NULL }, error), ET_ECONFIG,
                 "needs a class with a name");
}

/* ---- errors ---- */

static void test_table_set__errors(void **state)
{
    fixture *f = *state;
    et_table_set *set = NULL;
    et_table_columns *source = NULL;
    et_source *read = NULL;
    const et_table_set_options good = write_three(f);
    const char *path = write_text(f, "train.csv", "setosa,0.5,1\n");
    const et_table_set_path twice[] = { { "train", path }, { "train", path } };
    const et_table_set_path absent[] = { { "train", fixture_path(f, "absent.csv") } };
    const et_table_set_path nameless[] = { { NULL, path } }, pathless[] = { { "a", NULL } };
    assert_fails(et_csv_table_set_open(&set, NULL, 0, NULL, &good, error), ET_ECONFIG,
                 "At least one DataSource must be specified.");
    assert_fails(et_table_set_open(&set, NULL, 1, &good, error), ET_ECONFIG, "no array");
    assert_fails(et_table_set_open(&set, NULL, 0, NULL, error), ET_ECONFIG, "needs a schema");
    assert_fails(et_csv_table_set_open(&set, twice, 2, NULL, &good, error), ET_ECONFIG,
                 "two sources are called train");
    for (int examples = 0; examples < 2; examples++) { /* files are opened when they are read */
        assert_ok(examples ? et_examples_table_set_open(&set, absent, 1, &good, error)
                           : et_csv_table_set_open(&set, absent, 1, NULL, &good, error));
        assert_fails(et_table_columns_read(&read, et_table_set_at(set, 0), NULL, error),
                     ET_ENOTFOUND, examples ? "absent" : "source train: cannot open");
        et_table_set_close(set);
    }
    assert_fails(et_csv_table_set_open(&set, nameless, 1, NULL, &good, error), ET_ECONFIG,
                 "source 1 of a data set needs a name");
    assert_fails(et_csv_table_set_open(&set, pathless, 1, NULL, &good, error), ET_ECONFIG,
                 "a data source has no path: name at least one file");
    assert_fails(et_csv_table_set_open(&set, twice, 1, NULL, NULL, error), ET_ECONFIG,
                 "needs a schema");
    const et_csv_format both = { .header = true, .no_header = true };
    assert_fails(et_csv_table_set_open(&set, twice, 1, &both, &good, error), ET_ECONFIG,
                 "the format of a data source sets both header and no_header: set only one");
    three t;
    assert_ok(three_parse(&t, schema, metadata, features, error));
    et_table_set_options too_much[] = { good, good, good };
    too_much[0].schema = t.schema;
    too_much[1].metadata = t.metadata;
    too_much[2].features = t.features;
    static const char *const which[] = { "both the schema of a data set and",
                                         "both the metadata of a data set and",
                                         "both the features of a data set and" };
    for (int i = 0; i < 3; i++)
        assert_fails(et_csv_table_set_open(&set, twice, 1, NULL, &too_much[i], error), ET_ECONFIG,
                     which[i]);
    three_free(&t);
    /* A single source, in two sets, with invalid options. */
    assert_ok(et_csv_columns_open(&source, path, NULL, error));
    assert_fails(et_table_columns_read(&read, source, NULL, error), ET_ECONFIG,
                 "a data source cannot be opened alone: add it to a data set, whose features "
                 "describe the rows");
    const et_table_set_member parts[] = { { "a", source }, { "b", source } };
    assert_fails(et_table_set_open(&set, parts, 2, &good, error), ET_ECONFIG,
                 "two sources are called b");
    assert_ok(et_table_set_open(&set, parts, 1, &good, error));
    et_table_set *second = NULL;
    assert_fails(et_table_set_open(&second, parts, 1, &good, error), ET_ECONFIG,
                 "source a already belongs to a data set");
    const et_read_options odd[] = { { .batch = -1 }, { .epochs = -1 }, { .threads = -1 } };
    for (size_t i = 0; i < COUNT(odd); i++)
        assert_fails(et_table_columns_read(&read, source, &odd[i], error), ET_ECONFIG,
                     "none may be negative");
    write_text(f, "train.csv", "setosa,0.5,one\n");
    assert_fails(et_table_columns_read(&read, source, NULL, error), ET_EDATA, "source a: ");
    et_table_set_close(set);
}

static int open_own(et_table_set **out, const et_table_set_options *options, et_error *failure)
{
    static const et_bytes rows[] = { TEXT("setosa,0.5,1"), TEXT("virginica,1.5,2") };
    static lines train = { { &lines_class }, rows, 2, 0, 0 };
    et_table_columns *source = NULL;
    int status = et_own_columns_open(&source, &train.source, failure);
    const et_table_set_member member = { "train", source };
    if (status)
        return status;
    status = et_table_set_open(out, &member, 1, options, failure);
    if (status)
        et_table_columns_close(source);
    return status;
}

static void test_table_set__memory(void **state)
{
    fixture *f = *state;
    const et_table_set_options options = write_three(f);
    const et_table_set_path paths[] = {
        { "train", write_text(f, "train.csv", "setosa,0.5,1\nvirginica,1.5,2\n") },
        { "eval", write_text(f, "eval.csv", "setosa,0.5,1\n") },
    };
    static const char *const species[] = { "b", "a" };
    static const float width[] = { 1, 2 };
    const et_frame_column columns[] = { { "species", ET_COLUMN_CATEGORY, species },
                                        { "width", ET_COLUMN_FLOAT32, width },
                                        { "count", ET_COLUMN_FLOAT32, width } };
    const et_table_set_frame frame = { "train", { columns, 3, 2 } };
    const et_table_set_options bare = { .features_path = options.features_path };
    const et_read_options twice = { .epochs = 2 };
    const et_bytes instance = { "0.5,1", 5 };
    for (int way = 0; way < 3; way++) {
        int status = ET_ENOMEM;
        for (long n = 0; status; n++) {
            et_table_set *set = NULL;
            et_source *source = NULL;
            et_samples *samples = NULL;
            et_error error = ET_ERROR_INIT;
            scarce_begin(n);
            if (way == 2)
                status = open_own(&set, &options, &error);
            else
                status = way ? et_frame_table_set_open(&set, &frame, 1, &bare, &error)
                             : et_csv_table_set_open(&set, paths, 2, NULL, &options, &error);
            if (!status)
                status = et_table_columns_read(&source, et_table_set_at(set, 0), &twice, &error);
            if (!status)
                status = et_table_set_parse_instances(&samples, set, &instance, 1, true, &error);
            et_samples_close(samples);
            et_source_close(source);
            et_table_set_close(set);
            scarce_end();
            assert_int_equal(status, scarce_failed ? ET_ENOMEM : ET_OK);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_table_set__csv, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table_set__read, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table_set__resume, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table_set__format, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table_set__no_features, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table_set__no_features_of_lists, fixture_open,
                                        fixture_close),
        cmocka_unit_test_setup_teardown(test_table_set__examples, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table_set__frames, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table_set__bad_frames, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table_set__instances, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table_set__bad_instances, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table_set__bare, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table_set__own_class, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table_set__own_class_of_examples, fixture_open,
                                        fixture_close),
        cmocka_unit_test_setup_teardown(test_table_set__own_class_errors, fixture_open,
                                        fixture_close),
        cmocka_unit_test_setup_teardown(test_table_set__errors, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table_set__memory, fixture_open, fixture_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
