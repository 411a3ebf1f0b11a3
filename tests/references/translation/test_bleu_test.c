/* Model Garden, official/nlp/metrics/bleu_test.py. bleu_wrapper reads two files; a program in C
 * reads its files and gives their lines to et_score_add. Where the reference only compares scores,
 * the numbers here are those of its code. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include <etude/score.h>

static double bleu(const char *const references[2], const char *const hypotheses[2], bool cased)
{
    et_bleu_options options = ET_BLEU_OPTIONS_MODEL_GARDEN;
    et_score_result result;
    et_score *score;
    options.lowercase = !cased;
    assert_int_equal(et_bleu_new(&score, &options, NULL), ET_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(et_score_add(score, hypotheses[i], references[i], NULL), ET_OK);
    assert_int_equal(et_score_value(score, &result, NULL), ET_OK);
    et_score_free(score);
    return result.score;
}

static void test_bleu_test__bleu_same(void **state)
{
    (void)state;
    static const char *const lines[] = { "test 1 two 3", "more tests!" };
    assert_float_equal(bleu(lines, lines, false), 100, 1e-9);
    assert_float_equal(bleu(lines, lines, true), 100, 1e-9);
}

static void test_bleu_test__bleu_same_different_case(void **state)
{
    (void)state;
    static const char *const references[] = { "Test 1 two 3", "more tests!" };
    static const char *const hypotheses[] = { "test 1 two 3", "More tests!" };
    assert_float_equal(bleu(references, hypotheses, false), 100, 1e-9);
    assert_true(bleu(references, hypotheses, true) < 100);
}

static void test_bleu_test__bleu_different(void **state)
{
    (void)state;
    static const char *const references[] = { "Testing", "more tests!" };
    static const char *const hypotheses[] = { "Dog", "Cat" };
    for (int cased = 0; cased < 2; cased++)
        assert_float_equal(bleu(references, hypotheses, cased), 26.0130047511, 1e-9);
}

/* Words are counted, and are those of the line that is split already. */
static void test_bleu_test__bleu_tokenize(void **state)
{
    (void)state;
    const et_bleu_options options = ET_BLEU_OPTIONS_MODEL_GARDEN;
    et_score *score;
    assert_int_equal(et_bleu_new(&score, &options, NULL), ET_OK);
    assert_int_equal(et_score_add(score, "Test0, 1 two, 3", "Test0 , 1 two , 3", NULL), ET_OK);
    const et_bleu_counts *counts = &et_score_total(score)->bleu;
    assert_int_equal(counts->sys_len, 6);
    assert_int_equal(counts->ref_len, 6);
    for (int n = 0; n < ET_BLEU_ORDER; n++)
        assert_int_equal(counts->correct[n], 6 - n);
    et_score_free(score);
}

static void test_bleu_test__bleu_list(void **state)
{
    (void)state;
    static const char *const references[] = { "test 1 two 3", "more tests!" };
    static const char *const hypotheses[] = { "test 1 two 3", "More tests!" };
    assert_float_equal(bleu(references, hypotheses, false), 100, 1e-9);
    assert_float_equal(bleu(references, hypotheses, true), 82.2267233801, 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bleu_test__bleu_same),
        cmocka_unit_test(test_bleu_test__bleu_same_different_case),
        cmocka_unit_test(test_bleu_test__bleu_different),
        cmocka_unit_test(test_bleu_test__bleu_tokenize),
        cmocka_unit_test(test_bleu_test__bleu_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
