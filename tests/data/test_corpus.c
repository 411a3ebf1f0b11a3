#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <etude/records.h>

#include "data/fixture.h"
#include "data/text/corpus.h"

/* Reads all pairs; writes each as "[source|target]". */
static int read_all(const et_corpus_paths *paths, et_strbuf *out, et_error *error)
{
    et_corpus *corpus;
    et_corpus_pair pair;
    int64_t index = 0;
    int status = et_corpus_open(&corpus, paths, error);
    if (status)
        return status;
    while (!(status = et_corpus_next(corpus, &pair, error)) && pair.source) {
        assert_int_equal(pair.index, index++);
        et_strbuf_append_char(out, '[');
        et_strbuf_append_bytes(out, pair.source, pair.source_length);
        et_strbuf_append_char(out, '|');
        et_strbuf_append_bytes(out, pair.target, pair.target_length);
        et_strbuf_append_char(out, ']');
    }
    et_corpus_close(corpus);
    return status;
}

static void check_pairs(const et_corpus_paths *paths, const char *expected)
{
    et_strbuf pairs = ET_STRBUF_INIT;
    et_error error = ET_ERROR_INIT;
    if (read_all(paths, &pairs, &error))
        fail_msg("%s", error.text);
    assert_string_equal(et_strbuf_text(&pairs), expected);
    et_strbuf_release(&pairs);
}

static void check_error(const et_corpus_paths *paths, int status, const char *expected)
{
    et_strbuf pairs = ET_STRBUF_INIT;
    et_error error = ET_ERROR_INIT;
    assert_int_equal(read_all(paths, &pairs, &error), status);
    assert_contains(error.text, expected);
    et_strbuf_release(&pairs);
}

static void test_corpus__two_lists(void **state)
{
    const char *source[] = { write_text(*state, "a.en", "one\ntwo\n"),
                             write_text(*state, "b.en", "three") };
    const char *target[] = { write_text(*state, "a.de", "eins\r\n"),
                             write_gzip(*state, "b.de.gz", "\ndrei\n") };
    et_corpus_paths paths = { .source = { source, 2 }, .target = { target, 2 } };
    check_pairs(&paths, "[one|eins][two|][three|drei]");
}

static void test_corpus__tsv(void **state)
{
    const char *tsv[] = { write_text(*state, "a.tsv", "one\teins\n\t\n"),
                          write_text(*state, "b.tsv", "three\tdrei") };
    et_corpus_paths paths = { .tsv = { tsv, 2 } };
    check_pairs(&paths, "[one|eins][|][three|drei]");
}

static void test_corpus__columns(void **state)
{
    const char *tsv = write_text(*state, "a.tsv", "one\teins\ntwo\tzwei\t2\n");
    et_corpus_paths paths = { .tsv = { &tsv, 1 } };
    check_error(&paths, ET_EDATA, "a.tsv:2: expected 2 columns, found 3");
    write_text(*state, "a.tsv", "one\n");
    check_error(&paths, ET_EDATA, "a.tsv:1: expected 2 columns, found 1");
}

/* Both counts are named, whichever side is the longer. */
static void test_corpus__lengths_differ(void **state)
{
    et_strbuf many = ET_STRBUF_INIT;
    for (int i = 0; i < 1234; i++)
        et_strbuf_append(&many, "line\n");
    const char *en = write_text(*state, "help.en", many.data);
    const char *fr = write_text(*state, "help.fr", many.data + 5);
    et_strbuf_release(&many);
    et_corpus_paths paths = { .source = { &en, 1 }, .target = { &fr, 1 } };
    char expected[256];
    snprintf(expected, sizeof expected,
             "%s has 1,234 lines, but %s has 1,233: line N of one file must translate line N of "
             "the other",
             en, fr);
    check_error(&paths, ET_EDATA, expected);
    paths = (et_corpus_paths){ .source = { &fr, 1 }, .target = { &en, 1 } };
    snprintf(expected, sizeof expected, "%s has 1,233 lines, but %s has 1,234:", fr, en);
    check_error(&paths, ET_EDATA, expected);
    const char *both[] = { en, fr };
    paths = (et_corpus_paths){ .source = { both, 2 }, .target = { both, 1 } };
    check_error(&paths, ET_EDATA, "help.en and 1 more has 2,467 lines");
}

/* A fault in the text of the longer side is reported before the different lengths. */
static void test_corpus__bad_text_wins(void **state)
{
    const char *en = write_text(*state, "a.en", "one\n");
    const char *de = write_text(*state, "a.de", "eins\nzwei\n\xff\n");
    et_corpus_paths paths = { .source = { &en, 1 }, .target = { &de, 1 } };
    check_error(&paths, ET_EDATA, "a.de:3: byte 1");
}

static void test_corpus__empty(void **state)
{
    const char *empty = write_text(*state, "empty", "");
    et_corpus_paths two = { .source = { &empty, 1 }, .target = { &empty, 1 } };
    et_corpus_paths tsv = { .tsv = { &empty, 1 } };
    check_error(&two, ET_EDATA, "empty: the file is empty: give at least one pair");
    check_error(&tsv, ET_EDATA, "empty: the file is empty: give at least one pair");
}

static void test_corpus__paths(void **state)
{
    (void)state;
    const char *a = "a.txt", *b = "b.txt";
    const struct {
        et_corpus_paths paths;
        const char *message;
    } cases[] = {
        { { .source = { NULL, 0 } }, "set source_path and target_path, or tsv_path" },
        { { .source = { &a, 1 } }, "source_path is set (a.txt) and target_path is not" },
        { { .target = { &b, 1 } }, "target_path is set (b.txt) and source_path is not" },
        { { .source = { &a, 1 }, .tsv = { &b, 1 } },
          "tsv_path (b.txt) and source_path (a.txt) are both set" },
        { { .target = { &a, 1 }, .tsv = { &b, 1 } }, "target_path (a.txt) are both set" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_error(&cases[i].paths, ET_ECONFIG, cases[i].message);
}

static void test_corpus__lines_for_a_vocabulary(void **state)
{
    const char *tsv = write_text(*state, "a.tsv", "one\teins\ntwo\tzwei\n");
    et_corpus_paths paths = { .tsv = { &tsv, 1 } };
    const char *expected[] = { "one", "eins", "two", "zwei" };
    et_corpus *corpus;
    const char *text;
    size_t length;
    assert_int_equal(et_corpus_open(&corpus, &paths, NULL), ET_OK);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(et_corpus_next_line(corpus, &text, &length, NULL), ET_OK);
        assert_int_equal(length, strlen(expected[i]));
        assert_memory_equal(text, expected[i], length);
    }
    assert_int_equal(et_corpus_next_line(corpus, &text, &length, NULL), ET_OK);
    assert_null(text);
    et_corpus_close(corpus);
}

static void test_corpus__locate(void **state)
{
    (void)state;
    const char *files[] = { "a", "b", "c" };
    const int64_t lines[] = { 2, 0, 3 };
    et_corpus_paths paths = { .source = { files, 3 }, .target = { files + 1, 1 } };
    const struct {
        int64_t index;
        const char *path;
        int64_t line;
    } cases[] = { { 0, "a", 1 }, { 1, "a", 2 }, { 2, "c", 1 }, { 4, "c", 3 } };
    const char *path;
    int64_t line;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        et_corpus_locate(&paths, lines, false, cases[i].index, &path, &line);
        assert_string_equal(path, cases[i].path);
        assert_int_equal(line, cases[i].line);
    }
}

static void test_corpus__counts(void **state)
{
    (void)state;
    const struct {
        et_corpus_counts counts;
        const char *text;
    } cases[] = {
        { { .read = 29000, .kept = 29000 }, "29,000 pairs" },
        { { .read = 35085, .kept = 33214, .empty = 231, .too_long = 1640 },
          "33,214 pairs; 1,871 filtered (5.3 %): 1,640 too long, 231 empty" },
        { { .read = 10, .kept = 7, .lopsided = 2, .duplicate = 1 },
          "7 pairs; 3 filtered (30 %): 2 lopsided, 1 duplicate" },
        { { .read = 10, .kept = 10, .cut = 4 }, "10 pairs; 4 shortened" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        et_strbuf text = ET_STRBUF_INIT;
        et_corpus_counts_print(&cases[i].counts, &text);
        assert_string_equal(et_strbuf_text(&text), cases[i].text);
        et_strbuf_release(&text);
    }
}

#define GOLDEN ET_TEST_SOURCE "/tests/data/records/"

/* Files that TensorFlow wrote, plain and GZIP: the same pairs, also of two files one after the
 * other. */
static void test_corpus__records(void **state)
{
    (void)state;
    const char *files[] = { GOLDEN "pairs.tfrecord", GOLDEN "pairs-gzip.tfrecord" };
    static const char *const sources[] = { "a house",      "the cat sleeps", "",
                                           "two dogs run", "a line\nof two", "good morning" };
    static const char *const targets[] = {
        "ein Haus",          "die Katze schl\303\244ft", "",
        "zwei Hunde laufen", "eine Zeile\nvon zweien",   "guten Morgen"
    };
    et_corpus_paths paths = { .records = { files, 2 },
                              .source_feature = "en",
                              .target_feature = "de" };
    et_error error = ET_ERROR_INIT;
    et_corpus *corpus = NULL;
    et_corpus_pair pair;
    const char *path;
    int64_t line, lines[2];
    if (et_corpus_open(&corpus, &paths, &error))
        fail_msg("%s", error.text);
    for (int i = 0; i < 12; i++) {
        if (et_corpus_next(corpus, &pair, &error))
            fail_msg("%s", error.text);
        assert_int_equal(pair.index, i);
        assert_int_equal(pair.source_length, strlen(sources[i % 6]));
        assert_memory_equal(pair.source, sources[i % 6], pair.source_length);
        assert_int_equal(pair.target_length, strlen(targets[i % 6]));
        assert_memory_equal(pair.target, targets[i % 6], pair.target_length);
    }
    assert_int_equal(et_corpus_next(corpus, &pair, NULL), ET_OK);
    assert_null(pair.source);
    for (int i = 0; i < 2; i++)
        lines[i] = et_corpus_lines(corpus, true, (size_t)i);
    et_corpus_locate(&paths, lines, true, 8, &path, &line);
    assert_string_equal(path, files[1]);
    assert_int_equal(line, 3);
    et_corpus_close(corpus);
}

/* One record with one feature: its bytes, and the expected fault. */
static const char *write_pair(fixture *f, const et_bytes *source, size_t count)
{
    const char *path = fixture_path(f, "bad.tfrecord");
    et_example_builder *b;
    assert_int_equal(et_example_builder_new(&b, NULL, NULL), ET_OK);
    et_example_add_text(et_example_add_bytes(b, "en", source, count), "de", "gut");
    et_example_add_ints(b, "id", &(const int64_t){ 1 }, 1);
    assert_int_equal(et_records_write(path, NULL, &b, 1, NULL), ET_OK);
    et_example_builder_free(b);
    return path;
}

static void test_corpus__bad_records(void **state)
{
    static char long_text[ET_TEXT_LINE_MAX + 1];
    memset(long_text, 'x', sizeof long_text);
    const struct {
        et_bytes source[2];
        size_t count;
        const char *source_feature, *error;
        int status;
    } cases[] = {
        { { { "fine", 4 } },
          1,
          "fr",
          "bad.tfrecord: record 1 at byte 0: no feature fr (the record has: de, en, id): set "
          "src_lang "
          "to the name of one",
          ET_EDATA },
        { { { "fine", 4 } },
          1,
          "id",
          "feature id has 1 values (integers): give one string",
          ET_EDATA },
        { { { "a", 1 }, { "b", 1 } }, 2, "en", "feature en has 2 values (bytes)", ET_EDATA },
        { { { "a", 1 } }, 0, "en", "feature en has 0 values", ET_EDATA },
        { { { "a\0b", 3 } }, 1, "en", "feature en: byte 2 is NUL: write UTF-8 text", ET_EDATA },
        { { { "ab\xff", 3 } }, 1, "en", "feature en: byte 3 (0xFF) is not UTF-8", ET_EDATA },
        { { { long_text, sizeof long_text } },
          1,
          "en",
          ": a string of more than 1048576 bytes: give one sentence per record",
          ET_EDATA },
        { { { "a", 1 } },
          1,
          "",
          "set src_lang and tgt_lang to the names of two features",
          ET_ECONFIG },
        { { { "a", 1 } },
          1,
          "de",
          "set src_lang and tgt_lang to the names of two features",
          ET_ECONFIG },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = write_pair(*state, cases[i].source, cases[i].count);
        et_corpus_paths paths = { .records = { &path, 1 },
                                  .source_feature = cases[i].source_feature,
                                  .target_feature = "de" };
        check_error(&paths, cases[i].status, cases[i].error);
    }
    const char *none = "none", *text = write_text(*state, "text", "some lines\n");
    et_corpus_paths paths = { .records = { &none, 1 },
                              .source_feature = "en",
                              .target_feature = "de" };
    check_error(&paths, ET_ENOTFOUND, "none");
    paths.records.items = &text;
    check_error(&paths, ET_EFORMAT, "text: record 1 at byte 0: the file ends within the record");
    paths.tsv = paths.records;
    check_error(&paths, ET_ECONFIG, "are both set: set one of them");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_corpus__two_lists),
        cmocka_unit_test(test_corpus__tsv),
        cmocka_unit_test(test_corpus__columns),
        cmocka_unit_test(test_corpus__lengths_differ),
        cmocka_unit_test(test_corpus__bad_text_wins),
        cmocka_unit_test(test_corpus__empty),
        cmocka_unit_test(test_corpus__paths),
        cmocka_unit_test(test_corpus__lines_for_a_vocabulary),
        cmocka_unit_test(test_corpus__locate),
        cmocka_unit_test(test_corpus__counts),
        cmocka_unit_test(test_corpus__records),
        cmocka_unit_test(test_corpus__bad_records),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
