/* Model Garden, official/nlp/modeling/ops/decoding_module_test.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include <etude/sequence_search.h>

enum { LENGTH = 32 };

/* Token 1 ends a sequence. It is possible only as token number 32, with a probability of a half. */
static int logits_of(void *payload, const et_sequence_step *step, float *logits, et_error *error)
{
    (void)payload, (void)error;
    for (int64_t row = 0; row < step->rows; row++) {
        logits[row * 2] = 0;
        logits[row * 2 + 1] = step->position == LENGTH - 1 ? 0 : -50;
    }
    return ET_OK;
}

/* The length norm of 32 tokens: what a score is divided by. */
static double norm(double alpha)
{
    static const int32_t initial = 0, end = 1;
    const et_sequence_options options = {
        .vocabulary = 2, .max_length = LENGTH, .alpha = alpha, .ends = &end, .end_count = 1
    };
    et_sequence_search *found;
    assert_int_equal(et_sequence_search_run(&found, &initial, 1, &options, logits_of, NULL, NULL),
                     ET_OK);
    const et_sequence s = et_sequence_search_result(found, 0, 0);
    assert_int_equal(s.length, LENGTH);
    assert_float_equal(s.log_probability, log(0.5), 1e-6);
    const double ratio = s.log_probability / s.score;
    et_sequence_search_free(found);
    return ratio;
}

static void test_decoding_module_test__length_normalization(void **state)
{
    (void)state;
    assert_true(norm(0) == 1.0);
    assert_float_equal(norm(0.6), pow((5 + 32) / 6.0, 0.6), 1e-5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decoding_module_test__length_normalization),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
