/* Other results of a search than the translation: several results, samples, scores of given
 * targets, alignments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <etude/etude.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tasks/learnt_lines.h"
#include "tasks/translation/decoding/translator_private.h"

static et_translator *open_decoding(const et_decoding_options *decoding, int together)
{
    return open_with(&(et_translator_options){ .sentences = together, .decoding = decoding });
}

/* Bits included. */
static void assert_same(const et_hypotheses *a, const et_hypotheses *b, size_t line)
{
    assert_int_equal(et_hypotheses_count(a, line), et_hypotheses_count(b, line));
    for (int i = 0; i < et_hypotheses_count(a, line); i++) {
        const et_hypothesis *x = et_hypotheses_at(a, line, i), *y = et_hypotheses_at(b, line, i);
        assert_string_equal(x->text, y->text);
        assert_int_equal(x->id_count, y->id_count);
        assert_memory_equal(x->ids, y->ids, (size_t)x->id_count * sizeof *x->ids);
        assert_int_equal(x->tokens, y->tokens);
        assert_true(x->score == y->score && x->log_probability == y->log_probability);
    }
}

/* The first result is the translation, scores decrease, and a score is the log-probability divided
 * by the length penalty. */
static void test_translator_search__n_best(void **state)
{
    (void)state;
    char *best[LINES];
    int results = 0;
    et_translator *t = open_decoding(&(et_decoding_options){ .results = 4 }, 0);
    et_hypotheses *found = search(t);
    translate(t, LINES, best);
    for (size_t i = 0; i < LINES; i++) {
        int count = et_hypotheses_count(found, i);
        assert_in_range(count, 1, 4);
        results += count;
        assert_string_equal(et_hypotheses_at(found, i, 0)->text, best[i]);
        for (int k = 0; k<count && * lines[i]> ' '; k++) {
            const et_hypothesis *h = et_hypotheses_at(found, i, k);
            assert_int_equal(h->tokens, h->id_count + 1);
            double norm = pow((5. + h->tokens) / 6, 0.6);
            assert_true(fabs(h->log_probability / norm - h->score) < 1e-5);
            if (k) {
                assert_true(h->score <= et_hypotheses_at(found, i, k - 1)->score);
                assert_true(h->id_count != et_hypotheses_at(found, i, 0)->id_count ||
                            memcmp(h->ids, et_hypotheses_at(found, i, 0)->ids,
                                   (size_t)h->id_count * sizeof *h->ids));
            }
        }
    }
    assert_true(results > 2 * LINES);
    assert_int_equal(et_hypotheses_count(found, 1), 1);
    assert_string_equal(et_hypotheses_at(found, 1, 0)->text, "");
    assert_true(et_hypotheses_at(found, 1, 0)->score == 0);
    assert_int_equal(et_hypotheses_count(found, LINES), 0);
    assert_null(et_hypotheses_at(found, LINES, 0));
    assert_null(et_hypotheses_at(found, 0, -1));
    assert_null(et_hypotheses_at(found, 0, 64));
    et_translator_free_results(best, LINES);
    et_hypotheses_free(found);
    et_hypotheses_free(NULL);
    et_translator_close(t);
}

/* A sample only depends on its line and the line's number: not on other lines, batches or threads.
 * Equal lines with two numbers may differ. */
static void test_translator_search__samples_know_no_company(void **state)
{
    (void)state;
    static const et_decoding_options ways[] = {
        { .results = 3, .sampling = true, .seed = 4, .temperature = 2 },
        { .results = 2, .sampling = true, .seed = 4, .top_k = 3, .top_p = 0.95 },
        { .results = 2, .noise = 1.5, .seed = 9 },
    };
    const int threads = omp_get_max_threads();
    for (size_t w = 0; w < COUNT(ways); w++) {
        et_translator *t = open_decoding(&ways[w], 0);
        et_hypotheses *together = search(t);
        et_translator_close(t);
        for (int team = 1; team <= 2; team++) {
            omp_set_num_threads(team);
            t = open_decoding(&ways[w], 2);
            et_hypotheses *again = search(t);
            for (size_t i = 0; i < LINES; i++)
                assert_same(together, again, i);
            et_hypotheses_free(again);
            et_translator_close(t);
        }
        omp_set_num_threads(threads);
        t = open_decoding(&ways[w], 0);
        for (size_t i = 0; i < LINES; i++) { /* a single line, with its number */
            et_error error = ET_ERROR_INIT;
            et_hypotheses *alone;
            et_translator_set_first_line(t, i + 1);
            assert_int_equal(et_translator_search(t, &lines[i], 1, &alone, &error), ET_OK);
            assert_int_equal(et_hypotheses_count(alone, 0), et_hypotheses_count(together, i));
            for (int k = 0; k < et_hypotheses_count(alone, 0); k++)
                assert_true(et_hypotheses_at(alone, 0, k)->score ==
                            et_hypotheses_at(together, i, k)->score);
            et_hypotheses_free(alone);
        }
        et_translator_close(t);
        et_hypotheses_free(together);
    }
}

/* One line drawn under two numbers differs; samples do not depend on how many others are drawn. */
static void test_translator_search__samples_have_numbers(void **state)
{
    (void)state;
    et_decoding_options decoding = { .results = 3, .sampling = true, .temperature = 2 };
    et_translator *t = open_decoding(&decoding, 0);
    et_hypotheses *three = search(t), *two;
    et_translator_close(t);
    decoding.results = 2;
    t = open_decoding(&decoding, 0);
    two = search(t);
    et_translator_close(t);
    assert_string_equal(lines[4], lines[8]);
    assert_true(et_hypotheses_at(three, 4, 0)->score != et_hypotheses_at(three, 8, 0)->score);
    for (size_t i = 0; i < LINES; i++)
        for (int k = 0; k < et_hypotheses_count(two, i); k++) {
            int there = 0;
            for (int n = 0; n < et_hypotheses_count(three, i); n++)
                there += et_hypotheses_at(two, i, k)->score == et_hypotheses_at(three, i, n)->score;
            assert_true(there >= 1);
        }
    et_hypotheses_free(three);
    et_hypotheses_free(two);
}

static void test_translator_search__seeds_differ(void **state)
{
    (void)state;
    int differ = 0;
    et_decoding_options decoding = { .sampling = true, .temperature = 3 };
    et_translator *t = open_decoding(&decoding, 0);
    et_hypotheses *one = search(t);
    et_translator_close(t);
    decoding.seed = 1;
    t = open_decoding(&decoding, 0);
    et_hypotheses *other = search(t);
    et_translator_close(t);
    for (size_t i = 0; i < LINES; i++)
        differ +=
            strcmp(et_hypotheses_at(one, i, 0)->text, et_hypotheses_at(other, i, 0)->text) != 0;
    assert_true(differ >= 3);
    et_hypotheses_free(one);
    et_hypotheses_free(other);
}

/* Tokens by their texts: those with which a translation may begin, and those that end one. */
static void test_translator_search__ends_and_first(void **state)
{
    (void)state;
    static const char *const tokens[] = { "t", NULL };
    et_translator *t = open_decoding(&(et_decoding_options){ .first = tokens }, 0);
    et_hypotheses *found = search(t);
    const int32_t token = et_hypotheses_at(found, 0, 0)->ids[0];
    for (size_t i = 0; i < LINES; i++)
        if (*lines[i] > ' ') {
            assert_int_equal(et_hypotheses_at(found, i, 0)->text[0], 't');
            assert_int_equal(et_hypotheses_at(found, i, 0)->ids[0], token);
        }
    et_hypotheses_free(found);
    et_translator_close(t);
    /* noise, so that the token comes up */
    t = open_decoding(&(et_decoding_options){ .ends = tokens, .noise = 2, .results = 4 }, 0);
    found = search(t);
    for (size_t i = 0; i < LINES; i++)
        for (int k = 0; k < et_hypotheses_count(found, i); k++) {
            const et_hypothesis *h = et_hypotheses_at(found, i, k);
            for (int n = 0; n < h->id_count; n++)
                assert_int_not_equal(h->ids[n], token);
        }
    et_hypotheses_free(found);
    et_translator_close(t);
}

/* A translation's score is the search's, and no other target has a better one. */
static void test_translator_search__scores_targets(void **state)
{
    (void)state;
    char *best[LINES];
    const char *wrong[LINES];
    et_error error = ET_ERROR_INIT;
    et_translator *t = open_with(NULL);
    et_hypotheses *found = search(t), *scored, *others;
    translate(t, LINES, best);
    for (size_t i = 0; i < LINES; i++)
        wrong[i] = best[(i + 3) % LINES];
    assert_int_equal(
        et_translator_score(t, lines, (const char *const *)best, LINES, &scored, &error), ET_OK);
    assert_int_equal(et_translator_score(t, lines, wrong, LINES, &others, &error), ET_OK);
    for (size_t i = 0; i < LINES; i++) {
        const et_hypothesis *a = et_hypotheses_at(found, i, 0), *b = et_hypotheses_at(scored, i, 0);
        assert_int_equal(et_hypotheses_count(scored, i), 1);
        assert_string_equal(b->text, best[i]);
        if (*lines[i] <= ' ')
            continue;
        /* the same tokens, if the vocabulary cuts the text as the model did */
        if (a->tokens == b->tokens && !memcmp(a->ids, b->ids, (size_t)a->id_count * sizeof *a->ids))
            assert_true(fabs(a->log_probability - b->log_probability) < 1e-3 &&
                        fabs(a->score - b->score) < 1e-3);
        if (strcmp(best[i], wrong[i]))
            assert_true(et_hypotheses_at(others, i, 0)->score < b->score + 1e-3);
    }
    et_hypotheses_free(scored);
    et_hypotheses_free(others);
    et_hypotheses_free(found);
    et_translator_free_results(best, LINES);
    et_translator_close(t);
}

static int words_of(const char *text)
{
    int words = 0;
    for (const char *at = text; *at; at++)
        words += *at != ' ' && (at == text || at[-1] == ' ');
    return words;
}

static et_hypotheses *search_lines(et_translator *t, const char *const *texts, size_t count)
{
    et_error error = ET_ERROR_INIT;
    et_hypotheses *found;
    if (et_translator_search(t, texts, count, &found, &error))
        fail_msg("%s", error.text);
    return found;
}

static void check_alignment(const et_hypothesis *h, const et_hypothesis *same, const char *line)
{
    assert_int_equal(h->alignment_count, words_of(h->text));
    assert_int_equal(h->alignment_count, same->alignment_count);
    for (int k = 0; k < h->alignment_count; k++) {
        const et_alignment *one = &h->alignment[k];
        assert_int_equal(one->target, k);
        assert_in_range(one->source, 0, words_of(line) - 1);
        assert_true(one->weight > 0 && one->weight <= 1.000001);
        assert_int_equal(one->source, same->alignment[k].source);
        assert_int_equal(h->source_words, words_of(line));
        double sum = 0;
        for (int s = 0; s < h->source_words; s++)
            sum += one->weights[s];
        assert_true(one->weights[one->source] == one->weight && sum <= 1.000001);
        assert_memory_equal(one->weights, same->alignment[k].weights,
                            (size_t)h->source_words * sizeof *one->weights);
    }
}

/* One word of the line for each word of a result, with any other lines; none if they were not
 * requested. test_alignment.c checks which word. */
static void test_translator_search__alignments(void **state)
{
    (void)state;
    et_decoding_options decoding = { .results = 2, .alignments = -1 };
    et_translator_options options = { .decoding = &decoding };
    et_translator *t = open_with(&options);
    et_hypotheses *all = search_lines(t, lines, LINES), *given;
    et_error error = ET_ERROR_INIT;
    int words = 0;
    for (size_t i = 0; i < LINES; i++) {
        et_hypotheses *alone = search_lines(t, lines + i, 1);
        for (int rank = 0; rank < et_hypotheses_count(all, i); rank++) {
            const et_hypothesis *h = et_hypotheses_at(all, i, rank);
            check_alignment(h, et_hypotheses_at(alone, 0, rank), lines[i]);
            words += h->alignment_count;
        }
        et_hypotheses_free(alone);
    }
    assert_true(words >= 12);
    et_hypotheses_free(all);
    if (et_translator_score(t, lines, lines, 1, &given, &error))
        fail_msg("%s", error.text);
    assert_int_equal(et_hypotheses_at(given, 0, 0)->alignment_count, words_of(lines[0]));
    et_hypotheses_free(given);
    et_translator_close(t);
    decoding.alignments = 0;
    t = open_with(&options);
    all = search_lines(t, lines, 1);
    assert_int_equal(et_hypotheses_at(all, 0, 0)->alignment_count, 0);
    et_hypotheses_free(all);
    et_translator_close(t);
    decoding.alignments = 99;
    assert_int_equal(et_translator_open(&t, "run", &options, &error), ET_ECONFIG);
    assert_non_null(strstr(error.text, "alignments of layer 99: the decoder has"));
    decoding.alignments = -2;
    assert_int_equal(et_translator_open(&t, "run", &options, &error), ET_ECONFIG);
}

static void test_translator_search__refuses_targets(void **state)
{
    (void)state;
    enum { WORDS = 2000 };
    static char book[4 * WORDS + 1];
    static const char *const two[] = { "red", "dog" };
    const struct {
        const char *targets[2];
        const char *words;
    } cases[] = {
        { { "a", NULL }, "targets: line 2: the text is NULL; an empty line is \"\"" },
        { { "caf\xe9", "b" }, "targets: line 1, byte 4: not UTF-8" },
        { { "a", book }, "tokens, more than 1023" },
    };
    for (int i = 0; i < WORDS; i++)
        strcpy(book + 4 * i, "cat ");
    et_translator *t = open_with(NULL);
    for (size_t i = 0; i < COUNT(cases); i++) {
        et_error error = ET_ERROR_INIT;
        et_hypotheses *found;
        assert_int_equal(et_translator_score(t, two, cases[i].targets, 2, &found, &error),
                         ET_EDATA);
        if (!strstr(error.text, cases[i].words))
            fail_msg("case %zu: %s", i, error.text);
        assert_null(found);
    }
    et_error error = ET_ERROR_INIT;
    et_hypotheses *found;
    assert_int_equal(et_translator_score(t, two, NULL, 2, &found, &error), ET_EDATA);
    assert_int_equal(et_translator_score(t, NULL, two, 2, &found, &error), ET_EDATA);
    assert_int_equal(et_translator_search(t, NULL, 2, &found, &error), ET_EDATA);
    assert_int_equal(et_translator_score(t, NULL, NULL, 0, &found, &error), ET_OK);
    assert_int_equal(et_hypotheses_count(found, 0), 0);
    et_hypotheses_free(found);
    et_translator_close(t);
}

/* ---- embedded sources ---- */

/* The rows of a line give the results of the line, bits included; masked rows count for nothing. */
static void test_translator_search__embedded(void **state)
{
    (void)state;
    static const et_decoding_options ways[] = { { .results = 4 },
                                                { .results = 2, .sampling = true, .seed = 4 } };
    for (size_t w = 0; w < COUNT(ways); w++) {
        et_error error = ET_ERROR_INIT;
        et_translator *t = open_decoding(&ways[w], 0);
        et_hypotheses *together = search(t), *found;
        et_embedded sources[LINES];
        for (size_t i = 0; i < LINES; i++)
            assert_int_equal(et_translator_embed(t, lines[i], &sources[i], &error), ET_OK);
        assert_int_equal(sources[1].count, 0);
        assert_int_equal(et_translator_search_embedded(t, sources, LINES, &found, &error), ET_OK);
        for (size_t i = 0; i < LINES; i++)
            assert_same(together, found, i);
        et_hypotheses_free(found);
        for (size_t i = 0; i < LINES; i++) { /* padding behind a line */
            const int64_t width = sources[i].width, count = sources[i].count;
            float *rows = calloc((size_t)((count + 3) * width), sizeof *rows);
            bool *mask = calloc((size_t)count + 3, sizeof *mask);
            memcpy(rows, sources[i].rows, (size_t)(count * width) * sizeof *rows);
            for (int64_t k = 0; k < 3 * width; k++)
                rows[count * width + k] = NAN;
            for (int64_t k = 0; k < count; k++)
                mask[k] = true;
            et_embedded_release(&sources[i]);
            sources[i] = (et_embedded){ rows, count + 3, width, mask };
        }
        assert_int_equal(et_translator_search_embedded(t, sources, LINES, &found, &error), ET_OK);
        for (size_t i = 0; i < LINES; i++) {
            assert_same(together, found, i);
            free((float *)sources[i].rows);
            free((bool *)sources[i].mask);
        }
        et_hypotheses_free(found);
        et_hypotheses_free(together);
        et_translator_close(t);
    }
}

/* A masked row in the middle keeps the positions of the rows after it. */
static void test_translator_search__embedded_mask(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_translator *t = open_with(NULL);
    et_embedded whole, cut;
    et_hypotheses *masked, *without;
    assert_int_equal(et_translator_embed(t, lines[0], &whole, &error), ET_OK);
    assert_true(whole.count > 3);
    bool mask[1024];
    float *rows = malloc((size_t)(whole.count * whole.width) * sizeof *rows);
    memset(mask, true, sizeof mask);
    mask[1] = false;
    memcpy(rows, whole.rows, (size_t)whole.width * sizeof *rows);
    memcpy(rows + whole.width, whole.rows + 2 * whole.width,
           (size_t)((whole.count - 2) * whole.width) * sizeof *rows);
    cut = (et_embedded){ rows, whole.count - 1, whole.width, NULL };
    whole.mask = mask;
    assert_int_equal(et_translator_search_embedded(t, &whole, 1, &masked, &error), ET_OK);
    assert_int_equal(et_translator_search_embedded(t, &cut, 1, &without, &error), ET_OK);
    assert_true(et_hypotheses_at(masked, 0, 0)->log_probability !=
                et_hypotheses_at(without, 0, 0)->log_probability);
    et_hypotheses_free(masked);
    et_hypotheses_free(without);
    mask[0] = mask[1] = true;
    memset(mask, false, sizeof mask);
    assert_int_equal(et_translator_search_embedded(t, &whole, 1, &masked, &error), ET_OK);
    assert_string_equal(et_hypotheses_at(masked, 0, 0)->text, "");
    et_hypotheses_free(masked);
    free(rows);
    et_embedded_release(&whole);
    et_translator_close(t);
}

static void test_translator_search__embedded_refused(void **state)
{
    (void)state;
    static float rows[1025 * 4096];
    et_error error = ET_ERROR_INIT;
    et_translator *t = open_with(NULL);
    et_embedded good;
    et_hypotheses *found;
    assert_int_equal(et_translator_embed(t, lines[0], &good, &error), ET_OK);
    assert_in_range(good.width, 1, 4096);
    rows[good.width + 1] = INFINITY;
    const struct {
        et_embedded source;
        const char *error;
    } cases[] = {
        { { good.rows, good.count, good.width - 2, NULL }, "source 1: rows of " },
        { { rows, 3, good.width, NULL }, "source 1, row 1: inf is not finite" },
        { { rows, 1025, good.width, NULL }, "source 1: 1025 rows; give at most 1024" },
        { { NULL, 2, good.width, NULL }, "source 1: 2 rows, which are NULL" },
        { { rows, -1, good.width, NULL }, "source 1: -1 rows" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(et_translator_search_embedded(t, &cases[i].source, 1, &found, &error),
                         ET_EDATA);
        assert_null(found);
        assert_non_null(strstr(error.text, cases[i].error));
    }
    assert_int_equal(et_translator_search_embedded(t, NULL, 1, &found, &error), ET_EDATA);
    assert_int_equal(et_translator_embed(t, "\xff", &(et_embedded){ 0 }, &error), ET_EDATA);
    et_embedded_release(&(et_embedded){ 0 });
    et_translator_close(t);
    t = open_decoding(&(et_decoding_options){ .alignments = -1 }, 0);
    assert_int_equal(et_translator_search_embedded(t, &good, 1, &found, &error), ET_ECONFIG);
    assert_non_null(strstr(error.text, "alignments"));
    et_embedded_release(&good);
    et_translator_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_translator_search__embedded),
        cmocka_unit_test(test_translator_search__embedded_mask),
        cmocka_unit_test(test_translator_search__embedded_refused),
        cmocka_unit_test(test_translator_search__n_best),
        cmocka_unit_test(test_translator_search__samples_know_no_company),
        cmocka_unit_test(test_translator_search__samples_have_numbers),
        cmocka_unit_test(test_translator_search__seeds_differ),
        cmocka_unit_test(test_translator_search__ends_and_first),
        cmocka_unit_test(test_translator_search__scores_targets),
        cmocka_unit_test(test_translator_search__alignments),
        cmocka_unit_test(test_translator_search__refuses_targets),
    };
    return cmocka_run_group_tests(tests, set_up, bad_tear_down);
}
