/* Two clocks. Durations are differences of the monotonic clock, which nobody sets; the time of day
 * is for people (events of TensorBoard, a checkpoint's date). A double has a resolution below a
 * microsecond for both. */
#include "base/clock.h"

#include <time.h>

/* Seconds with their fraction; nanoseconds are below a double's last digit for the time of
 * day, and not for a clock that counts from the start of the machine. */
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

void et_clock_sleep(double seconds)
{
    struct timespec time = { .tv_sec = (time_t)seconds,
                             .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9) };
    nanosleep(&time, NULL);
}
