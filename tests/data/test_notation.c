/* Numbers as people write them, and texts that are none. */
#include "base/main.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "data/table/schema/notation.h"

#define NONE NAN

/* By both notations, with the unit that is found. */
static const struct {
    const char *text;
    double point, comma;
    const char *unit; /* "": none */
} cases[] = {
    { "1,234.50", 1234.5, NONE, "" },
    { "1.234,50", NONE, 1234.5, "" },
    { "1,234", 1234, 1.234, "" },
    { "1.234", 1.234, 1234, "" },
    { "1,234,567", 1234567, NONE, "" },
    { "12,34,567.8", 1234567.8, NONE, "" },
    { "1.234.567", NONE, 1234567, "" },
    { "1,5", NONE, 1.5, "" },
    { "0,671", NONE, .671, "" },
    { "-,5", NONE, -.5, "" },
    { "1 234", 1234, 1234, "" },
    { "1 234,5", NONE, 1234.5, "" },
    { "1\u202f234.5", 1234.5, NONE, "" },
    { "1'234'567", 1234567, 1234567, "" },
    { "1_000", 1000, 1000, "" },
    { "12", 12, 12, "" },
    { "1,5e-3", NONE, .0015, "" },
    { "1.5E3", 1500, NONE, "" },
    { "\u22127.25", -7.25, NONE, "" },
    { "(1,234)", -1234, -1.234, "" },
    { "( 12 % )", -12, -12, "%" },
    { "$1,234", 1234, 1.234, "$" },
    { "-$1,500.25", -1500.25, NONE, "$" },
    { "$-5", -5, -5, "$" },
    { "$(5)", -5, -5, "$" },
    { "US$12", 12, 12, "US$" },
    { "R$ 1.234,50", NONE, 1234.5, "R$" },
    { "EUR 12", 12, 12, "EUR" },
    { "EUR12", 12, 12, "EUR" },
    { "Rs.500", 500, 500, "Rs." },
    { "\u20ac1.234,50", NONE, 1234.5, "\u20ac" },
    { "1.234,50\u00a0\u20ac", NONE, 1234.5, "\u20ac" },
    { "\u00a312", 12, 12, "\u00a3" },
    { "12 %", 12, 12, "%" },
    { "12.5%", 12.5, NONE, "%" },
    { "85 m2", 85, 85, "m2" },
    { "85 m\u00b2", 85, 85, "m\u00b2" },
    { "30kg", 30, 30, "kg" },
    { "5 km/h", 5, 5, "km/h" },
    { "21,5 \u00b0C", NONE, 21.5, "\u00b0C" },
    { "36 months", 36, 36, "months" },
    { "1 500 kg", 1500, 1500, "kg" },
};

/* Names, codes, dates, ranges, lists, phone numbers, addresses. */
static const char *const others[] = {
    "",
    "-",
    "kg",
    "A11",
    "C85",
    "Room 12",
    "T1",
    "65+",
    "5-10",
    "12/15",
    "12:30",
    "31.12.2024",
    "2024-05-31",
    "1,2,3",
    "1,23,4",
    "1 23",
    "0171 123 456",
    "030 123 456",
    "1,234 567",
    "12,,5",
    "$",
    "$$5",
    "5 $ 6",
    "--5",
    "-(5)",
    "(5",
    "5)",
    "((5))",
    "1.2.3",
    "1,000.5.2",
    "1.234,567,8",
    "192.168.1.1",
    "$12 kg",
    "10 of 12 and more",
    "<5",
    "~5",
    "#5",
    "5 \u2013 6",
    "0x1p3",
    "nan",
    "1,234,56",
    "1234,567.8",
    "12-",
    "EUR",
    "EURO 12",
    "4\u00bd",
    "4 \u00bd",
    "3\u00b2",
};

static void test_notation__texts(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *text = cases[i].text;
        const size_t length = strlen(text);
        const et_noted noted = et_notation_find(text, length);
        char unit[64] = "";
        memcpy(unit, text + noted.unit_at, noted.unit_length);
        if (strcmp(unit, cases[i].unit))
            fail_msg("\"%s\": the unit is \"%s\"", text, unit);
        for (et_notation n = ET_NOTATION_POINT; n <= ET_NOTATION_COMMA; n++) {
            const double wanted = n == ET_NOTATION_POINT ? cases[i].point : cases[i].comma;
            double got = 7;
            const et_number kind = et_notation_parse(
                &got, &(et_number_format){ n, *unit ? unit : NULL }, text, length);
            if (et_number_is(kind) != !isnan(wanted) || (et_number_is(kind) && got != wanted))
                fail_msg("\"%s\" with a %s: %d, %g", text, et_notation_name(n), (int)kind, got);
            if ((noted.notations >> n & 1) != !isnan(wanted))
                fail_msg("\"%s\" is not found as it is read", text);
        }
        assert_int_equal(noted.differs, cases[i].point != cases[i].comma &&
                                            !isnan(cases[i].point) && !isnan(cases[i].comma));
    }
}

static void test_notation__others(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(others); i++)
        if (et_notation_find(others[i], strlen(others[i])).notations)
            fail_msg("\"%s\" is read as a number", others[i]);
}

/* A text is read by its length, whatever follows, and a unit that a person gives may be any. */
static void test_notation__units(void **state)
{
    (void)state;
    static const struct {
        const char *text, *unit;
        double number;
    } given[] = {
        { "A11", "A", 11 },        { "11", "A", 11 },     { "B11", "A", NONE },
        { "A 11 A", "A", NONE },   { "5 g", "kg", NONE }, { "5 kg", "kg", 5 },
        { "5 kg kg", "kg", NONE },
    };
    for (size_t i = 0; i < COUNT(given); i++) {
        double got = 0;
        const et_number kind =
            et_notation_parse(&got, &(et_number_format){ ET_NOTATION_POINT, given[i].unit },
                              given[i].text, strlen(given[i].text));
        if (et_number_is(kind) != !isnan(given[i].number) ||
            (et_number_is(kind) && got != given[i].number))
            fail_msg("\"%s\" in %s: %d, %g", given[i].text, given[i].unit, (int)kind, got);
    }
    const et_number_format point = { ET_NOTATION_POINT, NULL };
    double got;
    assert_int_equal(et_notation_parse(&got, &point, "1,234,567", 5), ET_NUMBER_INTEGER);
    assert_true(got == 1234);
    assert_int_equal(et_notation_parse(&got, &(et_number_format){ 0 }, "1,234", 5), ET_NUMBER_NONE);
    char many[2000];
    memset(many, '1', sizeof many);
    assert_int_equal(
        et_notation_parse(&got, &(et_number_format){ ET_NOTATION_COMMA, NULL }, many, sizeof many),
        ET_NUMBER_NONE);
    assert_int_equal(et_notation_parse(&got, &point, "1,000e5", 7), ET_NUMBER_NONE);
}

/* Any bytes, in memory of just their size. */
static void test_notation__bytes(void **state)
{
    (void)state;
    static const char alphabet[] = "0123.,' -+()$%eEkm\xc2\xa0\xe2\x80\xaf\x82\xac";
    uint32_t seed = 1;
    for (int i = 0; i < 200000; i++) {
        const size_t length = 1 + (seed >> 8) % 12;
        char *text = malloc(length);
        assert_non_null(text);
        for (size_t k = 0; k < length; k++) {
            seed = seed * 1664525 + 1013904223;
            text[k] = alphabet[(seed >> 16) % (sizeof alphabet - 1)];
        }
        const et_noted noted = et_notation_find(text, length);
        assert_true(noted.unit_at + noted.unit_length <= length);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_notation__texts),
        cmocka_unit_test(test_notation__others),
        cmocka_unit_test(test_notation__units),
        cmocka_unit_test(test_notation__bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
