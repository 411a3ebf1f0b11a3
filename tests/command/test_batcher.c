/* The queue of `serve`, with a service that records which requests came together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "command/web/batcher.h"

/* ---- a service ---- */

/* What happens to the service of a test: one at a time. */
static struct {
    sem_t go, done, read;
    _Atomic bool held;      /* a batch waits for go */
    _Atomic bool held_read; /* the reading of a job waits for `read` */
    pthread_t reader;       /* of the last job */
    size_t length[8];       /* of the jobs, in the order in which they are read */
    _Atomic int reads;
    _Atomic int opened, closed, told;
    int batches;
    struct {
        int64_t items;
        size_t requests;
        uint64_t group;
    } batch[1000];
} seen;

static const et_service_class counting;

static int open_counting(et_service **out, const char *model_dir, const et_service_options *options,
                         et_error *error)
{
    static et_service service;
    (void)options;
    if (!*model_dir)
        return et_fail(error, ET_ENOTFOUND, "no model");
    service.ET_CLASS = &counting;
    seen.opened++;
    *out = &service;
    return ET_OK;
}

static void close_counting(et_service *self)
{
    seen.closed += self != NULL;
}

static int read_counting(et_service *self, et_service_request *request, et_error *error)
{
    (void)self;
    (void)request;
    (void)error;
    return ET_OK;
}

static void answer_counting(et_service *self, et_service_request *const *requests, size_t count)
{
    (void)self;
    if (seen.held)
        sem_wait(&seen.go);
    if (seen.batches < 1000) {
        seen.batch[seen.batches].requests = count;
        seen.batch[seen.batches].group = requests[0]->group;
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(requests[i]->group, requests[0]->group);
            seen.batch[seen.batches].items += requests[i]->items;
        }
        seen.batches++;
    }
    for (size_t i = 0; i < count; i++) {
        requests[i]->status = requests[i]->items == 13 ? ET_EDATA : ET_OK;
        ((et_job *)(void *)requests[i])->body = (char *)"answered";
    }
}

static const et_service_class counting = { .name = "count",
                                           .items = "items",
                                           .example = "",
                                           .open = open_counting,
                                           .close = close_counting,
                                           .read = read_counting,
                                           .answer = answer_counting };

/* A job without items is answered by that. */
static bool read_job(void *payload, et_job *job)
{
    (void)payload;
    const int number = seen.reads++;
    if (seen.held_read)
        sem_wait(&seen.read);
    seen.reader = pthread_self();
    if (number < 8)
        seen.length[number] = job->request.length;
    return job->request.items > 0;
}

static void tell(void *payload)
{
    (void)payload;
    seen.told++;
    sem_post(&seen.done);
}

static et_batcher *start(int64_t most, int64_t queue, bool held)
{
    et_batcher *b;
    const et_batcher_options options = { .class = &counting,
                                         .model_dir = "m",
                                         .service = { .items_max = most },
                                         .queue = queue,
                                         .patience = 1000,
                                         .read = read_job,
                                         .done = tell };
    seen.batches = 0;
    seen.reads = 0;
    seen.held = held;
    seen.held_read = false;
    for (int i = 0; i < 1000; i++)
        seen.batch[i].items = 0;
    while (!sem_trywait(&seen.go) || !sem_trywait(&seen.done))
        continue;
    assert_int_equal(et_batcher_open(&b, &options, NULL), 0);
    return b;
}

static et_job *new_job(int64_t items, uint64_t group)
{
    et_job *job = et_alloc_zero(1, sizeof *job);
    assert_non_null(job);
    job->request.items = items;
    job->request.group = group;
    return job;
}

/* Waits for a job; what became of it. */
static int take(et_batcher *b)
{
    et_job *job;
    while (!(job = et_batcher_take(b)))
        sem_wait(&seen.done);
    int status = job->request.status;
    et_free(job);
    return status;
}

/* Until a batch is being answered. */
static void wait_for_batch(et_batcher *b)
{
    while (!et_batcher_count(b).answering)
        usleep(200);
}

/* Until all jobs are read. */
static void wait_for_reads(et_batcher *b)
{
    while (et_batcher_count(b).unread)
        usleep(200);
}

/* ---- cases ---- */

static void test_batcher__together(void **state)
{
    (void)state;
    et_batcher *b = start(10, 100, true);
    assert_true(et_batcher_put(b, new_job(1, 0)));
    wait_for_batch(b);
    /* After it: four of one group, of which three fit, and one of another. */
    for (int i = 0; i < 4; i++)
        assert_true(et_batcher_put(b, new_job(3, 0)));
    assert_true(et_batcher_put(b, new_job(2, 1)));
    assert_int_equal(et_batcher_count(b).waiting, 14);
    wait_for_reads(b);
    assert_int_equal(et_batcher_count(b).waiting, 14);
    seen.held = false;
    sem_post(&seen.go);
    for (int i = 0; i < 6; i++)
        assert_int_equal(take(b), ET_OK);
    assert_int_equal(seen.batches, 4);
    assert_int_equal(seen.batch[1].items, 9);
    assert_int_equal(seen.batch[1].requests, 3);
    assert_int_equal(seen.batch[2].items, 3);
    assert_int_equal(seen.batch[3].group, 1);
    const et_batcher_counts counts = et_batcher_count(b);
    assert_int_equal(counts.batches, 4);
    assert_int_equal(counts.requests, 6);
    assert_int_equal(counts.items, 15);
    assert_int_equal(counts.waiting + counts.answering, 0);
    et_batcher_close(b);
    assert_int_equal(seen.opened, seen.closed);
}

static void test_batcher__full(void **state)
{
    (void)state;
    et_batcher *b = start(10, 10, true);
    assert_true(et_batcher_put(b, new_job(10, 0)));
    wait_for_batch(b);
    /* Requests that are being answered do not count in the queue. */
    assert_true(et_batcher_put(b, new_job(7, 0)));
    et_job *more = new_job(4, 0);
    assert_false(et_batcher_put(b, more));
    more->request.items = 3;
    assert_true(et_batcher_put(b, more));
    seen.held = false;
    sem_post(&seen.go);
    for (int i = 0; i < 3; i++)
        take(b);
    et_batcher_close(b);
}

static void test_batcher__withdrawn(void **state)
{
    (void)state;
    et_batcher *b = start(10, 100, true);
    et_job *first = new_job(1, 0), *second = new_job(2, 0), *third = new_job(3, 0);
    assert_true(et_batcher_put(b, first));
    wait_for_batch(b);
    assert_true(et_batcher_put(b, second));
    assert_true(et_batcher_put(b, third));
    wait_for_reads(b);
    assert_false(first->ended);
    assert_false(et_batcher_withdraw(b, first));
    assert_true(first->ended);
    assert_false(second->ended || third->ended);
    assert_true(et_batcher_withdraw(b, third));
    assert_int_equal(et_batcher_count(b).waiting, 2);
    /* The queue's end has not moved. */
    assert_true(et_batcher_put(b, third));
    wait_for_reads(b);
    assert_true(et_batcher_withdraw(b, second));
    et_free(second);
    seen.held = false;
    sem_post(&seen.go);
    take(b);
    take(b);
    assert_int_equal(seen.batch[1].items, 3);
    et_batcher_close(b);
}

static void test_batcher__failures_stay_their_own(void **state)
{
    (void)state;
    et_batcher *b = start(100, 100, true);
    assert_true(et_batcher_put(b, new_job(1, 0)));
    wait_for_batch(b);
    assert_true(et_batcher_put(b, new_job(13, 0)));
    assert_true(et_batcher_put(b, new_job(1, 0)));
    seen.held = false;
    sem_post(&seen.go);
    assert_int_equal(take(b), ET_OK);
    assert_int_equal(take(b), ET_EDATA);
    assert_int_equal(take(b), ET_OK);
    et_batcher_close(b);
}

static void test_batcher__no_service(void **state)
{
    const et_batcher_options options = {
        .class = &counting, .model_dir = "", .queue = 1, .read = read_job, .done = tell
    };
    et_batcher *b;
    et_error error = ET_ERROR_INIT;
    (void)state;
    assert_int_equal(et_batcher_open(&b, &options, &error), ET_ENOTFOUND);
    assert_string_equal(error.text, "no model");
    assert_null(b);
}

/* Another thread than the one that puts jobs reads them, the smallest first; that one goes on. */
static void test_batcher__reading(void **state)
{
    static const size_t lengths[] = { 5, 900, 7, 30, 7 }, order[] = { 5, 7, 7, 30, 900 };
    (void)state;
    et_batcher *b = start(10, 6, false);
    seen.held_read = true;
    for (int i = 0; i < 5; i++) {
        et_job *job = new_job(0, 0);
        job->request.length = lengths[i];
        assert_true(et_batcher_put(b, job));
        while (!i && !seen.reads)
            usleep(200);
    }
    /* None is read. The queue counts each as an item. */
    assert_int_equal(et_batcher_count(b).unread, 5);
    et_job *more = new_job(2, 0);
    assert_false(et_batcher_put(b, more));
    more->request.items = 0;
    more->request.length = 1;
    assert_true(et_batcher_put(b, more));
    assert_true(et_batcher_withdraw(b, more));
    et_free(more);
    for (int i = 0; i < 5; i++) {
        sem_post(&seen.read);
        assert_int_equal(take(b), ET_OK);
    }
    assert_false(pthread_equal(seen.reader, pthread_self()));
    assert_memory_equal(seen.length, order, sizeof order);
    assert_int_equal(et_batcher_count(b).batches, 0);
    /* A job that ends while it is read is not answered. */
    et_job *late = new_job(1, 0);
    assert_true(et_batcher_put(b, late));
    while (seen.reads < 6)
        usleep(200);
    assert_false(et_batcher_withdraw(b, late));
    sem_post(&seen.read);
    assert_int_equal(take(b), ET_OK);
    assert_int_equal(et_batcher_count(b).batches, 0);
    et_batcher_close(b);
}

/* A job whose items are known only when it is read. */
static bool read_as_nine(void *payload, et_job *job)
{
    (void)payload;
    job->request.items = 9;
    return true;
}

static void test_batcher__full_when_read(void **state)
{
    const et_batcher_options options = { .class = &counting,
                                         .model_dir = "m",
                                         .service = { .items_max = 10 },
                                         .queue = 10,
                                         .patience = 1000,
                                         .read = read_as_nine,
                                         .done = tell };
    et_batcher *b;
    et_job *job;
    (void)state;
    et_batcher_close(start(10, 10, true)); /* as all others begin */
    assert_int_equal(et_batcher_open(&b, &options, NULL), 0);
    seen.held = true;
    assert_true(et_batcher_put(b, new_job(0, 0)));
    wait_for_batch(b);
    assert_true(et_batcher_put(b, new_job(0, 0)));
    wait_for_reads(b);
    assert_true(et_batcher_put(b, new_job(0, 0)));
    while (!(job = et_batcher_take(b)))
        sem_wait(&seen.done);
    assert_true(job->full);
    et_free(job);
    seen.held = false;
    sem_post(&seen.go);
    take(b);
    take(b);
    assert_int_equal(et_batcher_count(b).items, 18);
    et_batcher_close(b);
}

/* If a request may wait a thousandth of a second, batches stay small. */
static void test_batcher__patience(void **state)
{
    const et_batcher_options options = { .class = &counting,
                                         .model_dir = "m",
                                         .service = { .items_max = 100000 },
                                         .queue = 1000000,
                                         .patience = 1e-9,
                                         .read = read_job,
                                         .done = tell };
    et_batcher *b;
    (void)state;
    seen.batches = 0;
    seen.held = false;
    assert_int_equal(et_batcher_open(&b, &options, NULL), 0);
    assert_true(et_batcher_put(b, new_job(1, 0)));
    take(b);
    seen.held = true;
    assert_true(et_batcher_put(b, new_job(1, 0)));
    wait_for_batch(b);
    for (int i = 0; i < 20; i++)
        assert_true(et_batcher_put(b, new_job(5, 0)));
    wait_for_reads(b);
    seen.held = false;
    sem_post(&seen.go);
    for (int i = 0; i < 21; i++)
        take(b);
    assert_int_equal(et_batcher_count(b).batches, 22);
    et_batcher_close(b);
}

/* Many, some withdrawn, for a while: each comes back once. */
static void test_batcher__many(void **state)
{
    enum { ROUNDS = 3000 };
    et_job *recent[8] = { NULL };
    int out = 0, back = 0, withdrawn = 0, skipped = 0;
    (void)state;
    et_batcher *b = start(64, 256, false);
    srand(7);
    for (int i = 0; i < ROUNDS; i++) {
        et_job *job = new_job(1 + rand() % 12, (uint64_t)(rand() % 3));
        if (et_batcher_put(b, job)) {
            recent[i % 8] = job;
            out++;
        } else {
            et_free(job);
        }
        et_job *other = recent[rand() % 8];
        if (other && rand() % 4 == 0 && et_batcher_withdraw(b, other)) {
            for (int k = 0; k < 8; k++)
                recent[k] = recent[k] == other ? NULL : recent[k];
            et_free(other);
            withdrawn++;
        }
        for (et_job *done; (done = et_batcher_take(b)) != NULL; back++) {
            for (int k = 0; k < 8; k++)
                recent[k] = recent[k] == done ? NULL : recent[k];
            skipped += !done->body;
            et_free(done);
        }
        if (i % 50 == 0)
            usleep(500);
    }
    for (; back + withdrawn < out; back++) {
        et_job *done;
        while (!(done = et_batcher_take(b)))
            sem_wait(&seen.done);
        skipped += !done->body;
        et_free(done);
    }
    assert_null(et_batcher_take(b));
    assert_int_equal(et_batcher_count(b).requests, back - skipped);
    assert_true(withdrawn > 0);
    et_batcher_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batcher__together),
        cmocka_unit_test(test_batcher__full),
        cmocka_unit_test(test_batcher__withdrawn),
        cmocka_unit_test(test_batcher__failures_stay_their_own),
        cmocka_unit_test(test_batcher__reading),
        cmocka_unit_test(test_batcher__full_when_read),
        cmocka_unit_test(test_batcher__no_service),
        cmocka_unit_test(test_batcher__patience),
        cmocka_unit_test(test_batcher__many),
    };
    sem_init(&seen.go, 0, 0);
    sem_init(&seen.done, 0, 0);
    sem_init(&seen.read, 0, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
