/* Divides a kernel's work among threads. A kernel is NAME_part(..., begin, end), which does items
 * begin to end - 1 on its thread, and
 *
 *     ET_PARALLEL(rows * width >= ET_GRAIN, rows, 1, norm_part, y, x, width, dtype);
 *
 * which calls norm_part(y, x, width, dtype, begin, end): once for all rows if there is little work
 * or no other thread, otherwise once on each thread of a team. The result of an item must not
 * depend on the division.
 *
 * Not `#pragma omp parallel for if (...)`: a region on one thread still makes a team of one, which
 * takes GNU's runtime longer than many small kernels take. */
#ifndef ETUDE_ENGINE_KERNEL_PARALLEL_H
#define ETUDE_ENGINE_KERNEL_PARALLEL_H

#include <omp.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Elements of work below which a loop stays on one thread. */
#define ET_GRAIN 16384

/* Items begin .. end - 1. Empty if begin == end. */
typedef struct et_items {
    int64_t begin, end;
} et_items;

/* Divides count items into `shares` about equal shares of whole units; only the last unit may be
 * shorter. Returns one share. 10 items in units of 4, 2 shares: 3 units, so share 0 is 0 .. 4 and
 * share 1 is 4 .. 10. */
static inline et_items et_items_of(int64_t count, int64_t unit, int64_t share, int64_t shares)
{
    const int64_t units = (count + unit - 1) / unit;
    const int64_t begin = units * share / shares * unit, end = units * (share + 1) / shares * unit;
    return (et_items){ begin, end < count ? end : count };
}

/* This thread's part of count items in a team. */
static inline et_items et_items_own(int64_t count, int64_t unit)
{
    return et_items_of(count, unit, omp_get_thread_num(), omp_get_num_threads());
}

/* Whether a loop gets a team; much: it has enough work. Inside a parallel region the calling thread
 * is already in a team. */
static inline bool et_parallel_wanted(bool much)
{
    return much && !omp_in_parallel() && omp_get_max_threads() > 1;
}

/* begin is a multiple of unit on every thread. A thread may get no items: begin == end. */
#define ET_PARALLEL(much, count, unit, part, ...)                                                  \
    do {                                                                                           \
        if (!et_parallel_wanted(much)) {                                                           \
            part(__VA_ARGS__, 0, (count));                                                         \
        } else {                                                                                   \
            _Pragma("omp parallel")                                                                \
            {                                                                                      \
                const et_items own = et_items_own((count), (unit));                                \
                part(__VA_ARGS__, own.begin, own.end);                                             \
            }                                                                                      \
        }                                                                                          \
    } while (0)

/* Divides items that take unequal or long times. Each thread first takes the units of its own
 * share, in order, then units that are left in other shares. So a thread mostly has the same rows
 * in successive kernels, and finds its own results in its cache.
 *
 *     et_turns turns;
 *     et_turns_init(&turns, omp_get_max_threads(), count, unit);
 *     #pragma omp parallel
 *     {
 *         et_turn turn = et_turn_own(&turns);
 *         for (et_items now; et_turns_take(&turns, &turn, &now);)
 *             ... items now.begin .. now.end - 1 ...
 *     }
 *
 * et_turns is on the stack of the thread that starts the team. A team may be smaller or larger than
 * `threads`. */
#define ET_TURNS_THREADS 64

typedef struct et_turns {
    int shares;
    int64_t unit;
    /* On separate cache lines: threads write their own share's. */
    struct {
        alignas(64) atomic_int_fast64_t next;
        int64_t end;
    } share[ET_TURNS_THREADS];
} et_turns;

static inline void et_turns_init(et_turns *turns, int threads, int64_t count, int64_t unit)
{
    turns->shares = threads < ET_TURNS_THREADS ? threads : ET_TURNS_THREADS;
    turns->unit = unit;
    for (int i = 0; i < turns->shares; i++) {
        const et_items share = et_items_of(count, unit, i, turns->shares);
        atomic_init(&turns->share[i].next, share.begin);
        turns->share[i].end = share.end;
    }
}

/* The position of a thread. */
typedef struct et_turn {
    int share; /* that it takes from */
    int left;  /* shares that it has not found empty, this one included */
} et_turn;

/* The calling thread's. */
static inline et_turn et_turn_own(const et_turns *turns)
{
    return (et_turn){ omp_get_thread_num() * turns->shares / omp_get_num_threads(), turns->shares };
}

/* False: no items are left. */
static inline bool et_turns_take(et_turns *turns, et_turn *turn, et_items *now)
{
    for (; turn->left > 0; turn->left--, turn->share = (turn->share + 1) % turns->shares) {
        const int64_t end = turns->share[turn->share].end, unit = turns->unit;
        const int64_t begin =
            atomic_fetch_add_explicit(&turns->share[turn->share].next, unit, memory_order_relaxed);
        *now = (et_items){ begin, begin + unit < end ? begin + unit : end };
        if (begin < end)
            return true;
    }
    return false;
}

#endif
