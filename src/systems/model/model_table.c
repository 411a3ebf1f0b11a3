/* The printed table of a model: a line for each scope that has parameters. */
#include <string.h>

#include "base/alloc.h"
#include "base/text/format.h"
#include "engine/exec/pass.h"
#include "engine/graph/graph.h"
#include "formats/grid.h"
#include "systems/model/model_private.h"
#include "systems/modelgarden/task_trainer.h"

/* Length of the layer's name in a parameter's name: up to the last slash. */
static size_t layer_length(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? (size_t)(slash - name) : 0;
}

static bool is_of(const char *name, const char *layer, size_t length)
{
    return layer_length(name) == length && !strncmp(name, layer, length);
}

/* Samples are not counted: "-, 10" of [256, 10]. */
static void add_shape(et_grid *grid, const et_node *node)
{
    char text[ET_SHAPE_TEXT_MAX];
    et_shape shape = node ? et_node_shape(node) : et_shape_scalar();
    if (!shape.rank) {
        et_grid_add(grid, "");
        return;
    }
    for (int i = 1; i < shape.rank; i++)
        shape.size[i - 1] = shape.size[i];
    shape.size[--shape.rank] = 0;
    et_grid_add(grid, et_shape_print(shape, text));
}

/* Adds the row of a layer. The parameters of a layer follow each other in the store. The last node
 * in the layer's scope is its output. */
static int add_layer(const et_model *m, et_grid *grid, int first)
{
    const et_graph *graph = et_pass_graph(m->pass);
    const char *layer = et_params_name(m->params, first);
    const size_t length = layer_length(layer);
    const et_node *output = NULL;
    int64_t trained = 0, kept = 0;
    int i = first;
    for (; i < et_params_count(m->params) && is_of(et_params_name(m->params, i), layer, length);
         i++)
        *(et_params_is_trained(m->params, i) ? &trained : &kept) +=
            et_shape_count(et_params_shape(m->params, i));
    for (int n = 0; length && n < graph->count; n++)
        if (graph->nodes[n]->op != ET_OP_PARAM && is_of(graph->nodes[n]->name, layer, length))
            output = graph->nodes[n];
    et_grid_addf(grid, "%.*s", (int)(length ? length : strlen(layer)), layer);
    add_shape(grid, output);
    et_grid_add(grid, et_format_count(trained).text);
    et_grid_add(grid, kept ? et_format_count(kept).text : "");
    return i;
}

/* group NULL: all. */
static int64_t count_trained(const et_model *m, const et_group *group)
{
    int64_t count = 0;
    for (int i = 0; group && i < et_group_count(group); i++)
        count += et_shape_count(et_params_shape(m->params, et_group_param(group, i)));
    for (int i = 0; !group && i < et_params_count(m->params); i++)
        if (et_params_is_trained(m->params, i))
            count += et_shape_count(et_params_shape(m->params, i));
    return count;
}

int et_model_summary(const et_model *m, FILE *to, et_error *error)
{
    static const char *const heads[] = { "layer", "output", "trained", "other" };
    et_grid grid = { .columns = 4, .left = 2 };
    et_strbuf text = ET_STRBUF_INIT;
    if (!to)
        return et_fail(error, ET_EUSAGE, "et_model_summary: no file; give stdout");
    if (m->kind->no_training)
        return et_fail(error, ET_EUSAGE, "%s", m->kind->no_training);
    et_grid_add_row(&grid, heads);
    for (int i = 0; i < et_params_count(m->params);)
        i = add_layer(m, &grid, i);
    et_grid_append(&grid, ET_GRID_TEXT, &text);
    et_group *group;
    int status = et_model_trained_group(m, &group, error);
    int64_t trained = count_trained(m, group);
    const et_plan_memory memory = et_pass_plan_memory(m->pass);
    const uint64_t predicts = memory.activations + memory.packed + memory.constants;
    const uint64_t weights = (uint64_t)et_params_elements(m->params) * sizeof(float);
    et_strbuf_printf(&text, "parameters   %s, of them trained: %s\n",
                     et_format_count(et_params_elements(m->params)).text,
                     et_format_count(trained).text);
    et_strbuf_printf(&text, "memory       %s of weights; prediction: %s more",
                     et_format_bytes(weights).text, et_format_bytes(predicts).text);
    if (m->trainer)
        et_strbuf_printf(&text, "; training: %s of weights, gradients and optimizer",
                         et_format_bytes(et_task_trainer_parameter_bytes(m->trainer)).text);
    et_strbuf_append_char(&text, '\n');
    et_group_free(group);
    if (!status && (grid.failed || text.failed))
        status = et_alloc_failed(error, 0, "a table of layers");
    if (!status && fputs(et_strbuf_text(&text), to) == EOF)
        status = et_fail(error, ET_EIO, "et_model_summary: cannot write to the file");
    et_grid_release(&grid);
    et_strbuf_release(&text);
    return status;
}
