/* Rows that are learned and rows that are validated: by draw, by groups, by time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "calls.h"
#include "tasks/tabular/setup/setup_private.h"

enum { ROWS = 1003, FOLDS = 5 };

static unsigned char side[ROWS], again[ROWS];
static int32_t class[ROWS];
static uint64_t group[ROWS];
static double time_of[ROWS];

static int64_t fold;

/* The sides when `fold` is validated. */
static int split(unsigned char *sides, const et_tabular_splitting *how, et_error *error)
{
    int status = et_tabular_parts(sides, how, error);
    for (int64_t i = 0; !status && i < how->rows; i++)
        sides[i] = (unsigned char)et_tabular_side_of(how, sides[i], fold);
    return status;
}

static int64_t count(int wanted, int which)
{
    int64_t rows = 0;
    for (int i = 0; i < ROWS; i++)
        rows += side[i] == wanted && (which < 0 || class[i] == which);
    return rows;
}

/* Each row is validated once; of each class all folds have the same number, to a row. */
static void test_folds__stratified(void **state)
{
    (void)state;
    int times[ROWS] = { 0 };
    int64_t of[3] = { 0 };
    et_tabular_splitting how = { .rows = ROWS, .class = class, .folds = FOLDS, .seed = 3 };
    for (int i = 0; i < ROWS; i++)
        of[class[i] = i < 23 ? 2 : i % 2]++;
    for (fold = 0; fold < FOLDS; fold++) {
        assert_ok(split(side, &how, error));
        assert_ok(split(again, &how, error));
        assert_memory_equal(side, again, sizeof side);
        assert_int_equal(count(ET_TABULAR_UNUSED, -1), 0);
        for (int c = 0; c < 3; c++)
            assert_in_range(count(ET_TABULAR_VALIDATED, c), of[c] / FOLDS, of[c] / FOLDS + 1);
        for (int i = 0; i < ROWS; i++)
            times[i] += side[i] == ET_TABULAR_VALIDATED;
    }
    for (int i = 0; i < ROWS; i++)
        assert_int_equal(times[i], 1);
    fold = FOLDS - 1;
    how.seed = 4;
    assert_ok(split(side, &how, error));
    assert_memory_not_equal(side, again, sizeof side);
}

static void check_groups(int64_t rows)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < i; k++)
            if (group[i] == group[k])
                assert_int_equal(side[i], side[k]);
}

/* Groups of any size, in any order of rows, are whole, and every row is validated once. */
static void test_folds__groups(void **state)
{
    (void)state;
    int times[ROWS] = { 0 };
    et_tabular_splitting how = {
        .rows = ROWS, .class = class, .group = group, .folds = FOLDS, .seed = 3
    };
    for (int i = 0; i < ROWS; i++) {
        group[i] = i % 7 ? (uint64_t)(i * 37 % 60) << 40 : 9;
        class[i] = group[i] != 9 && (group[i] >> 40) % 4 == 0;
    }
    for (fold = 0; fold < FOLDS; fold++) {
        assert_ok(split(side, &how, error));
        check_groups(ROWS);
        assert_in_range(count(ET_TABULAR_VALIDATED, -1), ROWS / 7, ROWS / 4);
        /* 215 rows of class 1 in 15 groups. */
        assert_in_range(count(ET_TABULAR_VALIDATED, 1), 28, 58);
        for (int i = 0; i < ROWS; i++)
            times[i] += side[i] == ET_TABULAR_VALIDATED;
    }
    for (int i = 0; i < ROWS; i++)
        assert_int_equal(times[i], 1);
    for (int i = 0; i < ROWS; i++)
        group[i] = (uint64_t)i % 4;
    fold = 0;
    assert_fails(split(side, &how, error), ET_EDATA, "4 groups, fewer than the 5");
}

/* Sizes of the folds, and rows of each class in them. */
static void check_sizes(et_tabular_splitting how, const int64_t *sizes)
{
    int64_t got[FOLDS] = { 0 }, all = 0;
    for (fold = 0; fold < how.folds; fold++) {
        assert_ok(split(side, &how, error));
        check_groups(how.rows);
        int64_t rows = 0;
        for (int64_t i = 0; i < how.rows; i++)
            rows += side[i] == ET_TABULAR_VALIDATED;
        int64_t at = fold;
        for (; at > 0 && got[at - 1] < rows; at--)
            got[at] = got[at - 1];
        got[at] = rows;
        all += rows;
    }
    assert_int_equal(all, how.rows);
    for (int64_t i = 0; i < how.folds; i++)
        assert_int_equal(got[i], sizes[i]);
}

/* Groups of one class each: sizes of folds as scikit-learn 1.9 (StratifiedGroupKFold) has them, in
 * descending order. No fold is empty while there are as many groups. */
static void test_folds__groups_of_one_class(void **state)
{
    (void)state;
    et_tabular_splitting how = { .rows = 240, .class = class, .group = group, .folds = 5 };
    for (int i = 0; i < 240; i++) {
        group[i] = (uint64_t)i % 12;
        class[i] = i % 12 / 4;
    }
    for (how.seed = 0; how.seed < 5; how.seed++)
        check_sizes(how, (const int64_t[]){ 60, 60, 40, 40, 40 });
    how = (et_tabular_splitting){ .rows = 200, .class = class, .group = group, .folds = 3 };
    for (int i = 0; i < 200; i++) {
        group[i] = (uint64_t)i / 10;
        class[i] = i / 20;
    }
    check_sizes(how, (const int64_t[]){ 70, 70, 60 });
    how.class = NULL; /* GroupKFold */
    check_sizes(how, (const int64_t[]){ 70, 70, 60 });
    /* A class in each group: 5 groups of 5 classes for 5 folds. */
    how = (et_tabular_splitting){ .rows = 50, .class = class, .group = group, .folds = 5 };
    for (int i = 0; i < 50; i++)
        class[i] = (int32_t)(group[i] = (uint64_t)i % 5);
    check_sizes(how, (const int64_t[]){ 10, 10, 10, 10, 10 });
    /* The example of StratifiedGroupKFold's documentation. */
    static const int documented[][2] = { { 0, 1 }, { 0, 1 }, { 1, 2 }, { 1, 2 }, { 1, 3 }, { 1, 3 },
                                         { 1, 3 }, { 1, 4 }, { 0, 5 }, { 0, 5 }, { 0, 5 }, { 0, 5 },
                                         { 0, 6 }, { 0, 6 }, { 0, 7 }, { 0, 8 }, { 0, 8 } };
    how = (et_tabular_splitting){ .rows = 17, .class = class, .group = group, .folds = 3 };
    for (int i = 0; i < 17; i++) {
        class[i] = documented[i][0];
        group[i] = (uint64_t)documented[i][1];
    }
    check_sizes(how, (const int64_t[]){ 6, 6, 5 });
}

/* A share in whole groups: at least one group on each side. */
static void test_folds__held_out_groups(void **state)
{
    (void)state;
    et_tabular_splitting how = { .rows = ROWS, .group = group, .share = 0.15, .seed = 3 };
    fold = 0;
    for (int i = 0; i < ROWS; i++)
        group[i] = (uint64_t)i % 100;
    assert_ok(split(side, &how, error));
    check_groups(ROWS);
    assert_in_range(count(ET_TABULAR_VALIDATED, -1), 150, 161);
    for (int i = 0; i < ROWS; i++)
        group[i] = i < 1000;
    for (how.seed = 0; how.seed < 8; how.seed++) {
        assert_ok(split(side, &how, error));
        check_groups(ROWS);
        assert_in_range(count(ET_TABULAR_VALIDATED, -1), 1, ROWS - 1);
    }
    /* A group of most rows is learned, whichever is drawn first; of large groups, the smallest. */
    for (int i = 0; i < ROWS; i++)
        group[i] = i < ROWS - 200 ? 0 : (uint64_t)(1 + i % 40);
    for (how.seed = 0; how.seed < 8; how.seed++) {
        assert_ok(split(side, &how, error));
        check_groups(ROWS);
        assert_in_range(count(ET_TABULAR_VALIDATED, -1), 150, 200);
    }
    for (int i = 0; i < ROWS; i++)
        group[i] = i < ROWS - 400 ? (uint64_t)i % 2 : 2;
    for (how.seed = 0; how.seed < 8; how.seed++) {
        assert_ok(split(side, &how, error));
        assert_int_equal(count(ET_TABULAR_VALIDATED, -1), 301);
    }
    memset(group, 0, sizeof group);
    assert_fails(split(side, &how, error), ET_EDATA, "1 group");
}

static void check_times(void)
{
    double learned = -1, first = 1e9, last = -1, unused = 1e9;
    for (int i = 0; i < ROWS; i++) {
        const double t = time_of[i];
        if (side[i] == ET_TABULAR_LEARNED)
            learned = t > learned ? t : learned;
        else if (side[i] == ET_TABULAR_UNUSED)
            unused = t < unused ? t : unused;
        else {
            first = t < first ? t : first;
            last = t > last ? t : last;
        }
    }
    assert_true(learned < first && first <= last && last < unused);
}

/* Validation is later than training, also where several rows have one time. */
static void test_folds__time(void **state)
{
    (void)state;
    et_tabular_splitting how = { .rows = ROWS, .time = time_of, .folds = FOLDS };
    for (int i = 0; i < ROWS; i++)
        time_of[i] = i * 379 % ROWS / 7;
    for (fold = 0; fold < FOLDS; fold++) {
        assert_ok(split(side, &how, error));
        check_times();
        assert_in_range(count(ET_TABULAR_VALIDATED, -1), ROWS / 6 - 7, ROWS / 6 + 8);
        assert_in_range(count(ET_TABULAR_LEARNED, -1), (fold + 1) * ROWS / 6,
                        (fold + 1) * ROWS / 6 + 8);
    }
    fold = 0;
    how = (et_tabular_splitting){ .rows = ROWS, .time = time_of, .share = 0.2 };
    assert_ok(split(side, &how, error));
    check_times();
    assert_in_range(count(ET_TABULAR_VALIDATED, -1), ROWS / 5 - 7, ROWS / 5 + 1);
    for (int i = 0; i < ROWS; i++)
        time_of[i] = i % 3 == 0;
    assert_ok(split(side, &how, error));
    check_times();
    how.share = 0;
    how.folds = 2;
    assert_fails(split(side, &how, error), ET_EDATA, "too few different times");
    /* As many times as blocks, most rows at the last or first one. */
    how.folds = 3;
    for (int late = 0; late < 2; late++)
        for (fold = 0; fold < 3; fold++) {
            for (int i = 0; i < ROWS; i++)
                time_of[i] = late ? 3 - (i < 3 ? i : 3) : i < 3 ? i : 3;
            assert_ok(split(side, &how, error));
            for (int i = 0; i < ROWS; i++)
                assert_int_equal(side[i], time_of[i] <= (double)fold       ? ET_TABULAR_LEARNED
                                          : time_of[i] <= (double)fold + 1 ? ET_TABULAR_VALIDATED
                                                                           : ET_TABULAR_UNUSED);
        }
    memset(time_of, 0, sizeof time_of);
    how.folds = 0;
    how.share = 0.2;
    assert_fails(split(side, &how, error), ET_EDATA, "the same time");
}

/* Fewer rows than folds. */
static void test_folds__few_rows(void **state)
{
    (void)state;
    et_tabular_splitting how = { .rows = 4, .folds = FOLDS };
    fold = 0;
    assert_fails(split(side, &how, error), ET_EDATA, "4 rows for 5 folds");
    how.rows = 5;
    assert_ok(split(side, &how, error));
    how.time = time_of;
    assert_fails(split(side, &how, error), ET_EDATA, "5 rows for 5 folds");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folds__stratified),
        cmocka_unit_test(test_folds__groups),
        cmocka_unit_test(test_folds__groups_of_one_class),
        cmocka_unit_test(test_folds__held_out_groups),
        cmocka_unit_test(test_folds__time),
        cmocka_unit_test(test_folds__few_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
