/* The values of a plan and their memory, for all files that make and run calls. */
#include "base/assert.h"
#include "engine/exec/plan_private.h"
#include "engine/tensor/params.h"

/* A RESULT node has no call: it names result k of its input, whose values are adjacent. */
int et_plan_value_of(const et_plan *plan, const et_node *node)
{
    if (node->op == ET_OP_RESULT)
        return plan->first_value[node->input[0]->id] + node->attributes.result;
    return plan->first_value[node->id];
}

/* A parameter is float32 in the store; the store also has its bfloat16 shadow, at the same offset.
 * All other values are read in their own type. */
const void *et_plan_data_as(const et_plan *plan, int value, et_dtype dtype)
{
    const et_plan_value *v = &plan->values[value];
    if (v->storage == VALUE_IN_PARAMS && dtype == ET_BF16) {
        et_params *params = plan->graph->params;
        return et_params_shadow(params) + et_params_offset(params, v->node->attributes.param);
    }
    et_assert_equal(v->tensor.dtype, dtype);
    return v->tensor.data;
}
