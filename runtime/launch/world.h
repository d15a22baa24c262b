/* world.h: declares the world of a run: its ranks, their arenas, synchronization,
 * and how a rank ends the run. */
#ifndef PARC_RT_WORLD_H
#define PARC_RT_WORLD_H

#include "rt.h"

/* ---- launch/mesh.c: what follows from the mesh and the sizes of a program
 * ---- */

/* rt_nranks: the number of ranks of the mesh, INT64_MAX on overflow.
 * rt_ranks_check: whether the runtime supports this number; false after a
 * message. */
int64_t rt_nranks(const ParcModel *model);
bool rt_ranks_check(const ParcModel *model);
enum { RT_MOST_RANKS = 1 << 20 };
/* Text of the mesh for messages: "dp=2 x tp=4". */
enum { RT_MESH = 256 };
const char *rt_mesh_text(const ParcModel *m, char text[RT_MESH]);
/* The number of ranks that differ only in `axes`. */
int64_t rt_group_size(const ParcModel *model, uint32_t axes);
int64_t rt_coord(const ParcModel *model, int rank, int axis);
/* Ranks between two neighbors on an axis. */
int64_t rt_stride(const ParcModel *model, int axis);
/* Those of the axes whose groups are on one node. */
uint32_t rt_axes_here(const ParcModel *model, uint32_t axes);
/* The rank's index in its group over `axes`: its coordinates, the first axis
 * major. */
int64_t rt_index(const ParcModel *model, int rank, uint32_t axes);
/* ---- launch/pipeline.c: the timetable of a coordinate of the pipeline ---- */

struct ParcPipeline;
struct ParcAction;
/* Its action number i; false: there are no more. */
bool rt_action(const struct ParcPipeline *p, int64_t coordinate, int64_t i,
               struct ParcAction *action);
/* The stage of an action: a rank with one stage has the number of its coordinate. */
int64_t rt_action_stage(const struct ParcAction *action, int64_t coordinate);
/* The number of its actions. */
int64_t rt_actions(const struct ParcPipeline *p, int64_t coordinate);

/* Whether two ranks differ only in `axes`. */
bool rt_in_group(const ParcModel *model, int rank, int other, uint32_t axes);
/* The size of the mirror, including shared segments or host memory. */
int64_t rt_arena_end(const ParcModel *model);
/* What a rank uses of it, ParcModel.ranges; NULL: all. */
const ParcRange *rt_ranges(const ParcModel *model, int rank);
/* The bytes that a rank counts, and that the rank counts which counts the most:
 * shared segments count in equal parts. */
int64_t rt_arena_counted(const ParcModel *model, int rank);
int64_t rt_arena_most(const ParcModel *model);
/* The name of a collective of the model, or of a synchronization point
 * (RT_AT_…), for messages. */
const char *rt_collective_name(const ParcModel *model, int id);

/* ---- launch/world.c: the memory of a run ---- */

/* Checks that enough memory is available and maps the world: for all ranks
 * that this process will fork, or with `launch` for its own rank of a job,
 * whose processes connect here. `runs`: the run executes steps. `staging`: bytes
 * of host memory that a rank needs for --save-async. False after a message. */
bool rt_world_open(RtWorld *w, const ParcModel *model, int threads,
                   const RtLaunch *launch, bool runs, int64_t staging);
void rt_world_close(RtWorld *w);
/* Whether collectives of this target read the arenas of peers in place. All
 * ranks must then be on one node. */
bool rt_collectives_share(void);

/* Runs `body` on every rank, each in its own process (a single rank runs in
 * this process). Returns the exit status of the run. */
typedef int RtBody(ParcRt *rt, void *context);
int rt_ranks_run(RtWorld *w, RtBody *body, void *context);

int rt_cores(void); /* number of CPUs that this process may use */

/* Sets the rank's arena and counts its bytes. */
void rt_arena_take(ParcRt *rt);

/* ---- launch/barrier.c: synchronization ---- */

/* rt_barrier: barrier of a group whose ranks share memory. rt_synchronize:
 * synchronization point of all ranks, on any nodes. */
void rt_barrier(ParcRt *rt, uint32_t axes);
void rt_synchronize(ParcRt *rt, int id);
/* rt_wait_change: waits while the word in shared memory has this value; ends
 * the run after the time limit, `late`: the rank that is late, or -1 to search
 * for it. rt_wake: the word has changed. */
void rt_wait_change(ParcRt *rt, _Atomic uint32_t *word, uint32_t value,
                    int late);
void rt_wake(_Atomic uint32_t *word);
/* Copies rank 0's `bytes` at `data` to all ranks. */
void rt_share(ParcRt *rt, int id, void *data, size_t bytes);

/* ---- launch/late_rank.c: states of ranks, for messages ---- */

/* "in step 7, after 'ar3'": the position of a rank. */
enum { RT_PROGRESS = 640 };
const char *rt_progress_text(const RtWorld *w, int rank,
                             char text[RT_PROGRESS]);
/* Why the wait of `rank` timed out: names the rank that the others wait for,
 * and its state. `first`: a rank that is known to be late, or -1. */
enum { RT_LATE = 1536 };
const char *rt_late_text(const RtWorld *w, int rank, int first,
                         char text[RT_LATE]);

/* Requests the state of the ranks that share no memory with this one, and
 * stores it in their statuses, for messages. Statuses without an answer keep
 * RT_STARTING. */
void rt_states_gather(ParcRt *rt);

/* ---- launch/fail.c: the end of a run that fails ---- */

/* Ends the run from within a rank. Only the first rank that fails prints its
 * message, because the others usually fail for the same reason. rt_fail
 * prefixes the message with "train: error: ", rt_fail_at does not. */
_Noreturn void rt_fail(ParcRt *rt, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
_Noreturn void rt_fail_at(ParcRt *rt, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Ends the run because rank 0 cannot write a file; the temporary files are
 * removed. */
_Noreturn void rt_fail_write(ParcRt *rt, const char *path, const char *error);
/* The value of an environment variable that is 0 or 1; `otherwise` if it is
 * not set. Any other value ends the run. */
bool rt_flag(ParcRt *rt, const char *name, bool otherwise);

/* ---- launch/memory.c: the memory that is available on this machine, and the
 * check before the first allocation ---- */

/* Available bytes; source: which limit this is, for messages. */
enum { RT_MEMORY_SOURCE = 448 };
typedef struct RtMemory {
    double bytes;
    char source[RT_MEMORY_SOURCE];
} RtMemory;

/* `root` is a prefix of /proc and /sys: "" for this machine, a directory in
 * tests. */
void rt_memory_available(RtMemory *m, const char *root);

/* The memory that the ranks on this machine need. */
typedef struct RtNeed {
    int64_t ranks;
    double each;        /* bytes per rank, on average */
    const char *what;   /* use of the memory: "the plan" */
    const char *advice; /* what to do; NULL: ask parc --device-memory */
} RtNeed;

/* Whether the need is at most the available memory; false after a message. */
bool rt_memory_fits(const RtNeed *need, const char *root);

/* Checks `ranks` ranks of a program, from `first` on. `runs`: steps or a dry run are executed;
 * otherwise the ranks only initialize, load and export weights. `staging`:
 * bytes of a rank's staging buffer. */
bool rt_memory_check(const RtWorld *w, int first, int ranks, bool runs,
                     int64_t staging);

#endif
