/* The graph: a list that only grows. It is in topological order (invariant 1 of graph.h) without
 * cost, because a builder can only use existing nodes. Derivative nodes are appended to the same
 * list, so forward and backward are one graph for exec.
 *
 * Memory: nodes, scopes and names are in the graph's arena and live as long as the graph. The array
 * of pointers grows outside, because an arena cannot free.
 *
 * Errors: the graph keeps the first one, where et_graph_finish finds it; all later ones are its
 * consequences. A builder that gets poison returns poison without another error. */
#include "engine/graph/graph.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"

/* The op table as data, a row for each op; ops.def explains the columns. All properties of an op
 * are looked up here. */
static const struct {
    const char *name;
    int fewest, most;
} ops[ET_OP_COUNT] = {
#define X(id, name, fewest, most) [ET_OP_##id] = { name, fewest, most },
#include "engine/graph/ops.def"
#undef X
};

const char *et_op_name(et_op op)
{
    et_assert((unsigned)op < ET_OP_COUNT);
    return ops[op].name;
}

bool et_op_takes(et_op op, int inputs)
{
    et_assert((unsigned)op < ET_OP_COUNT);
    return inputs >= ops[op].fewest && inputs <= ops[op].most;
}

#define FIRST_ELEMENTWISE ET_OP_ADD

/* Both enums are made from elementwise.def, one after another. */
#define ELEMENTWISE(id, name, inputs, reads, formula, da, db)                                      \
    static_assert((int)ET_OP_##id - (int)FIRST_ELEMENTWISE == (int)ET_EW_##id, "order");
#include "engine/kernel/elementwise.def"
#undef ELEMENTWISE

bool et_op_is_elementwise(et_op op)
{
    return op >= FIRST_ELEMENTWISE && (int)op < (int)FIRST_ELEMENTWISE + (int)ET_EW_OP_COUNT;
}

et_ew_op et_op_elementwise(et_op op)
{
    et_assert(et_op_is_elementwise(op));
    return (et_ew_op)((int)op - (int)FIRST_ELEMENTWISE);
}

bool et_loss_of_two_draws(const et_node *node)
{
    et_assert(node->op == ET_OP_VOCABULARY_LOSS);
    return node->inputs == 4 && !node->attributes.offset;
}

/* The poison node is a member of the graph, so returning it cannot fail. Its id -1 is in no list;
 * its type is a float32 scalar, which is safe to read for code that does not check. */
int et_graph_new(et_graph **out, et_params *params, const et_graph_options *options,
                 et_error *error)
{
    /* NULL: a float32 graph for evaluation. */
    static const et_graph_options defaults = ET_GRAPH_OPTIONS_INIT;
    et_assert(params);
    *out = NULL;
    if (options && options->act != ET_F32 && options->act != ET_BF16)
        return et_fail(error, ET_ECONFIG,
                       "a graph's activations: type %d; choose float32 or bfloat16",
                       (int)options->act);
    if (options && (unsigned)options->recompute > ET_RECOMPUTE_LAYERS)
        return et_fail(error, ET_ECONFIG, "a graph's recompute: %d is not an et_recompute",
                       (int)options->recompute);
    if (ET_ALLOC_ZERO(*out, 1, "a graph", error))
        return ET_ENOMEM;
    et_graph *graph = *out;
    graph->params = params;
    graph->options = options ? *options : defaults;
    graph->poison = (et_node){ .graph = graph, .id = -1, .name = "poison", .results = 1 };
    graph->root = (et_scope){ .graph = graph, .prefix = "", .draw = "" };
    graph->entered = &graph->root;
    graph->last_mark = &graph->marks;
    return ET_OK;
}

/* Nodes, scopes and names go with the arena; the store is the caller's. */
void et_graph_free(et_graph *graph)
{
    if (!graph)
        return;
    et_arena_release(&graph->arena);
    et_map_release(&graph->drawn);
    et_free(graph->nodes);
    et_free(graph->param_nodes);
    et_free(graph);
}

/* May be asked at any time and again: the error stays. */
int et_graph_finish(const et_graph *graph, et_error *error)
{
    if (graph->error.status && error)
        *error = graph->error;
    return graph->error.status;
}

/* Formats the message only if it is kept. Returns poison, so that a builder can end with `return
 * et_graph_poison(...)`. */
et_node *et_graph_poison(et_graph *graph, const char *format, ...)
{
    if (!graph->error.status) {
        char text[ET_ERROR_TEXT_MAX];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        et_fail(&graph->error, ET_EGRAPH, "%s", text);
    }
    return &graph->poison;
}

et_node *et_graph_out_of_memory(et_graph *graph)
{
    if (!graph->error.status)
        et_alloc_failed(&graph->error, "a graph's node");
    return &graph->poison;
}

/* By address: every graph has one. */
bool et_node_is_poison(const et_node *node)
{
    return node == &node->graph->poison;
}

et_scope *et_graph_scope(et_graph *graph)
{
    return &graph->root;
}

et_graph *et_scope_graph(const et_scope *scope)
{
    return scope->graph;
}

bool et_scope_training(const et_scope *scope)
{
    return scope->graph->options.training;
}

et_dtype et_graph_act(const et_graph *graph)
{
    return graph->options.act;
}

/* The scope with this prefix and draw (NULL: no memory) in parent; the same scope at each call.
 * Without memory it returns the parent scope, so that building continues to its end, where the
 * error is reported. */
static et_scope *scope_in(et_scope *parent, const char *prefix, const char *draw, bool fixed)
{
    et_graph *graph = parent->graph;
    for (et_scope *s = prefix && draw ? parent->inner : NULL; s; s = s->next)
        if (!strcmp(s->prefix, prefix) && !strcmp(s->draw, draw) && s->fixed == fixed)
            return s;
    et_scope *scope = prefix && draw ? et_arena_alloc(&graph->arena, sizeof *scope) : NULL;
    if (!scope) {
        et_graph_out_of_memory(graph);
        return parent;
    }
    *scope = (et_scope){ graph, prefix, draw, fixed, NULL, parent->inner };
    parent->inner = scope;
    return scope;
}

bool et_has_name(et_scope *scope, const char *name)
{
    if (!name || !*name)
        et_graph_poison(scope->graph, "%sNULL or \"\": the name is missing", scope->prefix);
    return name && *name;
}

static et_scope *in(et_scope *scope, const char *name, bool fixed)
{
    if (!et_has_name(scope, name))
        return scope;
    return scope_in(scope, et_arena_printf(&scope->graph->arena, "%s%s/", scope->prefix, name),
                    scope->draw, fixed);
}

/* Prefixes are whole paths, built once here: naming a node is then one concatenation. */
et_scope *et_in(et_scope *scope, const char *name)
{
    return in(scope, name, scope->fixed);
}

et_scope *et_at(et_scope *scope, const char *name, int index)
{
    if (!et_has_name(scope, name))
        return scope;
    return scope_in(scope,
                    et_arena_printf(&scope->graph->arena, "%s%s_%d/", scope->prefix, name, index),
                    scope->draw, scope->fixed);
}

et_scope *et_in_draw(et_scope *scope, const char *name)
{
    if (!et_has_name(scope, name))
        return scope;
    return scope_in(scope, scope->prefix,
                    et_arena_printf(&scope->graph->arena, "%s%s/", scope->draw, name),
                    scope->fixed);
}

et_scope *et_in_fixed(et_scope *scope, const char *name)
{
    return in(scope, name, true);
}

et_scope *et_scope_enter(et_scope *scope)
{
    et_scope *before = scope->graph->entered;
    scope->graph->entered = scope;
    return before;
}

/* The shape of result 0. Poison has a scalar's, so a layer may compute with it; the error is
 * reported at the end. */
et_shape et_node_shape(const et_node *node)
{
    return node->type[0].shape;
}

et_dtype et_node_dtype(const et_node *node)
{
    return node->type[0].dtype;
}

const char *et_node_name(const et_node *node)
{
    return node->name;
}
