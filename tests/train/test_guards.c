/* Invalid values from outside, at public functions: the status reports them, in every build, and
 * they change nothing. (Tests of single modules cover other options and numbers.) */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include <etude/class_scores.h>
#include <etude/epochs.h>
#include <etude/flows.h>
#include <etude/loop.h>
#include <etude/ops.h>
#include <etude/optimizer.h>
#include <etude/outer_loop.h>
#include <etude/pass.h>
#include <etude/run.h>
#include <etude/table_set.h>

#include "base/values/value.h"
#include "calls.h"
#include "engine/tensor/params.h"
#include "train/checkpoint/checkpoint.h"
#include "train/run/run.h"

static float numbers[32];
static const et_array row = { "x", ET_F32, numbers, { .rank = 1, .size = { 4 } } };

static et_source *source_of(void)
{
    et_samples *samples;
    et_source *source;
    et_batches_options options = { .capacity = { 4 } };
    assert_ok(et_arrays_open(&samples, &row, 1, 8, error));
    assert_ok(et_batches_open(&source, samples, &options, error));
    return source;
}

static void test_guards__samples(void **state)
{
    (void)state;
    et_samples *samples;
    int64_t size;
    const et_split_options half = { .portion = 0.5 };
    const et_array odd = { "x", (et_dtype)42, numbers, { .rank = 0 } };
    const et_array huge = { "x", ET_F32, numbers, { .rank = 1, .size = { INT64_C(1) << 50 } } };
    assert_fails(et_arrays_open(&samples, &row, 1, INT64_C(1) << 40, error), ET_ECONFIG, "2^32");
    assert_fails(et_arrays_open(&samples, NULL, 1, 8, error), ET_ECONFIG, "0 arrays");
    assert_fails(et_arrays_open(&samples, &odd, 1, 8, error), ET_ECONFIG, "its type is invalid");
    const et_array pixels = { "x", ET_U8, numbers, { .rank = 0 } };
    assert_fails(et_arrays_open(&samples, &pixels, 1, 8, error), ET_ECONFIG,
                 "array x: batches cannot have the type uint8: use float32, bfloat16 or int32");
    assert_fails(et_arrays_open(&samples, &huge, 1, INT64_C(1) << 31, error), ET_ECONFIG,
                 "too large for any memory");
    assert_fails(et_split_size(&size, -9, &half, error), ET_ECONFIG, "-9 samples");
}

static int fill(void *payload, const et_batch *from, et_batch *to, et_error *error)
{
    (void)payload, (void)from, (void)to, (void)error;
    return ET_OK;
}

static int overfill(void *payload, et_batch *batch, et_error *error)
{
    (void)error;
    batch->filled[0] = *(const int32_t *)payload;
    return ET_OK;
}

static void test_guards__sources(void **state)
{
    (void)state;
    et_source *inner = source_of(), *source;
    const et_layout_field made = { "y", ET_F32, { .rank = 0 }, 0, ET_EMPTY_ZERO, 0 };
    assert_fails(et_convert_open(&source, inner, &made, -1, fill, NULL, error), ET_ECONFIG,
                 "-1 fields");
    assert_fails(et_convert_open(&source, inner, NULL, 1, fill, NULL, error), ET_ECONFIG, "fields");
    assert_fails(et_convert_open(&source, inner, &made, 1, NULL, NULL, error), ET_ECONFIG,
                 "fields: give at least one field, and the function that fills the fields");
    assert_fails(et_prefetch_open(&source, inner, 0, error), ET_ECONFIG, "0 batches");
    assert_int_equal(et_layout_find(&inner->layout, NULL), -1);
    static const int32_t filled[] = { 50, -1 };
    for (int i = 0; i < 2; i++) {
        et_batch *batch;
        assert_ok(et_map_open(&source, source_of(), overfill, (void *)&filled[i], error));
        assert_ok(et_batch_new(&batch, &source->layout, error));
        assert_fails(et_source_next(source, batch, error), ET_EUSAGE,
                     "samples in filled[0]; leave 0 to all");
        et_batch_free(batch);
        et_source_close(source);
    }
    et_source_close(inner);
}

static void test_guards__instances(void **state)
{
    (void)state;
    static const int32_t ages[] = { 3, 4 };
    const et_frame_column column = { "age", ET_COLUMN_INT32, ages };
    const et_table_set_frame frame = { "train", { &column, 1, 2 } };
    const et_bytes instances[] = { { "3", 1 }, { NULL, 5 } };
    et_table_set *set;
    et_samples *samples;
    assert_ok(et_frame_table_set_open(&set, &frame, 1, NULL, error));
    assert_fails(et_table_set_parse_instances(&samples, set, instances, 2, true, error), ET_EDATA,
                 "instance 2 is NULL");
    et_table_set_close(set);
}

static void no_name(et_scope *scope, void *payload)
{
    (void)payload;
    et_loss(scope, "loss", et_sum(et_batch_input(scope, NULL)), 1);
}

static void test_guards__graph(void **state)
{
    (void)state;
    et_device *device;
    et_params *params;
    et_pass *pass;
    et_source *source = source_of();
    assert_ok(et_device_open(&device, error));
    assert_ok(et_params_new(&params, error));
    assert_fails(et_pass_open(&pass, device, params, &source->layout, no_name, NULL, NULL, error),
                 ET_EGRAPH, "(its name is NULL)");
    assert_int_equal(et_params_in_order(params, 0), -1);
    int index;
    assert_ok(et_params_declare(params, "w", et_shape_1(3), (et_init){ 0 }, &index, error));
    assert_ok(et_params_materialize(params, false, error));
    assert_int_equal(et_params_in_order(params, 0), 0);
    assert_int_equal(et_params_in_order(params, 1), -1);
    assert_int_equal(et_params_in_order(params, INT_MIN), -1);
    et_params_free(params);
    et_device_close(device);
    et_source_close(source);
}

static void test_guards__drivers(void **state)
{
    (void)state;
    et_params *params;
    et_state *tree;
    et_run *run;
    et_loop *loop;
    et_checkpoints *checkpoints;
    int index;
    assert_ok(et_params_new(&params, error));
    assert_ok(et_params_declare(params, "w", et_shape_1(3), (et_init){ 0 }, &index, error));
    assert_ok(et_params_materialize(params, false, error));
    assert_ok(et_state_new(&tree, error));
    assert_ok(et_state_add_params(tree, params, error));
    const et_run_options saves = { .state = tree, .on_failed_save = 7 },
                         best = { .state = tree, .best_metric = "loss", .best_comparison = -1 };
    assert_fails(et_run_open(&run, &saves, error), ET_ECONFIG, "on_failed_save: 7 does not exist");
    assert_fails(et_run_open(&run, &best, error), ET_ECONFIG, "best_comparison: -1 does not exist");
    const et_loop_options groups = { .var_group_count = 2 },
                          often = { .summary_commit_freq_count = 1 };
    assert_fails(et_loop_open(&loop, params, &groups, error), ET_ECONFIG, "var_groups: 2");
    assert_fails(et_loop_open(&loop, params, &often, error), ET_ECONFIG, "summary_commit_freqs: 1");
    assert_fails(et_checkpoints_open(&checkpoints, "", tree, NULL, error), ET_ENOTFOUND, "");
    char name[] = "doors-XXXXXX";
    assert_non_null(mkdtemp(name));
    assert_ok(et_checkpoints_open(&checkpoints, name, tree, NULL, error));
    assert_fails(et_checkpoints_save(checkpoints, -1, error), ET_ECONFIG, "step -1");
    assert_ok(et_checkpoints_close(checkpoints, error));
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", name);
    assert_int_equal(system(command), 0);
    et_state_free(tree);
    et_params_free(params);
}

/* Numbers that have no place, and lists that are not there. */
static void test_guards__numbers(void **state)
{
    (void)state;
    int64_t step = 3;
    bool ended;
    et_epochs epochs = { .step = &step };
    assert_false(et_epochs_begin(&epochs));
    assert_fails(et_epochs_end(&epochs, &ended, error), ET_ECONFIG, "epoch_steps: 0");
    et_position position = { .count = 0 };
    static const char *const names[] = { "a", "b" };
    for (int i = 0; i < 2; i++)
        et_position_put(&position, names[i], i);
    assert_int_equal(position.count, 2);
    assert_fails(et_position_get(&position, NULL, &step, error), ET_EDATA, "");
    assert_string_equal(et_value_kind_name((et_value_kind)99), "no kind of value");
    const float one = 1;
    et_value_scores scores;
    const et_value_predictions many = {
        .count = 1, .targets = INT64_MAX, .value = &one, .target = &one
    };
    assert_fails(et_value_scores_compute(&scores, &many, error), ET_ECONFIG,
                 "targets: too large for any memory");
    et_samples *samples, *part;
    assert_ok(et_arrays_open(&samples, &row, 1, 8, error));
    assert_ok(et_shard_open(&part, samples, 3, INT64_MAX, error));
    assert_int_equal(part->count, 1);
    et_samples_close(part);
}

static void one_loss(et_scope *scope, void *payload)
{
    (void)payload;
    const et_init ones = { .kind = ET_INIT_ONES };
    et_node *x = et_batch_input(scope, "x");
    et_loss(scope, "loss", et_mul(x, et_param(scope, "w", et_shape_1(4), ones)), 1);
}

static void test_guards__updates(void **state)
{
    (void)state;
    et_device *device;
    et_params *params, *others;
    et_pass *pass, *scoring;
    et_optimizer *optimizer, *foreign;
    et_group *all;
    et_batch *batch;
    et_source *source = source_of();
    const et_pass_options training = { .training = true };
    int index;
    assert_ok(et_device_open(&device, error));
    assert_ok(et_params_new(&params, error));
    assert_ok(et_params_new(&others, error));
    assert_ok(
        et_pass_open(&pass, device, params, &source->layout, one_loss, NULL, &training, error));
    assert_ok(et_pass_open(&scoring, device, params, &source->layout, one_loss, NULL, NULL, error));
    assert_ok(et_params_declare(others, "w", et_shape_1(4), (et_init){ 0 }, &index, error));
    assert_ok(et_params_materialize(params, false, error));
    assert_ok(et_params_materialize(others, false, error));
    assert_ok(et_optimizer_open(&optimizer, device, params, NULL, NULL, error));
    assert_ok(et_optimizer_open(&foreign, device, others, NULL, NULL, error));
    assert_ok(et_batch_new(&batch, &source->layout, error));
    assert_ok(et_source_next(source, batch, error));
    assert_ok(et_pass_run(pass, batch, 1, 1, error));
    assert_ok(et_pass_run(scoring, batch, 1, 1, error));
    assert_fails(et_optimizer_update(optimizer, scoring, NULL, error), ET_EUSAGE, "no gradient");
    assert_fails(
        et_optimizer_update(foreign, pass, NULL, error), ET_EUSAGE,
        "the optimizer and the pass use different stores of parameters: open both on one store");
    assert_ok(et_optimizer_update(optimizer, pass, NULL, error));
    assert_true(et_pass_measured(pass, -1).weight == 0 && !et_pass_measured(pass, 77).name);
    assert_ok(et_group_new(&all, params, NULL, error));
    assert_int_equal(et_group_param(all, 0), 0);
    assert_int_equal(et_group_param(all, 1), -1);
    assert_int_equal(et_group_param(all, -1), -1);
    et_group_free(all);
    et_batch_free(batch);
    et_optimizer_free(foreign);
    et_optimizer_free(optimizer);
    et_pass_close(scoring);
    et_pass_close(pass);
    et_params_free(others);
    et_params_free(params);
    et_device_close(device);
    et_source_close(source);
}

/* Lists that are counted and not there, and hooks that there are not. */
static void test_guards__lists(void **state)
{
    (void)state;
    static const et_trainer_class nothing = { .name = "nothing" };
    et_trainer trainer = { .class = &nothing };
    et_controller *controller;
    const et_outer_loop_options outer = { .train_action_count = 1 };
    const et_controller_options acts = { .action_count = 2, .trainer = &trainer },
                                outer_acts = { .outer_loop = &outer, .trainer = &trainer };
    assert_fails(et_controller_open(&controller, &acts, error), ET_ECONFIG,
                 "2 actions, but the list is NULL");
    assert_fails(et_controller_open(&controller, &outer_acts, error), ET_ECONFIG,
                 "1 actions, but the list is NULL");
}

static int step_nowhere(et_trainer *self, et_error *error)
{
    (void)self, (void)error;
    return ET_OK;
}

static int act_nowhere(et_action *self, const et_action_context *now, et_error *error)
{
    (void)self, (void)now, (void)error;
    return ET_OK;
}

/* Actions that could not act, or would never. */
static void test_guards__actions(void **state)
{
    (void)state;
    static const et_trainer_class stepping = { .name = "stepping", .step = step_nowhere };
    static const et_action_class classes[] = { { .name = "mute" },
                                               { .act = act_nowhere },
                                               { .name = "", .act = act_nowhere },
                                               { .name = "undue", .act = act_nowhere } };
    static const char *const undue = "action undue is never due: put it into eval_actions or "
                                     "train_actions, or wrap it in et_conditional";
    const char *const says[] = { "a name and an act", "a name and an act", "a name and an act",
                                 undue };
    for (int i = 0; i < 4; i++) {
        et_trainer trainer = { .class = &stepping };
        et_action action = { &classes[i] }, *actions[] = { &action };
        et_controller *controller;
        const et_controller_options o = { .trainer = &trainer,
                                          .train_steps = 1,
                                          .actions = actions,
                                          .action_count = 1,
                                          .run.model_dir = "actions" };
        assert_fails(et_controller_open(&controller, &o, error), ET_EUSAGE, says[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_guards__samples),   cmocka_unit_test(test_guards__sources),
        cmocka_unit_test(test_guards__instances), cmocka_unit_test(test_guards__graph),
        cmocka_unit_test(test_guards__drivers),   cmocka_unit_test(test_guards__numbers),
        cmocka_unit_test(test_guards__updates),   cmocka_unit_test(test_guards__lists),
        cmocka_unit_test(test_guards__actions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
