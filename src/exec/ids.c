#include "exec/ids.h"

#include "base/alloc.h"
#include "graph/graph.h"

/* The input whose numbers a node has, in their order; NULL: none. */
static const et_node *input_of(const et_node *node)
{
    while (node->op == ET_OP_RESHAPE)
        node = node->input[0];
    return node->op == ET_OP_INPUT ? node : NULL;
}

/* ranges NULL: they are counted only. */
static void add_range(et_ids *ids, et_ids_range *ranges, const et_layout *layout,
                      const et_node *node, int64_t first, int64_t step, int64_t below)
{
    const et_node *input = input_of(node);
    const int field = input ? et_layout_find(layout, input->name) : -1;
    if (field < 0)
        return;
    if (ranges)
        ranges[ids->count] = (et_ids_range){ .field = field,
                                             .first = first,
                                             .step = step,
                                             .count = et_shape_count(input->type[0].shape),
                                             .below = below };
    ids->count++;
}

static int64_t size_of(const et_node *node, int axis)
{
    return node->type[0].shape.size[axis];
}

static int64_t classes_of(const et_node *logits)
{
    return size_of(logits, logits->type[0].shape.rank - 1);
}

static void add_node(et_ids *ids, et_ids_range *ranges, const et_layout *layout,
                     const et_node *node)
{
    et_node *const *input = node->input;
    switch (node->op) {
    case ET_OP_CROSS_ENTROPY:
    case ET_OP_SOFTMAX_LOSS:
        add_range(ids, ranges, layout, input[1], 0, 1, classes_of(input[0]));
        break;
    case ET_OP_VOCABULARY_LOSS:
        add_range(ids, ranges, layout, input[2], 0, 1, size_of(input[1], 0));
        break;
    case ET_OP_CANDIDATES:
        add_range(ids, ranges, layout, input[0], 0, 1, node->attributes.classes);
        break;
    case ET_OP_EMBEDDING:
        add_range(ids, ranges, layout, input[0], 0, 1, size_of(input[1], 0));
        if (node->inputs == 4)
            add_range(ids, ranges, layout, input[2], 0, 1, size_of(input[3], 0));
        break;
    case ET_OP_GATHER:
        add_range(ids, ranges, layout, input[1], 0, 1, size_of(input[0], 0));
        break;
    case ET_OP_EMBED_COLUMNS:
        for (int i = 0; i < node->attributes.count; i++)
            add_range(ids, ranges, layout, input[0], i, node->attributes.count,
                      node->attributes.columns[i].rows);
        break;
    default:
        break;
    }
}

static void add_graph(et_ids *ids, et_ids_range *ranges, const et_graph *graph,
                      const et_layout *layout)
{
    ids->count = 0;
    for (int i = 0; i < graph->count; i++)
        add_node(ids, ranges, layout, graph->nodes[i]);
}

int et_ids_open(et_ids *ids, const et_graph *graph, const et_layout *layout, et_error *error)
{
    *ids = (et_ids){ .count = 0 };
    add_graph(ids, NULL, graph, layout);
    const size_t count = (size_t)ids->count;
    et_ids_range *ranges = count ? et_alloc(count, sizeof *ranges) : NULL;
    if (count && !ranges)
        return et_alloc_failed(error, count * sizeof *ranges, "a pass");
    add_graph(ids, ranges, graph, layout);
    ids->ranges = ranges;
    return ET_OK;
}

void et_ids_release(et_ids *ids)
{
    et_free(ids->ranges);
    *ids = (et_ids){ .count = 0 };
}

static int refuse(const et_ids_range *range, const et_batch *batch, int64_t place, et_error *error)
{
    const int32_t *ids = batch->data[range->field];
    return et_fail(
        error, ET_EDATA,
        "number %lld of \"%s\" in a batch is %d, and there are %lld to choose from (0 to "
        "%lld): correct the data, or make the model for more",
        (long long)place + 1, batch->layout->field[range->field].name, (int)ids[place],
        (long long)range->below, (long long)range->below - 1);
}

int et_ids_check(const et_ids *ids, const et_batch *batch, et_error *error)
{
    for (const et_ids_range *range = ids->ranges; range < ids->ranges + ids->count; range++) {
        const int32_t *id = batch->data[range->field];
        for (int64_t i = range->first; i < range->count; i += range->step)
            if (id[i] >= range->below)
                return refuse(range, batch, i, error);
    }
    return ET_OK;
}
