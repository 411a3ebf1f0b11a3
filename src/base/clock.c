#include "base/clock.h"

#include <time.h>

static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now); /* cannot fail: both clocks exist everywhere we build */
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double et_clock_monotonic(void)
{
    return seconds(CLOCK_MONOTONIC);
}

double et_clock_wall(void)
{
    return seconds(CLOCK_REALTIME);
}
