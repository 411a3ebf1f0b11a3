#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "base/scarce.h"
#include "calls.h"
#include "data/fixture.h"
#include "data/table.h"
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
    assert_contains(f->log, "t.csv: 2 rows have no target and are left out");
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

/* From any position on, also in the middle of a pass, batches are the same bits. */
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
        assert_ok(open_table(&samples[i], paths, 2, (et_table_options){ .csv = { 0 } }, error));
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

static void test_table__memory(void **state)
{
    const char *paths[] = { write_many(*state, "m0.csv", 0, 5),
                            write_many(*state, "m1.csv", 5, 5) };
    et_encoder *encoder = open_encoder();
    const et_table_options options = { .paths = { paths, 2 } };
    int status = ET_ENOMEM;
    for (long n = 0; status; n++) {
        et_samples *samples = NULL;
        et_error error = ET_ERROR_INIT;
        scarce_begin(n);
        status = et_table_open(&samples, encoder, &options, &error);
        et_samples_close(samples);
        scarce_end();
        assert_int_equal(status, scarce_failed ? ET_ENOMEM : ET_OK);
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
        cmocka_unit_test_setup_teardown(test_table__memory, fixture_open, fixture_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
