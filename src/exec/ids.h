/* Which whole numbers of a batch choose among how many: classes of a loss, rows of a table. They
 * are data, and kernels do not compare them: one that is too large would be read, or written,
 * beside the table. So a list of them is made for a layout, and compared with each of its batches
 * before it is run.
 *
 * What reaches an op by way of other ops than a change of shape is not followed. Negative numbers
 * are empty places. */
#ifndef ETUDE_EXEC_IDS_H
#define ETUDE_EXEC_IDS_H

#include <etude/data.h>
#include <etude/graph.h>

/* Numbers first, first + step, ... of a field are below `below`. */
typedef struct et_ids_range {
    int field;
    int64_t first, step, count, below;
} et_ids_range;

typedef struct et_ids {
    et_ids_range *ranges; /* [count], owned */
    int count;
} et_ids;

/* layout: for the names of fields; it may go then. */
int et_ids_open(et_ids *ids, const et_graph *graph, const et_layout *layout, et_error *error);
void et_ids_release(et_ids *ids);

/* ET_EDATA names field, place and number. */
int et_ids_check(const et_ids *ids, const et_batch *batch, et_error *error);

#endif
