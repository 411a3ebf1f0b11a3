/* Words of texts: their number, and the ids of the transform words. */
#include "data/table/features/transforms.h"

#include <stdio.h>
#include <string.h>

#include "base/main.h"
#include "calls.h"
#include "data/table_fixture.h"

#define WORDS   4
#define COLUMNS (2 * WORDS - 1)

static void test_words__count(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t words;
    } texts[] = {
        { "", 0 },
        { " ,.- ", 0 },
        { "one", 1 },
        { " Two  words.", 2 },
        { "a-b,c", 1 },
        { "x1 2 - 3y", 2 },
        { "550e8400-e29b-11d4 2024-05-31 192.168.1.1", 1 },
        { "\u00fcber \u00e9t\u00e9", 2 },
    };
    for (size_t i = 0; i < COUNT(texts); i++)
        assert_int_equal(et_words_count(texts[i].text, strlen(texts[i].text)), texts[i].words);
    assert_int_equal(et_words_count("one two", 3), 1);
}

static void encode(const et_encoder *encoder, const char *text, int32_t ids[COLUMNS])
{
    const et_cell cell = { text, text ? strlen(text) : 0 };
    assert_ok(et_encoder_row(encoder, &cell, (void *[]){ ids }, NULL, error));
}

static void test_words__ids(void **state)
{
    (void)state;
    static const char schema[] = "fields: [{name: t, type: discrete}]\n";
    static const char features[] =
        "features: [{name: t, type: words, transform: {buckets: 100000, words: 4}}]\n";
    et_encoder *encoder;
    int32_t ids[COLUMNS], other[COLUMNS];
    assert_ok(encoder_parse(&encoder, schema, "{}", features, error));
    const et_encoded_field *field = et_encoder_field(encoder, 0);
    assert_int_equal(field->kind, ET_ENCODED_WORDS);
    assert_int_equal(field->width, COLUMNS);
    assert_int_equal(field->cardinality[0], 100000);
    encode(encoder, "one two one", ids);
    assert_true(ids[0] >= 0 && ids[0] < 100000);
    assert_int_equal(ids[0], ids[4]);     /* one */
    assert_int_not_equal(ids[1], ids[3]); /* one two, two one */
    assert_true(ids[5] == -1 && ids[6] == -1);
    encode(encoder, "ONE... Two\tone!", other);
    assert_memory_equal(ids, other, sizeof ids);
    encode(encoder, "one two one four five six", other);
    assert_memory_equal(ids, other, 5 * sizeof *ids);
    assert_true(other[5] >= 0 && other[6] >= 0);
    encode(encoder, "\u00c9T\u00c9", ids);
    encode(encoder, "\u00e9t\u00e9", other);
    assert_memory_equal(ids, other, sizeof ids);
    static const char *const none[] = { NULL, "", " -- " };
    for (size_t i = 0; i < COUNT(none); i++) {
        encode(encoder, none[i], ids);
        for (int k = 0; k < COLUMNS; k++)
            assert_int_equal(ids[k], -1);
    }
    et_encoder_free(encoder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words__count),
        cmocka_unit_test(test_words__ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
