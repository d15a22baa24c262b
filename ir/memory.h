/* memory.h: the memory plan of a program: the address of every tensor of a
 * rank. The pass `memory` makes it.
 *
 * There is one arena with offsets fixed at compile time: persistent tensors
 * (shards of parameters, optimizer states, constants), inputs, and all that
 * lives for a part of the step. After the rank's own part of the arena follow
 * shared segments: the segment of a set of axes is one memory for all ranks
 * that differ only in these axes, and each rank counts an equal share of it.
 * The peak is the number of bytes that a rank counts; the lower bound is the
 * largest sum of live bytes at one time, with alignment and shares.
 */
#ifndef PARC_IR_MEMORY_H
#define PARC_IR_MEMORY_H

#include "ir/ir.h"

enum { MAX_LOOP_DEPTH = 5 };

/* The address of a value: the block's offset + the sum of stride[k] * layer of
 * loop[k]; if modulo[k] > 0, the layer is taken modulo that (buffers that
 * iterations use in rotation, of a prefetched gather for example). A value has
 * strides if it is a slice, or is written directly into its slice of a loop's
 * stacked result. */
typedef struct Address {
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
    /* The number of the MemoryPlan.rotation that has the modulo for the staged
     * loop by stage; 0: that in `modulo` is the same on all. */
    int rotation;
    /* The value is a result whose bytes are the operand's: of a gather or copy
     * that moves nothing, or of an embedding_add that copies nothing. */
    bool in_place;
} Address;

typedef enum MemoryClass {
    MEM_PARAMS,     /* shards of parameters */
    MEM_GRADS,      /* gradients of parameters, full or sharded */
    MEM_OPTIMIZER,  /* optimizer states */
    MEM_GATHERED,   /* parameters gathered for use */
    MEM_ACTIVATIONS,/* everything else, inputs and constants included */
    MEM_WORKSPACE,  /* scratch of ops */
    MEM_CLASSES
} MemoryClass;
extern const char *const memory_class_words[]; /* "params", … ends with NULL */

/* One block of the arena and its live range. Times count ops in schedule
 * order; a value that is used in a loop but defined outside lives until the
 * loop ends. */
typedef struct Block {
    const char *name;  /* the value or op that it was made for */
    MemoryClass class;
    int64_t offset, bytes; /* bytes: aligned */
    uint32_t shared;       /* axes whose ranks share it; 0: none */
    int training;          /* in a side program: the block of the training
                            * step with the same bytes, plus 1; 0: none */
    int64_t counted;       /* bytes that a rank counts: if shared, its share */
    int first, last;
    bool host;         /* in host memory, whose addresses begin where the arena
                        * ends: not counted */
    int coordinate;    /* only this coordinate of a pipeline uses it, plus 1; 0:
                        * all ranks. Blocks of two coordinates may overlap */
    const int64_t *on; /* by coordinate: how many of the bytes it uses, the first
                        * ones; NULL: all */
} Block;

/* Whether some rank uses both blocks. */
static inline bool blocks_share_rank(const Block *a, const Block *b)
{
    return !a->coordinate || !b->coordinate || a->coordinate == b->coordinate;
}
/* How many bytes of the block the ranks at a coordinate use, and each counts. */
static inline int64_t block_bytes_on(const Block *b, int coordinate)
{
    return b->coordinate && b->coordinate != coordinate + 1 ? 0
           : b->on                                          ? b->on[coordinate]
                                                            : b->bytes;
}
static inline int64_t block_counted_on(const Block *b, int coordinate)
{
    int64_t bytes = block_bytes_on(b, coordinate);
    return b->counted == 0 || bytes == 0 ? 0 : bytes / (b->bytes / b->counted);
}

/* The memory shared by the ranks that differ only in `axes`. */
typedef struct Segment {
    uint32_t axes;
    int64_t offset, bytes;
    int64_t counted; /* bytes that a rank counts */
} Segment;

/* How many buffers each stage of a pipeline has, of tensors of a staged loop. Those
 * of a rank's stages follow one another. */
typedef struct Rotation {
    const int64_t *buffers; /* by stage */
} Rotation;

typedef struct MemoryPlan {
    int64_t peak, lower_bound;
    int64_t own;         /* bytes of the arena that only this rank uses */
    int64_t resident;    /* the first of them: what is kept between steps */
    Segment segment[MAX_AXES]; /* after these, consecutive */
    int nsegments;
    int64_t extent;      /* end of the last segment */
    int64_t at_peak[MEM_CLASSES]; /* bytes by class at the peak */
    int peak_time;
    int peak_coordinate; /* of the pipeline: it needs the most */
    int end;             /* one past the last time */
    Block *block;
    int nblocks;
    int64_t host;        /* bytes in host memory */
    int64_t alignment;   /* offsets are multiples of it */
    int64_t page;        /* … and ranges, offsets and bytes, of this; 0: no
                          * pipeline */
    Rotation *rotation;
    int nrotations;
} MemoryPlan;

/* The number of buffers that a stage has at the address along stride i; 0: no
 * rotation. */
int64_t address_modulo(const MemoryPlan *m, const Address *at, int i, int stage);

/* Whether both places have the same address in every iteration. */
bool address_equal(const Address *a, const Address *b);

/* Whether result i of op is in the memory of operand i, as a gather of shards
 * that the ranks share, a copy to the same place, or an embedding_add of its
 * first operand. */
bool place_is_operands(const MemoryPlan *m, const Op *op, int i);
/* Whether the value has a place whose in_place is set. */
bool value_in_place(const Value *v);
/* Whether op is an all_gather that moves nothing: all results are in place. */
bool gather_in_place(const Op *op);

#endif
