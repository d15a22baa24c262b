/* memory.h: where every tensor of a rank lies.
 *
 * One arena, offsets fixed at compile time: first what persists (parameters'
 * shards, optimizer states, constants), then inputs and everything that lives
 * for a part of the step. The peak is the arena's size; the lower bound is
 * the largest sum of live bytes at one moment, alignment counted.
 */
#ifndef PARC_PASSES_MEMORY_H
#define PARC_PASSES_MEMORY_H

#include "passes/pass.h"

enum { MAX_LOOP_DEPTH = 3 };

/* The address of a value: the block's offset + the sum of stride[k] * layer
 * of loop[k] (modulo[k] > 0: layer mod that, the slots of a prefetched
 * gather). Strides stand where the value is a slice, or is written straight
 * into its slot of a loop's stacked result. */
typedef struct Place {
    int block;      /* index into MemoryPlan.block; -1: no memory */
    int nstrides;
    const Op *loop[MAX_LOOP_DEPTH];
    int64_t stride[MAX_LOOP_DEPTH]; /* bytes */
    int64_t modulo[MAX_LOOP_DEPTH];
} Place;

typedef enum MemoryClass {
    MEM_PARAMS,     /* shards of parameters */
    MEM_GRADS,      /* gradients of parameters, whole or sharded */
    MEM_OPTIMIZER,  /* states */
    MEM_GATHERED,   /* parameters gathered for use */
    MEM_ACTIVATIONS,/* everything else, inputs and constants included */
    MEM_WORKSPACE,  /* scratch of ops */
    MEM_CLASSES
} MemoryClass;
const char *memory_class_name(MemoryClass c);

/* One block of the arena and when it is in use. Times count ops in schedule
 * order; a value used inside a loop that it was defined outside of lives to
 * the loop's end. */
typedef struct Block {
    const char *name;  /* of the value or op that it was made for */
    MemoryClass class;
    int64_t offset, bytes; /* bytes: aligned */
    int first, last;
} Block;

typedef struct MemoryPlan {
    int64_t peak, lower_bound;
    int64_t at_peak[MEM_CLASSES]; /* bytes by class at the fullest moment */
    int peak_time;
    int end;             /* one past the last time */
    Place *value;        /* by value id */
    int *workspace;      /* by op id: block, or -1 */
    Block *block;
    int nblocks;
} MemoryPlan;

/* ---- liveness.c: times and views, shared by schedule and memory ---------- */

typedef struct Liveness {
    int *begin, *finish; /* by op id: equal but for loops */
    int *last_use;       /* by value id; kept on roots: see live_root */
    int end;             /* one past the last time */
} Liveness;

/* A view shares its operand's memory: reshape, finish_grad. */
bool live_is_view(OpKind kind);
/* The value whose memory v shows, within its region. */
Value *live_root(Value *v);
void live_analyse(const Program *p, Liveness *l);

/* ---- arena_pack.c -------------------------------------------------------- */

/* Gives every block an offset such that blocks with common times do not
 * overlap; returns the arena's size. Tries several orders, keeps the best. */
int64_t arena_pack(Arena *scratch, Block *block, int n);

/* The largest sum of bytes of blocks live at one time, and that time. */
int64_t arena_lower_bound(const Block *block, int n, int end, int *when);

#endif
