/* Ranks, for the library, beyond <etude/comm.h>: transports and collectives. A transport (a class)
 * carries bytes between two ranks; collectives need nothing else.
 *
 *     status = et_comm_agree(comm, status, NULL, &error);     one status for all
 *     if (!status)
 *         status = et_comm_gather(comm, &mine, sizeof mine, all, &error);
 *
 * All ranks call the same collectives in the same order. This rule keeps the order if a rank fails:
 * the failed rank goes directly to the next et_comm_agree, so every other collective comes after an
 * agreement on ET_OK. Code outside of this folder calls the functions of together.h, which call
 * et_comm_agree; that header lists the exceptions.
 *
 * ET_EIO from any collective: a rank is lost or silent. Nothing can be sent any more, and every
 * later call returns ET_EIO. comm NULL, or a size of 1, is a process alone: nothing is sent. Sizes
 * are the same on all ranks. Use from one thread at a time.
 *
 * Starting ranks on one machine: processes of one program, each pair joined by a socket that both
 * inherit (comm.c). The sockets have no name and no port, so no other process can join.
 *
 *     pid_t ranks[4];
 *     if (et_ranks_start(ranks, 4, argv, &error)) ...
 *     ... waitpid ...
 *
 * A rank gets SIGTERM when the process that started it dies.
 */
#ifndef ETUDE_ENGINE_COMM_COMM_H
#define ETUDE_ENGINE_COMM_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <etude/comm.h>
#include <etude/error.h>

/* Bytes to or from a rank; rank -1: none. */
typedef struct et_comm_chunk {
    int rank;
    void *bytes; /* [size]; only read when sent */
    size_t size;
} et_comm_chunk;

typedef struct et_comm_class {
    const char *name; /* for people */
    /* Sends one piece while it receives the other. Returns ET_EIO also if a rank is silent. came
     * NULL: the whole piece is received; else at most that, ET_COMM_SHORT at most, and *came is the
     * number of bytes. */
    int (*exchange)(et_comm *self, et_comm_chunk send, et_comm_chunk receive, size_t *came,
                    et_error *error);
    bool any_thread; /* another thread than open's may call it, one thread at a time */
    /* Called by comm's thread: tells the next rank that this process lives, and reads the previous
     * rank's message. Returns 1: a message, 0: none, -1: none will come again. NULL: not
     * possible. */
    int (*beat)(et_comm *self);
    void (*close)(et_comm *self); /* after a loss: does not wait for other ranks */
} et_comm_class;

struct et_heartbeat;

struct et_comm {
    const et_comm_class *class;
    int rank, size;
    bool bfloat16_gradients; /* as asked for, as */
    bool sharded_optimizer;
    bool beside;            /* the caller's other threads compute meanwhile: waits rest soon */
    bool reported;          /* the last agreement was on a failure, and all have its text */
    int gone;               /* the lost rank, if broken; -1: unknown */
    struct et_error broken; /* if its status is not 0, every further call returns it */
    struct et_heartbeat *heartbeat; /* owned; NULL: none */
    unsigned char *scratch;         /* [scratch_size], owned */
    size_t scratch_size;
};

/* All ranks meet and continue with one status: ET_OK if all ranks have it, else status and text of
 * the lowest failed rank. flags (NULL: none) are or-ed over all ranks. After an agreed failure,
 * calls return its status at once until et_comm_resume. */
int et_comm_agree(et_comm *comm, int status, unsigned *flags, et_error *error);

/* An agreement may also be part of the messages of a sum. A rank that failed earlier calls
 * et_comm_agree instead of the sum, so both use the same rounds of messages, which begin with a
 * word: */
typedef struct et_comm_word {
    int status;
    unsigned flags;
    int from; /* the lowest failed rank, whose status this is */
    int unused;
} et_comm_word;

#define ET_COMM_SHORT ((size_t)4032) /* most bytes of a short message */

et_comm_word et_comm_say(const et_comm *comm, int status, unsigned flags);

/* Whether all heard ranks have ET_OK and no flag. */
static inline bool et_comm_is_well(const et_comm_word *word)
{
    return !word->status && !word->flags;
}

/* One round. out [out_size] begins with room for a word; in [ET_COMM_SHORT] begins with another
 * rank's. While all is well, the bytes after the word are sent too. If all is well afterwards, `in`
 * has in_size bytes with the word. Rounds are bit = 1, 2, 4, ... below the number of ranks; if this
 * number is a power of two, round bit connects ranks r and r ^ bit. */
int et_comm_say_round(et_comm *comm, int bit, et_comm_word *word, void *out, size_t out_size,
                      void *in, size_t in_size, et_error *error);

/* After the last round: the result of et_comm_agree. */
int et_comm_settle(et_comm *comm, const et_comm_word *word, unsigned *flags, et_error *error);

/* Whether another rank reports the failure that ended the work. Exactly one rank reports it. */
bool et_comm_reported_elsewhere(const et_comm *comm);

/* After a failure that all have agreed on: the following calls are collective again. */
void et_comm_resume(et_comm *comm);

/* Gathers mine of every rank, in rank order: all [ranks * size]. Logarithmic in the number of
 * ranks. size 0: nothing is sent. */
int et_comm_gather(et_comm *comm, const void *mine, size_t size, void *all, et_error *error);

/* The same in place: blocks [ranks * size] starts with this rank's block, the only input; the
 * blocks of the following ranks come after it. */
int et_comm_gather_blocks(et_comm *comm, void *blocks, size_t size, et_error *error);

/* bytes of root to all others. */
int et_comm_broadcast(et_comm *comm, int root, void *bytes, size_t size, et_error *error);

/* One exchange; a chunk from or to this rank itself is ignored. */
int et_comm_exchange(et_comm *comm, et_comm_chunk send, et_comm_chunk receive, et_error *error);

/* ---- how this process was started ---- */

/* Whether et_ranks_start or an MPI started this process. started_rank: its rank after opening, if
 * the environment names it, else 0. */
bool et_comm_by_launch(void);
bool et_comm_by_mpi(void);
int et_comm_started_rank(void);

/* ---- starting ranks of one machine ---- */

#define ET_RANKS_MAX             64
#define ET_RANK_VARIABLE         "ETUDE_RANK"
#define ET_RANK_SOCKETS_VARIABLE "ETUDE_RANK_SOCKETS"
#define ET_RANK_NOT_STARTED      127 /* exit code if the program does not exist */
#define ET_RANK_NOT_ALLOWED      126 /* the same if it may not be run, or is no program */

/* argv: ended by NULL; argv[0] is searched in PATH. count: 1 to ET_RANKS_MAX. If a rank cannot be
 * started, all others are ended. Only for a process without threads. */
int et_ranks_start(pid_t *ranks, int count, char *const *argv, et_error *error);

#endif
