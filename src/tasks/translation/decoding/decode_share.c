/* Shared decoding. Sentence i of the list belongs to rank i % ranks. A rank sends its results as
 * bytes, sentence after sentence: the number of results, then the numbers and ids of each. */
#include "tasks/translation/decoding/decode_share.h"

#include <string.h>

#include "base/alloc.h"
#include "base/text/strbuf.h"
#include "engine/comm/collected.h"

typedef struct numbers {
    int32_t count, length;
    float score, log_p;
} numbers;

static void write_results(et_strbuf *to, const et_decoder_sentence *sentence)
{
    int32_t count = sentence->count;
    et_strbuf_append_bytes(to, &count, sizeof count);
    for (int32_t i = 0; i < count; i++) {
        const et_decoder_result *r = &sentence->results[i];
        numbers n = { r->count, r->length, r->score, r->log_p };
        et_strbuf_append_bytes(to, &n, sizeof n);
        et_strbuf_append_bytes(to, r->ids, (size_t)r->count * sizeof *r->ids);
    }
}

static bool read_result(et_collected *from, int rank, et_decoder_result *to, et_arena *arena)
{
    numbers n;
    const char *at = et_collected_next(from, rank, sizeof n);
    if (!at)
        return false;
    memcpy(&n, at, sizeof n);
    if (n.count < 0)
        return false;
    const int32_t *ids = et_collected_copy(from, rank, (size_t)n.count * sizeof *ids, arena);
    *to = (et_decoder_result){ ids, n.count, n.length, n.score, n.log_p };
    return ids != NULL;
}

/* False: not whole, or no memory. */
static bool read_results(et_collected *from, int rank, et_decoder_sentence *sentence,
                         et_arena *arena)
{
    int32_t count;
    const char *at = et_collected_next(from, rank, sizeof count);
    if (!at)
        return false;
    memcpy(&count, at, sizeof count);
    if (count < 1 || (size_t)count > from->size[rank] / sizeof(numbers))
        return false;
    et_decoder_result *results = et_arena_array(arena, (size_t)count, sizeof *results);
    bool whole = results != NULL;
    for (int32_t i = 0; whole && i < count; i++)
        whole = read_result(from, rank, &results[i], arena);
    sentence->count = count;
    sentence->results = results;
    return whole;
}

/* Progress counts the sentences of all ranks; the other ranks are assumed to be as far as this one.
 */
typedef struct progress_of_all {
    et_decoder_progress_fn *tell;
    void *payload;
    int64_t ranks, count;
} progress_of_all;

static bool tell_of_all(void *payload, int64_t done)
{
    const progress_of_all *p = payload;
    const int64_t all = done * p->ranks;
    return p->tell(p->payload, all < p->count ? all : p->count);
}

/* Decodes this rank's sentences in a list of their own, and puts the results in their places. */
static int decode_mine(et_decoder *decoder, et_comm *comm, et_decoder_sentence *sentences,
                       int64_t count, et_arena *arena, et_decoder_progress_fn *progress,
                       void *payload, et_error *error)
{
    int64_t ranks = et_comm_size(comm), rank = et_comm_rank(comm), mine = 0;
    et_decoder_sentence *own = et_arena_array(arena, (size_t)(count / ranks + 1), sizeof *own);
    if (!own)
        return et_alloc_failed(error, (size_t)count * sizeof *own, "sentences");
    for (int64_t i = rank; i < count; i += ranks)
        own[mine++] = sentences[i];
    progress_of_all all = { progress, payload, ranks, count };
    int status =
        mine ? et_decoder_run(decoder, own, mine, arena, progress ? tell_of_all : NULL, &all, error)
             : ET_OK;
    for (int64_t i = 0; !status && i < mine; i++)
        sentences[rank + i * ranks] = own[i];
    return status;
}

typedef struct reading {
    et_decoder_sentence *sentences;
    et_arena *arena;
} reading;

static bool read_sentence(void *payload, int64_t item, et_collected *from, int rank)
{
    const reading *r = payload;
    return read_results(from, rank, &r->sentences[item], r->arena);
}

int et_decoder_run_on_ranks(et_decoder *decoder, et_comm *comm, et_decoder_sentence *sentences,
                            int64_t count, et_arena *arena, et_decoder_progress_fn *progress,
                            void *payload, et_error *error)
{
    et_strbuf mine = ET_STRBUF_INIT;
    int64_t ranks = et_comm_size(comm);
    if (ranks == 1)
        return et_decoder_run(decoder, sentences, count, arena, progress, payload, error);
    int status = decode_mine(decoder, comm, sentences, count, arena, progress, payload, error);
    for (int64_t i = et_comm_rank(comm); !status && i < count; i += ranks)
        write_results(&mine, &sentences[i]);
    status = et_collected_items(comm, "translations", count, status, &mine, read_sentence,
                                &(reading){ sentences, arena }, error);
    et_strbuf_release(&mine);
    return status;
}
