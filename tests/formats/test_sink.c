#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "files.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "formats/events/event.h"
#include "formats/events/progress.h"
#include "formats/events/sink.h"
#include "formats/records/record.h"

/* A log as the controller writes it. */
static et_value *make_log(et_arena *arena, int64_t step)
{
    et_value *log = et_value_dict(arena);
    et_value *train = et_value_set_dict(log, "train");
    et_value_set_float(train, "loss", 3.25 / (double)step);
    et_value_set_int(train, "epoch", 2);
    et_value *rates = et_value_set_dict(train, ET_SINK_TIME);
    et_value_set_float(rates, "tokens_per_second", 34100.5);
    if (step % 2 == 0) {
        et_value *validation = et_value_set_dict(log, "validation");
        et_value_set_float(validation, "BLEU", 24.8);
        et_value_set_float(validation, "bad", NAN);
        et_value_set_string(validation, ET_SINK_NOTE, "best so far");
        et_value_set_string(validation, "sample", "Klicken Sie.");
    }
    return log;
}

static void write_logs(et_sink *sink, int64_t first, int64_t last)
{
    for (int64_t step = first; step <= last; step++) {
        et_arena arena = ET_ARENA_INIT;
        assert_ok(et_sink_write(sink, step, make_log(&arena, step), error));
        et_arena_release(&arena);
    }
}

static void test_sink__jsonl_lines(void **state)
{
    et_sink *sink;
    size_t length;
    assert_ok(et_sink_jsonl_open(&sink, in(state, "m.jsonl"), NULL, error));
    write_logs(sink, 1, 2);
    assert_ok(et_sink_close(sink, error));
    char *text = get_file(in(state, "m.jsonl"), &length);
    static const char first[] = "{\"step\":1,\"train\":{\"loss\":3.25,\"epoch\":2,\"time\":"
                                "{\"tokens_per_second\":34100.5}},\"time\":{\"wall\":1";
    assert_memory_equal(text, first, sizeof first - 1);
    char *second = strchr(text, '\n') + 1;
    assert_non_null(strstr(second, "\"validation\":{\"BLEU\":24.8,\"bad\":null,\"note\":"));
    assert_string_equal(text + length - 3, "}}\n");
    free(text);
}

/* The step is the log's, not a value with that name; a log is a dict. */
static void test_sink__jsonl_step(void **state)
{
    et_sink *sink;
    size_t length;
    et_arena arena = ET_ARENA_INIT;
    et_value *values = et_value_dict(&arena);
    et_value_set_float(values, "step", 0.5);
    assert_ok(et_sink_jsonl_open(&sink, in(state, "step.jsonl"), NULL, error));
    assert_ok(et_sink_write(sink, 7, values, error));
    assert_fails(et_sink_write(sink, 8, NULL, error), ET_EUSAGE, "a dict of values");
    assert_ok(et_sink_close(sink, error));
    char *text = get_file(in(state, "step.jsonl"), &length);
    assert_memory_equal(text, "{\"step\":7,\"time\"", 16);
    free(text);
    et_arena_release(&arena);
}

/* A number with that name is kept in the log's own dict. */
static void test_sink__jsonl_time(void **state)
{
    et_sink *sink;
    size_t length;
    et_arena arena = ET_ARENA_INIT;
    et_value *values = et_value_dict(&arena);
    et_value_set_float(values, ET_SINK_TIME, 3.5);
    assert_ok(et_sink_jsonl_open(&sink, in(state, "time.jsonl"), NULL, error));
    assert_ok(et_sink_write(sink, 7, values, error));
    assert_ok(et_sink_close(sink, error));
    char *text = get_file(in(state, "time.jsonl"), &length);
    static const char wanted[] = "{\"step\":7,\"time\":{\"time\":3.5,\"wall\":1";
    assert_memory_equal(text, wanted, sizeof wanted - 1);
    free(text);
    et_arena_release(&arena);
}

/* Names of nested values are folders: existing files continue, and names that lead out are refused.
 */
static void test_sink__names_of_folders(void **state)
{
    et_sink *sink;
    et_arena arena = ET_ARENA_INIT;
    et_value *values = et_value_dict(&arena), *positions = et_value_dict(&arena);
    et_value_set_float(et_value_set_dict(values, "epochs 1..10"), "loss", 1);
    assert_ok(et_sink_events_open(&sink, in(state, "names"), NULL, error));
    assert_ok(et_sink_write(sink, 1, values, error));
    assert_ok(et_sink_flush(sink, error));
    et_sink_positions(sink, positions);
    assert_ok(et_sink_close(sink, error));
    assert_ok(et_sink_events_open(&sink, in(state, "names"), positions, error));
    et_value_set_float(et_value_set_dict(values, "a/../../b"), "loss", 1);
    assert_fails(et_sink_write(sink, 2, values, error), ET_EDATA, "a/../../b");
    et_value *bytes = et_value_dict(&arena);
    et_value_set_float(bytes, "\xff", 1);
    assert_fails(et_sink_write(sink, 2, bytes, error), ET_EDATA, "\\xff: the name of the value");
    assert_ok(et_sink_close(sink, error));
    assert_false(file_is_there(in(state, "b")));
    et_arena_release(&arena);
}

/* The lines without their wall clocks. */
static char *comparable(const char *path)
{
    size_t length;
    char *text = get_file(path, &length), *out = text;
    for (char *next = text; *next != '\0';) {
        if (strncmp(next, "{\"wall\":", 8) == 0)
            next = strchr(next, '}');
        *out++ = *next++;
    }
    *out = '\0';
    return text;
}

static void open_files(et_sink **out, const char *directory, const et_value *positions)
{
    char path[600];
    et_sink *sinks[2];
    snprintf(path, sizeof path, "%s/metrics.jsonl", directory);
    assert_ok(et_sink_jsonl_open(&sinks[0], path, positions, error));
    assert_ok(et_sink_events_open(&sinks[1], directory, positions, error));
    assert_ok(et_sink_multi_open(out, sinks, 2, error));
}

/* Records in an event file. */
static size_t count_events(const char *path)
{
    et_record_scan reader;
    const void *bytes;
    size_t length, count = 0;
    assert_ok(et_record_scan_open(&reader, path, error));
    for (;; count++) {
        assert_ok(et_record_scan_next(&reader, &bytes, &length, error));
        if (bytes == NULL)
            break;
    }
    et_record_scan_close(&reader);
    return count;
}

/* Steps 1..9 at once, or 1..7 and from the positions after 4 on: equal but for the clock. */
static void test_sink__resume(void **state)
{
    et_sink *sink;
    et_arena arena = ET_ARENA_INIT;
    et_value *positions = et_value_dict(&arena);
    mkdir(in(state, "whole"), 0777);
    mkdir(in(state, "cut"), 0777);
    open_files(&sink, in(state, "whole"), NULL);
    write_logs(sink, 1, 9);
    assert_ok(et_sink_close(sink, error));

    open_files(&sink, in(state, "cut"), NULL);
    write_logs(sink, 1, 4);
    assert_ok(et_sink_flush(sink, error));
    et_sink_positions(sink, positions);
    assert_int_equal(positions->count, 2);
    assert_non_null(et_value_path(positions, "events.validation"));
    write_logs(sink, 5, 7);
    assert_ok(et_sink_close(sink, error));
    open_files(&sink, in(state, "cut"), positions);
    write_logs(sink, 5, 9);
    assert_ok(et_sink_close(sink, error));

    char *whole = comparable(in(state, "whole/metrics.jsonl"));
    char *cut = comparable(in(state, "cut/metrics.jsonl"));
    assert_string_equal(whole, cut);
    assert_int_equal(count_events(in(state, "cut/train/" ET_EVENTS_NAME)), 1 + 9);
    assert_int_equal(count_events(in(state, "cut/validation/" ET_EVENTS_NAME)), 1 + 4);
    assert_false(file_is_there(in(state, "cut/" ET_EVENTS_NAME))); /* nothing at the root */
    free(whole);
    free(cut);
    et_arena_release(&arena);
}

/* A new run replaces an old run's files; a torn line is removed at a resume. */
static void test_sink__jsonl_makes_its_folder(void **state)
{
    et_sink *sink;
    size_t length;
    assert_ok(et_sink_jsonl_open(&sink, in(state, "new/run/m.jsonl"), NULL, error));
    write_logs(sink, 1, 1);
    assert_ok(et_sink_close(sink, error));
    free(get_file(in(state, "new/run/m.jsonl"), &length));
    assert_true(length > 10);
}

static void test_sink__jsonl_starts_anew(void **state)
{
    et_sink *sink;
    et_arena arena = ET_ARENA_INIT;
    et_value *positions = et_value_dict(&arena);
    struct stat info;
    et_value_set_int(positions, "jsonl", 1000);
    put_file(in(state, "old.jsonl"), "{}\n{}\n{\"st", 10);
    assert_ok(et_sink_jsonl_open(&sink, in(state, "old.jsonl"), positions, error));
    assert_ok(et_sink_close(sink, error));
    assert_int_equal(stat(in(state, "old.jsonl"), &info), 0);
    assert_int_equal(info.st_size, 6);
    assert_ok(et_sink_jsonl_open(&sink, in(state, "old.jsonl"), NULL, error));
    assert_ok(et_sink_close(sink, error));
    assert_int_equal(stat(in(state, "old.jsonl"), &info), 0);
    assert_int_equal(info.st_size, 0);
    et_arena_release(&arena);
}

static void test_sink__hostile_positions(void **state)
{
    static const char *const names[] = { "../x", "/tmp/x", "a/../../x" };
    et_sink *sink;
    et_arena arena = ET_ARENA_INIT;
    for (size_t i = 0; i < 3; i++) {
        et_value *positions = et_value_dict(&arena);
        et_value_set_int(et_value_set_dict(positions, "events"), names[i], 0);
        assert_fails(et_sink_events_open(&sink, *state, positions, error), ET_EFORMAT, *state);
    }
    et_value *positions = et_value_dict(&arena);
    et_value_set_int(positions, "jsonl", -2);
    assert_int_equal(et_sink_jsonl_open(&sink, in(state, "x"), positions, NULL), ET_EFORMAT);
    et_value_set_string(positions, "jsonl", "x");
    assert_int_equal(et_sink_jsonl_open(&sink, in(state, "x"), positions, NULL), ET_EFORMAT);
    assert_false(file_is_there(in(state, "x")));
    et_arena_release(&arena);
}

/* Whether a file has exactly the tag: searches its bytes for the text. */
static bool has_tag(const char *path, const char *tag)
{
    size_t length;
    char *bytes = get_file(path, &length), wanted[100];
    /* Value.tag: field 1, its length, its bytes. */
    int size = snprintf(wanted, sizeof wanted, "\n%c%s", (int)strlen(tag), tag);
    bool has = memmem(bytes, length, wanted, (size_t)size) != NULL;
    free(bytes);
    return has;
}

/* A tag omits the directory's name, unless two values would have one tag. */
static void test_sink__tags(void **state)
{
    et_sink *sink;
    et_arena arena = ET_ARENA_INIT;
    et_value *logs = et_value_dict(&arena);
    et_value_set_float(logs, "training_loss", 1);
    et_value *train = et_value_set_dict(logs, "train");
    et_value_set_float(train, "training_loss", 2);
    et_value_set_float(train, "learning_rate", 3);
    et_value *validation = et_value_set_dict(logs, "validation");
    et_value_set_float(validation, "validation_loss", 4);
    et_value_set_float(validation, "news/validation_loss", 5);
    et_value_set_float(validation, "validation_f1", 6);
    et_value_set_float(validation, "f1", 7);
    et_value_set_float(validation, "validation_", 8);
    assert_ok(et_sink_events_open(&sink, in(state, "tags"), NULL, error));
    assert_ok(et_sink_write(sink, 5, logs, error));
    assert_ok(et_sink_close(sink, error));
    assert_true(has_tag(in(state, "tags/" ET_EVENTS_NAME), "training_loss"));
    assert_true(has_tag(in(state, "tags/train/" ET_EVENTS_NAME), "loss"));
    assert_false(has_tag(in(state, "tags/train/" ET_EVENTS_NAME), "training_loss"));
    assert_true(has_tag(in(state, "tags/train/" ET_EVENTS_NAME), "learning_rate"));
    static const char *const tags[] = { "loss", "news/loss", "validation_f1", "f1", "validation_" };
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++)
        assert_true(has_tag(in(state, "tags/validation/" ET_EVENTS_NAME), tags[i]));
    /* A file next to another process's belongs to a directory with its name. */
    et_value *measured = et_value_dict(&arena);
    et_value_set_float(measured, "validation_loss", 4);
    assert_ok(et_sink_events_open_as(&sink, in(state, "beside"), ET_EVENTS_MEASURED, error));
    assert_ok(et_sink_write(sink, 5, measured, error));
    assert_ok(et_sink_close(sink, error));
    assert_true(has_tag(in(state, "beside/" ET_EVENTS_MEASURED), "loss"));
    et_arena_release(&arena);
}

static void keep_copy(void *self, const char *text)
{
    et_strbuf_printf(self, "%s\n", text);
}

static const char *const trained[] = { "train", NULL };

/* A copy has every line, also if nothing is printed. */
static void test_sink__console_copy(void **state)
{
    (void)state;
    et_sink *sink;
    et_progress *progress;
    et_progress_options options = ET_PROGRESS_OPTIONS_INIT;
    et_strbuf copy = ET_STRBUF_INIT;
    et_arena arena = ET_ARENA_INIT;
    et_value *logs = et_value_dict(&arena), *train = et_value_set_dict(logs, "train");
    et_value_set_float(train, "loss", 2.5);
    et_value_set_float(et_value_set_dict(train, "time"), "steps_per_second", 8);
    et_value_set_float(et_value_set_dict(logs, "validation"), "good", 3);
    assert_ok(et_progress_open(&progress, &options, error));
    et_progress_copy_to(progress, keep_copy, &copy);
    et_progress_message(progress, "begins");
    assert_ok(et_sink_console_open(&sink, progress, trained, error));
    assert_ok(et_sink_write(sink, 5, logs, error));
    assert_ok(et_sink_close(sink, error));
    et_progress_copy_to(progress, NULL, NULL);
    et_progress_message(progress, "ends");
    et_progress_close(progress);
    assert_string_equal(et_strbuf_text(&copy), "begins\nstep  5  validation  good 3\n");
    et_strbuf_release(&copy);
    et_arena_release(&arena);
}

static void test_sink__console(void **state)
{
    et_sink *sink;
    et_progress *progress;
    et_progress_options options = ET_PROGRESS_OPTIONS_INIT;
    size_t length;
    options.fd = open(in(state, "screen"), O_CREAT | O_WRONLY | O_TRUNC, 0666);
    assert_ok(et_progress_open(&progress, &options, error));
    assert_ok(et_sink_console_open(&sink, progress, trained, error));
    write_logs(sink, 1999, 2000);
    assert_ok(et_sink_close(sink, error));
    et_progress_close(progress);
    close(options.fd);
    char *text = get_file(in(state, "screen"), &length);
    assert_string_equal(text, "step  2,000  validation  BLEU 24.8  bad nan  best so far\n");
    free(text);
}

/* A sink that fails, and counts. */
typedef struct failing {
    et_sink sink;
    int *writes;
} failing;

static int failing_write(et_sink *self, int64_t step, const et_value *values, et_error *error)
{
    (void)values;
    ++*((failing *)self)->writes;
    return et_fail(error, ET_EIO, "step %d failed", (int)step);
}

static int failing_flush(et_sink *self, et_error *error)
{
    (void)self;
    return et_fail(error, ET_EIO, "flush failed");
}

static int failing_close(et_sink *self, et_error *error)
{
    et_free(self);
    return et_fail(error, ET_EIO, "close failed");
}

static const et_sink_class failing_class = {
    .name = "failing", .write = failing_write, .flush = failing_flush, .close = failing_close
};

/* One sink's failure is reported and does not stop the others. */
static void test_sink__multi_goes_on(void **state)
{
    et_sink *sinks[3], *sink;
    int writes = 0;
    struct stat info;
    for (int i = 0; i < 3; i += 2) {
        failing *own = et_alloc_zero(1, sizeof *own);
        *own = (failing){ { &failing_class }, &writes };
        sinks[i] = &own->sink;
    }
    assert_ok(et_sink_jsonl_open(&sinks[1], in(state, "multi.jsonl"), NULL, error));
    assert_ok(et_sink_multi_open(&sink, sinks, 3, error));
    et_arena arena = ET_ARENA_INIT;
    assert_fails(et_sink_write(sink, 5, make_log(&arena, 5), error), ET_EIO, "step 5 failed");
    et_arena_release(&arena);
    assert_int_equal(writes, 2);
    assert_int_equal(stat(in(state, "multi.jsonl"), &info), 0);
    assert_true(info.st_size > 20);
    assert_fails(et_sink_flush(sink, error), ET_EIO, "flush failed");
    assert_fails(et_sink_close(sink, error), ET_EIO, "close failed");
}

/* Owned once, so closed once. */
static void test_sink__multi_twice(void **state)
{
    et_sink *sinks[3], *sink;
    assert_ok(et_sink_jsonl_open(&sinks[0], in(state, "once.jsonl"), NULL, error));
    assert_ok(et_sink_jsonl_open(&sinks[1], in(state, "other.jsonl"), NULL, error));
    sinks[2] = sinks[0];
    assert_fails(et_sink_multi_open(&sink, sinks, 3, error), ET_EUSAGE,
                 "sink 2 is in the list twice; remove one");
    assert_null(sink);
}

static void test_sink__step_below_0(void **state)
{
    et_sink *sink;
    et_arena arena = ET_ARENA_INIT;
    assert_ok(et_sink_jsonl_open(&sink, in(state, "below.jsonl"), NULL, error));
    assert_fails(et_sink_write(sink, -1, make_log(&arena, 1), error), ET_EUSAGE, "step -1");
    assert_ok(et_sink_write(sink, 0, make_log(&arena, 1), error));
    et_arena_release(&arena);
    assert_ok(et_sink_close(sink, error));
}

/* Every write from the n-th on fails: the failure is reported, and complete lines stay readable. */
static void test_sink__no_room(void **state)
{
    for (rlim_t room = 0; room < 250; room += 31) {
        et_sink *sink;
        size_t length;
        assert_ok(et_sink_jsonl_open(&sink, in(state, "full.jsonl"), NULL, error));
        limit_files(room);
        int status = ET_OK;
        for (int64_t step = 1; step < 9 && !status; step += 2) {
            et_arena arena = ET_ARENA_INIT;
            status = et_sink_write(sink, step, make_log(&arena, step), NULL);
            et_arena_release(&arena);
        }
        unlimit_files();
        assert_int_equal(status, ET_ENOSPACE);
        assert_ok(et_sink_close(sink, error));
        char *text = get_file(in(state, "full.jsonl"), &length);
        assert_true(length == 0 || text[length - 1] == '\n');
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sink__jsonl_lines),
        cmocka_unit_test(test_sink__jsonl_step),
        cmocka_unit_test(test_sink__jsonl_time),
        cmocka_unit_test(test_sink__names_of_folders),
        cmocka_unit_test(test_sink__resume),
        cmocka_unit_test(test_sink__jsonl_makes_its_folder),
        cmocka_unit_test(test_sink__jsonl_starts_anew),
        cmocka_unit_test(test_sink__hostile_positions),
        cmocka_unit_test(test_sink__console),
        cmocka_unit_test(test_sink__console_copy),
        cmocka_unit_test(test_sink__tags),
        cmocka_unit_test(test_sink__multi_goes_on),
        cmocka_unit_test(test_sink__multi_twice),
        cmocka_unit_test(test_sink__step_below_0),
        cmocka_unit_test(test_sink__no_room),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
