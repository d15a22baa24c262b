/* sync.h: checks of the synchronization of a step.
 *
 * The pass `sync` orders the streams of a rank by events: an event is recorded
 * after a statement, and others wait for it before they begin. Ranks of a node
 * that share memory wait for each other at barriers. A target with one stream
 * has no events. The checks read the final program only, not how the pass found
 * what it inserted.
 */
#ifndef PARC_PASSES_SYNC_SYNC_H
#define PARC_PASSES_SYNC_SYNC_H

#include "ir/ir.h"

/* Checks that a program after the last pass has all waits, records and barriers
 * that it needs. NULL, or what is wrong. */
const char *events_check(const Program *p);

/* Simulates two steps and checks that no rank can read shared memory before
 * another has written it, or overwrite it before another has read it. NULL, or
 * a description of the fault. `without`: a barrier that is ignored; NULL:
 * none. */
const char *barriers_check(const Program *p, const Op *without);

/* Checks that the order of any two accesses to the same bytes from different
 * streams, at least one a write, is that of issue. NULL, or a description of
 * the first hazard: both ops and tensors. `without`: a wait that is ignored;
 * NULL: none. */
const char *hazards_check(const Program *p, const Op *without);

/* Checks that stages of a pipeline exchange the carries of loops, each once, and
 * that in the order of a staged loop every op reads what its own microbatch has
 * written. NULL, or what is wrong. */
const char *stages_check(const Program *p);

/* Checks that the transfers of a staged loop and the ops that compute access buffers
 * in a defined order. NULL, or what is wrong. */
const char *transfers_check(const Program *p);

#endif
