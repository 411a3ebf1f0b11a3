/* Neighbours that a rule treats equally share chunks, so many small parameters cost little. A run
 * of neighbours ends if the next parameter of the group does not follow directly, or has another
 * rate or decay; the padding after a parameter belongs to its run. If a rule works on whole
 * tensors, padding is left out, because the rule counts elements. */
#include "engine/optim/slot_layout.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "engine/tensor/group.h"

static int64_t padded_end(const et_optim_layout *layout, size_t i)
{
    const et_optim_tensor *tensor = &layout->tensors[i];
    bool last = i + 1 == layout->tensor_count;
    int64_t next = last ? layout->size : layout->tensors[i + 1].packed;
    return tensor->begin + next - tensor->packed;
}

/* The range of the group that contains an element of the store. */
static const et_range *range_of(const et_group *group, int64_t at)
{
    const et_range *ranges;
    int count = et_group_ranges(group, &ranges);
    for (int i = 0; i < count; i++)
        if (at >= ranges[i].begin && at < ranges[i].end)
            return &ranges[i];
    return NULL;
}

static void set_tensors(et_optim_layout *layout, const et_group *group)
{
    const et_params *params = et_group_params(group);
    const et_range *range = NULL;
    int64_t packed = 0; /* of the range's begin */
    for (int i = 0; i < et_group_count(group); i++) {
        int param = et_group_param(group, i);
        int64_t begin = et_params_offset(params, param);
        et_shape shape = et_params_shape(params, param);
        if (et_shape_count(shape) == 0)
            continue;
        if (!range || begin >= range->end) {
            packed += range ? range->end - range->begin : 0;
            range = range_of(group, begin);
        }
        et_assert(range);
        layout->tensors[layout->tensor_count++] =
            (et_optim_tensor){ .param = param,
                               .begin = begin,
                               .packed = packed + begin - range->begin,
                               .size = et_shape_count(shape),
                               .shape = shape,
                               .rate_multiplier = 1 };
    }
}

int et_optim_layout_init(et_optim_layout *layout, const et_group *group, et_error *error)
{
    const et_range *ranges;
    size_t count = (size_t)et_group_count(group);
    *layout = (et_optim_layout){ .size = et_group_size(group) };
    layout->range_count = et_group_ranges(group, &ranges);
    layout->tensors = et_alloc(count + 1, sizeof *layout->tensors);
    layout->ranges = et_alloc((size_t)layout->range_count + 1, sizeof *layout->ranges);
    if (!layout->tensors || !layout->ranges)
        return et_alloc_failed(error, count * sizeof *layout->tensors, "an optimizer");
    memcpy(layout->ranges, ranges, (size_t)layout->range_count * sizeof *ranges);
    set_tensors(layout, group);
    return ET_OK;
}

void et_optim_layout_release(et_optim_layout *layout)
{
    et_free(layout->tensors);
    et_free(layout->chunks);
    et_free(layout->blocks);
    et_free(layout->ranges);
}

/* Cuts a run from `begin` on, not at multiples of the store's: it starts with a whole piece. */
static void cut(et_optim_section *sections, size_t *count, et_optim_section run, int64_t size)
{
    for (int64_t at = 0; at < run.count; at += size)
        sections[(*count)++] =
            (et_optim_section){ run.begin + at, run.packed + at,
                                run.count - at < size ? run.count - at : size, run.tensor };
}

static bool continues(const et_optim_layout *layout, size_t i, bool alike)
{
    const et_optim_tensor *a = &layout->tensors[i], *b = a + 1;
    if (b->begin != padded_end(layout, i))
        return false;
    return !alike || (a->decay == b->decay && a->rate_multiplier == b->rate_multiplier);
}

/* Makes runs of adjacent tensors that, if `alike`, all decay or all do not. */
static void cut_runs(const et_optim_layout *layout, et_optim_section *sections, size_t *count,
                     bool alike)
{
    size_t first = 0;
    for (size_t i = 0; i < layout->tensor_count; i++) {
        if (i + 1 < layout->tensor_count && continues(layout, i, alike))
            continue;
        const et_optim_tensor *tensor = &layout->tensors[first];
        et_optim_section run = { tensor->begin, tensor->packed,
                                 padded_end(layout, i) - tensor->begin, (int)first };
        cut(sections, count, run, ET_OPTIM_CHUNK);
        first = i + 1;
    }
}

static void cut_tensors(const et_optim_layout *layout, et_optim_section *sections, size_t *count,
                        bool by_rule)
{
    for (size_t i = 0; i < layout->tensor_count; i++) {
        const et_optim_tensor *tensor = &layout->tensors[i];
        et_optim_section run = { tensor->begin, tensor->packed, tensor->size, (int)i };
        cut(sections, count, run, by_rule && tensor->whole ? INT64_MAX : ET_OPTIM_CHUNK);
    }
}

/* At most a piece for each full one, and one more for each tensor. */
int et_optim_layout_divide(et_optim_layout *layout, et_rule_granularity how, bool by_tensor,
                           et_error *error)
{
    size_t most = (size_t)(layout->size / ET_OPTIM_CHUNK) + layout->tensor_count + 1;
    layout->chunks = et_alloc(most, sizeof *layout->chunks);
    layout->blocks = et_alloc(most, sizeof *layout->blocks);
    if (!layout->chunks || !layout->blocks)
        return et_alloc_failed(error, most * sizeof *layout->chunks, "an optimizer's chunks");
    if (how == ET_RULE_ELEMENTS && !by_tensor)
        cut_runs(layout, layout->chunks, &layout->chunk_count, true);
    else
        cut_tensors(layout, layout->chunks, &layout->chunk_count, true);
    if (by_tensor)
        cut_tensors(layout, layout->blocks, &layout->block_count, false);
    else
        cut_runs(layout, layout->blocks, &layout->block_count, false);
    et_assert(layout->chunk_count <= most && layout->block_count <= most);
    return ET_OK;
}
