/* Ranks: processes that train one model together. Each has the whole model and the same data; an
 * update is made of a fixed number of batches, of which each rank computes its share, and whose
 * gradients are added in a fixed tree. So 1, 2 and 4 ranks end with equal bytes, and a run may go
 * on with another number of them. Only rank 0 writes.
 *
 *     et_comm *comm;
 *     if (et_comm_open(&comm, NULL, &error)) ...           who are we?
 *     et_task_trainer_options options = { .batches = 8, .comm = comm };
 *     et_controller_options driver = { .run = { .model_dir = "runs/mine", .comm = comm } };
 *     if (et_comm_rank(comm) == 0)
 *         printf("%d ranks\n", et_comm_size(comm));
 *     ... a controller trains ...
 *     et_comm_close(comm);                                 after all that uses it
 *
 * Who started the process says what ranks there are: `etude launch -n 4 -- PROGRAM ...` on one
 * machine, or MPI (mpirun, srun), whose library is loaded then; else the process is alone. A rank
 * that is killed or stopped is noticed, and ends all others: ET_EIO. One thread, but for one of
 * its own that says that the process lives. */
#ifndef ETUDE_COMM_H
#define ETUDE_COMM_H

#include <stdbool.h>

#include <etude/error.h>

typedef struct et_comm et_comm;

typedef struct et_comm_options {
    double peer_timeout; /* seconds after which a rank that gives no sign of life is lost; 0: 60 */
    bool bfloat16_gradients; /* gradients travel in half the bytes: every rank has the same sum, and
                                its bits depend on how many ranks there are */
    bool sharded_optimizer;  /* of a task trainer's optimizer each rank keeps the slots of a part of
                                the parameters, and updates those (ZeRO stage 1): the same bits.
                                Saves are then a run's alone. For an optimizer of the program's own:
                                et_optimizer_share_out (optimizer.h) */
} et_comm_options;

/* Once in a process, and before its first rank ends. options NULL: the defaults. ET_ENOTFOUND: the
 * process was started by an MPI for which there is no module. */
ET_API int et_comm_open(et_comm **out, const et_comm_options *options, et_error *error);
ET_API void et_comm_close(et_comm *comm); /* NULL allowed */

/* NULL: 0 of 1. */
ET_API int et_comm_rank(const et_comm *comm);
ET_API int et_comm_size(const et_comm *comm);

#endif
