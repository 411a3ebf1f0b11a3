/* TabM (Gorishniy, Kotelnikov and Babenko 2025, "TabM: Advancing Tabular Deep Learning with
 * Parameter-Efficient Ensembling"): k members that share the matrices of one network. Member i of
 * a layer has its own scales and bias,
 *
 *   y_i = s_i (W (r_i x_i)) + b_i
 *
 * and its own matrix of logits. With `mini`, a member has only its own first r_i and logits. The
 * first r_i is standard normal, the others and s_i are ones: members differ from the first layer
 * on.
 *
 * The same memory is read in two shapes: [rows, k width], members side by side, for scales, biases
 * and logits; [rows k, width], members as rows, for products. */
#include "tasks/tabular/models.h"

#include <math.h>

#include <etude/layers.h>

#include "base/alloc.h"
#include "engine/graph/build.h"
#include "engine/graph/graph.h"

typedef struct members {
    int64_t rows, count;
} members;

static int64_t width_of(const et_node *x)
{
    et_shape shape = et_node_shape(x);
    return shape.rank == 2 ? shape.size[1] : 0;
}

static et_node *side_by_side(et_node *x, members m)
{
    return et_reshape(x, et_shape_2(m.rows, m.count * width_of(x)));
}

static et_node *below(et_node *x, members m)
{
    return et_reshape(x, et_shape_2(m.rows * m.count, width_of(x) / m.count));
}

et_node *et_tabular_repeat(et_node *x, int64_t count)
{
    et_node **copies = et_alloc((size_t)count, sizeof *copies);
    if (!copies)
        return et_graph_out_of_memory(x->graph);
    for (int64_t i = 0; i < count; i++)
        copies[i] = x;
    et_node *y = et_concatenate_columns(copies, (int)count);
    et_free(copies);
    return y;
}

/* x side by side. */
static et_node *scaled(et_scope *scope, const char *name, et_node *x, et_init init)
{
    return et_mul(x, et_param(scope, name, et_shape_1(width_of(x)), init));
}

static et_init uniform(int64_t inputs)
{
    return (et_init){ ET_INIT_UNIFORM, 1 / sqrtf((float)(inputs > 0 ? inputs : 1)) };
}

/* x and y side by side; the first scales of a model are applied before. */
static et_node *layer(et_scope *scope, et_node *x, int i, const et_tabular_tabm *model, members m)
{
    static const et_init ones = { ET_INIT_ONES, 0 };
    const int64_t inputs = width_of(x) / m.count;
    if (!model->mini && i > 0)
        x = scaled(scope, "input_scale", x, ones);
    et_node *weight = et_param(scope, "weight", et_shape_2(inputs, model->width), uniform(inputs));
    if (model->mini) {
        et_node *bias = et_param(scope, "bias", et_shape_1(model->width), uniform(inputs));
        return side_by_side(et_matmul(below(x, m), weight, bias, NULL), m);
    }
    et_node *y = side_by_side(et_matmul(below(x, m), weight, NULL, NULL), m);
    y = scaled(scope, "output_scale", y, ones);
    return et_bias(y, et_param(scope, "bias", et_shape_1(m.count * model->width), uniform(inputs)));
}

/* [rows, k outputs]: output c of all members is one pass over x, since no matrix is shared. */
static et_node *logits(et_scope *scope, et_node *x, int64_t outputs, members m)
{
    const int64_t inputs = width_of(x) / m.count;
    et_node **parts = et_alloc((size_t)outputs, sizeof *parts);
    if (!parts)
        return et_graph_out_of_memory(et_scope_graph(scope));
    for (int64_t c = 0; c < outputs; c++)
        parts[c] = et_row_sum(
            below(scaled(et_at(scope, "output", (int)c), "weight", x, uniform(inputs)), m));
    et_node *y = side_by_side(et_concatenate_columns(parts, (int)outputs), m);
    et_free(parts);
    return et_bias(y, et_param(scope, "bias", et_shape_1(m.count * outputs), uniform(inputs)));
}

et_node *et_tabular_tabm_build(et_scope *scope, const et_tabular_tabm *model,
                               const et_tabular_inputs *inputs, int64_t outputs)
{
    static const et_init normal = { ET_INIT_NORMAL, 1 };
    const members m = { inputs->rows, model->members };
    et_node *x = et_tabular_flatten(et_in(scope, "columns"), inputs, &model->columns);
    x = scaled(et_in(scope, "input"), "scale", et_tabular_repeat(x, m.count), normal);
    for (int i = 0; i < model->num_layers; i++) {
        et_scope *at = et_at(scope, "layer", i);
        x = et_activate(layer(at, x, i, model, m), (et_activation)model->activation);
        x = et_dropout(at, x, (float)model->dropout);
    }
    return logits(et_in(scope, "logits"), x, outputs, m);
}
