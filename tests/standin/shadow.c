/* shadow.c: records the accesses to every two bytes of device and shared
 * memory, in the compiler's callbacks, and detects races.
 *
 * A cell, the record of two bytes, has their last write and latest reads in the
 * current launch. Time is in ticks (state.h). Older accesses do not matter, as
 * streams order launches.
 * Reads are recorded as one thread and flags:
 *   - other blocks read it: any write races with that;
 *   - several warps read it since the block's last barrier: any write before
 *     the next one races;
 *   - several lanes of the reader's warp read it since the warp's last
 *     barrier: any write before the next one races.
 * This loses no race and reports no false one, as long as threads do not share
 * the two bytes of a cell.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine.h"
#include "hazard.h"
#include "state.h"

enum {
    THREAD = 0x3ff,
    OTHER_BLOCKS = 0x8000, /* flags of `reader` */
    WARPS = 0x4000,
    LANES = 0x2000,
    ARRIVING = 0x8000, /* flag of `writer`: an asynchronous copy */
    CELL = 2,          /* bytes */
};

typedef struct Cell {
    uint32_t written, read; /* ticks */
    uint16_t writer, reader;
} Cell;

static struct {
    Cell *device, *fixed, *dynamic;
    char *fixed_at, *dynamic_at;
    int64_t fixed_bytes, dynamic_bytes;
    char *piece; /* the allocation of the last access to device memory */
    int64_t piece_bytes;
    uintptr_t stacks, stacks_bytes; /* threads' stacks: each is private */
} shadow;

enum { MOST_SHARED = 1 << 20 };

static void *reserve(int64_t bytes)
{
    void *p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        fprintf(stderr, "standin: shadow memory: %s\n", strerror(errno));
        abort();
    }
    return p;
}

void shadow_open(char *stacks, int64_t stacks_bytes)
{
    shadow.stacks = (uintptr_t)stacks;
    shadow.stacks_bytes = (uintptr_t)stacks_bytes;
    int64_t cells = ((int64_t)1 << MEMORY_SPACE_BITS) / CELL;
    shadow.device = reserve(cells * (int64_t)sizeof(Cell));
    shadow.fixed = reserve(MOST_SHARED / CELL * (int64_t)sizeof(Cell));
    shadow.dynamic = reserve(MOST_SHARED / CELL * (int64_t)sizeof(Cell));
}

void shadow_bind_shared(const StandinLaunch *l, char *dynamic)
{
    shadow.fixed_at = l->module->shared;
    shadow.fixed_bytes = l->module->shared_end - l->module->shared;
    if (shadow.fixed_bytes > MOST_SHARED) {
        standin_error("more than 1 MiB of static shared memory in a module");
        abort();
    }
    shadow.dynamic_at = dynamic;
    shadow.dynamic_bytes = l->shared_bytes;
    shadow.piece_bytes = 0;
}

/* ---- messages ---- */

typedef struct Access {
    const void *pc;
    uintptr_t at;
    int bytes;
    bool write;
} Access;

static void describe(char *to, int capacity, uintptr_t at)
{
    if (at - (uintptr_t)shadow.fixed_at < (uintptr_t)shadow.fixed_bytes)
        snprintf(to, (size_t)capacity, "static shared memory + 0x%llx",
                 (unsigned long long)(at - (uintptr_t)shadow.fixed_at));
    else if (at - (uintptr_t)shadow.dynamic_at <
             (uintptr_t)shadow.dynamic_bytes)
        snprintf(to, (size_t)capacity, "shared memory + %llu",
                 (unsigned long long)(at - (uintptr_t)shadow.dynamic_at));
    else if (shadow.piece_bytes)
        snprintf(to, (size_t)capacity, "device memory %p (allocation + %llu)",
                 (void *)at,
                 (unsigned long long)(at - (uintptr_t)shadow.piece));
    else
        snprintf(to, (size_t)capacity, "%p", (void *)at);
}

static void complain(const Access *a, const char *why)
{
    char where[200], place[400], what[200];
    Now *n = &standin_now;
    describe(what, sizeof what, a->at);
    standin_error("%s %s %d bytes at %s, %s (barriers before: %d; at %s)",
                  engine_where(where, sizeof where),
                  a->write ? "writes" : "reads", a->bytes, what, why, n->epoch,
                  engine_place(place, sizeof place, a->pc));
    engine_count_error();
}

static void race(const Access *a, const char *did, uint16_t thread,
                 uint32_t tick)
{
    char why[100];
    Now *n = &standin_now;
    if (tick < n->block)
        snprintf(why, sizeof why, "which another block %s", did);
    else if ((thread & THREAD) == n->thread)
        snprintf(why, sizeof why, "which other threads %s, with no barrier "
                 "between", did);
    else
        snprintf(why, sizeof why, "which thread %d %s, with no barrier "
                 "between", thread & THREAD, did);
    complain(a, why);
}

static _Noreturn void outside(const Access *a, const char *why)
{
    complain(a, why);
    engine_abandon();
}

/* ---- cells ---- */

/* The error of an access. */
typedef enum Fault {
    FINE, NOT_LANDED, OTHERS_WROTE, OTHERS_READ, OTHER_BLOCKS_READ, NOT_SET,
} Fault;

/* Whether an access of that thread at that tick, in this launch, is ordered
 * before an access of this thread. */
static inline bool ordered(const Now *n, uint32_t tick, int thread)
{
    if (tick < n->block)
        return false;
    return thread == n->thread || tick < n->barrier ||
           (thread / 32 == n->thread / 32 && tick < n->warp_barrier);
}

/* Below, `since` is the first tick from which a cell's history counts: the
 * block's for shared memory, the launch's for device memory. */
static inline Fault see_write(const Now *n, uint32_t since, const Cell *c)
{
    if (c->written < since)
        return FINE;
    if (c->writer & ARRIVING)
        return NOT_LANDED;
    return ordered(n, c->written, c->writer & THREAD) ? FINE : OTHERS_WROTE;
}

/* The flags for the cell's readers other than this one. */
static inline uint16_t reader_flags(const Now *n, uint32_t since,
                                    const Cell *c)
{
    int reader = c->reader & THREAD;
    if (c->read < since)
        return 0;
    if (c->read < n->block)
        return OTHER_BLOCKS;
    if (c->read < n->barrier)
        return c->reader & OTHER_BLOCKS;
    uint16_t flags = c->reader & (OTHER_BLOCKS | WARPS);
    if (reader / 32 != n->thread / 32)
        flags |= WARPS;
    else if (c->read >= n->warp_barrier &&
             (c->reader & LANES || reader != n->thread))
        flags |= LANES;
    return flags;
}

static inline Fault cell_read(const Now *n, Cell *c, bool shared)
{
    uint32_t since = shared ? n->block : n->launch;
    if (c->read == n->tick && (c->reader & THREAD) == n->thread)
        return FINE;
    Fault f = see_write(n, since, c);
    if (f != FINE)
        return f;
    if (shared && c->written < since)
        return NOT_SET;
    c->reader = (uint16_t)(n->thread | reader_flags(n, since, c));
    c->read = n->tick;
    return FINE;
}

/* Whether a barrier separates all other threads' reads from this write. */
static inline Fault see_reads(const Now *n, uint32_t since, const Cell *c)
{
    int reader = c->reader & THREAD;
    if (c->read < since)
        return FINE;
    if (c->read < n->block || c->reader & OTHER_BLOCKS)
        return OTHER_BLOCKS_READ;
    if (c->read < n->barrier)
        return FINE;
    return c->reader & WARPS || reader / 32 != n->thread / 32 ||
                   (c->read >= n->warp_barrier &&
                    (c->reader & LANES || reader != n->thread))
               ? OTHERS_READ : FINE;
}

static inline Fault cell_write(const Now *n, Cell *c, bool shared,
                               uint16_t flags)
{
    uint32_t since = shared ? n->block : n->launch;
    Fault f = see_write(n, since, c);
    if (f == FINE)
        f = see_reads(n, since, c);
    if (f == FINE) {
        c->written = n->tick;
        c->writer = (uint16_t)(n->thread | flags);
    }
    return f;
}

/* Reports a fault; the cell then belongs to the later access. */
__attribute__((noinline, cold)) static void report(const Access *a, Fault f,
                                                   Cell *c)
{
    const Cell was = *c;
    c->written = a->write ? standin_now.tick : 0;
    c->read = a->write ? 0 : standin_now.tick;
    c->writer = c->reader = (uint16_t)standin_now.thread;
    switch (f) {
    case FINE: break;
    case NOT_LANDED:
        complain(a, "where an asynchronous copy has not landed");
        break;
    case NOT_SET: complain(a, "which the block has not written"); break;
    case OTHERS_WROTE: race(a, "wrote", was.writer, was.written); break;
    case OTHERS_READ: race(a, "reads", was.reader, was.read); break;
    case OTHER_BLOCKS_READ: race(a, "reads", was.reader, 0); break;
    }
}

static inline bool within(uintptr_t in, int bytes, int64_t size)
{
    return in < (uintptr_t)size && (uintptr_t)bytes <= (uintptr_t)size - in;
}

/* The cells of an access outside shared memory and the last allocation. NULL if
 * the memory is not checked (constants). Ends the launch if the address belongs
 * to no allocation. */
__attribute__((noinline)) static Cell *cells_elsewhere(const Access *a)
{
    if (memory_piece((const void *)a->at, &shadow.piece,
                     &shadow.piece_bytes) &&
        within(a->at - (uintptr_t)shadow.piece, a->bytes, shadow.piece_bytes))
        return shadow.device + (a->at - (uintptr_t)memory_base) / CELL;
    Dl_info in, kernel;
    if (!a->write && !standin_in_space((void *)a->at) &&
        dladdr((void *)a->at, &in) &&
        dladdr((void *)(uintptr_t)standin_now.call->kernel->run, &kernel) &&
        in.dli_fbase == kernel.dli_fbase)
        return NULL;
    outside(a, "which is not the kernel's");
}

static inline Cell *cells_of(const Access *a, bool *shared)
{
    uintptr_t in = a->at - (uintptr_t)shadow.dynamic_at;
    *shared = true;
    if (within(in, a->bytes, shadow.dynamic_bytes))
        return shadow.dynamic + in / CELL;
    in = a->at - (uintptr_t)shadow.fixed_at;
    if (within(in, a->bytes, shadow.fixed_bytes))
        return shadow.fixed + in / CELL;
    *shared = false;
    in = a->at - (uintptr_t)shadow.piece;
    if (within(in, a->bytes, shadow.piece_bytes))
        return shadow.device + (a->at - (uintptr_t)memory_base) / CELL;
    return cells_elsewhere(a);
}

__attribute__((noinline, cold)) static void report_hazard(const Access *a,
                                                          const char *text)
{
    char place[400];
    standin_error("%s; at %s", text, engine_place(place, sizeof place, a->pc));
    engine_count_error();
}

/* `align` and `bytes` are constants of the callback. */
__attribute__((always_inline)) static inline void
look(uintptr_t at, int bytes, bool write, int align, uint16_t flags,
     const void *pc)
{
    if (at - shadow.stacks < shadow.stacks_bytes)
        return;
    Now *n = &standin_now;
    Access a = {pc, at, bytes, write};
    bool shared;
    char other[400];
    if (at & (uintptr_t)(align - 1))
        outside(&a, "which is not aligned to its size");
    Cell *c = cells_of(&a, &shared);
    if (!c)
        return;
    if (!shared && hazard_access(at, bytes, write, other, sizeof other)) {
        report_hazard(&a, other);
        return;
    }
    int cells = align == bytes && bytes >= CELL
                    ? bytes / CELL
                    : (int)((at + (uintptr_t)bytes - 1) / CELL - at / CELL) + 1;
    for (int i = 0; i < cells; i++) {
        Fault f = write ? cell_write(n, c + i, shared, flags)
                        : cell_read(n, c + i, shared);
        if (f != FINE) {
            report(&a, f, c + i);
            return;
        }
    }
}

void shadow_read(const void *at, int bytes, const void *pc)
{
    look((uintptr_t)at, bytes, false, bytes, 0, pc);
}

void shadow_async_begin(const void *at, int bytes, const void *pc)
{
    look((uintptr_t)at, bytes, true, bytes, ARRIVING, pc);
}

/* A copy that has arrived counts as the thread's own write from now on. */
void shadow_async_end(const void *at, int bytes, const void *pc)
{
    Access a = {pc, (uintptr_t)at, bytes, true};
    bool shared;
    Cell *c = cells_of(&a, &shared);
    for (int i = 0; c && i < bytes / CELL; i++) {
        c[i].written = standin_now.tick;
        c[i].writer = (uint16_t)standin_now.thread;
    }
}

/* ---- the compiler's callbacks (gcc -fsanitize=thread) ---- */

#define PC __builtin_return_address(0)
#define ACCESS(bytes)                                                          \
    void __tsan_read##bytes(void *at)                                          \
    {                                                                          \
        look((uintptr_t)at, bytes, false, bytes, 0, PC);                       \
    }                                                                          \
    void __tsan_write##bytes(void *at)                                         \
    {                                                                          \
        look((uintptr_t)at, bytes, true, bytes, 0, PC);                        \
    }                                                                          \
    void __tsan_unaligned_read##bytes(void *at)                                \
    {                                                                          \
        look((uintptr_t)at, bytes, false, 1, 0, PC);                           \
    }                                                                          \
    void __tsan_unaligned_write##bytes(void *at)                               \
    {                                                                          \
        look((uintptr_t)at, bytes, true, 1, 0, PC);                            \
    }
#define DECLARE(bytes)                                                         \
    void __tsan_read##bytes(void *);                                           \
    void __tsan_write##bytes(void *);                                          \
    void __tsan_unaligned_read##bytes(void *);                                 \
    void __tsan_unaligned_write##bytes(void *);
DECLARE(1) DECLARE(2) DECLARE(4) DECLARE(8) DECLARE(16)
ACCESS(1) ACCESS(2) ACCESS(4) ACCESS(8) ACCESS(16)

void __tsan_init(void);
void __tsan_read_range(void *at, long bytes);
void __tsan_write_range(void *at, long bytes);
void __tsan_func_entry(void *pc);
void __tsan_func_exit(void);

void __tsan_init(void) {}
void __tsan_func_entry(void *pc) { (void)pc; }
void __tsan_func_exit(void) {}

void __tsan_read_range(void *at, long bytes)
{
    look((uintptr_t)at, (int)bytes, false, 1, 0, PC);
}

void __tsan_write_range(void *at, long bytes)
{
    look((uintptr_t)at, (int)bytes, true, 1, 0, PC);
}
