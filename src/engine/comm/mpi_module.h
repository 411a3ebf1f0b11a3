/* The interface between the library and a module for one MPI (mpi.c): a separate file, loaded if
 * the process was started by that MPI (comm.c). Libraries of different MPIs fit neither each
 * other's programs nor one process, so only the module uses MPI. Besides MPI it uses only the C
 * library.
 *
 * Functions return 0, or -1 with a message in text[size]. */
#ifndef ETUDE_ENGINE_COMM_MPI_MODULE_H
#define ETUDE_ENGINE_COMM_MPI_MODULE_H

#include <stdbool.h>
#include <stddef.h>

#define ET_MPI_VERSION 3              /* of this struct */
#define ET_MPI_SYMBOL  "et_mpi_table" /* the file exports this: a const et_mpi */

typedef struct et_mpi_chunk {
    int rank; /* -1: none */
    void *bytes;
    size_t size;
} et_mpi_chunk;

/* Threads that may call MPI. */
typedef enum et_mpi_threads {
    ET_MPI_FIRST, /* only the initialising thread */
    ET_MPI_ANY,   /* any thread, one at a time */
    ET_MPI_ALL,   /* two at the same time */
} et_mpi_threads;

typedef struct et_mpi {
    int version;
    const char *name; /* "Open MPI", "MPICH" */
    /* Once in a process. */
    int (*begin)(int *rank, int *ranks, et_mpi_threads *threads, char *text, size_t size);
    /* Waits for both pieces, or until gives_up(payload). came: see et_comm_class; beside: see
     * et_comm. */
    int (*exchange)(et_mpi_chunk send, et_mpi_chunk receive, size_t *came, bool beside,
                    bool (*gives_up)(void *payload), void *payload, char *text, size_t size);
    int (*beat)(int next, int previous); /* 1: something was heard, 0: nothing */
    void (*end)(bool broken);            /* broken: ends every rank, and does not return */
} et_mpi;

#endif
