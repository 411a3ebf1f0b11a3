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

static int log_sparsity(et_action *self, const et_moment *now, et_error *error)
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
        assert_ok(class.act(&p.action, &(et_moment){ .step = step + 1 }, error));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_actions_test__pruning),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
