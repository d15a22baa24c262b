/* device.h: declares the functions that a target implements for the
 * runtime. cpu/ and cuda/ each have one implementation.
 *
 * A rank has a host mirror of its arena, rt->arena, in memory that all ranks
 * of the node map. The host initializes parameters there, writes batches and
 * scalars, and reads losses and weights. The step computes in the arena
 * parc_arena(rt). On the CPU both are the same memory and the copies below do
 * nothing; with a device, the runtime calls them after it writes and before it
 * reads the mirror.
 *
 * Offsets and sizes are bytes of the arena. Offsets beyond its end are tensors
 * that the plan keeps in host memory; a device's target allocates separate
 * memory for them.
 */
#ifndef PARC_RT_DEVICE_H
#define PARC_RT_DEVICE_H

#include "rt.h"

/* An environment variable for users, as --help prints it. '\n' separates the
 * lines of `help`. */
typedef struct RtVariable {
    const char *name, *help;
} RtVariable;

/* Variables that only this target reads; the last entry has no name. */
extern const RtVariable rt_device_variables[];

/* Called first in a run. It may execute the program a second time, because
 * some libraries read the environment only when they are loaded. `threads`: as
 * the user requested, 0 as planned. */
void rt_device_begin(char **argv, const ParcModel *model, int64_t threads);

/* Bytes of this machine's memory that a rank needs to execute steps. *what:
 * their use, for messages. */
double rt_device_host_bytes(const ParcModel *model, int rank,
                            const char **what);

/* Called first in each rank's process: places its threads. */
void rt_device_place(const RtWorld *w, int rank);

/* Called after the fork in each rank that executes steps; the arena holds
 * zeros then. Ranks that only initialize, load, print or export weights open
 * no device; without a device the functions below do not change the mirror.
 * Ends the run with a message on failure. */
void rt_device_open(ParcRt *rt);

/* Copies from the mirror to the device. The bytes of the mirror are undefined
 * until the next download, because a target may free them. */
void rt_device_upload(ParcRt *rt, int64_t offset, int64_t bytes);

/* Copies from the device to the mirror, after all previously enqueued work.
 * The copy is complete on return. */
void rt_device_download(ParcRt *rt, int64_t offset, int64_t bytes);

/* The staging buffer of --save-async. rt_device_staging: `bytes` of host memory
 * to which the device copies at full rate; ends the run if there is not enough.
 * rt_device_stage: enqueues a copy from the arena, or from host memory beyond
 * its end, after the work that is enqueued; later work waits for the copy. It
 * is complete after rt_device_staged. */
char *rt_device_staging(ParcRt *rt, int64_t bytes);
void rt_device_staging_free(ParcRt *rt, char *at, int64_t bytes);
void rt_device_stage(ParcRt *rt, char *to, int64_t offset, int64_t bytes);
void rt_device_staged(ParcRt *rt);

/* Executes one step. It may still be running on return. */
void rt_device_step(ParcRt *rt);
/* Executes run() of a side program likewise (eval/eval.h). */
void rt_device_run(ParcRt *rt, const ParcProgram *e);
/* Whether a step may still be running after rt_device_step, and does not read
 * the mirror. An upload is then ordered before the next step. */
bool rt_device_runs_beside(const ParcRt *rt);
/* Whether a step with a non-finite loss and no loss scale has updated no
 * parameter. The runtime can then repeat it with a check of each result. */
bool rt_device_repeats(const ParcRt *rt);
/* In a traced step: action number i of the rank's stages begins. */
void rt_device_mark_action(ParcRt *rt, int64_t i);

/* Results of a step for the host: at most RT_RESULTS scalars in f32.
 * rt_device_ask is called right after the step, before an upload for the next
 * step can overwrite them. They are in the mirror after rt_device_results. */
enum { RT_RESULTS = 5 };
void rt_device_ask(ParcRt *rt, int64_t offset);
void rt_device_results(ParcRt *rt);

/* Peak flops per second of the devices of all ranks; 0: not known. */
double rt_device_peak_flops(const ParcRt *rt);

/* Prints lines for --dry-run to standard output: the rank's device, and its
 * memory outside the arena. */
void rt_device_print(const ParcRt *rt);

/* Called at the end of each rank, even if no device is open. */
void rt_device_close(ParcRt *rt);

#endif
