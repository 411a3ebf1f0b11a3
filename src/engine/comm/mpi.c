/* The only file that uses MPI. MPI reduces nothing, because its sums have their own order.
 *
 * Waiting polls again and again, because a silent rank must be able to end the wait; after a while
 * with pauses in between. A pause costs more than most messages take, especially on a machine with
 * other work. So a process with nothing else to do polls for long before it pauses. It pauses at
 * once if other threads of the process compute, and yields if the machine has more ranks than
 * processors. */
#include "engine/comm/mpi_module.h"

#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define TAG_CHUNK   1
#define TAG_BEAT    2
#define WINDOW      4                 /* messages of a piece that are under way at a time */
#define CHUNK       ((size_t)1 << 30) /* bytes of one message: MPI counts in int */
#define LOOKS       2000              /* without a rest, */
#define LOOKS_LONG  100000            /* if the process has nothing else to do */
#define LOOKS_ALONE 100               /* without giving way, where ranks share processors */
#define REST_MOST   200000            /* nanoseconds between two looks */

/* AT_ONCE: bytes that are sent without asking the receiver, on one machine. */
#if defined(OPEN_MPI)
#define NAME    "Open MPI"
#define AT_ONCE 4032
#elif defined(MPICH)
#define NAME    "MPICH"
#define AT_ONCE 8100
#else
#define NAME    "MPI"
#define AT_ONCE 4032
#endif

typedef struct et_mpi_wait {
    bool (*gives_up)(void *payload);
    void *payload;
    bool beside;
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

static bool crowded; /* more ranks on this machine than processors */

static int count_neighbours(int rank)
{
    MPI_Comm here;
    int count = 0;
    int code =
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &here);
    if (!code)
        code = MPI_Comm_size(here, &count);
    if (!code)
        code = MPI_Comm_free(&here);
    crowded = count > sysconf(_SC_NPROCESSORS_ONLN);
    return code;
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
    if (!code)
        code = count_neighbours(*rank);
    *threads = given >= MPI_THREAD_MULTIPLE     ? ET_MPI_ALL
               : given >= MPI_THREAD_SERIALIZED ? ET_MPI_ANY
                                                : ET_MPI_FIRST;
    return code ? fail(&w, code, "MPI does not start") : 0;
}

static int wait_for(const et_mpi_wait *w, MPI_Request *requests, int count, MPI_Status *statuses)
{
    int done = 0;
    for (int looks = 0; !done; looks++) {
        int code = MPI_Testall(count, requests, &done, statuses);
        if (code)
            return fail(w, code, "cannot reach a rank");
        if (!done && looks % 64 == 63 && w->gives_up(w->payload)) {
            snprintf(w->text, w->size, "does not answer");
            return -1;
        }
        if (!done) {
            int most = w->beside ? LOOKS : LOOKS_LONG;
            long nanoseconds = (long)(looks - most) * 1000;
            if (looks >= most) {
                struct timespec time = { 0, nanoseconds < REST_MOST ? nanoseconds : REST_MOST };
                nanosleep(&time, NULL);
            } else if (crowded && looks >= LOOKS_ALONE) {
                sched_yield();
            }
        }
    }
    return 0;
}

static size_t left_of(const et_mpi_chunk *chunk, size_t at)
{
    return chunk->rank < 0 || at >= chunk->size ? 0 : chunk->size - at;
}

/* Posts up to WINDOW messages of the chunk from *at on, each with the next request. */
static int post(et_mpi_chunk chunk, bool sends, size_t *at, MPI_Request *requests, int *count)
{
    const size_t each = chunk.size <= (size_t)WINDOW * AT_ONCE ? AT_ONCE : CHUNK;
    int code = 0;
    for (int i = 0; !code && i < WINDOW && left_of(&chunk, *at); i++) {
        size_t left = left_of(&chunk, *at), size = left < each ? left : each;
        char *bytes = (char *)chunk.bytes + *at;
        MPI_Request *request = &requests[(*count)++];
        code = sends ? MPI_Isend(bytes, (int)size, MPI_BYTE, chunk.rank, TAG_CHUNK, MPI_COMM_WORLD,
                                 request)
                     : MPI_Irecv(bytes, (int)size, MPI_BYTE, chunk.rank, TAG_CHUNK, MPI_COMM_WORLD,
                                 request);
        *at += size;
    }
    return code;
}

/* A piece received with came is one message. */
static int exchange(et_mpi_chunk send, et_mpi_chunk receive, size_t *came, bool beside,
                    bool (*gives_up)(void *payload), void *payload, char *text, size_t size)
{
    const et_mpi_wait w = { gives_up, payload, beside, text, size };
    size_t out = 0, in = 0;
    while (left_of(&send, out) || left_of(&receive, in)) {
        MPI_Request requests[2 * WINDOW];
        MPI_Status statuses[2 * WINDOW];
        int count = 0, received = 0;
        int code = post(receive, false, &in, requests, &count);
        if (!code)
            code = post(send, true, &out, requests, &count);
        if (code)
            return fail(&w, code, "cannot reach a rank");
        if (wait_for(&w, requests, count, statuses))
            return -1;
        if (came && MPI_Get_count(&statuses[0], MPI_BYTE, &received))
            return fail(&w, MPI_ERR_COUNT, "cannot understand a rank");
        if (came)
            *came = (size_t)received;
    }
    return 0;
}

/* This process's beats, one under way at a time: a receiver that has not taken the last beat still
 * has it. */
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

/* A last beat; the next rank takes all beats up to it, so that none is left under way. */
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
