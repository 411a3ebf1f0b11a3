/* A model function of batches as an ONNX model: the fields that it reads are inputs, its outputs
 * are outputs, with their names, for any number of rows. */
#include "engine/onnx/batches.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <etude/task.h>

#include "base/alloc.h"
#include "engine/onnx/onnx_graph.h"
#include "engine/tensor/params.h"

typedef struct export
{
    et_layout layout; /* for a prime number of rows */
    et_graph *graph;
    et_onnx *model;
    et_node *outputs[ET_NODES_MAX];
    const char *names[ET_NODES_MAX];
    int output_count;
    et_onnx_binding *bindings; /* [layout.fields]; owned */
    int binding_count;
    et_onnx_symbol rows;
    const et_onnx_edges *edges;
}
export;

static int find_outputs(export *e, const char *path, et_error *error)
{
    for (const et_mark *mark = e->graph->marks; mark; mark = mark->next) {
        if (mark->kind != ET_MARK_OUTPUT)
            continue;
        if (e->output_count == ET_NODES_MAX)
            return et_fail(error, ET_ECONFIG, "%s: more than %d outputs", path, ET_NODES_MAX);
        e->names[e->output_count] = mark->name;
        e->outputs[e->output_count++] = mark->node;
    }
    return e->output_count ? ET_OK
                           : et_fail(error, ET_ECONFIG, "%s: the model has no output", path);
}

/* The sizes of a value, with their names. */
typedef struct described {
    et_onnx_dim dims[ET_RANK_MAX];
    char names[ET_RANK_MAX][40];
} described;

/* Describes [rows, ...] or [a multiple of rows, ...]; each multiple has its own name. */
static int describe(described *to, et_shape shape)
{
    for (int i = 0; i < shape.rank; i++) {
        const int64_t times = shape.size[i] / ET_ONNX_PRIME_A;
        const bool known = !times || shape.size[i] % ET_ONNX_PRIME_A != 0;
        snprintf(to->names[i], sizeof to->names[i],
                 times == 1 ? ET_ONNX_ROWS : ET_ONNX_ROWS "_%lld", (long long)times);
        to->dims[i] = (et_onnx_dim){ known ? NULL : to->names[i], shape.size[i] };
    }
    return shape.rank;
}

/* ---- what depends on the number of rows ---- */

/* 1 / rows, as a mean has it. */
static bool is_share_of_rows(float factor)
{
    const double times = 1 / fabs((double)factor) / ET_ONNX_PRIME_A;
    return times > 0.5 && isfinite(times) && fabs(times / round(times) - 1) < 1e-6;
}

static int check_node(const et_node *node, const char *path, et_error *error)
{
    if (node->op == ET_OP_PARAM || node->type[0].dtype != ET_F32) /* offsets of segments */
        return ET_OK;
    if (node->op == ET_OP_SCALE && is_share_of_rows(node->attributes.x))
        return et_fail(error, ET_ECONFIG,
                       "%s: %s is a mean over all rows, but ONNX models accept any number of rows: "
                       "leave it out, or output sums",
                       path, node->name);
    /* The graph was built for a unique number of rows. A size near a multiple of it was computed
     * from it in an unknown way (rows + 1). */
    for (int i = 0; i < node->type[0].shape.rank; i++) {
        const int64_t size = node->type[0].shape.size[i];
        if (size > ET_ONNX_PRIME_A / 2 && size % ET_ONNX_PRIME_A != 0)
            return et_fail(error, ET_ECONFIG,
                           "%s: a size of %s depends on the number of rows, but is not a multiple "
                           "of it: leave this output out",
                           path, node->name);
    }
    return ET_OK;
}

static int check_nodes(const export *e, const char *path, et_error *error)
{
    bool *needed;
    int status = et_onnx_needed(&needed, e->graph, e->outputs, e->output_count, error);
    for (int i = 0; i < e->graph->count && !status; i++)
        if (needed[i])
            status = check_node(e->graph->nodes[i], path, error);
    et_free(needed);
    return status;
}

/* A value has one name in this format. */
static int check_names(const export *e, const char *path, et_error *error)
{
    for (int i = 0; i < e->output_count; i++) {
        bool taken = et_params_find(e->graph->params, e->names[i]) >= 0;
        for (int k = 0; k < e->binding_count; k++)
            taken |= !strcmp(e->bindings[k].name, e->names[i]);
        for (int k = 0; k < i; k++)
            taken |= !strcmp(e->names[k], e->names[i]);
        if (taken)
            return et_fail(error, ET_ECONFIG,
                           "%s: the output %s has the name of an input, a parameter or another "
                           "output: rename one of them",
                           path, e->names[i]);
    }
    return ET_OK;
}

static et_onnx_type type_of(et_dtype dtype)
{
    return dtype == ET_I32 ? ET_ONNX_I64 : ET_ONNX_F32;
}

static const char *add_input(export *e, const et_node *node)
{
    described sizes;
    const int rank = describe(&sizes, node->type[0].shape);
    const char *value =
        et_onnx_input(e->model, node->name, type_of(node->type[0].dtype), sizes.dims, rank);
    return e->edges->input && value
               ? e->edges->input(e->edges->payload, e->model, node->name, value)
               : value;
}

/* The same for all that are bound, by the edges. */
static int replace_inputs(export *e, et_error *error)
{
    const size_t count = e->binding_count;
    const char **names, **values = NULL;
    int status = ET_ALLOC_ZERO(names, count, "a model to export", error);
    if (!status)
        status = ET_ALLOC_ZERO(values, count, "a model to export", error);
    for (size_t i = 0; !status && i < count; i++)
        names[i] = e->bindings[i].name;
    if (!status)
        status =
            e->edges->inputs(e->edges->payload, e->model, names, values, e->binding_count, error);
    for (size_t i = 0; !status && i < count; i++)
        e->bindings[i].value = values[i];
    et_free(names);
    et_free(values);
    return status;
}

static int add_inputs(export *e, const char *path, et_error *error)
{
    bool *needed;
    int inputs = 0, status = et_onnx_needed(&needed, e->graph, e->outputs, e->output_count, error);
    for (int i = 0; i < e->graph->count; i++)
        inputs += e->graph->nodes[i]->op == ET_OP_INPUT;
    if (!status)
        status = ET_ALLOC_ZERO(e->bindings, inputs, "a model to export", error);
    for (int i = 0; i < e->graph->count && !status; i++) {
        const et_node *node = e->graph->nodes[i];
        if (needed[i] && node->op == ET_OP_INPUT)
            e->bindings[e->binding_count++] =
                (et_onnx_binding){ .name = node->name,
                                   .value = e->edges->inputs ? NULL : add_input(e, node) };
    }
    et_free(needed);
    if (!status && !e->binding_count)
        status = et_fail(error, ET_ECONFIG, "%s: the model reads no field of a batch", path);
    if (!status && e->edges->inputs)
        status = replace_inputs(e, error);
    if (status)
        return status;
    /* Rows in a run of the model. */
    const char *shape = et_onnx_call(e->model, "Shape", e->bindings[0].value);
    e->rows = (et_onnx_symbol){ ET_ONNX_PRIME_A,
                                et_onnx_call(e->model, "Slice", shape, et_onnx_one(e->model, 0),
                                             et_onnx_one(e->model, 1)) };
    return ET_OK;
}

static int add_graph(export *e, et_error *error)
{
    const char *values[ET_NODES_MAX];
    const et_onnx_graph from = { .graph = e->graph,
                                 .symbols = &e->rows,
                                 .symbol_count = 1,
                                 .bindings = e->bindings,
                                 .binding_count = e->binding_count };
    int status = et_onnx_add_graph(e->model, &from, e->outputs, values, e->output_count, error);
    for (int i = 0; i < e->output_count && !status; i++) {
        described sizes;
        const et_result_type *type = &e->outputs[i]->type[0];
        const int rank = describe(&sizes, type->shape);
        et_onnx_result result = { e->names[i], values[i], type_of(type->dtype), rank };
        if (e->edges->output && values[i])
            status = e->edges->output(e->edges->payload, e->model, &result, error);
        et_onnx_output(e->model, result.value, result.name, result.type, sizes.dims, rank);
    }
    return status;
}

/* Only samples can be exported: packed batches have offsets, which a model for other programs
 * cannot use. */
static int begin(export *e, const char *path, et_params *params, const et_layout *layout,
                 et_build_fn *build, void *payload, et_error *error)
{
    if (layout->kinds != 1)
        return et_fail(error, ET_ECONFIG, "%s: can only export batches of samples", path);
    if (!et_params_ready(params))
        return et_fail(error, ET_EUSAGE, "%s: parameters have no values yet", path);
    e->layout = *layout;
    e->layout.capacity[0] = ET_ONNX_PRIME_A;
    int status = et_graph_new(&e->graph, params, NULL, error);
    if (status)
        return status;
    e->graph->layout = &e->layout;
    build(et_graph_scope(e->graph), payload);
    status = et_graph_finish(e->graph, error);
    return status ? status : et_onnx_new(&e->model, "etude", error);
}

int et_export_onnx(const char *path, et_params *params, const et_layout *layout, et_build_fn *build,
                   void *payload, et_error *error)
{
    static const et_onnx_edges plain = { .payload = NULL };
    return et_onnx_export_batches(path, params, layout, build, payload, &plain, error);
}

int et_onnx_export_batches(const char *path, et_params *params, const et_layout *layout,
                           et_build_fn *build, void *payload, const et_onnx_edges *edges,
                           et_error *error)
{
    export e = { .edges = edges };
    if (!path || !*path || !params || !layout || !build)
        return et_fail(error, ET_EUSAGE,
                       "an export needs a path, parameters, a layout and a model function");
    int status = begin(&e, path, params, layout, build, payload, error);
    if (!status && !(status = find_outputs(&e, path, error)) &&
        !(status = check_nodes(&e, path, error)) && !(status = add_inputs(&e, path, error)) &&
        !(status = check_names(&e, path, error)) && !(status = add_graph(&e, error)))
        status = et_onnx_write(e.model, path, error);
    et_onnx_free(e.model);
    et_free(e.bindings);
    et_graph_free(e.graph);
    return status ? et_fail_while(error, status, "exporting to %s", path) : ET_OK;
}

void et_export_module_serve(et_scope *scope, void *module)
{
    const et_export_module *m = module;
    et_node *x = et_batch_input(scope, m->input);
    x = m->preprocessor ? m->preprocessor(scope, x, m->payload) : x;
    x = m->inference_step ? m->inference_step(scope, x, m) : m->model(scope, x, m->payload);
    x = m->postprocessor ? m->postprocessor(scope, x, m->payload) : x;
    et_output(scope, m->output ? m->output : "outputs", x);
}
