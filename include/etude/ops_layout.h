/* Ops that move elements (graph.h): views, slices, rows by number, tables by column. All ops have
 * derivatives, except for integers.
 *
 *     et_node *image = et_reshape(pixels, et_shape_4(batch, 28, 28, 1));
 *     et_node *both[] = { et_embed_columns(ids, table, columns, 3), numbers };
 *     et_node *h = et_concatenate_columns(both, 2);
 *     et_node *last = et_slice_rows(h, batch - 1, 1);
 *     et_node *picked[] = { et_gather_rows(h, rows), last };
 *     et_node *below = et_concatenate_rows(picked, 2);
 *     et_node *classes = et_one_hot(labels, 10);
 *
 * Shapes as in ops.h; "columns" are the last dimension, "rows" the first, for any number of
 * dimensions. */
#ifndef ETUDE_OPS_LAYOUT_H
#define ETUDE_OPS_LAYOUT_H

#include <etude/graph.h>

/* The same elements in the same order with another shape. Free of cost, unless x is an input or a
 * parameter: these are copied. */
ET_API et_node *et_reshape(et_node *x, et_shape shape);

/* Joins nodes side by side, or one below the other. Types and all other sizes must be equal. count
 * >= 1; less gives poison, in the graph of nodes[0], which must exist. */
ET_API et_node *et_concatenate_columns(et_node *const *nodes, int count);
ET_API et_node *et_concatenate_rows(et_node *const *nodes, int count);

/* Columns or rows first .. first + count - 1. */
ET_API et_node *et_slice_columns(et_node *x, int64_t first, int64_t count);
ET_API et_node *et_slice_rows(et_node *x, int64_t first, int64_t count);

/* y[r] = x[row[r]], x [T, D], row int32 [R] below T; negative: a row of zeros. Result [R, D]. A row
 * that is used several times gets the sum of its derivatives. */
ET_API et_node *et_gather_rows(et_node *x, et_node *row);

/* y[t, ids[t]] = 1, other elements 0, in the graph's activation type. ids int32 [T]; an id outside
 * 0 .. depth - 1 gives a row of zeros. Result [T, depth]. */
ET_API et_node *et_one_hot(et_node *ids, int64_t depth);

/* A column of categories: number of rows (categories) of its table, and their width. */
typedef struct et_column {
    int64_t rows, width;
} et_column;

/* y[t] = table_0[ids[t, 0]], table_1[ids[t, 1]], ... side by side. ids int32 [T, count]; table [sum
 * of rows times width] a parameter; columns are copied. An id is below its column's rows; a
 * negative id gives zeros. Result [T, sum of widths] act. */
ET_API et_node *et_embed_columns(et_node *ids, et_node *table, const et_column *columns, int count);

#endif
