#include "graph/remake.h"

#include "base/alloc.h"
#include "base/assert.h"

/* Derivatives of these read none of their inputs' values. */
static bool is_linear(et_op op)
{
    return op == ET_OP_ADD || op == ET_OP_SUB || op == ET_OP_SCALE || op == ET_OP_BIAS ||
           op == ET_OP_DROPOUT || op == ET_OP_SUM || op == ET_OP_RESHAPE ||
           op == ET_OP_CONCATENATE || op == ET_OP_SLICE || op == ET_OP_GATHER ||
           op == ET_OP_MEAN_POOL;
}

static void count_uses(et_remake *r)
{
    for (int i = 0; i < r->count; i++) {
        const et_node *node = r->graph->nodes[i];
        for (int k = 0; k < node->inputs; k++) {
            et_remake_use *use = &r->use[node->input[k]->id];
            use->readers++;
            use->reader = node;
            if (is_linear(node->op))
                continue;
            use->values++;
            use->user = node;
        }
    }
}

int et_remake_init(et_remake *r, et_graph *graph, et_error *error)
{
    size_t count = (size_t)graph->count;
    *r = (et_remake){ .graph = graph, .count = graph->count };
    r->use = et_alloc_zero(count, sizeof *r->use);
    r->again = et_alloc_zero(count, sizeof *r->again);
    if (!r->use || !r->again)
        return et_alloc_failed(error, count * sizeof *r->use, "gradients");
    count_uses(r);
    return ET_OK;
}

void et_remake_release(et_remake *r)
{
    et_free(r->use);
    et_free(r->again);
}

/* A product reads the norm's value, and nothing else does but sums. One product alone: several
 * (of the encoder's result) are far apart, and what all of them wait for would outlive the norm. */
bool et_remake_waits(const et_remake *r, const et_node *node)
{
    if (r->graph->options.recompute == ET_RECOMPUTE_NONE || node->id >= r->count ||
        node->op != ET_OP_LAYER_NORM || r->again[node->id])
        return false;
    const et_remake_use *use = &r->use[node->id];
    return use->values == 1 && use->user->op == ET_OP_MATMUL && use->user->input[0] == node;
}

/* Whether node may be made again by its own op: because it was marked, or because its input is
 * there anyway (derivatives of gelu and swish read it) and a pass over memory is cheap.
 *
 * exec runs chains of element-wise nodes without rounding in between. So that the same chain
 * runs again, an element-wise node is made again only together with all that it follows. */
static bool is_remade(const et_remake *r, const et_node *node)
{
    et_recompute mode = r->graph->options.recompute;
    if (mode == ET_RECOMPUTE_NONE || node->id >= r->count)
        return false;
    switch (node->op) {
    case ET_OP_GELU:
    case ET_OP_SWISH:
        return !et_op_is_elementwise(node->input[0]->op) || is_remade(r, node->input[0]);
    case ET_OP_RELU:
    case ET_OP_TANH:
    case ET_OP_SIGMOID:
    case ET_OP_DROPOUT:
        return is_remade(r, node->input[0]);
    default:
        return mode == ET_RECOMPUTE_MARKED && node->attributes.recomputable;
    }
}

/* Adds node once more. A norm that it reads is made again as well: its derivative comes too late
 * for this. */
static et_node *make_again(et_remake *r, et_node *node)
{
    et_node *inputs[ET_NODE_INPUTS_MAX];
    for (int i = 0; i < node->inputs; i++) {
        et_node *input = node->input[i];
        inputs[i] = et_remake_waits(r, input) ? make_again(r, input) : et_remake_value(r, input);
    }
    et_attributes attributes = node->attributes;
    attributes.again = true;
    et_assert(!r->again[node->id]);
    r->again[node->id] = et_node_add(r->graph, node->op, NULL, inputs, node->inputs, &attributes);
    return r->again[node->id];
}

et_node *et_remake_value(et_remake *r, et_node *node)
{
    et_assert(node->id < r->count);
    if (r->again[node->id])
        return r->again[node->id];
    return is_remade(r, node) ? make_again(r, node) : node;
}

et_node *et_remake_sign(et_remake *r, et_node *node)
{
    const et_remake_use *use = &r->use[node->id];
    bool dropped = use->readers == 1 && use->reader->op == ET_OP_DROPOUT;
    if (r->graph->options.recompute == ET_RECOMPUTE_NONE || !dropped)
        return et_remake_value(r, node);
    return et_remake_value(r, r->graph->nodes[use->reader->id]);
}
