/* The translator as programs use it: what it opens, what it refuses, and that a line's
 * translation does not depend on its company. The run is one that `etude train` made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <etude/etude.h>
#include <limits.h>
#include <malloc.h>
#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tasks/learnt_run.h"

enum { LINES = 9 };

/* The second has no word, the fifth comes twice. */
static const char *const lines[LINES] = {
    "red dog runs", "",    "blue cat", "tree house tree house red", "dog", "cat cat cat", " ",
    "runs",         "dog",
};

static int set_up(void **state)
{
    return learnt_run(state, 400, 200);
}

static et_translator *open_with(const et_translator_options *options)
{
    et_error error = ET_ERROR_INIT;
    et_translator *t;
    if (et_translator_open(&t, "run", options, &error))
        fail_msg("%s", error.text);
    return t;
}

static void translate(et_translator *t, size_t count, char **results)
{
    et_error error = ET_ERROR_INIT;
    if (et_translator_translate(t, lines, count, results, &error))
        fail_msg("%s", error.text);
}

static void test_translator__opens(void **state)
{
    (void)state;
    et_translator_options options = { 0 };
    et_translator *t = open_with(NULL);
    assert_string_equal(et_translator_checkpoint(t), "run/checkpoints/ckpt-400.safetensors");
    assert_int_equal(et_translator_step(t), 400);
    et_translator_close(t);
    options.checkpoint = "run/checkpoints/ckpt-200.safetensors";
    t = open_with(&options);
    assert_string_equal(et_translator_checkpoint(t), options.checkpoint);
    assert_int_equal(et_translator_step(t), 200);
    et_translator_close(t);
    et_translator_close(NULL);
}

static void test_translator__refuses(void **state)
{
    (void)state;
    static const char *const none[] = { NULL }, *const unknown[] = { "zzz", NULL };
    const struct {
        const char *model_dir;
        et_translator_options options;
        int status;
        const char *words;
    } cases[] = {
        { "none", { 0 }, ET_ENOTFOUND, "none: no such directory" },
        { ".", { 0 }, ET_ENOTFOUND, "params.yaml is missing" },
        { "run", { .sentences = -1 }, ET_ECONFIG, "sentences: -1 decoded" },
        { "run", { .sentences = INT_MAX }, ET_ECONFIG, "must be from 1 to 65536" },
        { "run", { .beam_size = 65 }, ET_ECONFIG, "beam size 65: must be" },
        { "run", { .beam_size = INT_MIN }, ET_ECONFIG, "beam size -2147483648" },
        { "run", { .beam_size = INT_MAX }, ET_ECONFIG, "beam size 2147483647" },
        { "run", { .beam_size = 40 }, ET_ECONFIG, "half the vocabulary" },
        { "run", { .alpha = NAN }, ET_ECONFIG, "alpha nan: must be" },
        { "run", { .alpha = -NAN }, ET_ECONFIG, "nan: must be" },
        { "run", { .alpha = INFINITY }, ET_ECONFIG, "alpha inf: must be" },
        { "run", { .alpha = -INFINITY }, ET_ECONFIG, "alpha -inf: must be" },
        { "run", { .alpha = 1e308 }, ET_ECONFIG, "alpha 1e+308: must be" },
        { "run", { .alpha = 10.01 }, ET_ECONFIG, "from 0 to 10; 0: " },
        { "run", { .max_length = -5 }, ET_ECONFIG, "max length -5: must be" },
        { "run", { .max_length = INT64_MIN }, ET_ECONFIG, "max length -9223372" },
        { "run", { .max_length = (int64_t)1 << 62 }, ET_ECONFIG, "max length 4611" },
        { "run", { .max_length = 65536 }, ET_ECONFIG, "from 1 to 65535; 0: " },
        { NULL, { 0 }, ET_ECONFIG, "directory is NULL" },
        { "run", { .beam_size = -1 }, ET_ECONFIG, "beam size -1: must be" },
        { "run", { .precision = "float16" }, ET_ECONFIG, "precision float16: choose" },
        { "run", { .checkpoint = "none.st" }, ET_ENOTFOUND, "none.st" },
        { "run", { .checkpoint = "a.en" }, ET_EFORMAT, "a.en" },
#define DECODING(...) { .decoding = &(const et_decoding_options){ __VA_ARGS__ } }
        { "run", DECODING(.results = -1), ET_ECONFIG, "-1 results of a line: must be" },
        { "run", DECODING(.results = 65), ET_ECONFIG, "from 1 to 64" },
        { "run", DECODING(.results = 5), ET_ECONFIG, "more than the beam size, 4; raise" },
        { "run", DECODING(.sampling = true, .top_k = -2), ET_ECONFIG, "top_k -2: must be" },
        { "run", DECODING(.sampling = true, .top_p = 1.5), ET_ECONFIG, "top_p 1.5: must be" },
        { "run", DECODING(.sampling = true, .top_p = NAN), ET_ECONFIG, "top_p nan: must be" },
        { "run", DECODING(.sampling = true, .temperature = -1), ET_ECONFIG, "temperature -1: " },
        { "run", DECODING(.sampling = true, .temperature = NAN), ET_ECONFIG, "temperature nan: " },
        { "run", DECODING(.noise = -1), ET_ECONFIG, "noise -1: must be" },
        { "run", DECODING(.noise = INFINITY), ET_ECONFIG, "noise inf: must be" },
        { "run", DECODING(.top_k = 4), ET_ECONFIG, "top_k, top_p and temperature are of sampling" },
        { "run", DECODING(.top_p = 0.5), ET_ECONFIG, "are of sampling: set that" },
        { "run", DECODING(.temperature = 0.5), ET_ECONFIG, "are of sampling: set that" },
        { "run", DECODING(.reserved = { 1 }), ET_EUSAGE, "et_decoding_options" },
        { "run", DECODING(.ends = none), ET_ECONFIG, "ends: an empty list; leave it NULL" },
        { "run", DECODING(.ends = unknown), ET_ECONFIG, "ends: the vocabulary has no token \"zz" },
        { "run", DECODING(.first = none), ET_ECONFIG, "first: an empty list" },
        { "run", DECODING(.first = unknown), ET_ECONFIG, "first: the vocabulary has no token" },
#undef DECODING
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        et_error error = ET_ERROR_INIT;
        et_translator *t;
        int status = et_translator_open(&t, cases[i].model_dir, &cases[i].options, &error);
        if (status != cases[i].status || !strstr(error.text, cases[i].words))
            fail_msg("case %zu: status %d: %s", i, status, error.text);
        assert_null(t);
    }
}

/* How many different translations there are, the empty one among them. */
static int count_distinct(char **results)
{
    int distinct = 0;
    for (size_t i = 0; i < LINES; i++) {
        bool known = false;
        for (size_t k = 0; k < i; k++)
            known |= !strcmp(results[i], results[k]);
        distinct += !known;
    }
    return distinct;
}

/* One at a time, all at once, and all again on the same translator. */
static void test_translator__company_changes_nothing(void **state)
{
    (void)state;
    static const int together[] = { 1, 3, 100 };
    char *alone[LINES];
    et_translator_options options = { 0 };
    et_translator *t = open_with(&options);
    for (size_t i = 0; i < LINES; i++) {
        et_error error = ET_ERROR_INIT;
        assert_int_equal(et_translator_translate(t, &lines[i], 1, &alone[i], &error), ET_OK);
    }
    et_translator_close(t);
    assert_string_equal(alone[1], "");
    assert_string_equal(alone[6], "");
    assert_true(count_distinct(alone) >= 4); /* or company could not show */
    assert_string_equal(alone[4], alone[8]);
    for (size_t k = 0; k < COUNT(together); k++) {
        options.sentences = together[k];
        t = open_with(&options);
        for (int again = 0; again < 2; again++) {
            char *results[LINES];
            translate(t, LINES, results);
            for (size_t i = 0; i < LINES; i++)
                assert_string_equal(results[i], alone[i]);
            et_translator_free_results(results, LINES);
        }
        et_translator_close(t);
    }
    et_translator_free_results(alone, LINES);
}

static int pieces_of(const char *text)
{
    int words = *text != 0;
    for (; *text; text++)
        words += *text == ' ';
    return words;
}

/* A translation has at most so many pieces, and a word is one piece at least. */
static void test_translator__max_length(void **state)
{
    (void)state;
    for (int64_t length = 1; length <= 3; length++) {
        et_translator_options options = { 0 };
        char *results[LINES];
        options.max_length = length;
        et_translator *t = open_with(&options);
        translate(t, LINES, results);
        for (size_t i = 0; i < LINES; i++)
            assert_in_range(pieces_of(results[i]), 0, length);
        et_translator_free_results(results, LINES);
        et_translator_close(t);
    }
}

static void test_translator__no_lines(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_translator *t = open_with(NULL);
    assert_int_equal(et_translator_translate(t, NULL, 0, NULL, &error), ET_OK);
    et_translator_close(t);
}

/* The line is named, and of those before it nothing is left; the translator still works. */
static void test_translator__bad_line(void **state)
{
    (void)state;
    static const char *const bad[] = { "red", "blue", "caf\xe9" };
    char *results[LINES] = { NULL };
    et_error error = ET_ERROR_INIT;
    et_translator *t = open_with(NULL);
    assert_int_equal(et_translator_translate(t, bad, 3, results, &error), ET_EDATA);
    assert_memory_equal(error.text, "line 3, byte 4: not UTF-8; ", 27);
    for (size_t i = 0; i < 3; i++)
        assert_null(results[i]);
    translate(t, LINES, results);
    et_translator_free_results(results, LINES);
    et_translator_close(t);
}

/* What a program may have got from elsewhere: no line, or no lines. */
static void test_translator__null_lines(void **state)
{
    (void)state;
    static const char *const some[] = { "red", NULL, "blue" };
    char *results[LINES] = { NULL };
    et_error error = ET_ERROR_INIT;
    et_translator *t = open_with(NULL);
    assert_int_equal(et_translator_translate(t, some, 3, results, &error), ET_EDATA);
    assert_memory_equal(error.text, "line 2: NULL is no line", 23);
    for (size_t i = 0; i < 3; i++)
        assert_null(results[i]);
    assert_int_equal(et_translator_translate(t, NULL, 3, results, &error), ET_EDATA);
    assert_int_equal(et_translator_translate(t, some, 3, NULL, &error), ET_EDATA);
    et_translator_free_results(NULL, 3);
    translate(t, LINES, results);
    et_translator_free_results(results, LINES);
    et_translator_close(t);
}

/* More than slots can number is said, not counted past its end. */
static void test_translator__too_many_together(void **state)
{
    (void)state;
    enum { MANY = 40000 };
    static const char *many[MANY];
    static char *results[MANY];
    et_error error = ET_ERROR_INIT;
    et_translator_options options = {
        .beam_size = 14, .alpha = 10, .max_length = 65535, .sentences = 65536
    };
    et_translator *t = open_with(&options);
    for (size_t i = 0; i < MANY; i++)
        many[i] = "dog";
    assert_int_equal(et_translator_translate(t, many, MANY, results, &error), ET_ECONFIG);
    assert_non_null(strstr(error.text, "decode fewer together"));
    et_translator_close(t);
}

/* A text in parts: messages count on. */
static void test_translator__first_line(void **state)
{
    (void)state;
    static const char *const bad[] = { "red", "caf\xe9" };
    char *results[2];
    et_error error = ET_ERROR_INIT;
    et_translator *t = open_with(NULL);
    et_translator_set_first_line(t, 30001);
    assert_int_equal(et_translator_translate(t, bad, 2, results, &error), ET_EDATA);
    assert_memory_equal(error.text, "line 30002, byte 4: ", 20);
    et_translator_close(t);
}

typedef struct asked {
    size_t last, count;
    int times, stop_at; /* 0: never */
} asked;

static bool on_progress(void *payload, size_t done, size_t count)
{
    asked *a = payload;
    assert_true(done >= a->last && done <= count);
    a->last = done;
    a->count = count;
    return ++a->times == a->stop_at;
}

/* Few lines or many, it is asked for about each piece, and at the end all are done: also the lines
 * without a word, and those of threads that are slower than the caller's. */
static void test_translator__progress(void **state)
{
    (void)state;
    enum { MANY = 600 };
    static const char *many[MANY];
    static char *results[MANY];
    asked a = { 0 };
    et_error error = ET_ERROR_INIT;
    et_translator *t = open_with(NULL);
    for (size_t i = 0; i < MANY; i++)
        many[i] = lines[i % LINES];
    et_translator_set_progress(t, on_progress, &a);
    const int threads = omp_get_max_threads();
    for (size_t count = LINES; count >= 3; count -= 3)
        for (int team = 1; team <= 3; team++) {
            omp_set_num_threads(team);
            a = (asked){ 0 };
            translate(t, count, results);
            et_translator_free_results(results, count);
            assert_true(a.times > (team == 1)); /* others may be done before the first time */
            assert_int_equal(a.count, count);
            assert_int_equal(a.last, count);
        }
    omp_set_num_threads(threads);
    a = (asked){ 0 };
    assert_int_equal(et_translator_translate(t, many, MANY, results, &error), ET_OK);
    assert_int_equal(a.count, MANY);
    assert_int_equal(a.last, MANY);
    for (size_t i = LINES; i < MANY; i++)
        assert_string_equal(results[i], results[i % LINES]);
    et_translator_free_results(results, MANY);
    memset(results, 0, sizeof results);
    a = (asked){ .stop_at = 1 };
    assert_int_equal(et_translator_translate(t, many, MANY, results, &error), ET_EINTERRUPTED);
    for (size_t i = 0; i < MANY; i++)
        assert_null(results[i]);
    et_translator_set_progress(t, NULL, NULL);
    translate(t, LINES, results);
    et_translator_free_results(results, LINES);
    et_translator_close(t);
}

static void take(void *payload, et_log_level level, const char *text)
{
    if (level == ET_LOG_WARNING)
        snprintf(payload, 200, "%s", text);
}

/* A book in one line is cut, with a warning, and takes no more memory than what is left. */
static void test_translator__long_line(void **state)
{
    (void)state;
    enum { WORDS = 3000 };
    static char book[4 * WORDS + 1], warning[200];
    const char *const text[] = { "red", book };
    char *results[2];
    et_error error = ET_ERROR_INIT;
    et_translator_options options = { 0 };
    for (int i = 0; i < WORDS; i++)
        strcpy(book + 4 * i, "cat ");
    options.beam_size = 1;
    options.max_length = 5;
    et_translator *t = open_with(&options);
    et_log_set(take, warning);
    assert_int_equal(et_translator_translate(t, text, 2, results, &error), ET_OK);
    et_log_set(NULL, NULL);
    assert_non_null(strstr(warning, "line 2: "));
    assert_non_null(strstr(warning, "only the first 1023 are translated"));
    et_translator_free_results(results, 2);
    et_translator_close(t);
}

/* ---- weights that are shared ---- */

static _Atomic size_t held; /* bytes that the library has */

static void *allocate(void *payload, size_t size, size_t alignment)
{
    (void)payload;
    void *memory = NULL;
    if (posix_memalign(&memory, alignment < 16 ? 16 : alignment, size ? size : 1))
        return NULL;
    held += malloc_usable_size(memory);
    return memory;
}

static void *reallocate(void *payload, void *memory, size_t size)
{
    (void)payload;
    size_t before = malloc_usable_size(memory);
    void *moved = realloc(memory, size ? size : 1);
    if (moved)
        held += malloc_usable_size(moved) - before;
    return moved;
}

static void release(void *payload, void *memory)
{
    (void)payload;
    held -= malloc_usable_size(memory);
    free(memory);
}

enum { SHARERS = 3, ROUNDS = 3 };

typedef struct sharer {
    et_translator *translator;
    char *results[ROUNDS][LINES];
    int status;
} sharer;

static void *run_sharer(void *argument)
{
    sharer *self = argument;
    et_error error = ET_ERROR_INIT;
    for (int i = 0; i < ROUNDS && !self->status; i++)
        self->status =
            et_translator_translate(self->translator, lines, LINES, self->results[i], &error);
    return NULL;
}

/* Threads with a translator each, of one model: what each says is what the first says alone, and
 * what a further one takes is a fraction of the first. */
static void test_translator__shares_weights(void **state)
{
    (void)state;
    char *wanted[LINES];
    sharer sharers[SHARERS] = { 0 };
    pthread_t threads[SHARERS];
    et_error error = ET_ERROR_INIT;
    size_t before = held;
    et_translator *first = open_with(&(et_translator_options){ .precision = "float32" });
    size_t of_first = held - before;
    for (int i = 0; i < SHARERS; i++) {
        et_translator_options options = { .precision = "float32", .shares = first };
        size_t earlier = held;
        assert_int_equal(et_translator_open(&sharers[i].translator, NULL, &options, &error), ET_OK);
        assert_in_range(held - earlier, 1, of_first / 4);
        assert_int_equal(et_translator_step(sharers[i].translator), 400);
        assert_string_equal(et_translator_checkpoint(sharers[i].translator),
                            et_translator_checkpoint(first));
    }
    translate(first, LINES, wanted);
    for (int i = 0; i < SHARERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_sharer, &sharers[i]), 0);
    for (int i = 0; i < SHARERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < SHARERS; i++) {
        assert_int_equal(sharers[i].status, ET_OK);
        for (int k = 0; k < ROUNDS; k++) {
            for (size_t line = 0; line < LINES; line++)
                assert_string_equal(sharers[i].results[k][line], wanted[line]);
            et_translator_free_results(sharers[i].results[k], LINES);
        }
        et_translator_close(sharers[i].translator);
    }
    et_translator_free_results(wanted, LINES);
    translate(first, LINES, wanted); /* the weights are the first one's still */
    et_translator_free_results(wanted, LINES);
    et_translator_close(first);
    assert_int_equal(held, before);
}

/* What a translator that shares takes from the first it cannot have of its own. */
static void test_translator__shares_one_model(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_translator *first = open_with(NULL), *second;
    const et_translator_options cases[] = {
        { .shares = first, .checkpoint = "run/checkpoints/ckpt-200.safetensors" },
        { .shares = first, .live_weights = true },
        { .shares = first, .beam_size = 65 },
        { .shares = first, .reserved = { [0] = 1 } },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        int status = et_translator_open(&second, NULL, &cases[i], &error);
        assert_int_equal(status, cases[i].reserved[0] ? ET_EUSAGE : ET_ECONFIG);
        assert_null(second);
    }
    assert_int_equal(
        et_translator_open(&second, "run", &(et_translator_options){ .shares = first }, &error),
        ET_ECONFIG);
    et_translator_close(first);
}

/* ---- several results, samples, targets ---- */

static et_translator *open_decoding(const et_decoding_options *decoding, int together)
{
    return open_with(&(et_translator_options){ .sentences = together, .decoding = decoding });
}

static et_hypotheses *search(et_translator *t)
{
    et_error error = ET_ERROR_INIT;
    et_hypotheses *found;
    if (et_translator_search(t, lines, LINES, &found, &error))
        fail_msg("%s", error.text);
    return found;
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

/* The first result is the translation, scores fall, and a score is the log-probability over what
 * the length costs. */
static void test_translator__n_best(void **state)
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

/* What is drawn is the line's and its number's: not that of lines beside it, of batches or of
 * threads. Equal lines of two numbers may differ. */
static void test_translator__samples_know_no_company(void **state)
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
        for (size_t i = 0; i < LINES; i++) { /* alone, with its number */
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
static void test_translator__samples_have_numbers(void **state)
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

static void test_translator__seeds_differ(void **state)
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

/* Pieces by their texts: those that a translation may begin with, and those that end one. */
static void test_translator__ends_and_first(void **state)
{
    (void)state;
    static const char *const pieces[] = { "t", NULL };
    et_translator *t = open_decoding(&(et_decoding_options){ .first = pieces }, 0);
    et_hypotheses *found = search(t);
    const int32_t piece = et_hypotheses_at(found, 0, 0)->ids[0];
    for (size_t i = 0; i < LINES; i++)
        if (*lines[i] > ' ') {
            assert_int_equal(et_hypotheses_at(found, i, 0)->text[0], 't');
            assert_int_equal(et_hypotheses_at(found, i, 0)->ids[0], piece);
        }
    et_hypotheses_free(found);
    et_translator_close(t);
    /* noise, so that the piece comes up */
    t = open_decoding(&(et_decoding_options){ .ends = pieces, .noise = 2, .results = 4 }, 0);
    found = search(t);
    for (size_t i = 0; i < LINES; i++)
        for (int k = 0; k < et_hypotheses_count(found, i); k++) {
            const et_hypothesis *h = et_hypotheses_at(found, i, k);
            for (int n = 0; n < h->id_count; n++)
                assert_int_not_equal(h->ids[n], piece);
        }
    et_hypotheses_free(found);
    et_translator_close(t);
}

/* A translation's score is what the search gave it, and no other target has a better one. */
static void test_translator__scores_targets(void **state)
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
        /* the same pieces, if the vocabulary cuts the text as the model did */
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

/* One word of the line for each word of a result, whatever stands beside the line; none where they
 * were not asked for. test_alignment.c looks at which. */
static void test_translator__alignments(void **state)
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

static void test_translator__refuses_targets(void **state)
{
    (void)state;
    enum { WORDS = 2000 };
    static char book[4 * WORDS + 1];
    static const char *const two[] = { "red", "dog" };
    const struct {
        const char *targets[2];
        const char *words;
    } cases[] = {
        { { "a", NULL }, "targets: line 2: NULL is no line" },
        { { "caf\xe9", "b" }, "targets: line 1, byte 4: not UTF-8" },
        { { "a", book }, " tokens; up to 1023 can be scored" },
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

/* What is exported translates alone, with the same words; a run, or an export, is not written
 * over. */
static void test_translator__export(void **state)
{
    (void)state;
    char *wanted[LINES], *results[LINES];
    et_error error = ET_ERROR_INIT;
    et_translator *t = open_with(NULL), *alone;
    translate(t, LINES, wanted);
    assert_int_equal(et_translator_export(t, "alone", &error), ET_OK);
    assert_int_equal(et_translator_export(t, "alone", &error), ET_ECONFIG);
    assert_non_null(strstr(error.text, "params.yaml is there already"));
    assert_int_equal(et_translator_export(t, "run", &error), ET_ECONFIG);
    assert_int_equal(et_translator_export(t, "", &error), ET_ECONFIG);
    et_translator_close(t);
    char *files = bad_list("alone");
    assert_string_equal(files, "model.safetensors params.yaml vocabulary.model");
    free(files);
    if (et_translator_open(&alone, "alone", NULL, &error))
        fail_msg("%s", error.text);
    assert_string_equal(et_translator_checkpoint(alone), "alone/model.safetensors");
    assert_int_equal(et_translator_step(alone), 400);
    if (et_translator_translate(alone, lines, LINES, results, &error))
        fail_msg("%s", error.text);
    for (size_t i = 0; i < LINES; i++)
        assert_string_equal(results[i], wanted[i]);
    et_translator_free_results(results, LINES);
    et_translator_free_results(wanted, LINES);
    et_translator_close(alone);
    /* damaged weights are said, not taken for none */
    size_t length;
    char *bytes = bad_read("alone/model.safetensors", &length);
    bytes[length - 1] ^= 1;
    bad_write("alone/model.safetensors", bytes, length);
    free(bytes);
    assert_int_equal(et_translator_open(&alone, "alone", NULL, &error), ET_EFORMAT);
    bad_remove("alone/model.safetensors");
    assert_int_equal(et_translator_open(&alone, "alone", NULL, &error), ET_ENOTFOUND);
    assert_non_null(strstr(error.text, "alone: no checkpoint yet"));
}

/* The command: plain, in Moses' form, drawn, and scored. */
static void test_translator__command(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        int code;
        const char *out, *err; /* how standard output begins; what is in standard error */
    } cases[] = {
        { "translate --model-dir run --n-best 2", 0, "0 ||| ", "" },
        { "translate --model-dir run --scores", 0, "0 ||| ", "" },
        { "translate --model-dir run --n-best 3 --sampling --seed 4 --top-k 5 --scores", 0,
          "0 ||| ", "" },
        { "translate --model-dir run --top-p 0.9 --temperature 1.5", 0, "", "" },
        { "translate --model-dir run --noise 0.5", 0, "", "" },
        { "translate --model-dir run --score-targets two.de", 0, "0 ||| ", "" },
        { "translate --model-dir run --attention a.svg", 2, "", "--attention: of one line" },
        { "translate --model-dir run --score-targets a.de", 3, "0 ||| ",
          "a.de has 60 lines, standard input only 2" },
        { "translate --model-dir run --alignments", 0, "", "" },
        { "translate --model-dir run --alignments --n-best 2", 0, "0 ||| ", "" },
        { "translate --model-dir run --alignments --alignment-layer 77", 3, "",
          "alignments of layer 77" },
        { "translate --model-dir run --input two.en --threads 1", 0, "", "" },
        { "translate --model-dir run --input none.en", 3, "", "none.en" },
        { "translate --model-dir run --input a.en --output a.en", 3, "", "are one file" },
        { "translate --model-dir run --invalid skip", 2, "", "choose stop or replace" },
        { "translate --model-dir run --score-targets none.de", 3, "", "none.de" },
        { "translate --model-dir run --n-best 0", 2, "", "--n-best 0: from 1 to 64" },
        { "translate --model-dir run --n-best 65", 2, "", "--n-best 65: from 1 to 64" },
        { "translate --model-dir run --n-best 5", 2, "", "more than the beam size, 4" },
        { "translate --model-dir run --temperature 0", 2, "", "--temperature 0: nothing can be" },
        { "translate --model-dir run --top-p 2", 2, "", "--top-p 2: a probability" },
        { "translate --model-dir run --score-targets two.de --n-best 2", 2, "",
          "--score-targets: targets are given" },
        { "export --model-dir run --output out", 0, "", "exported run/checkpoints/ckpt-400" },
        { "translate --model-dir out", 0, "", "" },
        { "export --model-dir run --output out", 2, "", "is there already" },
        { "export --output out", 2, "", "--model-dir is missing" },
        { "export --model-dir run", 2, "", "--output is missing" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        bad_end end = bad_start(cases[i].line, "two.en", NULL);
        if (strncmp(end.out, cases[i].out, strlen(cases[i].out)) != 0 ||
            (!cases[i].code && strstr(cases[i].line, "translate") && !*end.out) ||
            !strstr(end.err, cases[i].err) || (cases[i].code != 0) != (end.code != 0))
            fail_msg("%s: code %d\n%s\n%s", cases[i].line, end.code, end.out, end.err);
        if (strstr(cases[i].line, "--scores") || strstr(cases[i].line, "--score-targets two.de"))
            if (!end.code)
                assert_non_null(strstr(end.out, " ||| logp=-"));
        bad_release(&end);
    }
}

int main(void)
{
    const et_allocator counting = { NULL, allocate, reallocate, release };
    et_allocator_set(&counting);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_translator__opens),
        cmocka_unit_test(test_translator__refuses),
        cmocka_unit_test(test_translator__company_changes_nothing),
        cmocka_unit_test(test_translator__max_length),
        cmocka_unit_test(test_translator__no_lines),
        cmocka_unit_test(test_translator__bad_line),
        cmocka_unit_test(test_translator__null_lines),
        cmocka_unit_test(test_translator__too_many_together),
        cmocka_unit_test(test_translator__first_line),
        cmocka_unit_test(test_translator__progress),
        cmocka_unit_test(test_translator__long_line),
        cmocka_unit_test(test_translator__shares_weights),
        cmocka_unit_test(test_translator__shares_one_model),
        cmocka_unit_test(test_translator__n_best),
        cmocka_unit_test(test_translator__samples_know_no_company),
        cmocka_unit_test(test_translator__samples_have_numbers),
        cmocka_unit_test(test_translator__seeds_differ),
        cmocka_unit_test(test_translator__ends_and_first),
        cmocka_unit_test(test_translator__scores_targets),
        cmocka_unit_test(test_translator__alignments),
        cmocka_unit_test(test_translator__refuses_targets),
        cmocka_unit_test(test_translator__export),
        cmocka_unit_test(test_translator__command),
    };
    return cmocka_run_group_tests(tests, set_up, bad_tear_down);
}
