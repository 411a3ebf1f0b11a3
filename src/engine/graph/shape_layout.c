/* Shape rules of ops that move elements, look up columns and sample. As in shape.c. */
#include "engine/graph/shape_private.h"

#include "engine/graph/build.h"

/* A poison input is never seen here, so a wrong number of elements is the model's. */
bool et_shape_RESHAPE(et_node *node)
{
    char from[ET_SHAPE_TEXT_MAX], to[ET_SHAPE_TEXT_MAX];
    const et_result_type *wanted = &node->attributes.leaf;
    if (et_shape_count(shape(node, 0)) == et_shape_count(wanted->shape))
        return set(node, dtype(node, 0), wanted->shape);
    et_graph_poison(node->graph, "%s (%s): %s %s does not have as many elements as %s", node->name,
                    et_op_name(node->op), node->input[0]->name,
                    et_shape_print(shape(node, 0), from), et_shape_print(wanted->shape, to));
    return false;
}

/* Sizes must be equal except along the axis, where they are added. */
bool et_shape_CONCATENATE(et_node *node)
{
    et_shape whole = shape(node, 0);
    int axis = node->attributes.along.axis;
    if (axis < 0 || axis >= whole.rank)
        return refuse(node, "a scalar has no rows or columns", 0, 0);
    for (int i = 1; i < node->inputs; i++) {
        et_shape next = shape(node, i);
        int64_t count = next.size[axis];
        next.size[axis] = shape(node, 0).size[axis];
        if (!et_shape_equal(next, shape(node, 0)) || dtype(node, i) != dtype(node, 0))
            return refuse(node, "other sizes or types differ", 0, i);
        whole.size[axis] += count;
    }
    return set(node, dtype(node, 0), whole);
}

bool et_shape_SLICE(et_node *node)
{
    et_shape part = shape(node, 0);
    const et_axis_range *along = &node->attributes.along;
    if (along->axis < 0 || along->axis >= part.rank)
        return refuse(node, "a scalar has no rows or columns", 0, 0);
    if (along->first < 0 || along->count < 1 || along->first > part.size[along->axis] ||
        along->count > part.size[along->axis] - along->first) {
        char text[ET_SHAPE_TEXT_MAX];
        et_graph_poison(node->graph, "%s (%s): %s %s does not have %lld of its %s from %lld on",
                        node->name, et_op_name(node->op), node->input[0]->name,
                        et_shape_print(part, text), (long long)along->count,
                        along->axis ? "columns" : "rows", (long long)along->first);
        return false;
    }
    part.size[along->axis] = along->count;
    return set(node, dtype(node, 0), part);
}

/* x [T, D], row [R] to [R, D]. */
bool et_shape_GATHER(et_node *node)
{
    et_shape x = shape(node, 0), row = shape(node, 1);
    if (!is_matrix(x) || row.rank != 1 || dtype(node, 1) != ET_I32)
        return refuse(node, "not a matrix and int32 rows", 0, 1);
    return set(node, dtype(node, 0), et_shape_2(row.size[0], x.size[1]));
}

bool et_shape_ONE_HOT(et_node *node)
{
    et_shape ids = shape(node, 0);
    if (ids.rank != 1 || dtype(node, 0) != ET_I32)
        return refuse(node, "not a vector of int32 ids", 0, 0);
    return set(node, act(node), et_shape_2(ids.size[0], node->attributes.count));
}

/* The type that the builder has given. */
bool et_shape_CAST(et_node *node)
{
    return set(node, node->attributes.leaf.dtype, shape(node, 0));
}

int64_t et_columns_size(const et_column *columns, int count)
{
    int64_t size = 0, table;
    for (int i = 0; i < count; i++)
        if (columns[i].rows < 0 || columns[i].width < 0 ||
            __builtin_mul_overflow(columns[i].rows, columns[i].width, &table) ||
            __builtin_add_overflow(size, table, &size))
            return -1;
    return size;
}

/* ids [T, count], table [size of all] to [T, widths together]. */
bool et_shape_EMBED_COLUMNS(et_node *node)
{
    et_shape ids = shape(node, 0), table = shape(node, 1);
    const et_column *columns = node->attributes.columns;
    int count = node->attributes.count;
    int64_t width = 0;
    if (!is_matrix(ids) || dtype(node, 0) != ET_I32 || ids.size[1] != count)
        return refuse(node, "not int32 ids of as many columns as there are tables", 0, 1);
    for (int i = 0; i < count; i++) {
        width += columns[i].width;
        if (columns[i].rows < 1 || columns[i].width < 1) {
            et_graph_poison(node->graph, "%s (%s): column %d has %lld rows of width %lld",
                            node->name, et_op_name(node->op), i, (long long)columns[i].rows,
                            (long long)columns[i].width);
            return false;
        }
    }
    if (!is_vector_of(table, et_columns_size(columns, count)) || dtype(node, 1) != ET_F32)
        return refuse(node, "the table is not a float32 vector of all columns' tables", 0, 1);
    return set(node, act(node), et_shape_2(ids.size[0], width));
}

bool et_shape_BERNOULLI(et_node *node)
{
    if (dtype(node, 0) == ET_I32)
        return refuse(node, "whole numbers are not probabilities", 0, 0);
    return set(node, dtype(node, 0), shape(node, 0));
}
