/* The translator in programs: opening, refusals, and that a line's translation does not depend on
 * other lines. The run was made by `etude train`. */
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
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tasks/learnt_lines.h"
#include "tasks/translation/decoding/translator_private.h"

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
        { ".", { 0 }, ET_ENOTFOUND, ".: a folder of runs; name one of them, such as ./run" },
        { "table", { 0 }, ET_ECONFIG, "table: a run of tabular/mlp, which is not a translation" },
        { "run/checkpoints", { 0 }, ET_ENOTFOUND, "params.yaml is missing" },
        { "run", { .sentences = -1 }, ET_ECONFIG, "sentences: -1 decoded" },
        { "run", { .sentences = INT_MAX }, ET_ECONFIG, "give 1 to 65536" },
        { "run", { .beam_size = 65 }, ET_ECONFIG, "beam size 65: give" },
        { "run", { .beam_size = INT_MIN }, ET_ECONFIG, "beam size -2147483648" },
        { "run", { .beam_size = INT_MAX }, ET_ECONFIG, "beam size 2147483647" },
        { "run", { .beam_size = 40 }, ET_ECONFIG, "half the vocabulary" },
        { "run", { .alpha = NAN }, ET_ECONFIG, "alpha nan: give" },
        { "run", { .alpha = -NAN }, ET_ECONFIG, "nan: give" },
        { "run", { .alpha = INFINITY }, ET_ECONFIG, "alpha inf: give" },
        { "run", { .alpha = -INFINITY }, ET_ECONFIG, "alpha -inf: give" },
        { "run", { .alpha = 1e308 }, ET_ECONFIG, "alpha 1e+308: give" },
        { "run",
          { .alpha = 10.01 },
          ET_ECONFIG,
          "give a number up to 10, or 0 for the run's alpha; for no length penalty, set "
          "no_length_penalty" },
        { "run", { .max_length = -5 }, ET_ECONFIG, "max length -5: give" },
        { "run", { .max_length = INT64_MIN }, ET_ECONFIG, "max length -9223372" },
        { "run", { .max_length = (int64_t)1 << 62 }, ET_ECONFIG, "max length 4611" },
        { "run", { .max_length = 65536 }, ET_ECONFIG, "give 1 to 65535, or 0 for " },
        { NULL, { 0 }, ET_ECONFIG, "the run is NULL" },
        { "run", { .beam_size = -1 }, ET_ECONFIG, "beam size -1: give" },
        { "run", { .precision = "float16" }, ET_ECONFIG, "precision float16: choose" },
        { "run", { .checkpoint = "none.st" }, ET_ENOTFOUND, "none.st" },
        { "run", { .checkpoint = "a.en" }, ET_EFORMAT, "a.en" },
#define DECODING(...) { .decoding = &(const et_decoding_options){ __VA_ARGS__ } }
        { "run", DECODING(.results = -1), ET_ECONFIG, "-1 results per line: give" },
        { "run", DECODING(.results = 65), ET_ECONFIG, "give 1 to 64" },
        { "run", DECODING(.results = 5), ET_ECONFIG, "more than the beam size, 4; raise" },
        { "run", DECODING(.sampling = true, .top_k = -2), ET_ECONFIG, "top_k -2: give" },
        { "run", DECODING(.sampling = true, .top_p = 1.5), ET_ECONFIG, "top_p 1.5: give" },
        { "run", DECODING(.sampling = true, .top_p = NAN), ET_ECONFIG, "top_p nan: give" },
        { "run", DECODING(.sampling = true, .temperature = -1), ET_ECONFIG, "temperature -1: " },
        { "run", DECODING(.sampling = true, .temperature = NAN), ET_ECONFIG, "temperature nan: " },
        { "run", DECODING(.noise = -1), ET_ECONFIG, "noise -1: give" },
        { "run", DECODING(.noise = INFINITY), ET_ECONFIG, "noise inf: give" },
        { "run", DECODING(.top_k = 4), ET_ECONFIG,
          "top_k, top_p and temperature need sampling: set it as well" },
        { "run", DECODING(.top_p = 0.5), ET_ECONFIG,
          "top_k, top_p and temperature need sampling: set it as well" },
        { "run", DECODING(.temperature = 0.5), ET_ECONFIG,
          "top_k, top_p and temperature need sampling: set it as well" },
        { "run", DECODING(.ends = none), ET_ECONFIG, "ends: the list is empty; use NULL" },
        { "run", DECODING(.ends = unknown), ET_ECONFIG, "ends: the vocabulary has no token \"zz" },
        { "run", DECODING(.first = none), ET_ECONFIG, "first: the list is empty; use NULL" },
        { "run", DECODING(.first = unknown), ET_ECONFIG, "first: the vocabulary has no token" },
#undef DECODING
    };
    assert_int_equal(mkdir("table", 0777), 0);
    bad_write_text("table/params.yaml", "experiment: tabular/mlp\n");
    for (size_t i = 0; i < COUNT(cases); i++) {
        et_error error = ET_ERROR_INIT;
        et_translator *t;
        int status = et_translator_open(&t, cases[i].model_dir, &cases[i].options, &error);
        if (status != cases[i].status || !strstr(error.text, cases[i].words))
            fail_msg("case %zu: status %d: %s", i, status, error.text);
        assert_null(t);
    }
}

/* Others of an ensemble. */
static void test_translator__refuses_others(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_translator *t, *pair, *first = open_with(NULL);
    const et_translator *const others[2] = { first, first }, *const none[1] = { NULL };
    const double good[3] = { 1, 2, 3 }, zero[3] = { 1, 0, 1 }, odd[3] = { 1, NAN, 1 };
    const struct {
        et_translator_options options;
        const char *words;
    } cases[] = {
        { { .others = others, .other_count = -1 }, "-1 other models: give 0 to 31" },
        { { .others = others, .other_count = 32 }, "32 other models: give 0 to 31" },
        { { .others = NULL, .other_count = 1 }, "other model 1 of the ensemble is NULL" },
        { { .others = none, .other_count = 1 }, "other model 1 of the ensemble is NULL" },
        { { .weights = good }, "weights are for an ensemble" },
        { { .others = others, .other_count = 2, .weights = zero },
          "weight 2 of the ensemble is 0" },
        { { .others = others, .other_count = 2, .weights = odd }, "weight 2 of the ensemble is" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(et_translator_open(&t, "run", &cases[i].options, &error), ET_ECONFIG);
        bad_assert_says("others", error.text, cases[i].words);
        assert_null(t);
    }
    et_translator_options options = { .others = others, .other_count = 2, .weights = good };
    pair = open_with(&options);
    assert_int_equal(et_translator_export(pair, "ensemble", NULL, &error), ET_ECONFIG);
    bad_assert_says("export", error.text, "an ensemble of 3 models cannot be exported");
    options = (et_translator_options){ .shares = first, .others = others, .other_count = 1 };
    assert_int_equal(et_translator_open(&t, NULL, &options, &error), ET_ECONFIG);
    bad_assert_says("shares", error.text, "leave others out");
    const et_translator *const nested[1] = { pair };
    options = (et_translator_options){ .others = nested, .other_count = 1 };
    assert_int_equal(et_translator_open(&t, "run", &options, &error), ET_ECONFIG);
    bad_assert_says("nested", error.text, "belongs to an ensemble itself");
    et_translator_close(pair);
    et_translator_close(first);
}

/* A translator that shares an ensemble's weights translates as the ensemble does. */
static void test_translator__shares_others(void **state)
{
    (void)state;
    char *alone[LINES], *both[LINES], *shared[LINES];
    et_error error = ET_ERROR_INIT;
    const et_translator_options early = { .checkpoint = "200" };
    et_translator *first = open_with(&early), *t, *same;
    const et_translator *const others[1] = { first };
    const double weights[2] = { 1, 1e6 };
    t = open_with(
        &(et_translator_options){ .others = others, .other_count = 1, .weights = weights });
    const et_translator_options options = { .shares = t, .sentences = 2 };
    assert_int_equal(et_translator_open(&same, NULL, &options, &error), ET_OK);
    translate(t, LINES, both);
    translate(same, LINES, shared);
    translate(first, LINES, alone);
    for (size_t i = 0; i < LINES; i++) {
        assert_string_equal(both[i], shared[i]);
        assert_string_equal(both[i], alone[i]);
    }
    et_translator_close(same);
    et_translator_close(t);
    et_translator_close(first);
    et_translator_free_results(alone, LINES);
    et_translator_free_results(both, LINES);
    et_translator_free_results(shared, LINES);
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

static int tokens_of(const char *text)
{
    int words = *text != 0;
    for (; *text; text++)
        words += *text == ' ';
    return words;
}

/* A translation has at most so many tokens, and a word is one token at least. */
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
            assert_in_range(tokens_of(results[i]), 0, length);
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

/* The message names the line, and no results of earlier lines remain; the translator still works.
 */
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

/* Arguments that a program may have from elsewhere: no line, or no lines. */
static void test_translator__null_lines(void **state)
{
    (void)state;
    static const char *const some[] = { "red", NULL, "blue" };
    char *results[LINES] = { NULL };
    et_error error = ET_ERROR_INIT;
    et_translator *t = open_with(NULL);
    assert_int_equal(et_translator_translate(t, some, 3, results, &error), ET_EDATA);
    assert_memory_equal(error.text, "line 2: the text is NULL; an empty line is \"\"", 23);
    for (size_t i = 0; i < 3; i++)
        assert_null(results[i]);
    assert_int_equal(et_translator_translate(t, NULL, 3, results, &error), ET_EDATA);
    assert_int_equal(et_translator_translate(t, some, 3, NULL, &error), ET_EDATA);
    et_translator_free_results(NULL, 3);
    translate(t, LINES, results);
    et_translator_free_results(results, LINES);
    et_translator_close(t);
}

/* Too many sentences for the numbers of slots give an error, not an overflow. */
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
    assert_non_null(strstr(error.text, "is too large; decode fewer sentences together"));
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

/* With few lines or many, progress is called about once for each token, and at the end all lines
 * are done: also lines without a word, and those of threads that are slower than the caller's. */
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

/* A book in one line is translated in pieces, with a warning. */
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
    assert_non_null(strstr(warning, "tokens, more than 1,023; translated in "));
    const char *pieces = strstr(warning, "translated in ") + strlen("translated in ");
    assert_true(atoi(pieces) >= WORDS / 1023);
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

/* Threads with a translator each, of one model: each gives the translations of the first, and a
 * further one needs a fraction of the first one's memory. */
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
    translate(first, LINES, wanted); /* the weights still belong to the first one */
    et_translator_free_results(wanted, LINES);
    et_translator_close(first);
    assert_int_equal(held, before);
}

/* A translator that shares may not set the options that it takes from the first. */
static void test_translator__shares_one_model(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_translator *first = open_with(NULL), *second;
    const et_translator_options cases[] = {
        { .shares = first, .checkpoint = "run/checkpoints/ckpt-200.safetensors" },
        { .shares = first, .live_weights = true },
        { .shares = first, .beam_size = 65 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        int status = et_translator_open(&second, NULL, &cases[i], &error);
        assert_int_equal(status, ET_ECONFIG);
        assert_null(second);
    }
    assert_int_equal(
        et_translator_open(&second, "run", &(et_translator_options){ .shares = first }, &error),
        ET_ECONFIG);
    et_translator_close(first);
}

/* The command: plain, in Moses' form, drawn, and scored. */
static void test_translator__command(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        int code;
        const char *out, *err; /* begin of standard output; a part of standard error */
    } cases[] = {
        { "translate --model-dir run --n-best 2", 0, "0 ||| ", "" },
        { "translate --model-dir run --scores", 0, "0 ||| ", "" },
        { "translate --model-dir run --n-best 3 --sampling --seed 4 --top-k 5 --scores", 0,
          "0 ||| ", "" },
        { "translate --model-dir run --top-p 0.9 --temperature 1.5", 0, "", "" },
        { "translate --model-dir run --noise 0.5", 0, "", "" },
        { "translate --model-dir run --score-targets two.de", 0, "0 ||| ", "" },
        { "translate --model-dir run --attention a.svg", 2, "",
          "--attention: give one line; the input has more" },
        { "translate --model-dir run --score-targets a.de", 3, "0 ||| ",
          "a.de has 60 lines, standard input only 2" },
        { "translate --model-dir run --alignments", 0, "", "" },
        { "translate --model-dir run --alignments --n-best 2", 0, "0 ||| ", "" },
        { "translate --model-dir run --alignments --alignment-layer 77", 3, "",
          "alignments of layer 77" },
        { "translate --model-dir run --input two.en --threads 1", 0, "", "" },
        { "translate --model-dir run --input none.en", 3, "", "none.en" },
        { "translate --model-dir run --input a.en --output a.en", 3, "",
          "are the same file: write to another file" },
        { "translate --model-dir run --invalid skip", 2, "", "(allowed: stop, replace)" },
        { "translate --model-dir run --score-targets none.de", 3, "", "none.de" },
        { "translate --model-dir run --n-best 0", 2, "",
          "--n-best: 0 is out of range; allowed: 1 to 64" },
        { "translate --model-dir run --n-best 65", 2, "",
          "--n-best: 65 is out of range; allowed: 1 to 64" },
        { "translate --model-dir run --n-best 5", 2, "", "more than the beam size, 4" },
        { "translate --model-dir run --temperature 0", 2, "", "--temperature 0: cannot sample" },
        { "translate --model-dir run --top-p 2", 2, "",
          "--top-p: 2 is out of range; allowed: 0 to 1" },
        { "translate --model-dir run --score-targets two.de --n-best 2", 2, "",
          "--score-targets: translations are given" },
        { "export --model-dir run --output out", 0, "", "exported run/checkpoints/ckpt-400" },
        { "translate --model-dir out", 0, "", "" },
        { "export --model-dir run --output out", 2, "", "exists" },
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

static int translate_in_child(et_translator *t, char **wanted)
{
    char *results[LINES];
    et_error error = ET_ERROR_INIT;
    alarm(60);
    for (size_t count = LINES; count > 0; count -= LINES - 1) { /* a search, then products */
        if (et_translator_translate(t, lines, count, results, &error))
            return 1;
        for (size_t i = 0; i < count; i++)
            if (strcmp(results[i], wanted[i]) != 0)
                return 2;
        et_translator_free_results(results, count);
        if (count == 1)
            break;
    }
    et_translator_close(t);
    return 0;
}

/* A process forks with a translator that was opened, or used, by several threads. */
static void test_translator__forked(void **state)
{
    (void)state;
    const int threads = omp_get_max_threads();
    char *wanted[LINES];
    et_translator *t = open_with(NULL);
    translate(t, LINES, wanted);
    et_translator_close(t);
    omp_set_num_threads(3);
    for (int used = 0; used < 2; used++) {
        char *results[LINES];
        int status;
        t = open_with(NULL);
        if (used) {
            translate(t, LINES, results);
            et_translator_free_results(results, LINES);
        }
        pid_t child = fork();
        if (!child)
            _exit(translate_in_child(t, wanted));
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
        et_translator_close(t);
    }
    omp_set_num_threads(threads);
    et_translator_free_results(wanted, LINES);
}

int main(void)
{
    const et_allocator counting = { NULL, allocate, reallocate, release };
    et_allocator_set(&counting);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_translator__opens),
        cmocka_unit_test(test_translator__refuses),
        cmocka_unit_test(test_translator__refuses_others),
        cmocka_unit_test(test_translator__shares_others),
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
        cmocka_unit_test(test_translator__forked),
        cmocka_unit_test(test_translator__command),
    };
    return cmocka_run_group_tests(tests, set_up, bad_tear_down);
}
