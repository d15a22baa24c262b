/* rt_device.h: what a target does for the runtime; cpu/ and cuda/ have one
 * implementation each.
 *
 * A rank has a host mirror of its arena, rt->arena, in memory that all ranks
 * of a box map: what parameters are drawn into, batches and scalars written
 * to, losses and weights read from. The arena that the step computes in is
 * parc_arena(rt). On the CPU the two are one, and nothing moves here; on a
 * device the runtime says what it has written and what it is about to read.
 * Offsets and sizes are bytes of the arena; behind its end the mirror goes on
 * with what the plan keeps in host memory, which a device's target holds in
 * memory of its own.
 */
#ifndef PARC_RT_DEVICE_H
#define PARC_RT_DEVICE_H

#include "rt.h"

/* A variable of the environment that a user may set, as --help has it: lines
 * of `help` are told apart by '\n'. */
typedef struct RtVariable {
    const char *name, *help;
} RtVariable;

/* Those that only this target heeds; the last has no name. */
extern const RtVariable rt_device_variables[];

/* Before anything else of the run; may start the program again, from its top
 * (the environment of a library that reads it when it is loaded). `threads`:
 * as the user wants, 0 as planned. */
void rt_device_begin(char **argv, const ParcModel *model, int64_t threads);

/* Bytes of this machine's memory that a rank takes to run steps; *what: what for,
 * for messages. */
double rt_device_host_bytes(const ParcModel *model, const char **what);

/* In each rank's process, before it does anything: its threads. */
void rt_device_place(const RtWorld *w, int rank);

/* In each rank that will run steps, after the fork; the arena holds zeros
 * then. Ranks that only draw, load, print or export weights open no device,
 * and need none: what follows leaves the mirror as it is. Ends the run with
 * a message where it fails. */
void rt_device_open(ParcRt *rt);

/* The mirror's bytes go to the device. They may be read from the mirror
 * again only after a download: a target may take its memory back. */
void rt_device_upload(ParcRt *rt, int64_t offset, int64_t bytes);

/* The device's bytes go to the mirror, when all that was queued before has
 * run: they are there on return. */
void rt_device_download(ParcRt *rt, int64_t offset, int64_t bytes);

/* One step. It may still be running on return. */
void rt_device_step(ParcRt *rt);
/* Whether it does, and reads nothing of the mirror: what is uploaded now is for
 * the next step. */
bool rt_device_runs_beside(const ParcRt *rt);
/* Whether a step whose loss is not finite, without a loss scale, has updated
 * nothing, and can be gone through again with each result looked at. */
bool rt_device_repeats(const ParcRt *rt);

/* What the step leaves for the host: f32 scalars, RT_RESULTS at most. Asked for
 * right behind the step, before anything is uploaded for the next one, which
 * may lie where they do; in the mirror when rt_device_results returns. */
enum { RT_RESULTS = 2 };
void rt_device_ask(ParcRt *rt, int64_t offset);
void rt_device_results(ParcRt *rt);

/* Flops a second that the devices of all ranks could do at best; 0: that is not
 * known. */
double rt_device_peak_flops(const ParcRt *rt);

/* Lines for --dry-run, to standard output: the rank's device, and the memory
 * there that is none of the arena. */
void rt_device_print(const ParcRt *rt);

/* At the rank's end, opened or not. */
void rt_device_close(ParcRt *rt);

#endif
