/* rt_memory.h: the memory of this machine that a program may use, and the check
 * that comes before any is allocated. */
#ifndef PARC_RT_MEMORY_H
#define PARC_RT_MEMORY_H

#include "rt.h"

/* Available bytes, and what limits them, for messages. */
enum { RT_MEMORY_SOURCE = 448 };
typedef struct RtMemory {
    double bytes;
    char source[RT_MEMORY_SOURCE];
} RtMemory;

/* `root` is put before /proc and /sys: "" is this machine, a directory is one
 * that a test has made. */
void rt_memory_available(RtMemory *m, const char *root);

/* What the ranks on this machine need, all together. */
typedef struct RtNeed {
    int64_t ranks;
    double each;        /* bytes of a rank */
    const char *what;   /* "the plan": what the memory is for */
    const char *advice; /* what to do; NULL: ask parc --device-memory */
} RtNeed;

/* False, after a message, where that is more than is available. */
bool rt_memory_fits(const char *program, const RtNeed *need, const char *root);

/* The check for `ranks` ranks of a program. `runs`: steps will be run, or a dry
 * run; else weights are drawn, loaded and exported. */
bool rt_memory_check(const RtWorld *w, int64_t ranks, bool runs);

#endif
