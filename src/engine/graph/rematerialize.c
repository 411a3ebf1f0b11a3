#include "engine/graph/rematerialize.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "engine/graph/node.h"

int et_rematerialize_init(et_rematerialize *r, et_graph *graph, et_error *error)
{
    size_t count = (size_t)graph->count;
    *r = (et_rematerialize){ .graph = graph, .count = graph->count };
    r->use = et_alloc_zero(count, sizeof *r->use);
    r->again = et_alloc_zero(count, sizeof *r->again);
    if (!r->use || !r->again)
        return et_alloc_failed(error, count * sizeof *r->use, "gradients");
    for (int i = 0; i < r->count; i++) {
        const et_node *node = r->graph->nodes[i];
        for (int k = 0; k < node->inputs; k++) {
            et_rematerialize_use *use = &r->use[node->input[k]->id];
            use->readers++;
            use->reader = node;
            if (et_op_derivative_reads(node->op) == ET_READS_NOTHING)
                continue;
            use->values++;
            use->user = node;
        }
    }
    return ET_OK;
}

void et_rematerialize_release(et_rematerialize *r)
{
    et_free(r->use);
    et_free(r->again);
}

/* A product reads the norm's value, and otherwise only sums read it. There must be only one
 * product: several (of the encoder's result) are far apart, and the operands that all of them wait
 * for would outlive the norm. The product's other operand is visited after the norm, with which its
 * gradient comes. */
bool et_rematerialize_waits(const et_rematerialize *r, const et_node *node)
{
    if (r->graph->options.recompute == ET_RECOMPUTE_NONE || node->id >= r->count ||
        node->op != ET_OP_LAYER_NORM || r->again[node->id])
        return false;
    const et_rematerialize_use *use = &r->use[node->id];
    if (use->values != 1 || use->user->op != ET_OP_MATMUL || use->user->input[0] != node)
        return false;
    const et_node *other = use->user->input[1];
    return other->op == ET_OP_PARAM || other->id < node->id;
}

/* Whether node may be rematerialized by its own op: because it was marked, or because its input is
 * there anyway (the derivative reads it) and a pass over memory is cheap.
 *
 * exec runs chains of element-wise nodes without rounding in between. So that the same chain
 * runs again, an element-wise node is rematerialized only together with all that it follows. */
static bool is_rematerialized(const et_rematerialize *r, const et_node *node)
{
    et_recompute mode = r->graph->options.recompute;
    if (mode == ET_RECOMPUTE_NONE || node->id >= r->count)
        return false;
    if (!et_op_is_elementwise(node->op) || node->inputs > 1)
        return node->attributes.recomputable && mode >= node->attributes.recomputable;
    const et_node *input = node->input[0];
    bool input_stays = et_op_derivative_reads(node->op) == ET_READS_INPUTS;
    return (input_stays && !et_op_is_elementwise(input->op)) || is_rematerialized(r, input);
}

/* Adds node once more. A norm that it reads is rematerialized as well: its derivative comes too
 * late for this. */
static et_node *make_again(et_rematerialize *r, et_node *node)
{
    et_node *inputs[ET_NODE_INPUTS_MAX];
    for (int i = 0; i < node->inputs; i++) {
        et_node *input = node->input[i];
        inputs[i] = et_rematerialize_waits(r, input) ? make_again(r, input)
                                                     : et_rematerialize_value(r, input);
    }
    et_attributes attributes = node->attributes;
    attributes.again = true;
    et_assert(!r->again[node->id]);
    r->again[node->id] = et_node_add(r->graph, node->op, NULL, inputs, node->inputs, &attributes);
    return r->again[node->id];
}

et_node *et_rematerialize_value(et_rematerialize *r, et_node *node)
{
    et_assert(node->id < r->count);
    if (r->again[node->id])
        return r->again[node->id];
    return is_rematerialized(r, node) ? make_again(r, node) : node;
}

et_node *et_rematerialize_sign(et_rematerialize *r, et_node *node)
{
    const et_rematerialize_use *use = &r->use[node->id];
    bool dropped = use->readers == 1 && use->reader->op == ET_OP_DROPOUT;
    if (r->graph->options.recompute == ET_RECOMPUTE_NONE || !dropped)
        return et_rematerialize_value(r, node);
    return et_rematerialize_value(r, r->graph->nodes[use->reader->id]);
}
