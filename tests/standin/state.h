/* state.h: declares the engine's state, which its files share. */
#ifndef STANDIN_STATE_H
#define STANDIN_STATE_H

#include "engine.h"
#include "fiber.h"

/* The position of the running thread. Time is counted in ticks of the process:
 * one for each block, each block barrier that opens and each warp barrier that
 * opens. Another thread's access at tick a is ordered before one of this thread
 * if it is of the same block and a < barrier, or of the same warp and
 * a < warp_barrier. */
typedef struct Now {
    uint32_t tick;
    uint32_t launch;       /* tick at which the launch began */
    uint32_t block;        /* … the block began */
    uint32_t barrier;      /* … the last block barrier opened */
    uint32_t warp_barrier; /* … the last barrier of the warp or block opened */
    int thread;
    int64_t block_index;
    int epoch;             /* number of block barriers so far, for messages */
    const StandinLaunch *call;
    char *shared;          /* dynamic shared memory of the block */
    int errors;            /* errors of this launch */
} Now;

extern Now standin_now;

/* The 32 lanes of a warp exchange values. A lane stores its operands in slot
 * engine_slot (0 or 1) before the exchange and can still read them after it.
 * engine_exchange returns when all lanes have called it: true for the last
 * lane, which runs first and lets the others continue with engine_release. */
enum ExchangeKind {
    EXCHANGE_SHUFFLE,
    EXCHANGE_MMA,
    EXCHANGE_ROWS,
    EXCHANGE_BARRIER,
};
int engine_slot(void);
bool engine_exchange(enum ExchangeKind kind, const void *site);
void engine_release(void);

/* Ends the launch from within a thread. */
_Noreturn void engine_abandon(void);
/* Counts an error of the launch, and ends it after a few. */
void engine_count_error(void);
/* "kernel k07_x, block 3, thread 5", in the caller's buffer. */
const char *engine_where(char *to, int bytes);
/* "k07_x+0x24 (file.cu:12)": the position of an instruction. */
const char *engine_place(char *to, int bytes, const void *pc);

/* The history of shared memory is stored after that of device memory. */
void shadow_open(char *stacks, int64_t stacks_bytes);
void shadow_bind_shared(const StandinLaunch *l, char *dynamic);
void shadow_async_begin(const void *at, int bytes, const void *pc);
void shadow_async_end(const void *at, int bytes, const void *pc);
void shadow_read(const void *at, int bytes, const void *pc);

/* Asynchronous copies of a thread (warp.c). */
void warp_begin_block(int threads);

/* The first address of device memory (memory.c). */
extern char *memory_base;
enum { MEMORY_SPACE_BITS = 35 };
void memory_open(void);
/* The live allocation that contains `at`. */
bool memory_piece(const void *at, char **from, int64_t *bytes);
/* Copies all live memory, and restores it; free() the copy. */
void *memory_save(void);
void memory_restore(const void *saved);

#endif
