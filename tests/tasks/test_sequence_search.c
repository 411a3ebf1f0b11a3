/* Searches over a program's own logits: a model with a state, all results beside an exhaustive
 * search, ends, first tokens, samples, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <etude/sequence_search.h>

enum { TOKENS = 4, END = 3, LENGTH = 4, ROWS = 64 };

/* A model whose logits depend on all tokens so far, through a state that only `parent` can follow.
 */
typedef struct model {
    uint32_t state[ROWS];
    int64_t calls;
} model;

static uint32_t follow(uint32_t state, int32_t token)
{
    return (state ^ (uint32_t)(token + 1)) * 2654435761u + 12345u;
}

static float logit_of(uint32_t state, int token)
{
    return (float)(follow(state, token + 100) >> 8) * 0x1p-22f;
}

static int logits_of(void *payload, const et_sequence_step *step, float *logits, et_error *error)
{
    model *m = payload;
    uint32_t before[ROWS];
    (void)error;
    assert_true(step->rows <= ROWS);
    assert_int_equal(step->position, m->calls++);
    memcpy(before, m->state, sizeof before);
    for (int64_t row = 0; row < step->rows; row++) {
        const int32_t last = step->ids[row * step->stride + step->position];
        m->state[row] = follow(step->position ? before[step->parent[row]] : 7, last);
        for (int i = 0; i < TOKENS; i++)
            logits[row * TOKENS + i] = logit_of(m->state[row], i);
    }
    return ET_OK;
}

/* log p of all sequences that end within LENGTH, the best of them by score. */
typedef struct best {
    double score;
    int32_t ids[LENGTH];
    int count;
} best;

static void walk(uint32_t state, int32_t *ids, int count, double log_p, double alpha, best *found)
{
    double sum = 0;
    for (int i = 0; i < TOKENS; i++)
        sum += exp((double)logit_of(state, i));
    for (int i = 0; i < TOKENS && count < LENGTH; i++) {
        const double p = log_p + (double)logit_of(state, i) - log(sum);
        const double score = p / pow((5.0 + count + 1) / 6, alpha);
        ids[count] = i;
        if (i != END)
            walk(follow(state, i), ids, count + 1, p, alpha, found);
        else if (score > found->score) {
            *found = (best){ .score = score, .count = count };
            memcpy(found->ids, ids, (size_t)count * sizeof *ids);
        }
    }
}

static et_sequence_search *run(const int32_t *initial, int64_t count, et_sequence_options options)
{
    static const int32_t end = END;
    et_error error = ET_ERROR_INIT;
    et_sequence_search *found;
    model m = { .calls = 0 };
    options.vocabulary = TOKENS;
    options.max_length = LENGTH;
    options.ends = &end;
    options.end_count = 1;
    assert_int_equal(
        et_sequence_search_run(&found, initial, count, &options, logits_of, &m, &error), ET_OK);
    return found;
}

static void test_sequence_search__wide_beams_find_the_best(void **state)
{
    (void)state;
    const int32_t initial[] = { 0, 1, 2, 9 };
    et_sequence_search *found = run(initial, 4, (et_sequence_options){ .size = 16, .alpha = 0.6 });
    for (int64_t i = 0; i < 4; i++) {
        int32_t ids[LENGTH];
        best expected = { .score = -INFINITY };
        walk(follow(7, initial[i]), ids, 0, 0, 0.6, &expected);
        const et_sequence s = et_sequence_search_result(found, i, 0);
        assert_int_equal(s.count, expected.count);
        assert_int_equal(s.length, expected.count + 1);
        assert_memory_equal(s.ids, expected.ids, (size_t)s.count * sizeof *s.ids);
        assert_true(fabs(s.score - expected.score) < 1e-5);
        for (int k = 1; k < et_sequence_search_count(found, i); k++)
            assert_true(et_sequence_search_result(found, i, k).score <=
                        et_sequence_search_result(found, i, k - 1).score);
    }
    assert_int_equal(et_sequence_search_count(found, 4), 0);
    assert_null(et_sequence_search_result(found, 0, 16).ids);
    et_sequence_search_free(found);
}

/* A sequence has the same results alone and with others. */
static void test_sequence_search__sequences_are_alone(void **state)
{
    (void)state;
    static const et_sequence_options kinds[] = {
        { .size = 1 },
        { .size = 3, .alpha = 1, .noise = 0.5, .seed = 4 },
        { .size = 5, .sampling = true, .top_k = 3, .seed = 9 },
    };
    const int32_t initial[] = { 0, 1, 2 };
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        et_sequence_search *all = run(initial, 3, kinds[kind]), *one = run(initial, 1, kinds[kind]);
        assert_int_equal(et_sequence_search_count(all, 0), et_sequence_search_count(one, 0));
        for (int k = 0; k < et_sequence_search_count(one, 0); k++) {
            const et_sequence a = et_sequence_search_result(all, 0, k),
                              b = et_sequence_search_result(one, 0, k);
            assert_int_equal(a.count, b.count);
            assert_memory_equal(a.ids, b.ids, (size_t)a.count * sizeof *a.ids);
            assert_true(a.log_probability == b.log_probability);
        }
        et_sequence_search_free(all);
        et_sequence_search_free(one);
    }
}

static void test_sequence_search__first_tokens(void **state)
{
    (void)state;
    const int32_t initial[] = { 0, 1, 2 }, first = 2;
    et_sequence_search *found =
        run(initial, 3, (et_sequence_options){ .size = 4, .first = &first, .first_count = 1 });
    for (int64_t i = 0; i < 3; i++)
        for (int k = 0; k < et_sequence_search_count(found, i); k++)
            assert_int_equal(et_sequence_search_result(found, i, k).ids[0], first);
    et_sequence_search_free(found);
}

/* Allows the tokens of two paths: 0 1 END and 2 0 1 END. A mask of -INFINITY has each of them as a
 * result, and no other. */
static int masked(void *payload, const et_sequence_step *step, float *logits, et_error *error)
{
    static const int32_t paths[2][LENGTH] = { { 0, 1, END, END }, { 2, 0, 1, END } };
    int status = logits_of(payload, step, logits, error);
    for (int64_t row = 0; row < step->rows; row++) {
        const int32_t *ids = step->ids + row * step->stride + 1;
        bool allowed[TOKENS] = { false };
        for (int k = 0; k < 2; k++)
            if (!memcmp(ids, paths[k], (size_t)step->position * sizeof *ids))
                allowed[paths[k][step->position]] = true;
        for (int i = 0; i < TOKENS; i++)
            if (!allowed[i])
                logits[row * TOKENS + i] = -INFINITY;
    }
    return status;
}

static void test_sequence_search__masks(void **state)
{
    (void)state;
    static const int32_t initial = 1, end = END, paths[2][3] = { { 0, 1 }, { 2, 0, 1 } };
    et_error error = ET_ERROR_INIT;
    for (int kind = 0; kind < 3; kind++) {
        const int size = kind == 1 ? 2 : 8;
        et_sequence_search *found;
        model m = { .calls = 0 };
        const et_sequence_options options = { .vocabulary = TOKENS,
                                              .max_length = LENGTH,
                                              .size = size,
                                              .alpha = 0.6,
                                              .ends = &end,
                                              .end_count = 1,
                                              .sampling = kind == 2 };
        assert_int_equal(et_sequence_search_run(&found, &initial, 1, &options, masked, &m, &error),
                         ET_OK);
        const int count = et_sequence_search_count(found, 0);
        assert_int_equal(count, kind == 2 ? 8 : 2);
        bool seen[2] = { false };
        for (int k = 0; k < count; k++) {
            const et_sequence s = et_sequence_search_result(found, 0, k);
            assert_in_range(s.count, 2, 3);
            assert_memory_equal(s.ids, paths[s.count - 2], (size_t)s.count * sizeof *s.ids);
            assert_true(isfinite(s.score));
            seen[s.count - 2] = true;
        }
        assert_true((seen[0] && seen[1]) || kind == 2);
        et_sequence_search_free(found);
    }
}

static int fails(void *payload, const et_sequence_step *step, float *logits, et_error *error)
{
    for (int64_t i = 0; i < step->rows * TOKENS; i++)
        logits[i] = NAN;
    return payload ? et_fail(error, ET_EDATA, "no logits") : ET_OK;
}

static void test_sequence_search__failures(void **state)
{
    (void)state;
    static const int32_t initial = 0, far = TOKENS;
    static const et_sequence_options bad[] = {
        { .max_length = 3 },
        { .vocabulary = 4 },
        { .vocabulary = 4, .max_length = 3, .size = 65 },
        { .vocabulary = 4, .max_length = 3, .size = 2, .results = 3 },
        { .vocabulary = 4, .max_length = 3, .alpha = -1 },
        { .vocabulary = 4, .max_length = 3, .top_p = 1.5 },
        { .vocabulary = 4, .max_length = 3, .temperature = NAN },
        { .vocabulary = 4, .max_length = 3, .first = &far, .first_count = 1 },
        { .vocabulary = INT64_MAX, .max_length = 3 },
    };
    et_sequence_search *found;
    et_error error = ET_ERROR_INIT;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(et_sequence_search_run(&found, &initial, 1, &bad[i], fails, NULL, &error),
                         ET_ECONFIG);
    const et_sequence_options good = { .vocabulary = TOKENS, .max_length = 3 };
    assert_int_equal(et_sequence_search_run(&found, &initial, 1, NULL, fails, NULL, &error),
                     ET_EUSAGE);
    assert_int_equal(
        et_sequence_search_run(&found, &initial, INT64_MAX, &good, fails, NULL, &error),
        ET_ECONFIG);
    assert_int_equal(et_sequence_search_run(&found, &initial, 1, &good, fails, NULL, &error),
                     ET_EDIVERGED);
    assert_non_null(strstr(error.text, "sequence 0, position 0"));
    assert_int_equal(et_sequence_search_run(&found, &initial, 1, &good, fails, &error, &error),
                     ET_EDATA);
    assert_null(found);
    et_sequence_search_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sequence_search__wide_beams_find_the_best),
        cmocka_unit_test(test_sequence_search__sequences_are_alone),
        cmocka_unit_test(test_sequence_search__first_tokens),
        cmocka_unit_test(test_sequence_search__masks),
        cmocka_unit_test(test_sequence_search__failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
