/* state.h: what the parts of the engine share. */
#ifndef STANDIN_STATE_H
#define STANDIN_STATE_H

#include "engine.h"
#include "fiber.h"

/* Where the running thread is. Time is counted in ticks of the process: each
 * block, each block barrier that opens and each warp barrier that opens is
 * one. An access at tick a of another thread is in order before one of this
 * thread if it is of the same block and a < barrier, or of the same warp and
 * a < warp_barrier. */
typedef struct Now {
    uint32_t tick;
    uint32_t launch;       /* tick at which the launch began */
    uint32_t block;        /* … the block */
    uint32_t barrier;      /* … the last block barrier of the block opened */
    uint32_t warp_barrier; /* … the last of the thread's warp, or barrier */
    int thread;
    int64_t block_index;
    int epoch;             /* barriers of the block so far, for messages */
    const StandinLaunch *call;
    char *shared;          /* dynamic: the block's */
    int errors;            /* of this launch */
} Now;

extern Now standin_now;

/* The 32 lanes of a warp meet: engine_slot is where (0 or 1) a lane leaves
 * what the next meeting is about and still finds it behind it; engine_exchange
 * returns when all lanes called it, true for the last of them, who runs first
 * and lets the others go on by engine_release. */
enum ExchangeKind {
    EXCHANGE_SHUFFLE,
    EXCHANGE_MMA,
    EXCHANGE_ROWS,
    EXCHANGE_BARRIER,
};
int engine_slot(void);
bool engine_exchange(enum ExchangeKind kind, const void *site);
void engine_release(void);

/* Ends the launch from inside a thread. */
_Noreturn void engine_abandon(void);
/* Counts an error of the launch, ends it after a few. */
void engine_count_error(void);
/* "kernel k07_x, block 3, thread 5" in a buffer of the caller's. */
const char *engine_where(char *to, int bytes);
/* "k07_x+0x24 (file.cu:12)": the place of an instruction. */
const char *engine_place(char *to, int bytes, const void *pc);

/* The shadow of shared memory lies behind that of device memory. */
void shadow_open(char *stacks, int64_t stacks_bytes);
void shadow_bind_shared(const StandinLaunch *l, char *dynamic);
void shadow_async_begin(const void *at, int bytes, const void *pc);
void shadow_async_end(const void *at, int bytes, const void *pc);
void shadow_read(const void *at, int bytes, const void *pc);

/* Copies of a thread that are under way (warp.c). */
void warp_begin_block(int threads);

/* Device memory's addresses (memory.c). */
extern char *memory_base;
enum { MEMORY_SPACE_BITS = 35 };
void memory_open(void);
/* The live piece that holds `at`. */
bool memory_piece(const void *at, char **from, int64_t *bytes);
/* A copy of all that is live, and back; free() it. */
void *memory_save(void);
void memory_restore(const void *saved);

#endif
