/* clock.h: measures time. */
#ifndef PARC_BASE_CLOCK_H
#define PARC_BASE_CLOCK_H

#include <time.h>

/* Seconds since a fixed moment; never runs backward. */
static inline double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#endif
