/* Variants of a pass: its model function for one layout of batches. This module does what happens
 * once for a layout: open builds the graph and derives it; plan makes the plan, as soon as the
 * store of parameters has memory. The pass (pass.h) keeps its variants and runs them.
 *
 *   build(scope) -> marks -> derivatives -> plan, whose outputs are the marks' nodes, in order */
#ifndef ETUDE_ENGINE_EXEC_VARIANT_H
#define ETUDE_ENGINE_EXEC_VARIANT_H

#include <etude/pass.h>

#include "base/arena.h"
#include "engine/exec/ids.h"
#include "engine/exec/plan.h"
#include "engine/graph/graph.h"

/* What all variants of a pass are made of. */
typedef struct et_variant_parts {
    et_device *device; /* borrowed, like all members before options, and listener */
    et_params *params;
    et_build_fn *build;
    void *payload;
    et_pass_options options;
    bool *chosen; /* [chosen_count] parameters of options.group, owned by the pass; NULL: none */
    int chosen_count;
    struct et_patterns *frozen;       /* of options.frozen, likewise */
    const et_plan_listener *listener; /* of each plan; NULL: none */
    float scale;                      /* of all gradients; plans read it at each run */
} et_variant_parts;

/* An element of an output of the plan, or a constant. */
typedef struct et_output_element {
    int output;              /* -1: a constant */
    const et_tensor *tensor; /* the output, once there is a plan */
    int element;
    double constant;
} et_output_element;

typedef struct et_placed_mark {
    const et_mark *mark; /* of the variant's graph */
    et_output_element value, weight;
} et_placed_mark;

typedef struct et_variant {
    et_layout *layout; /* a copy, in arena, as samples may be closed before; its graph has it too */
    et_arena arena;
    et_graph *graph; /* NULL: planning has failed, it is built again */
    et_plan *plan;   /* NULL: not yet */
    bool ran;        /* there are values */
    et_recompute recompute;
    et_ids ids; /* what its batches choose among */
    int *input; /* [layout.fields]: place of each field in the plan */
    int one;    /* place of the input ET_GRAPH_ONE */
    et_placed_mark
        *marks; /* [mark_count]: what is measured, moving means, outputs; each in order */
    int measures, tracks, mark_count;
    int first_loss, last_loss; /* in marks, with measures between; -1: none */
} et_variant;

/* Whether a parameter has gradients, if the loss depends on it. */
bool et_variant_trains(const et_variant_parts *parts, int param);

/* Builds and derives; after a failure nothing is left to release. ET_EGRAPH: the model does not fit
 * the layout. */
int et_variant_open(et_variant *v, const et_variant_parts *parts, const et_layout *layout,
                    et_error *error);
void et_variant_release(et_variant *v);

/* Plans; the store of parameters has memory. parts stays, as the plan reads its scale. After a
 * failure the variant can be planned again. */
int et_variant_plan(et_variant *v, const et_variant_parts *parts, et_error *error);

#endif
