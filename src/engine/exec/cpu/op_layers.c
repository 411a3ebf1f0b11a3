/* Scaled copies, norms over a batch, convolutions and pooling: see engine/graph/build.h and
 * <etude/ops_image.h>. */
#include "base/assert.h"
#include "engine/exec/cpu/op_private.h"
#include "engine/graph/node.h"
#include "engine/kernel/conv.h"

/* ---- scaled copies ---- */

/* first: index of the input with the matrix; like: a node with the shape of all copies. */
static et_scaled_matrix copies_of(const et_plan *plan, const et_plan_call *call, int first,
                                  const et_tensor *like)
{
    const et_tensor *w = TENSOR_IN(first);
    return (et_scaled_matrix){ .w = w->data,
                               .row_scale = IN(first + 1),
                               .column_scale = call->in_count > first + 2 ? IN(first + 2) : NULL,
                               .rows = w->shape.size[0],
                               .width = w->shape.size[1],
                               .count = like->shape.size[1] / w->shape.size[1],
                               .dtype = like->dtype };
}

static void run_scaled_copies(const et_plan *plan, const et_plan_call *call)
{
    const et_scaled_matrix copies = copies_of(plan, call, 0, TENSOR_OUT(0));
    kernels(plan)->scaled_copies(OUT(0), &copies);
}

const et_op_functions et_cpu_SCALED_COPIES = { .run = run_scaled_copies };

/* Scratch memory for derivatives of a matrix and of row scales that are not trained. */
static size_t scratch_of_scaled_copies_grad(const et_plan *plan, const et_plan_call *call)
{
    const int64_t count = et_shape_count(TENSOR_IN(1)->shape) + et_shape_count(TENSOR_IN(2)->shape);
    return count * sizeof(float);
}

static void run_scaled_copies_grad(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *dy = TENSOR_IN(0);
    const et_scaled_matrix copies = copies_of(plan, call, 1, dy);
    float *room = scratch(plan);
    const et_scaled_matrix_grad to = {
        .dy = dy->data,
        .dw = OUT(0) ? OUT(0) : room,
        .drow = OUT(1) ? OUT(1) : room + copies.rows * copies.width,
        .dcolumn = call->out_count > 2 ? OUT(2) : NULL,
    };
    kernels(plan)->scaled_copies_grad(&to, &copies);
}

const et_op_functions et_cpu_SCALED_COPIES_GRAD = { .run = run_scaled_copies_grad,
                                                    .scratch = scratch_of_scaled_copies_grad };

/* ---- norms ---- */

size_t et_cpu_scratch_of_sums(const et_plan *plan, const et_plan_call *call)
{
    static const struct {
        int x, each, more;
    } of[ET_OP_COUNT] = {
        [ET_OP_COLUMN_SUM] = { 0, 1, 0 },      [ET_OP_LAYER_NORM_GRAD] = { 1, 2, 0 },
        [ET_OP_RMS_NORM_GRAD] = { 1, 1, 1 },   [ET_OP_BATCH_NORM] = { 0, 1, 2 },
        [ET_OP_BATCH_NORM_GRAD] = { 1, 2, 2 },
    };
    const et_op op = call->node->op;
    const et_tensor *x = TENSOR_IN(of[op].x);
    et_assert(of[op].each);
    if (op == ET_OP_BATCH_NORM && call->in_count == 5) /* mean and variance are given */
        return 0;
    return (size_t)((et_row_blocks(rows_of(x)) * of[op].each + of[op].more) * width_of(x)) *
           sizeof(float);
}

static void run_rms_norm(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *x = TENSOR_IN(0);
    kernels(plan)->rms_norm(OUT(0), OUT(1), x->data, IN(1), call->node->attributes.x, rows_of(x),
                            width_of(x), x->dtype);
}

const et_op_functions et_cpu_RMS_NORM = { .run = run_rms_norm };

/* A scale that nobody trains has no gradient's place. */
static void run_rms_norm_grad(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *x = TENSOR_IN(1);
    const int64_t rows = rows_of(x), width = width_of(x);
    float *dgamma = OUT(1);
    if (!dgamma)
        dgamma = scratch(plan) + et_row_blocks(rows) * width;
    kernels(plan)->rms_norm_grad(OUT(0), dgamma, scratch(plan), IN(0), x->data, IN(2), IN(3), rows,
                                 width, x->dtype);
}

const et_op_functions et_cpu_RMS_NORM_GRAD = { .run = run_rms_norm_grad,
                                               .scratch = et_cpu_scratch_of_sums };

/* Input number i is a mask of the samples of x, if there is one. */
static et_counted counted(const et_plan *plan, const et_plan_call *call, int i, const et_tensor *x)
{
    const int64_t samples = x->shape.size[0];
    const bool masked = call->in_count == i + 1;
    return (et_counted){ .mask = masked ? IN(i) : NULL,
                         .each = samples > 0 ? rows_of(x) / samples : 1 };
}

static void run_batch_norm(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *x = TENSOR_IN(0);
    const int64_t rows = rows_of(x), width = width_of(x);
    const bool given = call->in_count == 5;
    const et_counted rows_counted = counted(plan, call, 3, x);
    float *kept = scratch(plan) + et_row_blocks(rows) * width;
    float *mean = given ? IN(3) : OUT(1);
    float *variance = given ? IN(4) : OUT(2);
    mean = mean ? mean : kept;
    variance = variance ? variance : kept + width;
    if (!given)
        kernels(plan)->column_moments(mean, variance, scratch(plan), x->data, &rows_counted, rows,
                                      width, x->dtype);
    const et_batch_statistics norm = { .mean = mean,
                                       .variance = variance,
                                       .gamma = IN(1),
                                       .beta = IN(2),
                                       .epsilon = call->node->attributes.x,
                                       .given = given,
                                       .counted = rows_counted };
    kernels(plan)->batch_norm(OUT(0), x->data, &norm, rows, width, x->dtype);
}

const et_op_functions et_cpu_BATCH_NORM = { .run = run_batch_norm,
                                            .scratch = et_cpu_scratch_of_sums };

static void run_batch_norm_grad(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *x = TENSOR_IN(1);
    const int64_t rows = rows_of(x), width = width_of(x);
    float *kept = scratch(plan) + et_row_blocks(rows) * 2 * width;
    float *dgamma = OUT(1), *dbeta = OUT(2);
    const et_batch_statistics norm = { .mean = IN(2),
                                       .variance = IN(3),
                                       .gamma = IN(4),
                                       .epsilon = call->node->attributes.x,
                                       .given = call->node->attributes.given,
                                       .counted = counted(plan, call, 5, x) };
    kernels(plan)->batch_norm_grad(OUT(0), dgamma ? dgamma : kept, dbeta ? dbeta : kept + width,
                                   scratch(plan), IN(0), x->data, &norm, rows, width, x->dtype);
}

const et_op_functions et_cpu_BATCH_NORM_GRAD = { .run = run_batch_norm_grad,
                                                 .scratch = et_cpu_scratch_of_sums };

/* ---- convolutions ---- */

/* x and y [N, H, W, C], weight [KH, KW, C, F], in their planned sizes; of the derivatives one is
 * the result, and inputs are dy and the weight, or dy and x. The primitives belong to the call: a
 * plan has few of them, and several plans may run at a time. */
static int prepare_convolution(et_plan *plan, et_plan_call *call, et_error *error)
{
    const et_convolution_options *options = &call->node->attributes.convolution;
    const bool forward = call->node->op == ET_OP_CONVOLUTION;
    const bool by_weight = call->node->op == ET_OP_CONVOLUTION_WEIGHT_GRAD;
    const et_shape first = TENSOR_IN(0)->shape;
    const et_shape second = TENSOR_IN(1)->shape;
    const et_shape result = TENSOR_OUT(0)->shape;
    const et_shape x = forward ? first : by_weight ? second : result;
    et_window windows[2];
    et_convolution_windows(windows, x, by_weight ? result : second, options);
    const et_conv_shape shape = { .batch = x.size[0],
                                  .channels = x.size[3],
                                  .filters = (forward ? result : first).size[3],
                                  .down = windows[0],
                                  .across = windows[1],
                                  .dtype = plan->graph->options.act,
                                  .bias = call->in_count == 3,
                                  .relu = options->relu };
    const et_dtype as = et_gemm_multiplied_as(plan->device->gemms, shape.dtype);
    int status = et_conv_new(&call->conv,
                             forward     ? ET_CONV_FORWARD
                             : by_weight ? ET_CONV_WEIGHT
                                         : ET_CONV_DATA,
                             &shape, as, plan->device->threads, plan->device->kernels, error);
    if (status)
        return et_fail_while(error, status, "%s", call->node->name);
    call->scratch = et_conv_scratch(call->conv);
    return ET_OK;
}

/* The forward pass and the derivative by the image: an image and the weight. */
static void run_convolution(const et_plan *plan, const et_plan_call *call)
{
    const void *weight = et_plan_data_as(plan, call->in[1], et_conv_weight_type(call->conv));
    et_conv_run(call->conv, plan->scratch, OUT(0), IN(0), weight,
                call->in_count == 3 ? IN(2) : NULL);
}

const et_op_functions et_cpu_CONVOLUTION = { .run = run_convolution,
                                             .prepare = prepare_convolution };
const et_op_functions et_cpu_CONVOLUTION_GRAD = { .run = run_convolution,
                                                  .prepare = prepare_convolution };

static void run_convolution_weight_grad(const et_plan *plan, const et_plan_call *call)
{
    et_conv_run(call->conv, plan->scratch, OUT(0), IN(1), IN(0), NULL);
}

const et_op_functions et_cpu_CONVOLUTION_WEIGHT_GRAD = { .run = run_convolution_weight_grad,
                                                         .prepare = prepare_convolution };

/* ---- pooling ---- */

/* x: the image, or its derivative. */
static void run_pool(const et_plan *plan, const et_plan_call *call)
{
    const bool back = call->node->op == ET_OP_POOL_GRAD;
    const bool mean = back ? call->in_count == 1 : call->node->op == ET_OP_MEAN_POOL;
    const et_tensor *x = back ? TENSOR_OUT(0) : TENSOR_IN(0);
    et_window windows[2];
    et_pool_windows(windows, x->shape, &call->node->attributes.pool);
    const et_pool_shape shape = { .batch = x->shape.size[0],
                                  .channels = x->shape.size[3],
                                  .down = windows[0],
                                  .across = windows[1],
                                  .mean = mean,
                                  .dtype = x->dtype };
    void *to = OUT(0), *from = IN(0);
    if (back)
        kernels(plan)->pool_grad(to, from, mean ? NULL : IN(1), &shape);
    else
        kernels(plan)->pool(to, mean ? NULL : OUT(1), from, &shape);
}

const et_op_functions et_cpu_MAX_POOL = { .run = run_pool };
const et_op_functions et_cpu_MEAN_POOL = { .run = run_pool };
const et_op_functions et_cpu_POOL_GRAD = { .run = run_pool };
