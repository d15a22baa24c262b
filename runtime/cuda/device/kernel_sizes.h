/* kernel_sizes.h: defines the sizes on which hand-written kernels agree with
 * the host, which plans and launches them. Both include it, so it includes no
 * file and has no functions. */
#ifndef PARC_KERNEL_SIZES_H
#define PARC_KERNEL_SIZES_H

enum {
    PARC_WARP = 32,
    KERNEL_THREADS = 256, /* of a block; attention's kernels have their own */
    COPY_TILE = 32, /* rows and columns of a transposing copy's tile */
    LOOKUP_ROWS = 128, /* maximum rows of a table in a block that sums them */
    SORT_TILE = 2048, /* keys that a block sorts in shared memory */
    TOPK_FEW = 16, TOPK_SHORT = 1024, /* n and width for which a warp finds n elements */
};

/* The types of attention's tiles. In the macros below, `type` may also be
 * whether elements have 16 bits. */
enum { TILE_F32, TILE_BF16, TILE_F16 };

/* Columns of a tile with its padding, if blocks process `parts` equal parts of
 * them; and elements of its rows: an odd number of 16-byte units. */
#define ATTENTION_STEP(type) ((type) == TILE_F32 ? 4 : 16)
#define ATTENTION_COLUMNS(type, width, parts)                                  \
    ((((width) + (parts) - 1) / (parts) + ATTENTION_STEP(type) - 1) /          \
     ATTENTION_STEP(type) * ATTENTION_STEP(type) * (parts))
#define ATTENTION_ROW(type, columns)                                           \
    ((type) == TILE_F32 ? ((columns) / 4 | 1) * 4 : (columns) + 8)

/* Elements of a row of weights through which the lanes of a warp exchange them,
 * in f32. */
#define ATTENTION_WEIGHT_ROW(columns) ((columns) + 4)

/* Grouped matmuls: columns of a tile; buffers for parts of the operands; tiles of rows that
 * blocks compute before the next columns. */
enum { GROUPED_COLUMNS = 128, GROUPED_STAGES = 3, GROUPED_BAND = 8 };
/* Elements of the sums that a part has; elements of its tiles of a and b, for what is computed
 * (ParcGroupedResult). */
#define GROUPED_DEPTH(type) ((type) == TILE_F32 ? 16 : 32)
#define GROUPED_A_TILE(kind, type, rows)                                       \
    ((kind) == 2 ? GROUPED_DEPTH(type) * ATTENTION_ROW(type, rows)             \
                 : (rows) * ATTENTION_ROW(type, GROUPED_DEPTH(type)))
#define GROUPED_B_TILE(kind, type)                                             \
    ((kind) == 0 ? GROUPED_COLUMNS * ATTENTION_ROW(type, GROUPED_DEPTH(type))  \
                 : GROUPED_DEPTH(type) * ATTENTION_ROW(type, GROUPED_COLUMNS))

#endif
