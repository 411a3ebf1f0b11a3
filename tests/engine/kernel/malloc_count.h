/* Counts every malloc of the process, including libraries, by replacing the C library's functions.
 * Without effect under a sanitizer, which has its own functions. */
#ifndef ETUDE_TESTS_KERNEL_MALLOC_COUNT_H
#define ETUDE_TESTS_KERNEL_MALLOC_COUNT_H

#include <stdbool.h>
#include <stddef.h>

bool malloc_count_works(void);

typedef struct malloc_counts {
    size_t calls, bytes;
} malloc_counts;

malloc_counts malloc_count_so_far(void);

#endif
