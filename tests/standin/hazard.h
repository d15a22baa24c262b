/* hazard.h: checks that streams and events order two pieces of queued work
 * that touch the same memory.
 *
 * Pieces of work are numbered on each stream. The Age of a piece has, for each
 * stream, the last piece that is known to have ended when this one begins. For
 * each four bytes of device memory the checker records the last writer and, on
 * each stream, the last reader. A conflicting access that is not ordered after
 * these is an error, whichever ran first. At the ends of longer ranges, words
 * that are shared with a neighbor are not checked: layers of 16-bit elements
 * may end in the middle of a word. STANDIN_HAZARDS=0 disables the check.
 */
#ifndef STANDIN_HAZARD_H
#define STANDIN_HAZARD_H

#include <stdbool.h>
#include <stdint.h>

enum { HAZARD_STREAMS = 8 };

typedef struct Age {
    uint32_t ended[HAZARD_STREAMS];
} Age;

typedef struct HazardOp {
    const char *name;
    int stream;     /* below HAZARD_STREAMS, or -1: not checked */
    uint32_t index; /* number of the piece on its stream, from 1 on */
    Age age;        /* pieces that have ended before it; includes itself */
} HazardOp;

/* Sets the running piece of work; NULL: none that was queued. */
void hazard_begin(const HazardOp *op);

/* Records that the running work, other than a kernel, touches these bytes.
 * False: an earlier access is not ordered before it; that was reported. */
bool hazard_touch(const void *at, int64_t bytes, bool write);
/* Records rows of `bytes`, which are `step` bytes apart, like hazard_touch. */
bool hazard_touch_rows(const void *at, int64_t rows, int64_t bytes,
                       int64_t step, bool write);
/* Records an access of a kernel. NULL, or the error in `text`. */
const char *hazard_access(uintptr_t at, int bytes, bool write, char *text,
                          int capacity);

/* a becomes the age after both have ended. */
void age_join(Age *a, const Age *b);

#endif
