/* A table of some size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "base/values/json.h"
#include "calls.h"
#include "data/analyze_fixture.h"
#include "data/fixture.h"

enum { ROWS = 120000 };

static double value_of(int row)
{
    unsigned x = (unsigned)row * 2654435761u;
    return floor((double)(x >> 4) / 16777216.0 * 1e6) / 1e6 * (row % 3 ? 1 : -100);
}

/* Columns: numbers; numbers with missing values; integers; words; texts that nearly all differ;
 * numbers that later become texts. */
static const char *write_large(fixture *f, const char *name, const char *bad, int bad_row)
{
    et_strbuf text = ET_STRBUF_INIT;
    et_strbuf_append(&text, "x,half,few,word,many,late\r\n");
    for (int i = 0; i < ROWS; i++) {
        if (bad && i == bad_row)
            et_strbuf_append(&text, bad);
        char half[16] = "NA";
        if (i % 2)
            snprintf(half, sizeof half, "%d", i / 2);
        et_strbuf_printf(&text, "%.6f,%s,%d,%s,%s%d%s,", value_of(i), half, i % 17,
                         i % 5   ? "oft"
                         : i % 7 ? "\"se\"\"ld\"\"om\""
                                 : "rar",
                         i % 4 ? "" : "\"\n", i / 2, i % 4 ? "" : "\"");
        et_strbuf_printf(&text, i < 100000 ? "%d\r\n" : "t%d\r\n", i);
    }
    const char *path = write_text(f, name, text.data);
    et_strbuf_release(&text);
    return path;
}

static int compare(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Compares with a second way: all values in memory, sums in long double. */
static void check_numbers(const et_column_metadata *m, double *values, int count)
{
    long double sum = 0, squares = 0;
    for (int i = 0; i < count; i++)
        sum += values[i];
    for (int i = 0; i < count; i++)
        squares += (values[i] - sum / count) * (values[i] - sum / count);
    qsort(values, (size_t)count, sizeof *values, compare);
    assert_int_equal(m->count, count);
    assert_true(m->min == values[0] && m->max == values[count - 1]);
    assert_true(fabs(m->mean - (double)(sum / count)) < 1e-12 * fabs(values[count - 1]));
    assert_true(fabs(m->std / (double)sqrtl(squares / count) - 1) < 1e-12);
    assert_int_equal(m->quantile_count, 257);
    for (int q = 0; q < 257; q++) {
        int low = (int)((q / 256.0 - 0.005) * count), high = (int)((q / 256.0 + 0.005) * count);
        assert_true(m->quantiles[q] >= values[low < 0 ? 0 : low]);
        assert_true(m->quantiles[q] <= values[high >= count ? count - 1 : high]);
    }
}

static void test_analyze_large__large(void **state)
{
    et_analysis analysis;
    double *values = malloc(ROWS * sizeof *values);
    must_analyze(&analysis, write_large(*state, "large.csv", NULL, 0), NULL);
    check_schema(&analysis,
                 "x:real half:integer few:integer word:discrete many:discrete late:discrete");
    for (int i = 0; i < ROWS; i++)
        values[i] = value_of(i);
    check_numbers(et_metadata_find(analysis.metadata, "x"), values, ROWS);
    for (int i = 0; i < ROWS / 2; i++)
        values[i] = i;
    const et_column_metadata *half = et_metadata_find(analysis.metadata, "half");
    check_numbers(half, values, ROWS / 2);
    assert_int_equal(half->missing, ROWS / 2);
    assert_true(fabs((double)half->distinct / (ROWS / 2) - 1) < 0.05);
    const et_column_metadata *few = et_metadata_find(analysis.metadata, "few");
    assert_true(few->min == 0 && few->max == 16 && few->distinct == 17);
    assert_true(few->quantiles[128] == 8);
    const et_column_metadata *word = et_metadata_find(analysis.metadata, "word");
    assert_int_equal(word->entry_count, 3);
    assert_string_equal(word->entries[0], "oft");
    assert_string_equal(word->entries[1], "se\"ld\"om");
    assert_int_equal(word->counts[0], ROWS / 5 * 4);
    assert_int_equal(word->counts[0] + word->counts[1] + word->counts[2], ROWS);
    free(values);
    et_analysis_release(&analysis);
}

static char *report_text(const et_analysis *analysis, const char *path)
{
    et_strbuf text = ET_STRBUF_INIT;
    char *metadata;
    size_t length;
    et_json_print(&text, analysis->report, 1);
    assert_int_equal(et_metadata_save(analysis->metadata, path, NULL), ET_OK);
    assert_int_equal(et_file_read(&metadata, &length, path, (size_t)1 << 30, NULL), ET_OK);
    et_strbuf_append(&text, metadata);
    et_free(metadata);
    return et_strbuf_detach(&text);
}

/* Bit for bit; and of a bad row the same message. */
static void test_analyze_large__threads(void **state)
{
    static const int threads[] = { 1, 2, 3, 7 };
    const char *path = write_large(*state, "large.csv", NULL, 0);
    const char *saved = fixture_path(*state, "metadata.json");
    char *first = NULL, *messages[3] = { 0 };
    for (size_t i = 0; i < COUNT(threads); i++) {
        et_analysis analysis;
        must_analyze(&analysis, path,
                     &(et_analyze_options){ .threads = threads[i], .entries = 5000 });
        char *text = report_text(&analysis, saved);
        et_analysis_release(&analysis);
        if (first)
            assert_string_equal(text, first);
        else
            first = text;
        if (first != text)
            et_free(text);
    }
    et_free(first);
    static const char *const bad[] = { "1,2,3\r\n", "1,2,3,4,5,\"6\"7\r\n", "1,2,3,4,5,\xe4\r\n" };
    for (size_t k = 0; k < COUNT(bad); k++) {
        path = write_large(*state, "bad.csv", bad[k], ROWS / 3);
        for (size_t i = 0; i < COUNT(threads); i++) {
            et_analysis analysis;
            et_error error = ET_ERROR_INIT;
            assert_int_equal(
                analyze(&analysis, path, &(et_analyze_options){ .threads = threads[i] }, &error),
                ET_EDATA);
            if (!messages[k])
                messages[k] = et_strdup(error.text);
            assert_string_equal(error.text, messages[k]);
        }
        /* a header, the rows before, and a line more for each fourth of them */
        char line[32];
        snprintf(line, sizeof line, "bad.csv:%d: ", 2 + ROWS / 3 + ROWS / 12);
        assert_contains(messages[k], line);
        et_free(messages[k]);
    }
}

/* If there are more distinct texts than are kept, the frequent ones are found, and their counts are
 * too low by at most the reported error. */
static void test_analyze_large__cut(void **state)
{
    et_strbuf text = ET_STRBUF_INIT, suspicious = ET_STRBUF_INIT;
    et_strbuf_append(&text, "t,u\n");
    for (int i = 0; i < 30000; i++)
        if (i % 2)
            et_strbuf_printf(&text, "common %d,1\n", i % 10);
        else
            et_strbuf_printf(&text, "rare %d,2\n", i);
    et_analysis analysis;
    must_analyze(&analysis, write_text(*state, "cut.csv", text.data),
                 &(et_analyze_options){ .entries = 300 });
    append_suspicious(&suspicious, &analysis);
    assert_string_equal(et_strbuf_text(&suspicious), "t:cut");
    const et_column_metadata *t = et_metadata_find(analysis.metadata, "t");
    assert_true(t->cut && t->entry_count >= 5 && t->entry_count < 300);
    assert_true(fabs((double)t->distinct / 15005 - 1) < 0.05);
    for (int i = 0; i < 5; i++) {
        assert_true(!strncmp(t->entries[i], "common ", 7));
        assert_true(t->counts[i] <= 3000 && t->counts[i] > 2700);
    }
    et_analysis_release(&analysis);
    et_strbuf_release(&text);
    et_strbuf_release(&suspicious);
}

/* It is written to while it is read. */
static void grow(void *payload, uint64_t done, uint64_t all)
{
    const char *path = payload;
    FILE *file = fopen(path, "a");
    assert_true(done > 0 && done <= all);
    usleep(20000); /* more than a file system's clock ticks */
    assert_true(file && fputs("1,2,3,4,5,6\n", file) >= 0);
    fclose(file);
}

static void test_analyze_large__changes(void **state)
{
    const char *path = write_large(*state, "growing.csv", NULL, 0);
    et_analysis analysis;
    et_error error = ET_ERROR_INIT;
    et_analyze_options options = { .progress = grow, .payload = (void *)(uintptr_t)path };
    assert_int_equal(analyze(&analysis, path, &options, &error), ET_EFORMAT);
    assert_contains(error.text, "growing.csv changed while Etude read it (");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_analyze_large__large),
        cmocka_unit_test(test_analyze_large__threads),
        cmocka_unit_test(test_analyze_large__cut),
        cmocka_unit_test(test_analyze_large__changes),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
