/* Sharded updates for a step that a program writes itself. A batch is divided into a fixed number
 * of shards, and their results are added in a fixed tree. So the bits depend on the number of
 * shards, and not on whether one process or several ranks (comm.h) compute them.
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
 * Use shards in loops (loop.h, which has the comm too), hooks (standard.h) and a task's own
 * train_step. Every rank reads all batches and makes the same calls with the same arguments. If a
 * rank fails elsewhere, it reports the error at the next call of its driver, and all ranks fail.
 * Each rank may keep only a part of the optimizer (et_optimizer_shard). Borrows pass and comm.
 * Use from one thread. */
#ifndef ETUDE_SHARDS_H
#define ETUDE_SHARDS_H

#include <etude/comm.h>
#include <etude/optimizer.h>

typedef struct et_shards et_shards;

typedef struct et_shards_options {
    int64_t count; /* number of shards, at least the number of ranks; 0: 1 */
    et_comm *comm; /* NULL: this process alone */
} et_shards_options;

/* layout: of the batches to divide; copied except its fields. Samples are divided as evenly as
 * possible. A pass can have only one et_shards at a time. ET_ECONFIG: fewer shards than ranks, more
 * shards than samples in a full batch, or batches that count other kinds than samples, such as
 * tokens. */
ET_API int et_shards_open(et_shards **out, et_pass *pass, const et_layout *layout,
                          const et_shards_options *options, et_error *error);
ET_API void et_shards_close(et_shards *shards); /* NULL allowed; call before the pass is closed */

/* The same as et_pass_run and et_optimizer_update with the whole batch. Shard i uses the random
 * numbers of (seed, number * count + i). update may be NULL. ET_EDIVERGED as there. ET_EDATA: the
 * pass has moving means, and the batch has fewer samples than shards. */
ET_API int et_shards_update(et_shards *shards, et_optimizer *optimizer, const et_batch *batch,
                            uint64_t seed, uint64_t number, et_update *update, et_error *error);

/* Results of the last update over all shards, as et_pass_loss and so on. */
ET_API double et_shards_loss(const et_shards *shards);
ET_API double et_shards_divisor(const et_shards *shards);
ET_API et_measured et_shards_measured(const et_shards *shards, int i);

#endif
