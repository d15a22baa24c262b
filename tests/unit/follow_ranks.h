/* follow_ranks.h: finds races between ranks that share memory. */
#ifndef PARC_TESTS_FOLLOW_RANKS_H
#define PARC_TESTS_FOLLOW_RANKS_H

#include "passes/schedule/issue.h"
#include "passes/sync/sync.h"

/* Simulates two steps of all ranks of a program for the CPU, with a vector
 * clock for each rank. A rank may access a word of shared memory only after
 * every conflicting access is ordered before it. Barriers and collectives merge the clocks of
 * their group. Returns NULL or the first race. `without`: a barrier to omit, or
 * NULL. */
const char *follow_ranks(const Program *p, const Op *without);

#endif
