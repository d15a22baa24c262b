/* engine.h: runs kernels of emitted CUDA programs on the host, for tests.
 *
 * A kernel compiled with parc_device_host.h runs block after block, a block's
 * threads as fibers. If it was compiled with -fsanitize=thread, every access is
 * checked against those of other threads (shadow.c). Errors are:
 *   - an access outside live device memory, the block's shared memory and the
 *     thread's own stack;
 *   - a read of shared memory that the block has not written;
 *   - two accesses to the same bytes by two threads, one of them a write,
 *     without a barrier between (block_barrier in a block, warp_barrier in a
 *     warp, nothing between blocks), in either order;
 *   - an access to shared memory that copy_async16_if is still writing.
 * In any build it is an error if lanes of a warp make different exchanges, or
 * if threads end while others wait at a barrier.
 *
 * Only one thread of a process may use the engine. Its state is global because
 * the compiler's callbacks have no context argument.
 */
#ifndef STANDIN_ENGINE_H
#define STANDIN_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

enum { STANDIN_MAX_ARGS = 64, STANDIN_MAX_THREADS = 1024 };

/* The table that tests/standin/build adds to the kernels: */
typedef struct StandinKernel {
    const char *name;
    void (*run)(void);
    int nargs;   /* pointers and int64_t */
    int threads; /* the argument of __launch_bounds__ */
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

/* Runs a launch and returns the number of errors; each is reported on stderr
 * (or to standin_hear). A launch ends at its first access out of bounds and
 * after a few other errors. */
int standin_launch(const StandinLaunch *l);

/* Runs a launch like standin_launch; if STANDIN_BARRIERS is set, also runs it
 * without each of its barriers (probe.c). */
int standin_launch_probing(const StandinLaunch *l);

/* The products of 16 x 8 x 16 elements on tensor cores of all launches so far. */
int64_t standin_products(void);

/* From now on errors are passed to `hear`; NULL: to stderr. */
void standin_hear(void (*hear)(void *ctx, const char *text), void *ctx);

/* Reports an error, formatted as by printf. */
__attribute__((format(printf, 1, 2))) void standin_error(const char *format,
                                                         ...);

/* ---- device memory ---- */

/* Allocates exactly `bytes` at a multiple of 512, filled with 0xff (NaN), with
 * unowned memory between allocations. NULL: more than the device has. Pinned
 * host memory comes from the same range. */
void *standin_alloc(int64_t bytes);
/* Addresses without memory; memory at such addresses, which standin_free frees and
 * which counts as allocated when standin_count says so. */
char *standin_reserve(int64_t bytes);
bool standin_map(char *at, int64_t bytes);
void standin_count(int64_t bytes);
void *standin_alloc_pinned(int64_t bytes);
/* False: not the beginning of a live allocation. */
bool standin_free(void *at);
/* Whether all of it is within one live allocation. */
bool standin_is_device(const void *at, int64_t bytes);
bool standin_is_pinned(const void *at, int64_t bytes);
/* Copies that involve an allocation of pinned memory: the number that is queued
 * and has not run, and the number that has written it. NULL: not pinned. */
typedef struct StandinPinned {
    int pending;
    uint32_t writes;
} StandinPinned;
StandinPinned *standin_pinned_use(const void *at);
/* Whether the address is in the range of device memory. */
bool standin_in_space(const void *at);
int64_t standin_allocated(void);
/* The bytes of memory that a device has. */
int64_t standin_capacity(void);

/* ---- barriers ---- */

/* A call of a barrier in a kernel: its return address, as the offset from the
 * kernel's beginning. */
typedef struct StandinSite {
    const StandinKernel *kernel;
    int64_t offset;
    bool warp;
} StandinSite;

/* Sites seen so far, in the order in which they were reached. */
int standin_sites(const StandinSite **site);
/* From now on this barrier does nothing; -1: all barriers work. */
void standin_skip_site(int site);

#endif
