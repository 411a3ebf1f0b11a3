/* Collectives from exchanges of two ranks.
 *
 *   gather      Bruck et al. 1997, section 3: in round k a rank sends all it has to the rank 2^k
 *               before it and gets as much from the rank 2^k after it; blocks are in the order
 *               rank, rank + 1, ..., and are rotated at the end
 *   broadcast   a binomial tree from the root
 *   agree       in round k the word of all ranks heard so far goes 2^k ranks on, or to rank ^ 2^k;
 *               if one has failed, a broadcast of its text follows */
#include "engine/comm/comm.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

#define PEER_TIMEOUT 60
#define LEAVING_MOST 4096 /* ranks that leave together */

int et_comm_rank(const et_comm *comm)
{
    return comm ? comm->rank : 0;
}

int et_comm_size(const et_comm *comm)
{
    return comm ? comm->size : 1;
}

static void close_alone(et_comm *comm)
{
    et_free(comm);
}

static const et_comm_class alone_class = { .name = "alone", .close = close_alone };

static int open_alone(et_comm **out, et_error *error)
{
    *out = et_alloc_zero(1, sizeof **out);
    if (!*out)
        return et_alloc_failed(error, sizeof **out, "a rank");
    **out = (et_comm){ .class = &alone_class, .size = 1 };
    return ET_OK;
}

int et_comm_open(et_comm **out, const et_comm_options *options, et_error *error)
{
    *out = NULL;
    double timeout = options ? options->peer_timeout : 0;
    if (!(timeout >= 0 && timeout <= 1e9))
        return et_fail(error, ET_ECONFIG, "peer_timeout %g: give a number of seconds, such as 60",
                       timeout);
    int status = et_comm_by_launch() ? et_comm_sockets_open(out, error)
                 : et_comm_by_mpi()  ? et_comm_mpi_open(out, error)
                                     : open_alone(out, error);
    if (!status && options) {
        (*out)->bfloat16_gradients = options->bfloat16_gradients;
        (*out)->sharded_optimizer = options->sharded_optimizer && (*out)->size > 1;
    }
    if (!status &&
        (status = et_comm_start_heartbeat(*out, timeout > 0 ? timeout : PEER_TIMEOUT, error))) {
        et_comm_close(*out);
        *out = NULL;
    }
    return status;
}

void et_comm_close(et_comm *comm)
{
    if (!comm)
        return;
    /* A launcher may end all ranks when one ends, so no rank leaves before rank 0 has printed its
     * messages. */
    et_comm_word mine = et_comm_say(comm, ET_OK, 0), all[LEAVING_MOST];
    if (comm->size > 1 && comm->size <= LEAVING_MOST && !comm->broken.status)
        et_comm_gather(comm, &mine, sizeof mine, all, NULL);
    et_comm_stop_heartbeat(comm);
    et_free(comm->scratch);
    comm->class->close(comm);
}

static int exchange(et_comm *comm, et_comm_chunk send, et_comm_chunk receive, size_t *came,
                    et_error *error)
{
    const et_comm_chunk none = { -1, NULL, 0 };
    int self = et_comm_rank(comm);
    bool sends = send.rank >= 0 && send.rank != self && send.size;
    bool receives = receive.rank >= 0 && receive.rank != self && receive.size;
    if (!sends && !receives)
        return ET_OK;
    et_assert(send.rank < comm->size && receive.rank < comm->size);
    if (!comm->broken.status)
        comm->class->exchange(comm, sends ? send : none, receives ? receive : none, came,
                              &comm->broken);
    return comm->broken.status ? et_fail(error, comm->broken.status, "%s", comm->broken.text)
                               : ET_OK;
}

int et_comm_exchange(et_comm *comm, et_comm_chunk send, et_comm_chunk receive, et_error *error)
{
    return exchange(comm, send, receive, NULL, error);
}

static int use_scratch(et_comm *comm, size_t size, et_error *error)
{
    if (size <= comm->scratch_size)
        return ET_OK;
    unsigned char *bytes = et_realloc(comm->scratch, size, 1);
    if (!bytes)
        return et_alloc_failed(error, size, "what ranks say");
    comm->scratch = bytes;
    comm->scratch_size = size;
    return ET_OK;
}

int et_comm_gather_blocks(et_comm *comm, void *blocks, size_t size, et_error *error)
{
    int rank = et_comm_rank(comm), ranks = et_comm_size(comm), status = ET_OK;
    for (int there = 1; !status && there < ranks; there *= 2) {
        size_t more = (size_t)(there < ranks - there ? there : ranks - there) * size;
        et_comm_chunk send = { (rank - there + ranks) % ranks, blocks, more };
        et_comm_chunk receive = { (rank + there) % ranks, (char *)blocks + (size_t)there * size,
                                  more };
        status = et_comm_exchange(comm, send, receive, error);
    }
    return status;
}

int et_comm_gather(et_comm *comm, const void *mine, size_t size, void *all, et_error *error)
{
    int rank = et_comm_rank(comm), ranks = et_comm_size(comm);
    unsigned char *out = all;
    if (!size)
        return ET_OK;
    if (ranks == 1) {
        memcpy(all, mine, size);
        return ET_OK;
    }
    int status = use_scratch(comm, (size_t)ranks * size, error);
    if (status)
        return status;
    unsigned char *blocks = comm->scratch;
    memcpy(blocks, mine, size);
    status = et_comm_gather_blocks(comm, blocks, size, error);
    for (int i = 0; !status && i < ranks; i++)
        memcpy(out + (size_t)((rank + i) % ranks) * size, blocks + (size_t)i * size, size);
    return status;
}

int et_comm_broadcast(et_comm *comm, int root, void *bytes, size_t size, et_error *error)
{
    const et_comm_chunk none = { -1, NULL, 0 };
    int ranks = et_comm_size(comm), index = (et_comm_rank(comm) - root + ranks) % ranks;
    int status = ET_OK, bit = 1;
    while (bit < ranks && !(index & bit))
        bit *= 2;
    if (index)
        status = et_comm_exchange(
            comm, none, (et_comm_chunk){ (index - bit + root) % ranks, bytes, size }, error);
    for (bit /= 2; !status && bit; bit /= 2)
        if (index + bit < ranks)
            status = et_comm_exchange(
                comm, (et_comm_chunk){ (index + bit + root) % ranks, bytes, size }, none, error);
    return status;
}

/* Of rank 0; of all ranks together. */
#define COLLECTED_MOST ((size_t)1 << 40)

int et_comm_collect(et_comm *comm, int status, const void *mine, size_t size, void **all,
                    size_t *sizes, et_error *error)
{
    int rank = et_comm_rank(comm), ranks = et_comm_size(comm);
    size_t sum = 0, at = 0;
    *all = NULL;
    status = et_comm_agree(comm, status, NULL, error);
    if (!status)
        status = et_comm_gather(comm, &size, sizeof size, sizes, error);
    if (status)
        return status;
    for (int i = 0; !status && i < ranks; sum += sizes[i++])
        if (sizes[i] > COLLECTED_MOST - sum)
            status =
                et_fail(error, ET_EFAIL, "rank %d sends %zu bytes, which is too much", i, sizes[i]);
    unsigned char *bytes = status || !sum ? NULL : et_alloc(sum, 1);
    if (!status && sum && !bytes)
        status = et_alloc_failed(error, sum, "what ranks have");
    status = et_comm_agree(comm, status, NULL, error);
    for (int i = 0; !status && i < ranks; at += sizes[i++]) {
        et_assert(bytes || !sizes[i]);
        if (i == rank && sizes[i])
            memcpy(bytes + at, mine, sizes[i]);
        if (sizes[i])
            status = et_comm_broadcast(comm, i, bytes + at, sizes[i], error);
    }
    if (status)
        et_free(bytes);
    else
        *all = bytes;
    return status;
}

int et_comm_hand_out(et_comm *comm, int status, void **bytes, size_t *size, et_error *error)
{
    const bool other = et_comm_rank(comm) != 0;
    unsigned char *copy = NULL;
    if (other)
        *bytes = NULL;
    status = et_comm_agree(comm, status, NULL, error);
    if (!status)
        status = et_comm_broadcast(comm, 0, size, sizeof *size, error);
    if (!status && *size > COLLECTED_MOST)
        status = et_fail(error, ET_EFAIL, "rank 0 sends %zu bytes, which is too much", *size);
    if (!status && other && *size && !(copy = et_alloc(*size + 1, 1)))
        status = et_alloc_failed(error, *size, "what rank 0 has");
    status = et_comm_agree(comm, status, NULL, error);
    if (!status && *size)
        status = et_comm_broadcast(comm, 0, other ? copy : *bytes, *size, error);
    if (status || !other) {
        et_free(copy);
        return status;
    }
    if (copy)
        copy[*size] = 0;
    *bytes = copy;
    return ET_OK;
}

et_comm_word et_comm_say(const et_comm *comm, int status, unsigned flags)
{
    return (et_comm_word){ status, flags, et_comm_rank(comm), 0 };
}

bool et_comm_is_well(const et_comm_word *word)
{
    return !word->status && !word->flags;
}

int et_comm_say_round(et_comm *comm, int bit, et_comm_word *word, void *out, size_t out_size,
                      void *in, size_t in_size, et_error *error)
{
    const int rank = comm->rank, ranks = comm->size;
    const bool pairs = !(ranks & (ranks - 1));
    int to = pairs ? rank ^ bit : (rank - bit + ranks) % ranks;
    int from = pairs ? rank ^ bit : (rank + bit) % ranks;
    size_t came = 0, size = et_comm_is_well(word) ? out_size : sizeof *word;
    et_comm_word other;
    et_assert(out_size >= sizeof *word && out_size <= ET_COMM_SHORT && in_size <= ET_COMM_SHORT);
    memcpy(out, word, sizeof *word);
    int status = exchange(comm, (et_comm_chunk){ to, out, size },
                          (et_comm_chunk){ from, in, ET_COMM_SHORT }, &came, error);
    if (status)
        return status;
    memcpy(&other, in, sizeof other);
    if (came >= sizeof other) {
        unsigned flags = word->flags | other.flags;
        if (other.status && (!word->status || other.from < word->from))
            *word = other;
        word->flags = flags;
    }
    if (came < sizeof other || (et_comm_is_well(word) && came != in_size))
        return et_fail(error, ET_EFAIL,
                       "rank %d and rank %d are out of step: %zu bytes came instead of %zu", rank,
                       from, came, in_size);
    return ET_OK;
}

int et_comm_settle(et_comm *comm, const et_comm_word *word, unsigned *flags, et_error *error)
{
    if (flags)
        *flags |= word->flags;
    if (!word->status)
        return ET_OK;
    if (word->from < 0 || word->from >= comm->size)
        return et_fail(error, ET_EFAIL, "ranks are out of step: rank %d of %d has failed",
                       word->from, comm->size);
    /* Sends the failed rank's message to the ranks that did not fail. */
    const int from = word->from;
    et_error reported = ET_ERROR_INIT;
    if (comm->rank == from && error) {
        if (from)
            et_fail(&reported, word->status, "on rank %d: %s", from, error->text);
        else
            reported = *error;
    }
    int sent = et_comm_broadcast(comm, from, reported.text, sizeof reported.text, error);
    if (sent)
        return sent;
    reported.text[sizeof reported.text - 1] = 0;
    comm->reported = true;
    return et_fail(error, word->status, "%s", reported.text);
}

int et_comm_agree(et_comm *comm, int status, unsigned *flags, et_error *error)
{
    int ranks = et_comm_size(comm);
    if (ranks == 1 || comm->reported || comm->broken.status)
        return status || ranks == 1 || comm->reported
                   ? status
                   : et_fail(error, comm->broken.status, "%s", comm->broken.text);
    et_comm_word mine = et_comm_say(comm, status, flags ? *flags : 0), out;
    int sent = use_scratch(comm, ET_COMM_SHORT, error);
    for (int bit = 1; !sent && bit < ranks; bit *= 2)
        sent = et_comm_say_round(comm, bit, &mine, &out, sizeof out, comm->scratch, sizeof out,
                                 status ? NULL : error);
    if (sent)
        return status ? status : sent;
    return et_comm_settle(comm, &mine, flags, error);
}

/* If a rank is lost, rank 0 reports it. A rank that has found another silent reports that itself,
 * because it may end rank 0 too. */
bool et_comm_reported_elsewhere(const et_comm *comm)
{
    bool lost = et_comm_rank(comm) && comm->broken.status;
    return et_comm_rank(comm) && (comm->reported || (lost && comm->gone && et_comm_lost(comm) < 0));
}

void et_comm_resume(et_comm *comm)
{
    if (comm)
        comm->reported = false;
}
