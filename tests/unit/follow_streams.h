/* follow_streams.h: checks that streams which overlap as far as events allow do
 * not overwrite each other's live bytes. */
#ifndef PARC_TESTS_FOLLOW_STREAMS_H
#define PARC_TESTS_FOLLOW_STREAMS_H

#include "passes/schedule/issue.h"
#include "passes/sync/sync.h"

/* Simulates a step in the order number `order`. The first FOLLOW_FIXED orders
 * give the streams fixed priorities, later ones are random. From its start to
 * its end a statement must read the bytes that it reads in program order, and
 * its results must stay until its end. Returns NULL or the first fault.
 * `without`: a wait to omit, or NULL. */
enum { FOLLOW_FIXED = 4 * STREAMS };
const char *follow_streams(const Program *p, uint64_t order, const Op *without);

#endif
