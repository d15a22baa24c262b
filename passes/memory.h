/* memory.h: where every tensor of a rank lies.
 *
 * One arena, offsets fixed at compile time: first what persists (parameters'
 * shards, optimizer states, constants), then inputs and everything that lives
 * for a part of the step. Behind the rank's own part of it lie segments that
 * it has in common with others: those of a set of axes are one memory for the
 * ranks that differ only in these. Of that a rank counts an equal share. The
 * peak is what a rank counts in all; the lower bound is the largest sum of live
 * bytes at one moment, alignment and shares counted.
 */
#ifndef PARC_PASSES_MEMORY_H
#define PARC_PASSES_MEMORY_H

#include "passes/pass.h"

enum { MAX_LOOP_DEPTH = 5 };

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
    /* A kept parameter: `row` bytes lead from one layer to the next (0: they
     * follow each other); a shard begins at run `index` of its layer, where
     * index is the rank's over the axes `cut` (0: no shard). */
    int64_t row, run;
    uint32_t cut;
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
const char *memory_class_name(MemoryClass c); /* these: memory_class.c */
/* Its 16-bit copy is a parameter's memory, other states are the optimizer's. */
MemoryClass memory_class_of_param(const Param *pm);
/* By value id, what a block made for the value counts as. */
const MemoryClass *memory_classes(const Program *p);

/* One block of the arena and when it is in use. Times count ops in schedule
 * order; a value used inside a loop that it was defined outside of lives to
 * the loop's end. */
typedef struct Block {
    const char *name;  /* of the value or op that it was made for */
    MemoryClass class;
    int64_t offset, bytes; /* bytes: aligned */
    uint32_t shared;       /* axes whose ranks have it in common; 0: none */
    int64_t counted;       /* of the bytes, by a rank: `shared`, its share */
    int first, last;
    bool host;         /* in host memory, whose addresses begin where the
                          arena's end: not counted */
} Block;

/* All that ranks which differ in `axes` have in common. */
typedef struct Segment {
    uint32_t axes;
    int64_t offset, bytes;
    int64_t counted; /* by a rank */
} Segment;

typedef struct MemoryPlan {
    int64_t peak, lower_bound;
    int64_t own;         /* bytes of the arena that are the rank's alone */
    Segment segment[MAX_AXES]; /* behind these, one after the other */
    int nsegments;
    int64_t extent;      /* where the last of them ends */
    int64_t at_peak[MEM_CLASSES]; /* bytes by class at the fullest moment */
    int peak_time;
    int end;             /* one past the last time */
    Place *value;        /* by value id */
    int *workspace;      /* by op id: block, or -1 */
    Block *block;
    int nblocks;
    int64_t host;        /* bytes in host memory */
    const struct Ahead *ahead; /* streams.h: what is issued ahead in there */
} MemoryPlan;

/* ---- liveness.c: times and views, shared by schedule and memory ---------- */

typedef struct Liveness {
    int *begin, *finish; /* by op id: equal but for loops */
    int *last_use;       /* by value id; kept on roots: see live_root */
    int end;             /* one past the last time */
} Liveness;

/* A view shares its operand's memory: reshape, fold, unfold, finish_grad. */
bool live_is_view(OpKind kind);
/* The value whose memory v shows, within its region. */
Value *live_root(Value *v);
/* What a rank makes of v: of an einsum_shard, what its reduce_scatter gives. */
const Value *live_made_as(const Value *v);
/* Whether operand i of a collective is made as a shard; whether any is. */
bool live_is_shard(const Op *scatter, int i);
bool live_has_shards(const Program *p);
/* The shard of a kept parameter, in v's region, that v is gathered from at
 * its own place: v is made by such a gather, or stacks what a loop gathers;
 * NULL: neither. */
Value *live_gathered_from(const Program *p, Value *v);
/* The shard of the kept parameter whose memory v lies in, as that shard, a
 * layer of it, or what is gathered of either; NULL: in none. */
Value *live_kept_shard(const Program *p, Value *v);
/* Whether result i of a gather lies in memory that its ranks share, each run
 * where its rank has written it; whether all do: nothing moves. Both ask the
 * memory plan. */
bool memory_is_in_place(const Program *p, const Op *gather, int i);
bool memory_moves_nothing(const Program *p, const Op *op);
/* A gather of parameters. */
bool live_is_unit_gather(const Op *op);
/* Of a gather in a loop that runs `prefetch` units ahead: how many turns'
 * results exist at a time. A turn gathers `units` units; the gather of a turn
 * is issued when the unit so many before it begins, and its result dies
 * `during` units behind its own beginning: of ahead + during + 1 units in a
 * row, every units-th is this one. */
int64_t live_prefetch_slots(const Op *gather);
void live_analyse(const Program *p, Liveness *l);

/* ---- arena_pack.c -------------------------------------------------------- */

/* Gives every block of the rank's own an offset such that blocks with common
 * times do not overlap; returns where the last ends. Tries several orders,
 * keeps the best, and works on it until it is near `bound`, the lower bound. */
int64_t arena_pack(Arena *scratch, Block *block, int n, int64_t bound);

/* Gives the others theirs, behind plan->own: plan->segment, plan->extent. */
void arena_lay_segments(MemoryPlan *plan);

/* The largest sum of bytes counted of blocks live at one time, and that time. */
int64_t arena_lower_bound(const Block *block, int n, int end, int *when);

#endif
