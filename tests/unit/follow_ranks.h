/* follow_ranks.h: simulates ranks that share memory and looks for races. */
#ifndef PARC_TESTS_FOLLOW_RANKS_H
#define PARC_TESTS_FOLLOW_RANKS_H

#include "passes/streams.h"

/* Goes through two steps of all ranks of a program for the CPU, with a vector
 * clock for each: what a rank reads or writes in shared memory, byte by byte,
 * and of other ranks' memory in products that are made as shards, must have been written, and read, by all others in a past that it knows of.
 * It learns of others where it meets them. NULL, or the first that does not.
 * `without`: a meeting that is left out; NULL: none. */
const char *follow_ranks(const Program *p, const Meeting *without);

#endif
