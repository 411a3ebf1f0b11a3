/* A table has the tensors of a layer, with a column of names for each program. */
#include "tasks/translation/interchange/tensor_map.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "engine/graph/graph.h"

/* A projection or a norm: one or two tensors. */
typedef struct row {
    const char *param;
    int part, parts; /* columns of the parameter: part `part` of `parts` equal parts; 0 parts: a
                        norm */
    const char *weight[ET_NAMES], *bias[ET_NAMES]; /* weight NULL: the program has no such tensor;
                                                      bias NULL: it has no bias */
} row;

static const row attention[] = {
    { "self_attention/qkv",
      0,
      3,
      { "self_attn.q_proj.weight", "self_Wq" },
      { "self_attn.q_proj.bias", "self_bq" } },
    { "self_attention/qkv",
      1,
      3,
      { "self_attn.k_proj.weight", "self_Wk" },
      { "self_attn.k_proj.bias", "self_bk" } },
    { "self_attention/qkv",
      2,
      3,
      { "self_attn.v_proj.weight", "self_Wv" },
      { "self_attn.v_proj.bias", "self_bv" } },
    { "self_attention/output",
      0,
      1,
      { "self_attn.out_proj.weight", "self_Wo" },
      { "self_attn.out_proj.bias", "self_bo" } },
    { "self_attention/norm",
      0,
      0,
      { "self_attn_layer_norm.weight", "self_Wo_ln_scale" },
      { "self_attn_layer_norm.bias", "self_Wo_ln_bias" } },
};
static const row ssru[] = {
    { "ssru/input", 0, 1, { NULL, "rnn_W" }, { NULL } },
    { "ssru/gate", 0, 1, { NULL, "rnn_Wf" }, { NULL, "rnn_bf" } },
    { "ssru/norm", 0, 0, { NULL, "rnn_ffn_ln_scale" }, { NULL, "rnn_ffn_ln_bias" } },
};
static const row feed_forward[] = {
    { "feed_forward/in", 0, 1, { "fc1.weight", "ffn_W1" }, { "fc1.bias", "ffn_b1" } },
    { "feed_forward/out", 0, 1, { "fc2.weight", "ffn_W2" }, { "fc2.bias", "ffn_b2" } },
    { "feed_forward/norm",
      0,
      0,
      { "final_layer_norm.weight", "ffn_ffn_ln_scale" },
      { "final_layer_norm.bias", "ffn_ffn_ln_bias" } },
};
static const row cross[] = {
    { "cross_attention/query",
      0,
      1,
      { "encoder_attn.q_proj.weight", "context_Wq" },
      { "encoder_attn.q_proj.bias", "context_bq" } },
    { "cross_attention/key_value",
      0,
      2,
      { "encoder_attn.k_proj.weight", "context_Wk" },
      { "encoder_attn.k_proj.bias", "context_bk" } },
    { "cross_attention/key_value",
      1,
      2,
      { "encoder_attn.v_proj.weight", "context_Wv" },
      { "encoder_attn.v_proj.bias", "context_bv" } },
    { "cross_attention/output",
      0,
      1,
      { "encoder_attn.out_proj.weight", "context_Wo" },
      { "encoder_attn.out_proj.bias", "context_bo" } },
    { "cross_attention/norm",
      0,
      0,
      { "encoder_attn_layer_norm.weight", "context_Wo_ln_scale" },
      { "encoder_attn_layer_norm.bias", "context_Wo_ln_bias" } },
};
#define COUNT(rows) ((int)(sizeof(rows) / sizeof *(rows)))

/* A layer of a stack; layers are counted from 0. */
typedef struct layer {
    const et_tensor_map *map;
    const char *stack;
    int number;
} layer;

static void print_name(const layer *l, const char *end, char name[ET_MAPPED_NAME_MAX])
{
    if (l->map->names == ET_NAMES_TRANSFORMERS)
        snprintf(name, ET_MAPPED_NAME_MAX, "model.%s.layers.%d.%s", l->stack, l->number, end);
    else
        snprintf(name, ET_MAPPED_NAME_MAX, "%s_l%d_%s", l->stack, l->number + 1, end);
}

static int find_param(const layer *l, const char *of, const char *end)
{
    return et_params_find_printf(l->map->params, "%s/layer_%d/%s/%s", l->stack, l->number, of, end);
}

static int64_t last_size(et_shape shape)
{
    return shape.size[shape.rank - 1];
}

static et_shape vector_shape(const layer *l, int64_t count)
{
    return l->map->names == ET_NAMES_TRANSFORMERS ? et_shape_1(count) : et_shape_2(1, count);
}

static int visit(const layer *l, const row *r, et_mapped_tensor_fn *fn, void *self, et_error *error)
{
    const et_tensor_map *map = l->map;
    const bool norm = !r->parts, turned = map->names == ET_NAMES_TRANSFORMERS && !norm;
    et_mapped_tensor mapped = { .param = find_param(l, r->param, norm ? "scale" : "weight") };
    et_assert(mapped.param >= 0);
    const et_shape whole = et_params_shape(map->params, mapped.param);
    const int64_t count = last_size(whole) / (norm ? 1 : r->parts);
    print_name(l, r->weight[map->names], mapped.name);
    mapped.first = r->part * count;
    mapped.turned = turned;
    mapped.shape = norm     ? vector_shape(l, count)
                   : turned ? et_shape_2(count, whole.size[0])
                            : et_shape_2(whole.size[0], count);
    int status = fn(self, &mapped, error);
    if (!r->bias[map->names])
        return status;
    print_name(l, r->bias[map->names], mapped.name);
    mapped.param = find_param(l, r->param, norm ? "offset" : "bias");
    mapped.turned = false;
    mapped.shape = vector_shape(l, count);
    return status ? status : fn(self, &mapped, error);
}

static int visit_all(const layer *l, const row *rows, int count, et_mapped_tensor_fn *fn,
                     void *self, et_error *error)
{
    int status = ET_OK;
    for (int i = 0; i < count && !status; i++) {
        et_assert(rows[i].weight[l->map->names]);
        status = visit(l, &rows[i], fn, self, error);
    }
    return status;
}

int et_tensor_map_each(const et_tensor_map *map, et_mapped_tensor_fn *fn, void *self,
                       et_error *error)
{
    et_assert(map->model && map->params && fn);
    int status = ET_OK;
    for (int decoder = 0; decoder < 2; decoder++) {
        const et_transformer_stack *stack = decoder ? &map->model->decoder : &map->model->encoder;
        for (int i = 0; i < stack->num_layers && !status; i++) {
            const layer l = { map, decoder ? "decoder" : "encoder", i };
            status = stack->ssru ? visit_all(&l, ssru, COUNT(ssru), fn, self, error)
                                 : visit_all(&l, attention, COUNT(attention), fn, self, error);
            if (!status)
                status = visit_all(&l, feed_forward, COUNT(feed_forward), fn, self, error);
            if (!status && decoder)
                status = visit_all(&l, cross, COUNT(cross), fn, self, error);
        }
    }
    return status;
}

/* ---- values ---- */

/* The position of element i of the tensor in its parameter. */
static int64_t position(const et_mapped_tensor *mapped, int64_t columns, int64_t i)
{
    const et_shape s = mapped->shape;
    const int64_t inner = last_size(s), r = i / inner, c = i % inner;
    return mapped->turned ? c * columns + mapped->first + r : r * columns + mapped->first + c;
}

void et_mapped_tensor_put(const et_mapped_tensor *mapped, et_params *params, const float *values)
{
    et_assert(mapped->param >= 0);
    float *to = et_params_values_of(params, mapped->param);
    const int64_t columns = last_size(et_params_shape(params, mapped->param));
    const int64_t count = et_shape_count(mapped->shape);
    for (int64_t i = 0; i < count; i++)
        to[position(mapped, columns, i)] = values[i];
}

void et_mapped_tensor_get(const et_mapped_tensor *mapped, et_params *params, float *values)
{
    et_assert(params && values);
    const int64_t count = et_shape_count(mapped->shape);
    if (mapped->param < 0) {
        memset(values, 0, count * sizeof *values);
        return;
    }
    const float *from = et_params_values_of(params, mapped->param);
    const int64_t columns = last_size(et_params_shape(params, mapped->param));
    for (int64_t i = 0; i < count; i++)
        values[i] = from[position(mapped, columns, i)];
}

/* ---- parameters ---- */

/* Building the graph of the smallest batch declares them; it is never planned. */
int et_transformer_declare(et_params **params, const et_transformer *model, et_error *error)
{
    et_assert(params && model);
    et_graph *graph;
    int status;
    if ((status = et_params_new(params, error)) ||
        (status = et_graph_new(&graph, *params, NULL, error)))
        return status;
    et_scope *root = et_graph_scope(graph);
    et_transformer_train(root, model, 64, 64, 1);
    et_transformer_table(root, model);
    et_transformer_output_bias(root, model);
    status = et_graph_finish(graph, error);
    et_graph_free(graph);
    return status;
}

bool et_table_row_is_zero(et_params *params, const char *scope, int64_t number)
{
    const int table = et_params_find_printf(params, "%s/table", scope);
    et_assert(table >= 0);
    const int64_t width = et_params_shape(params, table).size[1];
    const float *values = et_params_values_of(params, table) + number * width;
    for (int64_t k = 0; k < width; k++)
        if (values[k] != 0)
            return false;
    return true;
}
