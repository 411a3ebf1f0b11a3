/* The command's operator new, linked into this program and called by the names that a C++
 * compiler gives it. */
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "engine/kernel/malloc_count.h"
#include "skip.h"

/* new, delete, sized delete, new[], delete[], nothrow new, aligned new and delete. */
extern void *_Znwm(size_t size);
extern void _ZdlPv(void *memory);
extern void _ZdlPvm(void *memory, size_t size);
extern void *_Znam(size_t size);
extern void _ZdaPv(void *memory);
extern const char _ZSt7nothrow;
extern void *_ZnwmRKSt9nothrow_t(size_t size, const void *nothrow);
extern void *_ZnwmSt11align_val_t(size_t size, size_t alignment);
extern void _ZdlPvSt11align_val_t(void *memory, size_t alignment);

enum { KEPT = 64, LARGEST = 128 };

/* Sanitizers have their own malloc; memcheck, which is loaded first, also has its own new. */
static bool own_new(void)
{
    const char *loaded = getenv("LD_PRELOAD");
    return malloc_count_works() && !(loaded && strstr(loaded, "vgpreload_memcheck"));
}

static size_t mallocs(void)
{
    return malloc_count_so_far().calls;
}

/* A deleted block is reused for any size of its class, by every form of new. */
static void test_small_new__comes_back(void **state)
{
    (void)state;
    if (!own_new())
        test_skip("malloc is a sanitizer's");
    static const size_t sizes[] = { 0, 1, 15, 16, 17, 40, 104, 113, LARGEST };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *first = _Znwm(sizes[i]);
        memset(first, 1, sizes[i]);
        _ZdlPvm(first, sizes[i]);
        size_t before = mallocs();
        void *second = _Znam((sizes[i] + 15) / 16 * 16);
        assert_ptr_equal(second, first);
        assert_int_equal((uintptr_t)second % 16, 0);
        _ZdaPv(second);
        void *third = _ZnwmRKSt9nothrow_t(sizes[i], &_ZSt7nothrow);
        assert_ptr_equal(third, first);
        _ZdlPv(third);
        assert_int_equal(mallocs(), before);
    }
    _ZdlPv(NULL);
}

/* Two that live at the same time are two; large ones are not kept. */
static void test_small_new__limits(void **state)
{
    (void)state;
    static void *blocks[3 * KEPT];
    if (!own_new())
        test_skip("malloc is a sanitizer's");
    for (int i = 0; i < 3 * KEPT; i++) {
        blocks[i] = _Znwm(48);
        memset(blocks[i], i, 48);
    }
    for (int i = 0; i < 3 * KEPT; i++) {
        for (int k = 0; k < 48; k++)
            assert_int_equal(((unsigned char *)blocks[i])[k], i);
        _ZdlPv(blocks[i]);
    }
    size_t before = mallocs();
    for (int i = 0; i < KEPT + 5; i++)
        blocks[i] = _Znwm(48);
    assert_int_equal(mallocs() - before, 5);
    for (int i = 0; i < KEPT + 5; i++)
        _ZdlPv(blocks[i]);
    before = mallocs();
    for (int i = 0; i < 10; i++)
        _ZdlPv(_Znwm(LARGEST + 1));
    assert_int_equal(mallocs() - before, 10);
}

static void test_small_new__aligned_and_refused(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        void *aligned = _ZnwmSt11align_val_t(64, 64);
        assert_int_equal((uintptr_t)aligned % 64, 0);
        memset(aligned, i, 64);
        _ZdlPvSt11align_val_t(aligned, 64);
    }
    if (!malloc_count_works())
        test_skip("a sanitizer ends the program for so large a block");
    volatile size_t none_has = SIZE_MAX / 2;
    assert_null(_ZnwmRKSt9nothrow_t(none_has, &_ZSt7nothrow));
}

static void *fill_shelf(void *payload)
{
    void *blocks[KEPT];
    for (size_t size = 16; size <= LARGEST; size += 16) {
        for (int i = 0; i < KEPT; i++)
            blocks[i] = _Znwm(size);
        for (int i = 0; i < KEPT; i++)
            _ZdlPv(blocks[i]);
    }
    return payload;
}

/* The blocks that a thread keeps, up to 36 KB, are freed with it. */
static void test_small_new__thread_ends(void **state)
{
    (void)state;
    if (!own_new())
        test_skip("malloc is a sanitizer's");
    mallopt(M_ARENA_MAX, 1); /* mallinfo2 only counts the first arena */
    size_t before = 0;
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, fill_shelf, NULL), 0);
        pthread_join(thread, NULL);
        size_t used = mallinfo2().uordblks;
        if (i)
            assert_true(used < before + 4096);
        before = used;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_new__comes_back),
        cmocka_unit_test(test_small_new__limits),
        cmocka_unit_test(test_small_new__aligned_and_refused),
        cmocka_unit_test(test_small_new__thread_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
