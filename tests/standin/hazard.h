/* hazard.h: whether two pieces of queued work that touch the same memory are
 * in an order that streams and events give them.
 *
 * Work has a number; an Age says of each stream up to which piece of it has
 * ended for sure when this one begins. Each four bytes of device memory
 * remember who wrote them last and who read them last on each stream. An
 * access without such an order is an error in whichever order the two ran. Of
 * longer pieces of memory those bytes do not count that share such a word with
 * the neighbours: layers of 16 bits may be so many halves of words.
 * STANDIN_HAZARDS=0 looks away.
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
    int stream;     /* below HAZARD_STREAMS, or -1: not looked at */
    uint32_t index; /* among the pieces of its stream, from 1 on */
    Age age;        /* what ended before; its own index included */
} HazardOp;

/* What runs from here on; NULL: nothing that is queued. */
void hazard_begin(const HazardOp *op);

/* The running work touches these bytes; false: with no order to what touched
 * them before, which has been told. For what is no kernel. */
bool hazard_touch(const void *at, int64_t bytes, bool write);
/* Rows of `bytes`, `step` bytes from one to the next. */
bool hazard_touch_rows(const void *at, int64_t rows, int64_t bytes,
                       int64_t step, bool write);
/* The same for an access of a kernel; NULL, or what is wrong in `text`. */
const char *hazard_access(uintptr_t at, int bytes, bool write, char *text,
                          int room);

/* Both ended. */
void age_join(Age *a, const Age *b);

#endif
