/* Dropout's decisions as packed bits: bit e & 7 of byte e >> 3 says whether element e is kept,
 * which is one byte per Philox block. The numbers are those of et_random_block. */
#ifndef ETUDE_ENGINE_KERNEL_SIMD_RANDOM_H
#define ETUDE_ENGINE_KERNEL_SIMD_RANDOM_H

#include "engine/kernel/kernels.h"
#include "engine/kernel/simd/simd.h"

/* Round keys grow by constants from the seed (Philox4x32-10); they are computed once per call, not
 * in every block. The threshold is et_dropout_threshold's, so that all tables decide in the same
 * way. */
static keep_stream keep_stream_of(et_random random, uint32_t site, float rate)
{
    keep_stream stream = {
        .counter = { (uint32_t)random.step, site ^ (uint32_t)(random.step >> 32) },
        .threshold = et_dropout_threshold(rate),
    };
    uint32_t k0 = (uint32_t)random.seed, k1 = (uint32_t)(random.seed >> 32);
    for (int round = 0; round < 10; round++) {
        stream.key[round][0] = k0;
        stream.key[round][1] = k1;
        k0 += ET_PHILOX_W0;
        k1 += ET_PHILOX_W1;
    }
    return stream;
}

/* keep[b] = the decisions of block first + b. The last call may make more than needed; those go to
 * a separate buffer. */
static void keep_run(uint8_t *keep, const keep_stream *stream, uint64_t first, int blocks)
{
    static const uint64_t offset[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    int done = 0;
    for (; done + V_BLOCKS <= blocks; done += V_BLOCKS)
        v_keep(keep + done, first + (uint64_t)done, offset, stream);
    if (done < blocks) {
        uint8_t last[V_BLOCKS];
        v_keep(last, first + (uint64_t)done, offset, stream);
        memcpy(keep + done, last, (size_t)(blocks - done));
    }
}

/* Bytes from one row of keep_grid() to the next: `columns` bits, rounded up to a power of two of
 * bytes below 8, else to a multiple of 8, so that a call of the generator covers whole rows or a
 * row takes whole calls. 20 columns are 3 bytes, stride 4; 60 are 8, stride 8; 100 are 13, stride
 * 16. */
static int keep_stride(int columns)
{
    const int blocks = (columns + 7) / 8;
    int stride = 1;
    while (stride < blocks && stride < 8)
        stride *= 2;
    return blocks <= 8 ? stride : (blocks + 7) / 8 * 8;
}

/* keep[r * stride + b] = the decisions of block first + r * step + b, stride as above. Writes up to
 * V_BLOCKS - 1 bytes beyond the last row. offset[i]: the position of block i of a call relative to
 * the first, within a row or in the following rows. With 8 blocks a call and a stride of 4, offsets
 * are 0 .. 3 and step .. step + 3: a call does two rows. A stride of 16 takes two calls for a row.
 */
static void keep_grid(uint8_t *keep, int stride, const keep_stream *stream, uint64_t first,
                      uint64_t step, int rows)
{
    uint64_t offset[V_BLOCKS];
    for (int i = 0; i < V_BLOCKS; i++)
        offset[i] = (uint64_t)(i / stride) * step + (uint64_t)(i % stride);
    for (int at = 0; at < rows * stride; at += V_BLOCKS) {
        uint64_t base = first + (uint64_t)(at / stride) * step + (uint64_t)(at % stride);
        v_keep(keep + at, base, offset, stream);
    }
}

#endif
