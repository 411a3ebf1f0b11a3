/* Derivative rules, graph to graph: one function per op. Given dy = d(loss)/d(result), the function
 * adds the nodes of d(loss)/d(input) for each input that has a derivative. Nodes are visited from
 * the loss backwards; a node used several times gets the sum. (Reverse accumulation: Griewank and
 * Walther, "Evaluating derivatives", 2008, chapter 3.) The work is that of a few forward passes for
 * any number of parameters.
 *
 * Several contributions to a parameter are added as well. An embedding's contribution is added into
 * the existing one (EMBEDDING_GRAD's base), so a tied table has one gradient buffer.
 *
 * Invariants:
 *
 *   (1) when node i is visited, all nodes that read it have been visited (inputs have smaller
 *       ids), so of[i] is complete;
 *   (2) of[i] stays NULL for a node that depends on no parameter: ids, labels, offsets and nodes
 *       computed only from them;
 *   (3) a rule reads forward nodes and adds new ones after them; of and needed have entries only
 *       for the forward ones, so there are no derivatives of derivatives;
 *   (4) a rule reads a forward value through value(), which may rematerialize it.
 *
 * Example, loss = sum(w x + b): SUM gives FILL(one), the shape of the product; MATMUL with its bias
 * gives x^T FILL to w and COLUMN_SUM(FILL) to b, and nothing to x, an input.
 *
 * To write a rule: give() every input its part; call is_needed() first if making it adds a node;
 * end with not_differentiable() if there is no derivative. */
#include <etude/ops.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "engine/graph/build.h"
#include "engine/graph/graph.h"
#include "engine/graph/node.h"

/* ---- rematerialization ---- */

/* Rematerialization: derivatives compute values again, so that the values need not stay live from
 * the forward pass (Chen et al. 2016, "Training deep nets with sublinear memory cost"). The same op
 * on the same inputs gives the same bits, so only memory and time can change.
 *
 * There are three ways, all used by the derivative rules below:
 *
 *   - a node is added again at its first late reader (rematerialize);
 *   - the sign of a relu's result is read from its dropout, which is kept for the next product
 *     anyway: if dropout removed an element, its derivative is 0 in both cases
 *     (rematerialize_sign);
 *   - a norm's result is computed by the norm's derivative, which reads x already; the product
 *     that needs the result waits for the derivative (rematerialize_waits).
 *
 * The graph's option `recompute` decides which ways are used. */

/* The inputs of an op's derivative from the forward pass; for unlisted ops INPUTS, which is true of
 * most. */
typedef enum op_reads { READS_NOTHING, READS_INPUTS, READS_RESULT } op_reads;

static op_reads derivative_reads(et_op op)
{
    static const op_reads reads_of[ET_OP_COUNT] = {
#define ELEMENTWISE(id, name, inputs, reads, formula, da, db) [ET_OP_##id] = READS_##reads,
#define X(id, name, fewest, most)                             [ET_OP_##id] = READS_INPUTS,
#include "engine/graph/ops.def"
#undef X
    };
    et_assert((unsigned)op < ET_OP_COUNT);
    switch (op) {
    case ET_OP_SUM:
    case ET_OP_COLUMN_SUM:
    case ET_OP_ROW_SUM:
    case ET_OP_RESHAPE:
    case ET_OP_CONCATENATE:
    case ET_OP_SLICE:
    case ET_OP_GATHER:
    case ET_OP_MEAN_POOL:
        return READS_NOTHING;
    default:
        return reads_of[op];
    }
}

/* How the forward graph reads a node. */
typedef struct node_use {
    int readers, values;          /* values: readers whose derivative reads the node's value */
    const et_node *reader, *user; /* the last of each */
} node_use;

typedef struct rematerializer {
    et_graph *graph;
    int count;       /* nodes of the forward graph, before rematerialized ones */
    node_use *use;   /* [count] */
    et_node **again; /* [count]: the one rematerialized; NULL: not, or not yet */
} rematerializer;

/* ET_ENOMEM, or 0. The graph must stay. Release in any case. */
static int rematerialize_init(rematerializer *r, et_graph *graph, et_error *error)
{
    *r = (rematerializer){ .graph = graph, .count = graph->count };
    if (ET_ALLOC_ZERO(r->use, graph->count, "gradients", error) ||
        ET_ALLOC_ZERO(r->again, graph->count, "gradients", error))
        return ET_ENOMEM;
    for (int i = 0; i < r->count; i++) {
        const et_node *node = r->graph->nodes[i];
        for (int k = 0; k < node->inputs; k++) {
            node_use *use = &r->use[node->input[k]->id];
            use->readers++;
            use->reader = node;
            if (derivative_reads(node->op) == READS_NOTHING)
                continue;
            use->values++;
            use->user = node;
        }
    }
    return ET_OK;
}

/* Whether node is a norm whose derivative rematerializes it for the only product that reads the
 * norm; other readers are sums. The product's weight gradient is then made after the derivative.
 * There must be only one product: several products (of the encoder's result) are far apart, and
 * their waiting operands would outlive the norm. The product's other operand is visited after the
 * norm, with which its gradient comes. */
static bool rematerialize_waits(const rematerializer *r, const et_node *node)
{
    if (r->graph->options.recompute == ET_RECOMPUTE_NONE || node->id >= r->count ||
        node->op != ET_OP_LAYER_NORM || r->again[node->id])
        return false;
    const node_use *use = &r->use[node->id];
    if (use->values != 1 || use->user->op != ET_OP_MATMUL || use->user->input[0] != node)
        return false;
    const et_node *other = use->user->input[1];
    return other->op == ET_OP_PARAM || other->id < node->id;
}

/* Whether node may be rematerialized by its own op: it was marked, or the derivative reads its
 * input anyway and a pass over memory is cheap.
 *
 * exec runs chains of element-wise nodes without rounding in between. So an element-wise node is
 * rematerialized only together with the whole chain before it, and the same chain runs again. */
static bool is_rematerialized(const rematerializer *r, const et_node *node)
{
    et_recompute mode = r->graph->options.recompute;
    if (mode == ET_RECOMPUTE_NONE || node->id >= r->count)
        return false;
    if (!et_op_is_elementwise(node->op) || node->inputs > 1)
        return node->attributes.recomputable && mode >= node->attributes.recomputable;
    const et_node *input = node->input[0];
    bool input_stays = derivative_reads(node->op) == READS_INPUTS;
    return (input_stays && !et_op_is_elementwise(input->op)) || is_rematerialized(r, input);
}

/* Returns the node that a derivative reads for a forward node's value: the node itself, or its
 * rematerialized copy, which the first call adds. always: the copy. A norm that the node reads is
 * rematerialized as well, because the norm's derivative comes too late. */
static et_node *rematerialize(rematerializer *r, et_node *node, bool always)
{
    et_node *inputs[ET_NODE_INPUTS_MAX];
    et_assert(node->id < r->count);
    if (r->again[node->id])
        return r->again[node->id];
    if (!always && !is_rematerialized(r, node))
        return node;
    for (int i = 0; i < node->inputs; i++)
        inputs[i] = rematerialize(r, node->input[i], rematerialize_waits(r, node->input[i]));
    et_attributes attributes = node->attributes;
    attributes.again = true;
    r->again[node->id] = et_node_add(r->graph, node->op, NULL, inputs, node->inputs, &attributes);
    return r->again[node->id];
}

/* A node with the signs of a relu's result: positive where node's value is positive. Signs of
 * dropped elements may differ, because their derivative is 0 anyway. */
static et_node *rematerialize_sign(rematerializer *r, et_node *node)
{
    const node_use *use = &r->use[node->id];
    bool dropped = use->readers == 1 && use->reader->op == ET_OP_DROPOUT;
    if (r->graph->options.recompute == ET_RECOMPUTE_NONE || !dropped)
        return rematerialize(r, node, false);
    return rematerialize(r, r->graph->nodes[use->reader->id], false);
}

/* ---- the pass from the loss backwards ---- */

/* A product whose weight gradient waits until the norm that it reads is rematerialized. */
typedef struct waiting {
    et_node *product, *dy;
} waiting;

typedef struct gradients {
    et_graph *graph;
    const bool *derive; /* [parameters]; NULL: by all */
    et_node *scale;     /* a scalar, NULL: 1 */
    bool is_root;       /* the node whose rule is called is a loss's, */
    float factor;       /* sum of the factors of all losses with this root */
    et_node **of;       /* [count]: d(loss)/d(node), NULL: none yet */
    bool *needed;       /* [count]: whether the node depends on a parameter */
    waiting *waiting;   /* [count]: by norm */
    int count;          /* nodes of the forward graph */
    rematerializer rematerialize;
} gradients;

/* Nodes made by rules (id from count on) are never differentiated again. */
static bool is_needed(const gradients *g, const et_node *node)
{
    return node->id < g->count && g->needed[node->id];
}

/* The value of a forward node, for a derivative. */
static et_node *value(gradients *g, et_node *node)
{
    return rematerialize(&g->rematerialize, node, false);
}

/* Adds gradient to the known part of d(loss)/d(node). The first gradient is kept, without an
 * addition to zero; later gradients are added in the order of visits, which is always the same. */
static void give(gradients *g, et_node *node, et_node *gradient)
{
    if (!is_needed(g, node))
        return;
    et_assert(et_node_is_poison(gradient) ||
              et_shape_equal(node->type[0].shape, gradient->type[0].shape));
    et_node **known = &g->of[node->id];
    if (!*known)
        *known = gradient;
    else
        *known = et_add(*known, gradient);
}

/* Leaves have no inputs to pass anything on to; a sample passes nothing on. */
static void grad_nothing(gradients *g, et_node *node, et_node *dy)
{
    (void)g, (void)node, (void)dy;
}

#define grad_INPUT      grad_nothing
#define grad_PARAM      grad_nothing
#define grad_POSITIONS  grad_nothing
#define grad_INTEGERS   grad_nothing
#define grad_ONE_HOT    grad_nothing
#define grad_CAST       grad_nothing
#define grad_NOISE      grad_nothing
#define grad_BERNOULLI  grad_nothing
#define grad_CANDIDATES grad_nothing

/* For ops that only derivatives or decoding use. A model with such an op in its loss is an error of
 * its author, so this poisons the graph and does not abort. */
static void not_differentiable(gradients *g, et_node *node, et_node *dy)
{
    (void)dy;
    et_graph_poison(g->graph, "%s: %s has no derivative", node->name, et_op_name(node->op));
}

#define grad_RESULT                  not_differentiable
#define grad_FILL                    not_differentiable
#define grad_LAYER_NORM_GRAD         not_differentiable
#define grad_EMBEDDING_GRAD          not_differentiable
#define grad_ATTENTION_GRAD          not_differentiable
#define grad_CACHED_ATTENTION        not_differentiable
#define grad_RECURRENCE_GRAD         not_differentiable
#define grad_VOCABULARY_BEST         not_differentiable
#define grad_LABELLED                not_differentiable
#define grad_SLICE_GRAD              not_differentiable
#define grad_GATHER_GRAD             not_differentiable
#define grad_EMBED_COLUMNS_GRAD      not_differentiable
#define grad_SCALED_COPIES_GRAD      not_differentiable
#define grad_RMS_NORM_GRAD           not_differentiable
#define grad_BATCH_NORM_GRAD         not_differentiable
#define grad_CONVOLUTION_GRAD        not_differentiable
#define grad_CONVOLUTION_WEIGHT_GRAD not_differentiable
#define grad_POOL_GRAD               not_differentiable

/* y = sum of x: every element of dx is dy. */
static void grad_SUM(gradients *g, et_node *node, et_node *dy)
{
    give(g, node->input[0], et_node_binary(ET_OP_FILL, dy, node->input[0]));
}

/* A product of stored matrices, with transposes as flags, so nothing is copied. f32: the result is
 * float32. */
static et_node *product(et_node *a, bool transpose_a, et_node *b, bool transpose_b, bool f32,
                        int64_t groups)
{
    et_matmul_options options = {
        .transpose_a = transpose_a, .transpose_b = transpose_b, .f32 = f32, .groups = groups
    };
    return et_matmul(a, b, NULL, &options);
}

/* C = A B: dA = dC B^T, dB = A^T dC; with A or B stored transposed, the transposes of these (dA^T =
 * B dC^T, dB^T = dC^T A). A parameter's derivative is float32 whatever the activations' type; an
 * activation's has its own type. The derivatives have the same groups. */
static et_node *left_gradient(et_node *node, et_node *b, et_node *dy)
{
    const et_matmul_options *o = &node->attributes.matmul;
    bool f32 = node->input[0]->type[0].dtype == ET_F32;
    return o->transpose_a ? product(b, o->transpose_b, dy, true, f32, o->groups)
                          : product(dy, false, b, !o->transpose_b, f32, o->groups);
}

static et_node *right_gradient(et_node *node, et_node *a, et_node *dy)
{
    const et_matmul_options *o = &node->attributes.matmul;
    bool f32 = node->input[1]->type[0].dtype == ET_F32;
    return o->transpose_b ? product(dy, true, a, o->transpose_a, f32, o->groups)
                          : product(a, !o->transpose_a, dy, false, f32, o->groups);
}

/* Whether a, the left operand of a product, is a concatenation of which at most half of the columns
 * need a derivative. Example: a parameter's table next to numbers. */
static bool needs_few_columns(const gradients *g, const et_node *node)
{
    const et_node *a = node->input[0], *b = node->input[1];
    int64_t needed = 0;
    if (a->op != ET_OP_CONCATENATE || a->attributes.along.axis != 1 ||
        node->attributes.matmul.transpose_a || et_matmul_groups(&node->attributes.matmul) > 1 ||
        a->type[0].dtype != b->type[0].dtype)
        return false;
    for (int i = 0; i < a->inputs; i++)
        needed += is_needed(g, a->input[i]) ? a->input[i]->type[0].shape.size[1] : 0;
    return 2 * needed <= a->type[0].shape.size[1];
}

/* dA = dC B^T for these columns only: copies each part's rows of B (columns, if B is stored
 * transposed), which are few numbers, and multiplies. */
static void give_columns(gradients *g, et_node *node, et_node *dy)
{
    const et_node *a = node->input[0];
    const bool transposed = node->attributes.matmul.transpose_b;
    et_node *b = value(g, node->input[1]);
    int64_t first = 0;
    for (int i = 0; i < a->inputs; i++) {
        et_node *part = a->input[i];
        const int64_t count = part->type[0].shape.size[1];
        if (is_needed(g, part) && count) {
            et_node *rows =
                transposed ? et_slice_columns(b, first, count) : et_slice_rows(b, first, count);
            give(g, part, left_gradient(node, rows, dy));
        }
        first += count;
    }
}

/* Undoes the relu inside a product first: C > 0 shows where the relu passed its input, and the bias
 * was added before it. The right operand's derivative, usually a weight's, comes before the left's:
 * the left operand is dead then. If the left is a norm that will be rematerialized, the right's
 * comes with that.
 */
static void grad_MATMUL(gradients *g, et_node *node, et_node *dy)
{
    et_node *a = node->input[0], *b = node->input[1];
    const et_dtype act = g->graph->options.act;
    if (node->attributes.matmul.relu)
        dy = et_node_binary(ET_OP_RELU_GRAD, dy, rematerialize_sign(&g->rematerialize, node));
    if (node->inputs == 3 && is_needed(g, node->input[2]))
        give(g, node->input[2], et_node_of(g->graph, ET_OP_COLUMN_SUM, NULL, dy));
    if (dy->type[0].dtype != act) /* of a result in float32: products read activations */
        dy = et_copy(dy, act, dy->type[0].shape);
    if (is_needed(g, b) && is_needed(g, a) && rematerialize_waits(&g->rematerialize, a))
        g->waiting[a->id] = (waiting){ node, dy };
    else if (is_needed(g, b))
        give(g, b, right_gradient(node, value(g, a), dy));
    if (is_needed(g, a) && needs_few_columns(g, node))
        give_columns(g, node, dy);
    else if (is_needed(g, a))
        give(g, a, left_gradient(node, value(g, b), dy));
}

/* With n = (x - mean) r, r the reciprocal deviation, y = gamma n + beta and g = gamma dy:
 *   dx = r (g - mean(g) - n mean(g n)),  dgamma = sum of dy n,  dbeta = sum of dy,
 * means over a row's columns, sums over rows. One node makes all three in one pass over x and
 * dy, with mean and r as the forward pass left them (result 1), and y again if a product waits
 * for it. */
static void grad_LAYER_NORM(gradients *g, et_node *node, et_node *dy)
{
    const waiting *w = &g->waiting[node->id];
    et_node *inputs[] = { dy, value(g, node->input[0]), et_node_result(node, 1), node->input[1],
                          node->input[2] };
    et_node *dx =
        et_node_add(g->graph, ET_OP_LAYER_NORM_GRAD, NULL, inputs, w->product ? 5 : 4, NULL);
    give(g, node->input[0], dx);
    give(g, node->input[1], et_node_result(dx, 1));
    give(g, node->input[2], et_node_result(dx, 2));
    if (w->product)
        give(g, w->product->input[1], right_gradient(w->product, et_node_result(dx, 3), w->dy));
}

/* dtable[ids[t]] += scale dy[t], added to the gradient from other uses of the table so far: ids are
 * few compared to the table's rows, and a zeroed table for each use would cost more than the
 * scatter. The visit goes backwards, so the output projection of a tied table comes first and is
 * the base. Positions are constants. */
static void grad_tables(gradients *g, et_node *node, et_node *dy)
{
    const et_op op = node->op == ET_OP_EMBEDDING ? ET_OP_EMBEDDING_GRAD : ET_OP_EMBED_COLUMNS_GRAD;
    et_node *table = node->input[1];
    if (node->inputs == 4 && is_needed(g, node->input[3]))
        et_graph_poison(g->graph,
                        "%s: positions of an embedding must be constants, but %s is trained: use a "
                        "second embedding and add the two",
                        node->name, node->input[3]->name);
    if (!is_needed(g, table))
        return;
    et_node *inputs[] = { node->input[0], dy, g->of[table->id] };
    et_attributes attributes = node->attributes;
    attributes.leaf = table->type[0];
    g->of[table->id] = et_node_add(g->graph, op, NULL, inputs, inputs[2] ? 3 : 2, &attributes);
}
#define grad_EMBEDDING     grad_tables
#define grad_EMBED_COLUMNS grad_tables

/* Weights are not kept: P = exp(S - lse), S = q k^T / sqrt(d), is rematerialized from q, k and
 * each row's log-sum-exp (result 1), as Dao et al. 2022, "FlashAttention", section 3.1 and
 * appendix B. With dP = dout v^T and without dropout:
 *   dv = P^T dout,  dS = P (dP - rowsum(P dP)),  dq = dS k / sqrt(d),  dk = dS^T q / sqrt(d),
 * d the width of a head. In self-attention the first result holds dq, dk and dv side by side. */
static void grad_ATTENTION(gradients *g, et_node *node, et_node *dy)
{
    et_node *dq = et_node_of(g->graph, ET_OP_ATTENTION_GRAD, &node->attributes, dy,
                             et_node_result(node, 1), value(g, node->input[0]),
                             value(g, node->input[1]), node->input[2], node->input[3]);
    give(g, node->input[0], dq);
    if (!node->attributes.self)
        give(g, node->input[1], et_node_result(dq, 1));
}

/* With e[t] = dc[t] + f[t + 1] e[t + 1]: dx = e (1 - f), dgate = e (c[t - 1] - x) f (1 - f). A step
 * of decoding has no derivative. */
static void grad_RECURRENCE(gradients *g, et_node *node, et_node *dy)
{
    if (node->inputs == 4) {
        not_differentiable(g, node, dy);
        return;
    }
    et_node *dx = et_node_of(g->graph, ET_OP_RECURRENCE_GRAD, NULL, dy, value(g, node),
                             value(g, node->input[0]), value(g, node->input[1]), node->input[2]);
    give(g, node->input[0], dx);
    give(g, node->input[1], et_node_result(dx, 1));
}

/* A loss computes its derivatives together with its value, for dy = 1. So it must be a root and
 * have no other reader, because another dy would have to be added. */
static bool is_root(gradients *g, et_node *node, et_node *dy)
{
    bool root = g->is_root && !dy;
    if (!root)
        et_graph_poison(g->graph, "%s: a %s must be a loss itself", node->name,
                        et_op_name(node->op));
    node->attributes.gradient = root;
    return root;
}

/* Derivatives that a loss has made, times its factor and the scale. */
static et_node *made(const gradients *g, et_node *gradient)
{
    if (g->factor != 1)
        gradient = et_scale(gradient, g->factor);
    return g->scale ? et_mul(gradient, et_node_binary(ET_OP_FILL, g->scale, gradient)) : gradient;
}

/* The loss node has made dh and dtable already, as its results 1 and 2, and dh of another draw. */
static void grad_VOCABULARY_LOSS(gradients *g, et_node *node, et_node *dy)
{
    if (!is_root(g, node, dy))
        return;
    give(g, node->input[0], made(g, et_node_result(node, 1)));
    give(g, node->input[1], made(g, et_node_result(node, 2)));
    if (et_loss_of_two_draws(node))
        give(g, node->input[3], made(g, et_node_result(node, 3)));
}

/* And here dlogits, as result 1. */
static void grad_SOFTMAX_LOSS(gradients *g, et_node *node, et_node *dy)
{
    if (is_root(g, node, dy))
        give(g, node->input[0], made(g, et_node_result(node, 1)));
}

/* y[d] = sum over t of x[t, d], or y[t] = sum over d: every row, or every column, of dx is dy. */
static void grad_sums(gradients *g, et_node *node, et_node *dy)
{
    const et_result_type *type = &node->input[0]->type[0];
    give(g, node->input[0], et_copy(dy, type->dtype, type->shape));
}
#define grad_COLUMN_SUM grad_sums
#define grad_ROW_SUM    grad_sums

/* y = softmax(x): dx = y (dy - rowsum(y dy)). */
static void grad_SOFTMAX(gradients *g, et_node *node, et_node *dy)
{
    et_node *y = value(g, node);
    give(g, node->input[0], et_mul(y, et_sub(dy, et_row_sum(et_mul(y, dy)))));
}

/* y = log softmax(x): dx = dy - e^y rowsum(dy). */
static void grad_LOG_SOFTMAX(gradients *g, et_node *node, et_node *dy)
{
    et_node *p = et_exp(value(g, node));
    give(g, node->input[0], et_sub(dy, et_mul(p, et_row_sum(dy))));
}

/* The node has made dlogits for dy = 1, as its result 3; each row's is scaled by dy[t]. */
static void grad_CROSS_ENTROPY(gradients *g, et_node *node, et_node *dy)
{
    node->attributes.gradient = true;
    give(g, node->input[0], et_mul(et_node_result(node, 3), dy));
}

/* Rules of ops that move elements move dy back. */
static void grad_RESHAPE(gradients *g, et_node *node, et_node *dy)
{
    if (is_needed(g, node->input[0]))
        give(g, node->input[0], et_reshape(dy, node->input[0]->type[0].shape));
}

/* Each input gets the piece of dy that it was. */
static void grad_CONCATENATE(gradients *g, et_node *node, et_node *dy)
{
    et_attributes attributes = { .along = { .axis = node->attributes.along.axis } };
    et_axis_range *along = &attributes.along;
    for (int i = 0; i < node->inputs; i++) {
        et_node *input = node->input[i];
        along->first += along->count;
        along->count = input->type[0].shape.size[along->axis];
        if (is_needed(g, input) && along->count)
            give(g, input, et_node_of(g->graph, ET_OP_SLICE, &attributes, dy));
    }
}

/* y = a piece of x: dx = dy there, else 0. */
static void grad_SLICE(gradients *g, et_node *node, et_node *dy)
{
    et_attributes attributes = node->attributes;
    attributes.leaf = node->input[0]->type[0];
    if (is_needed(g, node->input[0]))
        give(g, node->input[0], et_node_of(g->graph, ET_OP_SLICE_GRAD, &attributes, dy));
}

/* y[r] = x[row[r]]: dx[row[r]] += dy[r], in ascending r. */
static void grad_GATHER(gradients *g, et_node *node, et_node *dy)
{
    et_attributes attributes = { .leaf = node->input[0]->type[0] };
    if (is_needed(g, node->input[0]))
        give(g, node->input[0],
             et_node_of(g->graph, ET_OP_GATHER_GRAD, &attributes, node->input[1], dy));
}

/* y[k, g N + n] = w[k, n] r[g K + k] s[g N + n]. The derivative of each operand is dy times the
 * other two operands, summed over the dimensions along which the operand is repeated. One node
 * computes all three. */
static void grad_SCALED_COPIES(gradients *g, et_node *node, et_node *dy)
{
    et_node *inputs[4] = { dy };
    for (int i = 0; i < node->inputs; i++)
        inputs[1 + i] = value(g, node->input[i]);
    et_node *all =
        et_node_add(g->graph, ET_OP_SCALED_COPIES_GRAD, NULL, inputs, node->inputs + 1, NULL);
    for (int i = 0; i < node->inputs; i++)
        if (is_needed(g, node->input[i]))
            give(g, node->input[i], i ? et_node_result(all, i) : all);
}

/* With n = x r, r the reciprocal of the root mean square, y = gamma n and g = gamma dy:
 *   dx = r (g - n mean(g n)),  dgamma = sum over rows of dy n. */
static void grad_RMS_NORM(gradients *g, et_node *node, et_node *dy)
{
    et_node *dx = et_node_of(g->graph, ET_OP_RMS_NORM_GRAD, NULL, dy, value(g, node->input[0]),
                             et_node_result(node, 1), node->input[1]);
    give(g, node->input[0], dx);
    if (is_needed(g, node->input[1]))
        give(g, node->input[1], et_node_result(dx, 1));
}

/* With n = (x - mean) r by columns, y = gamma n + beta:
 *
 *     dgamma = sum over rows of dy n,  dbeta = sum of dy,
 *     dx = gamma r (dy - dbeta / T - n dgamma / T),  or gamma r dy
 *
 * The second form is for a given mean and variance, which do not depend on x and have no
 * derivative. T is the number of rows that count. The sums are over these rows, and the other rows
 * have dx = 0. */
static void grad_BATCH_NORM(gradients *g, et_node *node, et_node *dy)
{
    bool given = node->inputs == 5;
    et_node *inputs[] = { dy,
                          value(g, node->input[0]),
                          given ? node->input[3] : et_node_result(node, 1),
                          given ? node->input[4] : et_node_result(node, 2),
                          node->input[1],
                          node->input[3] };
    et_attributes attributes = { .x = node->attributes.x, .given = given };
    et_node *dx = et_node_add(g->graph, ET_OP_BATCH_NORM_GRAD, NULL, inputs,
                              node->inputs == 4 ? 6 : 5, &attributes);
    give(g, node->input[0], dx);
    for (int i = 1; i <= 2; i++)
        if (is_needed(g, node->input[i]))
            give(g, node->input[i], et_node_result(dx, i));
}

/* y = x * w + b, as a product: dw is the convolution of x with dy, dx that of dy with w flipped;
 * each is a separate op. A relu is undone first, as for a product. */
static void grad_CONVOLUTION(gradients *g, et_node *node, et_node *dy)
{
    et_node *x = node->input[0], *weight = node->input[1];
    et_attributes attributes = { .convolution = node->attributes.convolution };
    attributes.convolution.relu = false;
    if (node->attributes.convolution.relu)
        dy = et_node_binary(ET_OP_RELU_GRAD, dy, rematerialize_sign(&g->rematerialize, node));
    if (node->inputs == 3 && is_needed(g, node->input[2]) && !et_node_is_poison(dy)) {
        const et_shape s = dy->type[0].shape;
        const et_shape rows = et_shape_2(s.size[0] * s.size[1] * s.size[2], s.size[3]);
        give(g, node->input[2], et_column_sum(et_reshape(dy, rows)));
    }
    if (is_needed(g, weight)) {
        attributes.leaf = weight->type[0];
        give(g, weight,
             et_node_of(g->graph, ET_OP_CONVOLUTION_WEIGHT_GRAD, &attributes, dy, value(g, x)));
    }
    if (is_needed(g, x)) {
        attributes.leaf = x->type[0];
        give(g, x, et_node_of(g->graph, ET_OP_CONVOLUTION_GRAD, &attributes, dy, weight));
    }
}

/* dy goes to the place of the largest element, or is divided among all; windows that overlap add
 * up. */
static void grad_pool(gradients *g, et_node *node, et_node *dy)
{
    const bool largest = node->op == ET_OP_MAX_POOL;
    et_node *inputs[] = { dy, largest ? et_node_result(node, 1) : NULL };
    et_attributes attributes = { .pool = node->attributes.pool, .leaf = node->input[0]->type[0] };
    give(g, node->input[0],
         et_node_add(g->graph, ET_OP_POOL_GRAD, NULL, inputs, largest ? 2 : 1, &attributes));
}
#define grad_MAX_POOL  grad_pool
#define grad_MEAN_POOL grad_pool

/* Derivatives of element-wise ops: the last two columns of elementwise.def, with these words. Each
 * is computed only if its input needs it, so no node is made in vain.
 *
 * An input that is repeated over rows or columns gets the sum over its copies. value() reads a
 * value and may rematerialize it; relu's sign is read from its dropout (rematerialize_sign). */

/* The sum of gradient over what `like` was repeated for, in its type. */
static et_node *summed(et_node *gradient, const et_node *like)
{
    const et_result_type *type = &like->type[0];
    if (et_node_is_poison(gradient) || et_node_is_poison(like))
        return gradient;
    if (!et_shape_equal(et_node_shape(gradient), type->shape))
        gradient = type->shape.rank == 0   ? et_sum(gradient)
                   : type->shape.rank == 1 ? et_column_sum(gradient)
                                           : et_row_sum(gradient);
    return et_copy(gradient, type->dtype, type->shape);
}

static et_node *refused(gradients *g, et_node *node)
{
    not_differentiable(g, node, NULL);
    return &g->graph->poison;
}

/* The words of the table. */
#define A               value(g, node->input[0])
#define B               value(g, node->input[1])
#define Y               value(g, node)
#define SIGN            rematerialize_sign(&g->rematerialize, node)
#define NONE            refused(g, node)
#define of(id, p, q)    et_node_binary(ET_OP_##id, p, q)
#define bounded(id)     bounded_by(ET_OP_##id, node, dy, A)
#define the_same_of(dy) et_node_of(g->graph, node->op, &node->attributes, dy)

/* dy where the op returned its input, not the bound. */
static et_node *bounded_by(et_op op, const et_node *node, et_node *dy, et_node *a)
{
    return et_node_of(a->graph, op, &node->attributes, dy, a);
}

/* d(loss)/d(input i) from dy. */
static et_node *derivative(gradients *g, et_node *node, et_node *dy, int i)
{
    const float x = node->attributes.x;
    (void)x;
    switch (et_op_elementwise(node->op)) {
#define ELEMENTWISE(id, name, inputs, reads, formula, da, db)                                      \
    case ET_EW_##id:                                                                               \
        return i == 0 ? (da) : (db);
#include "engine/kernel/elementwise.def"
#undef ELEMENTWISE
    case ET_EW_OP_COUNT:
        break;
    }
    return refused(g, node);
}

static void grad_elementwise(gradients *g, et_node *node, et_node *dy)
{
    for (int i = 0; i < node->inputs; i++)
        if (is_needed(g, node->input[i]))
            give(g, node->input[i], summed(derivative(g, node, dy, i), node->input[i]));
}

/* One rule for each row of ops.def; a row without its function does not compile. */
static void (*const rules[ET_OP_COUNT])(gradients *, et_node *, et_node *) = {
#define ELEMENTWISE(id, name, inputs, reads, formula, da, db) [ET_OP_##id] = grad_elementwise,
#define X(id, name, fewest, most)                             [ET_OP_##id] = grad_##id,
#include "engine/graph/ops.def"
#undef X
};

/* A row for each parameter that the loss depends on, in order of the parameters' nodes. The
 * rules may have poisoned the graph; that is reported here, once. */
static int collect(gradients *g, et_error *error)
{
    et_graph *graph = g->graph;
    graph->gradients =
        et_arena_array(&graph->arena, et_params_count(graph->params), sizeof *graph->gradients);
    if (!graph->gradients)
        return et_alloc_failed(error, "gradients");
    for (int i = 0; i < g->count; i++) {
        const et_node *node = graph->nodes[i];
        if (node->op == ET_OP_PARAM && g->needed[i] && g->of[i])
            graph->gradients[graph->gradient_count++] =
                (et_param_gradient){ node->attributes.param, g->of[i] };
    }
    return et_graph_finish(graph, error);
}

/* The derivative of a scalar root is the scale, or the input ET_GRAPH_ONE. */
static int give_roots(gradients *g, et_error *error)
{
    et_graph *graph = g->graph;
    et_node *one = g->scale;
    bool any = false;
    for (const et_mark *mark = graph->marks; mark; mark = mark->next) {
        if (mark->kind != ET_MARK_LOSS)
            continue;
        any = any || g->needed[mark->root->id];
        if (et_node_has_sums(mark->root))
            continue;
        et_attributes attributes = { .leaf = { ET_F32, et_shape_scalar() } };
        if (!one)
            one = et_node_add(graph, ET_OP_INPUT, ET_GRAPH_ONE, NULL, 0, &attributes);
        give(g, mark->root, one);
    }
    if (any)
        return ET_OK;
    return graph->marks ? et_fail(error, ET_EGRAPH, "%s: does not depend on any parameter",
                                  graph->marks->root ? graph->marks->root->name : "the loss")
                        : et_fail(error, ET_EGRAPH, "the model has no loss");
}

/* From the last root downwards: every node that has a gradient, and the losses that make their own
 * derivatives. Nodes after a loss (a metric) have none and are skipped. */
static int propagate(gradients *g, et_error *error)
{
    /* needed[i]: node i is a parameter to derive by, or depends on one. */
    for (int i = 0; i < g->count; i++) {
        const et_node *node = g->graph->nodes[i];
        int param = node->attributes.param;
        g->needed[i] = node->op == ET_OP_PARAM && et_params_is_trained(g->graph->params, param) &&
                       (!g->derive || g->derive[param]);
        for (int k = 0; k < node->inputs; k++)
            g->needed[i] |= g->needed[node->input[k]->id];
    }
    int status = give_roots(g, error);
    for (int i = g->count - 1; !status && i >= 0; i--) {
        et_node *node = g->graph->nodes[i];
        /* Whether node is a loss's root, and the sum of the factors of all such losses. */
        g->is_root = false;
        g->factor = 0;
        for (const et_mark *mark = g->graph->marks; mark && et_node_has_sums(node);
             mark = mark->next)
            if (mark->kind == ET_MARK_LOSS && mark->root == node) {
                g->is_root = true;
                g->factor += mark->factor;
            }
        if (g->needed[i] && (g->of[i] || g->is_root))
            rules[node->op](g, node, g->of[i]);
    }
    return status ? status : collect(g, error);
}

/* Working arrays are as long as the forward graph and live for this call only. */
int et_graph_derive(et_graph *graph, const bool *derive, et_node *scale, et_error *error)
{
    if (et_graph_finish(graph, error))
        return graph->error.status;
    if (graph->gradients)
        return et_fail(error, ET_EGRAPH, "the graph already has derivatives");
    const int count = graph->count;
    gradients g = { .graph = graph, .count = graph->count, .derive = derive, .scale = scale };
    int status = rematerialize_init(&g.rematerialize, graph, error);
    if (!status)
        status = ET_ALLOC_ZERO(g.of, count, "gradients", error) ||
                         ET_ALLOC_ZERO(g.needed, count, "gradients", error) ||
                         ET_ALLOC_ZERO(g.waiting, count, "gradients", error)
                     ? ET_ENOMEM
                     : propagate(&g, error);
    et_free(g.rematerialize.use);
    et_free(g.rematerialize.again);
    et_free(g.of);
    et_free(g.needed);
    et_free(g.waiting);
    return status;
}
