/* Bootstrap resampling: draws of numpy, and sacrebleu's paired test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "metric/bootstrap.h"
#include "metric/score_lines.h"

#define DATA ET_TEST_SOURCE "/tests/metric/data/"

/* Lines of seed, bound and draws, as score_lines.py --draws printed them. */
static void test_bootstrap__draws(void **state)
{
    (void)state;
    char line[1024];
    int lines = 0;
    FILE *file = fopen(DATA "draws.txt", "r");
    assert_non_null(file);
    for (; fgets(line, sizeof line, file); lines++) {
        char *at;
        const uint64_t seed = strtoull(line, &at, 10), bound = strtoull(at, &at, 10);
        et_resample resample;
        et_resample_init(&resample, seed);
        for (int i = 0; i < 9; i++)
            assert_int_equal(et_resample_draw(&resample, bound), strtoull(at, &at, 10));
    }
    fclose(file);
    assert_int_equal(lines, 42);
}

/* What sacrebleu 2.5.1 gave for these outputs. */
static void test_bootstrap__sacrebleu(void **state)
{
    (void)state;
    score_pairs pairs = { 0 };
    score_outputs outputs;
    char theirs[4096];
    score_pairs_move(&pairs, 300);
    score_outputs_make(&outputs, &pairs);
    FILE *file = fopen(DATA "bootstrap.txt", "r");
    assert_non_null(file);
    theirs[fread(theirs, 1, sizeof theirs - 1, file)] = 0;
    fclose(file);
    char *ours = score_bootstrap(&outputs, &pairs);
    assert_lines_equal(ours, theirs);
    free(ours);
    score_outputs_free(&outputs, &pairs);
    score_pairs_free(&pairs);
}

/* One line has one resample, and equal outputs do not differ. */
static void test_bootstrap__edges(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_score *score;
    et_score_counts counts;
    et_score_counts *both[2] = { &counts, &counts };
    et_bootstrap_result results[2];
    const et_bootstrap bootstrap = { .samples = 40, .seed = 1 };
    assert_int_equal(et_bleu_new(&score, NULL, &error), 0);
    assert_int_equal(et_score_count(score, &counts, 1, "a b c d e", "a b c d f", &error), 0);
    assert_int_equal(et_bootstrap_run(&bootstrap, score, both, 2, 0, results, &error), ET_EDATA);
    assert_int_equal(et_bootstrap_run(&bootstrap, score, both, 2, 1, results, &error), 0);
    for (int i = 0; i < 2; i++) {
        assert_true(results[i].interval == 0);
        assert_true(results[i].real.score > 60 && results[i].real.score < 70);
        assert_true(results[i].p_value == 1);
    }
    et_score_free(score);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bootstrap__draws),
        cmocka_unit_test(test_bootstrap__sacrebleu),
        cmocka_unit_test(test_bootstrap__edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
