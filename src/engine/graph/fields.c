/* The fields of the batches that a graph is for, as what inputs are bound to. */
#include <string.h>

#include "base/dtype.h"
#include "base/text/strbuf.h"
#include "engine/graph/node.h"

et_node *et_graph_no_field(et_graph *graph, const char *field)
{
    const et_layout *layout = graph->layout;
    et_strbuf names = ET_STRBUF_INIT;
    for (int i = 0; layout && i < layout->fields; i++)
        et_strbuf_printf(&names, "%s%s", i ? ", " : "", layout->field[i].name);
    et_node *poison = et_graph_poison(graph, "batches have no field %s; they have: %s",
                                      field ? field : "(its name is NULL)",
                                      layout ? et_strbuf_text(&names) : "none");
    et_strbuf_release(&names);
    return poison;
}

bool et_input_is_bound(et_graph *graph, const char *name, et_dtype dtype, et_shape shape)
{
    const et_layout *layout = graph->layout;
    const bool one = !strcmp(name, ET_GRAPH_ONE);
    const int i = layout && !one ? et_layout_find(layout, name) : -1;
    if (!layout || (one && dtype == ET_F32 && shape.rank == 0))
        return true;
    if (i < 0) {
        et_graph_no_field(graph, name);
        return false;
    }
    const et_shape bound = et_layout_shape(layout, i);
    if (layout->field[i].dtype == dtype && et_shape_equal(bound, shape))
        return true;
    char text[2][ET_SHAPE_TEXT_MAX];
    et_graph_poison(graph,
                    "input %s: requested as %s %s, but the batches' field of this name is %s %s",
                    name, et_dtype_name(dtype), et_shape_print(shape, text[0]),
                    et_dtype_name(layout->field[i].dtype), et_shape_print(bound, text[1]));
    return false;
}
