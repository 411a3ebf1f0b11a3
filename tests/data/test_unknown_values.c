#include "data/table/features/unknown_values.h"

#include <stdio.h>

#include "base/main.h"
#include "base/scarce.h"
#include "data/table_fixture.h"

static const char schema_text[] = "fields:\n"
                                  "  - {name: version, type: discrete}\n"
                                  "  - {name: rooms, type: integer}\n"
                                  "  - {name: town, type: discrete}\n"
                                  "  - {name: street, type: discrete}\n"
                                  "  - {name: size, type: real}\n"
                                  "  - {name: filled, type: real, default: 0}\n"
                                  "  - {name: pair, type: discrete, length: 2}\n"
                                  "  - {name: tags, type: discrete, length: 0}\n"
                                  "  - {name: idle, type: discrete}\n"
                                  "  - {name: y, type: discrete}\n";
static const char metadata_text[] =
    "{\"version\": {\"count\": 9, \"missing\": 0, \"entries\": [\"1.1\", \"2.0\"]},"
    " \"rooms\": {\"count\": 9, \"missing\": 0, \"entries\": [\"7\", \"8\"]},"
    " \"town\": {\"count\": 7, \"missing\": 2, \"entries\": [\"Ulm\"]},"
    " \"street\": {\"count\": 9, \"missing\": 0, \"entries\": [\"A\"], \"cut\": true},"
    " \"size\": {\"count\": 9, \"missing\": 0, \"mean\": 1, \"std\": 1},"
    " \"filled\": {\"count\": 9, \"missing\": 0, \"mean\": 1, \"std\": 1},"
    " \"pair\": {\"entries\": [\"a\", \"b\"]}, \"tags\": {\"entries\": [\"t\", \"u\"]},"
    " \"idle\": {\"count\": 9, \"missing\": 0, \"entries\": [\"i\"]},"
    " \"y\": {\"count\": 9, \"missing\": 0, \"entries\": [\"no\", \"yes\"]}}";
static const char features_text[] =
    "features:\n"
    "  - {name: ids, type: concat, features: [{name: version, type: embed},\n"
    "     {name: town, type: hash, transform: {buckets: 8}}, {name: street, type: hash, transform: "
    "{buckets: 8}}]}\n"
    "  - {name: X, type: concat, features: [{name: rooms, type: one-hot},\n"
    "     {name: size, type: standardize}, {name: filled, type: standardize},\n"
    "     {name: pair, type: one-hot}, {name: tags, type: one-hot}]}\n"
    "  - {name: Y, type: target, fields: y}\n";

static three texts;
static et_encoder *encoder;
static et_error error;

static int enter(void **state)
{
    (void)state;
    error = (et_error)ET_ERROR_INIT;
    int status = three_parse(&texts, schema_text, metadata_text, features_text, &error);
    if (!status)
        status = et_encoder_new(&encoder, texts.schema, texts.metadata, texts.features, &error);
    assert_string_equal(error.text, "");
    return status;
}

static int leave(void **state)
{
    (void)state;
    et_encoder_free(encoder);
    three_free(&texts);
    return 0;
}

enum { CELLS = 11 };

static void add(et_unknown_values *unseen, const char *const row[CELLS], int64_t place)
{
    et_cell cells[CELLS];
    for (int i = 0; i < CELLS; i++)
        cells[i] = cell_of(row[i]);
    et_unknown_values_add(unseen, cells, NULL, place);
}

/* The description is exactly these lines. */
static void assert_says(const et_unknown_values *unseen, const char *const *lines)
{
    et_unknown_values_text text;
    int at = 0;
    for (; *lines; lines++) {
        assert_true(et_unknown_values_describe(unseen, &at, "line", &text));
        assert_string_equal(text.text, *lines);
    }
    assert_false(et_unknown_values_describe(unseen, &at, "line", &text));
}

static void test_unknown_values__counts_by_column(void **state)
{
    (void)state;
    static const char *const nothing[] = { NULL };
    static const char *const lines[] = {
        "version: 2 of 4 values unknown to the model, first \"1.10\" in line 2",
        "version: 1 of 4 values missing, and none was missing in training, first in line 4",
        "rooms: 2 of 4 values unknown to the model, first \"9\" in line 2",
        "town: 1 of 4 values unknown to the model, first \"ulm\x1b\" in line 3",
        "size: 1 of 4 values missing, and none was missing in training, first in line 4",
        "pair: 3 of 8 values unknown to the model, first \"c\" in line 2",
        NULL,
    };
    et_unknown_values unseen;
    assert_int_equal(et_unknown_values_open(&unseen, encoder, texts.metadata, &error), ET_OK);
    /* A hash has seen any value unless all levels are known. A missing value with a replacement in
     * the schema is not missing. Fields that no feature reads do not count, and neither does a
     * target.
     */
    add(&unseen,
        (const char *[]){ "1.1", "07", "Ulm", "B", "1e9", NULL, "a", "b", "t", "other", "maybe" },
        1);
    assert_says(&unseen, nothing);
    add(&unseen, (const char *[]){ "1.10", "9", NULL, "B", "0", "1", "c", "d", "t", NULL, NULL },
        2);
    add(&unseen,
        (const char *[]){ "2", "7.5", "ulm\x1b", "A", "0", "1", "c", "a", NULL, "i", NULL }, 3);
    add(&unseen, (const char *[]){ NULL, "8.0", "Ulm", "A", NULL, "1", "b", "a", "u", "i", "no" },
        4);
    assert_says(&unseen, lines);
    et_unknown_values_clear(&unseen);
    assert_says(&unseen, nothing);
    et_unknown_values_release(&unseen);
}

static void test_unknown_values__values_and_lists(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "version: 1 of 1 values unknown to the model, first \"3\" in line 7",
        "rooms: 1 of 1 values unknown to the model, first \"-1\" in line 7",
        "tags: 2 of 2 values unknown to the model, first \"v\" in line 7",
        NULL,
    };
    const et_reading list[] = { { .text = "t", .length = 1 },
                                { .text = "v", .length = 1 },
                                { .text = "w", .length = 1 } };
    et_reading values[CELLS] = {
        { .text = "3", .length = 1 },
        { .number = -1, .numeric = true },
        { .text = "Ulm", .length = 3 },
        { .text = "B", .length = 1 },
        { .number = 1, .numeric = true },
        { .number = 1, .numeric = true },
        { .text = "a", .length = 1 },
        { .text = "b", .length = 1 },
        { .list = list, .count = COUNT(list) },
        { .missing = true },
        { .missing = true },
    };
    et_unknown_values unseen;
    assert_int_equal(et_unknown_values_open(&unseen, encoder, texts.metadata, &error), ET_OK);
    et_unknown_values_add(&unseen, NULL, values, 7);
    assert_says(&unseen, lines);
    et_unknown_values_release(&unseen);
}

/* Parts that are added in order give the result of a single one; a text that is too long is cut
 * between characters. */
static void test_unknown_values__parts(void **state)
{
    (void)state;
    char letters[100];
    memset(letters, 'x', sizeof letters);
    memcpy(letters + 62, "\xc3\xbc\xc3\xbc", 5);
    const char *row[CELLS] = { letters, "7", "Ulm", "B", "1", "1", "a", "b", "t", "i", "no" };
    et_unknown_values whole, part;
    et_unknown_values_text one, other;
    assert_int_equal(et_unknown_values_open(&whole, encoder, texts.metadata, &error), ET_OK);
    assert_int_equal(et_unknown_values_open(&part, encoder, texts.metadata, &error), ET_OK);
    add(&part, (const char *[]){ "1.1", "7", "Ulm", "B", "1", "1", "a", "b", "t", "i", "no" }, 1);
    et_unknown_values_take(&whole, &part);
    add(&part, row, 5);
    row[0] = "3";
    add(&part, row, 6);
    et_unknown_values_take(&whole, &part);
    add(&part, row, 8);
    et_unknown_values_take(&whole, &part);
    int at = 0, again = 0;
    assert_true(et_unknown_values_describe(&whole, &at, "row", &one));
    letters[62] = 0;
    snprintf(other.text, sizeof other.text,
             "version: 3 of 4 values unknown to the model, first \"%s\" in row 5", letters);
    assert_string_equal(one.text, other.text);
    assert_false(et_unknown_values_describe(&part, &again, "row", &one));
    et_unknown_values_release(&part);
    et_unknown_values_release(&whole);
}

static void test_unknown_values__out_of_memory(void **state)
{
    (void)state;
    int status = ET_ENOMEM;
    for (long calls = 0; status; calls++) {
        et_unknown_values unseen;
        scarce_begin(calls);
        status = et_unknown_values_open(&unseen, encoder, texts.metadata, &error);
        if (!status)
            et_unknown_values_release(&unseen);
        scarce_end();
        assert_int_equal(status, scarce_failed ? ET_ENOMEM : ET_OK);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, enter, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_unknown_values__counts_by_column),
        CASE(test_unknown_values__values_and_lists),
        CASE(test_unknown_values__parts),
        CASE(test_unknown_values__out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
