/* A loop's descriptions of a training: the table of parameters, summaries, its graph. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "systems/tfsnippet/looped.h"
#include "systems/tfsnippet/paper.h"

#include <etude/layers.h>
#include <etude/pass.h>
#include <etude/summary_message.h>

#include "base/arena.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- the training summary ---- */

static void test_loop_summaries__training_summary(void **state)
{
    (void)state;
    static const char *const groups[] = { "model/hidden/", "nothing", "model/out" };
    looped l;
    const et_init zeros = { ET_INIT_ZEROS, 0 };
    int index;
    l = (looped){ .options = { .var_groups = groups, .var_group_count = 3 } };
    l.options.print = looped_print;
    l.options.print_payload = l.printed;
    assert_ok(et_params_new(&l.params, error));
    static const struct {
        const char *name;
        int64_t rows, columns;
    } params[] = { { "model/hidden/weight", 784, 512 },
                   { "scale", 1, 1 },
                   { "model/out/weight", 512, 10 },
                   { "model/hidden/bias", 1, 512 } };
    for (size_t i = 0; i < COUNT(params); i++)
        assert_ok(et_params_declare(l.params, params[i].name,
                                    et_shape_2(params[i].rows, params[i].columns), zeros, &index,
                                    error));
    assert_ok(et_params_declare_variable(l.params, "counter", et_shape_1(1), zeros, &index, error));
    assert_ok(et_params_materialize(l.params, false, error));
    looped_begin(&l);
    et_loop_print_training_summary(l.loop);
    assert_int_equal(
        strncmp(l.printed, "Execution Environment\n---------------------\nEtude   ", 52), 0);
    const char *table = strstr(l.printed, "Trainable");
    assert_non_null(table);
    assert_string_equal(table, "Trainable Parameters (407,041 in total)\n"
                               "=======================================\n"
                               "model/hidden/        (401,920 in total)\n"
                               "---------------------------------------\n"
                               "weight              (784, 512)  401,408\n"
                               "bias                (1, 512)        512\n"
                               "\n"
                               "model/out/             (5,120 in total)\n"
                               "---------------------------------------\n"
                               "weight                 (512, 10)  5,120\n"
                               "\n"
                               "Other Parameters           (1 in total)\n"
                               "---------------------------------------\n"
                               "scale                         (1, 1)  1\n\n");
    const char *const *kept;
    assert_int_equal(et_loop_var_groups(l.loop, &kept), 3);
    assert_string_equal(kept[2], "model/out");
    looped_end(&l);
    looped_free(&l);
}

/* ---- summaries ---- */

static void test_loop_summaries__summaries(void **state)
{
    static const et_loop_frequency freqs[] = { { "x", 3 }, { "y", 1 } };
    static const struct {
        const char *prefix, *skip, *text;
    } cases[] = {
        { NULL, NULL,
          "1 metrics/x 1\n1 metrics/y 2\n1 raw 5\n2 metrics/y 2\n3 metrics/y 2\n4 metrics/x 4\n"
          "4 metrics/y 2\n" },
        { "", "y|.*time", "1 x 1\n1 raw 5\n4 x 4\n" },
        { "m/", ".*(_time|[xy])", "1 raw 5\n" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        paper p = { .sink = { &paper_class } };
        et_arena arena = ET_ARENA_INIT;
        et_value *raw = et_value_dict(&arena);
        et_value_set_float(raw, "raw", 5);
        looped l;
        looped_init(&l);
        l.options.max_step = 4;
        l.options.summary_writer = &p.sink;
        l.options.summary_dir = in(state, "unused");
        l.options.summary_metric_prefix = cases[i].prefix;
        l.options.summary_skip_pattern = cases[i].skip;
        l.options.summary_commit_freqs = freqs;
        l.options.summary_commit_freq_count = 2;
        looped_begin(&l);
        assert_ptr_equal(et_loop_summary_writer(l.loop), &p.sink);
        while (et_loop_next_epoch(l.loop))
            while (et_loop_next_step(l.loop, NULL)) {
                const double ys[] = { 1, 3 };
                const et_loop_metric both[] = { { .name = "x",
                                                  .value = (double)et_loop_step(l.loop) },
                                                { .name = "y", .values = ys, .count = 2 } };
                et_loop_collect_metrics(l.loop, both, 2);
                if (et_loop_step(l.loop) == 1)
                    et_loop_add_summary(l.loop, raw);
                et_loop_print_logs(l.loop);
            }
        looped_end(&l);
        assert_string_equal(p.text, cases[i].text);
        assert_int_equal(p.closed, 0);
        assert_false(file_is_there(in(state, "unused")));
        et_arena_release(&arena);
        looped_free(&l);
    }
}

typedef struct exit_seen {
    et_params *params;
    const et_value *summary;
    double weight;
    bool saves;
} exit_seen;

static int see_exit(void *payload, const char *event, const void *what, et_error *error)
{
    exit_seen *seen = payload;
    et_loop *loop = ((const et_loop_event *)what)->loop;
    (void)event, (void)error;
    seen->weight = weight_of(seen->params, "a");
    assert_int_equal(et_loop_println(loop, "exit", false), 0);
    assert_int_equal(et_loop_add_summary(loop, seen->summary), 0);
    return seen->saves ? et_loop_make_checkpoint(loop) : ET_OK;
}

/* They print and write, see the best parameters, and save nothing over the last step's. */
static void test_loop_summaries__handlers_of_the_exit(void **state)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *summary = et_value_dict(&arena);
    et_value_set_float(summary, "last", 5);
    for (int kind = 0; kind < 3; kind++) {
        paper p = { .sink = { &paper_class } };
        et_error told = ET_ERROR_INIT;
        looped l;
        looped_init(&l);
        exit_seen seen = { l.params, summary, 0, kind == 1 };
        l.options.max_step = 2;
        l.options.early_stopping = true;
        l.options.summary_writer = &p.sink;
        l.options.checkpoint_dir = in(state, "exit");
        l.options.restore_checkpoint = ET_LOOP_RESTORE_NONE;
        looped_open(&l);
        assert_ok(
            et_event_hub_on(et_loop_events(l.loop), ET_EVENT_EXIT_LOOP, see_exit, &seen, error));
        assert_ok(et_loop_begin(l.loop, error));
        while (et_loop_next_epoch(l.loop))
            while (et_loop_next_step(l.loop, NULL)) {
                set_weights(l.params, (double)et_loop_step(l.loop));
                et_loop_collect(l.loop, "valid_loss", (double)et_loop_step(l.loop));
            }
        if (kind == 2)
            et_loop_collect(l.loop, "x", 1); /* outside of an epoch */
        const int wanted[] = { ET_OK, ET_EUSAGE, ET_EUSAGE };
        assert_int_equal(et_loop_end(l.loop, &told), wanted[kind]);
        assert_int_equal(strstr(told.text, "the loop has ended: a checkpoint would hold") != NULL,
                         kind == 1);
        assert_int_equal(strstr(told.text, "An epoch or a step loop") != NULL, kind == 2);
        assert_true(seen.weight == (kind == 2 ? 2 : 1));
        assert_non_null(strstr(l.printed, "exit\n"));
        assert_non_null(strstr(p.text, "2 last 5\n"));
        looped_free(&l);
    }
    et_arena_release(&arena);
}

/* The loop's own writer: a run that begins writes the model's description once; a resumed run, even
 * from before its first step, finds it there. */
static void test_loop_summaries__graph_and_own_writer(void **state)
{
    looped l;
    looped_init(&l);
    l.options.summary_dir = l.options.checkpoint_dir = in(state, "graph");
    l.options.summary_graph = "x -> y";
    size_t lengths[3];
    for (int part = 0; part < 3; part++) {
        size_t length, found = 0;
        l.options.max_step = 2;
        looped_begin(&l);
        assert_non_null(et_loop_summary_writer(l.loop));
        if (part == 0) {
            assert_int_equal(et_loop_make_checkpoint(l.loop), 0);
            looped_end(&l);
            continue;
        }
        while (et_loop_next_epoch(l.loop))
            while (et_loop_next_step(l.loop, NULL)) {
                et_loop_collect(l.loop, "x", 1);
                et_loop_make_checkpoint(l.loop);
            }
        looped_end(&l);
        char *bytes = get_file(in(state, "graph/events.out.tfevents.0000000000.etude"), &length);
        for (size_t i = 0; i + 6 <= length; i++)
            found += !memcmp(bytes + i, "x -> y", 6);
        assert_int_equal(found, 1);
        lengths[part] = length;
        free(bytes);
    }
    assert_int_equal(lengths[1], lengths[2]);
    looped_free(&l);
}

/* A resumed run with a writer that it did not have before. */
static void test_loop_summaries__graph_of_a_later_writer(void **state)
{
    looped l;
    size_t length, found = 0;
    looped_init(&l);
    l.options.checkpoint_dir = in(state, "later");
    l.options.max_step = 2;
    looped_begin(&l);
    assert_int_equal(et_loop_make_checkpoint(l.loop), 0);
    looped_end(&l);
    char directory[512];
    snprintf(directory, sizeof directory, "%s", in(state, "later/logs"));
    l.options.summary_dir = directory;
    l.options.summary_graph = "x -> y";
    looped_begin(&l);
    looped_end(&l);
    char *bytes = get_file(in(state, "later/logs/events.out.tfevents.0000000000.etude"), &length);
    for (size_t i = 0; i + 6 <= length; i++)
        found += !memcmp(bytes + i, "x -> y", 6);
    assert_int_equal(found, 1);
    free(bytes);
    looped_free(&l);
}

static bool file_has(const char *path, const char *bytes, size_t length)
{
    size_t all;
    bool found = false;
    char *text = get_file(path, &all);
    for (size_t i = 0; i + length <= all && !found; i++)
        found = !memcmp(text + i, bytes, length);
    free(text);
    return found;
}

static int note_bytes(void *payload, const char *event, const void *what, et_error *error)
{
    const et_loop_event *e = what;
    (void)event, (void)error;
    assert_null(e->summary);
    assert_non_null(e->bytes);
    *(size_t *)payload += e->length;
    return ET_OK;
}

/* A value of an unknown kind ("odd", field 6) is written unchanged. */
static void test_loop_summaries__serialised(void **state)
{
    static const char foreign[] = "\x0a\x0a\x0a\x03odd\x32\x03xyz";
    static const double values[] = { -1, 0, 0.5, 0.5, 2e30 };
    static const uint8_t pixels[2 * 3 * 3] = { 255 };
    looped l;
    et_summary *summary;
    size_t length, told = 0;
    char path[600];
    snprintf(path, sizeof path, "%s/events.out.tfevents.0000000000.etude", in(state, "serialized"));
    assert_ok(et_summary_new(&summary, error));
    assert_ok(et_summary_add_scalar(summary, "one", 1.5, error));
    assert_ok(et_summary_add_histogram(summary, "weights", values, 5, error));
    assert_ok(et_summary_add_image(summary, "picture", pixels, 2, 3, 3, error));
    const void *bytes = et_summary_bytes(summary, &length);
    looped_init(&l);
    l.options.summary_dir = in(state, "serialized");
    l.options.max_step = 2;
    looped_begin(&l);
    assert_ok(
        et_event_hub_on(et_loop_events(l.loop), ET_EVENT_SUMMARY_ADDED, note_bytes, &told, error));
    assert_int_equal(et_loop_add_summary_bytes(l.loop, bytes, length), 0);
    assert_int_equal(et_loop_add_summary_bytes(l.loop, foreign, sizeof foreign - 1), 0);
    assert_int_equal(told, length + sizeof foreign - 1);
    looped_end(&l);
    assert_true(file_has(path, "weights", 7));
    assert_true(file_has(path, "\x89PNG\r\n\x1a\n", 8));
    assert_true(file_has(path, "\x03odd\x32\x03xyz", 9));
    et_summary_free(summary);
    looped_free(&l);
}

static void assert_refused(looped *l, const void *bytes, size_t length, int status,
                           const char *text)
{
    et_error failure = ET_ERROR_INIT;
    l->options.max_step = 2;
    looped_begin(l);
    assert_int_equal(et_loop_add_summary_bytes(l->loop, bytes, length), status);
    assert_int_equal(et_loop_end(l->loop, &failure), status);
    assert_non_null(strstr(failure.text, text));
    looped_free(l);
}

static void test_loop_summaries__serialised_refused(void **state)
{
    paper p = { .sink = { &paper_class } };
    looped l;
    looped_init(&l);
    l.options.summary_dir = in(state, "refused");
    assert_refused(&l, "\x0a\x7f", 2, ET_EDATA, "2 bytes are not a serialized tensorflow.Summary");
    looped_init(&l);
    l.options.summary_dir = in(state, "refused");
    assert_refused(&l, "", 0, ET_EDATA, "not a serialized tensorflow.Summary with a value");
    looped_init(&l);
    l.options.summary_writer = &p.sink;
    assert_refused(&l, "\x0a\x02\x0a\x00", 4, ET_EUSAGE, "only be written to event files");
    looped_init(&l);
    assert_refused(&l, "\x0a\x02\x0a\x00", 4, ET_EUSAGE, "cannot write a summary");

    static const double odd[] = { 1, NAN };
    static const uint8_t pixel[1] = { 0 };
    et_summary *summary;
    assert_ok(et_summary_new(&summary, error));
    assert_fails(et_summary_add_histogram(summary, "x", odd, 2, error), ET_EDATA, "value 1 is nan");
    assert_fails(et_summary_add_histogram(summary, "x", odd, 0, error), ET_EDATA, "at least 1");
    assert_fails(et_summary_add_image(summary, "x", pixel, 1, 1, 5, error), ET_EDATA, "5 channels");
    assert_fails(et_summary_add_image(summary, "x", pixel, 1 << 20, 1 << 20, 1, error), ET_EDATA,
                 "1 GiB");
    assert_fails(et_summary_add_scalar(summary, "", 1, error), ET_EUSAGE,
                 "a value of a summary has no tag");
    et_summary_free(summary);
}

static void build_dense(et_scope *s, void *payload)
{
    (void)payload;
    et_output(s, "y", et_dense(et_in(s, "layer"), et_batch_input(s, "x"), 2));
}

/* The graph of a pass, when the loop's own writer begins again. */
static void test_loop_summaries__graph_of_a_pass(void **state)
{
    et_device *device;
    et_pass *pass;
    et_source *source = rows_source(4, false, false);
    looped l = { .params = NULL };
    char path[600];
    snprintf(path, sizeof path, "%s/events.out.tfevents.0000000000.etude", in(state, "pass"));
    assert_ok(et_device_open(&device, error));
    assert_ok(et_params_new(&l.params, error));
    assert_ok(
        et_pass_open(&pass, device, l.params, &source->layout, build_dense, NULL, NULL, error));
    assert_ok(et_params_materialize(l.params, false, error));
    l.options.print = looped_print;
    l.options.print_payload = l.printed;
    l.options.summary_dir = in(state, "pass");
    l.options.summary_pass = pass;
    looped_begin(&l);
    looped_end(&l);
    assert_true(file_has(path, "layer/weight", 12));
    assert_true(file_has(path, "_output_shapes", 14));
    et_pass_close(pass);
    looped_free(&l);
    et_source_close(source);
    et_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop_summaries__serialised),
        cmocka_unit_test(test_loop_summaries__serialised_refused),
        cmocka_unit_test(test_loop_summaries__graph_of_a_pass),
        cmocka_unit_test(test_loop_summaries__handlers_of_the_exit),
        cmocka_unit_test(test_loop_summaries__training_summary),
        cmocka_unit_test(test_loop_summaries__graph_of_a_later_writer),
        cmocka_unit_test(test_loop_summaries__summaries),
        cmocka_unit_test(test_loop_summaries__graph_and_own_writer),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
