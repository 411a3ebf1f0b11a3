/* batch -> cut -> pass, for each shard of this rank -> reducer (ranked.h) -> update
 *
 * A shard's batch has room for the largest shard; the pass keeps a plan for it. If a batch is not
 * full, all shards get fewer samples. */
#include <etude/shards.h>

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/optim/optimizer.h"
#include "engine/tensor/tensor.h"
#include "train/ranks/ranked.h"
#include "train/step/update.h"

struct et_shards {
    et_comm *comm; /* borrowed, as pass */
    et_pass *pass;
    et_layout layout; /* of part */
    int variant;      /* of the pass, for part */
    et_batch *part;
    et_reducer *reducer;
    et_reduced sum;
};

static int check(const et_shards_options *o, const et_layout *layout, int64_t count,
                 et_error *error)
{
    int ranks = et_comm_size(o->comm);
    if (count < 1)
        return et_fail(error, ET_ECONFIG, "%lld shards: give at least 1", (long long)count);
    if (count < ranks)
        return et_fail(error, ET_ECONFIG, "%lld shard%s, but %d ranks: give at least %d shards",
                       (long long)count, count == 1 ? "" : "s", ranks, ranks);
    if (layout->kinds > 1)
        return et_fail(error, ET_ECONFIG,
                       "shards: these batches also count %ss, so they cannot be split by %ss; use "
                       "a task with several batches per update",
                       layout->kind[1], layout->kind[0]);
    if (count > layout->capacity[0])
        return et_fail(error, ET_ECONFIG,
                       "%lld shards of a batch of %lld %ss: give at most as many shards",
                       (long long)count, (long long)layout->capacity[0], layout->kind[0]);
    return ET_OK;
}

int et_shards_open(et_shards **out, et_pass *pass, const et_layout *layout,
                   const et_shards_options *options, et_error *error)
{
    static const et_shards_options defaults = { 0 };
    *out = NULL;
    const et_shards_options *o = options ? options : &defaults;
    int64_t count = o->count ? o->count : 1;
    int status = check(o, layout, count, error);
    et_shards *s = status ? NULL : et_alloc_zero(1, sizeof *s);
    if (!s)
        return status ? status : et_alloc_failed(error, "shards");
    s->comm = o->comm;
    s->pass = pass;
    s->layout = *layout;
    s->layout.capacity[0] = (layout->capacity[0] + count - 1) / count;
    s->sum = (et_reduced){ .loss = NAN };
    /* The pass is prepared for the part, and the reducer for the pass. */
    status = et_batch_new(&s->part, &s->layout, error);
    if (!status)
        status = et_pass_variant(s->pass, &s->layout, &s->variant, error);
    if (!status && et_comm_size(o->comm) > 1)
        status = et_ranked_open(&s->reducer, s->pass, (int)count, o->comm, error);
    else if (!status)
        status = et_tree_open(&s->reducer, s->pass, (int)count, error);
    if (status)
        et_shards_close(s);
    else
        *out = s;
    return status;
}

void et_shards_close(et_shards *s)
{
    if (!s)
        return;
    et_reducer_close(s->reducer);
    et_batch_free(s->part);
    et_free(s);
}

/* An update that is under way. */
typedef struct shared_batch {
    et_shards *shards;
    const et_batch *batch;
    uint64_t seed, number;
} shared_batch;

static int check_batch(const et_shards *s, const et_batch *batch, et_error *error)
{
    int64_t filled = batch->filled[0], count = s->reducer->shards;
    if (!et_layout_same(batch->layout, &s->layout) || filled > s->layout.capacity[0] * count)
        return et_fail(error, ET_EUSAGE,
                       "the batch has another layout than the shards, or more than %lld samples",
                       (long long)(s->layout.capacity[0] * count));
    if (filled < count && et_pass_tracks(s->pass))
        return et_fail(error, ET_EDATA,
                       "a batch of %lld samples is too small for %lld shards, which all update "
                       "moving means; use full batches (drop_remainder)",
                       (long long)filled, (long long)count);
    return ET_OK;
}

static int run_shard(void *self, int shard, et_error *error)
{
    const shared_batch *shared = self;
    et_shards *s = shared->shards;
    int64_t filled = shared->batch->filled[0], count = s->reducer->shards;
    /* Samples begin to end - 1 of a batch are the part's. */
    const et_batch *batch = shared->batch;
    int64_t begin = filled * shard / count, end = filled * (shard + 1) / count;
    for (int i = 0; i < s->layout.fields; i++) {
        const et_layout_field *field = &s->layout.field[i];
        size_t size = (size_t)et_shape_count(field->item) * et_dtype_size(field->dtype);
        memcpy(s->part->data[i], (const char *)batch->data[i] + (size_t)begin * size,
               (size_t)(end - begin) * size);
    }
    memcpy(s->part->sample, batch->sample + begin, (size_t)(end - begin) * sizeof *batch->sample);
    s->part->filled[0] = end - begin;
    s->part->epoch = batch->epoch;
    et_batch_finish(s->part);
    et_reducer_expect(s->reducer, shard);
    int status = et_pass_check(s->pass, s->variant, s->part, error);
    if (status)
        return status;
    et_pass_run_variant(s->pass, s->variant, s->part, shared->seed,
                        shared->number * (uint64_t)count + (uint64_t)shard);
    return et_reducer_add(s->reducer, shard, s->pass, error);
}

/* An optimizer must be divided among the ranks that have the gradients. */
static int check_optimizer(const et_shards *s, const et_optimizer *optimizer, et_error *error)
{
    const et_comm *ranks = et_optimizer_ranks(optimizer);
    int status = et_update_check(optimizer, s->pass, error);
    if (status)
        return status;
    return !ranks || ranks == s->comm ? ET_OK
                                      : et_fail(error, ET_EUSAGE,
                                                "the optimizer is split over %d ranks, but the "
                                                "shards are not: give both the same comm",
                                                et_comm_size(ranks));
}

int et_shards_update(et_shards *s, et_optimizer *optimizer, const et_batch *batch, uint64_t seed,
                     uint64_t number, et_update *update, et_error *error)
{
    et_update done = { NAN, 0, false };
    shared_batch shared = { s, batch, seed, number };
    int status = check_optimizer(s, optimizer, error);
    if (!status)
        status = check_batch(s, batch, error);
    et_pass_set_dropout(s->pass, et_optimizer_regularization(optimizer));
    status = et_reducer_sum(s->reducer, status, run_shard, &shared, &s->sum, error);
    bool diverged = status == ET_EDIVERGED;
    int bad = diverged ? s->reducer->bad : s->reducer->shards - 1;
    if (status && !diverged)
        return status;
    status = !diverged && s->sum.divisor >= 0 ? et_update_apply(optimizer, &s->sum, 1, &done, error)
                                              : et_optimizer_settled(optimizer, error);
    if (update)
        *update = done;
    if (status)
        return status;
    if (done.finite) {
        et_update_finish(optimizer, s->pass, s->sum.means);
        return ET_OK;
    }
    /* The rank that has the shard writes the message. */
    bool mine = bad >= s->reducer->first && bad < s->reducer->end;
    status = et_update_diverged(mine ? s->pass : NULL, error);
    return et_reducer_failed(s->reducer, bad, status, error);
}

double et_shards_loss(const et_shards *s)
{
    return s->sum.loss;
}

double et_shards_divisor(const et_shards *s)
{
    return s->sum.divisor;
}

et_measured et_shards_measured(const et_shards *s, int i)
{
    return i >= 0 && i < s->sum.measures ? s->sum.measured[i] : (et_measured){ 0 };
}
