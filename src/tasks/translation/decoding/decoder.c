/* A queue of sentences, and a search for each thread. The decoder decides sizes and distributes
 * work; search.c processes the sentences.
 *
 *     sentences -> queue, longest first -> searches, one per thread -> results in the arena
 *
 * Invariants:
 *
 *   1. Sentences leave the queue longest first, so a seat's caches, made for its first
 *      sentence, are large enough for all later ones.
 *   2. Each search has its own plans, caches and tables. Packed weights are those of the first
 *      search and are only read while threads run.
 *   3. While searches run, the queue's counts, arena and error are used only under the lock.
 *   4. Timing decides which thread takes which sentence, but not the sentence's result: rows do
 *      not depend on others.
 *
 * With the longest first, the threads also end at nearly the same time: the last sentences are
 * short. */
#include "tasks/translation/decoding/decoder.h"

#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/text/strbuf.h"
#include "base/threads/team.h"
#include "tasks/translation/decoding/search.h"
#include "train/ranks/collected.h"

/* Sizes are rounded up to multiples of these numbers, so searches are seldom made again. Lengths
 * are those of one sentence; tokens are those of all sentences in a search. */
#define LENGTH_STEP 32
#define TOKENS_STEP 128

/* device and the pointers in models are borrowed, but their transformers are copies. All searches
 * have the same size, because they are made together. A search is NULL until a run wants as many
 * threads. */
struct et_decoder {
    et_arena arena;           /* of all arrays */
    et_decoder_model *models; /* [1 + others] */
    et_transformer *transformers;
    et_device *device;
    et_device *alone; /* [its threads]: copies of device for threads that each run a single
                         search */
    et_decoder_options options;
    et_search_size size;
    et_search **searches; /* [device's threads]; the first packs weights for all */
    int *over;            /* [threads, sentences] */
};

/* State that the threads of a run share; members that change are protected by the lock. order
 * [left]: sentences of this run, without those that ended before a thread took them; next: the
 * first sentence not taken; `done` of `count` sentences have a result or have ended. searches:
 * searches that share the rest, of which `running` are not over. moved: signals a step of a thread,
 * if the caller's thread waits. error belongs to the caller; only the first failure sets status and
 * error.
 */
typedef struct queue {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    et_decoder_sentence **order; /* longest first */
    int64_t count, left, next, done;
    int searches, running;
    et_arena *arena; /* of results */
    et_decoder_progress_fn *progress;
    void *payload;
    int status; /* not 0: all stop */
    et_error *error;
} queue;

/* ---- making ---- */

/* Last first: the first search owns the packed weights that the others read. */
static void free_searches(et_decoder *decoder)
{
    for (int i = decoder->device->threads; i-- > 0;) {
        et_search_free(decoder->searches[i]);
        decoder->searches[i] = NULL;
    }
}

static void keep_model(et_decoder *decoder, int i, const et_decoder_model *model)
{
    et_assert(!model->int8 || model->act == ET_F32);
    et_assert(model->transformer->target.count == decoder->transformers[0].target.count || !i);
    decoder->transformers[i] = *model->transformer;
    decoder->models[i] = *model;
    decoder->models[i].transformer = &decoder->transformers[i];
}

/* Makes no search yet, because only the sentences determine the sizes. */
int et_decoder_new(et_decoder **out, et_params *params, et_device *device,
                   const et_transformer *model, const et_decoder_options *options, et_error *error)
{
    const et_decoder_model first = { params, model, options->act, options->int8 };
    et_assert(options->sentences >= 1 && options->beam.size >= 1);
    et_assert(!options->forced || (options->beam.size == 1 && options->max_length > 0));
    et_assert(options->other_count >= 0 && options->other_count < ET_DECODER_MODELS_MAX);
    et_assert(!options->lexicon || (!options->forced && !options->other_count));
    et_decoder *decoder = et_alloc_zero(1, sizeof *decoder);
    *out = decoder;
    if (!decoder)
        return et_alloc_failed(error, "a decoder");
    decoder->device = device;
    decoder->options = *options;
    decoder->size.seats = options->sentences;
    const size_t threads = (size_t)device->threads, models = 1 + (size_t)options->other_count;
    et_arena *arena = &decoder->arena;
    decoder->models = et_arena_array(arena, models, sizeof *decoder->models);
    decoder->transformers = et_arena_array(arena, models, sizeof *decoder->transformers);
    decoder->searches = et_arena_array(arena, threads, sizeof *decoder->searches);
    decoder->alone = et_arena_array(arena, threads, sizeof *decoder->alone);
    decoder->over =
        et_arena_array(arena, threads * (size_t)options->sentences, sizeof *decoder->over);
    if (arena->failed) {
        et_decoder_free(decoder);
        *out = NULL;
        return et_alloc_failed(error, "a decoder");
    }
    keep_model(decoder, 0, &first);
    for (int i = 0; i < options->other_count; i++)
        keep_model(decoder, i + 1, &options->others[i]);
    return ET_OK;
}

void et_decoder_free(et_decoder *decoder)
{
    if (!decoder)
        return;
    if (decoder->searches)
        free_searches(decoder);
    et_arena_release(&decoder->arena);
    et_free(decoder);
}

/* Never smaller than before, and in whole steps: grown(70, 64, 32) is 96, grown(50, 64, 32)
 * stays 64. */
static int64_t grown(int64_t wanted, int64_t have, int64_t step)
{
    int64_t size = wanted > have ? wanted : have;
    return (size + step - 1) / step * step;
}

/* Makes the sizes large enough for sentences that come longest first. tokens and positions are for
 * all seats of a search together. The first sentence of a seat is its longest. The `seats`
 * longest sentences of all need at least as much as the sentences of any single search, so their
 * sum is enough for every search. Searches that are too small are freed; prepare makes new ones.
 * The last two conditions are required by et_search_new. */
static int grow(et_decoder *decoder, et_decoder_sentence *const *order, int64_t count,
                et_error *error)
{
    et_search_size *size = &decoder->size, wanted = { 0 };
    for (int64_t i = 0; i < count; i++) {
        const int64_t target = et_search_target(&decoder->options, order[i]);
        const int64_t length = et_decoder_sentence_length(order[i]);
        wanted.target = target > wanted.target ? target : wanted.target;
        wanted.tokens += i < size->seats ? length : 0;
        wanted.positions += i < size->seats ? target : 0;
    }
    wanted.source = et_decoder_sentence_length(order[0]);
    if (wanted.source <= size->source && wanted.target <= size->target &&
        wanted.tokens <= size->tokens && wanted.positions <= size->positions)
        return ET_OK;
    /* Rows and slots are numbered in 32 bits. */
    const int beam = decoder->options.beam.size;
    if (wanted.tokens > INT32_MAX - TOKENS_STEP ||
        wanted.positions > INT32_MAX / beam - TOKENS_STEP)
        return et_fail(
            error, ET_ECONFIG,
            "a batch of %d sentences of up to %lld tokens, with translations of up to "
            "%lld tokens and a beam of %d, is too large; decode fewer sentences together",
            decoder->options.sentences, (long long)wanted.source, (long long)wanted.target, beam);
    free_searches(decoder);
    size->source = grown(wanted.source, size->source, LENGTH_STEP);
    size->target = grown(wanted.target, size->target, LENGTH_STEP);
    size->tokens = grown(wanted.tokens, size->tokens, TOKENS_STEP);
    size->positions = grown(wanted.positions, size->positions, TOKENS_STEP);
    if (size->tokens < size->source)
        size->tokens = size->source;
    if (size->positions < size->target)
        size->positions = size->target;
    return ET_OK;
}

/* The device for thread i. The first search may use all threads. The others have copies with one
 * thread: scratch of their plans is by thread, and a search inside the team starts no further ones.
 * Kernels, products and tracks are the same. */
static et_device *device_of(et_decoder *decoder, int i)
{
    et_device *alone = &decoder->alone[i];
    if (i == 0)
        return decoder->device;
    *alone = *decoder->device;
    alone->threads = 1;
    return alone;
}

/* Makes `count` searches ready, beginning with the first, because the others read its packed
 * weights. Changed weights of the store are packed here, before threads read them. */
static int prepare(et_decoder *decoder, int count, et_error *error)
{
    for (int i = 0; i < count; i++) {
        et_search **search = &decoder->searches[i];
        int status = ET_OK;
        if (!*search)
            status =
                et_search_new(search, decoder->models, device_of(decoder, i), &decoder->options,
                              &decoder->size, i ? decoder->searches[0] : NULL, error);
        if (status)
            return status;
        et_search_refresh(*search);
        et_search_clear(*search);
    }
    return ET_OK;
}

/* ---- running ---- */

/* Takes sentences for free seats; near the end, at most this search's share of the rest. Example:
 * 10 left and 4 searches: at most 3, so that no search continues for long after the others have
 * finished. The taken sentences are adjacent in the order. */
static int take(queue *q, int room, et_decoder_sentence *const **sentences)
{
    pthread_mutex_lock(&q->lock);
    /* Ended sentences are left out; the others keep their order. */
    int64_t kept = q->next;
    for (int64_t i = q->next; i < q->left; i++)
        if (!et_search_is_ended(q->order[i]))
            q->order[kept++] = q->order[i];
    q->done += q->left - kept;
    q->left = kept;
    int64_t left = q->status ? 0 : q->left - q->next;
    int64_t share = (left + q->searches - 1) / q->searches;
    int count = share < room ? (int)share : room;
    *sentences = q->order + q->next;
    q->next += count;
    pthread_mutex_unlock(&q->lock);
    return count;
}

/* Sentences enter when a quarter of the seats is free: the encoder likes many. Example: of 32
 * seats 8 must be free. An empty search asks in any case, or it would end with sentences left. */
static void refill(et_search *search, queue *q)
{
    et_decoder_sentence *const *sentences;
    int seats = et_search_capacity(search), room = seats - et_search_in_use(search);
    if (room < seats && 4 * room < seats)
        return;
    int count = take(q, room, &sentences);
    if (count)
        et_search_enter(search, sentences, count);
}

/* Results and their ids in the arena; false: no memory. */
static bool copy_results(et_arena *arena, et_decoder_sentence *sentence, const et_beam *beam)
{
    const int count = et_beam_results(beam);
    et_decoder_result *results = et_arena_array(arena, count, sizeof *results);
    for (int i = 0; i < count && results; i++) {
        results[i] = et_beam_result(beam, i);
        int32_t *ids = et_arena_array(arena, results[i].count, sizeof *ids);
        if (!ids)
            return false;
        memcpy(ids, results[i].ids, results[i].count * sizeof *ids);
        results[i].ids = ids;
    }
    sentence->count = count;
    sentence->results = results;
    return results != NULL;
}

/* Only the caller's thread reports progress. progress is called without the lock: it may take long,
 * while other threads continue. */
static void tell(queue *q)
{
    if (!q->progress)
        return;
    pthread_mutex_lock(&q->lock);
    int64_t done = q->done;
    int status = q->status;
    pthread_mutex_unlock(&q->lock);
    if (status || !q->progress(q->payload, done))
        return;
    pthread_mutex_lock(&q->lock);
    if (!q->status)
        q->status = et_fail(q->error, ET_EINTERRUPTED, "interrupted after %lld of %lld sentences",
                            (long long)done, (long long)q->count);
    pthread_mutex_unlock(&q->lock);
}

/* Asked once a step, so an interrupt waits for one step of each search at most. */
static bool stopped(queue *q)
{
    pthread_mutex_lock(&q->lock);
    int status = q->status;
    pthread_mutex_unlock(&q->lock);
    return status != ET_OK;
}

/* Runs one search until the queue and its seats are empty, or the run is stopped. tells: it runs
 * on the caller's thread. */
static void run_search(et_search *search, int *over, queue *q, bool tells)
{
    while (!stopped(q)) {
        const int ended = et_search_drop_ended(search);
        if (ended) {
            pthread_mutex_lock(&q->lock);
            q->done += ended;
            pthread_mutex_unlock(&q->lock);
        }
        refill(search, q);
        if (et_search_in_use(search) == 0)
            break;
        int count = et_search_step(search, over);
        for (int i = 0; i < count; i++) {
            /* Results are copied, because the search keeps them only until other sentences enter.
             * After a failure, later results are still copied, and the run ends when all threads
             * have seen the status. done counts only sentences with results. */
            const et_beam *beam;
            et_decoder_sentence *sentence = et_search_leave(search, over[i], &beam);
            pthread_mutex_lock(&q->lock);
            if (!et_beam_results(beam) && !q->status)
                q->status =
                    et_fail(q->error, ET_EDIVERGED,
                            "decoding: the model's logits are not finite: the training diverged, "
                            "or the weights are damaged");
            else if (copy_results(q->arena, sentence, beam))
                q->done++;
            else if (!q->status)
                q->status = et_alloc_failed(q->error, "a translation");
            pthread_mutex_unlock(&q->lock);
        }
        if (tells)
            tell(q);
        else
            pthread_cond_signal(&q->moved);
    }
    pthread_mutex_lock(&q->lock);
    q->running--;
    pthread_cond_signal(&q->moved);
    pthread_mutex_unlock(&q->lock);
}

/* Runs a thread for each search; their kernels start no further threads. omp_set_num_threads only
 * applies inside the region. If OpenMP gives fewer threads, a thread runs several searches one
 * after another. */
static void run_searches(et_decoder *decoder, queue *q)
{
    if (q->searches == 1) {
        run_search(decoder->searches[0], decoder->over, q, true);
        return;
    }
#pragma omp parallel num_threads(q->searches)
    {
        int thread = omp_get_thread_num(), team = omp_get_num_threads();
        omp_set_num_threads(1);
        for (int i = thread; i < q->searches; i += team)
            run_search(decoder->searches[i], decoder->over + i * decoder->options.sentences, q,
                       thread == 0);
        if (thread == 0 && q->progress) {
            /* The caller's thread has no sentence left: it continues to report at the others'
             * steps, and once more when all are done. The end is checked before the last report,
             * because the others may finish during a report. A signal that comes before the wait is
             * followed by the next step's; the last signal is given under the lock. */
            for (bool over = false; !over;) {
                pthread_mutex_lock(&q->lock);
                over = q->running == 0;
                pthread_mutex_unlock(&q->lock);
                tell(q);
                pthread_mutex_lock(&q->lock);
                if (q->running > 0)
                    pthread_cond_wait(&q->moved, &q->lock);
                pthread_mutex_unlock(&q->lock);
            }
        }
    }
}

/* Longest first; ties in the caller's order. Ties decide which sentences are decoded together, but
 * not the results; qsort alone would not define their order. */
static int longer_first(const void *left, const void *right)
{
    const et_decoder_sentence *a = *(et_decoder_sentence *const *)left;
    const et_decoder_sentence *b = *(et_decoder_sentence *const *)right;
    const int64_t length = et_decoder_sentence_length(a), other = et_decoder_sentence_length(b);
    if (length != other)
        return length < other ? 1 : -1;
    return a < b ? -1 : a > b;
}

/* As many searches as threads, but at most one for each sentence. A single search runs outside any
 * parallel region, with all threads in its products. */
static int run_queue(et_decoder *decoder, queue *q, et_error *error)
{
    const int most = et_team_most(decoder->device->threads);
    const int threads = omp_get_max_threads() < most ? omp_get_max_threads() : most;
    q->searches = q->running = q->count < threads ? (int)q->count : threads;
    int status;
    if ((status = grow(decoder, q->order, q->count, error)) ||
        (status = prepare(decoder, q->searches, error)))
        return status;
    run_searches(decoder, q);
    et_assert(q->status || q->done == q->count);
    return q->status;
}

/* The order is of pointers, so results land in the caller's array at their own places. */
int et_decoder_run(et_decoder *decoder, et_decoder_sentence *sentences, int64_t count,
                   et_arena *arena, et_decoder_progress_fn *progress, void *payload,
                   et_error *error)
{
    et_assert(arena && count >= 0 && (sentences || !count));
    queue q = { .lock = PTHREAD_MUTEX_INITIALIZER,
                .moved = PTHREAD_COND_INITIALIZER,
                .count = count,
                .left = count,
                .arena = arena,
                .progress = progress,
                .payload = payload,
                .error = error };
    if (!count)
        return ET_OK;
    if (ET_ALLOC(q.order, count, "decoding", error))
        return ET_ENOMEM;
    for (int64_t i = 0; i < count; i++)
        q.order[i] = &sentences[i];
    qsort(q.order, count, sizeof *q.order, longer_first);
    int status = run_queue(decoder, &q, error);
    pthread_cond_destroy(&q.moved);
    pthread_mutex_destroy(&q.lock);
    et_free(q.order);
    return status;
}

/* Decoding by ranks: sentence i of the list belongs to rank i % ranks. A rank sends its results as
 * bytes, sentence after sentence: the number of results, then the numbers and ids of each. */
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
        et_strbuf_append_bytes(to, r->ids, r->count * sizeof *r->ids);
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
    const int32_t *ids = et_collected_copy(from, rank, n.count * sizeof *ids, arena);
    *to = (et_decoder_result){ ids, n.count, n.length, n.score, n.log_p };
    return ids != NULL;
}

/* Progress counts the sentences of all ranks, as if the other ranks had done as many sentences as
 * this rank. */
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

/* Decodes this rank's sentences in a separate list, and copies the results to their positions. */
static int decode_mine(et_decoder *decoder, et_comm *comm, et_decoder_sentence *sentences,
                       int64_t count, et_arena *arena, et_decoder_progress_fn *progress,
                       void *payload, et_error *error)
{
    int64_t ranks = et_comm_size(comm), rank = et_comm_rank(comm), mine = 0;
    et_decoder_sentence *own = et_arena_array(arena, (size_t)(count / ranks + 1), sizeof *own);
    if (!own)
        return et_alloc_failed(error, "sentences");
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

/* False: not whole, or no memory. */
static bool read_sentence(void *payload, int64_t item, et_collected *from, int rank)
{
    const reading *r = payload;
    et_decoder_sentence *sentence = &r->sentences[item];
    int32_t count;
    const char *at = et_collected_next(from, rank, sizeof count);
    if (!at)
        return false;
    memcpy(&count, at, sizeof count);
    if (count < 1 || (size_t)count > from->size[rank] / sizeof(numbers))
        return false;
    et_decoder_result *results = et_arena_array(r->arena, count, sizeof *results);
    bool whole = results != NULL;
    for (int32_t i = 0; whole && i < count; i++)
        whole = read_result(from, rank, &results[i], r->arena);
    sentence->count = count;
    sentence->results = results;
    return whole;
}

int et_decoder_run_on_ranks(et_decoder *decoder, et_comm *comm, et_decoder_sentence *sentences,
                            int64_t count, et_arena *arena, et_decoder_progress_fn *progress,
                            void *payload, et_error *error)
{
    et_assert(arena && count >= 0 && (sentences || !count));
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

/* They are moved together, and put back from the end, each to its position. */
int et_decoder_run_wanted(et_decoder *decoder, et_comm *comm, et_decoder_sentence *sentences,
                          int64_t count, et_decoder_wants_fn *wants, et_arena *arena,
                          et_decoder_progress_fn *progress, void *payload, et_error *error)
{
    et_decoder_sentence *some = et_arena_array(arena, count, sizeof *some);
    int64_t wanted = 0;
    if (!some)
        return et_alloc_failed(error, "sentences");
    for (int64_t i = 0; i < count; i++)
        if (wants(&sentences[i]))
            some[wanted++] = sentences[i];
    int status =
        et_decoder_run_on_ranks(decoder, comm, some, wanted, arena, progress, payload, error);
    for (int64_t i = count; !status && i-- > 0;)
        if (wants(&sentences[i]))
            sentences[i] = some[--wanted];
    return status;
}
