/* What a call of a plan has to do at least: operations and bytes, from the shapes of what it
 * reads and writes. The profile and the benchmarks take their rates and roofs from here.
 *
 * flops: a product [m, k] x [k, n] has 2 m n k, its bias and activation none; attention has its
 * products alone, over the scores that its segments have; an element-wise node one for each
 * element; norms and losses what their formula has, an exponential counting as one.
 * bytes: what is read and written, each once, in the type in which it lies in memory, although
 * caches may hold it and kernels may read it twice. */
#ifndef ETUDE_ENGINE_EXEC_COST_H
#define ETUDE_ENGINE_EXEC_COST_H

#include "engine/exec/plan_private.h"

/* Of the call's last run: attention's lengths are those of the batch that is bound. Every op has
 * a function for it, or it does not compile. */
et_cost et_plan_call_cost(const et_plan *plan, const et_plan_call *call);

/* What the call is counted as: its op, but one kind for all element-wise chains and three for
 * products, by what they compute. Static. */
const char *et_plan_call_kind(const et_plan_call *call);

#endif
