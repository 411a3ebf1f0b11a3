/* An allocator whose n-th call and all later calls fail. It counts memory that is not freed.
 *
 *     scarce_begin(n);
 *     status = thing(...);
 *     scarce_end();          fails the case on a leak
 *
 * scarce_failed tells whether call n was reached; a loop over n ends if it was not. */
#ifndef ETUDE_TESTS_BASE_SCARCE_H
#define ETUDE_TESTS_BASE_SCARCE_H

#include <stdbool.h>
#include <stdlib.h>

#include <etude/allocator.h>

static long scarce_left, scarce_live;
static bool scarce_failed;

static inline bool scarce_refuses(void)
{
    if (scarce_left-- > 0)
        return false;
    scarce_failed = true;
    return true;
}

static inline void *scarce_allocate(void *payload, size_t size, size_t alignment)
{
    (void)payload;
    void *memory = NULL;
    if (scarce_refuses() || posix_memalign(&memory, alignment < 16 ? 16 : alignment, size))
        return NULL;
    scarce_live++;
    return memory;
}

static inline void *scarce_reallocate(void *payload, void *memory, size_t size)
{
    (void)payload;
    void *larger = scarce_refuses() ? NULL : realloc(memory, size);
    scarce_live += larger && !memory;
    return larger;
}

static inline void scarce_release(void *payload, void *memory)
{
    (void)payload;
    scarce_live -= memory != NULL;
    free(memory);
}

/* The first calls succeed, all after them fail. */
static inline void scarce_begin(long calls)
{
    static const et_allocator hooks = { NULL, scarce_allocate, scarce_reallocate, scarce_release };
    scarce_left = calls;
    scarce_live = 0;
    scarce_failed = false;
    et_allocator_set(&hooks);
}

static inline void scarce_end(void)
{
    et_allocator_set(NULL);
    assert_int_equal(scarce_live, 0);
}

#endif
