/* The one file that knows MPI. Nothing is reduced by MPI: a sum's order would be its own. What is
 * waited for is asked for again and again, ever less often: others compute on these cores, and a
 * silent rank must be able to end the wait. */
#include "comm/mpi_module.h"

#include <mpi.h>
#include <stdio.h>
#include <time.h>

#define TAG_PIECE 1
#define TAG_BEAT  2
#define CHUNK     ((size_t)1 << 30) /* bytes of one message: MPI counts in int */
#define SPINS     2000              /* looks without a rest */
#define REST_MOST 200000            /* nanoseconds between two looks */

#if defined(OPEN_MPI)
#define NAME "Open MPI"
#elif defined(MPICH)
#define NAME "MPICH"
#else
#define NAME "MPI"
#endif

typedef struct et_mpi_wait {
    bool (*gives_up)(void *payload);
    void *payload;
    char *text;
    size_t size;
} et_mpi_wait;

static int fail(const et_mpi_wait *w, int code, const char *what)
{
    char reason[MPI_MAX_ERROR_STRING] = "";
    int length;
    MPI_Error_string(code, reason, &length);
    snprintf(w->text, w->size, "%s: %s", what, reason);
    return -1;
}

static int begin(int *rank, int *ranks, et_mpi_threads *threads, char *text, size_t size)
{
    const et_mpi_wait w = { .text = text, .size = size };
    int given = 0, there = 0;
    int code = MPI_Initialized(&there);
    if (!code)
        code = there ? MPI_Query_thread(&given)
                     : MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &given);
    if (!code)
        code = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (!code)
        code = MPI_Comm_rank(MPI_COMM_WORLD, rank);
    if (!code)
        code = MPI_Comm_size(MPI_COMM_WORLD, ranks);
    *threads = given >= MPI_THREAD_MULTIPLE     ? ET_MPI_ALL
               : given >= MPI_THREAD_SERIALIZED ? ET_MPI_ANY
                                                : ET_MPI_FIRST;
    return code ? fail(&w, code, "MPI does not begin") : 0;
}

static void rest(int looks)
{
    long nanoseconds = (long)(looks - SPINS) * 1000;
    if (looks < SPINS)
        return;
    struct timespec time = { 0, nanoseconds < REST_MOST ? nanoseconds : REST_MOST };
    nanosleep(&time, NULL);
}

static int wait_for(const et_mpi_wait *w, MPI_Request *requests, int count)
{
    MPI_Status statuses[2];
    int done = 0;
    for (int looks = 0; !done; looks++) {
        int code = MPI_Testall(count, requests, &done, statuses);
        if (code)
            return fail(w, code, "a rank can't be reached");
        if (!done && looks % 64 == 63 && w->gives_up(w->payload)) {
            snprintf(w->text, w->size, "gives no sign of life");
            return -1;
        }
        if (!done)
            rest(looks);
    }
    return 0;
}

static size_t part(const et_mpi_piece *piece, size_t at)
{
    size_t left = piece->rank < 0 || at >= piece->size ? 0 : piece->size - at;
    return left < CHUNK ? left : CHUNK;
}

static int exchange(et_mpi_piece send, et_mpi_piece receive, bool (*gives_up)(void *payload),
                    void *payload, char *text, size_t size)
{
    const et_mpi_wait w = { gives_up, payload, text, size };
    for (size_t at = 0; part(&send, at) || part(&receive, at); at += CHUNK) {
        size_t out = part(&send, at), in = part(&receive, at);
        MPI_Request requests[2];
        int count = 0, code = 0;
        if (in)
            code = MPI_Irecv((char *)receive.bytes + at, (int)in, MPI_BYTE, receive.rank, TAG_PIECE,
                             MPI_COMM_WORLD, &requests[count++]);
        if (out && !code)
            code = MPI_Isend((char *)send.bytes + at, (int)out, MPI_BYTE, send.rank, TAG_PIECE,
                             MPI_COMM_WORLD, &requests[count++]);
        if (code)
            return fail(&w, code, "a rank can't be reached");
        if (wait_for(&w, requests, count))
            return -1;
    }
    return 0;
}

/* Beats of this process: one is under way at a time, for who has not taken the last one has it
 * still. */
static MPI_Request sent = MPI_REQUEST_NULL;
static int after = -1, before = -1; /* the ranks that it beats for, and hears; -1: none */
static bool heard_last;

static int beat(int next, int previous)
{
    static const char mark = 1;
    int done = 1, there = 0, heard = 0;
    after = next;
    before = previous;
    if (sent != MPI_REQUEST_NULL && MPI_Test(&sent, &done, MPI_STATUS_IGNORE))
        return 0;
    if (done && MPI_Isend(&mark, 1, MPI_BYTE, next, TAG_BEAT, MPI_COMM_WORLD, &sent))
        return 0;
    while (!MPI_Iprobe(previous, TAG_BEAT, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE) && there) {
        char got;
        if (MPI_Recv(&got, 1, MPI_BYTE, previous, TAG_BEAT, MPI_COMM_WORLD, MPI_STATUS_IGNORE))
            break;
        heard = 1;
        heard_last |= !got;
    }
    return heard;
}

/* A last beat, up to which the next rank takes them all: none is left on its way. */
static void end_beats(void)
{
    static const char mark = 0;
    MPI_Request last;
    char got = (char)!heard_last;
    if (after < 0 || MPI_Isend(&mark, 1, MPI_BYTE, after, TAG_BEAT, MPI_COMM_WORLD, &last))
        return;
    while (got && !MPI_Recv(&got, 1, MPI_BYTE, before, TAG_BEAT, MPI_COMM_WORLD, MPI_STATUS_IGNORE))
        continue;
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
    MPI_Wait(&last, MPI_STATUS_IGNORE);
}

static void end(bool broken)
{
    if (broken)
        MPI_Abort(MPI_COMM_WORLD, 1);
    end_beats();
    MPI_Finalize();
}

extern const et_mpi et_mpi_table __attribute__((visibility("default")));

const et_mpi et_mpi_table = { ET_MPI_VERSION, NAME, begin, exchange, beat, end };
