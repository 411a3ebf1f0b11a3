/* Makes one malloc of the process fail, also of libraries, by replacing the C library's functions;
 * scarce.h makes only Etude's own allocations fail. Link malloc_fails.c. Has no effect with a
 * sanitizer, which has its own functions.
 *
 *     bool failed = true;
 *     for (long n = 1; failed; n++) {
 *         malloc_fails_begin(n);
 *         status = thing(...);
 *         failed = malloc_fails_end();
 *         assert_int_equal(status, failed ? ET_ENOMEM : ET_OK);
 *     }
 */
#ifndef ETUDE_TESTS_BASE_MALLOC_FAILS_H
#define ETUDE_TESTS_BASE_MALLOC_FAILS_H

#include <stdatomic.h>
#include <stdbool.h>

bool malloc_fails_works(void);

/* From here on calls of all threads are counted as well, in left, towards 0: from n > 0 on the n-th
 * fails, from -n on the n-th and all that follow while left is -1, and while it is 0 none does.
 * left may be shared with another process. */
void malloc_fails_share(atomic_long *left);

/* From here on the n-th call of this thread fails, counted from 1, and only that one. */
void malloc_fails_begin(long n);

/* Lets all calls succeed again; returns whether one has failed. */
bool malloc_fails_end(void);

#endif
