/* Layers for several models of tables. */
#include <math.h>

#include <etude/layers.h>

#include "tasks/tabular/networks/networks_private.h"

et_node *et_tabular_dense(et_scope *scope, et_node *x, int64_t units)
{
    et_shape in = et_node_shape(x);
    float inputs = in.rank == 2 ? (float)in.size[1] : 1;
    et_dense_options options = { .init_limit = 1 / sqrtf(inputs) };
    return et_dense_with(scope, x, units, &options);
}
