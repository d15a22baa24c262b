/* follow_streams.h: checks that streams which run as far apart as events allow
 * do not overwrite each other's live bytes. */
#ifndef PARC_TESTS_FOLLOW_STREAMS_H
#define PARC_TESTS_FOLLOW_STREAMS_H

#include "passes/streams.h"

/* Runs a step in one order of many, a number for each: for the first
 * FOLLOW_FIXED some stream is always ahead and another behind, then they are
 * drawn. What a statement reads must be what it reads in the order of the
 * program, from its begin to its end, and what it writes must stay until its end. NULL,
 * or what was found. `without`: a wait that is left out; NULL: none. */
enum { FOLLOW_FIXED = 4 * STREAMS };
const char *follow_streams(const Program *p, uint64_t order,
                           const Wait *without);

#endif
