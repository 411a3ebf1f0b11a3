/* Plans: executable graphs. Making a plan decides everything that depends on shapes: the nodes that
 * run, the element-wise chains that become one pass, kernels and matrix products, and the live
 * range and place of each value in one arena. Running a plan only calls kernels: nothing is
 * allocated.
 *
 *     et_plan *plan;
 *     if (et_plan_new(&plan, graph, device, outputs, count, &options, &error)) ...
 *     et_plan_bind(plan, "source_ids", batch.source_ids);
 *     et_plan_run(plan, random);
 *     const float *sums = et_plan_output(plan, 0).data;
 *
 * The gradients of a differentiated graph are outputs too: they are written directly into the
 * store's flat gradient array (overwritten at every run; padding and parameters that the loss does
 * not reach stay zero).
 *
 * Products read packed copies of weights. A plan that runs often between two changes of the weights
 * keeps the copies (keep_packed), and makes them again when the store has changed. A training plan
 * runs once or a few times between two changes, and its weights are large: each copy is made in
 * every run just before it is read, and lives only until the product.
 *
 * Borrows graph, parameter store and device. Use from one thread at a time; kernels use OpenMP
 * threads. */
#ifndef ETUDE_ENGINE_EXEC_PLAN_H
#define ETUDE_ENGINE_EXEC_PLAN_H

#include "base/numbers/philox.h"
#include "base/text/strbuf.h"
#include "engine/exec/device.h"
#include "engine/graph/graph.h"

typedef struct et_plan et_plan;

typedef struct et_plan_options {
    bool fuse;                /* element-wise chains as one pass */
    bool reuse;               /* buffers of dead values are used again */
    bool keep_packed;         /* packed weights stay until the store changes; false: they live as
                                 briefly as other values and are packed in each run. Equal bits. */
    bool int8;                /* products of rows (row_tile) take weights and rows as bytes, where
                                 activations are float32 and no sum is longer than
                                 ET_ROW_BYTES_MAX: engine/kernel/row_product.h */
    const et_plan *packed_by; /* a plan of the same products that keeps its packed weights: the new
                                 plan reads those, and must end first; NULL: the plan packs its own.
                                 Plans that share may run at the same time, after et_plan_refresh of
                                 the packing plan */
    const char *name;         /* of its runs in a trace, static; NULL: "run" */
} et_plan_options;

#define ET_PLAN_OPTIONS_INIT                                                                       \
    {                                                                                              \
        true, true, true, false, NULL, "run"                                                       \
    }

/* Memory of a plan, in bytes. */
typedef struct et_plan_memory {
    size_t activations; /* the arena: values, kernels' scratch, weights packed for a while */
    size_t packed;      /* packed weights that are kept */
    size_t constants;   /* tables made with the plan */
} et_plan_memory;

/* Plans the computation of outputs (count of them, kept after a run until the next) and of the
 * graph's gradients if it was differentiated. The store must be materialized. */
int et_plan_new(et_plan **out, et_graph *graph, et_device *device, et_node *const *outputs,
                int count, const et_plan_options *options, et_error *error);
void et_plan_free(et_plan *plan);

/* Sets the address of an input's data, which must have the input's shape and type and stay valid
 * through the run. False: the plan reads no input of that name. */
bool et_plan_bind(et_plan *plan, const char *input, const void *data);

/* Binds by index, without a search. et_plan_input: the index of an input; -1: the plan has no input
 * of this name. */
int et_plan_input(const et_plan *plan, const char *input);
void et_plan_bind_at(et_plan *plan, int index, const void *data);

/* For batches that are not full: sets the number of rows of matrices that were planned with
 * `planned` rows. A run then costs only these rows. rows is at most planned. For plans without
 * derivatives. Inputs do not change. */
void et_plan_set_rows(et_plan *plan, int64_t planned, int64_t rows);

/* Packs changed weights of the store again. Each run also does this at its start. */
void et_plan_refresh(et_plan *plan);

/* Multiplies all dropout rates of the graph by factor, 0 to 1, from the next run on. */
void et_plan_set_dropout(et_plan *plan, float factor);

/* Runs. random gives seed and step for dropout. All inputs must be bound. */
void et_plan_run(et_plan *plan, et_random random);

/* A listener to a running plan: which gradients are final. The store's gradient array is cut into
 * ranges: number i ends before element end[i] and begins at the end of the one before it. */
typedef struct et_plan_listener {
    const int64_t *end; /* [ranges], ascending */
    int ranges;
    /* Called once in a run for each range, between two calls or after the last call, when no later
     * call writes to the range. The plan determines the order (et_plan_heard). */
    void (*final)(void *self, int range);
    void *self;
} et_plan_listener;

/* Sets the listener from the next run on; it is borrowed. NULL, or after ET_ENOMEM: no listener. */
int et_plan_listen(et_plan *plan, const et_plan_listener *listener, et_error *error);

/* The i-th range that the listener gets. */
int et_plan_heard(const et_plan *plan, int i);

/* Output i. Borrowed; valid until the next run. */
et_tensor et_plan_output(const et_plan *plan, int i);
/* The same if the plan keeps the address: valid for every run, as long as the plan lives. */
const et_tensor *et_plan_output_at(const et_plan *plan, int i);

/* Runs again and checks each value: the name of the first node whose value is not finite, or NULL.
 * An input that is not finite is named only if a call makes such a value of it. For messages after
 * a loss was not finite. */
const char *et_plan_find_not_finite(et_plan *plan, et_random random);

et_plan_memory et_plan_memory_needed(const et_plan *plan);

/* Kernel calls in one run, element-wise chains counting as one. */
int et_plan_calls(const et_plan *plan);

/* One line per call: kernel, names, shapes, addresses, bytes of the arena in use. For people. */
void et_plan_print(const et_plan *plan, et_strbuf *out);

#endif
