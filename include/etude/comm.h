/* Ranks: processes that train one model together. Each rank has the whole model and the same data.
 * An update has a fixed number of batches; each rank computes some of them, and their gradients are
 * added in a fixed tree. So 1, 2 and 4 ranks give equal bytes, and a run may resume with another
 * number of ranks. Only rank 0 writes files.
 *
 *     et_comm *comm;
 *     if (et_comm_open(&comm, NULL, &error)) ...           finds the rank and the number of ranks
 *     et_task_trainer_options options = { .batches = 8, .comm = comm };
 *     et_controller_options driver = { .run = { .model_dir = "runs/mine", .comm = comm } };
 *     if (et_comm_rank(comm) == 0)
 *         printf("%d ranks\n", et_comm_size(comm));
 *     ... a controller trains ...
 *     et_comm_close(comm);                                 after everything that uses it
 *
 * The launcher decides the number of ranks: `etude launch -n 4 -- PROGRAM ...` on one machine, or
 * MPI (mpirun, srun), whose library is then loaded. Without a launcher the process is the only
 * rank. If a rank is killed or stopped, all others notice and end with ET_EIO. Use from one thread.
 * The communicator has its own thread, which sends signs of life. */
#ifndef ETUDE_COMM_H
#define ETUDE_COMM_H

#include <stdbool.h>

#include <etude/error.h>

typedef struct et_comm et_comm;

typedef struct et_comm_options {
    double peer_timeout;     /* seconds without a sign of life after which a rank is lost; 0: 60 */
    bool bfloat16_gradients; /* send gradients in half the bytes. All ranks have the same sum, but
                                its bits depend on the number of ranks */
    bool sharded_optimizer;  /* ZeRO stage 1 for the optimizer of a task trainer: each rank keeps
                                the slots of some of the parameters and updates these parameters.
                                The same bits. Only a run can then save. For an optimizer of your
                                program: et_optimizer_shard (optimizer.h) */
} et_comm_options;

/* Call once in each process, before the first of the ranks ends. options NULL: the defaults.
 * ET_ENOTFOUND: Etude has no module for the MPI that started the process. */
ET_API int et_comm_open(et_comm **out, const et_comm_options *options, et_error *error);
ET_API void et_comm_close(et_comm *comm); /* NULL allowed */

/* comm NULL: rank 0 of 1. */
ET_API int et_comm_rank(const et_comm *comm);
ET_API int et_comm_size(const et_comm *comm);

#endif
