/* Time. */
#ifndef ETUDE_BASE_CLOCK_H
#define ETUDE_BASE_CLOCK_H

/* Seconds since some fixed moment; never goes back. */
double et_clock_monotonic(void);

/* Seconds since 1970-01-01 UTC. */
double et_clock_wall(void);

#endif
