#include "base/threads/thread.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/main.h"
#include "base/scarce.h"
#include "sanitized.h"
#include "skip.h"

static int numbers[1000];

struct work {
    et_queue *queue;
    int count;  /* items to put */
    int status; /* to finish with */
    int put;    /* items taken by the queue */
};

static void *produce(void *payload)
{
    struct work *work = payload;
    while (work->put < work->count && et_queue_put(work->queue, &numbers[work->put]))
        work->put++;
    et_error error = ET_ERROR_INIT;
    et_fail(&error, work->status, "line 7 is wrong");
    et_queue_finish(work->queue, work->status, work->status ? &error : NULL);
    return NULL;
}

static pthread_t start(struct work *work, size_t capacity)
{
    pthread_t thread;
    assert_int_equal(et_queue_open(&work->queue, capacity, NULL), ET_OK);
    assert_int_equal(et_thread_start(&thread, produce, work, NULL), ET_OK);
    return thread;
}

/* All items in order, then the end, as often as one asks. */
static void test_queue__end(void **state)
{
    (void)state;
    static const size_t capacities[] = { 1, 3, 1000, 5000 };
    for (size_t i = 0; i < COUNT(capacities); i++) {
        struct work work = { .count = COUNT(numbers) };
        pthread_t thread = start(&work, capacities[i]);
        void *item;
        for (size_t j = 0; j < COUNT(numbers); j++) {
            assert_int_equal(et_queue_take(work.queue, &item, NULL), ET_OK);
            assert_ptr_equal(item, &numbers[j]);
        }
        for (int j = 0; j < 2; j++) {
            assert_int_equal(et_queue_take(work.queue, &item, NULL), ET_OK);
            assert_null(item);
        }
        et_thread_join(thread);
        et_queue_close(work.queue);
    }
}

/* A child of fork() uses a queue whose writer waits for room. */
static int use_in_child(et_queue *queue)
{
    et_error error = ET_ERROR_INIT;
    void *item;
    alarm(20);
    if (et_queue_take(queue, &item, &error) != ET_EUSAGE || item || !strstr(error.text, "fork()"))
        return 1;
    if (et_queue_put(queue, &numbers[0]))
        return 2;
    et_queue_finish(queue, ET_OK, NULL);
    et_queue_stop(queue);
    et_queue_close(queue);
    return 0;
}

static void test_queue__forked(void **state)
{
    (void)state;
    struct work work = { .count = COUNT(numbers) };
    pthread_t thread = start(&work, 2);
    void *item;
    int status;
    assert_int_equal(et_queue_take(work.queue, &item, NULL), ET_OK);
    usleep(50000); /* until the writer waits */
    pid_t child = fork();
    if (child == 0)
        _exit(use_in_child(work.queue));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    et_queue_stop(work.queue);
    et_thread_join(thread);
    et_queue_close(work.queue);
}

/* The error comes after the items before it. */
static void test_queue__error(void **state)
{
    (void)state;
    struct work work = { .count = 2, .status = ET_EDATA };
    pthread_t thread = start(&work, 8);
    et_error error = ET_ERROR_INIT;
    void *item;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(et_queue_take(work.queue, &item, &error), ET_OK);
        assert_ptr_equal(item, &numbers[i]);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(et_queue_take(work.queue, &item, &error), ET_EDATA);
        assert_null(item);
        assert_string_equal(error.text, "line 7 is wrong");
    }
    assert_int_equal(et_queue_take(work.queue, &item, NULL), ET_EDATA);
    et_thread_join(thread);
    et_queue_close(work.queue);
}

static void test_queue__error_without_text(void **state)
{
    (void)state;
    et_queue *queue;
    void *item;
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_queue_open(&queue, 1, NULL), ET_OK);
    et_queue_finish(queue, ET_ENOMEM, NULL);
    assert_int_equal(et_queue_take(queue, &item, &error), ET_ENOMEM);
    assert_string_equal(error.text, "out of memory");
    et_queue_close(queue);
}

/* A stop releases a writer that waits for room; the remaining items can still be taken. */
static void test_queue__stop(void **state)
{
    (void)state;
    struct work work = { .count = COUNT(numbers) };
    pthread_t thread = start(&work, 2);
    void *item;
    assert_int_equal(et_queue_take(work.queue, &item, NULL), ET_OK);
    et_queue_stop(work.queue);
    et_thread_join(thread);
    assert_true(work.put < work.count);
    for (int i = 1; i < work.put; i++) {
        assert_int_equal(et_queue_take(work.queue, &item, NULL), ET_OK);
        assert_ptr_equal(item, &numbers[i]);
    }
    assert_int_equal(et_queue_take(work.queue, &item, NULL), ET_OK);
    assert_null(item);
    et_queue_close(work.queue);
}

/* A stopped queue never makes the reader wait, even for a writer that never finishes. */
static void test_queue__stop_then_take(void **state)
{
    (void)state;
    et_queue *queue;
    void *item = &queue;
    assert_int_equal(et_queue_open(&queue, 1, NULL), ET_OK);
    et_queue_stop(queue);
    assert_false(et_queue_put(queue, numbers));
    assert_int_equal(et_queue_take(queue, &item, NULL), ET_OK);
    assert_null(item);
    et_queue_close(queue);
    et_queue_close(NULL);
}

static void *note_mask(void *payload)
{
    pthread_sigmask(SIG_BLOCK, NULL, payload);
    return NULL;
}

static void test_thread__blocks_signals(void **state)
{
    (void)state;
    sigset_t before, inside, after;
    pthread_t thread;
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    assert_int_equal(et_thread_start(&thread, note_mask, &inside, NULL), ET_OK);
    et_thread_join(thread);
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1 };
    for (size_t i = 0; i < COUNT(signals); i++) {
        assert_true(sigismember(&inside, signals[i]));
        assert_int_equal(sigismember(&before, signals[i]), sigismember(&after, signals[i]));
    }
}

static void test_queue__out_of_memory(void **state)
{
    (void)state;
    et_queue *queue;
    et_error error = ET_ERROR_INIT;
    scarce_begin(0);
    assert_int_equal(et_queue_open(&queue, 4, &error), ET_ENOMEM);
    scarce_end();
    assert_int_equal(et_queue_open(&queue, SIZE_MAX / 4, &error), ET_ENOMEM);
    assert_contains(error.text, "a queue");
}

/* Runs in a separate process, whose address space is limited to its current size, so that no
 * thread's stack can be allocated. The limit ends with the process. Emulators ignore it: 77. */
static int check_without_addresses(void)
{
    et_error error = ET_ERROR_INIT;
    struct rlimit limit = { 1, 1 };
    setrlimit(RLIMIT_AS, &limit);
    if (mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
        return 77;
    int status = et_threads_check(100, 0, &error);
    return status == ET_ENOMEM && strstr(error.text, "cannot start a thread") ? 0 : 1;
}

/* The remaining memory is enough for a small stack, not for a large one. */
static int check_sizes(void)
{
    et_error error = ET_ERROR_INIT;
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%lu", &pages) != 1)
        return 77;
    fclose(file);
    struct rlimit limit = { pages * (rlim_t)sysconf(_SC_PAGESIZE) + (48 << 20), RLIM_INFINITY };
    setrlimit(RLIMIT_AS, &limit);
    if (mmap(NULL, 64 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
        return 77;
    if (et_threads_check(1, (size_t)64 << 20, &error) != ET_ENOMEM ||
        !strstr(error.text, "stack of 67108864 bytes"))
        return 1;
    return et_threads_check(1, (size_t)1 << 20, &error) ? 2 : 0;
}

static void check_in_child(int (*check)(void))
{
    pid_t child = fork();
    if (child == 0)
        _exit(check());
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        test_skip("the limit of addresses (RLIMIT_AS) is not kept");
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_thread__check(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_threads_check(0, 0, &error), ET_OK);
    assert_int_equal(et_threads_check(5, 0, &error), ET_OK);
    assert_true(et_thread_size() >= 16384);
    if (!SANITIZED) {
        check_in_child(check_without_addresses);
        check_in_child(check_sizes);
    }
}

static void *check_stack(void *payload)
{
    *(int *)payload = et_thread_check_stack(NULL);
    return NULL;
}

/* Checks the stack size that the user's thread was given. */
static void test_thread__checks_stacks(void **state)
{
    (void)state;
    static const struct {
        size_t bytes;
        int status;
    } cases[] = { { 32 << 10, ET_EUSAGE }, { 128 << 10, ET_EUSAGE }, { 256 << 10, ET_OK } };
    for (size_t i = 0; i < COUNT(cases); i++) {
        pthread_t thread;
        pthread_attr_t attributes;
        int status = -1;
        if (cases[i].bytes < (size_t)PTHREAD_STACK_MIN) /* 128 KiB on aarch64 */
            continue;
        pthread_attr_init(&attributes);
        assert_int_equal(pthread_attr_setstacksize(&attributes, cases[i].bytes), 0);
        assert_int_equal(pthread_create(&thread, &attributes, check_stack, &status), 0);
        pthread_join(thread, NULL);
        pthread_attr_destroy(&attributes);
        assert_int_equal(status, cases[i].status);
    }
}

/* The library's own threads have enough stack under any limit. */
static void test_thread__own_stack(void **state)
{
    (void)state;
    pthread_t thread;
    pthread_attr_t before, small;
    int status = -1;
    assert_int_equal(pthread_getattr_default_np(&before), 0);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    assert_int_equal(pthread_setattr_default_np(&small), 0);
    assert_int_equal(et_thread_start(&thread, check_stack, &status, NULL), ET_OK);
    et_thread_join(thread);
    assert_int_equal(pthread_setattr_default_np(&before), 0);
    assert_int_equal(status, ET_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queue__end),
        cmocka_unit_test(test_queue__forked),
        cmocka_unit_test(test_queue__error),
        cmocka_unit_test(test_queue__error_without_text),
        cmocka_unit_test(test_queue__stop),
        cmocka_unit_test(test_queue__stop_then_take),
        cmocka_unit_test(test_thread__blocks_signals),
        cmocka_unit_test(test_thread__check),
        cmocka_unit_test(test_queue__out_of_memory),
        cmocka_unit_test(test_thread__checks_stacks),
        cmocka_unit_test(test_thread__own_stack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
