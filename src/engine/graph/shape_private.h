/* Shape rules, for their own files: reading a node's inputs, setting its results, refusing. A rule
 * sets node->type[], or refuses and returns false. The rules outside shape.c:
 *
 *   shape_elementwise.c   one rule for all rows of elementwise.def
 *   shape_reduce.c        sums over rows and columns, softmax, losses by rows
 *   shape_layout.c        ops that move elements
 *   shape_layers.c        norms of a row's scale and over a batch, convolutions, pooling */
#ifndef ETUDE_ENGINE_GRAPH_SHAPE_PRIVATE_H
#define ETUDE_ENGINE_GRAPH_SHAPE_PRIVATE_H

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "engine/graph/shape.h"
#include "engine/tensor/tensor.h"

/* Type of input number `input`. Every input is one value: further results are separate nodes. */
static inline et_shape shape(const et_node *node, int input)
{
    return node->input[input]->type[0].shape;
}

static inline et_dtype dtype(const et_node *node, int input)
{
    return node->input[input]->type[0].dtype;
}

static inline et_dtype act(const et_node *node)
{
    return node->graph->options.act;
}

/* The node's own value, and after it further results in their order. */
static inline bool set(et_node *node, et_dtype type, et_shape size)
{
    char text[ET_SHAPE_TEXT_MAX];
    if (!et_shape_valid(size)) {
        et_graph_poison(node->graph,
                        "%s (%s): %s is not a shape: sizes are 0 or more, their product below 2^55",
                        node->name, et_op_name(node->op), et_shape_print(size, text));
        return false;
    }
    node->type[0] = (et_result_type){ type, size };
    return true;
}

static inline void add_result(et_node *node, et_dtype type, et_shape size)
{
    et_assert(node->results < ET_NODE_RESULTS_MAX);
    node->type[node->results++] = (et_result_type){ type, size };
}

/* The name of a node in messages: as the program gave it. A generated name, "out/matmul_7", is
 * shown without its number; of the node that is refused, only the scope is shown. */
static inline int name_length(const et_node *node, bool refused)
{
    char end[40];
    const int whole = (int)strlen(node->name);
    const int numbered = snprintf(end, sizeof end, "_%d", node->id);
    const int named = (int)strlen(et_op_name(node->op)) + numbered;
    if (whole < named || strcmp(node->name + whole - numbered, end) != 0 ||
        strncmp(node->name + whole - named, et_op_name(node->op), (size_t)(named - numbered)) != 0)
        return whole;
    const int scope = whole - named;
    return !refused ? whole - numbered : scope ? scope - 1 : 0;
}

/* Names the scope, the op and inputs a and b with their shapes, which may be the same one.
 * Returns false, so that a rule ends in `return refuse(...)`. */
static inline bool refuse(et_node *node, const char *reason, int a, int b)
{
    char left[ET_SHAPE_TEXT_MAX], right[ET_SHAPE_TEXT_MAX];
    const et_node *x = node->input[a], *y = node->input[b];
    const int scope = name_length(node, true);
    et_graph_poison(node->graph, "%.*s (%s): %s: %.*s %s and %.*s %s", scope ? scope : 9,
                    scope ? node->name : "the model", et_op_name(node->op), reason,
                    name_length(x, false), x->name, et_shape_print(shape(node, a), left),
                    name_length(y, false), y->name, et_shape_print(shape(node, b), right));
    return false;
}

#define NOT_FLOAT "not floating-point numbers (et_cast makes whole numbers float32)"

/* Whether input number `input` has values that can be computed with. */
static inline bool is_float(const et_node *node, int input)
{
    return dtype(node, input) == ET_F32 || dtype(node, input) == ET_BF16;
}

static inline bool is_matrix(et_shape s)
{
    return s.rank == 2;
}

/* A sum over nothing, or a cut into no parts, is refused when it is built. */
static inline bool is_empty(et_shape s)
{
    return et_shape_count(s) == 0;
}

/* A bias, scale or offset of `size` columns, or one number for each of `size` rows. */
static inline bool is_vector_of(et_shape s, int64_t size)
{
    return s.rank == 1 && s.size[0] == size;
}

/* Whether an element-wise op repeats `small` over the rows or columns of `full`: [D] for every row,
 * [T, 1] for every column, a scalar for both. */
static inline bool is_repeated(et_shape small, et_shape full)
{
    if (small.rank == 0)
        return true;
    if (full.rank != 2)
        return false;
    return small.rank == 1 ? small.size[0] == full.size[1]
                           : small.rank == 2 && small.size[0] == full.size[0] && small.size[1] == 1;
}

/* The type given by the builder, or by a derivative rule. */
static inline bool leaf(et_node *node)
{
    const et_result_type *type = &node->attributes.leaf;
    if ((unsigned)type->dtype >= ET_U8) {
        et_graph_poison(node->graph, "%s (%s): %d is not an element type", node->name,
                        et_op_name(node->op), (int)type->dtype);
        return false;
    }
    return set(node, type->dtype, type->shape);
}

/* shape_elementwise.c */
bool et_shape_elementwise(et_node *node);

/* shape_reduce.c */
bool et_shape_COLUMN_SUM(et_node *node);
bool et_shape_ROW_SUM(et_node *node);
bool et_shape_SOFTMAX(et_node *node);
bool et_shape_LOG_SOFTMAX(et_node *node);
bool et_shape_CROSS_ENTROPY(et_node *node);
bool et_shape_LABELLED(et_node *node);

/* shape_layout.c */
bool et_shape_RESHAPE(et_node *node);
bool et_shape_CONCATENATE(et_node *node);
bool et_shape_SLICE(et_node *node);
bool et_shape_GATHER(et_node *node);
bool et_shape_ONE_HOT(et_node *node);
bool et_shape_CAST(et_node *node);
bool et_shape_EMBED_COLUMNS(et_node *node);
bool et_shape_BERNOULLI(et_node *node);

/* shape_layers.c */
bool et_shape_SCALED_COPIES(et_node *node);
bool et_shape_SCALED_COPIES_GRAD(et_node *node);
bool et_shape_RMS_NORM(et_node *node);
bool et_shape_RMS_NORM_GRAD(et_node *node);
bool et_shape_BATCH_NORM(et_node *node);
bool et_shape_BATCH_NORM_GRAD(et_node *node);
bool et_shape_CONVOLUTION(et_node *node);
bool et_shape_MAX_POOL(et_node *node);
bool et_shape_MEAN_POOL(et_node *node);

#endif
