/* From nodes to calls. Every reachable node that computes becomes a call. An element-wise node that
 * reads another one of the same shape joins its call: the chain then runs at the place of its last
 * member, so nothing outside the chain may read a member before that place.
 *
 * A rematerialized node never shares a chain with its reader: members pass on numbers before
 * rounding, but the reader must get the numbers that the forward pass had stored.
 *
 *   d = dropout(gelu(a + bias)), and a + bias also read by a later norm:
 *   chain [add, gelu, dropout], inputs {a, bias}, outputs {add, dropout}: one pass over memory
 *
 * Members are chosen greedily, in the order of nodes, by the first input whose chain they may join.
 * A node that may join none begins a chain. Chains may be interleaved: of[] has the chain of a
 * node, not its place.
 *
 * Limits of a program (engine/kernel/kernels.h): ET_EW_INPUTS_MAX values from outside,
 * ET_EW_STEPS_MAX members, ET_EW_OUTPUTS_MAX members with readers outside. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "engine/exec/plan_private.h"
#include "engine/graph/graph.h"

/* One reached reader of a node; -1 ends the list. */
typedef struct read_edge {
    int reader, next;
} read_edge;

/* Lists are of et_plan_make_calls and gone when the calls are made. */
typedef struct chains {
    et_plan *plan; /* whose calls are made; values are known */
    const bool *reached;
    int *of;          /* [nodes]: the chain (id of its first member), -1: none */
    int *last;        /* [nodes], by chain: id of the last member */
    read_edge *edges; /* of all nodes */
    int *first_edge;  /* [nodes]: where a node's list of readers begins, -1: no readers */
    bool *result;     /* [nodes]: an output or a gradient */
} chains;

/* Ids are places in the graph's list. */
static et_node *node_at(const chains *c, int id)
{
    return c->plan->graph->nodes[id];
}

/* Lists of readers, so that finding them costs the same in a deep graph. The newest reader is first
 * in a list; callers do not depend on the order. */
static void find_readers(chains *c)
{
    const et_graph *graph = c->plan->graph;
    int at = 0;
    for (int id = 0; id < graph->count; id++)
        c->first_edge[id] = -1;
    for (int id = 0; id < graph->count; id++)
        for (int i = 0; c->reached[id] && i < graph->nodes[id]->inputs; i++) {
            int read = graph->nodes[id]->input[i]->id;
            c->edges[at] = (read_edge){ id, c->first_edge[read] };
            c->first_edge[read] = at++;
        }
}

/* Whether a node outside the chain reads node before node `until` does. A reader in the same chain
 * does not count: it runs in the same program, after the member. */
static bool is_read_before(const chains *c, const et_node *node, int until)
{
    for (int at = c->first_edge[node->id]; at >= 0; at = c->edges[at].next) {
        int reader = c->edges[at].reader;
        if (reader < until && c->of[reader] != c->of[node->id])
            return true;
    }
    return false;
}

/* Such a member's value must be stored; other members only live in the program's registers. Passes
 * the last id of all, so that every reader counts. */
static bool is_read_outside(const chains *c, const et_node *node)
{
    return c->result[node->id] || is_read_before(c, node, c->plan->graph->count);
}

/* The place of value in the list, to which it is added if it is new; -1: there is no room. A chain
 * that reads a value twice has it as one input. */
static int add_once(int *list, int *count, int value)
{
    et_assert(*count <= ET_EW_INPUTS_MAX);
    for (int i = 0; i < *count; i++)
        if (list[i] == value)
            return i;
    if (*count == ET_EW_INPUTS_MAX)
        return -1;
    list[*count] = value;
    return (*count)++;
}

/* Whether the chain in c->of fits into one program. The last member is marked there already; the
 * caller removes the mark. */
static bool fits(const chains *c, int chain, int last)
{
    /* Counts the whole chain again: a new member may remove an output, because it reads one. */
    int inputs[ET_EW_INPUTS_MAX], input_count = 0, steps = 0, outputs = 0;
    for (int id = chain; id <= last; id++) {
        if (c->of[id] != chain)
            continue;
        const et_node *node = node_at(c, id);
        steps++;
        outputs += is_read_outside(c, node);
        for (int i = 0; i < node->inputs; i++)
            if (c->of[node->input[i]->id] != chain &&
                add_once(inputs, &input_count, et_plan_value_of(c->plan, node->input[i])) < 0)
                return false;
    }
    return steps <= ET_EW_STEPS_MAX && outputs <= ET_EW_OUTPUTS_MAX;
}

/* Whether node may join the chain: no call reads a member before node, and the whole fits. A member
 * runs at the position of the last one, so an outside reader before that position would find no
 * value yet. */
static bool may_join(chains *c, int chain, const et_node *node)
{
    for (int id = chain; id <= c->last[chain]; id++)
        if (c->of[id] == chain && is_read_before(c, node_at(c, id), node->id))
            return false;
    c->of[node->id] = chain;
    bool ok = fits(c, chain, node->id);
    c->of[node->id] = -1;
    return ok;
}

/* Only values of the same shape join: a program runs over elements. A repeated operand (a bias) is
 * an input, never a member. A node may join the chain of any of its inputs, and its other inputs
 * become inputs of the chain. A node that reads two chains never joins them. */
static void find_chain(chains *c, const et_node *node)
{
    for (int i = 0; i < node->inputs && c->plan->options.fuse; i++) {
        const et_node *input = node->input[i];
        int chain = c->of[input->id];
        if (chain < 0 || !et_shape_equal(et_node_shape(input), et_node_shape(node)))
            continue;
        /* Rematerialized and not are no chain, as the head of the file says. */
        if (input->attributes.again != node->attributes.again)
            continue;
        if (may_join(c, chain, node)) {
            c->of[node->id] = chain;
            c->last[chain] = node->id;
            return;
        }
    }
    c->of[node->id] = node->id;
    c->last[node->id] = node->id;
}

/* Zeros, and -1 where 0 is an index. There are at most as many calls as nodes, so the array
 * never grows. */
static et_plan_call *add_call(et_plan *plan, const et_node *node)
{
    et_assert(plan->call_count < plan->graph->count);
    et_plan_call *call = &plan->calls[plan->call_count++];
    memset(call, 0, sizeof *call);
    call->node = node;
    call->pack_group = -1;
    for (int i = 0; i < ET_PLAN_GEMMS_MAX; i++)
        call->pack[i] = -1;
    return call;
}

/* How a program reads an input of that shape: element by element, or repeated. */
static et_ew_broadcast broadcast_of(et_shape input, et_shape full)
{
    if (et_shape_equal(input, full))
        return ET_EW_FULL;
    return input.rank == 0 ? ET_EW_ONE : input.rank == 1 ? ET_EW_ROW : ET_EW_COLUMN;
}

/* The values that a chain reads from outside become its program's first registers. The order of
 * first use, which both the registers and call->in follow. may_join has made sure that all have
 * room. */
static void add_program_inputs(const chains *c, et_plan_call *call, int chain)
{
    et_plan *plan = c->plan;
    et_ew_program *program = &call->program;
    for (int id = chain; id <= c->last[chain]; id++) {
        const et_node *node = node_at(c, id);
        if (c->of[id] != chain)
            continue;
        for (int i = 0; i < node->inputs; i++) {
            const et_node *input = node->input[i];
            if (c->of[input->id] == chain)
                continue;
            int at = add_once(call->in, &call->in_count, et_plan_value_of(plan, input));
            program->broadcast[at] = broadcast_of(et_node_shape(input), et_node_shape(node));
            program->input_dtype[at] = et_node_dtype(input);
        }
    }
    program->inputs = call->in_count;
}

/* The register that holds input i of a member: a chain's input, or a member's result. An input
 * of the chain is in call->in, since add_program_inputs put it there. */
static int register_of(const chains *c, const et_plan_call *call, int chain, const et_node *input,
                       const int *registers)
{
    if (c->of[input->id] == chain)
        return registers[input->id - chain];
    int value = et_plan_value_of(c->plan, input);
    int at = 0;
    while (call->in[at] != value)
        at++;
    return at;
}

/* Registers: the chain's inputs first, then one for each member in order. a and b are registers
 * of members before this one or of inputs, so one pass over the program is enough. x is a factor
 * or a rate, site names a dropout's random numbers. The example of the head:
 *
 *     0: a   1: bias   2 = add 0 1   3 = gelu 2   4 = dropout 3      stored: 2 and 4 */
static void add_program_op(const chains *c, et_plan_call *call, const et_node *node, int chain,
                           int *registers)
{
    et_ew_program *program = &call->program;
    et_ew_step *op = &program->step[program->steps];
    *op = (et_ew_step){ .op = et_op_elementwise(node->op), .x = node->attributes.x };
    op->site = node->attributes.site;
    op->a = register_of(c, call, chain, node->input[0], registers);
    if (node->inputs > 1)
        op->b = register_of(c, call, chain, node->input[1], registers);
    op->to = program->inputs + program->steps++;
    registers[node->id - chain] = op->to;
    if (is_read_outside(c, node)) {
        program->output[program->outputs] = op->to;
        program->output_dtype[program->outputs++] = et_node_dtype(node);
        call->out[call->out_count++] = et_plan_value_of(c->plan, node);
    }
}

/* registers: by id from the chain's first member; others between them stay 0 and are not asked.
 * A chain of one member is a program too: every element-wise node runs by the same kernel. */
static int add_chain(chains *c, int chain, et_error *error)
{
    int last = c->last[chain];
    /* Only while the plan is made. */
    int *registers;
    if (ET_ALLOC_ZERO(registers, last - chain + 1, "a plan", error))
        return ET_ENOMEM;
    et_plan_call *call = add_call(c->plan, node_at(c, last));
    add_program_inputs(c, call, chain);
    for (int id = chain; id <= last; id++)
        if (c->of[id] == chain)
            add_program_op(c, call, node_at(c, id), chain, registers);
    et_free(registers);
    return ET_OK;
}

/* In the order of nodes, in which every input comes first; a chain has its last member's
 * position. */
static int add_calls(chains *c, et_error *error)
{
    const et_graph *graph = c->plan->graph;
    for (int id = 0; id < graph->count; id++) {
        const et_node *node = graph->nodes[id];
        /* Nothing runs for a node that is bound, kept, made with the plan, or part of another. */
        if (!c->reached[id] || !c->plan->device->ops[node->op]->run)
            continue;
        int chain = c->of[id], status = ET_OK;
        if (chain < 0) {
            /* The results of a node are adjacent values. RESULT nodes make no call: their values
             * belong to the node that they name. */
            et_plan_call *call = add_call(c->plan, node);
            call->in_count = node->inputs;
            for (int i = 0; i < node->inputs; i++)
                call->in[i] = et_plan_value_of(c->plan, node->input[i]);
            call->out_count = node->results;
            for (int i = 0; i < node->results; i++)
                call->out[i] = et_plan_value_of(c->plan, node) + i;
        } else if (c->last[chain] == id) {
            status = add_chain(c, chain, error);
        }
        if (status)
            return status;
    }
    return ET_OK;
}

/* At most one call a node; the lists are only needed here. of is by node; last is read at a
 * chain's first member only. */
int et_plan_make_calls(et_plan *plan, const bool *reached, et_error *error)
{
    size_t count = (size_t)plan->graph->count, edges = 0;
    for (int id = 0; id < plan->graph->count; id++)
        edges += (size_t)plan->graph->nodes[id]->inputs;
    chains c = { .plan = plan, .reached = reached };
    /* of, last and first_edge are one block. */
    int *lists, status = ET_ENOMEM;
    if (!ET_ALLOC(lists, 3 * count, "a plan", error) &&
        !ET_ALLOC(c.edges, edges, "a plan", error) &&
        !ET_ALLOC_ZERO(c.result, count, "a plan", error) &&
        !ET_ALLOC(plan->calls, count, "a plan", error)) {
        c.of = lists;
        c.last = lists + count;
        c.first_edge = lists + 2 * count;
        /* Readers and results have to be known before the first chain is tried. */
        const et_graph *graph = plan->graph;
        for (int id = 0; id < graph->count; id++)
            c.of[id] = -1;
        find_readers(&c);
        /* Outputs and gradients are read after the run, not by a node. */
        for (int i = 0; i < plan->output_count; i++)
            c.result[plan->values[plan->outputs[i]].node->id] = true;
        for (int i = 0; i < graph->gradient_count; i++)
            c.result[graph->gradients[i].node->id] = true;
        for (int id = 0; id < graph->count; id++)
            if (reached[id] && et_op_is_elementwise(graph->nodes[id]->op))
                find_chain(&c, graph->nodes[id]);
        status = add_calls(&c, error);
    }
    et_free(lists);
    et_free(c.edges);
    et_free(c.result);
    return status;
}
