/* A flag that a signal handler sets. Handlers run in whatever thread takes the signal, OpenMP's
 * too, so it is read and written as atomics are; what it points to may be a plain sig_atomic_t of a
 * program's own. */
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
