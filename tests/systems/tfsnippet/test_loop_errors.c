/* A loop's refusals: options, misuse; the first failure ends the loop. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "systems/tfsnippet/looped.h"

#include "base/aborts.h"
#include "base/arena.h"
#include "skip.h"
#include "systems/tfsnippet/loop_private.h"
#include "train/checkpoint/state.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- options ---- */

static void test_loop_errors__options(void **state)
{
    (void)state;
    static const et_loop_frequency none[] = { { "x", 0 } }, unnamed[] = { { NULL, 1 } };
    static const char *const no_group[] = { NULL };
    static const et_metric_formatter mute = { .compare = NULL };
    static const struct {
        et_loop_options options;
        int status;
        const char *text;
    } cases[] = {
        { { .max_epoch = -1 }, ET_ECONFIG, "max_epoch -1" },
        { { .formatter = &mute }, ET_EUSAGE, "formatter: needs both compare and format" },
        { { .max_step = -2 }, ET_ECONFIG, "max_step -2" },
        { { .checkpoint_epoch_freq = -1, .checkpoint_dir = "x" },
          ET_ECONFIG,
          "`checkpoint_epoch_freq` must be a positive integer: got -1" },
        { { .checkpoint_epoch_freq = 1 }, ET_ECONFIG, "needs checkpoint_dir" },
        { { .checkpoint_max_to_keep = -1 }, ET_ECONFIG, "checkpoint_max_to_keep: -1" },
        { { .valid_metric_better = 3 },
          ET_ECONFIG,
          "valid_metric_better: 3 is not one of ET_LOOP_BETTER_*" },
        { { .early_stopping = true, .valid_metric_name = "" }, ET_ECONFIG, "valid_metric_name" },
        { { .summary_commit_freqs = none, .summary_commit_freq_count = 1 },
          ET_ECONFIG,
          "summary_commit_freqs[0]: needs a name and a positive frequency, got 0" },
        { { .summary_commit_freqs = unnamed, .summary_commit_freq_count = 1 },
          ET_ECONFIG,
          "needs a name" },
        { { .summary_skip_pattern = "(" }, ET_ECONFIG, "summary_skip_pattern" },
        { { .var_group_count = -1 }, ET_ECONFIG, "counts" },
        { { .var_groups = no_group, .var_group_count = 1 }, ET_ECONFIG, "var_groups[0]" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        looped l;
        looped_init(&l);
        assert_fails(et_loop_open(&l.loop, l.params, &cases[i].options, error), cases[i].status,
                     cases[i].text);
        assert_null(l.loop);
        looped_free(&l);
    }
}

static void test_loop_errors__stores(void **state)
{
    (void)state;
    const et_loop_options stopping = { .early_stopping = true };
    et_loop *loop;
    et_params *params;
    et_group *group;
    int index;
    looped l;
    looped_init(&l);
    assert_ok(et_params_new(&params, error));
    assert_fails(et_loop_open(&loop, params, NULL, error), ET_EUSAGE, "et_params_materialize");
    assert_fails(et_loop_open(&loop, NULL, NULL, error), ET_EUSAGE, "et_params_materialize");
    const et_init zeros = { ET_INIT_ZEROS, 0 };
    assert_ok(et_params_declare_variable(params, "n", et_shape_1(1), zeros, &index, error));
    assert_ok(et_params_materialize(params, false, error));
    assert_fails(et_loop_open(&loop, params, &stopping, error), ET_ECONFIG, "no parameters");
    assert_ok(et_group_new(&group, l.params, "a", error));
    l.options.group = group;
    assert_fails(et_loop_open(&loop, params, &l.options, error), ET_ECONFIG, "another store");
    et_group_free(group);
    et_params_free(params);
    looped_free(&l);
}

/* ---- misuse: each in a separate loop, at the given place ---- */

enum place { OPEN, BEGUN, EPOCH, STEP, AFTER };

static int on_epochs(et_loop *loop)
{
    return et_loop_next_epoch(loop) ? 0 : 1;
}

static int on_steps(et_loop *loop)
{
    return et_loop_next_step(loop, NULL) ? 0 : 1;
}

static int on_begin(et_loop *loop)
{
    et_error error = ET_ERROR_INIT;
    int status = et_loop_begin(loop, &error);
    return status ? et_loop_fail(loop, &error) : 0;
}

static int on_end(et_loop *loop)
{
    et_error error = ET_ERROR_INIT;
    int status = et_loop_end(loop, &error);
    return status ? et_loop_fail(loop, &error) : 0;
}

static int on_collect(et_loop *loop)
{
    return et_loop_collect(loop, "x", 1);
}

static int on_nameless(et_loop *loop)
{
    return et_loop_collect(loop, NULL, 1);
}

static int on_no_utf8(et_loop *loop)
{
    return et_loop_collect(loop, "caf\xe9", 1);
}

static int on_no_metrics(et_loop *loop)
{
    return et_loop_collect_metrics(loop, NULL, 1);
}

static int on_no_values(et_loop *loop)
{
    return et_loop_collect_metrics(loop, &(et_loop_metric){ .name = "x", .count = 2 }, 1);
}

static int on_time(et_loop *loop)
{
    return et_loop_time_begin(loop, "x_time");
}

static int on_time_twice(et_loop *loop)
{
    return et_loop_time_begin(loop, "x_time") || et_loop_time_begin(loop, "x_time");
}

static int on_time_end(et_loop *loop)
{
    return et_loop_time_end(loop, "x_time");
}

static int on_time_over(et_loop *loop)
{
    return et_loop_time_begin(loop, "x_time") || on_epochs(loop) ||
           et_loop_time_end(loop, "x_time");
}

static int on_collector(et_loop *loop)
{
    et_statistics *collector;
    return et_loop_collector_begin(loop, "x", &collector);
}

static int on_collector_end(et_loop *loop)
{
    return et_loop_collector_end(loop, "x");
}

static int on_nameless_time(et_loop *loop)
{
    return et_loop_time_begin(loop, "");
}

static int on_logs(et_loop *loop)
{
    return et_loop_print_logs(loop);
}

static int on_tag(et_loop *loop)
{
    return et_loop_println(loop, "x", true);
}

static int on_summary(et_loop *loop)
{
    et_value value = { .kind = ET_VALUE_DICT };
    return et_loop_add_summary(loop, &value);
}

static int on_checkpoint(et_loop *loop)
{
    return et_loop_make_checkpoint(loop);
}

static int on_table(et_loop *loop)
{
    return et_loop_print_training_summary(loop);
}

static int on_leave(et_loop *loop)
{
    return et_loop_leave(loop);
}

static int on_leave_steps(et_loop *loop)
{
    return et_loop_leave_steps(loop);
}

static int on_max_epoch(et_loop *loop)
{
    return et_loop_set_max_epoch(loop, -1);
}

static int on_max_step(et_loop *loop)
{
    return et_loop_set_max_step(loop, -1);
}

static int on_unlimited(et_loop *loop)
{
    return et_loop_set_max_step(loop, 0) || on_steps(loop);
}

static int on_failure(et_loop *loop)
{
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_loop_fail(loop, &error), 0);
    et_fail(&error, ET_EDIVERGED, "the step said no");
    return et_loop_fail(loop, &error);
}

static int nested_epochs(void *payload, const char *event, const void *what, et_error *error)
{
    (void)payload, (void)event, (void)error;
    return on_epochs(((const et_loop_event *)what)->loop);
}

static int nested_steps(void *payload, const char *event, const void *what, et_error *error)
{
    (void)payload, (void)event, (void)error;
    return on_steps(((const et_loop_event *)what)->loop);
}

static int leaver(void *payload, const char *event, const void *what, et_error *error)
{
    (void)payload, (void)event, (void)error;
    return et_loop_leave(((const et_loop_event *)what)->loop);
}

static int steps_leaver(void *payload, const char *event, const void *what, et_error *error)
{
    (void)payload, (void)event, (void)error;
    return et_loop_leave_steps(((const et_loop_event *)what)->loop);
}

/* Continues as if there had been no error. */
static int ender(void *payload, const char *event, const void *what, et_error *error)
{
    et_error said = ET_ERROR_INIT;
    (void)payload, (void)event, (void)error;
    assert_int_equal(et_loop_end(((const et_loop_event *)what)->loop, &said), ET_EUSAGE);
    return ET_OK;
}

static int collector(void *payload, const char *event, const void *what, et_error *error)
{
    (void)payload, (void)event, (void)error;
    return et_loop_collect(((const et_loop_event *)what)->loop, "x", 1);
}

static int bad_handler(void *payload, const char *event, const void *what, et_error *error)
{
    (void)payload, (void)event, (void)what;
    return et_fail(error, ET_EIO, "the bell is broken");
}

static int mute_handler(void *payload, const char *event, const void *what, et_error *error)
{
    (void)payload, (void)event, (void)what, (void)error;
    return ET_EIO;
}

static int with_handler(et_loop *loop, et_event_fn *handler)
{
    assert_ok(
        et_event_hub_on(et_loop_events(loop), ET_EVENT_METRICS_COLLECTED, handler, NULL, error));
    return on_collect(loop);
}

static int on_nested_epochs(et_loop *loop)
{
    return with_handler(loop, nested_epochs);
}

static int on_nested_steps(et_loop *loop)
{
    return with_handler(loop, nested_steps);
}

static int on_left_in_handler(et_loop *loop)
{
    return with_handler(loop, leaver);
}

static int on_steps_left_in_handler(et_loop *loop)
{
    return with_handler(loop, steps_leaver);
}

static int on_ended_in_handler(et_loop *loop)
{
    return with_handler(loop, ender);
}

static int on_ended_at_step(et_loop *loop)
{
    assert_ok(et_event_hub_on(et_loop_events(loop), ET_EVENT_AFTER_STEP, ender, NULL, error));
    return on_steps(loop);
}

static int on_ended_at_epoch(et_loop *loop)
{
    assert_ok(et_event_hub_on(et_loop_events(loop), ET_EVENT_AFTER_EPOCH, ender, NULL, error));
    return on_epochs(loop);
}

static int on_endless_handler(et_loop *loop)
{
    return with_handler(loop, collector);
}

static int on_bad_handler(et_loop *loop)
{
    return with_handler(loop, bad_handler);
}

static int on_mute_handler(et_loop *loop)
{
    return with_handler(loop, mute_handler);
}

static const struct {
    int (*call)(et_loop *loop);
    enum place place;
    int status;
    const char *text;
} misuses[] = {
    { on_begin, BEGUN, ET_EUSAGE, "the loop has already begun: open a new loop" },
    { on_begin, AFTER, ET_EUSAGE, "the loop has already begun: open a new loop" },
    { on_end, OPEN, ET_EUSAGE, "the loop is not running; call et_loop_begin first" },
    { on_end, AFTER, ET_EUSAGE, "the loop is not running; call et_loop_begin first" },
    { on_epochs, OPEN, ET_EUSAGE, "the loop has not begun: call et_loop_begin first" },
    { on_epochs, AFTER, ET_EUSAGE, "the loop has ended: open a new loop" },
    { on_steps, OPEN, ET_EUSAGE, "the loop has not begun: call et_loop_begin first" },
    { on_steps, BEGUN, ET_EUSAGE, "Step loop must be opened within active epoch loop" },
    { on_unlimited, EPOCH, ET_EUSAGE, "steps without data would never end" },
    { on_nested_epochs, EPOCH, ET_EUSAGE, "Another epoch loop has been opened" },
    { on_nested_epochs, STEP, ET_EUSAGE, "Another epoch loop has been opened" },
    { on_nested_steps, STEP, ET_EUSAGE, "Another step loop has been opened" },
    { on_left_in_handler, STEP, ET_EUSAGE, "not left and not ended in a handler" },
    { on_ended_in_handler, EPOCH, ET_EUSAGE, "not left and not ended in a handler" },
    { on_ended_at_step, STEP, ET_EUSAGE, "not left and not ended in a handler" },
    { on_ended_at_epoch, EPOCH, ET_EUSAGE, "not left and not ended in a handler" },
    { on_endless_handler, STEP, ET_EUSAGE,
      "a handler of an event fires the same event again, endlessly" },
    { on_bad_handler, EPOCH, ET_EIO, "metrics_collected: the bell is broken" },
    { on_mute_handler, EPOCH, ET_EIO, "a handler failed" },
    { on_collect, OPEN, ET_EUSAGE, "the loop has not begun: call et_loop_begin first" },
    { on_collect, BEGUN, ET_EUSAGE, "An epoch or a step loop is expected" },
    { on_no_utf8, STEP, ET_EDATA, "not UTF-8" },
    { on_nameless, EPOCH, ET_EDATA, "has no name" },
    { on_no_metrics, EPOCH, ET_EDATA, "but the array is NULL" },
    { on_no_values, EPOCH, ET_EDATA, "metric x: 2 values" },
    { on_time, BEGUN, ET_EUSAGE, "An epoch or a step loop is expected" },
    { on_time_twice, STEP, ET_EUSAGE, "x_time has already started and has not ended" },
    { on_time_end, EPOCH, ET_EUSAGE, "x_time was not started in this epoch or step" },
    { on_time_over, STEP, ET_EUSAGE, "x_time was not started in this epoch or step" },
    { on_nameless_time, EPOCH, ET_EDATA, "has no name" },
    { on_collector, BEGUN, ET_EUSAGE, "An epoch or a step loop is expected" },
    { on_collector_end, EPOCH, ET_EUSAGE, "x was not started in this epoch or step" },
    { on_logs, OPEN, ET_EUSAGE, "the loop has not begun: call et_loop_begin first" },
    { on_logs, BEGUN, ET_EUSAGE, "An epoch or a step loop is expected" },
    { on_tag, BEGUN, ET_EUSAGE, "An epoch or a step loop is expected" },
    { on_tag, OPEN, ET_EUSAGE, "the loop has not begun: call et_loop_begin first" },
    { on_summary, OPEN, ET_EUSAGE, "the loop has not begun: call et_loop_begin first" },
    { on_summary, BEGUN, ET_EUSAGE, "cannot write a summary" },
    { on_checkpoint, EPOCH, ET_ECONFIG, "Checkpoint directory is not configured" },
    { on_checkpoint, OPEN, ET_EUSAGE, "the loop has not begun: call et_loop_begin first" },
    { on_table, AFTER, ET_EUSAGE, "the loop has ended: open a new loop" },
    { on_leave, OPEN, ET_EUSAGE, "the loop has not begun: call et_loop_begin first" },
    { on_leave_steps, OPEN, ET_EUSAGE, "the loop has not begun: call et_loop_begin first" },
    { on_steps_left_in_handler, STEP, ET_EUSAGE, "not left and not ended in a handler" },
    { on_max_epoch, EPOCH, ET_ECONFIG, "max_epoch -1" },
    { on_max_step, OPEN, ET_ECONFIG, "max_step -1" },
    { on_failure, STEP, ET_EDIVERGED, "the step said no" },
};

static void go_to(et_loop *loop, enum place place)
{
    if (place == OPEN)
        return;
    assert_ok(et_loop_begin(loop, error));
    if (place == EPOCH || place == STEP)
        assert_true(et_loop_next_epoch(loop));
    if (place == STEP)
        assert_true(et_loop_next_step(loop, NULL));
    if (place == AFTER)
        assert_ok(et_loop_end(loop, error));
}

/* The first failure is kept, whatever is called after it, and reported at the end. */
static void test_loop_errors__misuse(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(misuses); i++) {
        et_error told = ET_ERROR_INIT;
        looped l;
        looped_init(&l);
        l.options.max_step = 4;
        looped_open(&l);
        go_to(l.loop, misuses[i].place);
        if (!misuses[i].call(l.loop))
            fail_msg("case %zu is not refused", i);
        assert_false(et_loop_next_epoch(l.loop));
        assert_false(et_loop_next_step(l.loop, NULL));
        assert_int_equal(et_loop_collect(l.loop, "x", 1), misuses[i].status);
        int status = et_loop_end(l.loop, &told);
        if (status != misuses[i].status || !strstr(told.text, misuses[i].text))
            fail_msg("case %zu: %d, %s", i, status, told.text);
        looped_free(&l);
    }
}

/* ---- names, data, stops ---- */

static int save_nothing(const void *self, et_value *dict, et_error *error)
{
    (void)self, (void)dict, (void)error;
    return ET_OK;
}

static int restore_nothing(void *self, const et_value *dict, et_error *error)
{
    (void)self, (void)dict, (void)error;
    return ET_OK;
}

static void test_loop_errors__names(void **state)
{
    (void)state;
    static const et_part_class nothing = { "nothing", save_nothing, restore_nothing };
    et_source *source = rows_source(4, true, false), *other = rows_source(4, true, false);
    looped l;
    looped_init(&l);
    looped_open(&l);
    assert_fails(et_loop_add_object(l.loop, "", &nothing, NULL, error), ET_ECONFIG, "has no name");
    assert_fails(et_loop_add_object(l.loop, "\xe9", &nothing, NULL, error), ET_ECONFIG,
                 "not UTF-8");
    assert_ok(et_loop_add_object(l.loop, "o", &nothing, NULL, error));
    assert_fails(et_loop_add_object(l.loop, "o", &nothing, NULL, error), ET_ECONFIG, "name o");
    assert_fails(et_loop_add_source(l.loop, NULL, source, error), ET_ECONFIG, "has no name");
    assert_fails(et_loop_add_source(l.loop, "\xe9", source, error), ET_ECONFIG, "not UTF-8");
    assert_fails(et_loop_add_source(l.loop, "s", NULL, error), ET_ECONFIG, "is NULL");
    assert_ok(et_loop_add_source(l.loop, "s", source, error));
    assert_fails(et_loop_add_source(l.loop, "s", other, error), ET_ECONFIG, "name s");
    assert_fails(et_loop_add_source(l.loop, "u", source, error), ET_ECONFIG,
                 "this source already gives steps, as s");
    assert_ok(et_loop_begin(l.loop, error));
    assert_fails(et_loop_add_object(l.loop, "p", &nothing, NULL, error), ET_EUSAGE, "before");
    assert_fails(et_loop_add_source(l.loop, "t", other, error), ET_EUSAGE, "before");
    looped_end(&l);
    et_source_close(source);
    et_source_close(other);
    looped_free(&l);
}

/* A checkpoint could not distinguish two sources without a name; without checkpoints there may be
 * as many as epochs. */
static void test_loop_errors__unnamed_sources(void **state)
{
    for (int saves = 0; saves < 2; saves++) {
        et_source *sources[] = { rows_source(4, false, false), rows_source(4, false, false) };
        et_error told = ET_ERROR_INIT;
        looped l;
        looped_init(&l);
        l.options.max_epoch = 2;
        l.options.checkpoint_dir = saves ? *state : NULL;
        looped_begin(&l);
        while (et_loop_next_epoch(l.loop))
            while (et_loop_next_step(l.loop, sources[et_loop_epoch(l.loop) - 1]))
                continue;
        assert_int_equal(et_loop_step(l.loop), saves ? 4 : 8);
        assert_int_equal(et_loop_end(l.loop, &told), saves ? ET_ECONFIG : ET_OK);
        assert_int_equal(strstr(told.text, "et_loop_add_source") != NULL, saves);
        et_source_close(sources[0]);
        et_source_close(sources[1]);
        looped_free(&l);
    }
}

/* A source that gives nothing would make epochs for ever. */
static int empty_next(et_source *self, et_batch *batch, et_error *error)
{
    (void)self, (void)error;
    et_batch_clear(batch);
    return ET_OK;
}

static void empty_position(const et_source *self, et_position *position)
{
    (void)self;
    et_position_put(position, "at", 0);
}

static int empty_seek(et_source *self, const et_position *position, et_error *error)
{
    (void)self, (void)position, (void)error;
    return ET_OK;
}

static int mute_next(et_source *self, et_batch *batch, et_error *error)
{
    (void)self, (void)batch, (void)error;
    return ET_EIO;
}

/* What fails without a text has failed all the same. */
static void test_loop_errors__mute_source(void **state)
{
    (void)state;
    static const et_source_class mute = {
        .name = "mute", .next = mute_next, .position = empty_position, .seek = empty_seek
    };
    et_source *source = rows_source(2, true, false);
    et_source nothing = { .class = &mute, .layout = source->layout };
    et_error told = ET_ERROR_INIT;
    looped l;
    looped_init(&l);
    l.options.max_epoch = 5;
    looped_begin(&l);
    while (et_loop_next_epoch(l.loop))
        assert_false(et_loop_next_step(l.loop, &nothing));
    assert_int_equal(et_loop_epoch(l.loop), 1);
    assert_int_equal(et_loop_end(l.loop, &told), ET_EIO);
    assert_non_null(strstr(told.text, "without an error text"));
    et_source_close(source);
    looped_free(&l);
}

static void test_loop_errors__no_data(void **state)
{
    (void)state;
    static const et_source_class empty = {
        .name = "empty", .next = empty_next, .position = empty_position, .seek = empty_seek
    };
    et_source *source = rows_source(2, true, false);
    et_source nothing = { .class = &empty, .layout = source->layout };
    et_error told = ET_ERROR_INIT;
    looped l;
    looped_init(&l);
    l.options.max_step = 5;
    looped_begin(&l);
    while (et_loop_next_epoch(l.loop))
        while (et_loop_next_step(l.loop, &nothing))
            continue;
    assert_int_equal(et_loop_end(l.loop, &told), ET_EDATA);
    assert_non_null(strstr(told.text, "gives no batch"));
    et_source_close(source);
    looped_free(&l);
}

/* A program that ends without et_loop_end, or is stopped, is no clean end. */
static void test_loop_errors__interrupted(void **state)
{
    (void)state;
    for (int stopped = 0; stopped < 2; stopped++) {
        volatile sig_atomic_t stop = 0;
        et_error told = ET_ERROR_INIT;
        looped l;
        looped_init(&l);
        l.options.max_step = 5;
        l.options.early_stopping = true;
        l.options.stop = &stop;
        looped_begin(&l);
        while (et_loop_next_epoch(l.loop))
            while (et_loop_next_step(l.loop, NULL)) {
                set_weights(l.params, (double)et_loop_step(l.loop));
                et_loop_collect(l.loop, "valid_loss", (double)et_loop_step(l.loop));
                stop = et_loop_step(l.loop) == 3;
                if (stop && !stopped)
                    goto out;
            }
        assert_int_equal(et_loop_end(l.loop, &told), ET_EINTERRUPTED);
        assert_non_null(strstr(told.text, "asked to stop at epoch 1, step 3"));
    out:
        looped_free(&(looped){ .loop = l.loop });
        assert_true(weight_of(l.params, "a") == 3);
        assert_null(strstr(l.printed, "Restore"));
        et_params_free(l.params);
    }
}

/* A state that no loop saves is refused: by a name of a part, a key and a value. */
static void test_loop_errors__bad_states(void **state)
{
    (void)state;
    static const struct {
        const char *part, *key;
        int64_t value;
        const char *text;
    } cases[] = {
        { "loop", "epochs_done", 2, "no more can be done" },
        { "loop", "steps_done", 4, "no more can be done" },
        { "loop", "step", -1, "step: -1 is negative" },
        { "rows", "over", -1, "over: -1 is negative" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        et_source *source = rows_source(4, true, false);
        et_arena arena = ET_ARENA_INIT;
        et_error failure = ET_ERROR_INIT;
        et_value *tree;
        looped l;
        looped_init(&l);
        looped_open(&l);
        assert_ok(et_loop_add_source(l.loop, "rows", source, error));
        assert_ok(et_loop_begin(l.loop, error));
        assert_true(et_loop_next_epoch(l.loop));
        for (int step = 0; step < 3; step++)
            assert_true(et_loop_next_step(l.loop, source));
        assert_ok(et_state_save(et_loop_state(l.loop), &tree, &arena, error));
        const et_value *part = et_value_get(tree, cases[i].part);
        part = part ? part : et_value_get(et_value_get(tree, "data"), cases[i].part);
        et_value *value = (et_value *)et_value_get(part, cases[i].key);
        assert_int_equal(value->kind, ET_VALUE_INT);
        value->integer = cases[i].value;
        assert_int_equal(et_state_restore(et_loop_state(l.loop), tree, &failure), ET_EFORMAT);
        assert_non_null(strstr(failure.text, cases[i].text));
        et_arena_release(&arena);
        looped_free(&l);
        et_source_close(source);
    }
}

static void next_step(void *loop)
{
    et_loop_next_step(loop, NULL);
}

/* Invariants are checked in every public function. */
static void test_loop_errors__asserts(void **state)
{
    (void)state;
#ifdef NDEBUG
    test_skip("assertions are off");
#endif
    looped l;
    looped_init(&l);
    l.options.max_step = 3;
    looped_begin(&l);
    assert_true(et_loop_next_epoch(l.loop));
    l.loop->at.within_epoch = false;
    l.loop->at.within_step = true;
    assert_asserts(next_step, l.loop, "l->at.within_epoch || !l->at.within_step");
    l.loop->at.within_step = false;
    l.loop->at.steps_done = 1;
    assert_asserts(next_step, l.loop, "l->at.steps_done <= l->at.step");
    l.loop->at.steps_done = 0;
    l.loop->at.within_epoch = true;
    assert_true(et_loop_next_step(l.loop, NULL));
    looped_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop_errors__options),
        cmocka_unit_test(test_loop_errors__stores),
        cmocka_unit_test(test_loop_errors__misuse),
        cmocka_unit_test(test_loop_errors__names),
        cmocka_unit_test(test_loop_errors__unnamed_sources),
        cmocka_unit_test(test_loop_errors__mute_source),
        cmocka_unit_test(test_loop_errors__no_data),
        cmocka_unit_test(test_loop_errors__interrupted),
        cmocka_unit_test(test_loop_errors__bad_states),
        cmocka_unit_test(test_loop_errors__asserts),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
