/* How a kernel's work is shared out among threads. A kernel is NAME_part(..., begin, end), which
 * does items begin to end - 1 on its thread, and
 *
 *     ET_SHARE(rows * width >= ET_GRAIN, rows, 1, norm_part, y, x, width, dtype);
 *
 * which calls norm_part(y, x, width, dtype, begin, end): once for all rows where there is little
 * to do or no other thread to do it, else once on each thread of a team. What an item gives must
 * not depend on where the cuts are.
 *
 * Not `#pragma omp parallel for if (...)`: a region that stays on one thread makes a team of one
 * all the same, which takes GNU's runtime longer than many a small kernel takes. */
#ifndef ETUDE_KERNEL_SHARE_H
#define ETUDE_KERNEL_SHARE_H

#include <omp.h>
#include <stdbool.h>
#include <stdint.h>

/* Elements of work below which a loop stays on one thread. */
#define ET_GRAIN 16384

/* Items begin .. end - 1. Empty where begin == end. */
typedef struct et_share {
    int64_t begin, end;
} et_share;

/* What this thread of a team does of count items: whole units, but for the last one. 10 items in
 * units of 4 on 2 threads: units 3, so thread 0 gets 0 .. 4 and thread 1 gets 4 .. 10. */
static inline et_share et_share_own(int64_t count, int64_t unit)
{
    const int64_t units = (count + unit - 1) / unit;
    const int64_t team = omp_get_num_threads(), thread = omp_get_thread_num();
    const int64_t begin = units * thread / team * unit, end = units * (thread + 1) / team * unit;
    return (et_share){ begin, end < count ? end : count };
}

/* Whether a loop of that much work gets a team. Inside a parallel region the caller's thread is
 * one of a team already. */
static inline bool et_share_wanted(bool much)
{
    return much && !omp_in_parallel() && omp_get_max_threads() > 1;
}

/* begin is a multiple of unit on every thread. A thread may get no items: begin == end. */
#define ET_SHARE(much, count, unit, part, ...)                                                     \
    do {                                                                                           \
        if (!et_share_wanted(much)) {                                                              \
            part(__VA_ARGS__, 0, (count));                                                         \
        } else {                                                                                   \
            _Pragma("omp parallel")                                                                \
            {                                                                                      \
                const et_share own = et_share_own((count), (unit));                                \
                part(__VA_ARGS__, own.begin, own.end);                                             \
            }                                                                                      \
        }                                                                                          \
    } while (0)

#endif
