#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "tasks/translation/beam.h"

#define EOS 1

/* ((5 + length) / 6)^0.6 as published for the reference. */
static void test_beam__length_norm(void **state)
{
    (void)state;
    const struct {
        int length;
        double norm;
    } cases[] = { { 1, 1.0 },     { 2, 1.0969 },  { 5, 1.3587 },
                  { 10, 1.7329 }, { 50, 3.7786 }, { 100, 5.5696 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_true(fabs(et_beam_length_norm(cases[i].length, 0.6) - cases[i].norm) < 5e-5);
}

static void open_beam(et_beam *beam, int size, double alpha)
{
    et_error error = ET_ERROR_INIT;
    et_beam_options options = { size, alpha, EOS };
    assert_int_equal(et_beam_init(beam, &options, 8, &error), ET_OK);
    et_beam_begin(beam, 8);
}

static void assert_result(const et_beam *beam, const int32_t *expected, int expected_count,
                          float expected_score)
{
    int count;
    float score;
    const int32_t *ids = et_beam_result(beam, &count, &score);
    assert_int_equal(count, expected_count);
    for (int i = 0; i < count; i++)
        assert_int_equal(ids[i], expected[i]);
    assert_true(fabsf(score - expected_score) < 1e-5f);
}

/* Greedy takes the likelier piece at once; a beam of two finds the better whole. */
static void test_beam__two_see_further_than_one(void **state)
{
    (void)state;
    int parent[2];
    int32_t next[2];
    et_beam beam;
    /* first pieces: 5 with log p -0.5, 6 with -1.0; then 5 ends badly, 6 ends well */
    open_beam(&beam, 2, 0);
    const float first[8] = { -0.5f, -1.0f, -9, -9, -0.5f, -1.0f, -9, -9 };
    const int32_t first_piece[8] = { 5, 6, 7, 8, 5, 6, 7, 8 };
    et_beam_advance(&beam, first, first_piece, parent, next);
    assert_int_equal(next[0], 5);
    assert_int_equal(next[1], 6);
    assert_int_equal(parent[0], 0);
    assert_int_equal(parent[1], 0); /* only one hypothesis is alive at the start */
    const float second[8] = { -2.0f, -3.0f, -9, -9, -0.1f, -4.0f, -9, -9 };
    const int32_t second_piece[8] = { EOS, 7, 8, 9, EOS, 7, 8, 9 };
    et_beam_advance(&beam, second, second_piece, parent, next);
    assert_result(&beam, (const int32_t[]){ 6 }, 1, -1.1f);
    et_beam_release(&beam);
}

static void test_beam__one_is_greedy(void **state)
{
    (void)state;
    int parent[1];
    int32_t next[1];
    et_beam beam;
    open_beam(&beam, 1, 0);
    et_beam_advance(&beam, (const float[]){ -0.5f, -1 }, (const int32_t[]){ 5, 6 }, parent, next);
    assert_int_equal(next[0], 5);
    et_beam_advance(&beam, (const float[]){ -2, -3 }, (const int32_t[]){ EOS, 7 }, parent, next);
    assert_result(&beam, (const int32_t[]){ 5 }, 1, -2.5f);
    et_beam_release(&beam);
}

/* A longer hypothesis wins when length is paid for. */
static void test_beam__alpha_prefers_length(void **state)
{
    (void)state;
    for (int long_wins = 0; long_wins < 2; long_wins++) {
        int parent[2];
        int32_t next[2];
        et_beam beam;
        open_beam(&beam, 2, long_wins ? 2.0 : 0.0);
        const float first[8] = { -1.0f, -1.1f, -9, -9, -9, -9, -9, -9 };
        const int32_t piece[8] = { EOS, 5, 6, 7, 8, 9, 10, 11 };
        et_beam_advance(&beam, first, piece, parent, next);
        const float then[8] = { -0.1f, -9, -9, -9, -9, -9, -9, -9 };
        const int32_t then_piece[8] = { EOS, 6, 7, 8, 9, 10, 11, 12 };
        if (!beam.over)
            et_beam_advance(&beam, then, then_piece, parent, next);
        int count;
        float score;
        et_beam_result(&beam, &count, &score);
        assert_int_equal(count, long_wins ? 1 : 0);
        et_beam_release(&beam);
    }
}

/* Nothing ends: the best hypothesis alive at the greatest length, with its plain log p. */
static void test_beam__unfinished(void **state)
{
    (void)state;
    int parent[1];
    int32_t next[1];
    et_beam beam;
    open_beam(&beam, 1, 0.6);
    et_beam_begin(&beam, 3);
    for (int i = 0; i < 3; i++) {
        assert_false(beam.over);
        et_beam_advance(&beam, (const float[]){ -1, -2 }, (const int32_t[]){ 5 + i, 9 }, parent,
                        next);
    }
    assert_true(beam.over);
    assert_result(&beam, (const int32_t[]){ 5, 6, 7 }, 3, -3);
    et_beam_release(&beam);
}

/* Equal scores are settled by hypothesis, then by the order of pieces. */
static void test_beam__ties(void **state)
{
    (void)state;
    int parent[2];
    int32_t next[2];
    et_beam beam;
    open_beam(&beam, 2, 0);
    const float equal[8] = { -1, -1, -1, -1, -1, -1, -1, -1 };
    const int32_t piece[8] = { 4, 5, 6, 7, 4, 5, 6, 7 };
    et_beam_advance(&beam, equal, piece, parent, next);
    assert_int_equal(next[0], 4);
    assert_int_equal(next[1], 5);
    et_beam_advance(&beam, equal, piece, parent, next);
    assert_int_equal(parent[0], 0);
    assert_int_equal(parent[1], 0);
    assert_int_equal(next[1], 5);
    et_beam_release(&beam);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_beam__length_norm),
        cmocka_unit_test(test_beam__two_see_further_than_one),
        cmocka_unit_test(test_beam__one_is_greedy),
        cmocka_unit_test(test_beam__alpha_prefers_length),
        cmocka_unit_test(test_beam__unfinished),
        cmocka_unit_test(test_beam__ties),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
