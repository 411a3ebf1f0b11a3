/* Model Garden, official/core/actions_test.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <etude/etude.h>

#include "formats/files.h"

/* ---- pruning: a rule that keeps a mask of each matrix as a slot, and an action that logs it ----
 */

typedef struct pruning_options {
    double final_sparsity;
    int64_t end_step, frequency;
} pruning_options;

static const et_field pruning_rows[] = {
    ET_FIELD_FLOAT(pruning_options, final_sparsity, 0.5, 0, 1, "share of zeros at end_step"),
    ET_FIELD_INT(pruning_options, end_step, 4, 1, 1000000, "updates until then"),
    ET_FIELD_INT(pruning_options, frequency, 2, 1, 1000000, "updates between changes of a mask"),
    ET_FIELD_END
};
static const et_fields pruning_fields = { "pruned_sgd", pruning_rows };

static bool is_matrix(et_shape parameter, bool adapts, et_shape *slot)
{
    (void)adapts;
    *slot = parameter;
    return parameter.rank == 2;
}

static int pruning_slots(const void *options, et_rule_slot slots[ET_RULE_SLOTS_MAX])
{
    (void)options;
    slots[0] = (et_rule_slot){ .name = "mask", .shape = is_matrix, .initial = 1 };
    return 1;
}

static size_t pruning_scratch(const void *options, et_shape parameter, bool adapts)
{
    (void)options, (void)adapts;
    return parameter.rank == 2 ? (size_t)et_shape_count(parameter) : 0;
}

static int by_size(const void *left, const void *right)
{
    const float a = *(const float *)left, b = *(const float *)right;
    return (a > b) - (a < b);
}

/* The sparsity grows as 1 - (1 - t / end_step)^3 (Zhu and Gupta 2018, "To prune, or not to prune");
 * the smallest weights of a matrix are masked. */
static void pruning_update(const void *options, const et_rule_step *step,
                           const et_rule_chunk *chunk)
{
    const pruning_options *o = options;
    const int64_t t = step->iterations + 1;
    float *mask = chunk->slot[0];
    for (int64_t i = 0; i < chunk->count; i++)
        chunk->weight[i] -= (float)chunk->rate * chunk->gradient[i];
    if (mask && t <= o->end_step && t % o->frequency == 0) {
        const double left = 1 - (double)t / (double)o->end_step;
        const int64_t zeros =
            llround(o->final_sparsity * (1 - left * left * left) * (double)chunk->count);
        for (int64_t i = 0; i < chunk->count; i++)
            chunk->scratch[i] = fabsf(chunk->weight[i]);
        qsort(chunk->scratch, (size_t)chunk->count, sizeof(float), by_size);
        for (int64_t i = 0; i < chunk->count; i++)
            mask[i] = zeros == 0 || fabsf(chunk->weight[i]) > chunk->scratch[zeros - 1];
    }
    for (int64_t i = 0; mask && i < chunk->count; i++)
        chunk->weight[i] *= mask[i];
}

static const et_optimizer_rule pruned_sgd = { .name = "pruned_sgd",
                                              .fields = &pruning_fields,
                                              .size = sizeof(pruning_options),
                                              .cut = ET_RULE_WHOLE,
                                              .slots = pruning_slots,
                                              .scratch = pruning_scratch,
                                              .update = pruning_update };

typedef struct pruning {
    et_action action;
    et_params *params;
    et_sink *sink;
} pruning;

static double sparsity(et_params *params, const char *name)
{
    const int index = et_params_find(params, name);
    const int64_t count = et_shape_count(et_params_shape(params, index));
    double zeros = 0;
    for (int64_t i = 0; i < count; i++)
        zeros += et_params_values(params)[et_params_offset(params, index) + i] == 0;
    return zeros / (double)count;
}

static int log_sparsity(et_action *self, const et_action_context *now, et_error *error)
{
    pruning *p = (pruning *)self;
    et_arena *arena = et_arena_new();
    et_value *logs = et_value_dict(arena);
    et_value_set_float(logs, "dense/weight/sparsity", sparsity(p->params, "dense/weight"));
    int status = et_sink_write(p->sink, now->step, logs, error);
    et_arena_free(arena);
    return status;
}

static void build_pruned(et_scope *s, void *payload)
{
    (void)payload;
    et_node *x = et_batch_input(s, "x");
    et_node *value = et_param(s, "value", et_shape_scalar(), (et_init){ ET_INIT_ZEROS, 0 });
    et_loss(s, "loss", et_square(et_offset(et_add(et_dense(et_in(s, "dense"), x, 2), value), -1)),
            1);
}

/* Here: Etude has no PruningAction: a rule and an action of the program, as these, do its work.
 */
static void test_actions_test__pruning(void **state)
{
    static const float x[2][2] = { { 1, 0.5f }, { -0.5f, 1 } };
    static const double expected[] = { 0, 0.5, 0.5, 0.5, 0.5, 0.5 }; /* 0.4375 of 4 is 2 */
    static const et_action_class class = { .name = "pruning", .act = log_sparsity };
    const et_optimizer_rule *const rules[] = { &pruned_sgd, NULL };
    const et_optimizer_setup setup = { .rules = rules, .rule = "pruned_sgd", .learning_rate = 0.1 };
    const et_array array = { "x", ET_F32, x, et_shape_1(2) };
    const et_batches_options two = { .repeat = true, .capacity = { 2 } };
    const et_pass_options training = { .training = true };
    pruning p = { .action = { .ET_CLASS = &class } };
    et_device *device;
    et_samples *samples;
    et_source *source;
    et_batch *batch;
    et_pass *pass;
    et_optimizer *optimizer;
    assert_ok(et_device_open(&device, error));
    assert_ok(et_params_new(&p.params, error));
    assert_ok(et_arrays_open(&samples, &array, 1, 2, error));
    assert_ok(et_batches_open(&source, samples, &two, error));
    assert_ok(et_batch_new(&batch, &source->layout, error));
    assert_ok(et_pass_open(&pass, device, p.params, &source->layout, build_pruned, NULL, &training,
                           error));
    assert_ok(et_params_materialize(p.params, false, error));
    et_init_draw(p.params, 1);
    assert_ok(et_optimizer_open(&optimizer, device, p.params, NULL, &setup, error));
    assert_ok(et_sink_jsonl_open(&p.sink, in(state, "pruning.jsonl"), NULL, error));
    assert_ok(et_source_next(source, batch, error));
    for (int64_t step = 0; step < 6; step++) {
        assert_ok(et_pass_run(pass, batch, 1, 0, error));
        assert_ok(et_optimizer_update(optimizer, pass, NULL, error));
        assert_ok(class.act(&p.action, &(et_action_context){ .step = step + 1 }, error));
        assert_float_equal(sparsity(p.params, "dense/weight"), expected[step], 0);
    }
    assert_true(fabsf(et_params_values(p.params)[et_params_offset(p.params, 0)]) > 0);
    assert_ok(et_sink_close(p.sink, error));
    size_t length;
    char *text = get_file(in(state, "pruning.jsonl"), &length);
    assert_non_null(strstr(text, "\"step\":6,\"dense/weight/sparsity\":0.5"));
    free(text);
    et_optimizer_free(optimizer);
    et_pass_close(pass);
    et_batch_free(batch);
    et_source_close(source);
    et_params_free(p.params);
    et_device_close(device);
}

/* ---- the model: a variable `value`, 0, and a dense layer of 2 units ---- */

typedef struct model {
    et_params *params;
    int value;
} model;

static void model_open(model *m)
{
    const et_init zeros = { ET_INIT_ZEROS, 0 };
    int index;
    assert_ok(et_params_new(&m->params, error));
    assert_ok(et_params_declare(m->params, "value", et_shape_scalar(), zeros, &m->value, error));
    assert_ok(et_params_declare(m->params, "dense/weight", et_shape_2(2, 2), zeros, &index, error));
    assert_ok(et_params_declare(m->params, "dense/bias", et_shape_1(2), zeros, &index, error));
    assert_ok(et_params_materialize(m->params, true, error));
}

static float *value_of(const model *m)
{
    return et_params_values(m->params) + et_params_offset(m->params, m->value);
}

/* The average is exported, and the weights stay to the last bit. The number of an export is that of
 * the optimizer's updates, so the second export replaces the first. */
static void test_actions_test__ema_checkpointing(void **state)
{
    static const et_optimizer_setup averaged = { .rule = "sgd",
                                                 .settings = "{ema: {enabled: true}}" },
                                    plain = { .rule = "sgd" };
    const char *base = in(state, "ema_checkpoints/average_weights");
    et_device *device;
    et_optimizer *optimizer;
    et_exports *exports;
    et_export_action action;
    model trained, read;
    assert_ok(et_device_open(&device, error));
    model_open(&trained);
    model_open(&read);
    assert_ok(et_optimizer_open(&optimizer, device, trained.params, NULL, &plain, error));
    assert_fails(
        et_average_export_init(&action, "average", NULL, optimizer, trained.params, NULL, error),
        ET_EUSAGE,
        "average: the optimizer keeps no moving average; open it with ema.enabled, or export the "
        "trained weights");
    et_optimizer_free(optimizer);
    assert_ok(et_optimizer_open(&optimizer, device, trained.params, NULL, &averaged, error));
    const et_exports_options by_updates = { .next_id = et_exports_by_iterations,
                                            .payload = optimizer };
    assert_ok(et_exports_open(&exports, base, 1, &by_updates, error));
    assert_ok(et_average_export_init(&action, "average", exports, optimizer, trained.params, NULL,
                                     error));
    for (int average = 0; average < 2; average++) {
        const et_action_context now = { .step = average };
        *value_of(&trained) = (float)average;
        et_optimizer_start(optimizer); /* the average becomes a copy */
        *value_of(&trained) = average ? NAN : 3;
        assert_ok(action.action.class->act(&action.action, &now, error));
        assert_true(average ? isnan(*value_of(&trained)) : *value_of(&trained) == 3);
        *value_of(&read) = 7;
        assert_ok(et_checkpoint_load_weights(
            read.params, in(state, "ema_checkpoints/average_weights-0/weights.safetensors"), true,
            NULL, error));
        assert_true(*value_of(&read) == (float)average);
    }
    et_exports_close(exports);
    et_optimizer_free(optimizer);
    et_params_free(trained.params);
    et_params_free(read.params);
    et_device_close(device);
}

static void test_actions_test__recovery_condition(void **state)
{
    (void)state;
    static const double losses[] = { 0.6, NAN };
    et_arena *arena = et_arena_new();
    et_value *outputs = et_value_dict(arena);
    for (int i = 0; i < 2; i++) {
        et_recovery_condition condition = { .loss_upper_bound = 0.5, .recovery_max_trials = 2 };
        const et_action_context now = { .logs = outputs };
        bool recovers;
        assert_non_null(et_value_set_float(outputs, "training_loss", losses[i]));
        for (int trial = 0; trial < 2; trial++) {
            assert_ok(et_recovery_condition_holds(&condition, &now, &recovers, error));
            assert_true(recovers);
        }
        assert_fails(et_recovery_condition_holds(&condition, &now, &recovers, error), ET_EDIVERGED,
                     "happened 3 times; the limit is 2");
    }
    /* The bound counts from a step on, NaN always; a good loss is no trial. */
    et_recovery_condition late = { .loss_upper_bound = 0.5, .recovery_begin_steps = 7 };
    bool recovers = true;
    assert_non_null(et_value_set_float(outputs, "training_loss", 0.6));
    assert_ok(et_recovery_condition_holds(&late, &(et_action_context){ .step = 6, .logs = outputs },
                                          &recovers, error));
    assert_false(recovers);
    assert_fails(et_recovery_condition_holds(
                     &late, &(et_action_context){ .step = 7, .logs = outputs }, &recovers, error),
                 ET_EDIVERGED, "step 7: training_loss is 0.6, and the bound is 0.5");
    assert_fails(
        et_recovery_condition_holds(&late, &(et_action_context){ .step = 8 }, &recovers, error),
        ET_ECONFIG, "logs have no number training_loss");
    et_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_actions_test__ema_checkpointing),
        cmocka_unit_test(test_actions_test__recovery_condition),
        cmocka_unit_test(test_actions_test__pruning),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
