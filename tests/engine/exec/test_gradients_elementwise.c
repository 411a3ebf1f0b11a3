/* Every derivative of elementwise.def, compared with finite differences of the value. Rows with two
 * operands, and copies, repeat each operand in each possible way. */
#include "engine/exec/gradients.h"

#include "engine/graph/build.h"
#include "engine/graph/graph.h"
#include "engine/graph/node.h"
#include "engine/tensor/params.h"

typedef struct row {
    const char *name, *derivative;
    int inputs;
} row;

static const row rows[ET_EW_OP_COUNT] = {
#define ELEMENTWISE(id, name, inputs, reads, formula, da, db) { name, #da, inputs },
#include "engine/kernel/elementwise.def"
#undef ELEMENTWISE
};

/* Which operand is repeated, and how. */
typedef struct repeated {
    int operand; /* -1: none */
    et_ew_broadcast how;
} repeated;

static struct {
    int op;
    repeated repeated;
} now;

static et_shape shape_of(int operand)
{
    if (operand != now.repeated.operand)
        return et_shape_2(ROWS, WIDTH);
    switch (now.repeated.how) {
    case ET_EW_FULL:
        break;
    case ET_EW_ROW:
        return et_shape_1(WIDTH);
    case ET_EW_COLUMN:
        return et_shape_2(ROWS, 1);
    case ET_EW_ONE:
        return et_shape_scalar();
    }
    return et_shape_2(ROWS, WIDTH);
}

static et_node *build(et_scope *s)
{
    static const et_init normal = { ET_INIT_NORMAL, 0.5f };
    et_node *inputs[] = { et_param(s, "a", shape_of(0), normal),
                          et_param(s, "b", shape_of(1), normal) };
    et_attributes attributes = { .x = 0.3f, .leaf = { ET_F32, et_shape_2(ROWS, WIDTH) } };
    et_op op = (et_op)(ET_OP_ADD + now.op);
    return weighted(
        s, et_node_add(et_scope_graph(s), op, NULL, inputs, rows[now.op].inputs, &attributes));
}

/* Moves values away from 0 and from the constant, where some ops have a kink and others grow
 * without bound. */
static void move_away(et_params *params, bool positive)
{
    float *values = et_params_values(params);
    et_params_begin_change(params);
    for (int64_t i = 0; i < et_params_flat_size(params); i++)
        values[i] =
            positive ? 0.5f + fabsf(values[i]) : copysignf(0.5f + fabsf(values[i]), values[i]);
    et_params_changed(params, true);
}

static bool is_finite(test_model *model)
{
    et_plan_run(model->plan, randomness);
    return isfinite(*(const float *)et_plan_output(model->plan, 0).data);
}

/* Positive numbers are enough where negative ones have no value. */
static void check_row(int op, int operand, et_ew_broadcast how)
{
    test_model model;
    char name[64];
    now.op = op;
    now.repeated = (repeated){ operand, how };
    snprintf(name, sizeof name, "%s, operand %d repeated in way %d", rows[op].name, operand, how);
    test_model_open(&model, build);
    bind_weights(model.plan);
    move_away(model.params, false);
    if (!is_finite(&model))
        move_away(model.params, true);
    assert_true(is_finite(&model));
    check_params(&model, name);
    test_model_close(&model);
}

static void test_gradients_elementwise__every_row(void **state)
{
    (void)state;
    for (int op = 0; op < ET_EW_OP_COUNT; op++)
        if (strcmp(rows[op].derivative, "NONE") != 0)
            check_row(op, -1, ET_EW_FULL);
}

static void test_gradients_elementwise__repeated(void **state)
{
    (void)state;
    for (int op = 0; op < ET_EW_OP_COUNT; op++)
        for (int how = ET_EW_ROW; how <= ET_EW_ONE; how++)
            for (int k = 0; k < rows[op].inputs; k++)
                if (strcmp(rows[op].derivative, "NONE") != 0 &&
                    (rows[op].inputs == 2 || op == ET_EW_COPY))
                    check_row(op, k, (et_ew_broadcast)how);
}

/* A product on either side, so that the derivative of the second reads the op's result. */
static et_node *build_between(et_scope *s)
{
    static const et_init normal = { ET_INIT_NORMAL, 0.2f };
    et_node *h = et_matmul(x(s), et_param(s, "w", et_shape_2(WIDTH, WIDTH), normal), NULL, NULL);
    et_attributes attributes = { .x = 0.3f, .leaf = { ET_F32, et_shape_2(ROWS, WIDTH) } };
    et_op op = (et_op)(ET_OP_ADD + now.op);
    et_node *node = et_node_add(et_scope_graph(s), op, NULL, &h, 1, &attributes);
    return et_sum(et_matmul(node, et_param(s, "u", et_shape_2(WIDTH, 3), normal), NULL, NULL));
}

/* Values that the backward pass computes again have the bits of the forward pass. */
static void test_gradients_elementwise__made_again(void **state)
{
    (void)state;
    int again = 0;
    for (int op = 0; op < ET_EW_OP_COUNT; op++) {
        test_model kept, made;
        if (rows[op].inputs == 2)
            continue;
        now.op = op;
        test_model_open_as(&kept, build_between, ET_F32, ET_RECOMPUTE_NONE, true, NULL);
        test_model_open_as(&made, build_between, ET_F32, ET_RECOMPUTE_CHEAP, true, NULL);
        bind_weights(kept.plan);
        bind_weights(made.plan);
        move_away(kept.params, true);
        move_away(made.params, true);
        et_plan_run(kept.plan, randomness);
        et_plan_run(made.plan, randomness);
        for (int i = 0; i < made.graph->count; i++)
            again += made.graph->nodes[i]->attributes.again;
        const float *gradients = et_params_gradients(kept.params);
        const int64_t size = et_params_flat_size(kept.params);
        if (memcmp(gradients, et_params_gradients(made.params), (size_t)size * sizeof(float)))
            fail_msg("%s: other bits when made again", rows[op].name);
        for (int64_t i = 0; i < size; i++)
            assert_true(isfinite(gradients[i]));
        test_model_close(&kept);
        test_model_close(&made);
    }
    assert_true(again >= 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients_elementwise__every_row),
        cmocka_unit_test(test_gradients_elementwise__repeated),
        cmocka_unit_test(test_gradients_elementwise__made_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
