/* The internals of exec, for its own files: values, calls and the plan itself. See plan.h.
 *
 *   fuse.c     from nodes to calls: which element-wise chains become one
 *   memory.c   weights in the layout of products; live ranges and places of values
 *   cpu/       per op: needs at planning (prepare), kernels (run)
 *   plan.c     combines these; values, the ranges of gradients that are final, calls as spans
 *
 * Invariants: (1) a call's inputs are written by earlier calls or are leaves; (2) two values with
 * overlapping live ranges do not share memory, unless one is the other's alias; (3) after
 * et_plan_new no pointer of a call changes, except pointers to bound inputs and to parameters. */
#ifndef ETUDE_ENGINE_EXEC_PLAN_PRIVATE_H
#define ETUDE_ENGINE_EXEC_PLAN_PRIVATE_H

#include "base/assert.h"
#include "engine/exec/plan.h"
#include "engine/tensor/params.h"

/* The owner of a value's memory, which decides how long an address is valid: the plan for the arena
 * and constants, the caller for bound inputs, the store for all others. */
typedef enum value_storage {
    VALUE_UNUSED, /* never read: data is NULL */
    VALUE_IN_ARENA,
    VALUE_IS_INPUT,     /* bound */
    VALUE_IN_PARAMS,    /* in the store; moves with et_params_use */
    VALUE_IN_GRADIENTS, /* in the store's flat gradients */
    VALUE_IS_CONSTANT,  /* owned by the plan */
} value_storage;

/* One result of one node. tensor.shape is the shape of this run (et_plan_set_rows); the planned
 * shape is in the node's type. tensor.data is NULL until the value is placed or bound. written and
 * last_read are numbers of calls. */
typedef struct et_plan_value {
    et_tensor tensor;
    const et_node *node;
    value_storage storage;
    int written;   /* call that writes it, -1: a leaf */
    int last_read; /* call after which it is dead; INT_MAX: kept to the end */
    int alias;     /* value that shares its memory with this one; -1: none */
    bool views;    /* the alias is the input of which this value is a view */
    size_t offset; /* VALUE_IN_ARENA: for et_plan_at */
} et_plan_value;

/* A weight in a product's layout. Owned by the plan that packs, in `packed` or in the arena; data
 * is aligned to 64. A parameter is identified by its index in the store. */
typedef struct et_plan_pack {
    const et_gemm *gemm; /* NULL: products of rows */
    et_row_weight rows;  /* of the rows; their memory is data */
    bool transposed;     /* of the rows */
    int param;
    int64_t first;  /* element of the parameter that the product's operand begins with */
    et_dtype dtype; /* of the values packed: float32 or the bfloat16 shadow */
    int call;       /* the call that reads the pack; for a kept pack, the first such call */
    void *data;
    int next; /* for a kept pack: another pack of the same parameter; -1: none */
} et_plan_pack;

/* Packs that are made together, before the first call that reads one of them, and freed together,
 * after the last such call. Groups make it rarely necessary to start threads, which share the
 * packs. A group lives from call `from` to call `to`, both included. bytes: the sum of its packs,
 * each rounded up. */
typedef struct et_plan_pack_group {
    int first, count; /* in plan->packs */
    int from, to;     /* calls of the first and the last */
    size_t bytes;
    size_t offset; /* for et_plan_at */
} et_plan_pack_group;

typedef struct et_plan_call et_plan_call;
typedef void et_plan_run_fn(const et_plan *plan, const et_plan_call *call);

/* Most products of a call: the vocabulary loss has four, and four for its last part. */
#define ET_PLAN_GEMMS_MAX 8

/* in[] and out[] are indices of values, in the order of the node's inputs and results; for a
 * chain in the order of first use. Owned by the plan; products are borrowed from the device. */
struct et_plan_call {
    et_plan_run_fn *run;
    const et_node *node; /* of a chain: the last one */
    int in[ET_EW_INPUTS_MAX], in_count;
    int out[ET_EW_OUTPUTS_MAX], out_count;
    et_ew_program program; /* of element-wise calls */
    struct et_conv *conv;  /* convolutions: its own */
    et_gemm *gemm[ET_PLAN_GEMMS_MAX];
    int pack[ET_PLAN_GEMMS_MAX]; /* index of the packed operand B of gemm[i]; -1: plain */
    int pack_group;              /* to be packed before this call; -1: none */
    size_t scratch;              /* bytes that run wants */
    size_t scratch_offset;       /* for et_plan_at */
};

/* graph, device and the options' pointers are borrowed, all else is owned except activities.
 * outputs are in the caller's order. random, scratch and runs belong to the current run. version
 * and weights identify the parameters of packs and pointers. */
struct et_plan {
    et_graph *graph;
    et_device *device;
    et_plan_options options;
    int *first_value; /* [nodes]: index of a node's first result */
    et_plan_value *values;
    int value_count;
    et_plan_call *calls;
    int call_count;
    int *outputs; /* values */
    int output_count;
    et_plan_pack *packs; /* in the order of the calls that read them */
    int pack_count;
    size_t pack_capacity;
    int *pack_of_param;    /* [parameters]: the last pack of each, -1: none; only for kept packs */
    unsigned char *packed; /* with keep_packed: all of them */
    et_plan_pack_group *pack_groups;
    int pack_group_count;
    unsigned char *arena;
    size_t gradient_bytes;  /* bytes of the store's gradient array, which values use too; 0: not
                             * used */
    unsigned char *scratch; /* of the call that runs */
    et_plan_memory memory;
    uint64_t version;     /* of the store when it was last packed */
    const float *weights; /* its values when last refreshed */
    et_random random;
    float dropout; /* a factor on all its rates */
    void (*run_call)(const et_plan *plan, int i);
    const et_activity *activities; /* [call_count], owned by the trace; NULL without a trace */
    const et_activity *activity;   /* of the whole run */
    int64_t runs;
    struct et_plan_copy {
        int value, param;
    } * copies; /* gradients that are another value's memory */
    int copy_count;
    const et_plan_listener *listener; /* borrowed; NULL: none */
    struct et_plan_news {
        int call, range; /* the last call that writes the range; -1: none */
    } * news;            /* [news_count], in the order of calls */
    int news_count;      /* the listener's ranges; 0: no listener */
};

/* The value of a node; a RESULT node has no call: it names result k of its input, whose values are
 * adjacent. */
static inline int et_plan_value_of(const et_plan *plan, const et_node *node)
{
    if (node->op == ET_OP_RESULT)
        return plan->first_value[node->input[0]->id] + node->attributes.result;
    return plan->first_value[node->id];
}

/* A value's memory now; NULL: never read, or an input that is not bound yet. */
static inline void *et_plan_data(const et_plan *plan, int value)
{
    return plan->values[value].tensor.data;
}

/* The same in a type. A parameter is float32 in the store; the store also has its bfloat16 shadow,
 * at the same offset. All other values are read in their own type. */
static inline const void *et_plan_data_as(const et_plan *plan, int value, et_dtype dtype)
{
    const et_plan_value *v = &plan->values[value];
    if (v->storage == VALUE_IN_PARAMS && dtype == ET_BF16) {
        et_params *params = plan->graph->params;
        return et_params_shadow(params) + et_params_offset(params, v->node->attributes.param);
    }
    et_assert_equal(v->tensor.dtype, dtype);
    return v->tensor.data;
}

/* The memory of an offset: in the store's gradient array, or in the arena after it. No tenant
 * crosses the border, so an offset decides for all of its bytes. */
static inline unsigned char *et_plan_at(const et_plan *plan, size_t offset)
{
    if (offset < plan->gradient_bytes)
        return (unsigned char *)et_params_gradients(plan->graph->params) + offset;
    return plan->arena + (offset - plan->gradient_bytes);
}

/* fuse.c: makes plan->calls from the reachable nodes. */
int et_plan_make_calls(et_plan *plan, const bool *reached, et_error *error);

/* memory.c: adds a packed copy of parts of a parameter. wanted: gemm, param, first and dtype are
 * set; or rows (kind, n, k and panel), transposed, param and dtype. *pack is its index. If copies
 * are kept, calls with the same product and operand share one. */
int et_plan_add_pack(et_plan *plan, const et_plan_pack *wanted, int *pack, et_error *error);

/* memory.c: a pack by its index, the plan's own or another plan's (packed_by). */
const et_plan_pack *et_plan_pack_at(const et_plan *plan, int pack);

/* memory.c: call when all are known: memory for kept packs, or groups. */
int et_plan_make_packs(et_plan *plan, et_error *error);

/* memory.c: packs some of plan->packs, from first, with all threads. */
void et_plan_run_packs(const et_plan *plan, int first, int count);

/* memory.c: prepares calls[i].run: packing, scratch. */
void et_plan_begin_call(et_plan *plan, int i);

/* memory.c: lives, offsets, sizes; plan->memory and the arena. */
int et_plan_lay_out(et_plan *plan, et_error *error);

/* cost.c: the least work of a call, operations and bytes, from the shapes of its inputs and
 * outputs. The profile and the benchmarks take their rates and roofs from here.
 *
 * flops: a product [m, k] x [k, n] has 2 m n k, its bias and activation none. Attention has only
 * its products, over the scores of its segments. An element-wise node has one operation per
 * element. Norms and losses have the operations of their formula; an exponential counts as one.
 * bytes: inputs and outputs, each once, in their type in memory, although caches may hold them and
 * kernels may read them twice.
 *
 * The cost belongs to the call's last run; the lengths of attention come from the bound batch. An
 * op without a cost function does not compile. */
et_cost et_plan_call_cost(const et_plan *plan, const et_plan_call *call);

/* The kind under which a call is counted: its op, but one kind for all element-wise chains and
 * three for products, by their results. Static. */
const char *et_plan_call_kind(const et_plan_call *call);

/* Inputs and outputs by their number in the call. */
static inline const et_tensor *in_tensor(const et_plan *plan, const et_plan_call *call, int i)
{
    return &plan->values[call->in[i]].tensor;
}

static inline const et_tensor *out_tensor(const et_plan *plan, const et_plan_call *call, int i)
{
    return &plan->values[call->out[i]].tensor;
}

/* In a function of a plan and a call. */
#define TENSOR_IN(i)  in_tensor(plan, call, i)
#define TENSOR_OUT(i) out_tensor(plan, call, i)

#endif
