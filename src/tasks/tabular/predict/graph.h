/* The graph of prediction of a run of `etude train`: the parts of the task's settings and functions
 * that a predictor needs. */
#ifndef ETUDE_TASKS_TABULAR_GRAPH_H
#define ETUDE_TASKS_TABULAR_GRAPH_H

#include "base/arena.h"
#include "data/table/features/encoder.h"
#include "systems/modelgarden/experiment.h"

typedef struct et_tabular_graph et_tabular_graph;

/* Reads the settings. ET_ECONFIG: they are those of another task. */
int et_tabular_graph_check(et_experiment *experiment, const et_artifact *artifact, et_arena *arena,
                           et_error *error);

/* In arena. experiment: as check has read it; it and the encoder outlive the graph. */
int et_tabular_graph_open(et_tabular_graph **out, const et_experiment *experiment,
                          const char *directory, const et_encoder *encoder, et_arena *arena,
                          et_error *error);

/* Names of the levels of quantiles, "0.1"; none: it has no quantiles. Borrowed. */
const et_strings *et_tabular_graph_levels(const et_tabular_graph *graph);

/* An et_build_fn, whose payload is the graph. */
void et_tabular_graph_build(et_scope *scope, void *graph);

/* For a pack: reads the members of the ensemble from the weights that will be loaded
 * (et_artifact_weights). Call before the graph is built. ET_EDATA: no ensemble was chosen yet. */
int et_tabular_graph_choose(et_tabular_graph *graph, const et_artifact *artifact,
                            const char *checkpoint, bool live_weights, et_arena *arena,
                            et_error *error);

/* Checks that the settings and files next to a checkpoint are those of its training. */
int et_tabular_graph_check_identity(const et_experiment *experiment, const et_artifact *artifact,
                                    const et_identity *identity, et_error *error);

#endif
