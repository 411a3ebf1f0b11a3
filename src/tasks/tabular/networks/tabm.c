/* TabM (Gorishniy, Kotelnikov and Babenko 2025, "TabM: Advancing Tabular Deep Learning with
 * Parameter-Efficient Ensembling"): k members that share the matrices of one network. Member i of
 * a layer has its own scales and bias,
 *
 *   y_i = s_i (W (r_i x_i)) + b_i
 *
 * and its own matrix of logits. With `mini`, a member has only its own first r_i and logits. The
 * first r_i is standard normal, one number for all that a column became, the others and s_i are
 * ones: members differ from the first layer on.
 *
 * The same memory is read in two shapes: [rows, k width], members side by side, for scales, biases
 * and logits; [rows k, width], members as rows, for products.
 *
 * In prediction, all members read the same rows. In training without shared_batches, each member
 * reads other rows: row j of a batch, and of the logits, belongs to member j % k. */
#include "tasks/tabular/networks/networks_private.h"

#include <math.h>

#include <etude/layers.h>

#include "base/alloc.h"
#include "base/assert.h"
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

static et_init uniform(int64_t inputs)
{
    return (et_init){ ET_INIT_UNIFORM, 1 / sqrtf((float)(inputs > 0 ? inputs : 1)) };
}

/* ---- layers ---- */

/* Factors of a layer. */
typedef struct factors {
    et_node *input_scale; /* [k inputs]; NULL: none */
    et_node *weight;
    et_node *output_scale; /* [k width]; NULL: none */
} factors;

/* Whether to scale a copy of the weight for each member, W_i = r_i W s_i, instead of the inputs and
 * outputs of the product. Copies have fewer elements if a batch has more rows than a layer has
 * units. Only in training, because predictions must not depend on the number of rows. */
static bool scales_weights(et_scope *scope, const factors *f, members m)
{
    const et_shape w = et_node_shape(f->weight);
    return et_scope_graph(scope)->options.training && f->input_scale && w.rank == 2 &&
           w.size[0] * w.size[1] <= m.rows * (w.size[0] + w.size[1]);
}

/* y_i = (r_i W s_i) x_i: members are groups of columns, unless all read the same x. */
static et_node *product_of_copies(et_node *x, const factors *f, bool shared, members m)
{
    const et_matmul_options groups = { .groups = shared ? 1 : m.count };
    return et_matmul(x, et_scaled_copies(f->weight, f->input_scale, f->output_scale), NULL,
                     &groups);
}

/* y_i = s_i (W (r_i x_i)): members are rows of one product. */
static et_node *product_of_rows(et_node *x, const factors *f, bool shared, members m)
{
    x = shared ? et_tabular_repeat(x, m.count) : x;
    x = f->input_scale ? et_mul(x, f->input_scale) : x;
    et_node *y = side_by_side(et_matmul(below(x, m), f->weight, NULL, NULL), m);
    return f->output_scale ? et_mul(y, f->output_scale) : y;
}

static et_node *scale_of(et_scope *scope, const char *name, int64_t width, members m)
{
    static const et_init ones = { ET_INIT_ONES, 0 };
    return et_param(scope, name, et_shape_1(m.count * width), ones);
}

/* Returns y, all members side by side. shared: all members read the same x [rows, inputs]; false: x
 * has the members side by side. first: input scales of the first layer; NULL in other layers. */
static et_node *layer(et_scope *scope, et_node *x, bool shared, et_node *first,
                      const et_tabular_tabm *model, members m)
{
    const int64_t inputs = width_of(x) / (shared ? 1 : m.count), width = model->width;
    factors f = { .input_scale = first };
    if (!model->mini && !first)
        f.input_scale = scale_of(scope, "input_scale", inputs, m);
    f.weight = et_param(scope, "weight", et_shape_2(inputs, width), uniform(inputs));
    if (!model->mini)
        f.output_scale = scale_of(scope, "output_scale", width, m);
    et_node *bias =
        et_param(scope, "bias", et_shape_1(model->mini ? width : m.count * width), uniform(inputs));
    et_node *y = scales_weights(scope, &f, m) ? product_of_copies(x, &f, shared, m)
                                              : product_of_rows(x, &f, shared, m);
    return model->mini ? side_by_side(et_bias(below(y, m), bias), m) : et_bias(y, bias);
}

/* ---- logits ---- */

/* Outputs by one product per member. parts [outputs]: the weights. */
static et_node *product_of_members(et_node *x, et_node **parts, int64_t outputs, members m)
{
    const et_matmul_options groups = { .groups = m.count, .transpose_b = true, .f32 = true };
    for (int64_t c = 0; c < outputs; c++)
        parts[c] = et_reshape(parts[c], et_shape_2(1, width_of(x)));
    et_node *weight = et_concatenate_rows(parts, (int)outputs);
    weight = et_copy(weight, et_graph_act(x->graph), et_node_shape(weight));
    return et_matmul(x, weight, NULL, &groups);
}

/* [rows, k outputs] of x side by side. */
static et_node *logits(et_scope *scope, et_node *x, int64_t outputs, members m)
{
    const int64_t inputs = width_of(x) / m.count;
    const bool training = et_scope_graph(scope)->options.training;
    et_node **parts = et_alloc((size_t)outputs, sizeof *parts), *y;
    if (!parts)
        return et_graph_out_of_memory(et_scope_graph(scope));
    for (int64_t c = 0; c < outputs; c++)
        parts[c] = et_param(et_at(scope, "output", (int)c), "weight", et_shape_1(m.count * inputs),
                            uniform(inputs));
    /* Columns [rows k, 1], with members as rows: one pass over x, as members share no matrix. */
    for (int64_t c = 0; !training && c < outputs; c++)
        parts[c] = et_row_sum(below(et_mul(x, parts[c]), m));
    if (training)
        y = product_of_members(x, parts, outputs, m);
    else
        y = side_by_side(et_concatenate_columns(parts, (int)outputs), m);
    et_free(parts);
    return et_bias(y, et_param(scope, "bias", et_shape_1(m.count * outputs), uniform(inputs)));
}

et_node *et_tabular_tabm_build(et_scope *scope, const et_tabular_model *settings,
                               const et_tabular_inputs *inputs, int64_t outputs)
{
    static const et_init normal = { ET_INIT_NORMAL, 1 };
    const et_tabular_tabm *model = &settings->tabm;
    const bool shared = model->shared_batches || !et_scope_training(scope);
    const members m = { shared ? inputs->rows : inputs->rows / model->members, model->members };
    if (m.rows * (shared ? 1 : m.count) != inputs->rows)
        return et_graph_poison(et_scope_graph(scope),
                               "a batch of %lld rows is not the same number for each of %lld "
                               "networks; set task.model.tabm.shared_batches=true, or the batch "
                               "size to a multiple",
                               (long long)inputs->rows, (long long)m.count);
    et_node *x = et_tabular_flatten(et_in(scope, "columns"), inputs, &model->columns);
    et_node *first =
        et_param(et_in(scope, "input"), "scale", et_shape_1(m.count * width_of(x)), normal);
    x = shared ? x : side_by_side(x, m);
    if (!model->num_layers)
        x = et_mul(shared ? et_tabular_repeat(x, m.count) : x, first);
    for (int i = 0; i < model->num_layers; i++, first = NULL) {
        et_scope *at = et_at(scope, "layer", i);
        x = et_activate(layer(at, x, shared && !i, first, model, m),
                        (et_activation)model->activation);
        x = et_dropout(at, x, (float)model->dropout);
    }
    et_node *z = logits(et_in(scope, "logits"), x, outputs, m);
    return shared ? z : below(z, m);
}

int et_tabular_tabm_begin(et_params *params, const et_tabular_tabm *model,
                          const et_encoder *encoder, const et_strings *ignored, et_error *error)
{
    const int scale = et_params_find(params, "input/scale");
    et_assert(scale >= 0);
    et_params_begin_change(params);
    int status = et_tabular_join_factors(et_params_values(params) + et_params_offset(params, scale),
                                         et_params_shape(params, scale).size[0], model->members,
                                         &model->columns, encoder, ignored, error);
    et_params_changed(params, true);
    return status;
}
