/* The integers of a batch that index something: classes of a loss, rows of a table, and offsets of
 * attention's segments. They are data, and kernels do not check them: a number that is too large
 * would read or write outside the table. So these integers are listed for a layout, and each batch
 * is checked against the list before it runs. Constants are checked once.
 *
 * Numbers are traced from the op that reads them, through ops that move elements, to inputs and
 * constants; numbers that no op reads are not checked. Numbers that other ops compute, such as
 * et_candidates, are not checked. Negative numbers are empty places, except for offsets. */
#ifndef ETUDE_ENGINE_EXEC_IDS_H
#define ETUDE_ENGINE_EXEC_IDS_H

#include <etude/data.h>
#include <etude/graph.h>

/* Numbers first, first + step, ... of a node are below `below`. */
typedef struct et_ids_range {
    const et_node *reader, *node; /* borrowed from the graph */
    int field;                    /* the field that node is, in another shape; -1: none */
    int64_t first, step, count, below;
    int64_t longest; /* largest distance between offsets in node; -1: no offsets */
} et_ids_range;

typedef struct et_ids {
    et_ids_range *ranges; /* [count], owned */
    int *field;           /* [nodes of the graph], owned: field of an input; -1: none */
    int count;
} et_ids;

/* graph stays while ids are open; layout, which is for the names of fields, may go. ET_EGRAPH: a
 * constant is too large, or no offset. */
int et_ids_open(et_ids *ids, const et_graph *graph, const et_layout *layout, et_error *error);
void et_ids_release(et_ids *ids);

/* ET_EDATA names field, place and number. */
int et_ids_check(const et_ids *ids, const et_batch *batch, et_error *error);

#endif
