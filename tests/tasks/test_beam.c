#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "tasks/translation/decoding/beam.h"

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
        assert_true(fabs(et_beam_length_norm(cases[i].length, &(et_beam_options){ .alpha = 0.6 }) -
                         cases[i].norm) < 5e-5);
    const et_beam_options by_length = { .alpha = 2, .by_length = true };
    assert_true(et_beam_length_norm(3, &by_length) == 9);
}

static void open_beam(et_beam *beam, int size, double alpha)
{
    et_error error = ET_ERROR_INIT;
    et_beam_options options = { .size = size, .alpha = alpha, .eos = EOS };
    assert_int_equal(et_beam_init(beam, &options, 8, &error), ET_OK);
    et_beam_begin(beam, 8);
}

static void open_by_length(et_beam *beam, int size, int most)
{
    et_error error = ET_ERROR_INIT;
    et_beam_options options = { .size = size, .alpha = 1, .eos = EOS, .by_length = true };
    assert_int_equal(et_beam_init(beam, &options, 8, &error), ET_OK);
    et_beam_begin(beam, most);
}

static void assert_result(const et_beam *beam, const int32_t *expected, int expected_count,
                          float expected_score)
{
    et_beam_hypothesis best = et_beam_result(beam, 0);
    assert_int_equal(best.count, expected_count);
    for (int i = 0; i < best.count; i++)
        assert_int_equal(best.ids[i], expected[i]);
    assert_true(fabsf(best.score - expected_score) < 1e-5f);
}

/* At the greatest length each hypothesis ends by EOS, which costs nothing and counts as a token. */
static void test_beam__force_end(void **state)
{
    (void)state;
    int parent[2];
    int32_t next[2];
    et_beam beam;
    const int32_t tokens[8] = { 5, 6, 7, 8, 5, 6, 7, 8 };
    const float step[8] = { -0.5f, -1.0f, -2, -3, -0.5f, -1.0f, -2, -3 };
    for (int most = 1; most <= 3; most++) {
        open_by_length(&beam, 2, most);
        beam.options.force_end = true;
        for (int i = 0; i < most; i++)
            et_beam_advance(&beam, step, tokens, parent, next);
        assert_true(beam.over);
        assert_int_equal(beam.finished_count, most > 1 ? 2 : 1);
        const int32_t fives[3] = { 5, 5, 5 };
        assert_result(&beam, fives, most - 1, -0.5f * (float)(most - 1) / (float)most);
        assert_int_equal(et_beam_result(&beam, 0).length, most);
        et_beam_release(&beam);
    }
}

/* Two have to finish, the end among the best two alone finishes a hypothesis, and scores are
 * divided by the length. */
static void test_beam__by_length(void **state)
{
    (void)state;
    int parent[2];
    int32_t next[2];
    et_beam beam;
    const int32_t tokens[8] = { 5, 6, EOS, 7, 5, 6, EOS, 7 };
    const int32_t ends[8] = { EOS, 5, 6, 7, EOS, 5, 6, 7 };
    const float step[8] = { -0.5f, -1.0f, -1.5f, -9, -0.5f, -1.0f, -1.5f, -9 };
    open_by_length(&beam, 2, 8);
    et_beam_advance(&beam, step, tokens, parent, next);
    assert_int_equal(beam.finished_count, 0); /* the end was third of two */
    et_beam_advance(&beam, step, ends, parent, next);
    assert_int_equal(beam.finished_count, 1);
    assert_false(beam.over);
    /* -1.0 (5), -1.5 (6, or 5 5): both may end; one already has, of two tokens, with -1.0 */
    et_beam_advance(&beam, step, ends, parent, next);
    assert_int_equal(beam.finished_count, 2);
    assert_true(beam.over);
    const int32_t expected[] = { 5 };
    assert_result(&beam, expected, 1, -0.5f);
    et_beam_release(&beam);
}

/* At the greatest length what lives is finished as it is, with its score. */
/* Each end makes the beam narrower: after one of two, only the best continuation lives on, and when
 * it ends the search is over, although a better hypothesis could still be found. */
static void test_beam__shrinks(void **state)
{
    (void)state;
    et_beam beam;
    et_error error = ET_ERROR_INIT;
    int parent[2];
    int32_t next[2];
    const et_beam_options options = {
        .size = 2, .alpha = 1, .eos = EOS, .by_length = true, .shrinks = true
    };
    assert_int_equal(et_beam_init(&beam, &options, 8, &error), ET_OK);
    et_beam_begin(&beam, 8);
    const float one[] = { -1, -2, -3, -4 };
    et_beam_advance(&beam, one, (int32_t[]){ EOS, 5, 6, 7 }, parent, next);
    assert_false(beam.over);
    assert_int_equal(beam.width, 1);
    assert_int_equal(next[0], 5);
    const float two[] = { -0.1f, -0.2f, -0.3f, -5, -9, -9, -9, -9 };
    et_beam_advance(&beam, two, (int32_t[]){ 6, EOS, 7, 8, 9, 9, 9, 9 }, parent, next);
    assert_false(beam.over); /* the end was second, so it is not looked at */
    assert_int_equal(next[0], 6);
    const float three[] = { -4, -5, -6, -7, -9, -9, -9, -9 };
    et_beam_advance(&beam, three, (int32_t[]){ EOS, 5, 6, 7, 9, 9, 9, 9 }, parent, next);
    assert_true(beam.over);
    assert_result(&beam, NULL, 0, -1);
    et_beam_release(&beam);
    /* At the greatest length all of the beam finish. */
    assert_int_equal(et_beam_init(&beam, &options, 8, &error), ET_OK);
    et_beam_begin(&beam, 2);
    et_beam_advance(&beam, one, (int32_t[]){ 4, 5, 6, 7 }, parent, next);
    et_beam_advance(&beam, two, (int32_t[]){ 6, EOS, 7, 8, 9, 9, 9, 9 }, parent, next);
    assert_true(beam.over);
    assert_result(&beam, (int32_t[]){ 4, 6 }, 2, -0.55f);
    et_beam_release(&beam);
}

static void test_beam__by_length_to_the_end(void **state)
{
    (void)state;
    int parent[2];
    int32_t next[2];
    et_beam beam;
    const int32_t tokens[8] = { 5, 6, 7, 8, 5, 6, 7, 8 };
    const float step[8] = { -0.5f, -1.0f, -2, -9, -0.5f, -1.0f, -2, -9 };
    open_by_length(&beam, 2, 2);
    et_beam_advance(&beam, step, tokens, parent, next);
    assert_false(beam.over);
    et_beam_advance(&beam, step, tokens, parent, next);
    assert_true(beam.over);
    const int32_t expected[] = { 5, 5 };
    assert_result(&beam, expected, 2, -0.5f);
    et_beam_release(&beam);
}

/* Greedy takes the likelier token at once; a beam of two finds the better whole. */
static void test_beam__two_see_further_than_one(void **state)
{
    (void)state;
    int parent[2];
    int32_t next[2];
    et_beam beam;
    /* first tokens: 5 with log p -0.5, 6 with -1.0; then 5 ends badly, 6 ends well */
    open_beam(&beam, 2, 0);
    const float first[8] = { -0.5f, -1.0f, -9, -9, -0.5f, -1.0f, -9, -9 };
    const int32_t first_token[8] = { 5, 6, 7, 8, 5, 6, 7, 8 };
    et_beam_advance(&beam, first, first_token, parent, next);
    assert_int_equal(next[0], 5);
    assert_int_equal(next[1], 6);
    assert_int_equal(parent[0], 0);
    assert_int_equal(parent[1], 0); /* only one hypothesis is alive at the start */
    const float second[8] = { -2.0f, -3.0f, -9, -9, -0.1f, -4.0f, -9, -9 };
    const int32_t second_token[8] = { EOS, 7, 8, 9, EOS, 7, 8, 9 };
    et_beam_advance(&beam, second, second_token, parent, next);
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
        const int32_t token[8] = { EOS, 5, 6, 7, 8, 9, 10, 11 };
        et_beam_advance(&beam, first, token, parent, next);
        const float then[8] = { -0.1f, -9, -9, -9, -9, -9, -9, -9 };
        const int32_t then_token[8] = { EOS, 6, 7, 8, 9, 10, 11, 12 };
        if (!beam.over)
            et_beam_advance(&beam, then, then_token, parent, next);
        assert_int_equal(et_beam_result(&beam, 0).count, long_wins ? 1 : 0);
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

/* Equal scores are settled by hypothesis, then by the order of tokens. */
static void test_beam__ties(void **state)
{
    (void)state;
    int parent[2];
    int32_t next[2];
    et_beam beam;
    open_beam(&beam, 2, 0);
    const float equal[8] = { -1, -1, -1, -1, -1, -1, -1, -1 };
    const int32_t token[8] = { 4, 5, 6, 7, 4, 5, 6, 7 };
    et_beam_advance(&beam, equal, token, parent, next);
    assert_int_equal(next[0], 4);
    assert_int_equal(next[1], 5);
    et_beam_advance(&beam, equal, token, parent, next);
    assert_int_equal(parent[0], 0);
    assert_int_equal(parent[1], 0);
    assert_int_equal(next[1], 5);
    et_beam_release(&beam);
}

/* Steps of a beam of two over rows of four, best first; the results follow. */
static void run_rows(et_beam *beam, const float (*log_p)[8], const int32_t (*token)[8], int steps)
{
    int parent[2];
    int32_t next[2];
    for (int i = 0; i < steps && !beam->over; i++)
        et_beam_advance(beam, log_p[i], token[i], parent, next);
}

/* Any of several tokens ends a hypothesis, and is not part of it. More hypotheses may end than with
 * EOS only; the rest of the beam is then not a result. */
static void test_beam__several_ends(void **state)
{
    (void)state;
    const int32_t ends[] = { 7, 9 };
    const float log_p[1][8] = { { -1, -1.5f, -2, -3 } };
    const int32_t token[1][8] = { { 7, EOS, 9, 9 } };
    et_error error = ET_ERROR_INIT;
    et_beam beam;
    et_beam_options options = { .size = 2, .eos = EOS, .ends = ends, .end_count = 2, .results = 2 };
    assert_int_equal(et_beam_init(&beam, &options, 8, &error), ET_OK);
    et_beam_begin(&beam, 8);
    run_rows(&beam, log_p, token, 1);
    assert_true(beam.over);
    assert_int_equal(et_beam_results(&beam), 2);
    assert_result(&beam, NULL, 0, -1);
    et_beam_hypothesis second = et_beam_result(&beam, 1);
    assert_true(second.length == 1 && second.score == -1.5f && second.log_p == -1.5f);
    et_beam_release(&beam);
}

/* One finished is enough, though the beam's other slots are empty: the reference counts an unfilled
 * one as a score of 0. */
static void test_beam__one_finished_is_enough(void **state)
{
    (void)state;
    const float log_p[1][8] = { { -0.1f, -3, -4, -5 } };
    const int32_t token[1][8] = { { EOS, 5, 6, 7 } };
    et_beam beam;
    open_beam(&beam, 2, 0.6);
    et_beam_begin(&beam, 3); /* a living hypothesis reaches at most -3 / 1.19 */
    run_rows(&beam, log_p, token, 1);
    assert_true(beam.over);
    assert_int_equal(et_beam_results(&beam), 1);
    et_beam_release(&beam);
}

/* If two results are wanted, the search continues, the first result stays, and the second has its
 * own score and log p. */
static void test_beam__results(void **state)
{
    (void)state;
    const float log_p[2][8] = { { -0.1f, -3, -4, -5 }, { -0.5f, -6, -7, -8, -0.25f, -6, -7, -8 } };
    const int32_t token[2][8] = { { EOS, 5, 6, 7 }, { EOS, 8, 9, 10, EOS, 8, 9, 10 } };
    et_error error = ET_ERROR_INIT;
    et_beam_options options = { .size = 2, .alpha = 0.6, .eos = EOS, .results = 2 };
    et_beam beam;
    assert_int_equal(et_beam_init(&beam, &options, 8, &error), ET_OK);
    et_beam_begin(&beam, 3);
    run_rows(&beam, log_p, token, 1);
    assert_false(beam.over);
    run_rows(&beam, log_p + 1, token + 1, 1);
    assert_true(beam.over);
    assert_int_equal(et_beam_results(&beam), 2);
    assert_result(&beam, NULL, 0, -0.1f);
    et_beam_hypothesis second = et_beam_result(&beam, 1);
    assert_int_equal(second.count, 1);
    assert_int_equal(second.length, 2);
    assert_int_equal(second.ids[0], 5);
    assert_true(second.log_p == -3.5f && fabs((double)second.score + 3.5 / 1.0969) < 1e-3);
    et_beam_release(&beam);
}

/* A token that is not allowed is never a result, however empty the beam. */
static void test_beam__what_may_not_come(void **state)
{
    (void)state;
    const float never = -INFINITY;
    const float log_p[1][8] = { { -2, never, never, never } };
    const int32_t token[1][8] = { { 5, EOS, 6, 7 } };
    et_beam beam;
    open_beam(&beam, 2, 0);
    beam.options.results = 2;
    et_beam_begin(&beam, 1);
    run_rows(&beam, log_p, token, 1);
    assert_true(beam.over);
    assert_int_equal(et_beam_results(&beam), 1);
    assert_result(&beam, (const int32_t[]){ 5 }, 1, -2);
    et_beam_release(&beam);
}

/* Without living hypotheses there are no more results, however many are wanted. */
static void test_beam__dead(void **state)
{
    (void)state;
    const float never = -INFINITY;
    const float log_p[1][8] = { { -2, never, never, never } };
    const int32_t token[1][8] = { { EOS, 5, 6, 7 } };
    et_beam beam;
    open_beam(&beam, 2, 0);
    beam.options.results = 2;
    run_rows(&beam, log_p, token, 1);
    assert_true(beam.over);
    assert_int_equal(et_beam_results(&beam), 1);
    assert_result(&beam, NULL, 0, -2);
    et_beam_release(&beam);
}

/* Three samples: each continues alone, finished ones leave, those that are cut at the greatest
 * length are results too, and all are sorted best first. */
static void test_beam__samples(void **state)
{
    (void)state;
    int parent[3];
    int32_t next[3];
    et_error error = ET_ERROR_INIT;
    et_beam_options options = { .size = 3, .eos = EOS, .results = 3 };
    et_beam beam;
    assert_int_equal(et_beam_init(&beam, &options, 8, &error), ET_OK);
    et_beam_begin(&beam, 3);
    et_beam_extend(&beam, (const float[]){ -1, -2, -3 }, (const int32_t[]){ 5, EOS, 6 }, parent,
                   next);
    assert_int_equal(beam.living, 2);
    assert_true(next[0] == 5 && next[1] == 6 && parent[0] == 0 && parent[1] == 0);
    assert_true(beam.sample[0] == 0 && beam.sample[1] == 2);
    et_beam_extend(&beam, (const float[]){ -4, -0.5f }, (const int32_t[]){ EOS, 7 }, parent, next);
    assert_int_equal(beam.living, 1);
    assert_true(next[0] == 7 && parent[0] == 1 && beam.sample[0] == 2);
    et_beam_extend(&beam, (const float[]){ -0.25f }, (const int32_t[]){ 8 }, parent, next);
    assert_true(beam.over);
    assert_int_equal(et_beam_results(&beam), 3);
    assert_result(&beam, NULL, 0, -2);
    et_beam_hypothesis cut = et_beam_result(&beam, 1), last = et_beam_result(&beam, 2);
    assert_true(cut.count == 3 && cut.length == 3 && cut.log_p == -3.75f);
    assert_memory_equal(cut.ids, ((const int32_t[]){ 6, 7, 8 }), 3 * sizeof(int32_t));
    assert_true(last.count == 1 && last.length == 2 && last.log_p == -5);
    et_beam_release(&beam);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_beam__length_norm),
        cmocka_unit_test(test_beam__force_end),
        cmocka_unit_test(test_beam__by_length),
        cmocka_unit_test(test_beam__shrinks),
        cmocka_unit_test(test_beam__by_length_to_the_end),
        cmocka_unit_test(test_beam__two_see_further_than_one),
        cmocka_unit_test(test_beam__one_is_greedy),
        cmocka_unit_test(test_beam__alpha_prefers_length),
        cmocka_unit_test(test_beam__unfinished),
        cmocka_unit_test(test_beam__ties),
        cmocka_unit_test(test_beam__several_ends),
        cmocka_unit_test(test_beam__one_finished_is_enough),
        cmocka_unit_test(test_beam__results),
        cmocka_unit_test(test_beam__what_may_not_come),
        cmocka_unit_test(test_beam__dead),
        cmocka_unit_test(test_beam__samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
