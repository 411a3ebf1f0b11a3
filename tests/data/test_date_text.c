/* Dates in texts: every form, its order, and what is not a date. */
#include "base/main.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "data/table/schema/date_text.h"

typedef struct date_case {
    const char *text;
    int date[6]; /* year to minute */
} date_case;

/* The date that both orders must give. */
static void test_date_text__forms(void **state)
{
    (void)state;
    _Static_assert(offsetof(et_date, second) == sizeof(int[6]), "year to minute");
    static const date_case cases[] = {
        { "2024-05-31", { 2024, 4, 30, 4, 0, 0 } },
        { "2024-5-1", { 2024, 4, 0, 2, 0, 0 } },
        { "2024/05/31", { 2024, 4, 30, 4, 0, 0 } },
        { "2024.05.31", { 2024, 4, 30, 4, 0, 0 } },
        { "31.5.2024", { 2024, 4, 30, 4, 0, 0 } },
        { "03.04.2024", { 2024, 3, 2, 2, 0, 0 } },
        { "31.05.24", { 2024, 4, 30, 4, 0, 0 } },
        { "01.01.69", { 1969, 0, 0, 2, 0, 0 } },
        { "01.01.68", { 2068, 0, 0, 6, 0, 0 } },
        { "31 May 2024", { 2024, 4, 30, 4, 0, 0 } },
        { "31-may-24", { 2024, 4, 30, 4, 0, 0 } },
        { "3 September 2024", { 2024, 8, 2, 1, 0, 0 } },
        { "31. May 2024", { 2024, 4, 30, 4, 0, 0 } },
        { "May 31, 2024", { 2024, 4, 30, 4, 0, 0 } },
        { "DECEMBER 1 1999", { 1999, 11, 0, 2, 0, 0 } },
        { "2024-May-31", { 2024, 4, 30, 4, 0, 0 } },
        { "Fri, 31 May 2024 14:30:00 GMT", { 2024, 4, 30, 4, 14, 30 } },
        { "Friday, May 31, 2024", { 2024, 4, 30, 4, 0, 0 } },
        { "May 31, 2024, 2:30 PM", { 2024, 4, 30, 4, 14, 30 } },
        { "2024-05-31 12:05 am", { 2024, 4, 30, 4, 0, 5 } },
        { "2024-05-31 12:05PM", { 2024, 4, 30, 4, 12, 5 } },
        { "2024-05-31 9:05", { 2024, 4, 30, 4, 9, 5 } },
        { "2024-05-31T14:30:59.123+02:00", { 2024, 4, 30, 4, 14, 30 } },
        { "2024-05-31 14:30:59 +0200", { 2024, 4, 30, 4, 14, 30 } },
        { "2024-05-31 14:30:59,123", { 2024, 4, 30, 4, 14, 30 } },
        { "2024-05-31 14:30:59+02", { 2024, 4, 30, 4, 14, 30 } },
        { "2024-05-31T14:30:00 EST", { 2024, 4, 30, 4, 14, 30 } },
        { "2024-05-31 2:30 PM CEST", { 2024, 4, 30, 4, 14, 30 } },
        { "Fri, 31 May 2024 14:30:00 +0200 (CEST)", { 2024, 4, 30, 4, 14, 30 } },
        { "Fri May 31 14:30:00 2024", { 2024, 4, 30, 4, 14, 30 } },
        { "Sat Jun  1 00:05:00 2024", { 2024, 5, 0, 5, 0, 5 } },
        { "Fri May 31 14:30:00 UTC 2024", { 2024, 4, 30, 4, 14, 30 } },
        { "Fri May 31 14:30:00 +0000 2024", { 2024, 4, 30, 4, 14, 30 } },
        { "20240531T143000Z", { 2024, 4, 30, 4, 14, 30 } },
        { "20240531T1430", { 2024, 4, 30, 4, 14, 30 } },
        { "May 31st, 2024 at 2:30 p.m.", { 2024, 4, 30, 4, 14, 30 } },
        { "1st June 2024", { 2024, 5, 0, 5, 0, 0 } },
        { "Sept. 3, 2024", { 2024, 8, 2, 1, 0, 0 } },
        { "Tues, 3 Sept 2024", { 2024, 8, 2, 1, 0, 0 } },
        { "2024-02-29", { 2024, 1, 28, 3, 0, 0 } },
        { "11. 09. 1950", { 1950, 8, 10, 0, 0, 0 } },
        { "1. 2.24", { 2024, 1, 0, 3, 0, 0 } },
        { "2024:05:31 14:30:00", { 2024, 4, 30, 4, 14, 30 } },
        { "31/May/2024:14:30:00 +0200", { 2024, 4, 30, 4, 14, 30 } },
        { "2024-05-31 2 PM", { 2024, 4, 30, 4, 14, 0 } },
        { "2024-05-31T14", { 2024, 4, 30, 4, 14, 0 } },
        { "2024-05-31T14+02:00[Europe/Berlin]", { 2024, 4, 30, 4, 14, 0 } },
        { "2024-05-31, 2:30:00\xe2\x80\xafPM", { 2024, 4, 30, 4, 14, 30 } },
        { "2024-05-31t14:30:00z", { 2024, 4, 30, 4, 14, 30 } },
        { "2024-05-31 14:30:00 +0000 UTC", { 2024, 4, 30, 4, 14, 30 } },
        { "20240531T143000.5+0200", { 2024, 4, 30, 4, 14, 30 } },
        { "Fri May 31 2024 14:30:00 GMT+0200 (Central European Summer Time)",
          { 2024, 4, 30, 4, 14, 30 } },
        /* periods are their first day: pandas.Period(...).start_time, date.fromisocalendar */
        { "2039-11", { 2039, 10, 0, 1, 0, 0 } },
        { "1789/07", { 1789, 6, 0, 2, 0, 0 } },
        { "11/2039", { 2039, 10, 0, 1, 0, 0 } },
        { "5-2024", { 2024, 4, 0, 2, 0, 0 } },
        { "May 2024", { 2024, 4, 0, 2, 0, 0 } },
        { "Sept. 2024", { 2024, 8, 0, 6, 0, 0 } },
        { "may-2024", { 2024, 4, 0, 2, 0, 0 } },
        { "2024 May", { 2024, 4, 0, 2, 0, 0 } },
        { "2024-Q3", { 2024, 6, 0, 0, 0, 0 } },
        { "2024Q3", { 2024, 6, 0, 0, 0, 0 } },
        { "2024 q4", { 2024, 9, 0, 1, 0, 0 } },
        { "Q3 2024", { 2024, 6, 0, 0, 0, 0 } },
        { "Q1/1950", { 1950, 0, 0, 6, 0, 0 } },
        { "3Q2024", { 2024, 6, 0, 0, 0, 0 } },
        { "H2 2024", { 2024, 6, 0, 0, 0, 0 } },
        { "2050-W10-7", { 2050, 2, 12, 6, 0, 0 } },
        { "2050-W10", { 2050, 2, 6, 0, 0, 0 } },
        { "2050W107", { 2050, 2, 12, 6, 0, 0 } },
        { "2020-W53-7", { 2021, 0, 2, 6, 0, 0 } },
        { "2025-W01-1", { 2024, 11, 29, 0, 0, 0 } },
        { "2021-W01-1T09:30", { 2021, 0, 3, 0, 9, 30 } },
        { "0000-01-01", { 0, 0, 0, 5, 0, 0 } },
        { "9999-12-31", { 9999, 11, 30, 4, 0, 0 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t length = strlen(cases[i].text);
        et_date date;
        for (int order = ET_DATE_ANY; order <= ET_DATE_DAY_FIRST; order++)
            if (!et_date_read(&date, cases[i].text, length, (et_date_order)order) ||
                memcmp(&date, cases[i].date, sizeof cases[i].date) != 0)
                fail_msg("%s, order %d: %d-%d-%d weekday %d %d:%d", cases[i].text, order, date.year,
                         date.month, date.day, date.weekday, date.hour, date.minute);
        assert_int_equal(et_date_orders(cases[i].text, length), 7);
    }
}

static void test_date_text__orders(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned orders;
    } cases[] = {
        { "3/4/2024", 1 << ET_DATE_MONTH_FIRST | 1 << ET_DATE_DAY_FIRST },
        { "3-4-24", 1 << ET_DATE_MONTH_FIRST | 1 << ET_DATE_DAY_FIRST },
        { "4/4/2024", 7 },
        { "13/4/2024", 1 << ET_DATE_DAY_FIRST },
        { "4/13/2024 10:00", 1 << ET_DATE_MONTH_FIRST },
        { "13/13/2024", 0 },
        { "14:30", 1 << ET_DATE_TIME },
        { "9:05", 1 << ET_DATE_TIME },
        { "23:59:59.5", 1 << ET_DATE_TIME },
        { "2:30 PM", 1 << ET_DATE_TIME },
        { "2 PM", 1 << ET_DATE_TIME },
        { "9am", 1 << ET_DATE_TIME },
        { "14", 0 },
        { "24:00", 0 },
        { "75:30", 0 },
        { "1:2", 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (et_date_orders(cases[i].text, strlen(cases[i].text)) != cases[i].orders)
            fail_msg("%s: %u", cases[i].text, et_date_orders(cases[i].text, strlen(cases[i].text)));
    et_date date;
    assert_true(et_date_read(&date, "3/4/2024", 8, ET_DATE_MONTH_FIRST));
    assert_int_equal(date.month, 2);
    assert_int_equal(date.day, 3);
    assert_true(et_date_read(&date, "2:30 PM", 7, ET_DATE_TIME));
    assert_int_equal(date.hour, 14);
    assert_int_equal(date.minute, 30);
    assert_false(et_date_read(&date, "2:30 PM", 7, ET_DATE_MONTH_FIRST));
    assert_false(et_date_read(&date, "2024-05-31", 10, ET_DATE_TIME));
    assert_true(et_date_read(&date, "3/4/2024", 8, ET_DATE_DAY_FIRST));
    assert_int_equal(date.month, 3);
    assert_int_equal(date.day, 2);
}

static void test_date_text__refused(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",
        "2024",
        "2024-13",
        "2024-00",
        "2024-5",
        "4711-08",
        "0999-08",
        "13/2024",
        "05.2024",
        "2024-Q5",
        "2024-Q0",
        "2024-H3",
        "Q3",
        "Q3 24",
        "33Q2024",
        "Q 2024",
        "2024-W54",
        "2021-W53-1",
        "2024-W00",
        "2024-W10-8",
        "2024-W10-",
        "2024-W1",
        "2024-152",
        "2024-05-31 14",
        "2024-05-31 14 PM",
        "2024-05-31T2",
        "2024-05-31 2:30 GMT+",
        "2024-05-31T14:30+02:00[Europe/Berlin",
        "2024-13-01",
        "2023-02-29",
        "2024-00-01",
        "2024-01-00",
        "31.4.2024",
        "1.2.3.4",
        "192.168.10.12",
        "1/2-2024",
        "1.2/2024",
        "1 2 2024",
        "12024-05-31",
        "2024-05-311",
        "5/31/124",
        "1.2.3",
        "Ma 31, 2024",
        "Mayor 31, 2024",
        "May 32, 2024",
        "May",
        "May 31",
        "May-31",
        "2024-05-31T",
        "2024-05-31 ",
        "2024-05-31T24:00",
        "2024-05-31T10:60",
        "2024-05-31T10:00:61",
        "2024-05-31T10:00:00.",
        "2024-05-31T10:00+5",
        "2024-05-31 10:00x",
        "2024-05-31 13:00 PM",
        "2024-05-31 0:30 AM",
        "2024-05-31 10:00 ",
        "2024-05-31, 10",
        "about 2024-05-31",
        "-1.2.2024",
        "31-may-2024-",
        "Fri",
        "Fri, ",
        "Fri 10",
        "20240531",
        "20240531T",
        "20240532T1430",
        "20240531T2460",
        "2024-05-31 14:30 somewhere",
        "2024-05-31 14:30+02:",
        "2024-05-31 14:30 +0200 (CEST",
        "Fri May 31 14:30:00 24",
        "Fri May 32 14:30:00 2024",
        "May 31xx, 2024",
        "\xff\xfe\xfd\xfc\xfb\xfa",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (et_date_orders(cases[i], strlen(cases[i])))
            fail_msg("\"%s\" is a date", cases[i]);
}

/* Seconds since 1970 in UTC: datetime.fromisoformat(...).timestamp(). */
static void test_date_text__seconds(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double seconds;
    } cases[] = {
        { "1970-01-01", 0 },
        { "1969-12-31 23:59:59", -1 },
        { "1950-09-11", -609292800 },
        { "2039-11", 2203718400 },
        { "0000-01-01", ET_DATE_SECONDS_LEAST },
        { "2024-05-31T14:30:00Z", 1717165800 },
        { "2024-05-31 14:30:59.25", 1717165859.25 },
        { "2024-05-31 14:30:59,250", 1717165859.25 },
        { "2024-05-31T14:30:00+02:00", 1717158600 },
        { "2024-05-31T14:30:00+0900", 1717133400 },
        { "2024-05-31T14:30:00-08:00", 1717194600 },
        { "2024-05-31T14:30:00 -03:30", 1717178400 },
        { "2024-05-31 14:30 CEST", 1717158600 },
        { "Fri, 31 May 2024 14:30:00 EST", 1717183800 },
        { "Fri May 31 14:30:00 PDT 2024", 1717191000 },
        { "2024-05-31 14:30 UTC+2", 1717158600 },
        { "2024-05-31 2:30:01 pm", 1717165801 },
        { "20240531T143001Z", 1717165801 },
        { "2016-12-31 23:59:60", 1483228800 },
    };
    et_date date, of;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!et_date_read(&date, cases[i].text, strlen(cases[i].text), ET_DATE_ANY) ||
            fabs(et_date_seconds(&date) - cases[i].seconds) > 0)
            fail_msg("%s: %.6f", cases[i].text, et_date_seconds(&date));
    assert_true(et_date_of_seconds(&of, -0.25));
    assert_int_equal(of.year, 1969);
    assert_int_equal(of.minute, 59);
    assert_true(fabs(et_date_seconds(&of) + 0.25) <= 0);
}

/* Zones: without, of a known offset, and names of unknown offsets, which differ from each other. */
static void test_date_text__zones(void **state)
{
    (void)state;
    static const char *const texts[] = { "2024-05-31 14:30",     "2024-05-31 14:30Z",
                                         "2024-05-31 14:30 EDT", "2024-05-31 14:30 XYZ",
                                         "2024-05-31 14:30 XYT", "2024-05-31 14:30 XYZ" };
    et_date date[6];
    for (int i = 0; i < 6; i++)
        assert_true(et_date_read(&date[i], texts[i], strlen(texts[i]), ET_DATE_ANY));
    assert_int_equal(date[0].zone, 0);
    assert_int_equal(date[1].zone, ET_DATE_OFFSET);
    assert_int_equal(date[2].zone, ET_DATE_OFFSET);
    assert_int_equal(date[2].offset, -240);
    assert_true(date[3].zone > ET_DATE_OFFSET && date[3].zone != date[4].zone);
    assert_int_equal(date[3].zone, date[5].zone);
    assert_int_equal(date[3].offset, 0);
}

/* A text is not terminated: nothing behind its length is read. */
static void test_date_text__length(void **state)
{
    (void)state;
    static const char text[] = "Fri, 31 May 2024 14:30:00 GMT";
    for (size_t length = 0; length < sizeof text - 1; length++) {
        char *copy = malloc(length ? length : 1);
        assert_non_null(copy);
        memcpy(copy, text, length);
        const unsigned orders = et_date_orders(copy, length);
        /* years of two and four digits, hours and minutes, seconds */
        assert_int_equal(orders,
                         length == 14 || length == 16 || length == 22 || length == 25 ? 7 : 0);
        free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_date_text__forms),   cmocka_unit_test(test_date_text__orders),
        cmocka_unit_test(test_date_text__refused), cmocka_unit_test(test_date_text__seconds),
        cmocka_unit_test(test_date_text__zones),   cmocka_unit_test(test_date_text__length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
