#include "engine/exec/ids.h"

#include "base/alloc.h"
#include "engine/graph/graph.h"

/* A number that neither a batch nor a constant gives. */
#define UNKNOWN INT64_MIN

/* ---- where numbers come from ---- */

/* A number of an input or a constant; leaf NULL: of neither. */
typedef struct source {
    const et_node *leaf;
    int64_t position;
} source;

static int64_t size_of(const et_node *node, int axis)
{
    return node->type[0].shape.size[axis];
}

/* Number of adjacent elements with the same position along axis and before it. */
static int64_t inner_of(const et_node *node, int axis)
{
    int64_t inner = 1;
    for (int i = axis + 1; i < node->type[0].shape.rank; i++)
        inner *= size_of(node, i);
    return inner;
}

static int64_t number_of(const et_ids *ids, const et_node *node, int64_t position,
                         const et_batch *batch);

static source find(const et_ids *ids, const et_node *node, int64_t position, const et_batch *batch)
{
    source at = { node, position };
    while (at.leaf) {
        switch (at.leaf->op) {
        case ET_OP_INPUT:
        case ET_OP_INTEGERS:
            return at;
        case ET_OP_RESHAPE:
            at.leaf = at.leaf->input[0];
            break;
        case ET_OP_SLICE: {
            const et_axis_range *along = &at.leaf->attributes.along;
            const int64_t inner = inner_of(at.leaf, along->axis), part = along->count * inner;
            at.leaf = at.leaf->input[0];
            at.position = at.position / part * size_of(at.leaf, along->axis) * inner +
                          along->first * inner + at.position % part;
            break;
        }
        case ET_OP_CONCATENATE: {
            const int axis = at.leaf->attributes.along.axis;
            const int64_t inner = inner_of(at.leaf, axis), whole = size_of(at.leaf, axis) * inner;
            et_node *const *part = at.leaf->input;
            int64_t rest = at.position % whole;
            for (; rest >= size_of(*part, axis) * inner; part++)
                rest -= size_of(*part, axis) * inner;
            at.leaf = *part;
            at.position = at.position / whole * size_of(*part, axis) * inner + rest;
            break;
        }
        case ET_OP_GATHER: {
            /* The gather's range is earlier in the list, so its row numbers are valid. */
            const int64_t width = size_of(at.leaf, 1);
            const int64_t row = number_of(ids, at.leaf->input[1], at.position / width, batch);
            if (row < 0)
                return (source){ NULL, 0 };
            at = (source){ at.leaf->input[0], row * width + at.position % width };
            break;
        }
        default:
            at.leaf = NULL;
        }
    }
    return at;
}

/* batch NULL: only constants are known. */
static int64_t number_at(const et_ids *ids, source at, const et_batch *batch)
{
    if (!at.leaf)
        return UNKNOWN;
    if (at.leaf->op == ET_OP_INTEGERS) {
        const et_progression *of = &at.leaf->attributes.progression;
        return of->first + of->step * at.position;
    }
    const int field = ids->field[at.leaf->id];
    return batch && field >= 0 ? ((const int32_t *)batch->data[field])[at.position] : UNKNOWN;
}

static int64_t number_of(const et_ids *ids, const et_node *node, int64_t position,
                         const et_batch *batch)
{
    return number_at(ids, find(ids, node, position, batch), batch);
}

static bool reads_batch(const et_ids *ids, const et_node *node)
{
    switch (node->op) {
    case ET_OP_INPUT:
        return ids->field[node->id] >= 0;
    case ET_OP_RESHAPE:
    case ET_OP_SLICE:
    case ET_OP_CONCATENATE:
    case ET_OP_GATHER:
        for (int i = 0; i < node->inputs; i++)
            if (reads_batch(ids, node->input[i]))
                return true;
        return false;
    default:
        return false;
    }
}

/* ---- the list ---- */

/* ranges NULL: they are counted only. */
static void add(et_ids *ids, et_ids_range *ranges, const et_ids_range *range)
{
    if (ranges) {
        et_ids_range *to = &ranges[ids->count];
        *to = *range;
        const et_node *of = range->node;
        while (of->op == ET_OP_RESHAPE)
            of = of->input[0];
        to->field = range->longest < 0 && of->op == ET_OP_INPUT ? ids->field[of->id] : -1;
        to->count = et_shape_count(range->node->type[0].shape);
    }
    ids->count++;
}

static void add_range(et_ids *ids, et_ids_range *ranges, const et_node *reader, int input,
                      int64_t below)
{
    add(ids, ranges,
        &(et_ids_range){ .reader = reader,
                         .node = reader->input[input],
                         .step = 1,
                         .below = below,
                         .longest = -1 });
}

static void add_columns(et_ids *ids, et_ids_range *ranges, const et_node *node)
{
    for (int i = 0; i < node->attributes.count; i++)
        add(ids, ranges,
            &(et_ids_range){ .reader = node,
                             .node = node->input[0],
                             .first = i,
                             .step = node->attributes.count,
                             .below = node->attributes.columns[i].rows,
                             .longest = -1 });
}

/* Adds the offsets of segments of rows of a matrix, which is an input too. */
static void add_offsets(et_ids *ids, et_ids_range *ranges, const et_node *reader, int input,
                        const et_node *matrix, int64_t longest)
{
    add(ids, ranges,
        &(et_ids_range){ .reader = reader,
                         .node = reader->input[input],
                         .first = 1,
                         .step = 1,
                         .below = size_of(matrix, 0) + 1,
                         .longest = longest });
}

static void add_node(et_ids *ids, et_ids_range *ranges, const et_node *node)
{
    et_node *const *input = node->input;
    switch (node->op) {
    case ET_OP_CROSS_ENTROPY:
    case ET_OP_SOFTMAX_LOSS:
        add_range(ids, ranges, node, 1, size_of(input[0], input[0]->type[0].shape.rank - 1));
        break;
    case ET_OP_VOCABULARY_LOSS:
        add_range(ids, ranges, node, 2, size_of(input[1], 0));
        break;
    case ET_OP_CANDIDATES:
        add_range(ids, ranges, node, 0, node->attributes.classes);
        break;
    case ET_OP_EMBEDDING:
        add_range(ids, ranges, node, 0, size_of(input[1], 0));
        if (node->inputs == 4)
            add_range(ids, ranges, node, 2, size_of(input[3], 0));
        break;
    case ET_OP_GATHER:
        add_range(ids, ranges, node, 1, size_of(input[0], 0));
        break;
    case ET_OP_ATTENTION:
        add_offsets(ids, ranges, node, 2, input[0], size_of(input[0], 0));
        add_offsets(ids, ranges, node, 3, input[1], node->attributes.attention.longest_key);
        break;
    case ET_OP_RECURRENCE:
        if (node->inputs == 3)
            add_offsets(ids, ranges, node, 2, input[0], size_of(input[0], 0));
        break;
    case ET_OP_EMBED_COLUMNS:
        add_columns(ids, ranges, node);
        break;
    default:
        break;
    }
}

static void add_graph(et_ids *ids, et_ids_range *ranges, const et_graph *graph)
{
    ids->count = 0;
    for (int i = 0; i < graph->count; i++)
        add_node(ids, ranges, graph->nodes[i]);
}

/* ---- comparing ---- */

static int refuse(const et_ids_range *range, source at, int64_t number, const et_batch *batch,
                  et_error *error)
{
    if (!batch)
        return et_fail(error, ET_EGRAPH,
                       "%s: number %lld of %s is %lld, but must be less than %lld",
                       range->reader->name, (long long)at.position + 1, at.leaf->name,
                       (long long)number, (long long)range->below);
    return et_fail(error, ET_EDATA,
                   "number %lld of \"%s\" in a batch is %lld, but the model has %lld (0 to %lld): "
                   "correct the data, or build the model for more",
                   (long long)at.position + 1, at.leaf->name, (long long)number,
                   (long long)range->below, (long long)range->below - 1);
}

static int check_offsets(const et_ids *ids, const et_ids_range *range, const et_batch *batch,
                         et_error *error)
{
    for (int64_t i = 1; i < range->count; i++) {
        const source at = find(ids, range->node, i, batch);
        const int64_t before = number_of(ids, range->node, i - 1, batch);
        const int64_t number = number_at(ids, at, batch);
        if (!at.leaf || before == UNKNOWN || number == UNKNOWN)
            continue;
        if (before < 0 || number < before || number >= range->below ||
            number - before > range->longest)
            return et_fail(
                error, batch ? ET_EDATA : ET_EGRAPH,
                "%s: offset %lld of \"%s\" is %lld after %lld: offsets must not decrease, must "
                "be at most %lld apart (longest_key) and at most %lld (the rows)",
                range->reader->name, (long long)at.position + 1, at.leaf->name, (long long)number,
                (long long)before, (long long)range->longest, (long long)range->below - 1);
    }
    return ET_OK;
}

static int check_range(const et_ids *ids, const et_ids_range *range, const et_batch *batch,
                       et_error *error)
{
    if (range->longest >= 0)
        return check_offsets(ids, range, batch, error);
    for (int64_t i = range->first; i < range->count; i += range->step) {
        const source at = find(ids, range->node, i, batch);
        const int64_t number = number_at(ids, at, batch);
        if (at.leaf && number >= range->below)
            return refuse(range, at, number, batch, error);
    }
    return ET_OK;
}

int et_ids_check(const et_ids *ids, const et_batch *batch, et_error *error)
{
    int status = ET_OK;
    for (int i = 0; !status && i < ids->count; i++) {
        const et_ids_range *range = &ids->ranges[i];
        if (range->field < 0) {
            status = check_range(ids, range, batch, error);
            continue;
        }
        /* Fast path: the cause is only searched for after a failure. */
        const int32_t *id = batch->data[range->field];
        for (int64_t k = range->first; !status && k < range->count; k += range->step)
            if (id[k] >= range->below)
                status = refuse(range, find(ids, range->node, k, batch), id[k], batch, error);
    }
    return status;
}

/* Checks constants now; ranges that have only constants are removed from the list. */
static int check_constants(et_ids *ids, et_error *error)
{
    const int count = ids->count;
    int status = ET_OK;
    ids->count = 0;
    for (int i = 0; !status && i < count; i++) {
        const et_ids_range range = ids->ranges[i];
        if (range.field < 0)
            status = check_range(ids, &range, NULL, error);
        if (reads_batch(ids, range.node))
            ids->ranges[ids->count++] = range;
    }
    return status;
}

int et_ids_open(et_ids *ids, const et_graph *graph, const et_layout *layout, et_error *error)
{
    const size_t nodes = graph->count;
    *ids = (et_ids){ .field = NULL };
    if (ET_ALLOC(ids->field, nodes, "a pass", error))
        return ET_ENOMEM;
    for (size_t i = 0; i < nodes; i++)
        ids->field[i] =
            graph->nodes[i]->op == ET_OP_INPUT ? et_layout_find(layout, graph->nodes[i]->name) : -1;
    add_graph(ids, NULL, graph);
    if (ET_ALLOC(ids->ranges, ids->count, "a pass", error))
        return ET_ENOMEM;
    add_graph(ids, ids->ranges, graph);
    return check_constants(ids, error);
}

void et_ids_release(et_ids *ids)
{
    et_free(ids->ranges);
    et_free(ids->field);
    *ids = (et_ids){ .count = 0 };
}
