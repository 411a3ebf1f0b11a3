#include "base/main.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/scarce.h"
#include "data/table/analysis/sketch.h"

/* Values between 0 and 1 that look random. */
static double uniform(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 11) / 9007199254740992.0;
}

static int compare(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* ---- sorting ---- */

static void fill(double *values, int count, int shape, uint64_t *seed)
{
    for (int i = 0; i < count; i++) {
        double u = uniform(seed);
        uint64_t bits;
        switch (shape) {
        case 0:
            values[i] = u - 0.5;
            break;
        case 1: /* few, negative ones too */
            values[i] = floor(u * 7) - 3;
            break;
        case 2: /* times, with one value far away: the digits that differ are the last ones */
            values[i] = i == 7 ? -1e300 : 1.6e9 + floor(u * 1e6) / 1024;
            break;
        case 3: /* all sizes */
            values[i] = (u < 0.5 ? -1 : 1) * exp((uniform(seed) - 0.5) * 1400);
            break;
        case 4:
            values[i] = 42;
            break;
        case 5:
            values[i] = count - i;
            break;
        default: /* any bits of a finite number */
            do {
                bits = (uint64_t)(uniform(seed) * 4294967296.0) << 32 |
                       (uint64_t)(uniform(seed) * 4294967296.0);
                memcpy(&values[i], &bits, sizeof bits);
            } while (!isfinite(values[i]));
        }
    }
}

static void test_sketch__sort(void **state)
{
    (void)state;
    static const int counts[] = { 0, 1, 2, 3, 31, 32, 100, 1000, 2047, 2048 };
    double values[2048], expected[2048];
    uint64_t seed = 3;
    for (int shape = 0; shape < 7; shape++)
        for (size_t i = 0; i < COUNT(counts); i++) {
            int count = counts[i];
            fill(values, count, shape, &seed);
            memcpy(expected, values, (size_t)count * sizeof *values);
            qsort(expected, (size_t)count, sizeof *expected, compare);
            et_sketch_sort(values, count);
            for (int k = 0; k < count; k++)
                if (values[k] != expected[k])
                    fail_msg("shape %d, %d values: %g at %d, not %g", shape, count, values[k], k,
                             expected[k]);
        }
}

/* ---- quantiles ---- */

/* The largest distance, in ranks as a part of all, of quantiles 1/256 to 255/256 from the true
 * ones. */
static double worst_rank(const et_sketch_view *view, const double *sorted, size_t count)
{
    double worst = 0;
    for (int q = 1; q < 256; q++) {
        double value = et_sketch_quantile(view, q / 256.0);
        size_t below = 0, upto = count;
        for (size_t low = 0, high = count; low < high; below = low) {
            size_t middle = (low + high) / 2;
            if (sorted[middle] < value)
                low = middle + 1;
            else
                high = middle;
        }
        for (upto = below; upto < count && sorted[upto] == value; upto++)
            ;
        double rank = q / 256.0 * (double)(count - 1);
        double off = rank < (double)below  ? (double)below - rank
                     : rank > (double)upto ? rank - (double)upto
                                           : 0;
        worst = fmax(worst, off / (double)count);
    }
    return worst;
}

static void test_sketch__error(void **state)
{
    (void)state;
    static const struct {
        size_t count;
        double worst;
    } sizes[] = { { 2048, 0.001 }, { 30000, 0.004 }, { 300000, 0.004 }, { 3000000, 0.004 } };
    uint64_t seed = 17;
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (int shape = 0; shape < 4; shape++) {
            size_t count = sizes[i].count;
            double *values = malloc(count * sizeof *values);
            for (size_t k = 0; k < count; k++) {
                double u = uniform(&seed);
                values[k] = shape == 0   ? u
                            : shape == 1 ? (double)k                 /* rising */
                            : shape == 2 ? floor(u * 50)             /* few */
                                         : tan(3.14159 * (u - 0.5)); /* without a mean */
            }
            et_sketch sketch;
            et_sketch_view view;
            et_sketch_init(&sketch, 1024, 7);
            assert_true(et_sketch_add(&sketch, values, count));
            assert_true(et_sketch_view_init(&view, &sketch));
            assert_true(view.count <= 14 * 1024);
            assert_true(fabs((double)view.total / (double)count - 1) < 1e-4);
            qsort(values, count, sizeof *values, compare);
            double worst = worst_rank(&view, values, count);
            if (worst > sizes[i].worst)
                fail_msg("%zu values of shape %d: off by %g", count, shape, worst);
            et_sketch_view_release(&view);
            et_sketch_release(&sketch);
            free(values);
        }
}

/* Up to 2 * width values are kept unchanged: numpy.quantile's values. */
static void test_sketch__exact(void **state)
{
    (void)state;
    static const double values[] = { 3, 1, 4, 1, 5, 9, 2, 6, 5, 3 };
    static const struct {
        double fraction, value;
    } expected[] = { { 0, 1 },      { 0.1, 1 },   { 0.25, 2.25 }, { 0.5, 3.5 },
                     { 0.75, 5.0 }, { 0.9, 6.3 }, { 1, 9 } };
    et_sketch sketch;
    et_sketch_view view;
    et_sketch_init(&sketch, 16, 0);
    assert_true(et_sketch_view_init(&view, &sketch));
    assert_true(isnan(et_sketch_quantile(&view, 0.5)) &&
                et_sketch_fraction(&view, 0, 1, true) == 0);
    et_sketch_view_release(&view);
    assert_true(et_sketch_add(&sketch, values, COUNT(values)));
    assert_true(et_sketch_view_init(&view, &sketch));
    for (size_t i = 0; i < COUNT(expected); i++)
        assert_true(fabs(et_sketch_quantile(&view, expected[i].fraction) - expected[i].value) <
                    1e-12);
    assert_true(fabs(et_sketch_fraction(&view, 1, 3, false) - 0.3) < 1e-12);
    assert_true(fabs(et_sketch_fraction(&view, 1, 3, true) - 0.5) < 1e-12);
    et_sketch_view_release(&view);
    et_sketch_release(&sketch);
}

/* However values are handed over. */
static void test_sketch__pieces(void **state)
{
    (void)state;
    enum { MANY = 1200000 };
    double *values = malloc(MANY * sizeof *values);
    uint64_t seed = 5;
    for (int i = 0; i < MANY; i++)
        values[i] = uniform(&seed);
    et_sketch_view views[2];
    for (int way = 0; way < 2; way++) {
        et_sketch sketch;
        et_sketch_init(&sketch, 64, 9);
        for (size_t at = 0, count; at < MANY; at += count) {
            count = way ? 1 + (size_t)(uniform(&seed) * 5000) : MANY;
            count = count < MANY - at ? count : MANY - at;
            assert_true(et_sketch_add(&sketch, values + at, count));
        }
        assert_true(et_sketch_view_init(&views[way], &sketch));
        et_sketch_release(&sketch);
    }
    assert_int_equal(views[0].count, views[1].count);
    assert_memory_equal(views[0].value, views[1].value, views[0].count * sizeof(double));
    assert_memory_equal(views[0].weight, views[1].weight, views[0].count * sizeof(int64_t));
    et_sketch_view_release(&views[0]);
    et_sketch_view_release(&views[1]);
    free(values);
}

static void test_sketch__scarce(void **state)
{
    (void)state;
    double values[100];
    for (int i = 0; i < 100; i++)
        values[i] = i;
    for (long n = 0;; n++) {
        et_sketch sketch;
        et_sketch_view view;
        scarce_begin(n);
        et_sketch_init(&sketch, 16, 0);
        bool sound = true;
        for (int i = 0; i < 20 && sound; i++)
            sound = et_sketch_add(&sketch, values, 100);
        sound = sound && et_sketch_view_init(&view, &sketch);
        if (sound)
            et_sketch_view_release(&view);
        et_sketch_release(&sketch);
        bool failed = scarce_failed;
        scarce_end();
        assert_int_equal(sound, !failed);
        if (sound)
            break;
    }
}

/* ---- distinct values ---- */

static void test_distinct__estimate(void **state)
{
    (void)state;
    static const int counts[] = { 0, 1, 10, 300, 3000, 9000, 12000, 20000, 100000, 2000000 };
    for (size_t i = 0; i < COUNT(counts); i++) {
        et_distinct distinct;
        assert_true(et_distinct_init(&distinct, 12));
        for (int k = 0; k < counts[i]; k++)
            for (int again = 0; again < (counts[i] < 10000 ? 3 : 1); again++)
                et_distinct_add_numbers(&distinct, &(double){ k * 0.37 }, 1);
        double estimate = et_distinct_estimate(&distinct);
        if (fabs(estimate - counts[i]) > 0.04 * counts[i] + 0.5)
            fail_msg("%d: %g", counts[i], estimate);
        et_distinct_release(&distinct);
    }
    et_distinct distinct;
    assert_true(et_distinct_init(&distinct, 12));
    et_distinct_add_numbers(&distinct, (const double[]){ 0.0, -0.0 }, 2);
    assert_true(fabs(et_distinct_estimate(&distinct) - 1) < 0.1);
    et_distinct_release(&distinct);
}

/* ---- entries ---- */

static void count_text(et_entries *entries, const char *text, size_t length)
{
    et_entry *entry = et_entries_find(entries, text, length);
    if (entry)
        entry->count++;
    else
        assert_non_null(et_entries_add(entries, text, length));
}

/* Texts of every length around words, differing in one byte. */
static void test_entries__texts(void **state)
{
    (void)state;
    char text[40];
    et_entries entries;
    et_entries_init(&entries, 100000);
    for (int round = 1; round <= 3; round++)
        for (size_t length = 0; length < sizeof text; length++)
            for (size_t at = 0; at <= length; at++) {
                memset(text, 'a', sizeof text);
                if (at < length)
                    text[at] = 'b';
                /* in memory of exactly its length */
                char *copy = malloc(length);
                memcpy(copy, text, length);
                count_text(&entries, copy, length);
                free(copy);
            }
    assert_int_equal(entries.count, 40 * 41 / 2);
    assert_int_equal(entries.error, 0);
    for (size_t i = 0; i < entries.count; i++)
        assert_int_equal(entries.entry[i].count, 3);
    et_entries_sort(&entries);
    assert_int_equal(entries.entry[0].length, 0);
    assert_int_equal(entries.entry[1].length, 1);
    assert_memory_equal(et_entries_text(&entries, &entries.entry[2]), "aa", 2);
    et_entries_release(&entries);
}

/* Ten frequent texts among very many that occur once: they stay, with counts that are too low by at
 * most the reported error. */
static void test_entries__frequent(void **state)
{
    (void)state;
    char text[24];
    et_entries entries;
    uint64_t seed = 1;
    int64_t truth[10] = { 0 }, rows = 300000;
    et_entries_init(&entries, 500);
    for (int64_t i = 0; i < rows; i++) {
        int which = (int)(uniform(&seed) * 100);
        if (which < 10) {
            snprintf(text, sizeof text, "often %d", which);
            truth[which]++;
        } else
            snprintf(text, sizeof text, "once %lld", (long long)i);
        count_text(&entries, text, strlen(text));
        assert_true(entries.count <= 500);
    }
    assert_true(entries.error > 0 && entries.error < rows / 200);
    et_entries_sort(&entries);
    for (int i = 0; i < 10; i++) {
        const et_entry *entry = &entries.entry[i];
        const char *found = et_entries_text(&entries, entry);
        assert_memory_equal(found, "often ", 6);
        int64_t expected = truth[found[6] - '0'];
        assert_true(entry->count <= expected && entry->count >= expected - entries.error);
    }
    et_entries_release(&entries);
}

/* Counts above the largest that are counted one by one. */
static void test_entries__large_counts(void **state)
{
    (void)state;
    et_entries entries;
    et_entries_init(&entries, 4);
    for (int i = 0; i < 4; i++) {
        char name = (char)('a' + i);
        count_text(&entries, &name, 1);
        et_entries_find(&entries, &name, 1)->count = 1000 * (i + 1);
    }
    count_text(&entries, "e", 1);
    assert_int_equal(entries.error, 3000);
    assert_int_equal(entries.count, 2);
    assert_int_equal(et_entries_find(&entries, "d", 1)->count, 1000);
    assert_int_equal(et_entries_find(&entries, "e", 1)->count, 1);
    assert_null(et_entries_find(&entries, "a", 1));
    et_entries_release(&entries);
}

static void test_entries__scarce(void **state)
{
    (void)state;
    for (long n = 0;; n++) {
        et_entries entries;
        bool sound = true;
        scarce_begin(n);
        et_entries_init(&entries, 50);
        for (int i = 0; i < 300 && sound; i++) {
            char text[48];
            snprintf(text, sizeof text, "some text that is long %d", i);
            sound = et_entries_add(&entries, text, strlen(text)) != NULL;
        }
        et_entries_release(&entries);
        bool failed = scarce_failed;
        scarce_end();
        assert_int_equal(sound, !failed);
        if (sound)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sketch__sort),          cmocka_unit_test(test_sketch__error),
        cmocka_unit_test(test_sketch__exact),         cmocka_unit_test(test_sketch__pieces),
        cmocka_unit_test(test_sketch__scarce),        cmocka_unit_test(test_distinct__estimate),
        cmocka_unit_test(test_entries__texts),        cmocka_unit_test(test_entries__frequent),
        cmocka_unit_test(test_entries__large_counts), cmocka_unit_test(test_entries__scarce),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
