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

int64_t et_clock_nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

double et_clock_wall(void)
{
    return seconds(CLOCK_REALTIME);
}
