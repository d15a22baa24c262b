/* forward_memory.h: the memory plan of a slice of a program. */
#ifndef PARC_PASSES_FORWARD_FORWARD_MEMORY_H
#define PARC_PASSES_FORWARD_FORWARD_MEMORY_H

#include "ir/memory.h"

/* The times of a program and of its slice. */
typedef struct ForwardTimes {
    int *before; /* by time of the program: the number of earlier times of ops
                  * that the slice has; before[end] is that of all */
    int end;
} ForwardTimes;
/* `kept`: by op id, the ops of p that its slice has. */
ForwardTimes forward_times(const Program *p, const bool *kept);

/* Reduces the memory plan of p to the buffers that its ops use. The outputs are
 * live until the end. */
void forward_memory(Program *p, const ForwardTimes *times,
                    Value *const *output, int noutputs);

#endif
