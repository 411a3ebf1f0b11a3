/* Filters call the program once for each sample and keep the numbers of the accepted samples: the
 * result is a subset and has no position. Splits of arrays also work by numbers. */
#include <string.h>

#include <etude/flows.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers/philox.h"
#include "base/options.h"

#define ROWS 64 /* that are made at once */

/* Samples begin .. begin + count - 1 of the first pass. */
static int fill(et_samples *inner, et_batch *batch, int64_t begin, int64_t count, et_error *error)
{
    uint32_t which[ROWS];
    et_assert(count > 0 && count <= ROWS);
    for (int64_t i = 0; i < count; i++)
        batch->sample[i] = which[i] = (uint32_t)(begin + i);
    memset(batch->filled, 0, sizeof batch->filled);
    int status = inner->class->fill(inner, (et_pick){ which, count, 0 }, batch, error);
    if (!status)
        et_batch_finish(batch);
    return status;
}

static int choose(et_samples *inner, et_keep_fn *keep, void *payload, et_batch *batch,
                  uint32_t *which, int64_t *kept, et_error *error)
{
    for (int64_t begin = 0; begin < inner->count; begin += ROWS) {
        int64_t count = inner->count - begin < ROWS ? inner->count - begin : ROWS;
        int status = fill(inner, batch, begin, count, error);
        if (status)
            return status;
        for (int64_t i = 0; i < count; i++)
            if (keep(payload, batch, i))
                which[(*kept)++] = (uint32_t)(begin + i);
    }
    return ET_OK;
}

int et_filter_open(et_samples **out, et_samples *inner, et_keep_fn *keep, void *payload,
                   et_error *error)
{
    et_assert(inner && keep);
    et_layout layout = inner->layout;
    et_batch *batch = NULL;
    int64_t kept = 0;
    uint32_t *which = et_alloc((size_t)inner->count, sizeof *which);
    if (!which)
        return et_alloc_failed(error, (size_t)inner->count * sizeof *which, "a filter");
    layout.capacity[0] = ROWS;
    for (int k = 1; k < layout.kinds; k++)
        layout.capacity[k] = ROWS * (inner->largest[k] > 0 ? inner->largest[k] : 1);
    int status = et_batch_new(&batch, &layout, error);
    if (!status)
        status = choose(inner, keep, payload, batch, which, &kept, error);
    if (!status)
        status = et_subset_open(out, inner, which, kept, error);
    et_batch_free(batch);
    et_free(which);
    return status;
}

/* ---- split ---- */

int et_split_size(int64_t *size, int64_t count, const et_split_options *options, et_error *error)
{
    int status = et_options_need(options, "et_split_options", error);
    if (status)
        return status;
    double portion = options->portion;
    if (count < 0)
        return et_fail(error, ET_ECONFIG, "%lld samples to split: the number must not be negative",
                       (long long)count);
    if (!(portion >= 0 && portion <= 1))
        return et_fail(error, ET_ECONFIG,
                       "the portion %g for the second part: give a portion from 0 to 1", portion);
    if (!options->size && portion == 0)
        return et_fail(error, ET_ECONFIG,
                       "the second part needs a portion or a size; a size of -1 gives none");
    if (options->size < 0)
        *size = 0;
    else if (options->size)
        *size = options->size < count ? options->size : count;
    else if (portion < 0.5)
        *size = count - (int64_t)((double)count * (1 - portion));
    else
        *size = (int64_t)((double)count * portion);
    return ET_OK;
}

/* The samples which[begin .. end - 1]; none: NULL. */
static int open_part(et_samples **out, const et_array *arrays, int fields, int64_t count,
                     const uint32_t *which, int64_t begin, int64_t end, et_error *error)
{
    et_samples *all = NULL;
    *out = NULL;
    if (begin == end)
        return ET_OK;
    int status = et_arrays_open(&all, arrays, fields, count, error);
    if (!status)
        status = et_subset_open(out, all, which + begin, end - begin, error);
    if (status)
        et_samples_close(all);
    return status;
}

int et_split_open(et_samples **first, et_samples **second, const et_array *arrays, int fields,
                  int64_t count, const et_split_options *options, et_error *error)
{
    int64_t size = 0;
    *first = *second = NULL;
    if (fields && (count < 1 || count > UINT32_MAX))
        return et_fail(error, ET_ECONFIG, "%lld samples to split: give 1 to 4,294,967,295",
                       (long long)count);
    int status = et_split_size(&size, count, options, error);
    if (status || !fields)
        return status;
    uint32_t *which = et_alloc((size_t)count, sizeof *which);
    if (!which)
        return et_alloc_failed(error, (size_t)count * sizeof *which, "a split of arrays");
    et_random random = { .seed = options->seed, .site = et_random_site("split") };
    for (int64_t i = 0; i < count; i++)
        which[i] = (uint32_t)i;
    if (!options->no_shuffle)
        et_random_permutation(random, which, (uint32_t)count);
    status = open_part(first, arrays, fields, count, which, 0, count - size, error);
    if (!status)
        status = open_part(second, arrays, fields, count, which, count - size, count, error);
    if (status) {
        et_samples_close(*first);
        *first = NULL;
    }
    et_free(which);
    return status;
}
