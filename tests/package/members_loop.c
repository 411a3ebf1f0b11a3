/* L: a loop. */
#include "members.h"

typedef struct notes {
    int fired[16];
    char lines[4096];
} notes;

static const char *const events[] = {
    ET_EVENT_ENTER_LOOP,           ET_EVENT_EXIT_LOOP,
    ET_EVENT_BEFORE_EPOCH,         ET_EVENT_AFTER_EPOCH,
    ET_EVENT_BEFORE_STEP,          ET_EVENT_AFTER_STEP,
    ET_EVENT_METRICS_COLLECTED,    ET_EVENT_SUMMARY_ADDED,
    ET_EVENT_METRIC_STATS_PRINTED, ET_EVENT_TIME_METRIC_STATS_PRINTED,
};

static int note(void *payload, const char *event, const void *what, et_error *error_)
{
    const et_loop_event *told = what;
    (void)error_;
    assert_non_null(told->loop);
    for (size_t i = 0; i < COUNT(events); i++)
        ((notes *)payload)->fired[i] += !strcmp(events[i], event);
    return ET_OK;
}

static void print(void *payload, const char *text)
{
    char *lines = ((notes *)payload)->lines;
    size_t used = strlen(lines);
    snprintf(lines + used, 4096 - used, "%s\n", text);
}

static int save_laps(const void *self, et_value *dict, et_error *error_)
{
    (void)error_;
    return et_value_set_int(dict, "laps", *(const int64_t *)self) ? ET_OK : ET_ENOMEM;
}

static int restore_laps(void *self, const et_value *dict, et_error *error_)
{
    return et_value_read_int(dict, "laps", self, error_);
}

static const et_part_class laps_part = { "laps", save_laps, restore_laps };

static void add_serialised(et_loop *loop)
{
    static const double values[] = { 0, 1, 1 };
    static const uint8_t pixels[2 * 2] = { 0, 85, 170, 255 };
    et_summary *summary;
    size_t length;
    ok(et_summary_new(&summary, error));
    ok(et_summary_add_histogram(summary, "values", values, 3, error));
    ok(et_summary_add_image(summary, "picture", pixels, 2, 2, 1, error));
    const void *bytes = et_summary_bytes(summary, &length);
    assert_int_equal(et_loop_add_summary_bytes(loop, bytes, length), 0);
    et_summary_free(summary);
}

/* Two epochs of three steps; the second stops at max_step. */
static void run_loop(et_loop *loop, et_source *source, const et_value *summary)
{
    const double both[] = { 1, 3 };
    const et_loop_metric metrics[] = { { .name = "both", .values = both, .count = 2 } };
    et_statistics *collector;
    while (et_loop_next_epoch(loop)) {
        assert_true(et_loop_within_epoch(loop) && !et_loop_within_step(loop));
        while (et_loop_next_step(loop, source)) {
            assert_true(et_loop_within_step(loop));
            assert_int_equal(et_loop_step_data(loop)->filled[0], BATCH);
            et_loop_collect(loop, "loss", (double)et_loop_step(loop));
        }
        assert_int_equal(et_loop_leave_steps(loop), 0);
        et_loop_collect_metrics(loop, metrics, 1);
        et_loop_collector_begin(loop, "collected", &collector);
        et_statistics_collect(collector, 4, 1);
        et_loop_collector_end(loop, "collected");
        et_loop_time_begin(loop, "test_time");
        et_loop_time_end(loop, "test_time");
        et_loop_collect(loop, "valid_acc", 1. / (double)et_loop_epoch(loop));
        assert_true(et_loop_eta(loop) >= 0);
        et_loop_add_summary(loop, summary);
        add_serialised(loop);
        et_loop_println(loop, "hello", true);
        et_loop_print_logs(loop);
        et_loop_make_checkpoint(loop);
    }
}

static const char *const var_groups[] = { "layer/" };

static void check_loop(et_loop *loop)
{
    const char *const *groups;
    assert_int_equal(et_loop_var_groups(loop, &groups), 1);
    assert_string_equal(groups[0], "layer/");
    assert_int_equal(et_group_count(et_loop_param_vars(loop)), 1);
    assert_string_equal(et_loop_valid_metric_name(loop), "valid_acc");
    assert_false(et_loop_valid_metric_smaller_is_better(loop));
    assert_true(et_loop_use_early_stopping(loop));
    assert_int_equal(et_loop_max_epoch(loop), 2);
    assert_int_equal(et_loop_max_step(loop), 5);
}

static void open_loop(et_loop **loop, et_params *params, notes *n, int64_t *laps)
{
    const et_loop_options options = { .var_groups = var_groups,
                                      .var_group_count = 1,
                                      .print = print,
                                      .print_payload = n,
                                      .checkpoint_dir = "loop",
                                      .summary_dir = "loop/logs",
                                      .valid_metric_name = "valid_acc",
                                      .early_stopping = true };
    ok(et_loop_open(loop, params, &options, error));
    ok(et_loop_add_object(*loop, "laps", &laps_part, laps, error));
    for (size_t i = 0; i < COUNT(events); i++)
        ok(et_event_hub_on(et_loop_events(*loop), events[i], note, n, error));
    assert_int_equal(et_loop_set_max_epoch(*loop, 2), 0);
    assert_int_equal(et_loop_set_max_step(*loop, 5), 0);
    ok(et_loop_begin(*loop, error));
}

void test_members__loop(void **state)
{
    (void)state;
    static const int fired[] = { 1, 1, 2, 2, 5, 5, 11, 4, 2, 2 };
    const et_init ones = { ET_INIT_ONES, 0 };
    et_arena *arena = et_arena_new();
    et_value *summary = et_value_dict(arena);
    notes *n = calloc(1, sizeof *n);
    int64_t laps = 3, kept = 0;
    int index;
    et_params *params;
    et_source *source;
    et_loop *loop;
    et_value_set_float(summary, "weight", 1);
    ok(et_params_new(&params, error));
    ok(et_params_declare(params, "layer/w", et_shape_1(2), ones, &index, error));
    ok(et_params_materialize(params, false, error));
    ok(open_rows(&source, true));
    open_loop(&loop, params, n, &laps);
    assert_non_null(et_loop_summary_writer(loop));
    assert_true(isnan(et_loop_best_valid_metric(loop)));
    assert_int_equal(et_loop_print_training_summary(loop), 0);
    run_loop(loop, source, summary);
    check_loop(loop);
    assert_int_equal(et_loop_epoch(loop), 2);
    assert_int_equal(et_loop_step(loop), 5);
    assert_float_equal(et_loop_progress(loop), 1, 0);
    assert_float_equal(et_loop_best_valid_metric(loop), 1, 0);
    assert_int_equal(et_loop_leave(loop), 0);
    ok(et_loop_end(loop, error));
    et_loop_close(loop);
    for (size_t i = 0; i < COUNT(events); i++)
        if (n->fired[i] != fired[i])
            fail_msg("%s was fired %d times", events[i], n->fired[i]);
    assert_non_null(strstr(n->lines, "[Epoch 1/2, Step 3/5, ETA "));
    assert_non_null(strstr(n->lines, "both: 2 (±1); collected: 4; loss: 2 (±0.816497)"));
    /* And continues from there. */
    open_loop(&loop, params, n, &kept);
    assert_int_equal(et_loop_step(loop), 5);
    assert_int_equal(kept, 3);
    ok(et_loop_end(loop, error));
    et_loop_close(loop);
    et_source_close(source);
    et_params_free(params);
    et_arena_free(arena);
    free(n);
}
