/* Windows of convolutions and pooling, over an image's rows ([0]) and columns ([1]): what shape
 * rules and exec take from the same options. */
#ifndef ETUDE_ENGINE_GRAPH_WINDOWS_H
#define ETUDE_ENGINE_GRAPH_WINDOWS_H

#include <etude/ops_image.h>

#include "engine/kernel/window.h"

/* weight: [KH, KW, C, F]. */
void et_convolution_windows(et_window windows[2], et_shape image, et_shape weight,
                            const et_convolution_options *options);
void et_pool_windows(et_window windows[2], et_shape image, const et_pool_options *options);

#endif
