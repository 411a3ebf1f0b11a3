/* The analysis of JSON lines: what that of the same table as CSV gives, and what is no row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/scarce.h"
#include "calls.h"
#include "data/analyze_fixture.h"
#include "data/fixture.h"

static const char *formatted(const et_analysis *analysis, const char *path)
{
    static char text[1 << 16];
    size_t length = 0;
    if (et_metadata_save(analysis->metadata, path, NULL))
        fail_msg("%s: not saved", path);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    return text;
}

/* Numbers, texts, truth values, missing keys, nulls, numbers with a comma; read by any number of
 * threads and from several files. */
static void test_analyze_jsonl__same_as_csv(void **state)
{
    et_strbuf csv = ET_STRBUF_INIT, json[2] = { ET_STRBUF_INIT, ET_STRBUF_INIT };
    et_strbuf_append(&csv, "n;t;price;flag;y\n");
    for (int i = 0; i < 3000; i++) {
        et_strbuf *to = &json[i >= 1000];
        const char *flag = i % 3 ? "true" : "false";
        et_strbuf_printf(&csv, "%d;%s;%d,%d kg;%s;c%d\n", i % 7, i % 5 ? "red" : "", i, i % 10,
                         i % 4 ? flag : "", i % 2);
        et_strbuf_printf(to, "{\"n\": %d%s", i % 7, i % 5 ? ", \"t\": \"red\"" : "");
        et_strbuf_printf(to, i % 5 ? "" : ", \"t\": null");
        if (i % 10 && i % 9 == 0)
            et_strbuf_printf(to, ", \"price\": %d.%d", i, i % 10);
        else
            et_strbuf_printf(to, ", \"price\": \"%d,%d kg\"", i, i % 10);
        if (i % 4)
            et_strbuf_printf(to, ", \"flag\": %s", flag);
        else if (!i)
            et_strbuf_append(to, ", \"flag\": \"\"");
        et_strbuf_printf(to, ", \"y\": \"c%d\"}%s\n", i % 2, i % 6 ? "" : "\r\n  ");
    }
    const char *one = write_text(*state, "a.csv", csv.data);
    const char *two[] = { write_text(*state, "a.jsonl", json[0].data),
                          write_text(*state, "b.ndjson", json[1].data) };
    et_analysis expected, got;
    must_analyze(&expected, one, &(et_analyze_options){ .target = "y" });
    et_error error = ET_ERROR_INIT;
    if (et_analyze(&got, &(et_strings){ two, 2 }, &(et_analyze_options){ .target = "y" }, &error))
        fail_msg("%s", error.text);
    check_schema(&got, "n:integer t:discrete price:real flag:discrete y:discrete");
    assert_int_equal(et_schema_find(got.schema, "price")->notation, ET_NOTATION_COMMA);
    assert_string_equal(et_schema_find(got.schema, "price")->unit, "kg");
    char *text = strdup(formatted(&expected, "a.json"));
    assert_non_null(text);
    assert_string_equal(text, formatted(&got, "b.json"));
    free(text);
    et_analysis_release(&expected);
    et_analysis_release(&got);
    et_strbuf_release(&csv);
    et_strbuf_release(&json[0]);
    et_strbuf_release(&json[1]);
}

/* "NA" is a missing number, and a text among texts; markers are both. */
static void test_analyze_jsonl__missing(void **state)
{
    static const char text[] = "{\"n\": \"NA\", \"t\": \"NA\", \"m\": \"none\"}\n"
                               "{\"n\": 2, \"t\": \"x\", \"m\": 4, \"late\": 1}\n"
                               "{\"n\": \"3\", \"t\": \"NA\", \"m\": -1}\n";
    static const char *const markers[] = { "", "NA", "none", "-1", "never", NULL };
    et_analysis analysis;
    must_analyze(&analysis, write_text(*state, "m.jsonl", text),
                 &(et_analyze_options){ .csv = { .missing = markers } });
    check_schema(&analysis, "n:integer t:discrete m:integer late:integer");
    static const struct {
        const char *name;
        int64_t missing;
    } columns[] = { { "n", 0 }, { "t", 0 }, { "m", 2 }, { "late", 2 } };
    for (size_t i = 1; i < COUNT(columns); i++)
        assert_int_equal(et_metadata_find(analysis.metadata, columns[i].name)->missing,
                         columns[i].missing);
    const et_value *unmatched = et_value_get(analysis.report, "missing_unmatched");
    assert_int_equal(unmatched->count, 1);
    assert_string_equal(unmatched->first->string, "never");
    et_analysis_release(&analysis);
    must_analyze(&analysis, write_text(*state, "n.jsonl", text), NULL);
    assert_int_equal(et_metadata_find(analysis.metadata, "n")->missing, 1);
    assert_int_equal(et_metadata_find(analysis.metadata, "t")->missing, 0);
    et_analysis_release(&analysis);
}

/* A schema may have lists. */
static void test_analyze_jsonl__schema(void **state)
{
    static const et_schema_field fields[] = {
        { .name = "v", .type = ET_SCHEMA_REAL, .length = 2 },
        { .name = "t", .type = ET_SCHEMA_DISCRETE },
    };
    et_schema *schema;
    et_analysis analysis;
    assert_int_equal(et_schema_create(&schema, fields, 2, NULL), ET_OK);
    must_analyze(&analysis,
                 write_text(*state, "v.jsonl",
                            "{\"t\": 7, \"v\": [1, 2.5]}\n{\"v\": [3, null], \"extra\": [1]}\n"),
                 &(et_analyze_options){ .schema = schema });
    const et_column_metadata *v = et_metadata_find(analysis.metadata, "v");
    assert_true(v->count == 3 && v->missing == 1 && v->max == 3);
    assert_int_equal(et_metadata_find(analysis.metadata, "t")->missing, 1);
    et_analysis_release(&analysis);
    et_schema_free(schema);
}

static void test_analyze_jsonl__bad(void **state)
{
    static const struct {
        const char *text, *what;
        char delimiter;
    } bad[] = {
        { "", "bad.jsonl: the file has no rows", 0 },
        { "{}\n", "bad.jsonl: the file has no rows", 0 },
        { "{\"a\": 1}\n{\"a\": {\"b\": 1}}\n",
          "bad.jsonl:2: column a is an object: give one value (write a column for each part, such "
          "as a.b)",
          0 },
        { "{\"a\": 1}\n{\"a\": [1]}\n", "bad.jsonl:2: column a is a list: give one value", 0 },
        { "{\"a\": 1}\n7\n", "bad.jsonl:2: an integer is not a row", 0 },
        { "{\"a\": 1}\n{\"a\": 1\n", "bad.jsonl:2: ", 0 },
        { "{\"a\": 1, \"a\": 2}\n", "duplicate", 0 },
        { "{\"\": 1}\n", "bad.jsonl:1: a key is empty", 0 },
        { "{\"a\": 1}\n{\"b\\tc\": 1}\n", "bad.jsonl:2: byte 2 of the key b", 0 },
        { "{\"a\": \"\xff\"}\n", "bad.jsonl:1: byte 8 of the line is not UTF-8", 0 },
        { "{\"a\": 1}\n", "bad.jsonl: JSON lines have no delimiter", ';' },
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        et_error error = ET_ERROR_INIT;
        et_analysis analysis;
        const et_analyze_options options = { .csv = { .delimiter = bad[i].delimiter } };
        assert_int_not_equal(
            analyze(&analysis, write_text(*state, "bad.jsonl", bad[i].text), &options, &error),
            ET_OK);
        if (!strstr(error.text, bad[i].what))
            fail_msg("%s: not %s", error.text, bad[i].what);
    }
    /* More columns than the first memory for them, and then a wrong one. */
    char line[1024] = "{";
    for (int i = 0; i < 64; i++)
        sprintf(line + strlen(line), "\"c%d\": 1, ", i);
    strcat(line, "\"\": 1}\n");
    et_error error = ET_ERROR_INIT;
    et_analysis analysis;
    assert_int_equal(analyze(&analysis, write_text(*state, "bad.jsonl", line), NULL, &error),
                     ET_EDATA);
    /* One position, one reason. */
    const char *broken = write_text(*state, "broken.jsonl", "{\"a\": 1}\n{\"a\": 1\n");
    char says[4096];
    snprintf(says, sizeof says,
             "%s:2: column 7: not JSON: '}' expected near end of file; write each row as an object "
             "in one line: {\"column\": value}",
             broken);
    assert_int_equal(analyze(&analysis, broken, NULL, &error), ET_EDATA);
    assert_string_equal(error.text, says);
    const char *one_line = write_text(*state, "one_line.jsonl", " {\"a\": x} \n");
    assert_int_equal(analyze(&analysis, one_line, NULL, &error), ET_EDATA);
    assert_null(strstr(error.text, "one line:"));
    const char *both[] = { write_text(*state, "a.csv", "a\n1\n"),
                           write_text(*state, "a.jsonl", "{\"a\": 1}\n") };
    assert_int_equal(et_analyze(&analysis, &(et_strings){ both, 2 }, NULL, &error), ET_EDATA);
    assert_non_null(
        strstr(error.text, "a.csv is not JSON lines, but other files of the table are"));
}

static void test_analyze_jsonl__scarce(void **state)
{
    const char *path = write_text(*state, "scarce.jsonl",
                                  "{\"a\": \"1,5\", \"b\": true}\n{\"a\": 2, \"c\": \"x\"}\n");
    for (long n = 0;; n++) {
        et_analysis analysis;
        scarce_begin(n);
        int status = analyze(&analysis, path, &(et_analyze_options){ .threads = 1 }, NULL);
        if (!status)
            et_analysis_release(&analysis);
        bool failed = scarce_failed;
        scarce_end();
        assert_int_equal(status, failed ? ET_ENOMEM : ET_OK);
        if (!failed)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_analyze_jsonl__same_as_csv),
        cmocka_unit_test(test_analyze_jsonl__missing),
        cmocka_unit_test(test_analyze_jsonl__schema),
        cmocka_unit_test(test_analyze_jsonl__bad),
        cmocka_unit_test(test_analyze_jsonl__scarce),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
