#include "base/cpu.h"

#include <unistd.h>

/* Plausible sizes of a core's second-level cache, from old laptops to future machines. */
#define LEAST (128 * 1024L)
#define MOST  (64 * 1024 * 1024L)

size_t et_cpu_l2(void)
{
#ifdef _SC_LEVEL2_CACHE_SIZE
    long reported = sysconf(_SC_LEVEL2_CACHE_SIZE);
    if (reported >= LEAST && reported <= MOST)
        return (size_t)reported;
#endif
    return ET_CPU_L2_USUAL;
}
