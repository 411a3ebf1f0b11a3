/* Shape rules: which inputs an op takes, and the types of its results. */
#ifndef ETUDE_ENGINE_GRAPH_SHAPE_H
#define ETUDE_ENGINE_GRAPH_SHAPE_H

#include <etude/ops_image.h>

#include "engine/graph/graph.h"
#include "engine/kernel/window.h"

/* Sets node->type[] and node->results from inputs and attributes, with one function per op. False:
 * refused, with the reason in the graph's error. */
bool et_shape_rule(et_node *node);

/* Windows of convolutions and pooling, over an image's rows ([0]) and columns ([1]): what shape
 * rules and exec take from the same options. weight: [KH, KW, C, F]. */
void et_convolution_windows(et_window windows[2], et_shape image, et_shape weight,
                            const et_convolution_options *options);
void et_pool_windows(et_window windows[2], et_shape image, const et_pool_options *options);

#endif
