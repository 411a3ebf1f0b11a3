#include "command/runs/history.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>

#include "base/aborts.h"
#include "command/runs/histories.h"
#include "formats/files.h"
#include "skip.h"
#include "systems/training/session.h"
#include "train/checkpoint/run_names.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void put_text(const char *path, const char *text)
{
    put_file(path, text, strlen(text));
}

static void append_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* A fresh run's directory with a log. */
static const char *make_run(void **state, const char *name, const char *log)
{
    static char path[700];
    const char *directory = in(state, name);
    assert_int_equal(mkdir(directory, 0777), 0);
    snprintf(path, sizeof path, "%s/metrics.jsonl", directory);
    if (log)
        put_text(path, log);
    return directory;
}

#define LINES                                                                                      \
    "{\"step\":10,\"train\":{\"training_loss\":2.5,\"epoch\":1,\"note\":\"no\",\"list\":[1],"      \
    "\"time\":{\"steps_per_second\":8.5}},\"time\":{\"wall\":1000}}\n"                             \
    "{\"step\":10,\"validation\":{\"validation_loss\":null,\"good\":true,"                         \
    "\"best_good\":1,\"best_step\":10},\"time\":{\"wall\":1001.5}}\n"                              \
    "{\"step\":25,\"train\":{\"training_loss\":1.5,\"epoch\":3},\"time\":{\"wall\":1003}}\n"

static const et_history_series *series(const et_history *h, const char *name, size_t count)
{
    const et_history_series *s = et_history_find(h, name);
    if (!s)
        fail_msg("no %s", name);
    assert_int_equal(s->count, count);
    return s;
}

static void test_history__points(void **state)
{
    et_error error = ET_ERROR_INIT;
    et_history *h;
    assert_int_equal(et_history_open(&h, make_run(state, "points", LINES), &error), 0);
    assert_int_equal(h->lines, 3);
    assert_int_equal(h->step, 25);
    assert_true(h->first_wall == 1000 && h->last_wall == 1003);
    assert_int_equal(h->count, 7);
    const et_history_series *loss = series(h, "train.training_loss", 2);
    assert_true(loss->points[0].value == 2.5 && loss->points[1].value == 1.5);
    assert_true(loss->points[1].step == 25 && loss->points[1].wall == 1003);
    assert_true(series(h, "train.time.steps_per_second", 1)->points[0].value == 8.5);
    assert_true(isnan(series(h, "validation.validation_loss", 1)->points[0].value));
    assert_true(series(h, "validation.good", 1)->points[0].value == 1);
    assert_null(et_history_find(h, "step"));
    assert_null(et_history_find(h, "time.wall"));
    assert_null(et_history_find(h, "train.note"));
    assert_true(fabs(et_history_steps_per_epoch(h) - 10) < 1e-9);
    assert_true(et_history_seconds(h, h->last_wall) == 3);
    assert_int_equal(et_history_state_of(h), ET_HISTORY_UNKNOWN);
    et_history_close(h);
}

/* Named sets of validation data are separate dicts; in a metric's name, a slash follows the set. */
static void test_history__match_sets(void **state)
{
    et_error error = ET_ERROR_INIT;
    et_history *h;
    const et_history_series *found[8];
    const char *log = "{\"step\":1,\"validation\":{\"news\":{\"validation_loss\":2},"
                      "\"talk/validation_loss\":3,\"best_news/validation_loss\":2,"
                      "\"best_step\":1}}\n";
    assert_int_equal(et_history_open(&h, make_run(state, "sets", log), &error), 0);
    assert_int_equal(et_history_match(h, "news/validation_loss", found, 8), 1);
    assert_int_equal(et_history_match(h, "loss", found, 8), 2);
    assert_int_equal(et_history_match(h, "best_news/validation_loss", found, 8), 1);
    assert_int_equal(et_history_match(h, "validation_loss", found, 8), 2);
    assert_string_equal(found[0]->name, "validation.news.validation_loss");
    assert_string_equal(et_history_best_of(h).metric, "news.validation_loss");
    et_history_close(h);
}

/* A run that was resumed with other sets: metric, value and step are those of the last line. */
static void test_history__best_of_several(void **state)
{
    et_error error = ET_ERROR_INIT;
    et_history *h;
    static const struct {
        const char *line, *metric;
        int64_t step;
        double value;
    } cases[] = {
        { "{\"step\":20,\"validation\":{\"a\":{\"x\":3},\"b\":{\"x\":8},\"best_a/x\":3,"
          "\"best_step\":20},\"time\":{\"wall\":20}}\n",
          "a.x", 20, 3 },
        { "{\"step\":40,\"validation\":{\"c\":{\"x\":4},\"best_c/x\":4,\"best_step\":40},"
          "\"time\":{\"wall\":40}}\n",
          "c.x", 40, 4 },
        { "{\"step\":50,\"validation\":{\"c\":{\"x\":5},\"best_c/x\":4,\"best_step\":40},"
          "\"time\":{\"wall\":50}}\n",
          "c.x", 40, 4 },
        { "{\"step\":50,\"validation\":{\"x\":7,\"best_x\":7,\"best_step\":50},"
          "\"time\":{\"wall\":51}}\n",
          "x", 50, 7 },
        { "{\"step\":60,\"validation\":{\"v.1\":{\"x\":9},\"best_v.1/x\":9,\"best_step\":60},"
          "\"time\":{\"wall\":60}}\n",
          "v.1.x", 60, 9 },
        { "{\"step\":70,\"validation\":{\"a\":{\"x\":2},\"best_a/x\":2,\"best_step\":70},"
          "\"time\":{\"wall\":70}}\n",
          "a.x", 70, 2 },
    };
    bool anew;
    const char *directory = make_run(state, "several", "");
    char log[700];
    snprintf(log, sizeof log, "%s/metrics.jsonl", directory);
    assert_int_equal(et_history_open(&h, directory, &error), 0);
    for (size_t i = 0; i < COUNT(cases); i++) {
        append_text(log, cases[i].line);
        assert_int_equal(et_history_update(h, &anew, &error), 0);
        et_history_best best = et_history_best_of(h);
        assert_non_null(best.series);
        assert_string_equal(best.metric, cases[i].metric);
        assert_int_equal(best.step, cases[i].step);
        assert_true(best.value == cases[i].value);
    }
    et_history_close(h);
}

/* The largest step of log, last session and checkpoints. */
static void test_history__steps_done(void **state)
{
    et_error error = ET_ERROR_INIT;
    et_history *h;
    bool anew;
    const char *directory = make_run(state, "done", "");
    char path[700];
    assert_int_equal(et_history_open(&h, directory, &error), 0);
    assert_int_equal(et_history_steps_done(h), -1);
    snprintf(path, sizeof path, "%s/info.json", directory);
    put_text(path, "{\"sessions\": [{\"began\": 1, \"first_step\": 0}]}");
    assert_int_equal(et_history_update(h, &anew, &error), 0);
    assert_int_equal(et_history_steps_done(h), -1);
    snprintf(path, sizeof path, "%s/metrics.jsonl", directory);
    put_text(path, LINES);
    assert_int_equal(et_history_update(h, &anew, &error), 0);
    assert_int_equal(et_history_steps_done(h), 25);
    snprintf(path, sizeof path, "%s/info.json", directory);
    put_text(path, "{\"sessions\": [{\"first_step\": 0, \"last_step\": 99},"
                   "{\"first_step\": 26, \"last_step\": 28, \"ended\": 5}]}\n");
    assert_int_equal(et_history_update(h, &anew, &error), 0);
    assert_int_equal(et_history_steps_done(h), 28);
    snprintf(path, sizeof path, "%s/checkpoints", directory);
    assert_int_equal(mkdir(path, 0777), 0);
    snprintf(path, sizeof path, "%s/checkpoints/ckpt-31.safetensors", directory);
    put_text(path, "x");
    snprintf(path, sizeof path, "%s/checkpoints/ckpt-4.safetensors", directory);
    put_text(path, "x");
    assert_int_equal(et_history_steps_done(h), 31);
    et_history_close(h);
}

static void test_history__match(void **state)
{
    et_error error = ET_ERROR_INIT;
    et_history *h;
    const et_history_series *found[8];
    assert_int_equal(et_history_open(&h, make_run(state, "match", LINES), &error), 0);
    assert_int_equal(et_history_match(h, "loss", found, 8), 2);
    assert_string_equal(found[0]->name, "train.training_loss");
    assert_string_equal(found[1]->name, "validation.validation_loss");
    assert_int_equal(et_history_match(h, "loss", found, 1), 2);
    assert_int_equal(et_history_match(h, "training_loss", found, 8), 1);
    assert_int_equal(et_history_match(h, "train.training_loss", found, 8), 1);
    assert_int_equal(et_history_match(h, "time.steps_per_second", found, 8), 1);
    assert_int_equal(et_history_match(h, "oss", found, 8), 0);
    assert_int_equal(et_history_match(h, "", found, 8), 0);
    et_history_best best = et_history_best_of(h);
    assert_non_null(best.series);
    assert_string_equal(best.series->name, "validation.good");
    assert_string_equal(best.metric, "good");
    assert_true(best.step == 10 && best.value == 1 && !best.lower);
    assert_ptr_equal(et_history_loss(h), et_history_find(h, "train.training_loss"));
    assert_true(et_history_is_lower_better(h, et_history_loss(h)));
    assert_false(et_history_is_lower_better(h, best.series));
    assert_int_equal(et_history_extreme(et_history_loss(h), true)->step, 25);
    assert_int_equal(et_history_extreme(et_history_loss(h), false)->step, 10);
    assert_null(et_history_extreme(et_history_find(h, "validation.validation_loss"), true));
    et_history_close(h);
}

/* A loss and its negative, until one of them has another number. */
static void test_history__repeats(void **state)
{
#define TWICE(step, loss, likelihood)                                                              \
    "{\"step\":" #step ",\"validation\":{\"validation_loss\":" #loss                               \
    ",\"validation_accuracy\":" #loss ",\"validation_log_likelihood\":" #likelihood "}}\n"
    et_error error = ET_ERROR_INIT;
    et_history *h;
    bool anew;
    const char *run = make_run(state, "repeats", TWICE(1, 0.5, -0.5000001) TWICE(2, null, null));
    assert_int_equal(et_history_open(&h, run, &error), 0);
    assert_false(et_history_repeats(h, series(h, "validation.validation_loss", 2)));
    assert_false(et_history_repeats(h, series(h, "validation.validation_accuracy", 2)));
    assert_true(et_history_repeats(h, series(h, "validation.validation_log_likelihood", 2)));
    char log[700];
    snprintf(log, sizeof log, "%s/metrics.jsonl", run);
    append_text(log, TWICE(3, 0.5, -0.6));
    assert_int_equal(et_history_update(h, &anew, &error), 0);
    assert_false(et_history_repeats(h, series(h, "validation.validation_log_likelihood", 3)));
    et_history_close(h);
}

/* Cut at every byte: the complete lines have been read. */
static void test_history__cut(void **state)
{
    et_error error = ET_ERROR_INIT;
    const char *directory = make_run(state, "cut", "");
    char log[700];
    snprintf(log, sizeof log, "%s/metrics.jsonl", directory);
    for (size_t length = 0; length <= strlen(LINES); length++) {
        et_history *h;
        int64_t lines = 0;
        for (size_t i = 0; i < length; i++)
            lines += LINES[i] == '\n';
        put_file(log, LINES, length);
        assert_int_equal(et_history_open(&h, directory, &error), 0);
        assert_int_equal(h->lines, lines);
        et_history_close(h);
    }
}

static void test_history__live(void **state)
{
    et_error error = ET_ERROR_INIT;
    et_history *h;
    bool anew;
    const char *directory = make_run(state, "live", NULL);
    char log[700], settings[700], beside[700];
    snprintf(log, sizeof log, "%s/metrics.jsonl", directory);
    snprintf(settings, sizeof settings, "%s/params.yaml", directory);
    put_text(settings, "trainer: {train_steps: 40, best_checkpoint_metric_comp: lower}\n");
    assert_int_equal(et_history_open(&h, directory, &error), 0);
    assert_int_equal(h->step, -1);
    assert_int_equal(et_history_steps(h), 40);
    assert_null(et_history_loss(h));
    put_text(log, LINES);
    assert_int_equal(et_history_update(h, &anew, &error), 0);
    assert_false(anew);
    assert_int_equal(h->lines, 3);
    /* Half a line, then the rest of it. */
    append_text(log, "{\"step\":30,\"train\":{\"trai");
    assert_int_equal(et_history_update(h, &anew, &error), 0);
    assert_int_equal(h->lines, 3);
    append_text(log, "ning_loss\":1.25,\"epoch\":3}}\n");
    assert_int_equal(et_history_update(h, &anew, &error), 0);
    assert_false(anew);
    assert_int_equal(h->lines, 4);
    assert_true(isnan(series(h, "train.training_loss", 3)->points[2].wall));
    /* Resumed from before the last line, which is made again: as long, and another time. */
    put_text(log, LINES "{\"step\":30,\"train\":{\"training_loss\":1.75,\"epoch\":3}}\n"
                        "{\"step\":40,\"train\":{\"training_loss\":1.5,\"epoch\":4}}\n");
    assert_int_equal(et_history_update(h, &anew, &error), 0);
    assert_true(anew);
    assert_true(series(h, "train.training_loss", 4)->points[2].value == 1.75);
    /* Cut off and not written to yet; gone; there again. */
    put_text(log, LINES);
    assert_int_equal(et_history_update(h, &anew, &error), 0);
    assert_true(anew);
    series(h, "train.training_loss", 2);
    assert_int_equal(unlink(log), 0);
    assert_int_equal(et_history_update(h, &anew, &error), 0);
    assert_true(anew);
    assert_int_equal(h->count, 0);
    put_text(log, LINES);
    assert_int_equal(et_history_update(h, &anew, &error), 0);
    assert_false(anew);
    assert_int_equal(h->lines, 3);
    put_text(settings, "trainer: {train_steps: 50}\n");
    snprintf(beside, sizeof beside, "%s/validation", directory);
    assert_int_equal(mkdir(beside, 0777), 0);
    snprintf(beside, sizeof beside, "%s/validation/metrics.jsonl", directory);
    put_text(beside, "{\"step\":40,\"validation_loss\":3,\"time\":{\"wall\":2000}}\n");
    assert_int_equal(et_history_update(h, &anew, &error), 0);
    assert_int_equal(et_history_steps(h), 50);
    assert_true(series(h, "measured.validation_loss", 1)->points[0].value == 3);
    assert_int_equal(h->lines, 3);
    assert_int_equal(h->step, 40);
    assert_true(h->last_wall == 1003);
    et_history_close(h);
}

/* The lines before the fault have been read and stay. */
static void test_history__hostile(void **state)
{
    static const struct {
        const char *line, *says;
    } rows[] = {
        { "nothing\n", "metrics.jsonl:4:" },
        { "\n", "metrics.jsonl:4:" },
        { "{\"step\":40,\"train\":{\"training_loss\":NaN}}\n", "metrics.jsonl:4:" },
        { "{\"step\":40,\"a\":1e999}\n", "metrics.jsonl:4:" },
        { "[1]\n", ": expected {\"step\": ...}, found a list" },
        { "{\"train\":{}}\n", "step" },
        { "{\"step\":\"4\"}\n", "step" },
        { "{\"step\":-4}\n", "metrics.jsonl:4: step -4 is negative" },
        { "{\"step\":4,\"a\\u001b[2J\":1}\n", "a control character" },
        { "{\"step\":4,\"\":1}\n", "is empty" },
        { "{\"step\":4,\"step\":5}\n", "metrics.jsonl:4:" },
        { "\x7f\x45\x4c\x46\x02\xff\n", "metrics.jsonl:4:" },
        { "{\"step\":4,\"a\xff\":1}\n", "metrics.jsonl:4:" },
        { "{\"step\":4,\"a\\u0000\":1}\n", "metrics.jsonl:4:" },
    };
    const char *directory = make_run(state, "hostile", "");
    char log[700], text[4096];
    snprintf(log, sizeof log, "%s/metrics.jsonl", directory);
    for (size_t i = 0; i < COUNT(rows); i++) {
        et_error error = ET_ERROR_INIT;
        et_history *h;
        bool anew;
        snprintf(text, sizeof text, LINES "%s" LINES, rows[i].line);
        put_text(log, text);
        assert_int_equal(et_history_open(&h, directory, &error), ET_EFORMAT);
        if (!strstr(error.text, rows[i].says) || !strstr(error.text, "metrics.jsonl:4"))
            fail_msg("%s: no \"%s\" in: %s", rows[i].line, rows[i].says, error.text);
        assert_non_null(h);
        assert_int_equal(h->lines, 3);
        /* The same error again, until the file is repaired. */
        assert_int_equal(et_history_update(h, &anew, &error), ET_EFORMAT);
        assert_int_equal(h->lines, 3);
        put_text(log, LINES LINES);
        assert_int_equal(et_history_update(h, &anew, &error), 0);
        assert_false(anew);
        assert_int_equal(h->lines, 6);
        et_history_close(h);
    }
}

/* A line with a fault after its first value is read again at each update; none of its values count.
 */
static void test_history__wrong_line(void **state)
{
    et_error error = ET_ERROR_INIT;
    et_history *h;
    bool anew;
    const char *run = make_run(state, "wrong", LINES "{\"step\":30,\"loss\":0.5,\"\":1}\n");
    assert_int_equal(et_history_open(&h, run, &error), ET_EFORMAT);
    for (int i = 0; i < 3; i++) {
        series(h, "train.training_loss", 2);
        assert_null(et_history_find(h, "loss"));
        assert_int_equal(h->lines, 3);
        assert_int_equal(et_history_update(h, &anew, &error), ET_EFORMAT);
        assert_non_null(strstr(error.text, "metrics.jsonl:4"));
    }
    et_history_close(h);
}

/* Bytes changed at random, of the log, the settings and the sessions: read or refused. */
static void test_history__mutated(void **state)
{
    static const char *const texts[] = {
        LINES,
        "experiment: a/b\ntrainer:\n  train_steps: 40\n  best_checkpoint_metric_comp: lower\n",
        ("{\"sessions\": [{\"began\": 990, \"ended\": 1000, \"reason\": \"done\"},"
         "{\"began\": 1100, \"train_steps\": 70, \"parameters\": 5}]}"),
    };
    static const char *const names[] = { "metrics.jsonl", "params.yaml", ET_RUN_SESSIONS };
    const char *directory = make_run(state, "mutated", LINES);
    uint64_t random = 1;
    int refused = 0;
    for (int i = 0; i < 3000; i++) {
        et_error error = ET_ERROR_INIT;
        et_history *h;
        char path[700], text[1000];
        size_t length = strlen(texts[i % 3]);
        memcpy(text, texts[i % 3], length);
        for (int k = 0; k <= i % 5; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            text[(random >> 33) % length] = (char)(random >> 25);
        }
        snprintf(path, sizeof path, "%s/%s", directory, names[i % 3]);
        put_file(path, text, length);
        int status = et_history_open(&h, directory, &error);
        assert_true(status == ET_OK || status == ET_EFORMAT);
        refused += status != ET_OK;
        assert_non_null(h);
        et_history_best_of(h);
        et_history_steps(h);
        et_history_seconds_in_all(h);
        et_history_state_of(h);
        et_history_steps_per_epoch(h);
        for (size_t s = 0; s < h->count; s++) {
            assert_true(h->series[s].count > 0);
            et_history_extreme(&h->series[s], et_history_is_lower_better(h, &h->series[s]));
        }
        et_history_close(h);
        put_text(path, texts[i % 3]);
    }
    assert_true(refused > 500 && refused < 3000);
}

static void test_history__hostile_sizes(void **state)
{
    et_error error = ET_ERROR_INIT;
    et_history *h;
    const char *directory = make_run(state, "sizes", LINES);
    char log[700];
    snprintf(log, sizeof log, "%s/metrics.jsonl", directory);
    /* A line of 1 GB, most of it a hole, with and without an end. */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(truncate(log, 1 << 30), 0);
        if (i)
            append_text(log, "\n");
        assert_int_equal(et_history_open(&h, directory, &error), ET_EFORMAT);
        assert_non_null(strstr(error.text, "metrics.jsonl:4: a line of more than 16 MB"));
        assert_int_equal(h->lines, 3);
        et_history_close(h);
        put_text(log, LINES);
    }
    /* More names than a run has. */
    FILE *file = fopen(log, "w");
    for (int i = 0; i <= ET_HISTORY_SERIES_MAX; i++)
        fprintf(file, "{\"step\":%d,\"name_%d\":1}\n", i, i);
    fclose(file);
    assert_int_equal(et_history_open(&h, directory, &error), ET_EFORMAT);
    assert_non_null(strstr(error.text, "metrics.jsonl:4097: more than 4096 names"));
    assert_int_equal(h->count, ET_HISTORY_SERIES_MAX);
    et_history_close(h);
    /* A name that is too long, by its parts. */
    file = fopen(log, "w");
    fprintf(file, "{\"step\":1,\"%0200d\":{\"%0200d\":1}}\n", 1, 1);
    fclose(file);
    assert_int_equal(et_history_open(&h, directory, &error), ET_EFORMAT);
    assert_non_null(strstr(error.text, "metrics.jsonl:1: the name of a value"));
    et_history_close(h);
}

static void test_history__no_run(void **state)
{
    et_error error = ET_ERROR_INIT;
    et_history *h = (et_history *)1;
    const char *directory = make_run(state, "none", NULL);
    assert_int_equal(et_history_open(&h, directory, &error), ET_ENOTFOUND);
    assert_null(h);
    assert_non_null(strstr(error.text, "not a run"));
    assert_int_equal(et_history_open(&h, in(state, "missing"), &error), ET_ENOTFOUND);
    assert_int_equal(et_history_open(&h, "", &error), ET_ENOTFOUND);
    char path[700];
    snprintf(path, sizeof path, "%s/file", directory);
    put_text(path, "");
    assert_int_equal(et_history_open(&h, path, &error), ET_ENOTFOUND);
    snprintf(path, sizeof path, "%s/metrics.jsonl", directory);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_int_equal(et_history_open(&h, directory, &error), ET_EDENIED);
    assert_non_null(h);
    et_history_close(h);
    assert_int_equal(rmdir(path), 0);
    put_text(path, LINES);
    char settings[700];
    snprintf(settings, sizeof settings, "%s/params.yaml", directory);
    put_text(settings, "a: [b\n");
    assert_int_equal(et_history_open(&h, directory, &error), ET_EFORMAT);
    assert_non_null(strstr(error.text, "params.yaml"));
    assert_int_equal(h->lines, 3);
    assert_null(h->settings);
    et_history_close(h);
}

static void test_history__sessions(void **state)
{
    et_error error = ET_ERROR_INIT;
    et_history *h;
    const char *directory = make_run(state, "sessions", LINES);
    char info[700];
    bool anew;
    snprintf(info, sizeof info, "%s/" ET_RUN_SESSIONS, directory);
    /* 10 seconds; killed after at most 20; 5 so far. */
    put_text(info, "{\"sessions\": [{\"began\": 990, \"ended\": 1000, \"reason\": \"interrupted\"},"
                   "{\"began\": 1100, \"train_steps\": 70}, {\"began\": 1120}]}");
    assert_int_equal(et_history_open(&h, directory, &error), 0);
    assert_true(et_history_seconds(h, 1125) == 35);
    assert_true(et_history_seconds(h, 995) == 5);
    assert_int_equal(et_history_state_of(h), ET_HISTORY_KILLED);
    static const et_history_state states[] = { ET_HISTORY_DONE, ET_HISTORY_INTERRUPTED,
                                               ET_HISTORY_DIVERGED, ET_HISTORY_FAILED };
    for (size_t i = 0; i < COUNT(states); i++) {
        char text[300];
        snprintf(text, sizeof text,
                 "{\"sessions\": [{\"began\": 990, \"ended\": %zu, \"reason\": \"%s\","
                 "\"train_steps\": 70}]}",
                 1000 + i, et_history_state_name(states[i]));
        unlink(info);
        put_text(info, text);
        assert_int_equal(et_history_update(h, &anew, &error), 0);
        assert_int_equal(et_history_state_of(h), states[i]);
        assert_int_equal(et_history_steps(h), 70);
    }
    /* Other contents: nothing is known, and nothing breaks. */
    static const char *const others[] = { "{}", "{\"sessions\": 3}", "{\"sessions\": [1, null]}",
                                          "{\"sessions\": [{\"ended\": true}]}" };
    for (size_t i = 0; i < COUNT(others); i++) {
        unlink(info);
        put_text(info, others[i]);
        assert_int_equal(et_history_update(h, &anew, &error), 0);
        et_history_state_of(h);
        et_history_seconds(h, 1000);
        assert_int_equal(et_history_steps(h), 0);
    }
    et_history_close(h);
}

static void test_history__search(void **state)
{
    static const char *const folders[] = {
        "s",   "s/b",       "s/b/checkpoints", "s/b/finetune-1", "s/b/validation",
        "s/a", "s/.hidden", "s/deep",          "s/deep/er",      "s/deep/er/run"
    };
    static const char *const files[] = { "s/b/params.yaml",
                                         "s/b/metrics.jsonl",
                                         "s/b/finetune-1/params.yaml",
                                         "s/b/validation/metrics.jsonl",
                                         "s/a/metrics.jsonl",
                                         "s/.hidden/params.yaml",
                                         "s/deep/er/run/params.yaml" };
    static const char *const found[] = { "s/a", "s/b", "s/b/finetune-1", "s/deep/er/run" };
    et_error error = ET_ERROR_INIT;
    et_run_list runs = { .items = NULL };
    for (size_t i = 0; i < COUNT(folders); i++)
        assert_int_equal(mkdir(in(state, folders[i]), 0777), 0);
    for (size_t i = 0; i < COUNT(files); i++)
        put_text(in(state, files[i]), "");
    assert_int_equal(symlink("..", in(state, "s/deep/up")), 0);
    assert_int_equal(et_run_list_add(&runs, in(state, "s"), &error), 0);
    assert_int_equal(runs.count, COUNT(found));
    for (size_t i = 0; i < COUNT(found); i++)
        assert_string_equal(runs.items[i], in(state, found[i]));
    et_run_list_release(&runs);
    assert_int_equal(et_run_list_add(&runs, in(state, "s/b/validation"), &error), 0);
    assert_int_equal(runs.count, 1);
    assert_int_equal(et_run_list_add(&runs, in(state, "s/none"), &error), ET_ENOTFOUND);
    et_run_list_release(&runs);
}

static void update(void *history)
{
    bool anew;
    et_history_update(history, &anew, NULL);
}

/* The references between series and index are checked before more is read. */
static void test_history__asserts(void **state)
{
#ifdef NDEBUG
    test_skip("assertions are off");
#endif
    et_error error = ET_ERROR_INIT;
    et_history *h;
    assert_int_equal(et_history_open(&h, make_run(state, "asserts", LINES), &error), 0);
    const et_history_series one = h->series[1];
    h->series[1].name = h->series[0].name;
    assert_asserts(update, h, "et_history_find(h, s->name) == s");
    h->series[1] = one;
    h->lines = -1;
    assert_asserts(update, h, "h->lines >= 0");
    h->lines = 3;
    update(h);
    assert_int_equal(h->lines, 3);
    et_history_close(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_history__points),
        cmocka_unit_test(test_history__match),
        cmocka_unit_test(test_history__best_of_several),
        cmocka_unit_test(test_history__steps_done),
        cmocka_unit_test(test_history__match_sets),
        cmocka_unit_test(test_history__repeats),
        cmocka_unit_test(test_history__cut),
        cmocka_unit_test(test_history__live),
        cmocka_unit_test(test_history__hostile),
        cmocka_unit_test(test_history__hostile_sizes),
        cmocka_unit_test(test_history__wrong_line),
        cmocka_unit_test(test_history__mutated),
        cmocka_unit_test(test_history__no_run),
        cmocka_unit_test(test_history__sessions),
        cmocka_unit_test(test_history__search),
        cmocka_unit_test(test_history__asserts),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
