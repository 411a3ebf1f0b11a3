/* Model Garden, official/nlp/modeling/ops/beam_search_test.py. A result has no initial token: 0 in
 * the reference's arrays. Cases with noise depend on TensorFlow's random numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

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

static void expect(const et_sequence_options *options, const int32_t expected[2][3])
{
    et_error error = ET_ERROR_INIT;
    et_sequence_search *found;
    const int32_t initial = 0;
    assert_int_equal(et_sequence_search_run(&found, &initial, 1, options, logits_of, NULL, &error),
                     ET_OK);
    assert_int_equal(et_sequence_search_count(found, 0), 2);
    for (int rank = 0; rank < 2; rank++) {
        const et_sequence s = et_sequence_search_result(found, 0, rank);
        assert_int_equal(s.count, 3);
        assert_memory_equal(s.ids, expected[rank], sizeof expected[rank]);
    }
    et_sequence_search_free(found);
}

static const int32_t expected[2][3] = { { 1, 0, 1 }, { 1, 1, 2 } };

static void test_beam_search_test__sequence_beam_search(void **state)
{
    (void)state;
    const int32_t end = 9;
    expect(&(et_sequence_options){ .vocabulary = 3,
                                   .size = 2,
                                   .alpha = 0.6,
                                   .max_length = 3,
                                   .ends = &end,
                                   .end_count = 1 },
           expected);
}

static void test_beam_search_test__sequence_beam_search_multi_eos(void **state)
{
    (void)state;
    const int32_t ends[] = { 9, 10 };
    expect(&(et_sequence_options){ .vocabulary = 3,
                                   .size = 2,
                                   .alpha = 0.6,
                                   .max_length = 3,
                                   .ends = ends,
                                   .end_count = 2 },
           expected);
}

/* A mask of the first token: only token 2 may begin. The others get a logit of about minus
 * infinity, so the rest follows as without a mask. */
static void test_beam_search_test__sequence_beam_search_with_prefix_constraint(void **state)
{
    (void)state;
    static const int32_t end = 9, first = 2, constrained[2][3] = { { 2, 0, 1 }, { 2, 1, 2 } };
    expect(&(et_sequence_options){ .vocabulary = 3,
                                   .size = 2,
                                   .alpha = 0.6,
                                   .max_length = 3,
                                   .ends = &end,
                                   .end_count = 1,
                                   .first = &first,
                                   .first_count = 1 },
           constrained);
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
