/* Random numbers as nodes (graph.h). A number is a function of (seed, step, the node's full name,
 * element), as dropout's are: another one in each step, the same for any number of threads and in a
 * resumed run. Two nodes of one scope have two names.
 *
 *     et_node *noise = et_noise(s, "noise", et_shape_2(batch, 20));        (a VAE's sample)
 *     et_node *z = et_add(mean, et_mul(deviation, noise));
 *     et_node *pixels = et_bernoulli(s, "pixels", et_sigmoid(z));
 */
#ifndef ETUDE_OPS_RANDOM_H
#define ETUDE_OPS_RANDOM_H

#include <etude/graph.h>

/* Normal numbers, mean 0 and deviation 1, act: what is sampled is differentiated by what it is
 * scaled and moved by. */
ET_API et_node *et_noise(et_scope *scope, const char *name, et_shape shape);

/* 1 with probability p, else 0, element by element, in p's type. Not differentiated: p gets
 * nothing from a sample. */
ET_API et_node *et_bernoulli(et_scope *scope, const char *name, et_node *p);

#endif
