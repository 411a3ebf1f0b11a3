/* One single-threaded oneDNN convolution of a fixed number of samples: a block. conv.c divides
 * batches into blocks. conv.h has the formulas. */
#ifndef ETUDE_ENGINE_KERNEL_CONV_ONEDNN_H
#define ETUDE_ENGINE_KERNEL_CONV_ONEDNN_H

#include "engine/kernel/conv.h"

typedef struct et_conv_block et_conv_block;

/* A block that runs on threads 0 .. threads - 1. x, y and w, or their derivatives, are of type
 * `as`, dw is float32. */
int et_conv_block_new(et_conv_block **out, et_conv_kind kind, const et_conv_shape *shape,
                      int64_t samples, et_dtype as, int threads, et_error *error);
void et_conv_block_free(et_conv_block *block);

/* Bytes of scratch of each thread, aligned to 64; bytes of a weight, or of its derivative, in
 * the block's own layout. */
size_t et_conv_block_scratch(const et_conv_block *block);
size_t et_conv_block_weight_size(const et_conv_block *block);

/* Not one of the library's plain loops, which are for its own tests. */
bool et_conv_block_is_fast(const et_conv_block *block);
const char *et_conv_block_implementation(const et_conv_block *block);

/* A weight [KH, KW, C, F] into the block's layout; of WEIGHT, its derivative out of it. By the
 * calling thread, as thread 0. */
void et_conv_block_reorder(const et_conv_block *block, void *scratch, void *to, const void *from);

/* The weight, as b or out, is in the block's layout. Call with OpenMP set to one thread. */
void et_conv_block_run(const et_conv_block *block, int thread, void *scratch, void *out,
                       const void *a, const void *b, const float *bias);

#endif
