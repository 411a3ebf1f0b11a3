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

/* ---- arrays -------------------------------------------------------------------------------- */

/* Stands in front of an array: from where it came, so that hooks may change in between. */
typedef struct array_head {
    void *begin;
    size_t mapped; /* bytes; 0: begin is the hooks' */
} array_head;

#define ARRAY_HEAD ((size_t)64) /* keeps what follows aligned */

static void *array_behind(void *at, array_head head)
{
    memcpy(at, &head, sizeof head);
    return (char *)at + ARRAY_HEAD;
}

/* One huge page more, so that the array can begin with one. What is not touched costs no memory. */
static void *map_array(size_t bytes)
{
    size_t mapped = bytes + ARRAY_HEAD + HUGE_PAGE;
    char *begin = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (begin == MAP_FAILED)
        return NULL;
    char *at = begin + (HUGE_PAGE - (uintptr_t)begin % HUGE_PAGE) % HUGE_PAGE;
    (void)madvise(at, bytes + ARRAY_HEAD, MADV_HUGEPAGE);
    return array_behind(at, (array_head){ begin, mapped });
}

void *et_alloc_array(size_t bytes)
{
    size_t whole;
    if (__builtin_add_overflow(bytes, ARRAY_HEAD + HUGE_PAGE, &whole))
        return NULL;
    if (bytes >= HUGE_MIN && allocator.allocate == system_allocate) {
        atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
        return map_array(bytes);
    }
    void *begin = et_alloc_aligned(bytes + ARRAY_HEAD, 64);
    if (!begin)
        return NULL;
    memset(begin, 0, bytes + ARRAY_HEAD);
    return array_behind(begin, (array_head){ begin, 0 });
}

void et_free_array(void *array)
{
    array_head head;
    if (!array)
        return;
    memcpy(&head, (char *)array - ARRAY_HEAD, sizeof head);
    if (head.mapped)
        (void)munmap(head.begin, head.mapped);
    else
        et_free(head.begin);
}

/* ---- growing and copying -------------------------------------------------------------------- */

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
