#include "data/table/rows/rows.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/main.h"
#include "base/scarce.h"
#include "base/values/json.h"
#include "calls.h"
#include "data/table/rows/csv.h"
#include "data/table_fixture.h"

static const char schema[] = "fields:\n"
                             "  - {name: size, type: real}\n"
                             "  - {name: town, type: discrete}\n"
                             "  - {name: pair, type: integer, length: 2}\n";
static const char metadata[] = "{\"town\": {\"entries\": [\"True\", \"ulm\"]},"
                               " \"pair\": {\"min\": 0, \"max\": 9, \"mean\": 4, \"std\": 1},"
                               " \"size\": {\"min\": 0, \"max\": 9, \"mean\": 4, \"std\": 1}}";
static const char features[] = "features:\n"
                               "  - {name: s, type: identity, fields: size}\n"
                               "  - {name: t, type: one-hot, fields: town}\n"
                               "  - {name: p, type: identity, fields: pair}\n";

static const char *const name = "rows";

static et_rows *open_pipe(int ends[2], const et_encoder *encoder)
{
    et_rows *rows;
    assert_int_equal(pipe(ends), 0);
    assert_ok(et_rows_open_jsonl(&rows, encoder ? et_encoder_row_layout(encoder) : NULL,
                                 &(et_strings){ &name, 1 }, ends[0], error));
    return rows;
}

static void put(int fd, const char *text)
{
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void assert_row(et_rows *rows, int64_t number, const char *json)
{
    et_row row;
    assert_ok(et_rows_next(rows, &row, error));
    assert_false(row.end);
    assert_int_equal(row.number, number);
    assert_int_equal(row.json.length, strlen(json));
    assert_memory_equal(row.json.data, json, strlen(json));
}

static void assert_refused(et_rows *rows, int64_t number, const char *words)
{
    et_row row;
    assert_fails(et_rows_next(rows, &row, error), ET_EDATA, words);
    assert_int_equal(row.number, number);
}

static void assert_end(et_rows *rows)
{
    et_row row;
    for (int i = 0; i < 2; i++) {
        assert_ok(et_rows_next(rows, &row, error));
        assert_true(row.end);
    }
}

/* A byte order mark and blank lines are no rows; a line that cannot be is skipped. */
static void test_rows_jsonl__lines(void **state)
{
    (void)state;
    int ends[2];
    et_rows *rows = open_pipe(ends, NULL);
    put(ends[1], "\xef\xbb\xbf{}\n\n \t\r\n{\"a\": 1}\r\nx\xff\n{\"b\": 2}");
    close(ends[1]);
    assert_row(rows, 1, "{}");
    assert_row(rows, 4, "{\"a\": 1}\r");
    assert_refused(rows, 5, "rows:5: byte 2 of the line is not UTF-8");
    assert_row(rows, 6, "{\"b\": 2}");
    assert_end(rows);
    et_rows_close(rows);
    assert_true(fcntl(ends[0], F_GETFD) >= 0); /* stays the caller's */
    close(ends[0]);
}

/* Half a line has to be waited for, the end not. */
static void test_rows_jsonl__waits(void **state)
{
    (void)state;
    int ends[2];
    et_rows *rows = open_pipe(ends, NULL);
    assert_true(et_rows_wait(rows));
    put(ends[1], "{}\n{\"a\"");
    assert_false(et_rows_wait(rows));
    assert_row(rows, 1, "{}");
    assert_true(et_rows_wait(rows));
    put(ends[1], ": 1}\n");
    assert_false(et_rows_wait(rows));
    assert_row(rows, 2, "{\"a\": 1}");
    assert_true(et_rows_wait(rows));
    close(ends[1]);
    assert_false(et_rows_wait(rows));
    assert_end(rows);
    et_rows_close(rows);
    close(ends[0]);
}

/* Of a file, which is never waited for; the longest line, and one byte more. */
static void test_rows_jsonl__long_lines(void **state)
{
    (void)state;
    static const char *const path = "long.jsonl";
    char *line = malloc(ET_CSV_ROW_MAX + 2);
    et_rows *rows;
    et_row row;
    assert_non_null(line);
    memset(line, 'x', ET_CSV_ROW_MAX + 1);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fwrite(line, 1, ET_CSV_ROW_MAX, file);
    fputc('\n', file);
    fwrite(line, 1, ET_CSV_ROW_MAX + 1, file);
    fputs("yz\n{}\n", file);
    fwrite(line, 1, ET_CSV_ROW_MAX + 1, file);
    assert_int_equal(fclose(file), 0);
    free(line);
    assert_ok(et_rows_open_jsonl(&rows, NULL, &(et_strings){ &path, 1 }, -1, error));
    assert_false(et_rows_wait(rows));
    assert_ok(et_rows_next(rows, &row, error));
    assert_int_equal(row.json.length, ET_CSV_ROW_MAX);
    assert_refused(rows, 2, "long.jsonl:2: a line of more than");
    assert_row(rows, 3, "{}");
    assert_refused(rows, 4, "long.jsonl:4: a line of more than");
    assert_end(rows);
    et_rows_close(rows);
    static const char *const none = "there-is-none.jsonl";
    assert_fails(et_rows_open_jsonl(&rows, NULL, &(et_strings){ &none, 1 }, -1, error),
                 ET_ENOTFOUND, "there-is-none.jsonl");
}

static int parse(et_cell *cells, const et_json_columns *columns, const char *json, et_arena *arena,
                 et_error *error)
{
    return et_row_parse(cells, columns, &(et_bytes){ json, strlen(json) }, arena, NULL, error);
}

static void test_rows_jsonl__cells(void **state)
{
    (void)state;
    static const char *const missing[] = { "-1", NULL };
    three t;
    et_encoder *encoder;
    et_cell cells[4];
    et_arena arena = ET_ARENA_INIT;
    assert_ok(three_parse(&t, schema, metadata, features, error));
    assert_ok(et_encoder_new(&encoder, t.schema, t.metadata, t.features, error));
    assert_int_equal(et_encoder_cells(encoder), 4);
    const et_json_columns columns = { et_encoder_row_layout(encoder), t.metadata, missing };
    assert_ok(parse(cells, &columns, "{\"town\": true, \"pair\": [1e0, -1], \"size\": 0.50}",
                    &arena, error));
    assert_int_equal(cells[0].length, 4);
    assert_memory_equal(cells[0].text, "0.50", 4);
    assert_memory_equal(cells[1].text, "True", 4);
    assert_memory_equal(cells[2].text, "1e0", 3);
    assert_null(cells[3].text);
    assert_ok(parse(cells, &columns, "{\"size\": null}", &arena, error));
    assert_true(!cells[0].text && !cells[1].text && !cells[2].text);
    assert_fails(parse(cells, &columns, "{\"size\": 1", &arena, error), ET_EDATA,
                 "column 10: not JSON: ");
    assert_fails(parse(cells, &columns, "[1]", &arena, error), ET_EDATA, "is not a row");
    assert_fails(parse(cells, &columns, "{\"pair\": [1]}", &arena, error), ET_EDATA,
                 "column pair: give a list of 2 values");
    assert_fails(parse(cells, &columns, "{\"siz\": 1}", &arena, error), ET_EDATA, "Nearest: size");
    et_arena_release(&arena);
    et_encoder_free(encoder);
    three_free(&t);
}

/* Quoted numbers have the column's notation, those without quotes JSON's. */
static void test_rows_jsonl__notation(void **state)
{
    (void)state;
    static const char written[] = "fields: [{name: size, type: real, notation: comma, unit: kg}]\n";
    static const char size[] = "features: [{name: s, type: identity, fields: size}]\n";
    static const struct {
        const char *json;
        float number;
    } rows[] = {
        { "{\"size\": \"1.234\"}", 1234 },
        { "{\"size\": 1.234}", 1.234f },
        { "{\"size\": \"-1.234,5 kg\"}", -1234.5f },
        { "{\"size\": -1.5e-3}", -.0015f },
        { "{\"size\": 1234}", 1234 },
    };
    three t;
    et_encoder *encoder;
    et_cell cell;
    et_arena arena = ET_ARENA_INIT;
    assert_ok(three_parse(&t, written, metadata, size, error));
    assert_ok(et_encoder_new(&encoder, t.schema, t.metadata, t.features, error));
    const et_json_columns columns = { et_encoder_row_layout(encoder), t.metadata, NULL };
    float number = 0;
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_ok(parse(&cell, &columns, rows[i].json, &arena, error));
        assert_ok(et_encoder_row(encoder, &cell, (void *[]){ &number }, NULL, error));
        if (number != rows[i].number)
            fail_msg("%s: %g", rows[i].json, (double)number);
    }
    assert_ok(parse(&cell, &columns, "{\"size\": \"1.5\"}", &arena, error));
    assert_fails(
        et_encoder_row(encoder, &cell, (void *[]){ &number }, "r:3", error), ET_EDATA,
        "r:3: column size: \"1.5\" is not a number as the schema has it, like 1.234,50 kg: "
        "correct it");
    et_arena_release(&arena);
    et_encoder_free(encoder);
    three_free(&t);
}

static void test_rows_jsonl__out_of_memory(void **state)
{
    (void)state;
    for (long calls = 0; !calls || scarce_failed; calls++) {
        int ends[2], status;
        et_rows *rows;
        et_row row = { .end = true };
        assert_int_equal(pipe(ends), 0);
        put(ends[1], "{}\n");
        close(ends[1]);
        scarce_begin(calls);
        status = et_rows_open_jsonl(&rows, NULL, &(et_strings){ &name, 1 }, ends[0], NULL);
        if (!status) {
            et_rows_wait(rows);
            status = et_rows_next(rows, &row, NULL);
            et_rows_close(rows);
        }
        scarce_end();
        assert_int_equal(status, row.end && scarce_failed ? ET_ENOMEM : ET_OK);
        close(ends[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_jsonl__lines),
        cmocka_unit_test(test_rows_jsonl__waits),
        cmocka_unit_test(test_rows_jsonl__long_lines),
        cmocka_unit_test(test_rows_jsonl__cells),
        cmocka_unit_test(test_rows_jsonl__notation),
        cmocka_unit_test(test_rows_jsonl__out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
