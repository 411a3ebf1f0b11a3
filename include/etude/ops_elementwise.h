/* Element-wise ops (ops.h): ops that compute each element separately. A chain of them is one pass
 * over memory.
 *
 *     et_node *scaled = et_div(x, et_sqrt(et_offset(et_row_mean(et_square(x)), 1e-6f)));
 *     et_node *gate = et_mul(et_sigmoid(a), et_tanh(b));
 *     et_node *q = et_clamp(et_offset(et_scale(p, -1), 1), 0, 1);
 *     et_node *focal = et_mul(et_power(q, 2), et_ln(p));
 *     et_node *mish = et_mul(x, et_tanh(et_softplus(x)));
 *     et_node *same = et_mish(x), *other = et_selu(x);        the first is the line above
 *     et_node *waves = et_mul(et_sin(x), et_cos(x));
 *     et_node *softsign = et_mul(x, et_reciprocal(et_offset(et_abs(x), 1)));
 *     et_node *sum = et_add(et_gelu(a), et_swish(b));
 *     et_node *distance = et_sub(et_cast(prediction, ET_F32), et_cast(whole_numbers, ET_F32));
 *
 * x, a and b are float32 or bfloat16; the result has the same type. One of two operands may be
 * repeated if it is float32 or has the other operand's type: a vector [D] over the rows of [T, D],
 * a column [T, 1] over the columns, a scalar over both. The derivative of a repeated operand is the
 * sum over all repetitions. */
#ifndef ETUDE_OPS_ELEMENTWISE_H
#define ETUDE_OPS_ELEMENTWISE_H

#include <etude/dtype.h>
#include <etude/graph.h>

/* ---- arithmetic ---- */

ET_API et_node *et_add(et_node *a, et_node *b);      /* a + b */
ET_API et_node *et_sub(et_node *a, et_node *b);      /* a - b */
ET_API et_node *et_mul(et_node *a, et_node *b);      /* a b */
ET_API et_node *et_div(et_node *a, et_node *b);      /* a / b */
ET_API et_node *et_scale(et_node *a, float factor);  /* factor a */
ET_API et_node *et_offset(et_node *a, float number); /* a + number */
ET_API et_node *et_bias(et_node *x, et_node *bias);  /* x + bias; bias [D] */

/* ---- activations ---- */

ET_API et_node *et_relu(et_node *x); /* max(x, 0) */
ET_API et_node *et_gelu(et_node *x); /* x Phi(x), with erf */
ET_API et_node *et_tanh(et_node *x);
ET_API et_node *et_sigmoid(et_node *x);  /* 1 / (1 + e^-x) */
ET_API et_node *et_swish(et_node *x);    /* x sigmoid(x) */
ET_API et_node *et_softplus(et_node *x); /* log(1 + e^x), without overflow */
ET_API et_node *et_selu(et_node *x);     /* 1.0507 x; below 0: 1.7581 (e^x - 1) */
ET_API et_node *et_mish(et_node *x);     /* x tanh(softplus(x)) */

/* ---- functions ---- */

ET_API et_node *et_exp(et_node *x);        /* e^x */
ET_API et_node *et_ln(et_node *x);         /* natural logarithm; NaN below 0 */
ET_API et_node *et_sqrt(et_node *x);       /* NaN below 0 */
ET_API et_node *et_square(et_node *x);     /* x^2 */
ET_API et_node *et_sin(et_node *x);        /* of radians; NaN if |x| > 65536 */
ET_API et_node *et_cos(et_node *x);        /* the same */
ET_API et_node *et_reciprocal(et_node *x); /* 1 / x */
ET_API et_node *et_abs(et_node *x);        /* |x|; its derivative at 0 is 0 */

/* x^exponent; exponent is finite and not 0. NaN if x is below 0 and exponent is not an integer. */
ET_API et_node *et_power(et_node *x, float exponent);

/* x clipped to [low, high], low <= high; either may be infinite for no bound. The derivative is
 * that of x inside and 0 at the bounds and outside. */
ET_API et_node *et_clamp(et_node *x, float low, float high);

/* ---- types ---- */

/* x with elements of another type: from float32, bfloat16 or int32 to float32 or bfloat16, rounded
 * to nearest, ties to even. A chain of element-wise ops does not round in between. Derivatives pass
 * between floating-point types. x itself if it has this type. Poison: to int32 from another type,
 * because an id must come from a batch, which checks it. */
ET_API et_node *et_cast(et_node *x, et_dtype dtype);

#endif
