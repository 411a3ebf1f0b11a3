#include "tasks/translation/settings/batching.h"

#include "base/assert.h"
#include "data/batches/bucketed.h"

/* A sentence is never cut for a batch, so the budget has to hold the longest that may come. The
 * bound of the last bucket is one more than the longest. */
int et_translation_check_batching(const char *name, const et_translation_data *data, bool training,
                                  et_error *error)
{
    et_assert(name);
    const bool bucketed = data->batching == ET_BATCHING_BUCKETED;
    if (data->static_batch && bucketed)
        return et_fail(error, ET_ECONFIG,
                       "task.%s: static_batch and batching: bucketed are both set; keep one", name);
    if (data->static_batch && !training)
        return ET_OK;
    if (data->max_seq_length + bucketed <= data->global_batch_size)
        return ET_OK;
    return et_fail(error, ET_ECONFIG,
                   "task.%s.global_batch_size: %lld tokens are fewer than max_seq_length, %lld%s; "
                   "raise the batch size or lower the length",
                   name, (long long)data->global_batch_size, (long long)data->max_seq_length,
                   bucketed ? ", rounded up to its bucket" : "");
}

static int open_bucketed(et_source **out, et_samples *samples, const et_translation_data *data,
                         const et_batches_options *order, bool training, et_error *error)
{
    et_bucket buckets[ET_BUCKETS_MAX];
    const int64_t budget = data->global_batch_size;
    int count = 1;
    if (!data->static_batch)
        count = et_buckets_scaled(buckets, data->max_seq_length, budget);
    else
        buckets[0] =
            (et_bucket){ data->max_seq_length, training ? budget / data->max_seq_length : budget };
    et_assert(count >= 1);
    et_bucketed_options options = { order->seed, order->shuffle, order->repeat, buckets, count };
    return et_bucketed_open(out, samples, &options, error);
}

int et_translation_batches(et_source **out, et_samples *samples, const et_translation_data *data,
                           const et_batches_options *order, bool training, et_error *error)
{
    et_assert(out && samples && order);
    const bool packed = !data->static_batch && data->batching == ET_BATCHING_PACKED;
    int status = packed ? et_batches_open(out, samples, order, error)
                        : open_bucketed(out, samples, data, order, training, error);
    if (status)
        et_samples_close(samples);
    return status;
}
