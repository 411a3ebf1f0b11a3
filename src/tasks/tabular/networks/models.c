/* Models, a row each. Initial weights are PyTorch's, uniform within 1 / sqrt(inputs), unless a
 * model's paper has others. */
#include <math.h>

#include <etude/layers.h>

#include "base/arena.h"
#include "base/assert.h"
#include "engine/graph/build.h"
#include "engine/graph/graph.h"
#include "tasks/tabular/networks/networks_private.h"

/* x W + b, W uniform within 1 / sqrt(inputs), b zeros. */
static et_node *dense(et_scope *scope, et_node *x, int64_t units)
{
    et_shape in = et_node_shape(x);
    float inputs = in.rank == 2 ? (float)in.size[1] : 1;
    et_dense_options options = { .init_limit = 1 / sqrtf(inputs) };
    return et_dense_with(scope, x, units, &options);
}

/* Batch norm as in PyTorch; LAYER_EPSILON is for layer norm. */
#define MOMENTUM      0.9f
#define EPSILON       1e-5f
#define LAYER_EPSILON 1e-5f

static et_node *normalise(et_scope *scope, et_node *x, int norm)
{
    if (norm == ET_TABULAR_NORM_BATCH)
        return et_norm_batch(et_in(scope, "norm"), x, MOMENTUM, EPSILON);
    return norm == ET_TABULAR_NORM_LAYER ? et_norm(et_in(scope, "norm"), x, LAYER_EPSILON) : x;
}

/* ---- tabm ---- */

/* TabM (Gorishniy, Kotelnikov and Babenko 2025, "TabM: Advancing Tabular Deep Learning with
 * Parameter-Efficient Ensembling"): k members that share the matrices of one network. Member i of
 * a layer has its own scales and bias,
 *
 *   y_i = s_i (W (r_i x_i)) + b_i
 *
 * and its own matrix of logits. With `mini`, a member has only its own first r_i and logits. The
 * first r_i is standard normal, with one number for all inputs of a column; all other r_i and s_i
 * are ones. So members differ from the first layer on.
 *
 * The same memory is read in two shapes: [rows, k width], members side by side, for scales, biases
 * and logits; [rows k, width], members as rows, for products.
 *
 * In prediction, all members read the same rows. In training without shared_batches, each member
 * reads other rows: row j of a batch, and of the logits, belongs to member j % k. */

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
    et_node **copies = et_arena_array(&x->graph->arena, count, sizeof *copies);
    if (!copies)
        return et_graph_out_of_memory(x->graph);
    for (int64_t i = 0; i < count; i++)
        copies[i] = x;
    return et_concatenate_columns(copies, (int)count);
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
    et_graph *graph = et_scope_graph(scope);
    const bool training = graph->options.training;
    et_node **parts = et_arena_array(&graph->arena, outputs, sizeof *parts);
    if (!parts)
        return et_graph_out_of_memory(graph);
    for (int64_t c = 0; c < outputs; c++)
        parts[c] = et_param(et_at(scope, "output", (int)c), "weight", et_shape_1(m.count * inputs),
                            uniform(inputs));
    /* Columns [rows k, 1], with members as rows: one pass over x, as members share no matrix. */
    for (int64_t c = 0; !training && c < outputs; c++)
        parts[c] = et_row_sum(below(et_mul(x, parts[c]), m));
    et_node *y = training ? product_of_members(x, parts, outputs, m)
                          : side_by_side(et_concatenate_columns(parts, (int)outputs), m);
    return et_bias(y, et_param(scope, "bias", et_shape_1(m.count * outputs), uniform(inputs)));
}

static et_node *tabm_build(et_scope *scope, const et_tabular_model *settings,
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

/* ---- the models ---- */

/* x W + b, with W [columns, outputs] zeros, plus a row of a table for each id. Everything begins at
 * zero, so neither the order of columns nor random draws matter. */
static et_node *linear(et_scope *scope, const et_tabular_model *model,
                       const et_tabular_inputs *inputs, int64_t outputs)
{
    const et_init zeros = { ET_INIT_ZEROS, 0 };
    et_node *y = NULL;
    (void)model;
    if (inputs->numbers)
        y = et_matmul(inputs->numbers,
                      et_param(scope, "weight", et_shape_2(inputs->number_count, outputs), zeros),
                      NULL, NULL);
    for (int c = 0; c < inputs->id_count; c++)
        inputs->columns[c].width = outputs;
    if (inputs->ids) {
        et_shape size = et_shape_1(et_columns_size(inputs->columns, inputs->id_count));
        et_node *rows = et_embed_columns(inputs->ids, et_param(scope, "table", size, zeros),
                                         inputs->columns, inputs->id_count);
        for (int c = 0; c < inputs->id_count; c++) {
            et_node *one = et_slice_columns(rows, c * outputs, outputs);
            y = y ? et_add(y, one) : one;
        }
    }
    for (int k = 0; k < inputs->text_count; k++) {
        et_node *one = et_tabular_text_vector(inputs->model, inputs->learned, inputs->encoder, k,
                                              outputs, zeros);
        y = y ? et_add(y, one) : one;
    }
    return et_bias(y, et_param(scope, "bias", et_shape_1(outputs), zeros));
}

/* TensorFX's layer: weights normal with deviation 1 / sqrt(inputs), cut at two of them. */
static et_node *tensorfx_dense(et_scope *scope, et_node *x, int64_t units, bool relu)
{
    et_shape in = et_node_shape(x);
    int64_t inputs = in.rank == 2 ? in.size[1] : 1;
    et_init normal = { ET_INIT_TRUNCATED_NORMAL, 1 / sqrtf((float)inputs) };
    et_matmul_options options = { .relu = relu };
    return et_matmul(x, et_param(scope, "weight", et_shape_2(inputs, units), normal),
                     et_param(scope, "bias", et_shape_1(units), (et_init){ ET_INIT_ZEROS, 0 }),
                     &options);
}

static et_node *feed_forward(et_scope *scope, const et_tabular_model *model,
                             const et_tabular_inputs *inputs, int64_t outputs)
{
    static const et_tabular_columns plain = { 0 };
    int64_t width[ET_TABULAR_LAYERS_MAX];
    int count;
    et_error error = ET_ERROR_INIT;
    if (et_tabular_widths(width, &count, &model->feed_forward.hidden_layers,
                          "task.model.feed_forward.hidden_layers", &error))
        return et_graph_poison(et_scope_graph(scope), "%s", error.text);
    et_node *x = et_tabular_flatten(et_in(scope, "columns"), inputs, &plain);
    for (int i = 0; i < count; i++)
        x = tensorfx_dense(et_at(scope, "layer", i), x, width[i], true);
    return tensorfx_dense(et_in(scope, "logits"), x, outputs, false);
}

static et_node *mlp(et_scope *scope, const et_tabular_model *model, const et_tabular_inputs *inputs,
                    int64_t outputs)
{
    const et_tabular_mlp *m = &model->mlp;
    et_node *x = et_tabular_flatten(et_in(scope, "columns"), inputs, &m->columns);
    for (int i = 0; i < m->num_layers; i++) {
        et_scope *layer = et_at(scope, "layer", i);
        x = normalise(layer, dense(layer, x, m->width), m->norm);
        x = et_activate(x, (et_activation)m->activation);
        x = et_dropout(layer, x, (float)m->dropout);
    }
    return dense(et_in(scope, "logits"), x, outputs);
}

/* x + drop(drop(relu(norm(x) W1 + b1)) W2 + b2) */
static et_node *block(et_scope *scope, et_node *x, const et_tabular_resnet *m)
{
    et_scope *in = et_in(scope, "in"), *out = et_in(scope, "out");
    int64_t hidden = (int64_t)((double)m->width * m->hidden_factor);
    et_node *h = et_relu(dense(in, normalise(scope, x, m->norm), hidden));
    h = dense(out, et_dropout(in, h, (float)m->hidden_dropout), m->width);
    return et_add(x, et_dropout(out, h, (float)m->residual_dropout));
}

static et_node *resnet(et_scope *scope, const et_tabular_model *model,
                       const et_tabular_inputs *inputs, int64_t outputs)
{
    const et_tabular_resnet *m = &model->resnet;
    et_node *x = et_tabular_flatten(et_in(scope, "columns"), inputs, &m->columns);
    x = dense(et_in(scope, "first"), x, m->width);
    for (int i = 0; i < m->num_blocks; i++)
        x = block(et_at(scope, "block", i), x, m);
    x = et_relu(normalise(et_in(scope, "last"), x, m->norm));
    return dense(et_in(scope, "logits"), x, outputs);
}

/* RealMLP (Holzmueller, Grinsztajn and Steinwart 2024, "Better by Default: Strong Pre-Tuned MLPs
 * and Boosted Trees on Tabular Data"): layers whose rates do not depend on their widths.
 *
 *   x      columns side by side, each times a learned factor
 *   layer  drop(f(x W / sqrt(inputs) + b)), W standard normal (the neural tangent parametrization)
 *   f      selu for classes, mish for values; parametric: x + a (f(x) - x), a learned for each unit
 *
 * Rates of parameters, label smoothing and schedules are settings of the experiment. Biases begin
 * at 0; the paper initializes them from the data. */

static et_node *activated(et_scope *layer, et_node *x, const et_tabular_realmlp *model,
                          et_activation activation)
{
    et_node *y = et_activate(x, activation);
    if (!model->parametric_activation)
        return y;
    et_node *share =
        et_param(layer, "activation", et_shape_1(model->width), (et_init){ ET_INIT_ONES, 0 });
    return et_add(x, et_mul(et_sub(y, x), share));
}

static et_node *realmlp(et_scope *scope, const et_tabular_model *settings,
                        const et_tabular_inputs *inputs, int64_t outputs)
{
    const et_tabular_realmlp *model = &settings->realmlp;
    const et_dense_options tangent = { .tangent = true };
    const et_init ones = { ET_INIT_ONES, 0 };
    const et_activation activation =
        model->activation != ET_TABULAR_ACTIVATION_AUTO
            ? (et_activation)(model->activation - ET_TABULAR_ACTIVATION_AUTO - 1)
        : inputs->values ? ET_ACTIVATION_MISH
                         : ET_ACTIVATION_SELU;
    et_node *x = et_tabular_flatten(et_in(scope, "columns"), inputs, &model->columns);
    const et_shape in = et_node_shape(x);
    const et_shape width = et_shape_1(in.rank == 2 ? in.size[1] : 0);
    x = et_mul(x, et_param(et_in(scope, "input"), "scale", width, ones));
    for (int i = 0; i < model->num_layers; i++) {
        et_scope *layer = et_at(scope, "layer", i);
        x = activated(layer, et_dense_with(layer, x, model->width, &tangent), model, activation);
        x = et_dropout(layer, x, (float)model->dropout);
    }
    return et_dense_with(et_in(scope, "logits"), x, outputs, &tangent);
}

/* FT-Transformer (Gorishniy, Rubachev, Khrulkov and Babenko 2021, "Revisiting Deep Learning Models
 * for Tabular Data"): every column is a token, and one more, [CLS], becomes the output.
 *
 *   token of a number j:  b_j + x_j w_j             token of an id: b_j + table_j[id]
 *   token of a text j:    b_j + v_j (et_tabular_text_vector)
 *   block: x + drop(attention(norm(x))), then x + drop(feed_forward(norm(x))), the first block
 *          without its first norm
 *   feed_forward(x) = drop(ReGLU(x W1 + b1)) W2 + b2, ReGLU(a, b) = a relu(b)
 *   output: relu(norm(x of [CLS])) W + b
 *
 * Tokens of a row follow each other, [rows * tokens, width], like sentences of equal length in a
 * packed batch. Only [CLS] of the last block is needed, so only [CLS] has queries there. */

typedef struct tokens {
    const et_tabular_ft_transformer *model;
    int64_t rows, count; /* of a batch; tokens of a row */
    et_node *offsets;    /* of the rows' tokens */
} tokens;

/* ---- tokens ---- */

/* All initial values of the tokenizer are uniform within 1 / sqrt(width). */
static et_node *token_param(et_scope *scope, const char *name, int64_t size, int64_t width)
{
    return et_param(scope, name, et_shape_1(size),
                    (et_init){ ET_INIT_UNIFORM, 1 / sqrtf((float)width) });
}

/* [rows, numbers * width] */
static et_node *number_tokens(et_scope *scope, const et_tabular_inputs *inputs, int64_t width)
{
    const int64_t numbers = inputs->number_count, rows = inputs->rows, all = numbers * width;
    et_node *x = et_reshape(inputs->numbers, et_shape_2(rows * numbers, 1));
    x = et_copy(x, et_node_dtype(x), et_shape_2(rows * numbers, width));
    x = et_reshape(x, et_shape_2(rows, all));
    return et_add(et_mul(x, token_param(scope, "weight", all, width)),
                  token_param(scope, "bias", all, width));
}

/* [rows, ids * width] */
static et_node *id_tokens(et_scope *scope, const et_tabular_inputs *inputs, int64_t width)
{
    const int count = inputs->id_count;
    for (int c = 0; c < count; c++)
        inputs->columns[c].width = width;
    int64_t size = et_columns_size(inputs->columns, count);
    et_node *x = et_embed_columns(inputs->ids, token_param(scope, "table", size, width),
                                  inputs->columns, count);
    return et_add(x, token_param(scope, "bias", count * width, width));
}

/* [rows, width] */
static et_node *text_token(et_scope *scope, const et_tabular_inputs *inputs, int k, int64_t width)
{
    et_node *x = et_tabular_text_vector(inputs->model, inputs->learned, inputs->encoder, k, width,
                                        (et_init){ ET_INIT_ZEROS, 0 });
    return et_add(x, token_param(et_at(scope, "text", k), "bias", width, width));
}

static et_node *tokenize(et_scope *scope, const et_tabular_inputs *inputs, tokens t)
{
    const int64_t width = t.model->width;
    et_graph *graph = et_scope_graph(scope);
    et_node **parts = et_arena_array(&graph->arena, inputs->text_count + 3, sizeof *parts);
    int count = 0;
    if (!parts)
        return et_graph_out_of_memory(graph);
    parts[count++] = et_copy(token_param(scope, "cls", width, width), et_graph_act(graph),
                             et_shape_2(t.rows, width));
    if (inputs->numbers)
        parts[count++] = number_tokens(et_in(scope, "numbers"), inputs, width);
    if (inputs->ids)
        parts[count++] = id_tokens(et_in(scope, "ids"), inputs, width);
    for (int k = 0; k < inputs->text_count; k++)
        parts[count++] = text_token(scope, inputs, k, width);
    return et_reshape(et_concatenate_columns(parts, count), et_shape_2(t.rows * t.count, width));
}

/* [rows * tokens, width] to [rows, width] */
static et_node *cls_of(et_node *x, tokens t)
{
    x = et_reshape(x, et_shape_2(t.rows, t.count * t.model->width));
    return et_slice_columns(x, 0, t.model->width);
}

/* ---- blocks ---- */

static et_node *attend(et_scope *scope, et_node *x, tokens t, bool last)
{
    const et_tabular_ft_transformer *m = t.model;
    et_attention_options options = { .heads = (int)m->num_attention_heads,
                                     .rate = (float)m->attention_dropout,
                                     .longest_key = (int)t.count };
    et_node *mixed;
    if (last) {
        et_node *q = dense(et_in(scope, "query"), cls_of(x, t), m->width);
        et_node *kv = dense(et_in(scope, "key_value"), x, 2 * m->width);
        et_node *each = et_integers(scope, 0, t.rows + 1, 1);
        mixed = et_attention(scope, q, kv, each, t.offsets, &options);
    } else {
        et_node *qkv = dense(et_in(scope, "qkv"), x, 3 * m->width);
        mixed = et_attention(scope, qkv, qkv, t.offsets, t.offsets, &options);
    }
    return dense(et_in(scope, "output"), mixed, m->width);
}

static et_node *reglu(et_scope *scope, et_node *x, const et_tabular_ft_transformer *m)
{
    int64_t hidden = (int64_t)((double)m->width * m->ffn_factor);
    et_node *both = dense(et_in(scope, "in"), x, 2 * hidden);
    et_node *h =
        et_mul(et_slice_columns(both, 0, hidden), et_relu(et_slice_columns(both, hidden, hidden)));
    return dense(et_in(scope, "out"), et_dropout(scope, h, (float)m->ffn_dropout), m->width);
}

static et_node *ft_block(et_scope *scope, et_node *x, tokens t, bool first, bool last)
{
    et_scope *attention = et_in(scope, "attention"), *forward = et_in(scope, "feed_forward");
    const float rate = (float)t.model->residual_dropout;
    et_node *h = first ? x : et_norm(et_in(attention, "norm"), x, LAYER_EPSILON);
    h = attend(attention, h, t, last);
    x = et_add(last ? cls_of(x, t) : x, et_dropout(attention, h, rate));
    h = reglu(forward, et_norm(et_in(forward, "norm"), x, LAYER_EPSILON), t.model);
    return et_add(x, et_dropout(forward, h, rate));
}

static et_node *ft_transformer(et_scope *scope, const et_tabular_model *model,
                               const et_tabular_inputs *inputs, int64_t outputs)
{
    const int blocks = (int)model->ft_transformer.num_blocks;
    tokens t = { &model->ft_transformer, inputs->rows,
                 1 + inputs->number_count + inputs->id_count + inputs->text_count, NULL };
    t.offsets = et_integers(scope, 0, t.rows + 1, t.count);
    et_node *x = tokenize(et_in(scope, "tokenizer"), inputs, t);
    for (int i = 0; i < blocks; i++)
        x = ft_block(et_at(scope, "block", i), x, t, i == 0, i + 1 == blocks);
    x = et_relu(et_norm(et_in(scope, "norm"), x, LAYER_EPSILON));
    return dense(et_in(scope, "logits"), x, outputs);
}

/* ---- the table ---- */

/* Packs are built in losses.c. drawn: see et_tabular_inputs. If biases begin at zero, relu passes
 * no gradient to a row of zeros. Gradient descent is slow from small values. */
static const struct {
    et_node *(*build)(et_scope *scope, const et_tabular_model *model,
                      const et_tabular_inputs *inputs, int64_t outputs);
    float drawn;
} models[ET_TABULAR_PACK] = {
    [ET_TABULAR_LINEAR] = { linear, 0 },
    [ET_TABULAR_FEED_FORWARD] = { feed_forward, 1 },
    [ET_TABULAR_MLP] = { mlp, 0.1f },
    [ET_TABULAR_RESNET] = { resnet, 0.1f },
    [ET_TABULAR_FT_TRANSFORMER] = { ft_transformer, 0 },
    [ET_TABULAR_REALMLP] = { realmlp, 0 },
    [ET_TABULAR_TABM] = { tabm_build, 0 },
};

et_node *et_tabular_model_build(et_scope *scope, const et_tabular_model *model,
                                const et_encoder *encoder, int64_t outputs)
{
    et_tabular_inputs inputs;
    et_assert(model->type >= 0 && model->type < ET_TABULAR_PACK && outputs >= 1);
    et_tabular_inputs_open(&inputs, scope, encoder, &model->ignored_features);
    inputs.drawn = models[model->type].drawn;
    et_node *y = models[model->type].build(scope, model, &inputs, outputs);
    return et_copy(y, ET_F32, et_node_shape(y));
}

/* NULL: the model has no settings of columns. */
static const et_tabular_columns *columns_of(const et_tabular_model *model)
{
    switch (model->type) {
    case ET_TABULAR_MLP:
        return &model->mlp.columns;
    case ET_TABULAR_RESNET:
        return &model->resnet.columns;
    case ET_TABULAR_REALMLP:
        return &model->realmlp.columns;
    case ET_TABULAR_TABM:
        return &model->tabm.columns;
    default:
        return NULL;
    }
}

int et_tabular_model_fit(et_params *params, const et_tabular_model *model,
                         const et_encoder *encoder, et_samples *samples, et_error *error)
{
    const et_tabular_columns *columns = columns_of(model);
    const int status =
        et_tabular_fit_text_weights(params, model->word_weights, encoder, samples, error);
    return !status && columns ? et_tabular_fit_columns(params, "columns/", columns, encoder,
                                                       &model->ignored_features, samples, error)
                              : status;
}

int et_tabular_model_begin(et_params *params, const et_tabular_model *model,
                           const et_encoder *encoder, et_error *error)
{
    if (model->type != ET_TABULAR_TABM)
        return ET_OK;
    const int scale = et_params_find(params, "input/scale");
    et_assert(scale >= 0);
    et_params_begin_change(params);
    int status = et_tabular_join_factors(
        et_params_values_of(params, scale), et_params_shape(params, scale).size[0],
        model->tabm.members, &model->tabm.columns, encoder, &model->ignored_features, error);
    et_params_changed(params, true);
    return status;
}
