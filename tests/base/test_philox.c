#include "base/numbers/philox.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/main.h"

/* Known answers: file kat_vectors of Random123 1.14, lines philox4x32 10. */
static void test_philox__known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], expected[4];
    } rows[] = {
        { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
          { 0xffffffff, 0xffffffff },
          { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
          { 0xa4093822, 0x299f31d0 },
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        et_philox_block block = et_philox(rows[i].counter, rows[i].key);
        assert_memory_equal(block.word, rows[i].expected, sizeof block.word);
    }
}

/* The layout of counter and key that the header promises, with the third known answer. */
static void test_philox__block_layout(void **state)
{
    (void)state;
    static const uint32_t expected[4] = { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 };
    et_random random = { .seed = 0x299f31d0a4093822,
                         .step = 0x1111111113198a2e,
                         .site = 0x03707344 ^ 0x11111111 };
    et_philox_block block = et_random_block(random, 0x85a308d3243f6a88);
    assert_memory_equal(block.word, expected, sizeof expected);
}

enum { SAMPLES = 40000 };

/* Means of the first four powers of the uniform distribution; four standard errors. */
static void test_philox__uniform_moments(void **state)
{
    (void)state;
    et_random random = { 7, 3, et_random_site("uniform") };
    double sums[4] = { 0 };
    for (uint64_t i = 0; i < SAMPLES; i++) {
        double u = et_random_uniform(random, i);
        assert_true(u >= 0 && u < 1);
        for (int power = 0; power < 4; power++)
            sums[power] += pow(u, power + 1);
    }
    for (int power = 1; power <= 4; power++) {
        double variance = 1.0 / (2 * power + 1) - 1.0 / ((power + 1) * (power + 1));
        double expected = 1.0 / (power + 1);
        assert_true(fabs(sums[power - 1] / SAMPLES - expected) < 4 * sqrt(variance / SAMPLES));
    }
}

/* Mean 0, variance 1, third moment 0, fourth 3 (their variances: 1, 2, 15, 96); neighbours, which
 * share a block, are not correlated. */
static void test_philox__normal_moments(void **state)
{
    (void)state;
    static const double expected[] = { 0, 1, 0, 3 }, variances[] = { 1, 2, 15, 96 };
    et_random random = { 7, 3, et_random_site("normal") };
    double sums[4] = { 0 }, products = 0, before = 0;
    for (uint64_t i = 0; i < SAMPLES; i++) {
        double x = et_random_normal(random, i);
        assert_true(isfinite(x));
        for (int power = 0; power < 4; power++)
            sums[power] += pow(x, power + 1);
        products += x * before;
        before = x;
    }
    for (int i = 0; i < 4; i++)
        assert_true(fabs(sums[i] / SAMPLES - expected[i]) < 4 * sqrt(variances[i] / SAMPLES));
    assert_true(fabs(products / SAMPLES) < 4 / sqrt(SAMPLES));
}

/* The inverse of the distribution function at the word's probability, by the C library's erfc:
 * an error of p in probability is one of p / density in the number. Far out where words are
 * picked, since elements hardly come there. */
static void test_philox__normal_inverts(void **state)
{
    (void)state;
    et_random random = { 11, 0, et_random_site("inverts") };
    double worst = 0, furthest = 0;
    for (uint64_t i = 0; i < 20 * SAMPLES; i++) {
        uint32_t word = et_random_block(random, i / 4).word[i % 4];
        double x = et_random_normal(random, i);
        double lower = (word + 0.5) * 0x1p-32;
        assert_true(x * (lower - 0.5) > 0);
        double tail = lower < 0.5 ? lower : 1 - lower;
        double density = exp(-x * x / 2) * 0.39894228040143268;
        double off = fabs(0.5 * erfc(fabs(x) * 0.70710678118654752) - tail) / density;
        worst = fmax(worst, off / fmax(fabs(x), 0.01));
        furthest = fmax(furthest, fabs(x));
    }
    assert_true(worst < 2e-6);
    assert_true(furthest > 4.5); /* the second polynomial begins at 2.9 */
}

static void test_philox__below(void **state)
{
    (void)state;
    enum { BOUND = 6 };
    et_random random = { 1, 2, 3 };
    int counts[BOUND] = { 0 };
    for (uint64_t i = 0; i < SAMPLES; i++) {
        uint64_t drawn = et_random_below(random, i, BOUND);
        assert_true(drawn < BOUND);
        counts[drawn]++;
    }
    double chi_squared = 0, mean = (double)SAMPLES / BOUND;
    for (int i = 0; i < BOUND; i++)
        chi_squared += (counts[i] - mean) * (counts[i] - mean) / mean;
    assert_true(chi_squared < 20.5); /* 0.999 quantile, 5 degrees of freedom */
    assert_int_equal(et_random_below(random, 0, 1), 0);
    uint64_t high = 0;
    for (uint64_t i = 0; i < 64; i++)
        high |= et_random_below(random, i, UINT64_MAX);
    assert_int_equal(high >> 60, 15);
}

static void test_philox__permutation(void **state)
{
    (void)state;
    enum { LENGTH = 1000 };
    uint32_t order[LENGTH], other[LENGTH];
    bool seen[LENGTH] = { false };
    int fixed = 0;
    et_random_permutation((et_random){ 5, 0, 1 }, order, LENGTH);
    for (uint32_t i = 0; i < LENGTH; i++) {
        assert_true(order[i] < LENGTH && !seen[order[i]]);
        seen[order[i]] = true;
        fixed += order[i] == i;
    }
    assert_true(fixed < 10);
    et_random_permutation((et_random){ 5, 1, 1 }, other, LENGTH);
    assert_memory_not_equal(order, other, sizeof order);
    et_random_permutation((et_random){ 5, 0, 1 }, other, LENGTH);
    assert_memory_equal(order, other, sizeof order);
    et_random_permutation((et_random){ 5, 0, 1 }, order, 0);
    et_random_permutation((et_random){ 5, 0, 1 }, order, 1);
    assert_int_equal(order[0], 0);
}

/* All six orders of three come equally often. */
static void test_philox__permutation_is_fair(void **state)
{
    (void)state;
    enum { DRAWS = 6000 };
    int counts[3][3] = { { 0 } };
    for (uint64_t step = 0; step < DRAWS; step++) {
        uint32_t order[3];
        et_random_permutation((et_random){ 9, step, 4 }, order, 3);
        counts[order[0]][order[1]]++;
    }
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            assert_true(i == j ? counts[i][j] == 0 : abs(counts[i][j] - DRAWS / 6) < 120);
}

/* Every number once, for powers of two and their neighbours too; other orders for other steps. */
static void test_philox__order(void **state)
{
    (void)state;
    static const uint32_t counts[] = { 1, 2, 3, 4, 5, 16, 17, 255, 256, 257, 1000 };
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        bool seen[1000] = { false };
        uint32_t fixed = 0, shared = 0, count = counts[k];
        et_random_order order = et_random_order_of((et_random){ 5, 0, 1 }, count);
        et_random_order other = et_random_order_of((et_random){ 5, 1, 1 }, count);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t at = et_random_order_at(&order, i);
            assert_true(at < count && !seen[at]);
            seen[at] = true;
            fixed += at == i;
            shared += at == et_random_order_at(&other, i);
        }
        assert_true(count < 255 || (fixed < 10 && shared < 10));
    }
    et_random_order most = et_random_order_of((et_random){ 5, 0, 1 }, UINT32_MAX);
    assert_true(et_random_order_at(&most, 0) != et_random_order_at(&most, UINT32_MAX - 1));
}

/* All six orders of three come equally often, and of many each number at each place. */
static void test_philox__order_is_fair(void **state)
{
    (void)state;
    enum { DRAWS = 6000, MANY = 24 };
    int counts[3][3] = { { 0 } }, places[MANY][MANY] = { { 0 } };
    for (uint64_t step = 0; step < DRAWS; step++) {
        et_random_order three = et_random_order_of((et_random){ 9, step, 4 }, 3);
        et_random_order many = et_random_order_of((et_random){ 9, step, 5 }, MANY);
        counts[et_random_order_at(&three, 0)][et_random_order_at(&three, 1)]++;
        for (uint32_t i = 0; i < MANY; i++)
            places[i][et_random_order_at(&many, i)]++;
    }
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            assert_true(i == j ? counts[i][j] == 0 : abs(counts[i][j] - DRAWS / 6) < 120);
    for (int i = 0; i < MANY; i++)
        for (int j = 0; j < MANY; j++)
            assert_true(abs(places[i][j] - DRAWS / MANY) < 80); /* five standard deviations */
}

/* Test vectors of FNV-1a, 32 bits: draft-eastlake-fnv, appendix C. */
static void test_philox__site(void **state)
{
    (void)state;
    assert_int_equal(et_random_site(""), 0x811c9dc5);
    assert_int_equal(et_random_site("a"), 0xe40c292c);
    assert_int_equal(et_random_site("foobar"), 0xbf9cf968);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_philox__known_answers),
        cmocka_unit_test(test_philox__block_layout),
        cmocka_unit_test(test_philox__uniform_moments),
        cmocka_unit_test(test_philox__normal_moments),
        cmocka_unit_test(test_philox__normal_inverts),
        cmocka_unit_test(test_philox__below),
        cmocka_unit_test(test_philox__permutation),
        cmocka_unit_test(test_philox__permutation_is_fair),
        cmocka_unit_test(test_philox__order),
        cmocka_unit_test(test_philox__order_is_fair),
        cmocka_unit_test(test_philox__site),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
