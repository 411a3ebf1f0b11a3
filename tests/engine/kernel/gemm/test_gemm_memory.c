/* Matrix products allocate nothing during a run, are made once, and report a failed allocation. */
#include "engine/kernel/gemm/gemm.h"

#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "engine/kernel/gemm/products.h"
#include "engine/kernel/malloc_count.h"

static void test_gemm__made_once(void **state)
{
    (void)state;
    et_gemm_shape shape = { .m = 40, .n = 72, .k = 24, .row_tile = 32 };
    const et_gemm *first = product(&shape);
    size_t made = et_gemm_cache_primitives(cache);
    assert_ptr_equal(product(&shape), first);
    shape.m = 104; /* more of the same tiles: no primitive is made */
    assert_ptr_not_equal(product(&shape), first);
    assert_int_equal(et_gemm_cache_primitives(cache), made);
}

/* Every thread of the team runs the whole product, so that each has its copies. */
static void run_on_every_thread(const et_gemm *gemm, const operands *o, const void *b)
{
#pragma omp parallel num_threads(2)
    {
#pragma omp critical(test_gemm_warm)
        et_gemm_run(gemm, o->c, o->a, b, o->bias);
    }
    et_gemm_run(gemm, o->c, o->a, b, o->bias);
}

/* No memory of ours, ever. oneDNN's bookkeeping, a map of arguments per execution, goes through
 * the program's operator new (command/etude/small_new.cpp), which keeps it; its older kernels,
 * named gemm, ask malloc for buffers as well. */
static void test_gemm__asks_no_memory_in_a_run(void **state)
{
    (void)state;
    static const et_gemm_shape shapes[] = {
        { .m = 4096, .n = 384, .k = 128, .pack_b = true, .bias = true },
        { .m = 128, .n = 128, .k = 4096, .transpose_a = true, .accumulate = true },
        { .m = 512, .n = 512, .k = 4096, .transpose_a = true, .accumulate = true },
        { .m = 64, .n = 512, .k = 128, .pack_b = true, .row_tile = 32 },
        { .m = 128, .n = 500, .k = 40, .transpose_b = true },
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int half = 0; half <= 1; half++) {
            et_gemm_shape shape = shapes[i];
            shape.a = shape.b = half ? ET_BF16 : ET_F32;
            operands o = operands_of(&shape);
            const et_gemm *gemm = product(&shape);
            const void *b = pack(&shape, gemm, &o);
            run_on_every_thread(gemm, &o, b);
            size_t ours = et_alloc_count();
            malloc_counts before = malloc_count_so_far();
            et_gemm_run(gemm, o.c, o.a, b, o.bias);
            malloc_counts after = malloc_count_so_far();
            assert_int_equal(et_alloc_count(), ours);
            if (strncmp(et_gemm_implementation(gemm), "brg", 3) == 0)
                assert_int_equal(after.calls, before.calls);
            else
                print_message("%s: %zu mallocs of oneDNN, %zu bytes, in %lld tiles\n",
                              et_gemm_implementation(gemm), after.calls - before.calls,
                              after.bytes - before.bytes, (long long)et_gemm_tiles(gemm));
            release(&o);
        }
    if (!malloc_count_works())
        print_message("mallocs are not counted under a sanitizer\n");
}

/* Allocation number `fails_at` fails, all others succeed. */
static size_t fails_at, allocation;

static void *failing_allocate(void *payload, size_t size, size_t alignment)
{
    (void)payload;
    void *memory = NULL;
    if (allocation++ == fails_at)
        return NULL;
    return posix_memalign(&memory, alignment < 16 ? 16 : alignment, size) ? NULL : memory;
}

static void *failing_reallocate(void *payload, void *memory, size_t size)
{
    (void)payload;
    return allocation++ == fails_at ? NULL : realloc(memory, size);
}

static void plain_release(void *payload, void *memory)
{
    (void)payload;
    free(memory);
}

static int make_some(void)
{
    static const et_gemm_shape shapes[] = {
        { .m = 40, .n = 72, .k = 24, .ldc = 80 },
        { .m = 16, .n = 16, .k = 3000, .transpose_a = true },
        { .m = 33, .n = 150, .k = 24, .pack_b = true, .row_tile = 32, .transpose_b = true },
        { .m = 16, .n = 16, .k = 300, .a = ET_BF16, .b = ET_BF16, .c = ET_BF16 },
    };
    et_error error = ET_ERROR_INIT;
    et_gemm_cache *other;
    int status = et_gemm_cache_open(&other, 2, &error);
    for (size_t i = 0; !status && i < sizeof shapes / sizeof *shapes; i++) {
        et_gemm *gemm;
        status = et_gemm_get(&gemm, other, &shapes[i], &error);
        if (status)
            et_gemm_cache_close(other);
    }
    if (!status)
        et_gemm_cache_close(other);
    if (status)
        assert_non_null(strstr(error.text, "out of memory"));
    return status;
}

static void test_gemm__every_failing_allocation(void **state)
{
    (void)state;
    et_allocator hooks = { .allocate = failing_allocate,
                           .reallocate = failing_reallocate,
                           .release = plain_release };
    et_allocator_set(&hooks);
    int status = ET_ENOMEM;
    for (fails_at = 0; status && fails_at < 1000; fails_at++) {
        allocation = 0;
        status = make_some();
        assert_true(status == ET_OK || status == ET_ENOMEM);
    }
    et_allocator_set(NULL);
    assert_int_equal(status, ET_OK);
    assert_true(fails_at > 10);
}

int main(void)
{
    omp_set_dynamic(0);
    omp_set_num_threads(2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm__made_once),
        cmocka_unit_test(test_gemm__asks_no_memory_in_a_run),
        cmocka_unit_test(test_gemm__every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, open_cache, close_cache);
}
