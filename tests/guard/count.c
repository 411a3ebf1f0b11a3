/* Counts calls of functions inside the library by wrapping them: the linker redirects calls of NAME
 * to __wrap_NAME, which reaches the function itself as __real_NAME (--wrap in CMakeLists.txt). */
#include "base/alloc.h"
#include "engine/exec/plan.h"
#include "engine/kernel/gemm/onednn_block.h"
#include "guard/guard.h"

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): the linker's names */
static guard_counts counts;

int __real_et_plan_new(et_plan **out, et_graph *graph, et_device *device, et_node *const *outputs,
                       int count, const et_plan_options *options, et_error *error);
int __wrap_et_plan_new(et_plan **out, et_graph *graph, et_device *device, et_node *const *outputs,
                       int count, const et_plan_options *options, et_error *error);
int __real_et_gemm_block_new(et_gemm_block **out, et_gemm_engine *engine,
                             const et_gemm_block_shape *shape, const et_gemm_block *like,
                             et_error *error);
int __wrap_et_gemm_block_new(et_gemm_block **out, et_gemm_engine *engine,
                             const et_gemm_block_shape *shape, const et_gemm_block *like,
                             et_error *error);
bool __real_et_gemm_block_run(const et_gemm_block *block, int thread, void *c, const void *a,
                              const void *b, const float *bias);
bool __wrap_et_gemm_block_run(const et_gemm_block *block, int thread, void *c, const void *a,
                              const void *b, const float *bias);

int __wrap_et_plan_new(et_plan **out, et_graph *graph, et_device *device, et_node *const *outputs,
                       int count, const et_plan_options *options, et_error *error)
{
    int status = __real_et_plan_new(out, graph, device, outputs, count, options, error);
    if (status)
        return status;
    et_plan_memory memory = et_plan_memory_needed(*out);
    counts.plans++;
    counts.planned += memory.activations + memory.packed + memory.constants;
    return status;
}

int __wrap_et_gemm_block_new(et_gemm_block **out, et_gemm_engine *engine,
                             const et_gemm_block_shape *shape, const et_gemm_block *like,
                             et_error *error)
{
    int status = __real_et_gemm_block_new(out, engine, shape, like, error);
    counts.primitives += !status && *out;
    return status;
}

bool __wrap_et_gemm_block_run(const et_gemm_block *block, int thread, void *c, const void *a,
                              const void *b, const float *bias)
{
    counts.products++;
    return __real_et_gemm_block_run(block, thread, c, a, b, bias);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

guard_counts guard_count_so_far(void)
{
    guard_counts now = counts;
    now.allocations = et_alloc_count();
    return now;
}
