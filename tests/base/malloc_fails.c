#include "base/malloc_fails.h"

#include <errno.h>
#include <stdlib.h>

#include "sanitized.h"

#ifdef __GLIBC__
#define FAILING !SANITIZED
#else
#define FAILING 0
#endif

static _Thread_local long left; /* calls until one fails; 0: none does */
static _Thread_local bool failed;
static atomic_long *shared; /* of all threads; NULL: they are not counted */

bool malloc_fails_works(void)
{
    return FAILING;
}

void malloc_fails_begin(long n)
{
    failed = false;
    left = n;
}

void malloc_fails_share(atomic_long *calls)
{
    shared = calls;
}

bool malloc_fails_end(void)
{
    left = 0;
    return failed;
}

#if FAILING
/* The names under which glibc's own functions stay reachable. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

/* Our default, hidden symbols, would only be seen by this program and not by libraries. */
#define EXPORTED __attribute__((visibility("default")))

static bool all_refuse(void)
{
    long now = shared ? atomic_load(shared) : 0;
    while (now && now != -1 &&
           !atomic_compare_exchange_weak(shared, &now, now + (now < 0 ? 1 : -1)))
        ;
    return now == 1 || now == -1;
}

static bool refuses(void)
{
    const bool own = left && !--left;
    failed |= own;
    if (!own && !all_refuse())
        return false;
    errno = ENOMEM;
    return true;
}

EXPORTED void *malloc(size_t size)
{
    return refuses() ? NULL : __libc_malloc(size);
}

EXPORTED void *calloc(size_t count, size_t size)
{
    return refuses() ? NULL : __libc_calloc(count, size);
}

EXPORTED void *realloc(void *memory, size_t size)
{
    return refuses() ? NULL : __libc_realloc(memory, size);
}

EXPORTED void *aligned_alloc(size_t alignment, size_t size)
{
    return refuses() ? NULL : __libc_memalign(alignment, size);
}

EXPORTED int posix_memalign(void **out, size_t alignment, size_t size)
{
    *out = refuses() ? NULL : __libc_memalign(alignment, size);
    return *out ? 0 : ENOMEM;
}
#endif
