/* Updates of a step that a program writes itself, shared out: a batch is cut into a fixed number of
 * parts, its shards, and what they give is added in a fixed tree, so that the bits depend on how
 * many shards there are and not on who computes them, one process or several ranks (comm.h).
 *
 *     et_shards_options options = { .count = 4, .comm = comm };
 *     if (et_shards_open(&shards, pass, &source->layout, &options, &error)) ...
 *     while (et_loop_next_step(loop, source))
 *         if (et_shards_update(shards, optimizer, et_loop_step_data(loop), 1,
 *                              (uint64_t)et_loop_step(loop), NULL, &error))
 *             et_loop_fail(loop, &error);
 *     double loss = et_shards_loss(shards) / et_shards_divisor(shards);
 *     et_measured first = et_shards_measured(shards, 0);
 *     et_shards_close(shards);
 *
 * In loops (loop.h, which has the comm too), hooks (standard.h) and a task's own train_step. Every
 * rank reads all batches and calls the same with the same; a rank that fails elsewhere says so at
 * the next call of its driver, and all fail. Each rank may keep a part of the optimizer alone
 * (et_optimizer_share_out). It borrows pass and comm. One thread. */
#ifndef ETUDE_SHARDS_H
#define ETUDE_SHARDS_H

#include <etude/comm.h>
#include <etude/optimizer.h>

typedef struct et_shards et_shards;

typedef struct et_shards_options {
    int64_t count; /* of shards: at least as many as ranks; 0: 1 */
    et_comm *comm; /* NULL: this process alone */
} et_shards_options;

/* layout: of the batches that will be cut, by samples as evenly as it goes; copied but for its
 * fields. One of these at a time for a pass. ET_ECONFIG: fewer shards than ranks, more than samples
 * in a full batch, or batches that also count something else than samples, such as tokens. */
ET_API int et_shards_open(et_shards **out, et_pass *pass, const et_layout *layout,
                          const et_shards_options *options, et_error *error);
ET_API void et_shards_close(et_shards *shards); /* NULL allowed; before its pass is */

/* et_pass_run and et_optimizer_update of the whole batch: random numbers of shard i are those of
 * (seed, number * count + i). update may be NULL. ET_EDIVERGED as there. ET_EDATA: of a pass with
 * moving means, fewer samples than shards. */
ET_API int et_shards_update(et_shards *shards, et_optimizer *optimizer, const et_batch *batch,
                            uint64_t seed, uint64_t number, et_update *update, et_error *error);

/* Of the last update's batch, over all shards: as et_pass_loss and so on. */
ET_API double et_shards_loss(const et_shards *shards);
ET_API double et_shards_divisor(const et_shards *shards);
ET_API et_measured et_shards_measured(const et_shards *shards, int i);

#endif
