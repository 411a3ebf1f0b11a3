/* Model Garden, official/nlp/modeling/ops/sampling_module_test.py. The reference's arrays begin
 * with the initial tokens 9 and 1, which results here do not have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include <etude/sequence_search.h>

/* [sequence, position, token] */
static const float probabilities[2][4][3] = {
    { { 0.3f, 0.4f, 0.3f }, { 0.3f, 0.3f, 0.4f }, { 0.1f, 0.1f, 0.8f }, { 0.1f, 0.1f, 0.8f } },
    { { 0.2f, 0.4f, 0.4f }, { 0.2f, 0.7f, 0.1f }, { 0.1f, 0.1f, 0.8f }, { 0.1f, 0.1f, 0.8f } },
};
static const int32_t initial[] = { 9, 1 }, end = 10;

static int logits_of(void *payload, const et_sequence_step *step, float *logits, et_error *error)
{
    (void)payload, (void)error;
    assert_int_equal(step->rows, 2);
    for (int64_t row = 0; row < step->rows; row++) {
        assert_int_equal(step->ids[row * step->stride], initial[row]);
        for (int i = 0; i < 3; i++)
            logits[row * 3 + i] = logf(probabilities[row][step->position][i]);
    }
    return ET_OK;
}

static void test_sampling_module_test__greedy(void **state)
{
    (void)state;
    static const int32_t expected[2][4] = { { 1, 2, 2, 2 }, { 1, 1, 2, 2 } };
    const et_sequence_options options = {
        .vocabulary = 3, .max_length = 4, .ends = &end, .end_count = 1
    };
    et_error error = ET_ERROR_INIT;
    et_sequence_search *found;
    assert_int_equal(et_sequence_search_run(&found, initial, 2, &options, logits_of, NULL, &error),
                     ET_OK);
    for (int i = 0; i < 2; i++) {
        const et_sequence s = et_sequence_search_result(found, i, 0);
        assert_int_equal(s.count, 4);
        assert_memory_equal(s.ids, expected[i], sizeof expected[i]);
    }
    et_sequence_search_free(found);
}

/* The reference asserts the shape: two sequences of four tokens behind the initial one. */
static void test_sampling_module_test__topk(void **state)
{
    (void)state;
    const et_sequence_options options = { .vocabulary = 3,
                                          .max_length = 4,
                                          .ends = &end,
                                          .end_count = 1,
                                          .sampling = true,
                                          .top_k = 3,
                                          .temperature = 0.1 };
    et_error error = ET_ERROR_INIT;
    et_sequence_search *found;
    assert_int_equal(et_sequence_search_run(&found, initial, 2, &options, logits_of, NULL, &error),
                     ET_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(et_sequence_search_count(found, i), 1);
        const et_sequence s = et_sequence_search_result(found, i, 0);
        assert_int_equal(s.count, 4);
        for (int k = 0; k < 4; k++)
            assert_true(s.ids[k] >= 0 && s.ids[k] < 3);
    }
    et_sequence_search_free(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sampling_module_test__greedy),
        cmocka_unit_test(test_sampling_module_test__topk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
