/* A program's own update rule: each step equals the formula, with clipping, decay by name, groups
 * and an average; which rules are refused. */
#include <etude/etude.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "calls.h"
#include "engine/optim/optimizer.h"
#include "engine/optim/own_rule.h"
#include "engine/tensor/params.h"

enum { ROWS = 4, SIZE = 20000 }; /* more than a chunk */

static float x[ROWS * SIZE];

/* The gradient of w is x summed over the rows, that of b the number of rows. */
static void build(et_scope *s, void *payload)
{
    (void)payload;
    et_loss(s, "loss", et_dense(et_in(s, "layer"), et_batch_input(s, "x"), 1), 1);
}

typedef struct vars {
    et_device *device;
    et_params *params;
    et_source *source;
    et_batch *batch;
    et_pass *pass;
} vars;

static void open_vars(vars *v, bool bfloat16)
{
    const et_array arrays[] = { { "x", ET_F32, x, et_shape_1(SIZE) } };
    const et_batches_options rows = { .repeat = true, .capacity = { ROWS } };
    const et_pass_options options = { .training = true, .bfloat16 = bfloat16 };
    et_samples *samples;
    for (int i = 0; i < ROWS * SIZE; i++)
        x[i] = sinf((float)i * 0.37f);
    assert_ok(et_device_open(&v->device, error));
    assert_ok(et_params_new(&v->params, error));
    assert_ok(et_arrays_open(&samples, arrays, 1, ROWS, error));
    assert_ok(et_batches_open(&v->source, samples, &rows, error));
    assert_ok(et_batch_new(&v->batch, &v->source->layout, error));
    assert_ok(et_pass_open(&v->pass, v->device, v->params, &v->source->layout, build, NULL,
                           &options, error));
    assert_ok(et_params_materialize(v->params, bfloat16, error));
    et_params_begin_change(v->params);
    for (int p = 0; p < 2; p++)
        for (int64_t i = 0; i < et_shape_count(et_params_shape(v->params, p)); i++)
            et_params_values(v->params)[et_params_offset(v->params, p) + i] = 1;
    et_params_changed(v->params, true);
    assert_ok(et_pass_prepare(v->pass, &v->source->layout, error));
}

static void close_vars(vars *v)
{
    et_pass_close(v->pass);
    et_batch_free(v->batch);
    et_source_close(v->source);
    et_params_free(v->params);
    et_device_close(v->device);
}

static void one_step(vars *v, et_optimizer *optimizer, et_update *update)
{
    assert_ok(et_source_next(v->source, v->batch, error));
    assert_ok(et_pass_run(v->pass, v->batch, 1, 0, error));
    assert_ok(et_optimizer_update(optimizer, v->pass, update, error));
}

static void test_optimizer_rule__formula(void **state)
{
    (void)state;
    static double w[SIZE + 1], m[SIZE + 1];
    static float g[SIZE + 1];
    const et_parameter_group group = { .pattern = "bias", .learning_rate_multiplier = 10 };
    const lion_options given = {
        .beta_1 = 0.7, .beta_2 = 0.95, .global_clipnorm = 0.5, .weight_decay_rate = 0.25
    };
    const et_optimizer_setup setup = {
        .rules = own_rules,
        .rule = "lion",
        .rule_options = &given,
        .learning_rate = 0.01,
        .parameter_groups = &group,
        .parameter_group_count = 1,
        .average_decay = 0.9,
        .settings = "optimizer: {lion: {exclude_from_weight_decay: bias, beta_1: 0.8}}",
    };
    vars v;
    et_optimizer *optimizer;
    et_update update;
    open_vars(&v, false);
    assert_ok(et_optimizer_open(&optimizer, v.device, v.params, NULL, &setup, error));
    const float *values = et_params_values(v.params);
    const float *parts[] = {
        values + et_params_offset(v.params, et_params_find(v.params, "layer/weight")),
        values + et_params_offset(v.params, et_params_find(v.params, "layer/bias"))
    };
    for (int i = 0; i <= SIZE; i++)
        w[i] = 1, m[i] = 0;
    for (int step = 0; step < 5; step++) {
        double norm = 0;
        for (int i = 0; i <= SIZE; i++) {
            double sum = 0;
            for (int row = 0; row < ROWS; row++)
                sum += i < SIZE ? x[row * SIZE + i] / ROWS : 1. / ROWS;
            g[i] = (float)sum;
            norm += sum * sum;
        }
        one_step(&v, optimizer, &update);
        assert_float_equal(update.gradient_norm, sqrt(norm), 1e-3);
        for (int i = 0; i <= SIZE; i++) {
            const double clipped = g[i] * 0.5 / sqrt(norm), u = 0.8 * m[i] + 0.2 * clipped;
            const double rate = i < SIZE ? 0.01 : 0.1, decay = i < SIZE ? 0.25 : 0;
            m[i] = 0.95 * m[i] + 0.05 * clipped;
            w[i] -= rate * ((u > 0) - (u < 0) + decay * w[i]);
            const double found = i < SIZE ? parts[0][i] : parts[1][0];
            if (fabs(found - w[i]) > 1e-6 && fabs(u) > 1e-8)
                fail_msg("step %d, element %d: %g instead of %g", step, i, found, w[i]);
        }
    }
    et_optimizer_free(optimizer);
    close_vars(&v);
}

/* w -= rate g; uses up the gradient. */
typedef struct plain_options {
    double clipvalue, clipnorm, global_clipnorm;
} plain_options;

static const et_field plain_rows[] = { ET_RULE_CLIPS(plain_options, 0.5), ET_FIELD_END };
static const et_fields plain_fields = { "plain", plain_rows };

static void plain_update(const void *options, const et_rule_step *step, const et_rule_chunk *chunk)
{
    (void)options, (void)step;
    for (int64_t i = 0; i < chunk->count; i++) {
        chunk->weight[i] -= (float)chunk->rate * chunk->gradient[i];
        chunk->gradient[i] = 7;
    }
}

/* A rule sees the mean gradient after clips, here its default clip; what it leaves in the gradient
 * goes. */
static void test_optimizer_rule__gradient(void **state)
{
    (void)state;
    static const et_optimizer_rule plain = { .name = "plain",
                                             .fields = &plain_fields,
                                             .size = sizeof(plain_options),
                                             .update = plain_update };
    const et_optimizer_rule *const rules[] = { &plain, NULL };
    const et_optimizer_setup setup = { .rules = rules, .rule = "plain", .learning_rate = 1 };
    static float before[SIZE];
    vars v;
    et_optimizer *optimizer;
    et_update update;
    open_vars(&v, false);
    assert_ok(et_optimizer_open(&optimizer, v.device, v.params, NULL, &setup, error));
    const int64_t at = et_params_offset(v.params, et_params_find(v.params, "layer/weight"));
    float *gradients = et_params_gradients(v.params);
    assert_ok(et_source_next(v.source, v.batch, error));
    assert_ok(et_pass_run(v.pass, v.batch, 1, 0, error));
    memcpy(before, gradients + at, sizeof before);
    assert_ok(et_optimizer_update(optimizer, v.pass, &update, error));
    assert_true(update.gradient_norm > 1);
    for (int i = 0; i < SIZE; i++) {
        const double moved = 1 - (double)et_params_values(v.params)[at + i];
        assert_float_equal(moved, before[i] / ROWS * 0.5 / update.gradient_norm, 1e-7);
        assert_true(gradients[at + i] == 0);
    }
    et_optimizer_free(optimizer);
    close_vars(&v);
}

/* Average and bfloat16 copy of the store follow what the rule has written. */
static void test_optimizer_rule__average_and_shadow(void **state)
{
    (void)state;
    static double average[SIZE];
    const et_optimizer_setup setup = { .rules = own_rules,
                                       .rule = "lion",
                                       .learning_rate = 0.01,
                                       .settings =
                                           "ema: {average_decay: 0.75, dynamic_decay: false, "
                                           "enabled: true, start_step: 2}" };
    vars v;
    et_optimizer *optimizer;
    open_vars(&v, true);
    assert_ok(et_optimizer_open(&optimizer, v.device, v.params, NULL, &setup, error));
    const int64_t at = et_params_offset(v.params, et_params_find(v.params, "layer/weight"));
    const float *w = et_params_values(v.params) + at;
    for (int step = 1; step <= 4; step++) {
        one_step(&v, optimizer, NULL);
        for (int i = 0; i < SIZE; i++) {
            uint32_t bits, rounded = (uint32_t)(et_params_shadow(v.params) + at)[i] << 16;
            memcpy(&bits, &w[i], sizeof bits);
            assert_true(bits - rounded + 0x8000 <= 0x10000);
            average[i] = step < 2 ? w[i] : average[i] + 0.25 * (w[i] - average[i]);
            assert_float_equal(et_optimizer_average(optimizer)[at + i], average[i], 1e-6);
        }
    }
    et_optimizer_free(optimizer);
    close_vars(&v);
}

/* The next pass sees the new weights. */
static void test_optimizer_rule__bfloat16(void **state)
{
    (void)state;
    const et_optimizer_setup setup = { .rules = own_rules, .rule = "lion", .learning_rate = 0.25 };
    double loss[2], first;
    for (int own = 0; own < 2; own++) {
        vars v;
        et_optimizer *optimizer;
        open_vars(&v, own);
        assert_ok(et_optimizer_open(&optimizer, v.device, v.params, NULL, &setup, error));
        one_step(&v, optimizer, NULL);
        first = et_pass_loss(v.pass);
        for (int step = 0; step < 2; step++)
            one_step(&v, optimizer, NULL);
        assert_ok(et_pass_run(v.pass, v.batch, 1, 0, error));
        loss[own] = et_pass_loss(v.pass);
        et_optimizer_free(optimizer);
        close_vars(&v);
    }
    assert_true(loss[0] < first - 100);
    /* Sums of 20,000 numbers of either sign, rounded to 8 bits. */
    if (!(fabs(loss[1] - loss[0]) < 0.2 * fabs(first - loss[0])))
        fail_msg("%g in bfloat16, %g in float32, %g before", loss[1], loss[0], first);
}

static int five_slots(const void *options, et_rule_slot slots[ET_RULE_SLOTS_MAX])
{
    (void)options, (void)slots;
    return 5;
}

static int equal_slots(const void *options, et_rule_slot slots[ET_RULE_SLOTS_MAX])
{
    (void)options;
    slots[0].name = slots[1].name = "m";
    return 2;
}

static bool own_shape(et_shape parameter, bool adapts, et_shape *slot)
{
    (void)adapts;
    *slot = parameter;
    return true;
}

static int shaped_slots(const void *options, et_rule_slot slots[ET_RULE_SLOTS_MAX])
{
    (void)options;
    slots[0] = (et_rule_slot){ .name = "m", .shape = own_shape };
    return 1;
}

static int average_slot(const void *options, et_rule_slot slots[ET_RULE_SLOTS_MAX])
{
    (void)options;
    slots[0].name = "average";
    return 1;
}

static size_t some_scratch(const void *options, et_shape parameter, bool adapts)
{
    (void)options, (void)parameter, (void)adapts;
    return 1;
}

static const et_field bad_rows[] = { ET_FIELD_INT(lion_options, clipnorm, 0, 0, 9, "a number"),
                                     ET_FIELD_END };
static const et_fields bad_fields = { "bad", bad_rows };

static void test_optimizer_rule__refused(void **state)
{
    (void)state;
    static const et_optimizer_rule plain = { .name = "plain", .update = lion_update },
                                   adam = { .name = "adam", .update = lion_update },
                                   type = { .name = "type", .update = lion_update },
                                   none = { .name = "none", .update = lion_update },
                                   dotted = { .name = "a.b", .update = lion_update },
                                   nameless = { .update = lion_update }, idle = { .name = "idle" },
                                   sizeless = { .name = "s",
                                                .fields = &lion_fields,
                                                .update = lion_update },
                                   bad = { .name = "bad",
                                           .fields = &bad_fields,
                                           .size = sizeof(lion_options),
                                           .update = lion_update };
    static const et_optimizer_rule
        five = { .name = "five", .slots = five_slots, .update = lion_update },
        equal = { .name = "equal", .slots = equal_slots, .update = lion_update },
        shaped = { .name = "shaped", .slots = shaped_slots, .update = lion_update },
        average = { .name = "mean", .slots = average_slot, .update = lion_update },
        scratch = { .name = "scratch", .scratch = some_scratch, .update = lion_update },
        adapting = { .name = "adapting", .adapts = "nothing", .update = lion_update },
        fused = { .name = "fused", .fused = true, .update = lion_update };
    static const lion_options outside = { .beta_1 = 5 };
    static et_optimizer_rule many[9];
    static char names[9][3];
    const et_optimizer_rule *all[10] = { NULL };
    for (int i = 0; i < 9; i++) {
        snprintf(names[i], sizeof names[i], "r%d", i);
        many[i] = (et_optimizer_rule){ .name = names[i], .update = lion_update };
        all[i] = &many[i];
    }
    const struct {
        const et_optimizer_rule *const *rules;
        const char *rule, *settings;
        const void *options;
        int status;
        const char *words;
    } cases[] = {
#define RULES(...) (const et_optimizer_rule *const[]){ __VA_ARGS__, NULL }
        { NULL, "lion", NULL, NULL, ET_ECONFIG, "no update rule is called lion; there are: sgd" },
        { RULES(&lion, &lion), NULL, NULL, NULL, ET_EUSAGE, "lion is already registered" },
        { RULES(&adam), NULL, NULL, NULL, ET_EUSAGE, "adam is already registered" },
        { RULES(&type), NULL, NULL, NULL, ET_EUSAGE, "type is already registered" },
        { RULES(&none), NULL, NULL, NULL, ET_EUSAGE, "none is already registered" },
        { RULES(&dotted), NULL, NULL, NULL, ET_EUSAGE, "letters, digits and underscores" },
        { RULES(&nameless), NULL, NULL, NULL, ET_EUSAGE, "without a name" },
        { RULES(&idle), NULL, NULL, NULL, ET_EUSAGE, "set name and update" },
        { RULES(&sizeless), NULL, NULL, NULL, ET_EUSAGE, "fields and size" },
        { RULES(&bad), NULL, NULL, NULL, ET_EUSAGE, "the row clipnorm must be a FLOAT" },
        { all, NULL, NULL, NULL, ET_EUSAGE, "at most 8 update rules" },
        { RULES(&five), "five", NULL, NULL, ET_EUSAGE, "5 slots; give 0 to 4" },
        { RULES(&equal), "equal", NULL, NULL, ET_EUSAGE, "slot 1: give a name that no other" },
        { RULES(&shaped), "shaped", NULL, NULL, ET_EUSAGE, "slot 0: its shape may differ only" },
        { RULES(&average), "mean", NULL, NULL, ET_EUSAGE, "not \"average\"" },
        { RULES(&scratch), NULL, NULL, NULL, ET_EUSAGE, "scratch is for ET_RULE_WHOLE" },
        { RULES(&adapting), NULL, NULL, NULL, ET_EUSAGE, "adapts: no row nothing" },
        { RULES(&fused), NULL, NULL, NULL, ET_EUSAGE, "internal members must be 0" },
        { own_rules, "lion", NULL, &outside, ET_ECONFIG, "beta_1" },
        { own_rules, "adam", NULL, &cases, ET_ECONFIG, "but adam is Etude's" },
        { RULES(&plain), "plain", NULL, &cases, ET_ECONFIG, "a rule without settings" },
        { RULES(&plain), "plain", "optimizer: {plain: {}}", NULL, ET_ECONFIG, "plain" },
        { own_rules, "lion", "optimizer: {lion: {beta: 1}}", NULL, ET_ECONFIG, "Nearest: beta_" },
        { own_rules, "lion", "optimizer: {lion: {clipnorm: 1, global_clipnorm: 1}}", NULL,
          ET_ECONFIG, "lion: clipnorm and global_clipnorm are both set" },
        { RULES(&plain), "plain", "parameter_groups: {pattern: w, weight_decay_rate: 1}", NULL,
          ET_ECONFIG, "the update rule plain has no weight decay" },
    };
    vars v;
    open_vars(&v, false);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const et_optimizer_setup setup = { .rules = cases[i].rules,
                                           .rule = cases[i].rule,
                                           .rule_options = cases[i].options,
                                           .settings = cases[i].settings };
        et_optimizer *optimizer;
        assert_fails(et_optimizer_open(&optimizer, v.device, v.params, NULL, &setup, error),
                     cases[i].status, cases[i].words);
        assert_null(optimizer);
    }
    close_vars(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_optimizer_rule__formula),
        cmocka_unit_test(test_optimizer_rule__gradient),
        cmocka_unit_test(test_optimizer_rule__average_and_shadow),
        cmocka_unit_test(test_optimizer_rule__bfloat16),
        cmocka_unit_test(test_optimizer_rule__refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
