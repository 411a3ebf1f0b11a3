/* --profile of a small real run: the file has Perfetto's format and is complete, and the run has
 * the results of one without a profile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/files/file.h"
#include "base/values/json.h"
#include "test_resume_run.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Words before the program, which append --profile and more to its own. */
#define PROFILED(more)                                                                             \
    {                                                                                              \
        "sh", "-c", "exec \"$@\" --profile trace.json " more, "sh"                                 \
    }

/* ---- reading a trace ---- */

enum { TRACKS_MAX = 64, DEPTH_MAX = 16 };

typedef struct span {
    const char *name, *kind; /* kind: "" if it has none */
    int64_t begin, end;      /* nanoseconds */
} span;

typedef struct track {
    char name[32];
    span *spans;
    size_t count, room;
} track;

typedef struct trace {
    et_arena arena; /* of names */
    track tracks[TRACKS_MAX];
    int count;
} trace;

static const char *text_at(const et_value *event, const char *path)
{
    const et_value *value = et_value_path(event, path);
    return value && value->kind == ET_VALUE_STRING ? value->string : "";
}

static int64_t nanoseconds(const et_value *event, const char *key)
{
    double microseconds;
    assert_int_equal(et_value_read_float(event, key, &microseconds, NULL), 0);
    return llround(1e3 * microseconds);
}

static void add_event(trace *t, const et_value *event)
{
    int64_t thread;
    assert_int_equal(et_value_read_int(event, "tid", &thread, NULL), 0);
    assert_in_range(thread, 1, TRACKS_MAX);
    track *at = &t->tracks[thread - 1];
    t->count = thread > t->count ? (int)thread : t->count;
    if (!strcmp(text_at(event, "name"), "thread_name"))
        snprintf(at->name, sizeof at->name, "%s", text_at(event, "args.name"));
    if (strcmp(text_at(event, "ph"), "X") != 0)
        return;
    if (at->count == at->room) {
        at->room = at->room ? 2 * at->room : 256;
        at->spans = realloc(at->spans, at->room * sizeof *at->spans);
        assert_non_null(at->spans);
    }
    int64_t begin = nanoseconds(event, "ts");
    at->spans[at->count++] = (span){ text_at(event, "name"), text_at(event, "args.kind"), begin,
                                     begin + nanoseconds(event, "dur") };
}

static void open_trace(trace *t, const char *path)
{
    et_error error = ET_ERROR_INIT;
    et_value *root;
    char *text;
    size_t length;
    *t = (trace){ .arena = ET_ARENA_INIT };
    if (et_file_read(&text, &length, path, (size_t)1 << 28, &error) ||
        et_json_parse(&root, &t->arena, text, length, path, &error))
        fail_msg("%s", error.text);
    et_free(text);
    const et_value *events = et_value_get(root, "traceEvents");
    assert_non_null(events);
    for (const et_value *event = events->first; event; event = event->next)
        add_event(t, event);
}

static void close_trace(trace *t)
{
    for (int i = 0; i < t->count; i++)
        free(t->tracks[i].spans);
    et_arena_release(&t->arena);
}

/* Spans of a track come in order; two spans are nested or do not overlap. */
static void assert_nested(const track *at)
{
    int64_t ends[DEPTH_MAX];
    int depth = 0;
    for (size_t i = 0; i < at->count; i++) {
        const span *s = &at->spans[i];
        assert_true(i == 0 || s->begin >= s[-1].begin);
        while (depth && ends[depth - 1] <= s->begin)
            depth--;
        assert_true(depth == 0 || s->end <= ends[depth - 1]);
        assert_true(depth < DEPTH_MAX);
        ends[depth++] = s->end;
    }
}

static size_t count_named(const track *at, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < at->count; i++)
        count += !strcmp(at->spans[i].name, name);
    return count;
}

static size_t count_kind(const track *at, const char *kind)
{
    size_t count = 0;
    for (size_t i = 0; i < at->count; i++)
        count += !strcmp(at->spans[i].kind, kind);
    return count;
}

static const track *track_named(const trace *t, const char *name)
{
    for (int i = 0; i < t->count; i++)
        if (!strcmp(t->tracks[i].name, name))
            return &t->tracks[i];
    fail_msg("no track %s", name);
    return NULL;
}

/* ---- the table ---- */

/* Checks the table in a run's output: all shares together are 100 %; returns its rows. */
static int check_table(const char *log)
{
    int rows = 0;
    double sum = 0, share = 0, ms;
    long long calls;
    char kind[40] = "";
    const char *line = strstr(log, "\nkind ");
    assert_non_null(line);
    for (line = strchr(line + 1, '\n') + 1; strncmp(kind, "all ", 4) != 0; rows++) {
        assert_int_equal(sscanf(line, "%32c %lld %lf %lf%%", kind, &calls, &ms, &share), 4);
        line = strchr(line, '\n') + 1;
        sum += share;
    }
    assert_true(fabs(share - 100) < 0.05);
    assert_true(fabs(sum - 200) < 0.05 * rows);
    return rows;
}

/* ---- cases ---- */

/* What steps 30 to 50 have: two batches each, logs at 32, 40 and 48, saves at 30, 40 and 50,
 * validation at 40. */
static const struct {
    const char *kind;
    size_t count;
} expected[] = {
    { "step", 21 }, { "waiting for data", 42 }, { "update", 21 }, { "log", 3 },
    { "save", 3 },  { "validate", 1 },
};

/* Every kind of op that the model has. */
static const char *const kinds[] = {
    "matrix product, forward",
    "matrix product, input gradient",
    "matrix product, weight gradient",
    "element-wise",
    "layer_norm",
    "layer_norm_grad",
    "attention",
    "attention_grad",
    "embedding",
    "embedding_grad",
    "column_sum",
    "vocabulary_loss",
};

/* The spans inside the span of step N. */
static size_t ops_of_step(const track *at, int step, const span **first)
{
    char name[32];
    size_t i = 0, count = 0;
    snprintf(name, sizeof name, "step %d", step);
    while (i < at->count && strcmp(at->spans[i].name, name) != 0)
        i++;
    assert_true(i < at->count);
    *first = &at->spans[i + 1];
    for (size_t k = i + 1; k < at->count && at->spans[k].begin < at->spans[i].end; k++)
        count++;
    return count;
}

static void test_profile__changes_nothing(void **state)
{
    (void)state;
    trace t;
    run_command plain = { .directory = "plain" };
    run_command watched = { .directory = "watched", .before = PROFILED("--profile-steps 30:50") };
    assert_int_equal(run(&plain), 0);
    assert_int_equal(run(&watched), 0);
    run_assert_same("plain", "watched");
    open_trace(&t, "trace.json");
    const track *main = track_named(&t, "main");
    for (int i = 0; i < t.count; i++)
        assert_nested(&t.tracks[i]);
    for (size_t i = 0; i < COUNT(expected); i++)
        if (count_kind(main, expected[i].kind) != expected[i].count)
            fail_msg("%zu spans of kind %s", count_kind(main, expected[i].kind), expected[i].kind);
    for (size_t i = 0; i < COUNT(kinds); i++)
        if (count_kind(main, kinds[i]) < 42)
            fail_msg("%zu spans of kind %s", count_kind(main, kinds[i]), kinds[i]);
    assert_int_equal(count_named(main, "validate 40"), 1);
    assert_int_equal(count_named(main, "save 50"), 1);
    assert_int_equal(count_named(track_named(&t, "saving"), "write checkpoint 30"), 1);
    assert_true(track_named(&t, "prefetch")->count > 30);
    close_trace(&t);
    char *log = run_log("watched");
    assert_non_null(strstr(log, "\nprofile      trace.json: 21 steps, "));
    assert_in_range(check_table(log), COUNT(expected) + COUNT(kinds), 40);
    free(log);
    assert_int_equal(unlink("trace.json"), 0);
}

/* Each step does the same ops in the same order. */
static void test_profile__every_op_each_step(void **state)
{
    (void)state;
    trace t;
    const span *first, *other;
    run_command command = { .directory = "short",
                            .settings = { "trainer.train_steps=12", "trainer.summary_interval=100",
                                          "trainer.checkpoint_interval=100" },
                            .threads = 1,
                            .before = PROFILED("") };
    assert_int_equal(run(&command), 0);
    open_trace(&t, "trace.json");
    const track *main = track_named(&t, "main");
    size_t ops = ops_of_step(main, 6, &first); /* of 12 steps the second half is recorded */
    assert_int_equal(count_kind(main, "step"), 7);
    assert_true(ops > 100);
    for (int step = 7; step <= 12; step++) {
        assert_int_equal(ops_of_step(main, step, &other), ops);
        for (size_t i = 0; i < ops; i++)
            if (*first[i].kind && strcmp(first[i].kind, "waiting for data") != 0 &&
                strcmp(first[i].kind, "between ops") != 0)
                assert_string_equal(first[i].name, other[i].name);
    }
    close_trace(&t);
    char *log = run_log("short");
    assert_non_null(strstr(log, "trace.json: 7 steps, "));
    check_table(log);
    free(log);
    assert_int_equal(unlink("trace.json"), 0);
}

/* Ctrl-C in the middle of the window: what there is, is written. */
static void test_profile__interrupted(void **state)
{
    (void)state;
    trace t;
    run_command command = { .directory = "interrupted",
                            .before = PROFILED("--profile-steps 2:1000000") };
    pid_t pid = run_start(&command);
    assert_true(run_await_text(pid, "interrupted/metrics.jsonl", "{\"step\":16,"));
    assert_int_equal(access("trace.json", F_OK), -1); /* not before it is whole */
    kill(pid, SIGINT);
    assert_int_equal(run_wait(pid), 75);
    open_trace(&t, "trace.json");
    const track *main = track_named(&t, "main");
    assert_nested(main);
    assert_int_equal(count_named(main, "step 1"), 0);
    assert_int_equal(count_named(main, "step 16"), 1);
    close_trace(&t);
    char *log = run_log("interrupted");
    check_table(log);
    assert_non_null(strstr(log, "\ninterrupted: saved step "));
    free(log);
    assert_int_equal(unlink("trace.json"), 0);
}

/* Written when its steps have passed, while the run continues; a resumed run counts steps from its
 * start. */
static void test_profile__while_it_runs(void **state)
{
    (void)state;
    trace t;
    run_command command = { .directory = "interrupted",
                            .settings = { "trainer.train_steps=100000" },
                            .before = PROFILED("--profile-steps 2:3") };
    pid_t pid = run_start(&command);
    assert_true(run_await_text(pid, "trace.json", "otherData"));
    assert_int_equal(kill(pid, 0), 0);
    open_trace(&t, "trace.json");
    assert_int_equal(count_kind(track_named(&t, "main"), "step"), 2);
    close_trace(&t);
    kill(pid, SIGINT);
    assert_int_equal(run_wait(pid), 75);
    assert_int_equal(unlink("trace.json"), 0);
}

/* The directory was removed meanwhile: reported, and the run is still saved. */
static void test_profile__cannot_be_written(void **state)
{
    (void)state;
    run_command command = {
        .directory = "kept",
        .before = { "sh", "-c", "exec \"$@\" --profile gone/t --profile-steps 1:1000000", "sh" }
    };
    assert_int_equal(mkdir("gone", 0777), 0);
    pid_t pid = run_start(&command);
    assert_true(run_await_text(pid, "kept/metrics.jsonl", "{\"step\":16,"));
    assert_int_equal(rmdir("gone"), 0);
    kill(pid, SIGINT);
    assert_int_equal(run_wait(pid), 75);
    char *log = run_log("kept");
    assert_non_null(strstr(log, "\nwarning: --profile: cannot write gone/t: "));
    assert_non_null(strstr(log, "\ninterrupted: saved step "));
    free(log);
}

/* Runs `etude` with these words, as a shell reads them; the exit code. */
static int etude(const char *words)
{
    char line[600];
    snprintf(line, sizeof line, "%s/etude %s", ET_TEST_BUILD, words);
    int status = system(line);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Both files have the same bytes. */
static void assert_same_files(const char *left, const char *right)
{
    char line[200];
    snprintf(line, sizeof line, "cmp %s %s", left, right);
    assert_int_equal(system(line), 0);
}

/* What decoding has. */
static const char *const decoding[] = {
    "matrix product, forward", "element-wise", "layer_norm",  "attention",
    "cached_attention",        "embedding",    "between ops", "text",
    "vocabulary_best",
};

static void test_profile__translate(void **state)
{
    (void)state;
    static const char *const commands[] = {
        "evaluate --model-dir plain --source valid.source --reference valid.target",
        "translate --model-dir plain --precision int8 < valid.source",
        "translate --model-dir plain < valid.source",
    };
    setenv("OMP_NUM_THREADS", "1", 1);
    for (size_t c = 0; c < COUNT(commands); c++) {
        trace t;
        char line[300];
        snprintf(line, sizeof line, "%s > alone.out 2> alone.log", commands[c]);
        assert_int_equal(etude(line), 0);
        snprintf(line, sizeof line, "%s --profile trace.json > watched.out 2> watched.log",
                 commands[c]);
        assert_int_equal(etude(line), 0);
        assert_same_files("alone.out", "watched.out");
        open_trace(&t, "trace.json");
        const track *main = track_named(&t, "main");
        for (int i = 0; i < t.count; i++)
            assert_nested(&t.tracks[i]);
        for (size_t i = 0; i < COUNT(decoding); i++)
            if (count_kind(main, decoding[i]) == 0)
                fail_msg("%s: no span of kind %s", commands[c], decoding[i]);
        assert_int_equal(count_kind(main, "matrix product, input gradient"), 0);
        assert_int_equal(count_named(main, "encode 1"), 1);
        assert_int_equal(count_named(main, "decode 1"), 1);
        close_trace(&t);
        char *log = run_log("watched");
        assert_true(check_table(log) > (int)COUNT(decoding));
        free(log);
        assert_int_equal(unlink("trace.json"), 0);
    }
    unsetenv("OMP_NUM_THREADS");
}

/* Each thread's sentences show on its own track; which thread is quick enough to get some of so
 * few is chance. */
static void test_profile__translate_by_two_threads(void **state)
{
    (void)state;
    trace t;
    setenv("OMP_NUM_THREADS", "2", 1);
    int status = etude("translate --model-dir plain --profile trace.json < valid.source "
                       "> watched.out 2> watched.log");
    unsetenv("OMP_NUM_THREADS");
    assert_int_equal(status, 0);
    assert_same_files("alone.out", "watched.out");
    open_trace(&t, "trace.json");
    const track *main = track_named(&t, "main"), *worker = track_named(&t, "worker 1");
    assert_nested(main);
    assert_nested(worker);
    assert_true(count_named(main, "encode 1") + count_named(worker, "encode 1") >= 1);
    assert_int_equal(count_named(main, "decode 1"), count_named(main, "encode 1"));
    assert_int_equal(count_named(worker, "decode 1"), count_named(worker, "encode 1"));
    close_trace(&t);
    assert_int_equal(unlink("trace.json"), 0);
}

/* Steps of decoding can be chosen; with --quiet there is the file and no table. */
static void test_profile__translate_steps(void **state)
{
    (void)state;
    trace t;
    setenv("OMP_NUM_THREADS", "1", 1);
    assert_int_equal(etude("translate --model-dir plain --profile trace.json --profile-steps 3:5 "
                           "--quiet < valid.source > watched.out 2> watched.log"),
                     0);
    char *log = run_log("watched");
    assert_string_equal(log, "");
    free(log);
    open_trace(&t, "trace.json");
    const track *main = track_named(&t, "main");
    assert_int_equal(count_named(main, "decode 2") + count_named(main, "decode 6"), 0);
    assert_int_equal(count_named(main, "decode 3") + count_named(main, "decode 5"), 2);
    close_trace(&t);
    assert_int_equal(unlink("trace.json"), 0);
    assert_int_equal(etude("translate --model-dir plain --profile none/t < valid.source "
                           "> watched.out 2> watched.log"),
                     3);
    log = run_log("watched");
    assert_non_null(strstr(log, "etude: --profile: cannot write none/t: "));
    free(log);
    unsetenv("OMP_NUM_THREADS");
}

/* Ctrl-C while it waits for more lines. The input fills its batch: one line of words, the rest
 * empty. */
static void test_profile__translate_interrupted(void **state)
{
    (void)state;
    enum { LINES = 2048 };
    trace t;
    int in[2], out[2], lines = 0;
    char text[LINES];
    assert_int_equal(pipe(in) | pipe(out), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        close(out[0]);
        execl(ET_TEST_BUILD "/etude", "etude", "translate", "--model-dir", "plain", "--profile",
              "trace.json", (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    memset(text, '\n', sizeof text);
    assert_int_equal(write(in[1], "a", 1), 1);
    assert_int_equal(write(in[1], text, sizeof text), sizeof text);
    while (lines < LINES) {
        ssize_t length = read(out[0], text, sizeof text);
        assert_true(length > 0);
        for (ssize_t i = 0; i < length; i++)
            lines += text[i] == '\n';
    }
    kill(pid, SIGINT);
    assert_int_equal(run_wait(pid), 75);
    close(in[0]);
    close(in[1]);
    close(out[0]);
    open_trace(&t, "trace.json");
    assert_int_equal(count_named(track_named(&t, "main"), "decode 1"), 1);
    close_trace(&t);
    assert_int_equal(unlink("trace.json"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_profile__changes_nothing),
        cmocka_unit_test(test_profile__every_op_each_step),
        cmocka_unit_test(test_profile__interrupted),
        cmocka_unit_test(test_profile__while_it_runs),
        cmocka_unit_test(test_profile__cannot_be_written),
        cmocka_unit_test(test_profile__translate),
        cmocka_unit_test(test_profile__translate_by_two_threads),
        cmocka_unit_test(test_profile__translate_steps),
        cmocka_unit_test(test_profile__translate_interrupted),
    };
    return cmocka_run_group_tests(tests, run_make_corpus, run_remove_corpus);
}
