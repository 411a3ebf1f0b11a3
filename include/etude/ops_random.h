/* Random numbers as nodes (graph.h). A number is a function of (seed, step, the node's full name,
 * element), as dropout's are: another one in each step, the same for any number of threads and in a
 * resumed run. Two nodes of one scope have two names.
 *
 *     et_node *noise = et_noise(s, "noise", et_shape_2(batch, 20));        (a VAE's sample)
 *     et_node *z = et_add(mean, et_mul(deviation, noise));
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

/* Of so many classes, count that a softmax is to be estimated by (importance sampling: Bengio and
 * Senecal 2008, "Adaptive Importance Sampling to Accelerate Training of a Neural Probabilistic
 * Language Model"; of the labels' classes and others: Jean et al. 2015, "On Using Very Large Target
 * Vocabulary for Neural Machine Translation"): first all classes that labels (int32 [T], negative:
 * none) have, d of them, ascending, then others, each as likely as any and none twice. Result:
 * int32 [count]. *places: each label's place among them, negative where there is no label, int32
 * [T]. *offsets: log of how many classes a candidate stands for, float32 [count]: 0 for the labels'
 * and log((classes - d) / (count - d)) for the others. Added to logits z they make the sum of e^z
 * over candidates an unbiased estimate of that over all classes, if any others are drawn: count is
 * more than d. count: at least T, or classes. */
ET_API et_node *et_candidates(et_scope *scope, const char *name, et_node *labels, int64_t classes,
                              int64_t count, et_node **places, et_node **offsets);

#endif
