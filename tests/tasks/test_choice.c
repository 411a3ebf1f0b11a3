/* The choice of next tokens: log-probabilities, filters as in Model Garden's SamplingModule, and
 * random numbers that only depend on their position. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "tasks/translation/decoding/sampling.h"

enum { TOKENS = 6 };

/* Probabilities 0.4, 0.3, 0.15, 0.1, 0.05 and 0, in another order. */
static const double probability[TOKENS] = { 0.1, 0.4, 0, 0.3, 0.05, 0.15 };

static void open_choice(et_sampling *choice, const et_sampling_options *options)
{
    et_error error = ET_ERROR_INIT;
    float logits[TOKENS];
    assert_int_equal(et_sampling_init(choice, options, TOKENS, &error), ET_OK);
    for (int i = 0; i < TOKENS; i++)
        logits[i] = (float)(probability[i] > 0 ? log(probability[i]) + 3 : -1e9);
    et_sampling_read(choice, (const float *[]){ logits }, (et_sampling_position){ 0, 0, 0 });
}

static void test_choice__log_softmax(void **state)
{
    (void)state;
    et_sampling choice;
    float log_p[4];
    int32_t token[4];
    open_choice(&choice, &(et_sampling_options){ 0 });
    for (int i = 0; i < TOKENS; i++)
        assert_true(fabs(exp((double)choice.log_p[i]) - probability[i]) < 1e-6);
    et_sampling_best(&choice, 4, log_p, token);
    assert_memory_equal(token, ((const int32_t[]){ 1, 3, 5, 0 }), sizeof token);
    for (int i = 0; i < 4; i++)
        assert_true(log_p[i] == choice.log_p[token[i]]);
    et_sampling_release(&choice);
}

/* Which tokens filters leave, and how often each is drawn. */
static void test_choice__filters(void **state)
{
    (void)state;
    enum { DRAWS = 20000 };
    static const struct {
        et_sampling_options options;
        double expected[TOKENS];
    } cases[] = {
        { { .sampling = true }, { 0.1, 0.4, 0, 0.3, 0.05, 0.15 } },
        { { .sampling = true, .top_k = 1 }, { 0, 1, 0, 0, 0, 0 } },
        { { .sampling = true, .top_k = 2 }, { 0, 4 / 7., 0, 3 / 7., 0, 0 } },
        { { .sampling = true, .top_k = 100 }, { 0.1, 0.4, 0, 0.3, 0.05, 0.15 } },
        /* the token that crosses p stays */
        { { .sampling = true, .top_p = 0.5 }, { 0, 4 / 7., 0, 3 / 7., 0, 0 } },
        { { .sampling = true, .top_p = 0.39 }, { 0, 1, 0, 0, 0, 0 } },
        { { .sampling = true, .top_p = 0.71 }, { 0, 40 / 85., 0, 30 / 85., 0, 15 / 85. } },
        { { .sampling = true, .top_p = 1 }, { 0.1, 0.4, 0, 0.3, 0.05, 0.15 } },
        /* of the tokens that top_k leaves: 4/7 is less than 0.6 of them, both together are more */
        { { .sampling = true, .top_k = 2, .top_p = 0.6 }, { 0, 4 / 7., 0, 3 / 7., 0, 0 } },
        { { .sampling = true, .top_k = 2, .top_p = 0.5 }, { 0, 1, 0, 0, 0, 0 } },
        /* squares: 0.01, 0.16, 0, 0.09, 0.0025, 0.0225 of 0.285 */
        { { .sampling = true, .temperature = 0.5 },
          { 0.01 / 0.285, 0.16 / 0.285, 0, 0.09 / 0.285, 0.0025 / 0.285, 0.0225 / 0.285 } },
        /* temperature comes first: 0.16 of 0.285 is already above 0.5 */
        { { .sampling = true, .temperature = 0.5, .top_p = 0.5 }, { 0, 1, 0, 0, 0, 0 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int drawn[TOKENS] = { 0 };
        et_sampling choice;
        open_choice(&choice, &cases[i].options);
        for (int k = 0; k < DRAWS; k++)
            drawn[et_sampling_draw(&choice, (et_sampling_position){ (uint64_t)k, 3, 1 })]++;
        for (int k = 0; k < TOKENS; k++) {
            double share = (double)drawn[k] / DRAWS;
            if (fabs(share - cases[i].expected[k]) > 0.015 ||
                (drawn[k] > 0) != (cases[i].expected[k] > 0))
                fail_msg("case %zu, token %d: %g drawn, %g expected", i, k, share,
                         cases[i].expected[k]);
        }
        et_sampling_release(&choice);
    }
}

/* Another seed, sentence, position or hypothesis: other numbers; the same ones: the same. */
static void test_choice__random_numbers_have_a_position(void **state)
{
    (void)state;
    const et_sampling_position places[] = { { 1, 2, 3 }, { 2, 2, 3 }, { 1, 3, 3 }, { 1, 2, 4 } };
    enum { PLACES = 4 };
    float noise[PLACES + 1][TOKENS], logits[TOKENS] = { 0 };
    et_error error = ET_ERROR_INIT;
    for (int i = 0; i <= PLACES; i++) {
        et_sampling choice;
        et_sampling_options options = { .noise = 1, .seed = i == PLACES ? 8 : 7 };
        assert_int_equal(et_sampling_init(&choice, &options, TOKENS, &error), ET_OK);
        et_sampling_read(&choice, (const float *[]){ logits }, places[i % PLACES]);
        memcpy(noise[i], choice.log_p, sizeof noise[i]);
        et_sampling_read(&choice, (const float *[]){ logits }, places[1]);
        et_sampling_read(&choice, (const float *[]){ logits }, places[i % PLACES]);
        assert_memory_equal(noise[i], choice.log_p, sizeof noise[i]);
        for (int k = 0; k < i; k++)
            assert_memory_not_equal(noise[k], noise[i], sizeof noise[i]);
        et_sampling_release(&choice);
    }
}

/* The largest of logits with Gumbel noise is a sample: tokens win in proportion to their
 * probability. Twice the noise is a temperature of 2. */
static void test_choice__noise_is_gumbels(void **state)
{
    (void)state;
    enum { DRAWS = 20000 };
    for (int noise = 1; noise <= 2; noise++) {
        int drawn[TOKENS] = { 0 };
        double weight[TOKENS], sum = 0;
        float logits[TOKENS], log_p;
        int32_t token;
        et_sampling choice;
        open_choice(&choice, &(et_sampling_options){ .noise = noise, .seed = 5 });
        for (int i = 0; i < TOKENS; i++) {
            logits[i] = (float)(probability[i] > 0 ? log(probability[i]) : -1e9);
            weight[i] = pow(probability[i], 1. / noise);
            sum += weight[i];
        }
        for (int k = 0; k < DRAWS; k++) {
            et_sampling_read(&choice, (const float *[]){ logits },
                             (et_sampling_position){ (uint64_t)k, 1, 0 });
            et_sampling_best(&choice, 1, &log_p, &token);
            drawn[token]++;
        }
        for (int i = 0; i < TOKENS; i++)
            assert_true(fabs((double)drawn[i] / DRAWS - weight[i] / sum) < 0.015);
        et_sampling_release(&choice);
    }
}

/* As if the model did not have them: the others share all of the probability, at every position. */
static void test_choice__never(void **state)
{
    const float logits[5] = { 1, 9, 2, 3, 0.5f };
    const int32_t never[] = { 1, 3 };
    const double sum = exp(1.0) + exp(2.0) + exp(0.5);
    et_sampling choice;
    et_sampling_options options = { .never = never, .never_count = 2 };
    (void)state;
    assert_true(et_sampling_reads_logits(&options));
    assert_int_equal(et_sampling_init(&choice, &options, 5, NULL), ET_OK);
    for (int position = 0; position < 2; position++) {
        float log_p[3];
        int32_t token[3];
        assert_true(et_sampling_read(&choice, (const float *[]){ logits },
                                     (et_sampling_position){ 0, position, 0 }));
        et_sampling_best(&choice, 3, log_p, token);
        assert_int_equal(token[0], 2);
        assert_int_equal(token[1], 0);
        assert_int_equal(token[2], 4);
        for (int i = 0; i < 3; i++)
            assert_true(fabs(log_p[i] - ((double)logits[token[i]] - log(sum))) < 1e-6);
    }
    et_sampling_release(&choice);
}

/* At the first position other tokens have minus infinity, and allowed ones the log p that they have
 * among all; later positions have no constraint. */
static void test_choice__first(void **state)
{
    (void)state;
    const int32_t first[] = { 0, 4 };
    float logits[TOKENS] = { 0 };
    et_error error = ET_ERROR_INIT;
    et_sampling choice;
    et_sampling_options options = { .sampling = true, .first = first, .first_count = 2 };
    assert_true(et_sampling_reads_logits(&options));
    assert_int_equal(et_sampling_init(&choice, &options, TOKENS, &error), ET_OK);
    et_sampling_read(&choice, (const float *[]){ logits }, (et_sampling_position){ 0, 0, 0 });
    for (int i = 0; i < TOKENS; i++)
        if (i == 0 || i == 4)
            assert_true(fabs((double)choice.log_p[i] + log(6)) < 1e-6);
        else
            assert_true(isinf(choice.log_p[i]) && choice.log_p[i] < 0);
    for (uint64_t k = 0; k < 100; k++) {
        int32_t token = et_sampling_draw(&choice, (et_sampling_position){ k, 0, 0 });
        assert_true(token == 0 || token == 4);
    }
    et_sampling_read(&choice, (const float *[]){ logits }, (et_sampling_position){ 0, 1, 0 });
    for (int i = 0; i < TOKENS; i++)
        assert_true(fabs((double)choice.log_p[i] + log(6)) < 1e-6);
    et_sampling_release(&choice);
}

/* A row of some tokens, in ascending order, is the row of all in which the others cannot come:
 * tokens, log p, noise and draws are the same. */
static void test_choice__listed(void **state)
{
    (void)state;
    static const int32_t words[] = { 1, 3, 5 }, others[] = { 0, 2, 4 }, first[] = { 3, 5 };
    static const et_sampling_options ways[] = {
        { 0 },
        { .noise = 0.5, .seed = 4 },
        { .sampling = true, .seed = 2, .top_k = 2 },
        { .first = first, .first_count = 2 },
    };
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
        et_error error = ET_ERROR_INIT;
        et_sampling all, some;
        et_sampling_options without = ways[w];
        float logits[TOKENS], listed[3], log_p[2][2];
        int32_t token[2][2];
        without.never = others;
        without.never_count = 3;
        assert_int_equal(et_sampling_init(&all, &without, TOKENS, &error), ET_OK);
        assert_int_equal(et_sampling_init(&some, &ways[w], TOKENS, &error), ET_OK);
        et_sampling_set_words(&some, words, 3);
        for (int i = 0; i < TOKENS; i++)
            logits[i] = (float)i / 3;
        for (int i = 0; i < 3; i++)
            listed[i] = logits[words[i]];
        for (int position = 0; position < 5; position++) {
            const et_sampling_position here = { 7, position, 1 };
            assert_true(et_sampling_read(&all, (const float *[]){ logits }, here));
            assert_true(et_sampling_read(&some, (const float *[]){ listed }, here));
            et_sampling_best(&all, 2, log_p[0], token[0]);
            et_sampling_best(&some, 2, log_p[1], token[1]);
            assert_memory_equal(token[0], token[1], sizeof token[0]);
            assert_memory_equal(log_p[0], log_p[1], sizeof log_p[0]);
            for (int32_t t = 0; t < TOKENS; t++)
                assert_true(et_sampling_log_p(&all, t) == et_sampling_log_p(&some, t));
            if (ways[w].sampling)
                assert_int_equal(et_sampling_draw(&all, here), et_sampling_draw(&some, here));
        }
        et_sampling_release(&all);
        et_sampling_release(&some);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choice__log_softmax),
        cmocka_unit_test(test_choice__filters),
        cmocka_unit_test(test_choice__random_numbers_have_a_position),
        cmocka_unit_test(test_choice__noise_is_gumbels),
        cmocka_unit_test(test_choice__never),
        cmocka_unit_test(test_choice__listed),
        cmocka_unit_test(test_choice__first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
