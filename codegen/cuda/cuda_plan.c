/* cuda_plan.c: chooses how a fused op runs on a GPU: threads, blocks, vectors,
 * and which values stay in registers or shared memory. The choice depends on
 * shapes and element types only, not on measurements, so that sums are the same
 * in every run.
 *
 *   y = x * rsqrt(mean(x * x)) * w      x: bf16[8, 256, 4096]
 *
 * becomes a row kernel: 2048 rows of 4096 columns. A thread accesses 16 bytes
 * at a time, 8 elements. Two phases need x, so it stays in registers: bf16
 * takes half a register per element. In a block of 128 threads each thread
 * processes 32 elements, in 4 strips of one vector each:
 *
 *   PARC_KERNEL(128) k14_norm(…)
 *   {
 *       const int t = thread_index();
 *       const int64_t i0 = block_index();
 *       uint32_t kept0[4][4];
 *       float r2 = 0.0f;
 *       for (int s = 0; s < 4; s++) {
 *           const int j = (s * 128 + t) * 8;
 *           parc_read_words(kept0[s], x + i0 * 4096 + j, 4);
 *           …  r2 += t1;
 *       }
 *       block_put(warp_sum(r2), sum2); block_barrier(); …
 *       for (int s = 0; s < 4; s++) {
 *           …  parc_write_bf16(y + i0 * 4096 + j, out1, 8);
 *
 * A row that does not fit in registers is kept in shared memory; each thread
 * accesses only its own columns there, so that no barrier is needed. A longer
 * row is re-read in each phase; kernel_online.c then removes phases that only
 * subtract a maximum. A row with which that leaves two phases is re-read even if
 * it fits in shared memory. Without row reductions the elements are one flat
 * range of vectors. With sums over rows each block gets a part of the rows; if
 * there are several parts, a second kernel, k14_norm_combine, adds them.
 *
 * If a kernel needs more shared memory than the smallest supported GPU has
 * (rt_block_memory.h), a second plan is made for that GPU. This variant,
 * k14_norm_low_shared, streams the row (re-reads it in each phase), or sums
 * columns in the workspace.
 */
#include "codegen/cuda/cuda_kernel.h"

#include "base/bug.h"
#include "runtime/cuda/core/rt_block_memory.h"

/* Sizes for an H100: 132 multiprocessors, each with 2 resident blocks or 1024
 * resident threads. */
enum {
    FILL_BLOCKS = 264,
    FILL_THREADS = 132 * MAX_THREADS,
    FLAT_THREADS = 256,
    HALF_THREADS = MAX_THREADS / 2,
    SUM_THREADS = 512,    /* most threads of a block of a flat kernel with
                           * sums */
    FLAT_RESIDENT = 1024, /* resident threads per multiprocessor for a flat
                           * kernel with sums: 64 registers for each thread */
    ROW_WARPS = 8,        /* most warps of a block if each warp processes one
                           * row at a time */
    SHORT_ROW = 1024,     /* most columns of a short row */
    SHORT_BLOCKS = 4,     /* times as many blocks process short rows */
    PART_WORK = 8192,     /* least elements in a part of the summed rows */
    MAX_ROW_FLOATS = 32,  /* most floats of a row in one thread's registers */
    MAX_ROW_FLOATS_1024 = 16, /* instead of MAX_ROW_FLOATS in a block of 1024
                               * threads, which have 64 registers each */
    MAX_STRIPS = 4,  /* most vectors of a row for one thread, if no values
                      * are kept and the block can have more threads */
    SUM_BYTES = 256, /* most static shared memory for one sum across warps:
                      * declare_sums in cuda_lower.c */
};

static int64_t divide_up(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

/* ---- sizes --------------------------------------------------------------- */

/* Sets tasks, rows, columns and lanes. space_build (passes/fusion/fuse_space.h)
 * splits a long axis into blocks for a CPU's cache; here the blocks are merged.
 */
static void set_sizes(CudaPlan *c)
{
    const Space *s = &c->k->space;
    c->inner = kernel_inner_axis(c->k);
    c->merged = s->block;
    uint32_t merged = s->block >= 0 ? 1u << s->block : 0;
    uint32_t pair = s->pair >= 0 ? 1u << s->pair : 0;
    c->length = c->inner >= 0 ? s->size[c->inner] : 1;
    if (s->block >= 0)
        c->length = (s->size[s->block] - 1) * SPACE_BLOCK +
                    (s->tail ? s->tail : SPACE_BLOCK);
    c->kept_axes = s->kept & ~merged;
    c->summed = s->summed & ~merged;
    c->outer = s->column & ~pair;
    if (c->inner >= 0)
        c->outer &= ~(1u << c->inner);
    c->tasks = space_size(s, c->kept_axes);
    c->rows = space_size(s, c->summed);
    c->columns = space_size(s, c->outer) * c->length;
    c->lanes = kernel_lanes(c->k, s->column);
}

/* ---- sums over all elements ---------------------------------------------- */

static bool is_used_once(const Kernel *k, int instr)
{
    int uses = 0;
    for (int i = 0; i < k->ninstrs; i++)
        for (int a = 0; a < k->instr[i].nargs; a++)
            uses += k->instr[i].code != KERNEL_REDUCE &&
                    k->instr[i].code != KERNEL_TOTAL &&
                    k->instr[i].arg[a] == instr;
    for (int r = 0; r < k->nroots; r++)
        uses += k->root[r].kind != ROOT_REDUCE && k->root[r].instr == instr;
    return uses == 1;
}

/* Replaces a total of row sums by one sum over all elements, so that the row
 * reduction is removed. */
static void fold_total(Kernel *k, KernelRoot *total)
{
    const KernelInstr *row = &k->instr[total->instr];
    if (total->kind != ROOT_TOTAL || row->code != KERNEL_REDUCE ||
        row->op != k->instr[total->target].op || !is_used_once(k, total->instr))
        return;
    int reduce = 0;
    while (k->root[reduce].kind != ROOT_REDUCE ||
           k->root[reduce].target != total->instr)
        reduce++;
    total->instr = k->root[reduce].instr;
    total->element = true;
    total->phase = k->root[reduce].phase;
    for (int r = reduce; r + 1 < k->nroots; r++)
        k->root[r] = k->root[r + 1];
    k->nroots--;
}

static void set_totals(CudaPlan *c)
{
    Kernel *k = c->k;
    for (int r = k->nroots; r-- > 0;)
        fold_total(k, &k->root[r]);
    c->uniform = NEW_ARRAY(c->p->arena, bool, k->ntotals + 1);
    c->totals = k->ntotals > 0;
    for (int r = 0; r < k->nroots; r++) {
        const KernelRoot *root = &k->root[r];
        if (!root->epilogue && root->phase >= c->nphases)
            c->nphases = root->phase + 1;
        if (root->kind == ROOT_TOTAL)
            c->uniform[k->instr[root->target].accumulator] = !root->element;
    }
    int64_t stride = 1;
    for (int a = k->space.naxes; a-- > 0;) {
        if (!(k->space.column >> a & 1) || a == c->merged)
            continue;
        for (int i = 0; i < k->ntotals; i++)
            k->total[i].stride[a] = stride;
        stride *= a == c->inner ? c->length : k->space.size[a];
    }
}

int cuda_column_totals(const CudaPlan *c)
{
    int n = 0;
    for (int i = 0; i < c->k->ntotals; i++)
        n += c->k->total[i].columns;
    return n;
}

static void set_form(CudaPlan *c)
{
    bool reduces = c->nphases > 1;
    for (int r = 0; r < c->k->nroots; r++)
        reduces |= c->k->root[r].kind == ROOT_REDUCE;
    c->form = reduces ? CUDA_ROWS : CUDA_FLAT;
    if (!reduces && cuda_column_totals(c))
        c->form = c->outer || cuda_column_totals(c) < c->k->ntotals
                      ? CUDA_ROWS
                      : CUDA_TILES;
    for (int i = 0; i < c->k->ntotals && c->form == CUDA_FLAT; i++)
        c->uniform[i] = false; /* only the thread of the row's first column
                                * adds the row's term */
}

/* ---- rows ---------------------------------------------------------------- */

/* Registers per element of the row for kept values and column sums; both lanes
 * of a pair count. */
static double live_floats(const CudaPlan *c)
{
    const Kernel *k = c->k;
    double floats = cuda_column_totals(c) * c->lanes;
    for (int i = 0; i < k->ninstrs; i++) {
        if (!c->on_chip[i])
            continue;
        bool half = k->instr[i].code == KERNEL_LOAD &&
                    dtype_size(k->instr[i].dtype) == 2;
        floats += kernel_lanes(k, k->instr[i].axes) * (half ? 0.5 : 1);
    }
    return floats;
}

/* Dynamic shared memory available to a block with `block_memory` in total. */
static int64_t dynamic_shared(const CudaPlan *c, int64_t block_memory)
{
    int sums = c->k->ntotals;
    for (int r = 0; r < c->k->nroots; r++)
        sums += c->k->root[r].kind == ROOT_REDUCE;
    return block_memory - (int64_t)sums * SUM_BYTES;
}

/* Assigns offsets in shared memory to kept values and column sums. */
static int64_t assign_shared_offsets(CudaPlan *c)
{
    const Kernel *k = c->k;
    int64_t bytes = 0;
    for (int i = 0; i < k->ninstrs; i++) {
        if (!c->on_chip[i])
            continue;
        bool half = k->instr[i].code == KERNEL_LOAD &&
                    dtype_size(k->instr[i].dtype) == 2;
        int64_t size = half ? 2 : dtype_size(k->instr[i].dtype);
        c->on_chip_at[i] = bytes;
        bytes += divide_up(c->columns * kernel_lanes(k, k->instr[i].axes) *
                               (size < 4 && !half ? 4 : size),
                           VECTOR_BYTES) *
                 VECTOR_BYTES;
    }
    c->sums_at = bytes;
    return bytes + cuda_column_totals(c) * c->columns * c->lanes * FLOAT_BYTES;
}

static int row_strips(const CudaPlan *c, int row_threads)
{
    return (int)divide_up(c->columns, (int64_t)row_threads * c->vector);
}

static bool exceeds_registers(const CudaPlan *c, int row_threads, double live)
{
    int64_t strips = divide_up(c->columns, (int64_t)row_threads * c->vector);
    if (live == 0)
        return strips > MAX_STRIPS;
    return (double)strips * c->vector * live >
           (row_threads < MAX_THREADS ? MAX_ROW_FLOATS : MAX_ROW_FLOATS_1024);
}

/* Whether the loads, random numbers, stores and sums of a phase, for two
 * vectors, use most of 64 registers. */
static bool has_high_register_pressure(const CudaPlan *c)
{
    enum { FLOATS = 48 };
    const Kernel *k = c->k;
    int most = 0;
    for (int p = 0; p < c->nphases; p++) {
        const KernelPhase *phase = &c->phase[p];
        int lanes = 0;
        for (int i = 0; i < phase->nelement; i++) {
            const KernelInstr *instr = &k->instr[phase->element[i].instr];
            if (!phase->element[i].reused &&
                (instr->code == KERNEL_LOAD || instr->code == KERNEL_RANDOM))
                lanes += kernel_lanes(k, instr->axes);
        }
        for (int r = 0; r < k->nroots; r++)
            if (k->root[r].phase == p && k->root[r].element &&
                !k->root[r].epilogue && k->root[r].kind != ROOT_REDUCE)
                lanes += c->lanes;
        most = lanes > most ? lanes : most;
    }
    return 2 * most * c->vector > FLOATS;
}

/* Plans a row that does not fit in the registers of a block: it is kept in shared
 * memory if it fits there, and else read again in each phase. It is also read again
 * if kernel_online.c leaves two phases: the second reads it mostly from the L2
 * cache, and blocks have 1024 threads. A row in shared memory has three phases, and
 * fewer threads are resident (GPT-2's loss takes 3.1 ms for 5.1 on an H100:
 * docs/cuda.md). */
static void plan_outside_registers(CudaPlan *c)
{
    int64_t most = dynamic_shared(c, c->block_memory),
            bytes = assign_shared_offsets(c);
    Kernel joined = *c->k;
    bool online = kernel_online(c->p, &joined);
    c->storage = CUDA_SHARED;
    if (bytes > most || (online && joined.nphases == 2)) {
        c->storage = CUDA_STREAMED;
        if (online) {
            *c->k = joined;
            c->nphases = joined.nphases;
        }
        cuda_plan_phases(c, CUDA_KEEP_NOTHING);
        bytes = assign_shared_offsets(c);
        c->global_sums = bytes > most;
        if (c->global_sums)
            bytes = 0;
    }
    c->shared_bytes = bytes;
    if (online && c->storage == CUDA_STREAMED && c->nphases == 2 &&
        !has_high_register_pressure(c)) {
        c->row_threads = MAX_THREADS;
        return;
    }
    /* In a block of 1024 threads each has 64 registers: in other kernels too few
     * to avoid spills. Without a requested number of blocks ptxas spills so that two
     * blocks of 512 threads fit, which also leaves 64. One resident block is
     * requested if the row is in shared memory or the register pressure is
     * high, where such spills occurred (tests/e2e/cuda_registers.sh). */
    c->row_threads = HALF_THREADS;
    c->min_blocks =
        c->storage == CUDA_SHARED || has_high_register_pressure(c) ? 1 : 0;
}

/* Whether each block processes many short rows, one after another. It has few bytes
 * in flight, and waits for them at the barriers of every row: the kernel has more
 * blocks, of fewer threads. */
static bool has_short_rows(const CudaPlan *c)
{
    return c->totals && c->columns * c->lanes <= SHORT_ROW;
}

/* Chooses the threads of a row and what they keep; returns whether that fits in
 * their registers. */
static bool fits_registers(CudaPlan *c, CudaKeeping keeping)
{
    cuda_plan_phases(c, keeping);
    double live = live_floats(c);
    c->row_threads = CUDA_WARP;
    while (c->row_threads < MAX_THREADS &&
           exceeds_registers(c, c->row_threads, live))
        c->row_threads *= 2;
    int64_t parallel_rows = c->totals ? FILL_BLOCKS : c->tasks;
    if (has_short_rows(c))
        parallel_rows *= SHORT_BLOCKS;
    while (c->row_threads < HALF_THREADS && row_strips(c, c->row_threads) > 1 &&
           parallel_rows * c->row_threads < FILL_THREADS)
        c->row_threads *= 2;
    return live == 0 || !exceeds_registers(c, c->row_threads, live);
}

static void set_rows(CudaPlan *c)
{
    if (!fits_registers(c, CUDA_READ_EARLY) &&
        !fits_registers(c, CUDA_KEEP_COSTLY))
        plan_outside_registers(c);
    int64_t rows = c->totals ? c->rows : c->tasks;
    c->block_rows = c->row_threads == CUDA_WARP ? ROW_WARPS : 1;
    while (c->block_rows > 1 && c->block_rows > rows)
        c->block_rows /= 2;
    c->strips = row_strips(c, c->row_threads);
    c->threads = c->row_threads * c->block_rows;
    if (c->storage == CUDA_REGISTERS) /* at most MAX_ROW_FLOATS in a thread */
        c->shared_bytes = c->block_rows == 1
                              ? 0
                              : c->block_rows * cuda_column_totals(c) *
                                    c->columns * c->lanes * FLOAT_BYTES;
}

static void set_tiles(CudaPlan *c)
{
    cuda_plan_phases(c, CUDA_KEEP_NOTHING);
    c->row_threads = CUDA_WARP;
    c->block_rows = ROW_WARPS;
    int64_t warp = (int64_t)cuda_column_totals(c) * CUDA_WARP * c->vector *
                   c->lanes * FLOAT_BYTES;
    while (c->block_rows > 1 &&
           (c->block_rows > c->rows ||
            c->block_rows * warp > dynamic_shared(c, RT_SHARED_MIN)))
        c->block_rows /= 2;
    c->strips = 1;
    c->threads = c->row_threads * c->block_rows;
    c->tiles = divide_up(c->columns, (int64_t)CUDA_WARP * c->vector);
    c->shared_bytes = c->block_rows * warp;
    if (c->block_rows == 1)
        c->shared_bytes = 0;
}

static void set_flat(CudaPlan *c)
{
    cuda_plan_phases(c, CUDA_KEEP_NOTHING);
    int64_t lines = (c->totals ? c->rows : c->tasks) * c->columns / c->length;
    int most = c->totals ? SUM_THREADS : FLAT_THREADS;
    c->items = lines * cuda_row_items(c);
    c->threads = most;
    if (c->items < most)
        c->threads = (int)divide_up(c->items, CUDA_WARP) * CUDA_WARP;
    c->row_threads = c->threads;
    c->block_rows = 1;
    c->strips = 1;
    /* If there is only one block, ptxas must not spill for a second one. */
    c->min_blocks = c->items <= most ? 1 : 0;
    if (c->totals)
        c->min_blocks = FLAT_RESIDENT / c->threads;
}

/* ---- blocks -------------------------------------------------------------- */

static int64_t at_least_one(int64_t n)
{
    return n < 1 ? 1 : n;
}

/* The number of parts of the summed rows: enough blocks to fill a GPU, each
 * with enough work. */
static void set_parts(CudaPlan *c)
{
    int64_t blocks = c->tasks * c->tiles;
    int64_t work = c->rows * c->columns * c->lanes;
    int64_t most = c->form == CUDA_FLAT ? divide_up(c->items, c->threads)
                                        : c->rows / c->block_rows;
    int64_t fill = FILL_BLOCKS;
    if (c->threads < HALF_THREADS)
        fill = fill * HALF_THREADS / c->threads;
    int times = has_short_rows(c) ? SHORT_BLOCKS : 2;
    if (c->form == CUDA_ROWS && fill > times * FILL_BLOCKS)
        fill = times * FILL_BLOCKS;
    c->parts = divide_up(fill, blocks);
    if (c->parts > work / c->tiles / PART_WORK)
        c->parts = work / c->tiles / PART_WORK;
    c->parts = at_least_one(c->parts < most ? c->parts : most);
}

static void set_grid(CudaPlan *c)
{
    if (c->totals)
        c->grid = c->tasks * c->tiles * c->parts;
    else if (c->form == CUDA_FLAT)
        c->grid = divide_up(c->items, c->threads);
    else
        c->grid = divide_up(c->tasks, c->block_rows);
}

static void set_workspace(CudaPlan *c)
{
    Kernel *k = c->k;
    int64_t floats = 0;
    c->combine = c->totals && (c->parts > 1 || c->global_sums);
    k->parts = c->parts;
    for (int i = 0; i < k->ntotals; i++) {
        k->total[i].direct = false;
        k->total[i].offset = floats;
        if (c->combine)
            floats +=
                divide_up(c->tasks * c->parts *
                              (k->total[i].columns ? c->columns * c->lanes : 1),
                          4) *
                4;
    }
    k->workspace = floats * FLOAT_BYTES;
    c->combine_grid = c->tasks;
    c->combine_warps = 1;
    if (!cuda_column_totals(c) && !k->ncolumn)
        return;
    c->combine_grid *= divide_up(c->columns, CUDA_WARP);
    while (c->combine_warps < CUDA_WARP && c->combine_warps * 4 < c->parts)
        c->combine_warps *= 2;
}

static CudaPlan *plan_with_shared_memory(const Program *p, const Op *fused,
                                         int64_t block_memory)
{
    CudaPlan *c = NEW(p->arena, CudaPlan);
    *c = (CudaPlan){.p = p,
                    .k = kernel_build_plain(p, fused),
                    .block_memory = block_memory,
                    .tiles = 1,
                    .parts = 1};
    set_sizes(c);
    set_totals(c);
    set_form(c);
    cuda_choose_vector(c, true);
    if (c->form == CUDA_FLAT)
        set_flat(c);
    else if (c->form == CUDA_TILES)
        set_tiles(c);
    else
        set_rows(c);
    if (c->guide && c->storage == CUDA_REGISTERS && cuda_column_totals(c)) {
        cuda_choose_vector(c, false); /* column sums require that each thread
                                       * has the same columns in every row */
        set_rows(c);
    }
    if (c->totals)
        set_parts(c);
    set_grid(c);
    set_workspace(c);
    c->edge = cuda_edge_plan(c);
    return c;
}

static void mark_shared(CudaPlan *c)
{
    const Op *op = c->k->op;
    for (int i = 0; i < op->nouts; i++)
        for (int j = 0; j < op->nargs; j++)
            if (cuda_shares(c, i, j))
                c->k->buffer[i].shared = c->k->buffer[op->nouts + j].shared =
                    true;
}

const CudaPlan *cuda_plan(const Program *p, const Op *fused)
{
    CudaPlan *c = plan_with_shared_memory(p, fused, RT_SHARED_MAX);
    if (c->shared_bytes > dynamic_shared(c, RT_SHARED_MIN)) {
        CudaPlan *low_shared = plan_with_shared_memory(p, fused, RT_SHARED_MIN);
        mark_shared(low_shared);
        if (c->k->workspace < low_shared->k->workspace)
            c->k->workspace = low_shared->k->workspace;
        c->low_shared = low_shared;
    }
    mark_shared(c);
    return c;
}

int64_t cuda_kernel_workspace(const Program *p, const Op *fused)
{
    return cuda_plan(p, fused)->k->workspace;
}

bool cuda_kernel_in_place(const Program *p, const Op *fused, int out, int arg)
{
    return cuda_shares(cuda_plan(p, fused), out, arg);
}
