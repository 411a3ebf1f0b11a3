/* Blocks: layers made of the layers of layers.c. */
#include <limits.h>

#include <etude/layers.h>

#include "engine/graph/build.h"
#include "engine/graph/graph.h"

et_node *et_embedding_table(et_scope *scope, et_node *ids, int64_t rows, int64_t width)
{
    const et_init init = { ET_INIT_UNIFORM, 0.05f };
    et_node *table = et_param(scope, "table", et_shape_2(rows, width), init);
    et_scope *before = et_scope_enter(scope);
    const et_shape shape = et_node_shape(ids);
    et_node *all = shape.rank == 1 ? ids : et_reshape(ids, et_shape_1(et_shape_count(shape)));
    et_node *y = et_embedding(all, table, 1, NULL, NULL);
    et_scope_enter(before);
    return y;
}

et_node *et_flatten(et_node *x)
{
    const et_shape shape = et_node_shape(x);
    if (shape.rank < 1)
        return et_graph_poison(x->graph, "%s: a scalar cannot be flattened", x->name);
    const int64_t rows = shape.size[0];
    return shape.rank == 2 ? x : et_reshape(x, et_shape_2(rows, et_shape_count(shape) / rows));
}

/* Checks a block's input. Poison: the input is wrong; NULL: it is valid. */
static et_node *check_block(const et_scope *scope, et_node *x, int64_t length, int heads,
                            const et_attention_block_options *o)
{
    const et_shape shape = et_node_shape(x);
    char text[ET_SHAPE_TEXT_MAX];
    if (shape.rank != 2)
        return et_graph_poison(x->graph, "%sattention block: x is %s; give rows of numbers, [T, D]",
                               scope->prefix, et_shape_print(shape, text));
    if (length < 1 || length > INT_MAX || shape.size[0] % length)
        return et_graph_poison(x->graph,
                               "%sattention block: sequences of %lld rows do not divide %lld rows",
                               scope->prefix, (long long)length, (long long)shape.size[0]);
    if (heads < 1 || shape.size[1] % heads)
        return et_graph_poison(x->graph,
                               "%sattention block: %d heads do not divide a width of %lld",
                               scope->prefix, heads, (long long)shape.size[1]);
    if (o->units < 0)
        return et_graph_poison(x->graph, "%sattention block: %lld units: give at least 1, or 0",
                               scope->prefix, (long long)o->units);
    return NULL;
}

et_node *et_attention_block(et_scope *scope, et_node *x, int64_t length,
                            const et_attention_block_options *options)
{
    static const et_attention_block_options defaults = { 0 };
    const et_attention_block_options *o = options ? options : &defaults;
    const et_dense_options plain = { .no_bias = true }, gelu = { .activation = ET_ACTIVATION_GELU };
    const et_attention_options attention = { .heads = o->heads ? o->heads : 1,
                                             .causal = o->causal,
                                             .rate = o->dropout,
                                             .longest_key = (int)length };
    et_node *wrong = check_block(scope, x, length, attention.heads, o);
    if (wrong)
        return wrong;
    const int64_t rows = et_node_shape(x).size[0], width = et_node_shape(x).size[1];
    et_scope *before = et_scope_enter(scope);
    et_node *offsets = et_integers(scope, 0, rows / length + 1, length);
    et_node *qkv = et_norm(et_at(scope, "norm", 0), x, 1e-6f);
    qkv = et_dense_with(et_in(scope, "qkv"), qkv, 3 * width, &plain);
    et_node *h = et_attention(scope, qkv, qkv, offsets, offsets, &attention);
    h = et_dense(et_in(scope, "mixed"), h, width);
    x = et_add(x, et_dropout(scope, h, o->dropout));
    h = et_norm(et_at(scope, "norm", 1), x, 1e-6f);
    h = et_dense_with(et_in(scope, "hidden"), h, o->units ? o->units : 4 * width, &gelu);
    h = et_dense(et_in(scope, "out"), h, width);
    x = et_add(x, et_dropout(scope, h, o->dropout));
    et_scope_enter(before);
    return x;
}
