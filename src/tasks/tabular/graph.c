#include "tasks/tabular/graph.h"

#include <string.h>

#include "base/alloc.h"
#include "base/fields/fields.h"
#include "tasks/tabular/tabular_kind.h"
#include "tasks/tabular/tabular_task.h"

struct et_tabular_graph {
    const et_tabular_options *options;
    const et_encoder *encoder;
    et_tabular_target target;
};

static bool is_ours(const char *name)
{
    const et_experiment_row *row = et_tabular_experiments;
    while (row->name && strcmp(row->name, name) != 0)
        row++;
    return row->name != NULL;
}

/* A run of another task is reported as such, not by an unknown name. */
int et_tabular_graph_check(et_experiment *experiment, const et_artifact *artifact, et_arena *arena,
                           et_error *error)
{
    const char *name;
    int status = et_experiment_artifact_name(&name, &et_tabular_program, artifact, arena, error);
    if (!status && name && !is_ours(name))
        status = et_fail(error, ET_ECONFIG, "%s: a run of %s, which is not a task for tables",
                         artifact->name, name);
    return status ? status
                  : et_experiment_open_artifact(experiment, &et_tabular_program, artifact, arena,
                                                error);
}

int et_tabular_graph_open(et_tabular_graph **out, const et_experiment *experiment,
                          const char *directory, const et_encoder *encoder, et_arena *arena,
                          et_error *error)
{
    et_tabular_graph *graph = et_arena_alloc(arena, sizeof *graph);
    *out = graph;
    if (!graph)
        return et_alloc_failed(error, sizeof *graph, "a model");
    *graph = (et_tabular_graph){ .options = experiment->task, .encoder = encoder };
    int status = et_tabular_target_of(&graph->target, graph->options, encoder, error);
    return status ? et_fail_while(error, status, "%s", directory) : ET_OK;
}

void et_tabular_graph_build(et_scope *scope, void *graph)
{
    const et_tabular_graph *g = graph;
    et_tabular_build_outputs(scope, g->options, g->encoder, &g->target);
}

int et_tabular_graph_check_identity(const et_experiment *experiment, const et_artifact *artifact,
                                    const et_identity *identity, et_error *error)
{
    int status = et_experiment_check_model(experiment, identity, et_artifact_run(artifact), error);
    return status ? status : et_tabular_belongs_in(artifact, identity, error);
}
