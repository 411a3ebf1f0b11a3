#include "formats/events/event.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/values/json.h"
#include "formats/files.h"

static const et_activity step_activity = { .name = "step", .kind = "between ops" };
static const et_activity op_activity = { .name = "a \"quoted\" \\ name\n",
                                         .kind = "matmul",
                                         .kernel = "\xff\xc3\xa4",
                                         .dtype = "float32",
                                         .shape = "[2, 3] -> [3]" };
static const et_activity part_activity = { .name = "tile" };

/* Two steps on the leading track, each with an op of two parts, and a part on another. */
static et_trace *make(void)
{
    et_trace *trace;
    et_trace_options options = ET_TRACE_OPTIONS_INIT;
    assert_int_equal(et_trace_new(&trace, &options, NULL), ET_OK);
    et_track *main = et_trace_main(trace), *other = et_track_beside(main, "worker 1");
    et_trace_window(trace, 1, 2);
    for (int64_t i = 1; i <= 2; i++) {
        et_track_begin(main, &step_activity, i);
        et_track_begin(main, &op_activity, -1);
        for (int64_t k = 0; k < 2; k++) {
            et_track_begin(main, &part_activity, k);
            et_track_end(main);
        }
        et_track_end_with(main, (et_cost){ 6e9, 2000 });
        et_track_end(main);
        et_track_begin(other, &part_activity, 2);
        et_track_end(other);
    }
    et_trace_stop(trace);
    return trace;
}

static et_value *read_events(const char *path, et_arena *arena)
{
    size_t length;
    et_value *root;
    char *text = get_file(path, &length);
    assert_ok(et_json_parse(&root, arena, text, length, path, error));
    free(text);
    et_value *events = et_value_get(root, "traceEvents");
    assert_non_null(events);
    assert_int_equal(events->kind, ET_VALUE_LIST);
    return events;
}

static const char *text_of(const et_value *dict, const char *path)
{
    const et_value *value = et_value_path(dict, path);
    return value && value->kind == ET_VALUE_STRING ? value->string : "";
}

static double number_of(const et_value *dict, const char *key)
{
    double number;
    assert_ok(et_value_read_float(dict, key, &number, error));
    return number;
}

/* The members of a row of the file, in order. */
typedef struct event_case {
    int thread;
    const char *phase, *name, *argument; /* of "M": args.name */
} event_case;

static const event_case whole[] = {
    { 1, "M", "process_name", "etude" },
    { 1, "M", "thread_name", "main" },
    { 1, "M", "thread_sort_index", "" },
    { 1, "X", "step 1", "" },
    { 1, "X", "a \"quoted\" \\ name\n", "" },
    { 1, "X", "tile 0", "" },
    { 1, "X", "tile 1", "" },
    { 1, "X", "step 2", "" },
    { 1, "X", "a \"quoted\" \\ name\n", "" },
    { 1, "X", "tile 0", "" },
    { 1, "X", "tile 1", "" },
    { 2, "M", "thread_name", "worker 1" },
    { 2, "M", "thread_sort_index", "" },
    { 2, "X", "tile 2", "" },
    { 2, "X", "tile 2", "" },
};

static void test_trace_file__events(void **state)
{
    et_arena arena = ET_ARENA_INIT;
    et_trace *trace = make();
    const char *path = in(state, "trace.json");
    assert_ok(et_trace_file_write(trace, "etude", path, error));
    const et_value *events = read_events(path, &arena), *event = events->first;
    assert_int_equal(events->count, sizeof whole / sizeof whole[0]);
    for (const event_case *c = whole; event; c++, event = event->next) {
        assert_int_equal(number_of(event, "tid"), c->thread);
        assert_string_equal(text_of(event, "ph"), c->phase);
        assert_string_equal(text_of(event, "name"), c->name);
        assert_string_equal(text_of(event, "args.name"), c->argument);
        assert_int_equal(number_of(event, "pid"), 1);
    }
    et_arena_release(&arena);
    et_trace_free(trace);
}

/* All that an activity says, and rates of the span's work. */
static void test_trace_file__activity(void **state)
{
    et_arena arena = ET_ARENA_INIT;
    et_trace *trace = make();
    const char *path = in(state, "trace.json");
    assert_ok(et_trace_file_write(trace, "etude", path, error));
    const et_value *op = read_events(path, &arena)->first->next->next->next->next;
    const et_value *arguments = et_value_get(op, "args");
    assert_string_equal(text_of(op, "cat"), "matmul");
    assert_string_equal(text_of(arguments, "kernel"), "\xef\xbf\xbd\xc3\xa4");
    assert_string_equal(text_of(arguments, "type"), "float32");
    assert_string_equal(text_of(arguments, "shape"), "[2, 3] -> [3]");
    assert_true(number_of(arguments, "flops") == 6e9 && number_of(arguments, "bytes") == 2000);
    et_span span = et_trace_span(trace, 0, 1);
    double nanoseconds = (double)(span.end - span.begin);
    assert_true(fabs(number_of(arguments, "GFLOP/s") - 6e9 / nanoseconds) < 0.06);
    assert_true(fabs(1e3 * number_of(op, "dur") - nanoseconds) < 1e-3);
    assert_true(fabs(1e3 * number_of(op, "ts") - (double)span.begin) < 1e-3);
    et_arena_release(&arena);
    et_trace_free(trace);
}

/* The file is complete or unchanged, and no other file remains. */
static void test_trace_file__bad_paths(void **state)
{
    et_trace *trace = make();
    const char *path = in(state, "kept.json"), *none = in(state, "none/trace.json");
    assert_fails(et_trace_file_write(trace, "etude", none, error), ET_ENOTFOUND, none);
    assert_fails(et_trace_file_write(trace, "etude", *state, error), ET_EDENIED, "a directory");
    assert_fails(et_trace_file_write(trace, "etude", "/dev/null", error), ET_EDENIED, "a device");
    put_file(path, "as it was", 9);
    limit_files(100);
    assert_int_not_equal(et_trace_file_write(trace, "etude", path, NULL), ET_OK);
    unlimit_files();
    size_t length;
    char *text = get_file(path, &length);
    assert_string_equal(text, "as it was");
    free(text);
    assert_int_equal(unlink(path), 0);
    unlink(in(state, "trace.json"));
    assert_int_equal(rmdir(*state), 0); /* no file remains */
    assert_int_equal(mkdir(*state, 0777), 0);
    et_trace_free(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trace_file__events),
        cmocka_unit_test(test_trace_file__activity),
        cmocka_unit_test(test_trace_file__bad_paths),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
