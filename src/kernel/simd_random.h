/* Dropout's decisions as packed bits: bit e & 7 of byte e >> 3 says whether element e is kept,
 * which is one byte per Philox block. The numbers are those of et_random_block. */
#ifndef ETUDE_KERNEL_SIMD_RANDOM_H
#define ETUDE_KERNEL_SIMD_RANDOM_H

#include "kernel/kernels.h"
#include "kernel/simd.h"

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

/* keep[b] = the decisions of block first + b. */
static void keep_run(uint8_t *keep, const keep_stream *stream, uint64_t first, int blocks)
{
    int done = 0;
    uint64_t index[V_BLOCKS];
    for (; done < blocks; done += V_BLOCKS) {
        uint8_t last[V_BLOCKS];
        bool whole = blocks - done >= V_BLOCKS;
        for (int i = 0; i < V_BLOCKS; i++)
            index[i] = first + (uint64_t)(done + i);
        v_keep(whole ? keep + done : last, index, stream);
        if (!whole)
            memcpy(keep + done, last, (size_t)(blocks - done));
    }
}

/* keep[r * stride + b] = the decisions of block first + r * step + b, for rows * blocks of them,
 * blocks > 0: short rows share one call of the generator. */
static void keep_grid(uint8_t *keep, int stride, const keep_stream *stream, uint64_t first,
                      uint64_t step, int rows, int blocks)
{
    int to_row = 0, to_block = 0, row = 0, block = 0;
    while (to_row < rows) {
        uint64_t index[V_BLOCKS];
        uint8_t bytes[V_BLOCKS];
        for (int i = 0; i < V_BLOCKS; i++) {
            index[i] = first + (uint64_t)row * step + (uint64_t)block;
            row += ++block == blocks;
            block = block == blocks ? 0 : block;
        }
        v_keep(bytes, index, stream);
        for (int i = 0; i < V_BLOCKS && to_row < rows; i++) {
            keep[to_row * stride + to_block] = bytes[i];
            to_row += ++to_block == blocks;
            to_block = to_block == blocks ? 0 : to_block;
        }
    }
}

#endif
