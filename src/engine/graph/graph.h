/* Graphs, for exec: the node and the op table, and functions beyond <etude/graph.h> and
 * <etude/ops.h>: making and deriving graphs.
 *
 * Invariants: (1) a node's inputs have smaller ids than the node: creation order is a topological
 * order; (2) every node is reached through its graph's list; (3) a poison node is never an input:
 * builders return poison instead. */
#ifndef ETUDE_ENGINE_GRAPH_GRAPH_H
#define ETUDE_ENGINE_GRAPH_GRAPH_H

#include <etude/data.h>
#include <etude/graph.h>
#include <etude/ops.h>
#include <etude/ops_image.h>
#include <etude/ops_layout.h>
#include <etude/ops_random.h>
#include <etude/pass.h>

#include "base/arena.h"
#include "base/map.h"
#include "engine/kernel/elementwise.h"

typedef struct et_graph_options {
    bool training; /* dropout acts; derivatives may be asked for */
    et_dtype act;  /* ET_F32 or ET_BF16: type of activations and of products' inputs */
    et_recompute recompute;
} et_graph_options;

#define ET_GRAPH_OPTIONS_INIT                                                                      \
    {                                                                                              \
        false, ET_F32, ET_RECOMPUTE_CHEAP                                                          \
    }

/* A graph that declares its parameters in a store. The store must outlive the graph. options NULL:
 * the defaults. ET_ECONFIG: an option has an invalid value. */
int et_graph_new(et_graph **out, et_params *params, const et_graph_options *options,
                 et_error *error);
void et_graph_free(et_graph *graph);

/* Reports what building recorded first: ET_EGRAPH or ET_ENOMEM, else 0. */
int et_graph_finish(const et_graph *graph, et_error *error);

et_scope *et_graph_scope(et_graph *graph); /* the root */

/* ET_OP_INPUT and so on, in the table's order; those of elementwise.def are a range, in the order
 * of et_ew_op. */
typedef enum et_op {
#define X(id, name, fewest, most) ET_OP_##id,
#include "engine/graph/ops.def"
#undef X
    ET_OP_COUNT,
} et_op;

/* The most that a row of ops.def has: CONCATENATE's inputs; a loss or a norm's derivative
 * with three results. */
#define ET_NODE_INPUTS_MAX  8
#define ET_NODE_RESULTS_MAX 4

typedef struct et_result_type {
    et_dtype dtype;
    et_shape shape;
} et_result_type;

/* first, first + step, ... */
typedef struct et_progression {
    int32_t first, step;
} et_progression;

/* Part of the sizes along one dimension: from first on, count of them. */
typedef struct et_axis_range {
    int axis;
    int64_t first, count;
} et_axis_range;

static inline int64_t et_matmul_groups(const et_matmul_options *options)
{
    return options->groups > 1 ? options->groups : 1;
}

/* Attributes of an op in addition to its inputs; the op decides which member counts. */
typedef struct et_attributes {
    et_result_type leaf; /* INPUT, PARAM, POSITIONS, INTEGERS, COPY, NOISE, RESHAPE, and derivatives
                            whose result has the type of no input: the type */
    int param;           /* PARAM: index in the store */
    int result;          /* RESULT: which one, from 1 */
    float x;             /* element-wise: the formula's constant; DROPOUT: rate;
                            norms: epsilon; EMBEDDING: scale; losses: smoothing */
    uint32_t site;       /* DROPOUT, ATTENTION, NOISE, BERNOULLI, CANDIDATES: names the random
                            numbers */
    union {
        et_matmul_options matmul;
        et_attention_options attention;
        et_convolution_options convolution; /* and its derivatives; relu: of the op alone */
        et_pool_options pool;               /* and its derivative */
        et_progression progression;         /* INTEGERS */
        et_axis_range along;                /* CONCATENATE, SLICE, SLICE_GRAD */
        const et_column *columns;           /* EMBED_COLUMNS: [count], in the arena */
    };
    float agreement; /* VOCABULARY_LOSS of two draws: the weight of their divergence */
    int count;       /* VOCABULARY_BEST: pieces of each row; ONE_HOT: depth; CANDIDATES: how many */
    int64_t classes; /* CANDIDATES: the number of all classes */
    bool offset;     /* VOCABULARY_LOSS: input 3 is added to logits, by column */
    bool open;       /* POSITIONS: as at et_sinusoid_open */
    bool self;       /* ATTENTION: q and kv are one matrix. CACHED_ATTENTION: q has the new k and v
                        as well, and input 2 is their slot */
    et_recompute recomputable; /* least setting with which the node is recomputed: MARKED or LAYERS;
                                  0: never */
    bool again; /* recomputed for the backward pass; chains of such nodes are not fused with others
                 */
    bool gradient; /* losses: their derivatives are wanted */
    bool given;    /* BATCH_NORM_GRAD: statistics are not the batch's own */
} et_attributes;

struct et_node {
    et_graph *graph;
    int id; /* place in graph->nodes; -1: poison */
    et_op op;
    bool of_batch;       /* inputs or random numbers are in it, not only parameters */
    const char *name;    /* full name, in the graph's arena */
    int inputs, results; /* how many of input[] and type[] are in use */
    et_node *input[ET_NODE_INPUTS_MAX];
    et_attributes attributes;
    et_result_type type[ET_NODE_RESULTS_MAX]; /* [0]: the node's own value */
};

/* d(loss)/d(parameter). */
typedef struct et_param_gradient {
    int param;
    et_node *node; /* float32, of the parameter's shape */
} et_param_gradient;

/* The input that is 1, or the factor of all gradients. */
#define ET_GRAPH_ONE "d(loss)"

/* A model function's marks of nodes: see <etude/pass.h>. */
typedef enum et_mark_kind {
    ET_MARK_LOSS, /* is derived, and measured */
    ET_MARK_MEASURE,
    ET_MARK_OUTPUT,
    ET_MARK_MEAN,
} et_mark_kind;

/* total and weight are float32 scalars, or one element of a loss's sums. */
typedef struct et_mark {
    et_mark_kind kind;
    const char *name;
    et_node *node, *weight; /* the measured node, and its weight; NULL: `constant` */
    int element, weight_element;
    double constant;
    et_node *root; /* ET_MARK_LOSS: the node to differentiate: a loss with sums, or a scalar that
                    * includes the factor already */
    float factor;  /* of the loss, in root already but of one with sums; of ET_MARK_MEAN:
                      momentum */
    int variable;  /* ET_MARK_MEAN: index in the store */
    struct et_mark *next;
} et_mark;

struct et_scope {
    et_graph *graph;
    const char *prefix; /* "" or "a/b/" */
    const char *draw;   /* "" or "second/": before the prefix in names of random numbers */
    bool fixed;         /* parameters are variables that begin with zeros */
    et_scope *inner;    /* the last one made in it */
    et_scope *next;     /* the one made before, in the same scope */
};

struct et_graph {
    et_arena arena;    /* nodes, scopes, names, gradients */
    et_params *params; /* borrowed */
    et_graph_options options;
    et_scope root;     /* prefix "" */
    et_scope *entered; /* names nodes without a name */
    et_node **nodes;   /* [count] in use of [capacity], by id; forward nodes first */
    int count;
    size_t capacity;
    et_node **param_nodes; /* [param_capacity], by index in the store; NULL: not used here */
    size_t param_capacity;
    et_map drawn;                 /* how many dropouts or attentions have asked for a name */
    et_param_gradient *gradients; /* [gradient_count]; NULL before et_graph_derive */
    int gradient_count;
    const et_layout *layout;     /* of the batches; NULL: inputs are bound by hand */
    et_mark *marks, **last_mark; /* in order of making */
    et_error error;              /* the first one; status 0: none */
    et_node poison;              /* what builders return once something is wrong */
};

/* Adds the nodes of d(loss)/d(parameter) for every parameter p with derive[p] (NULL: all) on which
 * the loss depends. The loss is the sum of all ET_MARK_LOSS. scale: a scalar factor on all
 * derivatives, or NULL. Once per graph. */
int et_graph_derive(et_graph *graph, const bool *derive, et_node *scale, et_error *error);

/* Records the first error of a graph (printf format); returns its poison node. */
et_node *et_graph_poison(et_graph *graph, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same for memory: ET_ENOMEM. */
et_node *et_graph_out_of_memory(et_graph *graph);

/* False, and recorded: name is NULL or empty. */
bool et_has_name(et_scope *scope, const char *name);

bool et_node_is_poison(const et_node *node);

/* Element-wise: exec fuses chains of these. The kernels' name of one. */
bool et_op_is_elementwise(et_op op);
et_ew_op et_op_elementwise(et_op op);

/* Whether a VOCABULARY_LOSS has its rows twice (R-Drop), as inputs 0 and 3. */
bool et_loss_of_two_draws(const et_node *node);

/* "layer_norm". Static. */
const char *et_op_name(et_op op);

/* Whether a node of this op may have so many inputs. */
bool et_op_takes(et_op op, int inputs);

et_graph *et_scope_graph(const et_scope *scope);
et_dtype et_graph_act(const et_graph *graph); /* type of activations */
et_dtype et_node_dtype(const et_node *node);

/* The same scope, with its inputs and parameters, but another draw of dropout and noise for each
 * name. */
et_scope *et_in_draw(et_scope *scope, const char *name);

/* The scope scope/name, in which et_param declares variables that begin with zeros, for a copy of a
 * model that no update changes. */
et_scope *et_in_fixed(et_scope *scope, const char *name);

/* The layout of the batches that the graph is for. */
const et_layout *et_scope_layout(const et_scope *scope);

#endif
