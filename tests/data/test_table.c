/* Rows of files, in memory or in a file: the same either way; and faults in files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/scarce.h"
#include "data/table_rows.h"

/* Headers in any order with additional columns, no header, other delimiters, comments: the same
 * rows, and the same fingerprint. */
static void test_table__same_rows(void **state)
{
    static const struct {
        const char *text;
        et_table_samples_options options;
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

/* Files have columns in different orders; samples know their file and line. */
static void test_table__files(void **state)
{
    fixture *f = *state;
    const char *paths[] = {
        write_text(f, "a.csv", "age,job,income\n1,a,low\n2,\"a\n\",low\n3,b,high\n"),
        write_text(f, "b.csv", "income,age,job\nhigh,4,b\n"),
        write_gzip(f, "c.csv.gz", "# none\n5,a,low,n\n6,a,high,n\n"),
    };
    et_samples *samples = NULL, *one = NULL;
    assert_ok(open_table(&samples, paths, 3,
                         (et_table_samples_options){ .csv = { .comment = '#' } }, error));
    uint64_t print = samples->fingerprint;
    assert_string_equal(read_all(f, samples, true),
                        "1/0/0@a.csv:2 2/2/0@a.csv:3 3/1/1@a.csv:5 4/1/1@b.csv:2 5/0/0@c.csv.gz:2 "
                        "6/0/1@c.csv.gz:3");
    assert_ok(open_text(&one, f,
                        "age,job,income\n1,a,low\n2,\"a\n\",low\n3,b,high\n4,b,high\n5,a,low\n"
                        "6,a,high\n",
                        (et_table_samples_options){ .csv = { 0 } }, error));
    assert_true(one->fingerprint == print);
    et_samples_close(one);
}

/* Files after the first have its columns, found by name if they have names. Each has its own
 * delimiter, which is not that of a text in it. */
static void test_table__files_of_one_header(void **state)
{
    fixture *f = *state;
    const char *first = write_text(f, "a.csv", "income,age,more,job\nlow,1,x,a\nhigh,2,x,b\n");
    static const char *const others[] = {
        "\xef\xbb\xbf\"more\",job,income,age\nx,a,low,5\n",
        "more;job;income;age\nx;a;low;5\n",
        "more,job,income,age\n\"x;y;z\",a,low,5\n",
        "more,job,income,age\nx;y;z;v;w,a,low,5\n",
    };
    static const struct {
        const char *text, *message;
    } bad[] = {
        { "more,job,income\nx,a,low\n", "a.csv; this file lacks age: " },
        { "more,job,income,age,note\nx,a,low,5,n\n", "a.csv; this file also has note: " },
        { "more,job,income,Age\nx,a,low,5\n",
          "a.csv; this file lacks age; this file also has Age:" },
        { "more,job,income,age,age\nx,a,low,5,5\n", ": columns 4 and 5 are both called \"age\"" },
        { "low,5,x,a,b\n", "other.csv:1: 5 columns, but the schema has" },
        { "5,a,low,x\n", "other.csv:1: the file has no header, and" },
    };
    const char *ordered = write_text(f, "b.csv", "age,job,income,note\n5,a,low,x\n");
    et_samples *samples = NULL;
    for (size_t i = 0; i < COUNT(others); i++) {
        const char *paths[] = { first, write_text(f, "other.csv", others[i]) };
        assert_ok(
            open_table(&samples, paths, 2, (et_table_samples_options){ .csv = { 0 } }, error));
        assert_true(
            strstr(read_all(f, samples, true), "1/0/0@a.csv:2 2/1/1@a.csv:3 5/0/0@other.csv:"));
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        const char *paths[] = { first, write_text(f, "other.csv", bad[i].text) };
        assert_fails(
            open_table(&samples, paths, 2, (et_table_samples_options){ .csv = { 0 } }, error),
            ET_EDATA, bad[i].message);
    }
    /* Without a header a row has the schema's order, and the first file's delimiter. */
    static const char *const headless[] = { "6,b,high,x\n", "6;b;high;x\n",
                                            "6,b,high,x;y;z;v;w\n" };
    for (size_t i = 0; i < COUNT(headless); i++) {
        const char *paths[] = { ordered, write_text(f, "other.csv", headless[i]) };
        assert_ok(
            open_table(&samples, paths, 2, (et_table_samples_options){ .csv = { 0 } }, error));
        assert_string_equal(read_all(f, samples, true), "5/0/0@b.csv:2 6/1/1@other.csv:1");
    }
}

/* Rows without a target are filtered, with a message, or kept. */
static void test_table__unlabelled(void **state)
{
    fixture *f = *state;
    static const char *const text = "age,job,income\n1,a,low\n2,b,?\n3,b,high\n4,a,\n";
    et_samples *samples = NULL;
    f->logged = 0;
    assert_ok(open_text(&samples, f, text, (et_table_samples_options){ .csv = { 0 } }, error));
    assert_int_equal(f->logged, 1);
    assert_contains(f->log, "t.csv: 2 rows have no target and are left out (");
    assert_string_equal(read_all(f, samples, true), "1/0/0@t.csv:2 3/1/1@t.csv:4");
    assert_ok(
        open_text(&samples, f, text, (et_table_samples_options){ .keep_unlabelled = true }, error));
    assert_int_equal(f->logged, 1);
    assert_string_equal(read_all(f, samples, false), "1/0/0 2/1/-1 3/1/1 4/0/-1");
    /* The column itself may be absent then, with a header or without. */
    assert_ok(open_text(&samples, f, "age,job\n1,a\n",
                        (et_table_samples_options){ .keep_unlabelled = true }, error));
    assert_string_equal(read_all(f, samples, false), "1/0/-1");
    assert_ok(open_text(&samples, f, "1,a,n\n",
                        (et_table_samples_options){ .keep_unlabelled = true }, error));
    assert_string_equal(read_all(f, samples, false), "1/0/-1");
    assert_fails(open_text(&samples, f, "age,job,income\n1,a,?\n",
                           (et_table_samples_options){ .csv = { 0 } }, error),
                 ET_EDATA, "no row has a target");
}

static void test_table__errors(void **state)
{
    static const struct {
        const char *text, *error;
        et_table_samples_options options;
    } cases[] = {
        { "", "t.csv: no rows: give at least one", { .csv = { 0 } } },
        { "\n\n", "no rows: give at least one", { .csv = { 0 } } },
        { "age,job,income\n", "no rows: give at least one", { .csv = { 0 } } },
        { "age,job,income\n1,a\n", "t.csv:2", { .csv = { 0 } } },
        { "age,job,income\n1,a,low\nx,a,low\n",
          "t.csv:3: column age: \"x\" is not a number, but the schema says integer",
          { .csv = { 0 } } },
        { "age,job,income\n1,a,low\n1e999,a,low\n",
          "t.csv:3: column age: \"1e999\" is too large for a double: correct it",
          { .csv = { 0 } } },
        { "age,job,income\n1,a,middle\n",
          "t.csv:2: column income: the label \"middle\" is not one",
          { .csv = { 0 } } },
        { "age,note\n1,a\n",
          "t.csv:1: the header does not match the schema, in 2 places: (1) there is no column job: "
          "add it; (2) there is no column income: add it",
          { .csv = { 0 } } },
        { "age,job,income,age\n1,a,low,2\n",
          "t.csv:1: the header does not match the schema: the name age is used twice, for columns "
          "1 and 4: rename one",
          { .csv = { 0 } } },
        { "1,a,low\n", "t.csv:1: 3 columns, but the schema has 4", { .csv = { 0 } } },
        { "1,a,low,n,more\n", "t.csv:1: 5 columns, but the schema has 4", { .csv = { 0 } } },
        { "years,work,pay\n1,a,low\n",
          "t.csv:1: the first row (years, work, pay) has none of the columns that the model reads "
          "(age, job)",
          { .csv = { 0 } } },
        { "AGE,job,income,note\n1,a,low,n\n",
          "t.csv:1: the header does not match the schema: there is no column age, but AGE: spell "
          "the name as in the schema",
          { .csv = { 0 } } },
        { "1,a\n",
          "columns, but the schema has 4, or 3 without the target",
          { .keep_unlabelled = true } },
        { "1,a,low,n\n", "there is no column age", { .header = ET_HEADER_THERE } },
        { "age,job,income,note\n1,a,low,n\n",
          "t.csv:1: column age: \"age\" is not a number",
          { .header = ET_HEADER_ABSENT } },
        { "age,job,income\n1,\"a,low\n2,b,low\n", "t.csv:2", { .csv = { 0 } } },
        { "age,job,income\n1,\xff,low\n", "t.csv:2", { .csv = { 0 } } },
    };
    et_samples *samples = NULL;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_fails(open_text(&samples, *state, cases[i].text, cases[i].options, error), ET_EDATA,
                     cases[i].error);
    const char *absent = fixture_path(*state, "absent.csv");
    assert_fails(
        open_table(&samples, &absent, 1, (et_table_samples_options){ .csv = { 0 } }, error),
        ET_ENOTFOUND, "absent.csv");
    assert_fails(open_table(&samples, NULL, 0, (et_table_samples_options){ .csv = { 0 } }, error),
                 ET_ECONFIG, "no data");
}

/* From any position on, also in the middle of a pass, batches have the same bits; also if a run
 * that began in memory resumes from a file. */
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
        const et_table_samples_options where = { .cache = fixture_path(*state, "rows"),
                                                 .memory = i };
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
            int status =
                open_table(&samples, &path, 1, (et_table_samples_options){ .csv = { 0 } }, &error);
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
    const et_table_samples_options ways[] = {
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
            status = et_table_samples_open(&samples, encoder, &ways[i], &error);
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
        cmocka_unit_test_setup_teardown(test_table__files_of_one_header, fixture_open,
                                        fixture_close),
        cmocka_unit_test_setup_teardown(test_table__unlabelled, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table__errors, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table__resume, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table__mutated, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table__memory, fixture_open, fixture_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
