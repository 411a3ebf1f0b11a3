#include "tasks/tabular/networks/networks_private.h"

#include <math.h>

#include <etude/pass.h>

#include "base/alloc.h"
#include "engine/graph/build.h"
#include "engine/graph/graph.h"
#include "tasks/tabular/members.h"

/* Biases are initialized like weights, uniformly within 1 / sqrt(inputs). Encoded columns may be
 * zeros at the start, and without biases relu would have no gradient. */
static et_node *dense(et_scope *scope, et_node *x, int64_t units)
{
    const et_shape in = et_node_shape(x);
    const int64_t inputs = in.rank == 2 ? in.size[1] : 1;
    const et_init drawn = { ET_INIT_UNIFORM, 1 / sqrtf((float)inputs) };
    et_node *weight = et_param(scope, "weight", et_shape_2(inputs, units), drawn);
    et_node *bias = et_param(scope, "bias", et_shape_1(units), drawn);
    return et_matmul(x, weight, bias, NULL);
}

/* Each member has its own embeddings of texts, so that members do not depend on each other. */
static et_node *member(et_scope *scope, const et_pack_member *m, const et_tabular_pack *pack,
                       const et_tabular_inputs *inputs, int64_t outputs)
{
    et_tabular_inputs own = *inputs;
    own.learned = scope;
    et_node *x = et_tabular_flatten(et_in(scope, "columns"), &own, &m->columns);
    for (int i = 0; i < m->num_layers; i++) {
        et_scope *layer = et_at(scope, ET_PACK_LAYER, i);
        x = et_relu(dense(layer, x, pack->width));
        x = et_dropout(layer, x, (float)m->dropout);
    }
    return dense(et_in(scope, "logits"), x, outputs);
}

/* Members below a scope of the model's. */
static et_node *build(et_scope *root, et_scope *scope, const et_tabular_model *model,
                      const et_encoder *encoder, int64_t outputs, const bool *which)
{
    const et_tabular_pack *pack = &model->pack;
    const int64_t all = et_pack_count(pack);
    et_node **parts = et_alloc((size_t)all, sizeof *parts);
    et_tabular_inputs inputs;
    int count = 0;
    if (!parts)
        return et_graph_out_of_memory(et_scope_graph(scope));
    et_tabular_inputs_open(&inputs, root, encoder, &model->ignored_features);
    for (int64_t i = 0; i < all; i++) {
        const et_pack_member m = et_pack_member_at(pack, i);
        if (!which || which[i])
            parts[count++] =
                member(et_at(scope, ET_PACK_MEMBER, (int)m.number), &m, pack, &inputs, outputs);
    }
    et_node *y = count ? et_concatenate_columns(parts, count)
                       : et_graph_poison(et_scope_graph(scope), "a pack without members");
    et_tabular_inputs_release(&inputs);
    et_free(parts);
    return et_copy(y, ET_F32, et_node_shape(y));
}

et_node *et_pack_build(et_scope *scope, const et_tabular_model *model, const et_encoder *encoder,
                       int64_t outputs, const bool *which)
{
    return build(scope, scope, model, encoder, outputs, which);
}

et_node *et_pack_build_best(et_scope *scope, const et_tabular_model *model,
                            const et_encoder *encoder, int64_t outputs, const bool *which)
{
    return build(scope, et_in_fixed(scope, ET_PACK_BEST), model, encoder, outputs, which);
}

/* ---- the ensemble ---- */

static et_node *of_members(et_scope *scope, const et_tabular_pack *pack, const char *name)
{
    return et_variable(et_in(scope, ET_PACK_ENSEMBLE), name, et_shape_1(et_pack_count(pack)),
                       (et_init){ ET_INIT_ZEROS, 0 });
}

void et_pack_declare(et_scope *scope, const et_tabular_pack *pack)
{
    of_members(scope, pack, ET_PACK_LOSS);
    of_members(scope, pack, ET_PACK_SINCE);
}

/* [1, count] of a vector [members]. */
static et_node *chosen(et_node *vector, const et_tabular_pack *pack, const bool *which)
{
    const int64_t all = et_pack_count(pack);
    et_node *row = et_reshape(vector, et_shape_2(1, all));
    et_node **parts = which ? et_alloc((size_t)all, sizeof *parts) : NULL;
    int count = 0;
    if (which && !parts)
        return et_graph_out_of_memory(vector->graph);
    for (int64_t i = 0; which && i < all; i++)
        if (which[i])
            parts[count++] = et_slice_columns(row, i, 1);
    row = which ? et_concatenate_columns(parts, count) : row;
    et_free(parts);
    return row;
}

et_node *et_pack_mean(et_scope *scope, const et_tabular_pack *pack, et_node *predictions,
                      int64_t width, const bool *which)
{
    const et_shape shape = et_node_shape(predictions);
    const int64_t columns = shape.rank == 2 ? shape.size[1] : 0;
    et_node *share = chosen(of_members(scope, pack, ET_PACK_SHARE), pack, which);
    et_node *sum = NULL;
    share = et_reshape(share, et_shape_2(columns / width, 1));
    share = et_copy(share, ET_F32, et_shape_2(columns / width, width));
    predictions = et_mul(predictions, et_reshape(share, et_shape_1(columns)));
    if (width == 1)
        return et_row_sum(predictions);
    for (int64_t i = 0; i < columns; i += width) {
        et_node *one = et_slice_columns(predictions, i, width);
        sum = sum ? et_add(sum, one) : one;
    }
    return sum;
}
