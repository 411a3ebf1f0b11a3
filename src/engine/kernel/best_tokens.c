/* The scratch of best_tokens.inc.c, with one layout for all tables. et_best_buffers_at cuts it, and
 * et_best_scratch calls et_best_buffers_at for its size, so the two cannot disagree. */
#include "engine/kernel/best_tokens.h"

#include "base/assert.h"

/* Takes the next `bytes` of the memory, in whole cache lines. memory may be NULL to compute only
 * the size: the pointers are not used then. */
static void *take(char *memory, size_t *used, size_t bytes)
{
    void *part = memory + *used;
    *used += (bytes + 63) / 64 * 64;
    return part;
}

/* One thread's room; every part begins at a line of cache. */
et_best_buffers et_best_buffers_at(void *scratch, const et_row_weight *weight)
{
    et_best_buffers room = { 0 };
    size_t rows = ET_BEST_ROWS, width = (size_t)weight->k;
    room.columns = (weight->n + weight->panel - 1) / weight->panel * weight->panel;
    room.logits = take(scratch, &room.size, rows * (size_t)room.columns * sizeof(float));
    room.x = take(scratch, &room.size, rows * width * sizeof(float));
    room.bytes = take(scratch, &room.size, rows * (size_t)et_row_stride(weight->k));
    room.scale = take(scratch, &room.size, rows * sizeof(float));
    room.group = take(scratch, &room.size, ET_BEST_GROUPS * sizeof(float));
    room.open_logit = take(scratch, &room.size, ET_BEST_OPEN * sizeof(float));
    room.open_token = take(scratch, &room.size, ET_BEST_OPEN * sizeof(int32_t));
    return room;
}

/* The bytes that one thread needs, a multiple of 64. */
size_t et_best_scratch(const et_row_weight *weight)
{
    et_assert(weight->kind == ET_ROW_INT8);
    char nothing[1];
    return et_best_buffers_at(nothing, weight).size;
}
