/* Everything passes the hooks, so that a program sees all of our memory and a test can let any
 * call of it fail. The hooks and the count of calls are the only state here; the hooks are set
 * before threads start, so they need no lock. */
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Arenas and parameters are many megabytes that are touched all over at once: on pages of 2 MB
 * the first touch costs a fraction of the faults. */
#define HUGE_PAGE ((size_t)2 << 20)
#define HUGE_MIN  ((size_t)4 << 20)

static void *system_allocate(void *payload, size_t size, size_t alignment)
{
    (void)payload;
    if (alignment <= 16) /* malloc's own, on every machine with 64 bits that we build for */
        return malloc(size);
    void *memory = NULL;
    bool huge = size >= HUGE_MIN;
    if (posix_memalign(&memory, huge ? HUGE_PAGE : alignment, size))
        return NULL;
    if (huge) /* a wish; without it everything works, with more faults */
        (void)madvise(memory, size, MADV_HUGEPAGE);
    return memory;
}

static void *system_reallocate(void *payload, void *memory, size_t size)
{
    (void)payload;
    return realloc(memory, size);
}

static void system_release(void *payload, void *memory)
{
    (void)payload;
    free(memory);
}

static const et_allocator system_allocator = {
    .allocate = system_allocate,
    .reallocate = system_reallocate,
    .release = system_release,
};

static et_allocator allocator = {
    .allocate = system_allocate,
    .reallocate = system_reallocate,
    .release = system_release,
};
static atomic_size_t allocations; /* relaxed: a figure, it orders nothing */

void et_allocator_set(const et_allocator *hooks)
{
    allocator = hooks ? *hooks : system_allocator;
}

size_t et_alloc_count(void)
{
    return atomic_load_explicit(&allocations, memory_order_relaxed);
}

void *et_alloc_aligned(size_t bytes, size_t alignment)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    /* One byte for none: NULL means failure, and malloc(0) may give it. */
    return allocator.allocate(allocator.payload, bytes ? bytes : 1, alignment);
}

void *et_alloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    return et_alloc_aligned(bytes, 16);
}

void *et_alloc_zero(size_t count, size_t size)
{
    void *memory = et_alloc(count, size);
    if (memory)
        memset(memory, 0, count * size);
    return memory;
}

void *et_realloc(void *memory, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return allocator.reallocate(allocator.payload, memory, bytes ? bytes : 1);
}

void et_free(void *memory)
{
    allocator.release(allocator.payload, memory);
}

char *et_strndup(const char *text, size_t length)
{
    char *copy = et_alloc(length + 1, 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, length);
    copy[length] = 0;
    return copy;
}

char *et_strdup(const char *text)
{
    return et_strndup(text, strlen(text));
}

int et_alloc_failed(et_error *error, size_t bytes, const char *what)
{
    return et_fail(error, ET_ENOMEM, "out of memory (%zu bytes for %s)", bytes, what);
}
