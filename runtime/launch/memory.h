/* launch/memory.h: declares the memory that is available on this machine, and the
 * check before the first allocation. */
#ifndef PARC_RT_MEMORY_H
#define PARC_RT_MEMORY_H

#include "rt.h"

/* Available bytes; source: which limit this is, for messages. */
enum { RT_MEMORY_SOURCE = 448 };
typedef struct RtMemory {
    double bytes;
    char source[RT_MEMORY_SOURCE];
} RtMemory;

/* `root` is a prefix of /proc and /sys: "" for this machine, a directory in
 * tests. */
void rt_memory_available(RtMemory *m, const char *root);

/* The memory that the ranks on this machine need. */
typedef struct RtNeed {
    int64_t ranks;
    double each;        /* bytes per rank */
    const char *what;   /* use of the memory: "the plan" */
    const char *advice; /* what to do; NULL: ask parc --device-memory */
} RtNeed;

/* Whether the need is at most the available memory; false after a message. */
bool rt_memory_fits(const RtNeed *need, const char *root);

/* Checks `ranks` ranks of a program. `runs`: steps or a dry run are executed;
 * otherwise the ranks only initialize, load and export weights. `staging`: bytes
 * of a rank's staging buffer. */
bool rt_memory_check(const RtWorld *w, int64_t ranks, bool runs,
                     int64_t staging);

#endif
