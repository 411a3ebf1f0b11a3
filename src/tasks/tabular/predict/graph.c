#include "tasks/tabular/predict/predict.h"

#include <string.h>

#include "base/alloc.h"
#include "base/fields/fields.h"
#include "tasks/tabular/members.h"
#include "tasks/tabular/networks/networks.h"
#include "tasks/tabular/setup/setup.h"
#include "tasks/tabular/tabular_kind.h"
#include "tasks/tabular/tabular_task.h"
#include "tasks/tabular/target/target.h"

struct et_tabular_graph {
    const et_tabular_options *options;
    const et_encoder *encoder;
    et_tabular_target target;
    et_strings levels; /* of quantiles, in arena */
    bool *chosen;      /* [members] of a pack that are in its ensemble, in arena; NULL: no pack */
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

/* As short as they are read back. */
static int name_levels(et_tabular_graph *graph, et_arena *arena, et_error *error)
{
    const size_t count = (size_t)graph->target.quantiles;
    const char **names = et_arena_array(arena, count, sizeof *names);
    for (size_t i = 0; names && i < count; i++)
        names[i] = et_arena_printf(arena, "%.15g", graph->target.level[i]);
    graph->levels = (et_strings){ names, names ? count : 0 };
    return arena->failed ? et_alloc_failed(error, count * sizeof *names, "names of levels") : ET_OK;
}

const et_strings *et_tabular_graph_levels(const et_tabular_graph *graph)
{
    return &graph->levels;
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
    return status ? et_fail_while(error, status, "%s", directory)
                  : name_levels(graph, arena, error);
}

void et_tabular_graph_build(et_scope *scope, void *graph)
{
    const et_tabular_graph *g = graph;
    et_tabular_build_outputs(scope, g->options, g->encoder, &g->target, g->chosen);
}

/* A store of these alone: what else there is depends on them. */
static int load_shares(et_params *params, const et_tabular_pack *pack, et_artifact_weights *from,
                       const float **share, et_error *error)
{
    int index;
    int status = et_params_declare_variable(params, ET_PACK_ENSEMBLE "/" ET_PACK_SHARE,
                                            et_shape_1(et_pack_count(pack)),
                                            (et_init){ ET_INIT_ZEROS, 0 }, &index, error);
    if (!status)
        status = et_params_materialize(params, false, error);
    from->params = params;
    if (!status)
        status = et_artifact_load(from, error);
    if (!status)
        *share = et_params_values(params) + et_params_offset(params, index);
    return status;
}

static int choose(et_tabular_graph *graph, const float *share, const char *checkpoint,
                  et_arena *arena, et_error *error)
{
    const int64_t count = et_pack_count(&graph->options->model.pack);
    bool some = false;
    graph->chosen = et_arena_array(arena, (size_t)count, sizeof *graph->chosen);
    if (!graph->chosen)
        return et_alloc_failed(error, (size_t)count, "a model");
    for (int64_t i = 0; i < count; i++) {
        graph->chosen[i] = share[i] > 0;
        some = some || graph->chosen[i];
    }
    return some ? ET_OK
                : et_fail(error, ET_EDATA,
                          "%s has no ensemble yet: validation chooses one, and this checkpoint is "
                          "from before the first; continue the run with `etude train`",
                          checkpoint);
}

int et_tabular_graph_choose(et_tabular_graph *graph, const et_artifact *artifact,
                            const char *checkpoint, bool live_weights, et_arena *arena,
                            et_error *error)
{
    et_artifact_weights from = { .artifact = artifact,
                                 .named = checkpoint,
                                 .live_weights = live_weights,
                                 .facts = { .arena = arena } };
    const float *share = NULL;
    et_params *params;
    if (!et_tabular_is_pack(graph->options))
        return ET_OK;
    int status = et_params_new(&params, error);
    if (status)
        return status;
    status = load_shares(params, &graph->options->model.pack, &from, &share, error);
    if (!status)
        status = choose(graph, share, from.checkpoint, arena, error);
    et_free(from.checkpoint);
    et_params_free(params);
    return status;
}

int et_tabular_graph_check_identity(const et_experiment *experiment, const et_artifact *artifact,
                                    const et_identity *identity, et_error *error)
{
    int status = et_experiment_check_model(experiment, identity, et_artifact_run(artifact), error);
    return status ? status : et_tabular_belongs_in(artifact, identity, error);
}
