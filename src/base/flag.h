/* A flag that a signal handler sets. Handlers run in any thread, also OpenMP's, so the flag is read
 * and written as an atomic. The flag itself may be a plain sig_atomic_t of a program. */
#ifndef ETUDE_BASE_FLAG_H
#define ETUDE_BASE_FLAG_H

#include <signal.h>
#include <stdbool.h>

static inline bool et_flag_is_set(const volatile sig_atomic_t *flag) /* NULL: never */
{
    return flag && __atomic_load_n(flag, __ATOMIC_RELAXED);
}

static inline void et_flag_set(volatile sig_atomic_t *flag, bool value)
{
    __atomic_store_n(flag, value, __ATOMIC_RELAXED);
}

#endif
