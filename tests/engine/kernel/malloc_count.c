#include "engine/kernel/malloc_count.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "sanitized.h"

#ifdef __GLIBC__
#define COUNTING !SANITIZED
#else
#define COUNTING 0
#endif

static atomic_size_t calls, bytes;

bool malloc_count_works(void)
{
    return COUNTING;
}

malloc_counts malloc_count_so_far(void)
{
    return (malloc_counts){ atomic_load(&calls), atomic_load(&bytes) };
}

#if COUNTING
/* The names under which glibc's own functions stay reachable. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

/* Our default, hidden symbols, would only be seen by this program and not by libraries. */
#define EXPORTED __attribute__((visibility("default")))

static void count(size_t size)
{
    atomic_fetch_add(&calls, 1);
    atomic_fetch_add(&bytes, size);
}

EXPORTED void *malloc(size_t size)
{
    count(size);
    return __libc_malloc(size);
}

EXPORTED void *calloc(size_t number, size_t size)
{
    count(number * size);
    return __libc_calloc(number, size);
}

EXPORTED void *realloc(void *memory, size_t size)
{
    count(size);
    return __libc_realloc(memory, size);
}

EXPORTED void *aligned_alloc(size_t alignment, size_t size)
{
    count(size);
    return __libc_memalign(alignment, size);
}

EXPORTED int posix_memalign(void **out, size_t alignment, size_t size)
{
    count(size);
    *out = __libc_memalign(alignment, size);
    return *out ? 0 : ENOMEM;
}
#endif
