/* The least work of a call of a plan: operations and bytes, from the shapes of its inputs and
 * outputs. The profile and the benchmarks take their rates and roofs from here.
 *
 * flops: a product [m, k] x [k, n] has 2 m n k, its bias and activation none. Attention has only
 * its products, over the scores of its segments. An element-wise node has one for each element;
 * norms and losses have those of their formula, with an exponential as one. bytes: inputs and
 * outputs, each once, in their type in memory, although caches may hold them and kernels may read
 * them twice. */
#ifndef ETUDE_ENGINE_EXEC_COST_H
#define ETUDE_ENGINE_EXEC_COST_H

#include "engine/exec/plan_private.h"

/* The cost of the call's last run; the lengths of attention come from the bound batch. An op
 * without a cost function does not compile. */
et_cost et_plan_call_cost(const et_plan *plan, const et_plan_call *call);

/* The kind under which a call is counted: its op, but one kind for all element-wise chains and
 * three for products, by their results. Static. */
const char *et_plan_call_kind(const et_plan_call *call);

#endif
