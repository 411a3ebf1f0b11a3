/* Readiness of gradients: the call after which each range of the store's gradient array is final. A
 * gradient is final when the call that writes it has run. Earlier writes to the same memory (a base
 * that rows are added to) come before it, and no other value that only used this memory is still
 * live. Gradients that are copied are final after the last call; those that no call writes are
 * final from the beginning. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "engine/exec/plan_private.h"

#define NEVER_WRITTEN (-1)

/* writer[value]: the call whose result it is. */
static void find_writers(const et_plan *plan, int *writer)
{
    for (int s = 0; s < plan->call_count; s++)
        for (int k = 0; k < plan->calls[s].out_count; k++)
            writer[plan->calls[s].out[k]] = s;
}

/* A parameter's gradient is written in that call, into one range or several. */
static void note(const et_plan *plan, const et_plan_listener *listener, int param, int call)
{
    const et_params *params = plan->graph->params;
    int64_t begin = et_params_offset(params, param), from = 0;
    int64_t end = begin + et_shape_count(et_params_shape(params, param));
    for (int i = 0; i < listener->ranges; from = listener->end[i++])
        if (from < end && listener->end[i] > begin && plan->news[i].call < call)
            plan->news[i].call = call;
}

static int compare(const void *left, const void *right)
{
    const struct et_plan_news *a = left, *b = right;
    return a->call != b->call ? (a->call > b->call) - (a->call < b->call)
                              : (a->range > b->range) - (a->range < b->range);
}

static void find_news(et_plan *plan, const et_plan_listener *listener, const int *writer)
{
    const et_graph *graph = plan->graph;
    for (int i = 0; i < listener->ranges; i++)
        plan->news[i] = (struct et_plan_news){ NEVER_WRITTEN, i };
    for (int i = 0; i < graph->gradient_count; i++) {
        int value = et_plan_value_of(plan, graph->gradients[i].node);
        bool copied = plan->values[value].storage != VALUE_IN_GRADIENTS;
        note(plan, listener, graph->gradients[i].param, copied ? plan->call_count : writer[value]);
    }
    for (int i = 0; i < plan->copy_count; i++)
        note(plan, listener, plan->copies[i].param, plan->call_count);
    qsort(plan->news, (size_t)listener->ranges, sizeof *plan->news, compare);
}

int et_plan_listen(et_plan *plan, const et_plan_listener *listener, et_error *error)
{
    et_free(plan->news);
    plan->news = NULL;
    plan->news_count = 0;
    plan->listener = listener;
    if (!listener)
        return ET_OK;
    size_t ranges = (size_t)listener->ranges;
    int *writer = et_alloc_zero((size_t)plan->value_count, sizeof *writer);
    plan->news = et_alloc(ranges, sizeof *plan->news);
    if (writer && plan->news) {
        find_writers(plan, writer);
        find_news(plan, listener, writer);
        plan->news_count = listener->ranges;
    }
    et_free(writer);
    return plan->news_count == listener->ranges
               ? ET_OK
               : et_alloc_failed(error, ranges * sizeof *plan->news, "a plan");
}

int et_plan_heard(const et_plan *plan, int i)
{
    et_assert(i >= 0 && i < plan->news_count);
    return plan->news[i].range;
}

int et_plan_tell(const et_plan *plan, int call, int reported)
{
    for (; reported < plan->news_count && plan->news[reported].call <= call; reported++)
        plan->listener->final(plan->listener->self, plan->news[reported].range);
    return reported;
}
