/* Random numbers as nodes (graph.h). A number is a function of (seed, step, the node's full name,
 * element), as for dropout. So each step has other numbers, and they do not depend on the number of
 * threads or on a resume. Two nodes of one scope need different names.
 *
 *     et_node *noise = et_noise(s, "noise", et_shape_2(batch, 20));        (a VAE's sample)
 *     et_node *z = et_add(mean, et_mul(deviation, noise));
 *     et_node *pixels = et_bernoulli(s, "pixels", et_sigmoid(z));
 */
#ifndef ETUDE_OPS_RANDOM_H
#define ETUDE_OPS_RANDOM_H

#include <etude/graph.h>

/* Normal numbers with mean 0 and deviation 1, act. To sample from a learned distribution, scale and
 * shift them: the derivative then reaches scale and shift. */
ET_API et_node *et_noise(et_scope *scope, const char *name, et_shape shape);

/* 1 with probability p, else 0, for each element, in p's type. No derivative: p gets none from the
 * sample. */
ET_API et_node *et_bernoulli(et_scope *scope, const char *name, et_node *p);

#endif
