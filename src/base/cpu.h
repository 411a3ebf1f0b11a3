/* The sizes of the CPU's caches. Needs no privileges. Each call asks again, which takes some
 * microseconds: keep the result. */
#ifndef ETUDE_BASE_CPU_H
#define ETUDE_BASE_CPU_H

#include <stddef.h>

/* Bytes of a core's second-level cache. ET_CPU_L2_USUAL if the system reports none (some virtual
 * machines and systems) or an impossible size. The same in every call. */
#define ET_CPU_L2_USUAL ((size_t)1 << 20)

size_t et_cpu_l2(void);

#endif
