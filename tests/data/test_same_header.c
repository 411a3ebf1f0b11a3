#include "data/table/rows/rows.h"

#include "base/main.h"
#include "base/scarce.h"
#include "calls.h"
#include "data/table_fixture.h"

enum { MOST = 4 };

static et_cell cells[2][MOST];

/* A row of texts, in one of two places. */
static et_csv_row row_of(int which, int64_t line, const char *const *texts, int count)
{
    for (int i = 0; i < count; i++)
        cells[which][i] = cell_of(texts[i]);
    return (et_csv_row){ line, count, cells[which] };
}

#define ROW(which, line, ...)                                                                      \
    row_of(which, line, (const char *const[]){ __VA_ARGS__ },                                      \
           (int)COUNT(((const char *const[]){ __VA_ARGS__ })))

static int begin(et_same_header *same, et_error *error)
{
    const et_csv_row first = ROW(0, 1, "Size", NULL, "town", "y");
    return et_same_header_begin(same, "a.csv", &first, error);
}

static void test_same_header__finds_by_name(void **state)
{
    (void)state;
    et_same_header same;
    int place[MOST];
    assert_ok(begin(&same, error));
    et_csv_row other = ROW(1, 1, "y", "column_2", "Size", "town");
    assert_true(et_same_header_is(&same, &other));
    assert_ok(et_same_header_find(&same, place, "b.csv", &other, error));
    assert_true(place[0] == 2 && place[1] == 1 && place[2] == 3 && place[3] == 0);
    other = ROW(1, 3, "y", "size", "Size", "Size");
    assert_fails(et_same_header_find(&same, place, "b.csv", &other, error), ET_EDATA,
                 "b.csv:3: columns 3 and 4 are both called \"Size\"");
    other = ROW(1, 3, "y", "size", NULL);
    assert_fails(
        et_same_header_find(&same, place, "b.csv", &other, error), ET_EDATA,
        "b.csv:3: the header differs from the header of a.csv; this file lacks Size, column_2, "
        "town; this file also has size, column_3: give all files the same columns");
    et_same_header_release(&same);
}

static void test_same_header__what_is_one(void **state)
{
    (void)state;
    et_same_header same;
    assert_ok(begin(&same, error));
    const struct {
        et_csv_row row;
        bool is;
    } rows[] = {
        { ROW(0, 1, "SIZE", "1", "TOWN", "2"), true }, /* half of them are names */
        { ROW(1, 1, "y", "1", "2", "3"), false },
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(et_same_header_is(&same, &rows[i].row), rows[i].is);
    et_csv_row row = ROW(0, 1, "y", "a", "b", NULL);
    assert_true(et_same_header_is(&same, &row)); /* no number */
    row = ROW(0, 1, "u", "a", "b", NULL);
    assert_false(et_same_header_is(&same, &row)); /* no name */
    const et_csv_known known = et_same_header_known(&same, ';');
    assert_true(known.delimiter == ';' && known.least == MOST && known.most == MOST);
    assert_true(known.is_name(known.payload, "sIzE, ", 4));
    assert_false(known.is_name(known.payload, "siz", 3));
    assert_false(known.is_name(known.payload, "", 0));
    et_same_header_release(&same);
}

static void test_same_header__out_of_memory(void **state)
{
    (void)state;
    int status = ET_ENOMEM;
    for (long calls = 0; status; calls++) {
        et_error error = ET_ERROR_INIT;
        et_same_header same;
        int place[MOST];
        scarce_begin(calls);
        status = begin(&same, &error);
        const et_csv_row other = ROW(1, 1, "y", "column_2", "Size", "town");
        if (!status) {
            status = et_same_header_find(&same, place, "b.csv", &other, &error);
            et_same_header_release(&same);
        }
        scarce_end();
        assert_int_equal(status, scarce_failed ? ET_ENOMEM : ET_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_header__finds_by_name),
        cmocka_unit_test(test_same_header__what_is_one),
        cmocka_unit_test(test_same_header__out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
