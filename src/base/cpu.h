/* The sizes of the CPU's caches. Needs no privileges. Each call asks again, which takes some
 * microseconds: keep the result. */
#ifndef ETUDE_BASE_CPU_H
#define ETUDE_BASE_CPU_H

#include <stddef.h>

/* Bytes of the second-level cache that a core has. Where none is told (some virtual machines and
 * systems), or what cannot be, ET_CPU_L2_USUAL. The same in every call. */
#define ET_CPU_L2_USUAL ((size_t)1 << 20)

size_t et_cpu_l2(void);

#endif
