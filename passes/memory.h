/* memory.h: the memory plan: the address of every tensor of a rank.
 *
 * There is one arena with offsets fixed at compile time: persistent tensors
 * (shards of parameters, optimizer states, constants), inputs, and all that
 * lives for a part of the step. After the rank's own part of the arena follow
 * shared segments: the segment of a set of axes is one memory for all ranks
 * that differ only in these axes, and each rank counts an equal share of it.
 * The peak is the number of bytes that a rank counts; the lower bound is the
 * largest sum of live bytes at one time, with alignment and shares.
 *
 * The header also declares liveness.c and arena_pack.c.
 */
#ifndef PARC_PASSES_MEMORY_H
#define PARC_PASSES_MEMORY_H

#include "passes/pass.h"

enum { MAX_LOOP_DEPTH = 5 };

/* The address of a value: the block's offset + the sum of stride[k] * layer of
 * loop[k]; if modulo[k] > 0, the layer is taken modulo that (buffers that
 * iterations use in rotation, of a prefetched gather for example). A value has
 * strides if it is a slice, or is written directly into its slice of a loop's
 * stacked result. */
typedef struct Place {
    int block;      /* index into MemoryPlan.block; -1: no memory */
    int nstrides;
    const Op *loop[MAX_LOOP_DEPTH];
    int64_t stride[MAX_LOOP_DEPTH]; /* bytes */
    int64_t modulo[MAX_LOOP_DEPTH];
    /* A parameter that stays gathered: `row` is the distance of two layers in
     * bytes (0: contiguous); a shard begins at run `index` of its layer, where
     * index is the rank's over the axes `cut` (0: not a shard). */
    int64_t row, run;
    uint32_t cut;
} Place;

typedef enum MemoryClass {
    MEM_PARAMS,     /* shards of parameters */
    MEM_GRADS,      /* gradients of parameters, full or sharded */
    MEM_OPTIMIZER,  /* optimizer states */
    MEM_GATHERED,   /* parameters gathered for use */
    MEM_ACTIVATIONS,/* everything else, inputs and constants included */
    MEM_WORKSPACE,  /* scratch of ops */
    MEM_CLASSES
} MemoryClass;
/* memory_class.c */
const char *memory_class_name(MemoryClass c);
/* A 16-bit copy counts as parameter memory, other states as the optimizer's. */
MemoryClass memory_class_of_param(const Param *pm);
/* By value id, the class of a block that is made for the value. */
const MemoryClass *memory_classes(const Program *p);

/* One block of the arena and its live range. Times count ops in schedule
 * order; a value that is used in a loop but defined outside lives until the
 * loop ends. */
typedef struct Block {
    const char *name;  /* the value or op that it was made for */
    MemoryClass class;
    int64_t offset, bytes; /* bytes: aligned */
    uint32_t shared;       /* axes whose ranks share it; 0: none */
    int at;                /* in a forward program: the block of the training
                            * step with the same bytes, plus 1; 0: none */
    int64_t counted;       /* bytes that a rank counts: if shared, its share */
    int first, last;
    bool host;         /* in host memory, whose addresses begin where the arena
                        * ends: not counted */
} Block;

/* The memory shared by the ranks that differ only in `axes`. */
typedef struct Segment {
    uint32_t axes;
    int64_t offset, bytes;
    int64_t counted; /* bytes that a rank counts */
} Segment;

typedef struct MemoryPlan {
    int64_t peak, lower_bound;
    int64_t own;         /* bytes of the arena that only this rank uses */
    int64_t resident;    /* the first of them: what is kept between steps */
    Segment segment[MAX_AXES]; /* after these, consecutive */
    int nsegments;
    int64_t extent;      /* end of the last segment */
    int64_t at_peak[MEM_CLASSES]; /* bytes by class at the peak */
    int peak_time;
    int end;             /* one past the last time */
    Place *value;        /* by value id */
    int *workspace;      /* by op id: block, or -1 */
    Block *block;
    int nblocks;
    int64_t host;        /* bytes in host memory */
    const struct Ahead *ahead; /* hoisted statements */
} MemoryPlan;

/* Sets the bytes of a rank's own part of the arena; moves what follows it. In a
 * forward program the blocks of the training step have its offsets. */
void memory_set_arena(MemoryPlan *plan, const MemoryPlan *training,
                      int64_t own);

/* ---- liveness.c: times and views, shared by schedule and memory ---------- */

typedef struct Liveness {
    int *begin, *finish; /* by op id; they differ for loops only */
    int *last_use;       /* by value id; valid for roots: see live_root */
    int end;             /* one past the last time */
} Liveness;

/* A view shares its operand's memory: reshape, fold, unfold, finish_grad. */
bool live_is_view(OpKind kind);
/* The value whose memory v uses, within its region. */
Value *live_root(Value *v);
/* The value that a rank stores for v: for an einsum_shard its reduce_scatter's
 * result. */
const Value *live_made_as(const Value *v);
/* Whether operand i of a collective is made as a shard (einsum_shard); whether
 * any operand in the program is. */
bool live_is_shard(const Op *scatter, int i);
bool live_has_shards(const Program *p);
/* The shard, in v's region, of a parameter that stays gathered, if v is
 * gathered from it in place: v is the result of such a gather, or a stack of
 * such results of a loop. NULL: neither. */
Value *live_gathered_from(const Program *p, Value *v);
/* The shard of the parameter whose memory v uses, where the parameter stays
 * gathered: v is that shard, a layer of it, or gathered from either. NULL:
 * none. */
Value *live_kept_shard(const Program *p, Value *v);
/* Whether result i of a gather is in memory that its ranks share, each run
 * where its rank has written it; whether all results are, so that no data
 * moves. Both need the memory plan. */
bool memory_is_in_place(const Program *p, const Op *gather, int i);
bool memory_moves_nothing(const Program *p, const Op *op);
/* Whether op is an all-gather of parameters. */
bool live_is_unit_gather(const Op *op);
/* The number of buffers of a gather in a loop with a prefetch distance:
 * iterations in flight. An iteration gathers `units` units. The gather is
 * issued where the unit `prefetch` units earlier begins, and its result lives
 * until `during` units after its own begins: of prefetch + during + 1
 * consecutive units, every units-th is this one. */
int64_t live_prefetch_slots(const Op *gather);
void live_analyse(const Program *p, Liveness *l);

/* ---- arena_pack.c -------------------------------------------------------- */

/* Gives every block that is not shared, not in host memory and of no training
 * step an offset from `base` on such that blocks with overlapping live ranges do
 * not overlap; returns the end of the last. Blocks that live for all times until
 * `end` come first, up to *resident. Tries several orders of the others, keeps
 * the best, and improves it until it is near `bound`, the lower bound of what
 * is packed. */
int64_t arena_pack(Arena *scratch, Block *block, int n, int end, int64_t base,
                   int64_t bound, int64_t *resident);

/* Gives shared blocks their offsets, after plan->own; sets plan->segment and
 * plan->extent. */
void arena_lay_segments(MemoryPlan *plan);

/* The largest sum of counted bytes of blocks that are live at one time, and
 * that time. */
int64_t arena_lower_bound(const Block *block, int n, int end, int *when);

#endif
