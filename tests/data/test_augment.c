#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/files/file.h"
#include "data/text/corpus.h"

static void test_augment__parse(void **state)
{
    (void)state;
    const struct {
        const char *text;
        double rates[ET_AUGMENT_KINDS];
        int status;
    } cases[] = {
        { NULL, { 0, 0 }, ET_OK },
        { "", { 0, 0 }, ET_OK },
        { "case", { 0.1, 0 }, ET_OK },
        { "placeholders:1,case:0.25", { 0.25, 1 }, ET_OK },
        { "case:", { 0, 0 }, ET_ECONFIG },
        { "case:0", { 0, 0 }, ET_ECONFIG },
        { "case:2", { 0, 0 }, ET_ECONFIG },
        { "case:-1", { 0, 0 }, ET_ECONFIG },
        { "case:nan", { 0, 0 }, ET_ECONFIG },
        { "case:0.1x", { 0, 0 }, ET_ECONFIG },
        { "case:0.10000000000000000000000000000000000000000", { 0, 0 }, ET_ECONFIG },
        { "cases", { 0, 0 }, ET_ECONFIG },
        { "case,,placeholders", { 0, 0 }, ET_ECONFIG },
        { "case placeholders", { 0, 0 }, ET_ECONFIG },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        et_error error = ET_ERROR_INIT;
        et_augment augment;
        assert_int_equal(et_augment_parse(&augment, cases[i].text, &error), cases[i].status);
        for (int kind = 0; kind < ET_AUGMENT_KINDS && !cases[i].status; kind++)
            assert_true(augment.rates[kind] == cases[i].rates[kind]);
    }
}

/* The copy of a pair by one kind at a rate of 1; NULL: none. */
static const char *const *copy_of(et_augment_kind kind, int64_t index, const char *source,
                                  const char *target)
{
    static et_strbuf copies[2];
    static const char *texts[2];
    const et_augment augment = { { 1, 1 } };
    const char *const sides[2] = { source, target };
    const size_t lengths[2] = { strlen(source), strlen(target) };
    et_error error = ET_ERROR_INIT;
    bool made;
    assert_int_equal(et_augment_make(&augment, kind, index, sides, lengths, copies, &made, &error),
                     ET_OK);
    texts[0] = et_strbuf_text(&copies[0]);
    texts[1] = et_strbuf_text(&copies[1]);
    return made ? texts : NULL;
}

static void test_augment__case(void **state)
{
    (void)state;
    int upper = 0, title = 0, lower = 0;
    for (int64_t i = 0; i < 300; i++) {
        const char *const *copy = copy_of(ET_AUGMENT_CASE, i, "Click {name} \xc3\xa9t\xc3\xa9.",
                                          "Stra\xc3\x9f"
                                          "e {name} gro\xc3\x9f.");
        assert_non_null(copy);
        const bool is_upper = !strcmp(copy[0], "CLICK {name} \xc3\x89T\xc3\x89."),
                   is_title = !strcmp(copy[0], "Click {name} \xc3\x89t\xc3\xa9.");
        upper += is_upper;
        title += is_title;
        lower += !strcmp(copy[0], "click {name} \xc3\xa9t\xc3\xa9.");
        assert_string_equal(copy[1], is_upper   ? "STRASSE {name} GROSS."
                                     : is_title ? "Stra\xc3\x9f"
                                                  "e {name} Gro\xc3\x9f."
                                                : "stra\xc3\x9f"
                                                  "e {name} gro\xc3\x9f.");
    }
    assert_int_equal(upper + title + lower, 300);
    assert_true(upper > 120 && title > 30 && lower > 30);
    assert_null(copy_of(ET_AUGMENT_CASE, 0, "", "x"));
    assert_null(copy_of(ET_AUGMENT_CASE, 0, "12 {a}", "12 {a}"));
}

/* What a copy has in addition to the text, or in place of "Berlin"; NULL: it is not that text. */
static const char *added_to(const char *copy, const char *text)
{
    static char added[2][100];
    static int turn;
    char *out = added[turn ^= 1];
    const size_t all = strlen(copy), length = strlen(text);
    size_t begin = 0, end = 0;
    while (begin < length && copy[begin] == text[begin])
        begin++;
    while (end < length - begin && copy[all - 1 - end] == text[length - 1 - end])
        end++;
    snprintf(out, sizeof added[0], "%.*s", (int)(all - begin - end), copy + begin);
    return out;
}

static void test_augment__placeholders(void **state)
{
    (void)state;
    int replaced = 0, begins = 0, ends = 0, within = 0, names = 0, first = 0;
    for (int64_t i = 0; i < 300; i++) {
        const char *const *copy =
            copy_of(ET_AUGMENT_PLACEHOLDERS, i, "We see Berlin today.", "Heute sieht man Berlin .");
        assert_non_null(copy);
        /* Both sides have the same words more: those of the source, without its own. */
        const char *places[2] = { added_to(copy[0], "We see Berlin today."),
                                  added_to(copy[1], "Heute sieht man Berlin .") };
        char word[2][100];
        for (int side = 0; side < 2; side++)
            assert_int_equal(sscanf(places[side], " %99s", word[side]), 1);
        assert_string_equal(word[0], word[1]);
        replaced += !strstr(copy[0], "Berlin");
        assert_int_equal(!strstr(copy[0], "Berlin"), !strstr(copy[1], "Berlin"));
        begins += !strstr(copy[0], "We see") || strncmp(copy[0], "We", 2) != 0;
        ends += strstr(copy[0], "today ") != NULL;
        within += strstr(copy[0], " today.") && strstr(copy[0], "Berlin") &&
                  !strncmp(copy[0], "We ", 3) && !strncmp(copy[1], "Heute ", 6);
        first += strstr(copy[0], "{0}") != NULL;
        names += strchr(copy[0], '{') && strchr(copy[0], '}');
    }
    assert_true(replaced > 90 && begins > 50 && ends > 20 && within > 20 && names > 100);
    assert_true(first > 10);
}

/* On both sides, a placeholder within a sentence follows the same fraction of the words. */
static void test_augment__within(void **state)
{
    (void)state;
    int most[2] = { 0 };
    for (int64_t i = 0; i < 300; i++) {
        static const char *const texts[2] = { "a b c d e f g h", "A B C D" };
        const char *const *copy = copy_of(ET_AUGMENT_PLACEHOLDERS, i, texts[0], texts[1]);
        int words[2] = { 0 };
        assert_non_null(copy);
        for (int side = 0; side < 2; side++) {
            const char *added = added_to(copy[side], texts[side]);
            const char *at = strstr(copy[side], added + strspn(added, " "));
            assert_non_null(at);
            for (const char *c = copy[side]; c < at; c++)
                words[side] += *c == ' ';
            most[side] = words[side] > most[side] ? words[side] : most[side];
        }
        assert_int_equal(words[1], words[0] == 7 ? 3 : (words[0] + 1) / 2);
    }
    assert_int_equal(most[0], 8);
    assert_int_equal(most[1], 4);
    for (int64_t i = 0; i < 100; i++) {
        const char *const *copy = copy_of(ET_AUGMENT_PLACEHOLDERS, i, "one", "a longer line");
        assert_non_null(copy);
        assert_non_null(strstr(copy[0], "one"));
    }
}

/* Copies follow their pairs, with their index; rates hold; the tag stays in front. */
static void test_augment__corpus(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_strbuf text = ET_STRBUF_INIT;
    for (int i = 0; i < 1000; i++)
        et_strbuf_printf(&text, "word number %d\twort nummer %d\n", i, i);
    assert_int_equal(et_file_write("augment-test.tsv", et_strbuf_text(&text), text.length, &error),
                     ET_OK);
    const char *path = "augment-test.tsv";
    const et_corpus_paths paths = { .tsv = { &path, 1 },
                                    .tag = "<t>",
                                    .augment = { { 0.2, 0.1 } } };
    et_corpus *corpus;
    et_corpus_pair pair;
    int64_t originals = 0, copies = 0, last = -1;
    assert_int_equal(et_corpus_open(&corpus, &paths, &error), ET_OK);
    while (!et_corpus_next(corpus, &pair, &error) && pair.source) {
        assert_memory_equal(pair.source, "<t> ", 4);
        char plain[64];
        snprintf(plain, sizeof plain, "<t> word number %d", (int)pair.index);
        const bool is_copy = pair.index == last;
        if (!is_copy) {
            assert_int_equal(pair.index, last + 1);
            assert_int_equal(pair.source_length, strlen(plain));
            assert_memory_equal(pair.source, plain, strlen(plain));
        }
        originals += !is_copy;
        copies += is_copy;
        last = pair.index;
    }
    et_corpus_close(corpus);
    unlink(path);
    et_strbuf_release(&text);
    assert_int_equal(originals, 1000);
    assert_true(copies > 240 && copies < 360);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_augment__parse),        cmocka_unit_test(test_augment__case),
        cmocka_unit_test(test_augment__placeholders), cmocka_unit_test(test_augment__within),
        cmocka_unit_test(test_augment__corpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
