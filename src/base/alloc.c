/* The library's memory. All allocations go through the hooks, so a program sees all of it, and a
 * test can let any call fail. The hooks and the number of calls are the only state here. Hooks are
 * set before threads start, so they need no lock.
 *
 * There are two kinds of memory: blocks (et_alloc and its variants), aligned to 16 or as requested,
 * for everything; and arrays (et_alloc_array), for the few objects of many megabytes. An array has
 * a head in front, which says how to free it:
 *
 *   | head, ARRAY_HEAD bytes | the array, zeroed, aligned to 64 ...
 *
 * The head of a mapped array begins on a huge page, which is not the begin of the mapping. */
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/assert.h"

/* Arenas and parameters are many megabytes that are touched all over at once: on pages of 2
 * MB the first touch costs a fraction of the faults. Smaller ones would leave much of a huge
 * page unused. */
#define HUGE_PAGE ((size_t)2 << 20)
#define HUGE_MIN  ((size_t)4 << 20)

/* The C library's functions as hooks. realloc and free accept memory of any alignment, but realloc
 * only keeps 16 bytes of alignment, so memory with a larger alignment is never grown. */
static void *system_allocate(void *payload, size_t size, size_t alignment)
{
    (void)payload;
    if (alignment <= 16) /* malloc's own, on every machine with 64 bits that we build for */
        return malloc(size);
    void *memory = NULL;
    bool huge = size >= HUGE_MIN;
    if (posix_memalign(&memory, huge ? HUGE_PAGE : alignment, size))
        return NULL;
    if (huge) /* a hint; without huge pages there are only more page faults */
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

/* A copy of the hooks in use, so that the caller's struct need not stay. */
static et_allocator allocator = {
    .allocate = system_allocate,
    .reallocate = system_reallocate,
    .release = system_release,
};
/* Counts since the process started; et_alloc_count says what is counted. */
static atomic_size_t allocations; /* relaxed: a figure, it orders nothing */
static atomic_size_t refusals;    /* relaxed too; a reported error counts once more */

static _Thread_local size_t refused; /* bytes of the last refusal; 0: none since a report */

static void *note_refusal(void *memory, size_t bytes)
{
    if (!memory) {
        atomic_fetch_add_explicit(&refusals, 1, memory_order_relaxed);
        refused = bytes;
    }
    return memory;
}

void et_allocator_set(const et_allocator *hooks)
{
    et_assert(!hooks || (hooks->allocate && hooks->reallocate && hooks->release));
    allocator = hooks ? *hooks : system_allocator;
}

size_t et_alloc_count(void)
{
    return atomic_load_explicit(&allocations, memory_order_relaxed);
}

size_t et_alloc_refused(void)
{
    return atomic_load_explicit(&refusals, memory_order_relaxed);
}

/* All blocks come through here or et_realloc, and are counted here: a test of a step that
 * must not allocate compares two counts. */
void *et_alloc_aligned(size_t bytes, size_t alignment)
{
    et_assert(alignment > 0 && (alignment & (alignment - 1)) == 0);
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    /* One byte for none: NULL means failure, and malloc(0) may give it. */
    return note_refusal(allocator.allocate(allocator.payload, bytes ? bytes : 1, alignment), bytes);
}

/* If count * size overflows: NULL, as for any size that is too large. */
void *et_alloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return note_refusal(NULL, SIZE_MAX);
    return et_alloc_aligned(bytes, 16);
}

/* Cleared here and not by calloc: hooks have no such function, and large memory that should
 * come clear from the system is et_alloc_array's. */
void *et_alloc_zero(size_t count, size_t size)
{
    void *memory = et_alloc(count, size);
    if (memory)
        memset(memory, 0, count * size);
    return memory;
}

/* ---- arrays ---- */

/* Precedes an array: the source of its memory, so that hooks may change in between. */
typedef struct array_head {
    void *begin;   /* the allocated or mapped memory; the head is at begin or after it */
    size_t mapped; /* bytes; 0: begin is the hooks' */
} array_head;

#define ARRAY_HEAD ((size_t)64) /* keeps the array after it aligned */

/* Writes the head at `at` and gives the array that follows it. memcpy: `at` has no type yet. */
static void *array_behind(void *at, array_head head)
{
    memcpy(at, &head, sizeof head);
    return (char *)at + ARRAY_HEAD;
}

void *et_alloc_array(size_t bytes)
{
    size_t whole;
    if (__builtin_add_overflow(bytes, ARRAY_HEAD + HUGE_PAGE, &whole))
        return note_refusal(NULL, bytes);
    /* Counted as one allocation, whichever way it is made. */
    if (bytes >= HUGE_MIN && allocator.allocate == system_allocate) {
        atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
        /* The array begins with a huge page, its head is on the small page before: a huge page is
         * cleared whole at the first use of any of its bytes. */
        size_t mapped = bytes + HUGE_PAGE;
        char *begin =
            mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (begin == MAP_FAILED)
            return note_refusal(NULL, bytes);
        char *at = begin + (HUGE_PAGE - (uintptr_t)begin % HUGE_PAGE);
        (void)madvise(at, bytes, MADV_HUGEPAGE);
        return array_behind(at - ARRAY_HEAD, (array_head){ begin, mapped });
    }
    void *begin = et_alloc_aligned(bytes + ARRAY_HEAD, 64);
    if (!begin)
        return NULL;
    memset(begin, 0, bytes + ARRAY_HEAD);
    return array_behind(begin, (array_head){ begin, 0 });
}

/* Reads only the head: hooks may have been exchanged since. */
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

/* ---- growing and copying ---- */

/* One byte for none again: realloc to 0 bytes may free. */
void *et_realloc(void *memory, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return note_refusal(NULL, SIZE_MAX);
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return note_refusal(allocator.reallocate(allocator.payload, memory, bytes ? bytes : 1), bytes);
}

/* NULL is passed on: the hooks take it, as free does. */
void et_free(void *memory)
{
    allocator.release(allocator.payload, memory);
}

/* length bytes exactly: text need not be terminated there. */
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

/* Makes a mapping and never touches it. So this fails if the process has reached its limits (ulimit
 * -v and, because the mapping is writable, -d), which is when malloc and mmap fail. */
int et_memory_check(size_t bytes, const char *what, et_error *error)
{
    void *probe = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (probe == MAP_FAILED) {
        note_refusal(NULL, bytes);
        return et_alloc_failed(error, what);
    }
    (void)munmap(probe, bytes);
    return ET_OK;
}

/* Other C libraries return memory by themselves or not at all. */
void et_alloc_trim(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

/* The size in the message shows whether a setting is wrong (terabytes) or the machine is full. */
int et_alloc_failed(et_error *error, const char *what)
{
    const size_t bytes = refused;
    note_refusal(NULL, 0);
    return bytes ? et_fail(error, ET_ENOMEM, "out of memory (%zu bytes for %s)", bytes, what)
                 : et_fail(error, ET_ENOMEM, "out of memory (for %s)", what);
}
