/* engine.h: kernels of emitted CUDA programs, on the host, for tests.
 *
 * A kernel compiled with parc_device_host.h runs block after block, a block's
 * threads as fibers. Where it was compiled with -fsanitize=thread, every
 * access is held against what the other threads did (shadow.c):
 *   - memory that is no live device memory, the block's shared memory or the
 *     thread's own stack;
 *   - shared memory that is read before the block wrote it;
 *   - two accesses to the same bytes by two threads, one of them a write,
 *     with no barrier between (block_barrier in a block, warp_barrier in a
 *     warp, nothing between blocks), in whichever order they came;
 *   - shared memory that copy_async16 is still writing to.
 * The lanes of a warp that disagree on what they do together, and threads
 * that end while others wait at a barrier, are errors in any build.
 *
 * The engine belongs to one thread of a process. Its state is global because
 * the compiler's callbacks carry none.
 */
#ifndef STANDIN_ENGINE_H
#define STANDIN_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

enum { STANDIN_MAX_ARGS = 64, STANDIN_MAX_THREADS = 1024 };

/* What tests/standin/build puts beside the kernels: */
typedef struct StandinKernel {
    const char *name;
    void (*run)(void);
    int nargs;   /* pointers and int64_t */
    int threads; /* of __launch_bounds__ */
} StandinKernel;

typedef struct StandinModule {
    const StandinKernel *kernel;
    int nkernels;
    char *shared, *shared_end; /* PARC_SHARED arrays */
} StandinModule;

typedef struct StandinLaunch {
    const StandinModule *module;
    const StandinKernel *kernel;
    int64_t grid;
    int block;
    int64_t shared_bytes;
    int64_t arg[STANDIN_MAX_ARGS];
} StandinLaunch;

/* Runs it; the number of errors, each told on stderr (or to standin_hear).
 * A launch ends at its first access out of bounds and after a few others. */
int standin_launch(const StandinLaunch *l);

/* The same; where STANDIN_BARRIERS asks for it, also without each of its
 * barriers (probe.c). */
int standin_launch_probing(const StandinLaunch *l);

/* Errors go to `hear` from here on; NULL: to stderr. */
void standin_hear(void (*hear)(void *ctx, const char *text), void *ctx);

/* Says that something is wrong, in the words of printf. */
__attribute__((format(printf, 1, 2))) void standin_error(const char *format,
                                                         ...);

/* ---- device memory ---- */

/* Exactly `bytes`, at a multiple of 512, filled with 0xff (NaN), with
 * memory between that nobody owns. NULL: more than the device has. Memory
 * of the host that the device sees (pinned) comes from the same place. */
void *standin_alloc(int64_t bytes);
void *standin_alloc_pinned(int64_t bytes);
/* False: not the beginning of live device memory. */
bool standin_free(void *at);
/* All of it in one piece of live device memory. */
bool standin_is_device(const void *at, int64_t bytes);
bool standin_is_pinned(const void *at, int64_t bytes);
/* Copies between the device and a piece of pinned memory: how many are queued
 * and have not run, and how many have written it. NULL: it is none. */
typedef struct StandinPinned {
    int pending;
    uint32_t writes;
} StandinPinned;
StandinPinned *standin_pinned_use(const void *at);
/* Somewhere in the addresses that device memory is given. */
bool standin_in_space(const void *at);
int64_t standin_allocated(void);
/* What a device has. */
int64_t standin_capacity(void);

/* ---- barriers ---- */

/* A place in a kernel that calls a barrier: a return address, told as the
 * offset from the kernel's beginning. */
typedef struct StandinSite {
    const StandinKernel *kernel;
    int64_t offset;
    bool warp;
} StandinSite;

/* Sites seen so far, in the order in which they were reached. */
int standin_sites(const StandinSite **site);
/* That site does nothing from here on; -1: all do. */
void standin_skip_site(int site);

#endif
