/* A batch is one block of memory, cut into its eight arrays in this order, each padded to whole
 * cache lines:
 *
 *   source_ids | source_positions | target_ids | target_positions | target_labels
 *   | source_offsets | target_offsets | pair
 *
 * So a copy is one memcpy from the first array to the end of the last, and source_ids is what is
 * freed. Padding is copied too and never read. */
#include "data/pairs.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

/* Rounds up to whole cache lines, in elements of four bytes. */
static size_t padded(int64_t count)
{
    return ((size_t)count + 15) / 16 * 16;
}

/* The counts: two arrays of source tokens, three of target tokens, two of offsets, one of pairs. */
int et_pair_batch_init(et_pair_batch *batch, const et_pair_shape *shape, et_error *error)
{
    et_assert(shape->source_budget > 0 && shape->target_budget > 0 && shape->max_segments > 0);
    size_t source = padded(shape->source_budget);
    size_t target = padded(shape->target_budget);
    size_t offsets = padded(shape->max_segments + 1);
    size_t pairs = padded(shape->max_segments);
    size_t total = 2 * source + 3 * target + 2 * offsets + pairs;
    int32_t *block = et_alloc_aligned(total * sizeof *block, 64);
    if (!block)
        return et_alloc_failed(error, total * sizeof *block, "a batch");
    *batch = (et_pair_batch){ .source_ids = block };
    batch->source_positions = batch->source_ids + source;
    batch->target_ids = batch->source_positions + source;
    batch->target_positions = batch->target_ids + target;
    batch->target_labels = batch->target_positions + target;
    batch->source_offsets = batch->target_labels + target;
    batch->target_offsets = batch->source_offsets + offsets;
    batch->pair = (uint32_t *)batch->target_offsets + offsets;
    et_pair_batch_clear(batch, shape);
    return ET_OK;
}

void et_pair_batch_release(et_pair_batch *batch)
{
    et_free(batch->source_ids);
    *batch = (et_pair_batch){ 0 };
}

/* values[begin .. end) */
static void fill(int32_t *values, int64_t begin, int64_t end, int32_t value)
{
    for (int64_t i = begin; i < end; i++)
        values[i] = value;
}

/* Offsets past the last segment equal the end of it: segments of no tokens, over which attention
 * loops do nothing. Positions of empty places are 0, a row every table of positions has. */
void et_pair_batch_finish(et_pair_batch *batch, const et_pair_shape *shape)
{
    et_assert(batch->segments >= 0 && batch->segments <= shape->max_segments);
    et_assert(batch->source_tokens <= shape->source_budget);
    et_assert(batch->target_tokens <= shape->target_budget);
    et_assert(batch->source_tokens >= 0 && batch->target_tokens >= 0);
    fill(batch->source_ids, batch->source_tokens, shape->source_budget, -1);
    fill(batch->source_positions, batch->source_tokens, shape->source_budget, 0);
    fill(batch->target_ids, batch->target_tokens, shape->target_budget, -1);
    fill(batch->target_positions, batch->target_tokens, shape->target_budget, 0);
    fill(batch->target_labels, batch->target_tokens, shape->target_budget, -1);
    fill(batch->source_offsets, batch->segments, shape->max_segments + 1,
         (int32_t)batch->source_tokens);
    fill(batch->target_offsets, batch->segments, shape->max_segments + 1,
         (int32_t)batch->target_tokens);
    for (int64_t i = batch->segments; i < shape->max_segments; i++)
        batch->pair[i] = 0;
}

void et_pair_batch_clear(et_pair_batch *batch, const et_pair_shape *shape)
{
    batch->segments = 0;
    batch->source_tokens = batch->target_tokens = 0;
    batch->epoch = 0;
    et_pair_batch_finish(batch, shape);
}

/* Both were made for the same shape, so their arrays lie at the same distances. */
void et_pair_batch_copy(et_pair_batch *to, const et_pair_batch *from, const et_pair_shape *shape)
{
    et_assert(to->source_ids != from->source_ids);
    et_assert((char *)to->pair - (char *)to->source_ids ==
              (char *)from->pair - (char *)from->source_ids);
    size_t bytes = (size_t)((const char *)(from->pair + padded(shape->max_segments)) -
                            (const char *)from->source_ids);
    memcpy(to->source_ids, from->source_ids, bytes);
    to->segments = from->segments;
    to->source_tokens = from->source_tokens;
    to->target_tokens = from->target_tokens;
    to->epoch = from->epoch;
}
