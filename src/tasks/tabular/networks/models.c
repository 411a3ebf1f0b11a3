/* Models, a row each. Initial weights are PyTorch's, uniform within 1 / sqrt(inputs), unless a
 * model's paper has others. */
#include "tasks/tabular/networks/networks_private.h"

#include <math.h>

#include "base/assert.h"
#include "engine/graph/build.h"
#include "engine/graph/graph.h"

/* Of batch norm, as PyTorch's; of layer norm. */
#define MOMENTUM      0.9f
#define EPSILON       1e-5f
#define LAYER_EPSILON 1e-5f

static et_node *normalise(et_scope *scope, et_node *x, int norm)
{
    if (norm == ET_TABULAR_NORM_BATCH)
        return et_norm_batch(et_in(scope, "norm"), x, MOMENTUM, EPSILON);
    return norm == ET_TABULAR_NORM_LAYER ? et_norm(et_in(scope, "norm"), x, LAYER_EPSILON) : x;
}

/* ---- the models ---- */

/* x W + b, W [columns, outputs] zeros, and a row of a table for each id: no order of columns and no
 * draw makes a difference. */
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
        et_node *one =
            et_tabular_words(inputs->model, inputs->learned, inputs->encoder, k, outputs, zeros);
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
        x = normalise(layer, et_tabular_dense(layer, x, m->width), m->norm);
        x = et_activate(x, (et_activation)m->activation);
        x = et_dropout(layer, x, (float)m->dropout);
    }
    return et_tabular_dense(et_in(scope, "logits"), x, outputs);
}

/* x + drop(drop(relu(norm(x) W1 + b1)) W2 + b2) */
static et_node *block(et_scope *scope, et_node *x, const et_tabular_resnet *m)
{
    et_scope *in = et_in(scope, "in"), *out = et_in(scope, "out");
    int64_t hidden = (int64_t)((double)m->width * m->hidden_factor);
    et_node *h = et_relu(et_tabular_dense(in, normalise(scope, x, m->norm), hidden));
    h = et_tabular_dense(out, et_dropout(in, h, (float)m->hidden_dropout), m->width);
    return et_add(x, et_dropout(out, h, (float)m->residual_dropout));
}

static et_node *resnet(et_scope *scope, const et_tabular_model *model,
                       const et_tabular_inputs *inputs, int64_t outputs)
{
    const et_tabular_resnet *m = &model->resnet;
    et_node *x = et_tabular_flatten(et_in(scope, "columns"), inputs, &m->columns);
    x = et_tabular_dense(et_in(scope, "first"), x, m->width);
    for (int i = 0; i < m->num_blocks; i++)
        x = block(et_at(scope, "block", i), x, m);
    x = et_relu(normalise(et_in(scope, "last"), x, m->norm));
    return et_tabular_dense(et_in(scope, "logits"), x, outputs);
}

static et_node *realmlp(et_scope *scope, const et_tabular_model *model,
                        const et_tabular_inputs *inputs, int64_t outputs)
{
    return et_tabular_realmlp_build(scope, &model->realmlp, inputs, outputs);
}

static et_node *tabm(et_scope *scope, const et_tabular_model *model,
                     const et_tabular_inputs *inputs, int64_t outputs)
{
    return et_tabular_tabm_build(scope, &model->tabm, inputs, outputs);
}

static et_node *ft_transformer(et_scope *scope, const et_tabular_model *model,
                               const et_tabular_inputs *inputs, int64_t outputs)
{
    return et_tabular_ft_transformer_build(scope, &model->ft_transformer, inputs, outputs);
}

/* ---- the table ---- */

/* A pack has another builder (pack/pack.h). drawn: see et_tabular_inputs. Without biases at the
 * start, relu passes no gradient to a row of zeros. Plain descent is slow from small values. */
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
    [ET_TABULAR_TABM] = { tabm, 0 },
};

et_node *et_tabular_model_build(et_scope *scope, const et_tabular_model *model,
                                const et_encoder *encoder, int64_t outputs)
{
    et_tabular_inputs inputs;
    et_assert(model->type >= 0 && model->type < ET_TABULAR_PACK && outputs >= 1);
    et_tabular_inputs_open(&inputs, scope, encoder, &model->ignored_features);
    inputs.drawn = models[model->type].drawn;
    et_node *y = models[model->type].build(scope, model, &inputs, outputs);
    et_tabular_inputs_release(&inputs);
    return et_copy(y, ET_F32, et_node_shape(y));
}

/* NULL: the model has none. */
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
    const int status = et_tabular_words_fit(params, model->word_weights, encoder, samples, error);
    return !status && columns ? et_tabular_fit_columns(params, "columns/", columns, encoder,
                                                       &model->ignored_features, samples, error)
                              : status;
}

int et_tabular_model_begin(et_params *params, const et_tabular_model *model,
                           const et_encoder *encoder, et_error *error)
{
    return model->type == ET_TABULAR_TABM ? et_tabular_tabm_begin(params, &model->tabm, encoder,
                                                                  &model->ignored_features, error)
                                          : ET_OK;
}
