/* Costs per op, in a table made from ops.def. Legend as in engine/kernel/kernels.h: T rows, D
 * columns.
 *
 * Costs count the operations that the formula needs and the bytes that must move, not those that a
 * kernel makes. So a rate measures the quality of the kernel, and a faster kernel does not look
 * slower because it computes less. A cost depends on the bound tensors of the plan: fewer rows cost
 * less. */
#include "engine/exec/plan_private.h"

#include "base/assert.h"

typedef et_cost cost_fn(const et_plan *plan, const et_plan_call *call);

static double count(const et_tensor *tensor)
{
    return (double)et_shape_count(tensor->shape);
}

/* A result that nobody reads has no memory. */
static double bytes(const et_tensor *tensor)
{
    return tensor->data ? (double)et_tensor_bytes(*tensor) : 0;
}

/* All inputs and results, each once. */
static double touched(const et_plan *plan, const et_plan_call *call)
{
    double sum = 0;
    for (int i = 0; i < call->in_count; i++)
        sum += bytes(TENSOR_IN(i));
    for (int i = 0; i < call->out_count; i++)
        sum += bytes(TENSOR_OUT(i));
    return sum;
}

/* Intermediate values of a chain stay in registers and touch no memory: fusing saves this. */
static et_cost cost_elementwise(const et_plan *plan, const et_plan_call *call)
{
    return (et_cost){ call->program.steps * count(TENSOR_OUT(0)), touched(plan, call) };
}

/* ---- products, norms, look-ups ---- */

/* Operands are of the activations' type: a weight is read from its shadow or packed. 2 m n k: a
 * multiplication and an addition each. Example, float32: 64 x 512 times 512 x 2048 has 134
 * million operations and 4.8 MB. */
static et_cost cost_matmul(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *a = TENSOR_IN(0), *b = TENSOR_IN(1);
    const et_tensor *c = TENSOR_OUT(0);
    bool transposed = call->node->attributes.matmul.transpose_a;
    const double groups = (double)et_matmul_groups(&call->node->attributes.matmul);
    double k = (double)a->shape.size[!transposed] / (transposed ? 1 : groups);
    double element = (double)et_dtype_size(plan->graph->options.act);
    double bias = call->in_count == 3 ? bytes(TENSOR_IN(2)) : 0;
    return (et_cost){ 2 * count(c) * k, element * (count(a) + count(b)) + bytes(c) + bias };
}

/* A row of the table, and one of the positions, for each id. Tables are float32, 4 bytes an
 * element, whatever the result's type is; ids and positions are read once. */
static et_cost cost_embedding(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *y = TENSOR_OUT(0);
    double rows = call->in_count == 4 ? 2 : 1;
    double ids = bytes(TENSOR_IN(0));
    return (et_cost){ rows * count(y), rows * (4 * count(y) + ids) + bytes(y) };
}

/* Reads and writes rows of the table; the other rows too, unless the kernel adds in place. 8 bytes
 * for each element of dy: its element in the float32 table is read and written. Without a base the
 * table is cleared; a base elsewhere is copied. */
static et_cost cost_embedding_grad(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *dy = TENSOR_IN(1), *table = TENSOR_OUT(0);
    et_cost cost = { 2 * count(dy), bytes(TENSOR_IN(0)) + bytes(dy) + 8 * count(dy) };
    if (call->in_count < 3)
        cost.bytes += bytes(table);
    else if (TENSOR_IN(2)->data != table->data)
        cost.bytes += 2 * bytes(table);
    return cost;
}

/* ---- attention ---- */

/* The last inputs are q, kv and the offsets of both; ATTENTION_GRAD has two inputs before them.
 * Heads share the width, so a score of all heads, a query and a key that it may see, costs 2 width
 * operations. Causal, 5 queries and 3 keys: 1 + 2 + 3 and then 3 + 3, 12 of 15 scores.
 *
 * Two products, q k^T and weights v; q is read and the result written, keys and values are read. Of
 * the derivative five: where dS is the derivative of the scores, S = q k^T, dW = dout v^T, dv = W^T
 * dout, dq = dS k, dk = dS^T q; dout, q, k, v are read, dq, dk, dv written. */
static et_cost cost_attention(const et_plan *plan, const et_plan_call *call)
{
    const et_attributes *attributes = &call->node->attributes;
    const bool gradient = call->node->op == ET_OP_ATTENTION_GRAD;
    const int first = gradient ? 2 : 0;
    const et_tensor *q = TENSOR_IN(first), *offsets = TENSOR_IN(first + 2);
    const int32_t *query = offsets->data, *key = TENSOR_IN(first + 3)->data;
    const double width = (double)q->shape.size[1] / (attributes->self ? 3 : 1);
    double scores = 0, queries = 0, keys = 0;
    for (int64_t s = 0; s < offsets->shape.size[0] - 1; s++) {
        double rows = query[s + 1] - query[s], columns = key[s + 1] - key[s];
        /* query i sees i + 1 keys, but at most all keys */
        double short_rows = rows < columns ? rows : columns;
        scores += attributes->attention.causal
                      ? short_rows * (short_rows + 1) / 2 + (rows - short_rows) * columns
                      : rows * columns;
        queries += rows;
        keys += columns;
    }
    const double moved = gradient ? 3 * queries + 4 * keys : 2 * (queries + keys);
    return (et_cost){ (gradient ? 5 : 2) * 2 * scores * width,
                      moved * width * (double)et_dtype_size(q->dtype) };
}

/* One query per row, against `length` keys. Keys and values are read once for each row, though rows
 * of a beam share some. */
static et_cost cost_cached_attention(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *q = TENSOR_IN(0), *lengths = TENSOR_IN(3);
    const et_tensor *y = TENSOR_OUT(0);
    double seen = 0, width = (double)y->shape.size[1];
    for (int64_t r = 0; r < lengths->shape.size[0]; r++)
        seen += ((const int32_t *)lengths->data)[r];
    return (et_cost){ 2 * 2 * seen * width,
                      2 * seen * width * (double)et_dtype_size(q->dtype) + bytes(q) + bytes(y) };
}

/* ---- losses ---- */

/* Logits, of one draw or two; with derivatives also those of rows and table. Logits, dh and dtable
 * are products of the same size, 2 T D V each. Logits count no bytes, because they need not be in
 * memory in full. */
static et_cost cost_vocabulary_loss(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *h = TENSOR_IN(0), *table = TENSOR_IN(1);
    double products = call->node->attributes.gradient ? 3 : 1;
    double draws = et_loss_of_two_draws(call->node) ? 2 : 1;
    double element = (double)et_dtype_size(plan->graph->options.act), results = 0;
    for (int i = 0; i < call->out_count; i++)
        results += bytes(TENSOR_OUT(i));
    return (et_cost){ products * 2 * draws * count(h) * (double)table->shape.size[0],
                      draws * bytes(h) + element * count(table) + bytes(TENSOR_IN(2)) + results };
}

/* Logits from bytes; only few are computed again in float32. One byte for each element of the
 * table. */
static et_cost cost_vocabulary_best(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *h = TENSOR_IN(0), *table = TENSOR_IN(1);
    return (et_cost){ 2 * count(h) * (double)table->shape.size[0],
                      bytes(h) + count(table) + bytes(TENSOR_OUT(0)) + bytes(TENSOR_OUT(1)) };
}

/* ---- layout, and layers outside the Transformer ---- */

/* SLICE reads only its piece of x; FILL reads only the scalar. A view costs nothing. */
static et_cost cost_moved(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *x = TENSOR_IN(0), *y = TENSOR_OUT(0);
    const et_op op = call->node->op;
    const bool view = op == ET_OP_RESHAPE && x->data == y->data;
    return (et_cost){ 0, view ? 0 : bytes(op == ET_OP_SLICE ? y : x) + bytes(y) };
}

/* Only the selected rows of x, or of a table, are read. */
static et_cost cost_rows(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *y = TENSOR_OUT(0);
    bool table = call->node->op == ET_OP_EMBED_COLUMNS;
    const et_tensor *ids = TENSOR_IN(table ? 0 : 1);
    double from = table ? 4 * count(y) : bytes(y);
    return (et_cost){ 0, bytes(ids) + from + bytes(y) };
}

/* Rows of the result are read and written, and cleared before, as EMBEDDING_GRAD. */
static et_cost cost_scatter(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *dy = TENSOR_IN(1);
    return (et_cost){ count(dy),
                      bytes(TENSOR_IN(0)) + bytes(dy) + 8 * count(dy) + bytes(TENSOR_OUT(0)) };
}

/* mean 1, variance 3, y 3: the statistics need a separate pass over x, and so do the derivative's
 * sums: n 2, dgamma 2, dbeta 1, dx 6. */
static et_cost cost_batch_norm(const et_plan *plan, const et_plan_call *call)
{
    const bool gradient = call->node->op == ET_OP_BATCH_NORM_GRAD;
    const et_tensor *x = TENSOR_IN(gradient);
    const bool given = call->in_count == 5 && !gradient;
    const int each = gradient ? 11 : given ? 3 : 7, passes = gradient ? 2 : !given;
    return (et_cost){ each * count(x), touched(plan, call) + passes * bytes(x) };
}

/* A multiplication and an addition for each filter, channel, place of the window and of y. Places
 * of the window outside the image count too. The derivatives have the sizes of the convolution. */
static et_cost cost_convolution(const et_plan *plan, const et_plan_call *call)
{
    const et_op op = call->node->op;
    const et_tensor *y = op == ET_OP_CONVOLUTION ? TENSOR_OUT(0) : TENSOR_IN(0);
    const et_tensor *weight = op == ET_OP_CONVOLUTION_WEIGHT_GRAD ? TENSOR_OUT(0) : TENSOR_IN(1);
    const int64_t *size = weight->shape.size;
    return (et_cost){ 2 * count(y) * (double)(size[0] * size[1] * size[2]), touched(plan, call) };
}

/* One operation for each element that a window covers: about so many for each of the larger image
 * and its windows. */
static et_cost cost_pool(const et_plan *plan, const et_plan_call *call)
{
    double x = count(TENSOR_IN(0)), y = count(TENSOR_OUT(0));
    return (et_cost){ x > y ? x : y, touched(plan, call) };
}

/* ---- the table ---- */

/* Operations per element of an input or of the result, with all tensors touched; or a function. */
typedef struct cost_rule {
    cost_fn *by;
    double each;
    int input; /* -1: the result; -2: of neither */
} cost_rule;

#define NONE                    NULL, 0, -2
#define OF_INPUT(number, input) NULL, number, input
#define OF_OUTPUT(number)       NULL, number, -1
#define BY(function)            function, 0, -2

/* Leaves make no call. */
#define cost_INPUT     NONE
#define cost_PARAM     NONE
#define cost_POSITIONS NONE
#define cost_INTEGERS  NONE
#define cost_RESULT    NONE

/* One addition for each element read. */
#define cost_SUM        OF_INPUT(1, 0)
#define cost_COLUMN_SUM OF_INPUT(1, 0)
#define cost_ROW_SUM    OF_INPUT(1, 0)
#define cost_LABELLED   OF_INPUT(1, 0)
/* largest, difference, exponential, sum, quotient */
#define cost_SOFTMAX       OF_INPUT(5, 0)
#define cost_LOG_SOFTMAX   OF_INPUT(5, 0)
#define cost_SOFTMAX_LOSS  OF_INPUT(5, 0)
#define cost_CROSS_ENTROPY OF_INPUT(5, 0)
/* mean 1, variance 3, normalising 2, gamma and beta 2 */
#define cost_LAYER_NORM OF_INPUT(8, 0)
/* n 2, g 1, mean(g) 1, mean(g n) 2, dgamma 2, dbeta 1, dx 4: n is the normalised x, g = dy gamma */
#define cost_LAYER_NORM_GRAD OF_INPUT(13, 0)
/* square and sum 2, normalising 1, gamma 1; of the derivative n 1, g 1, mean(g n) 2, dgamma 2,
 * dx 3 */
#define cost_RMS_NORM      OF_INPUT(4, 0)
#define cost_RMS_NORM_GRAD OF_INPUT(9, 0)
/* a logistic function, and the sum of two products */
#define cost_RECURRENCE      OF_OUTPUT(6)
#define cost_RECURRENCE_GRAD OF_OUTPUT(12)
/* two products; of the derivatives two products and one addition for each sum */
#define cost_SCALED_COPIES      OF_OUTPUT(2)
#define cost_SCALED_COPIES_GRAD OF_INPUT(9, 0)
/* Elements move. */
#define cost_CONCATENATE OF_OUTPUT(0)
#define cost_SLICE_GRAD  OF_OUTPUT(0)
#define cost_ONE_HOT     OF_OUTPUT(0)
#define cost_CAST        OF_OUTPUT(0)
#define cost_CANDIDATES  OF_OUTPUT(0)
/* Ten rounds of Philox are no operations of the formula. */
#define cost_NOISE     OF_OUTPUT(1)
#define cost_BERNOULLI OF_OUTPUT(1)

#define cost_FILL                    BY(cost_moved)
#define cost_MATMUL                  BY(cost_matmul)
#define cost_EMBEDDING               BY(cost_embedding)
#define cost_EMBEDDING_GRAD          BY(cost_embedding_grad)
#define cost_ATTENTION               BY(cost_attention)
#define cost_ATTENTION_GRAD          BY(cost_attention)
#define cost_CACHED_ATTENTION        BY(cost_cached_attention)
#define cost_VOCABULARY_LOSS         BY(cost_vocabulary_loss)
#define cost_VOCABULARY_BEST         BY(cost_vocabulary_best)
#define cost_SLICE                   BY(cost_moved)
#define cost_RESHAPE                 BY(cost_moved)
#define cost_GATHER                  BY(cost_rows)
#define cost_GATHER_GRAD             BY(cost_scatter)
#define cost_EMBED_COLUMNS           BY(cost_rows)
#define cost_EMBED_COLUMNS_GRAD      BY(cost_scatter)
#define cost_BATCH_NORM              BY(cost_batch_norm)
#define cost_BATCH_NORM_GRAD         BY(cost_batch_norm)
#define cost_CONVOLUTION             BY(cost_convolution)
#define cost_CONVOLUTION_GRAD        BY(cost_convolution)
#define cost_CONVOLUTION_WEIGHT_GRAD BY(cost_convolution)
#define cost_MAX_POOL                BY(cost_pool)
#define cost_MEAN_POOL               BY(cost_pool)
#define cost_POOL_GRAD               BY(cost_pool)

et_cost et_plan_call_cost(const et_plan *plan, const et_plan_call *call)
{
    static const cost_rule rules[ET_OP_COUNT] = {
/* All element-wise ops run as programs and have the same cost. */
#define ELEMENTWISE(id, name, inputs, reads, formula, da, db)                                      \
    [ET_OP_##id] = { BY(cost_elementwise) },
#define X(id, name, fewest, most) [ET_OP_##id] = { cost_##id },
#include "engine/graph/ops.def"
#undef X
    };
    const cost_rule *rule = &rules[call->node->op];
    if (rule->by)
        return rule->by(plan, call);
    et_assert(rule->input >= -1);
    const et_tensor *of = rule->input < 0 ? TENSOR_OUT(0) : TENSOR_IN(rule->input);
    return (et_cost){ rule->each * count(of), touched(plan, call) };
}

/* A backward product has a transposed operand: dX = dY W^T, dW = X^T dY. Without derivatives it is
 * how the weight is stored. */
const char *et_plan_call_kind(const et_plan_call *call)
{
    const et_matmul_options *matmul = &call->node->attributes.matmul;
    if (call->node->op == ET_OP_MATMUL && call->node->graph->gradient_count == 0)
        return "matrix product, forward";
    if (et_op_is_elementwise(call->node->op))
        return "element-wise";
    if (call->node->op != ET_OP_MATMUL)
        return et_op_name(call->node->op);
    return matmul->transpose_a   ? "matrix product, weight gradient"
           : matmul->transpose_b ? "matrix product, input gradient"
                                 : "matrix product, forward";
}
