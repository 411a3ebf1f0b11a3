/* Time. */
#ifndef ETUDE_BASE_CLOCK_H
#define ETUDE_BASE_CLOCK_H

#include <stdint.h>

/* Seconds since some fixed moment; never goes back. */
double et_clock_monotonic(void);

/* The same in whole nanoseconds: differences of short times are exact. */
int64_t et_clock_nanoseconds(void);

/* Seconds since 1970-01-01 UTC. */
double et_clock_wall(void);

/* Waits `seconds`; a signal ends the wait early. */
void et_clock_sleep(double seconds);

#endif
