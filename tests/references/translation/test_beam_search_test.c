/* Model Garden, official/nlp/modeling/ops/beam_search_test.py. A result has no initial token, which
 * is 0 in the reference's arrays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <etude/sequence_search.h>

/* [row, position, token] */
static const float probabilities[2][3][3] = {
    { { 0.2f, 0.7f, 0.1f }, { 0.5f, 0.3f, 0.2f }, { 0.1f, 0.8f, 0.1f } },
    { { 0.1f, 0.8f, 0.1f }, { 0.3f, 0.4f, 0.3f }, { 0.2f, 0.1f, 0.7f } },
};

static int logits_of(void *payload, const et_sequence_step *step, float *logits, et_error *error)
{
    (void)payload, (void)error;
    for (int64_t row = 0; row < step->rows; row++)
        for (int i = 0; i < 3; i++)
            logits[row * 3 + i] = probabilities[row][step->position][i];
    return ET_OK;
}

static et_sequence_search *run(const et_sequence_options *options)
{
    et_error error = ET_ERROR_INIT;
    et_sequence_search *found;
    const int32_t initial = 0;
    assert_int_equal(et_sequence_search_run(&found, &initial, 1, options, logits_of, NULL, &error),
                     ET_OK);
    assert_int_equal(et_sequence_search_count(found, 0), 2);
    return found;
}

static void expect(const et_sequence_options *options, const int32_t expected[2][3])
{
    et_sequence_search *found = run(options);
    for (int rank = 0; rank < 2; rank++) {
        const et_sequence s = et_sequence_search_result(found, 0, rank);
        assert_int_equal(s.count, 3);
        assert_memory_equal(s.ids, expected[rank], sizeof expected[rank]);
    }
    et_sequence_search_free(found);
}

/* With noise of 0.5, results are valid and distinct. Some seed gives another best result. */
static void expect_noisy(et_sequence_options options, const int32_t expected[2][3])
{
    int other = 0;
    options.noise = 0.5;
    for (options.seed = 1; options.seed <= 20; options.seed++) {
        et_sequence_search *found = run(&options);
        const et_sequence best = et_sequence_search_result(found, 0, 0),
                          second = et_sequence_search_result(found, 0, 1);
        assert_int_equal(best.count, 3);
        assert_int_equal(second.count, 3);
        for (int i = 0; i < 3; i++) {
            assert_in_range(best.ids[i], 0, 2);
            assert_in_range(second.ids[i], 0, 2);
        }
        if (options.first) {
            assert_int_equal(best.ids[0], *options.first);
            assert_int_equal(second.ids[0], *options.first);
        }
        assert_memory_not_equal(best.ids, second.ids, sizeof *expected);
        other += memcmp(best.ids, expected[0], sizeof *expected) != 0;
        et_sequence_search_free(found);
    }
    assert_true(other > 0);
}

static const et_sequence_options options = {
    .vocabulary = 3, .size = 2, .alpha = 0.6, .max_length = 3
};
static const int32_t ends[] = { 9, 10 }, expected[2][3] = { { 1, 0, 1 }, { 1, 1, 2 } };

/* Differs: random numbers are not TensorFlow's, so parameters with noise only check that the tokens
 * are valid. */
static void test_beam_search_test__sequence_beam_search(void **state)
{
    (void)state;
    et_sequence_options o = options;
    o.ends = ends;
    o.end_count = 1;
    expect(&o, expected);
    expect_noisy(o, expected);
}

/* Differs: random numbers are not TensorFlow's, so parameters with noise only check that the tokens
 * are valid. */
static void test_beam_search_test__sequence_beam_search_multi_eos(void **state)
{
    (void)state;
    et_sequence_options o = options;
    o.ends = ends;
    o.end_count = 2;
    expect(&o, expected);
    expect_noisy(o, expected);
}

/* Differs: random numbers are not TensorFlow's, so parameters with noise only check that the tokens
 * are valid and the first one is allowed. */
static void test_beam_search_test__sequence_beam_search_with_prefix_constraint(void **state)
{
    (void)state;
    static const int32_t first = 0, constrained[2][3] = { { 0, 0, 1 }, { 0, 1, 2 } };
    et_sequence_options o = options;
    o.ends = ends;
    o.end_count = 2;
    o.first = &first;
    o.first_count = 1;
    expect(&o, constrained);
    expect_noisy(o, constrained);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_beam_search_test__sequence_beam_search),
        cmocka_unit_test(test_beam_search_test__sequence_beam_search_multi_eos),
        cmocka_unit_test(test_beam_search_test__sequence_beam_search_with_prefix_constraint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
