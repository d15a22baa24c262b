/* cuda_sums.c: lowers the part of a CUDA kernel that sums over rows within
 * a block, for scalar sums (one per task) and sums by column, and likewise
 * for maxima.
 *
 * A block sums one part of the rows. Each thread has a scalar sum in the
 * variable a<n>, which is then reduced across warps. A sum by column is in
 * registers of the thread that processes the column, in shared memory, or in
 * the workspace. If warps of a block process different rows, their sums are
 * added in shared memory.
 *
 * If one block processes all rows, the code that uses the sums (the epilogue)
 * follows. Otherwise the block writes its sums to the workspace, [task][part]
 * or [task][part][column]: `task` is the index over the kept axes (kernel.h),
 * not an FSDP unit. A second kernel (cuda_combine.c) adds the blocks' parts.
 * One of its blocks processes 32 columns, and its warps process interleaved
 * parts. The order of additions is fixed, so that the bits are the same on
 * every run.
 */
#include "codegen/cuda/cuda_lower.h"

int64_t cuda_row_length(const CudaPlan *p)
{
    return p->columns * p->lanes;
}

bool cuda_has_column_sums(const CudaPlan *p)
{
    return p->k->ncolumn > 0 || cuda_column_totals(p) > 0;
}

void cuda_each_column(Lowering *c,
                      void (*visit)(Lowering *, const KernelTotal *, int))
{
    for (int i = 0; i < c->k->ntotals; i++)
        for (int lane = 0; c->k->total[i].columns && lane < c->plan->lanes;
             lane++)
            visit(c, &c->k->total[i], lane);
}

/* ---- inside the loop over rows ------------------------------------------- */

bool cuda_double_buffers_sums(const CudaPlan *p)
{
    int barriers = 0;
    for (int n = 0; n < p->nphases; n++)
        barriers += p->phase[n].reductions > 0;
    return p->totals && p->row_threads > CUDA_WARP && barriers == 1;
}

const char *cuda_sum_array(const Lowering *c, int instr)
{
    return cuda_double_buffers_sums(c->plan)
               ? lower_text(c, "sum%d[%s & 1]", instr, c->row)
               : lower_text(c, "sum%d", instr);
}

/* Whether column sums are in registers of the thread that processes the
 * column. */
static bool are_registers(const CudaPlan *p)
{
    return (p->storage == CUDA_REGISTERS || p->form == CUDA_TILES) &&
           !p->at_edge;
}

const char *cuda_column_sum(const Lowering *c, int instr, int lane)
{
    const CudaPlan *p = c->plan;
    const char *name = lower_text(c, "a%d", instr);
    if (are_registers(p))
        return cuda_own(c, name, lane);
    return lower_index(c, "%s[%s + %s + %lld]", name, cuda_flat_column(c),
                       p->vector > 1 ? "e" : "0",
                       (long long)(lane * p->columns));
}

/* Sets all sums of a thread. */
static void start_own(Lowering *c, int instr)
{
    const CudaPlan *p = c->plan;
    const char *start = lower_start(c, instr);
    Stmt *outer = c->at;
    if (are_registers(p)) {
        if (p->strips > 1)
            lower_count(c, LOOP_UNROLLED, "s", p->strips)->brief = true;
        lower_count(c, LOOP_UNROLLED, "e", p->vector * p->lanes)->brief = true;
        lower_line(c, "a%d[%s][e] = %s;", instr, cuda_strip(c), start);
    } else {
        c->plan = cuda_column_plan(p);
        cuda_open_strips(c, 0);
        cuda_open_vector(c);
        for (int lane = 0; lane < p->lanes; lane++)
            lower_line(c, "%s = %s;", cuda_column_sum(c, instr, lane), start);
        c->plan = p;
    }
    cuda_close(c, outer);
}

static void begin_columns(Lowering *c, const KernelTotal *t, int64_t *at)
{
    const CudaPlan *p = c->plan;
    const char *name = lower_text(c, "a%d", t->instr);
    if (are_registers(p)) {
        lower_var(
            c, "float",
            lower_text(c, "%s[%d][%d]", name, p->strips, p->vector * p->lanes),
            NULL);
    } else if (p->global_sums) {
        lower_var(c, "float *", name,
                  lower_index(c, "workspace + %lld + %s * %lld",
                              (long long)t->offset, c->block,
                              (long long)cuda_row_length(p)));
    } else {
        lower_var(c, "float *", name, cuda_in_shared(c, "float", *at));
        *at += cuda_row_length(p) * FLOAT_BYTES;
    }
    start_own(c, t->instr);
}

/* In a ragged row (cuda_ragged.c) a column belongs to different threads in
 * different rows. Its sum is initialized before the loop over rows and read
 * after it, also by other threads. Returns whether some column sum is not
 * separated by the barrier of a row reduction: its first addition from the
 * initialization or, with `after`, its last addition from the read. */
static bool adds_unguarded(const CudaPlan *p, bool after)
{
    for (int r = 0; r < p->k->nroots; r++) {
        const KernelRoot *root = &p->k->root[r];
        bool barrier = false;
        if (!p->guide || root->kind != ROOT_TOTAL ||
            !p->k->total[p->k->instr[root->target].accumulator].columns)
            continue;
        for (int n = 0; n < p->nphases; n++)
            barrier |= p->phase[n].reductions && (n >= root->phase) == after;
        if (!barrier)
            return true;
    }
    return false;
}

void cuda_begin_totals(Lowering *c)
{
    int64_t at = c->plan->sums_at;
    for (int i = 0; i < c->k->ntotals; i++) {
        const KernelTotal *t = &c->k->total[i];
        if (t->columns)
            begin_columns(c, t, &at);
        else
            lower_var(c, "float", lower_text(c, "a%d", t->instr),
                      lower_start(c, t->instr));
    }
    if (adds_unguarded(c->plan, false))
        lower_add(c, (Stmt){.code = STMT_BARRIER});
}

/* ---- after a block's rows ------------------------------------------------ */

/* Whether a block's threads must add up their parts of a scalar sum. */
static bool is_spread(const CudaPlan *p, int total)
{
    return !p->k->total[total].columns &&
           !(p->uniform[total] && p->block_rows == 1);
}

/* Adds one part of the code that completes scalar sums; returns whether there
 * are any. */
static bool finish(Lowering *c, FinishPart part)
{
    bool any = false;
    for (int i = 0; i < c->k->ntotals; i++) {
        const KernelTotal *t = &c->k->total[i];
        if (!is_spread(c->plan, i))
            continue;
        any = true;
        lower_add(c, (Stmt){.code = STMT_FINISH,
                            .part = part == FINISH_PUT && c->plan->uniform[i]
                                        ? FINISH_OWN
                                        : part,
                            .op = c->k->instr[t->instr].op,
                            .name = lower_text(c, "a%d", t->instr),
                            .array = lower_text(c, "sum%d", t->instr)});
    }
    return any;
}

static void end_scalars(Lowering *c)
{
    if (c->plan->threads == CUDA_WARP) {
        finish(c, FINISH_WARP);
    } else if (finish(c, FINISH_PUT)) {
        lower_add(c, (Stmt){.code = STMT_BARRIER});
        finish(c, FINISH_GET);
    }
}

static void scalars_away(Lowering *c)
{
    Stmt *outer = c->at;
    lower_if(c, "thread_index() == 0");
    for (int i = 0; i < c->k->ntotals; i++) {
        const KernelTotal *t = &c->k->total[i];
        if (!t->columns)
            lower_line(c, "workspace[%s] = a%d;",
                       lower_index(c, "%s + %lld", c->block,
                                   (long long)t->offset),
                       t->instr);
    }
    c->at = outer;
}

/* "workspace + 264 + block_index() * 4096": the address of a block's sums of
 * one lane of the columns. */
static const char *block_sums(const Lowering *c, const KernelTotal *t, int lane)
{
    const CudaPlan *p = c->plan;
    bool one = p->tiles > 1 && p->tasks * p->parts == 1;
    return lower_index(c, "workspace + %lld + %s / %lld * %lld + %lld",
                       (long long)t->offset, one ? "0" : c->block,
                       (long long)p->tiles, (long long)cuda_row_length(p),
                       (long long)(lane * p->columns));
}

/* a8[s] + 4: a thread's sums in one lane of the columns. */
static const char *lane_sums(const Lowering *c, int instr, int lane)
{
    return lower_index(c, "a%d[%s] + %d", instr, cuda_strip(c),
                       lane * c->plan->vector);
}

static void write_sums(Lowering *c, const char *to, const char *from)
{
    lower_add(c, (Stmt){.code = STMT_STORE,
                        .dtype = DT_F32,
                        .name = from,
                        .text = to,
                        .count = c->plan->vector});
}

/* Sends a block's sum of a column to the second kernel or to the epilogue. */
static void end_column(Lowering *c, const KernelTotal *t, int lane,
                       const char *column, const char *sum)
{
    if (c->plan->combine)
        lower_line(c, "(%s)[%s] = %s;", block_sums(c, t, lane), column, sum);
    else
        lower_total(c, t->instr, lane, sum);
}

static void end_own_column(Lowering *c, const KernelTotal *t, int lane)
{
    const CudaPlan *p = c->plan;
    const char *column = cuda_flat_column(c);
    if (p->combine && p->storage == CUDA_REGISTERS)
        write_sums(c,
                   lower_text(c, "%s + %s", block_sums(c, t, lane), column),
                   lane_sums(c, t->instr, lane));
    else
        end_column(c, t, lane,
                   p->vector > 1 ? lower_text(c, "%s + e", column) : column,
                   cuda_column_sum(c, t->instr, lane));
}

/* Each thread writes the sums of its own columns, or uses them in the epilogue;
 * only ragged rows need a barrier before that. */
static void end_own_columns(Lowering *c)
{
    const CudaPlan *whole = c->plan, *p = cuda_column_plan(whole);
    Stmt *outer = c->at;
    if (p->combine && p->global_sums)
        return;
    if (adds_unguarded(whole, true))
        lower_add(c, (Stmt){.code = STMT_BARRIER});
    c->plan = p;
    if (p->form == CUDA_TILES)
        lower_if(c, "j < %lld", (long long)p->columns);
    else
        cuda_open_strips(c, 0);
    if (!p->combine || p->storage != CUDA_REGISTERS)
        cuda_open_vector(c);
    cuda_each_column(c, end_own_column);
    if (!p->combine)
        lower_column_epilogue(c);
    cuda_close(c, outer);
    c->plan = whole;
}

/* The number of columns that a block processes. */
static int64_t block_width(const CudaPlan *p)
{
    return p->tiles > 1 || p->form == CUDA_TILES
               ? (int64_t)CUDA_WARP * p->vector
               : p->columns;
}

/* Writes the column sums of each row group (the threads that process one row at
 * a time) to shared memory, where all threads add them. */
static void hand_over(Lowering *c)
{
    const CudaPlan *p = c->plan;
    Stmt *outer = c->at;
    int64_t at = p->sums_at, wide = block_width(p);
    for (int i = 0; i < p->k->ntotals; i++) {
        const KernelTotal *t = &p->k->total[i];
        const char *share = lower_text(c, "share%d", t->instr);
        if (!t->columns)
            continue;
        lower_var(c, "float *", share, cuda_in_shared(c, "float", at));
        at += p->block_rows * wide * p->lanes * FLOAT_BYTES;
        cuda_open_strips(c, 0);
        for (int lane = 0; lane < p->lanes; lane++)
            write_sums(
                c,
                lower_index(c, "%s + (group + %d) * %lld + %s * %d", share,
                            lane * p->block_rows, (long long)wide,
                            p->form == CUDA_TILES ? "t" : cuda_flat_column(c),
                            p->form == CUDA_TILES ? p->vector : 1),
                lane_sums(c, t->instr, lane));
        c->at = outer;
    }
    lower_add(c, (Stmt){.code = STMT_BARRIER});
}

/* Adds the sums of a column that the row groups have handed over. */
static void add_groups(Lowering *c, const KernelTotal *t, int lane)
{
    int rows = c->plan->block_rows;
    int64_t wide = block_width(c->plan);
    const char *sum = lower_text(c, "s%d_%d", t->instr, lane);
    const char *at =
        lower_index(c, "u + %lld", (long long)(lane * rows * wide));
    lower_var(c, "float", sum, lower_text(c, "share%d[%s]", t->instr, at));
    lower_add_all(c, c->k->instr[t->instr].op, sum, "i", "1", rows, 1,
                  lower_text(c, "share%d[%s + i * %lld]", t->instr, at,
                             (long long)wide));
    end_column(c, t, lane, cuda_flat_column(c), sum);
}

/* The loop in which all threads of the block process the columns, one column
 * per thread at a time. */
static void end_shared_columns(Lowering *c)
{
    const CudaPlan *p = c->plan;
    Stmt *outer = c->at;
    int64_t wide = block_width(p);
    const char *column = cuda_flat_column(c);
    if (p->block_rows > 1)
        hand_over(c);
    lower_for(c, LOOP_SERIAL, "int", "u", "thread_index()",
              lower_text(c, "%lld", (long long)wide), p->threads);
    cuda_let_column(c, column, "%s * %lld + u", p->tiles > 1 ? "tile" : "0",
                    (long long)wide);
    if (p->columns % wide)
        lower_if(c, "%s < %lld", column, (long long)p->columns);
    cuda_split_columns(c, column);
    cuda_each_column(c, add_groups);
    if (!p->combine)
        lower_column_epilogue(c);
    c->at = outer;
}

void cuda_end_totals(Lowering *c)
{
    const CudaPlan *p = c->plan;
    bool columns = cuda_column_totals(p) > 0;
    end_scalars(c);
    if (p->combine) {
        scalars_away(c);
    } else {
        for (int i = 0; i < p->k->ntotals; i++)
            if (!p->k->total[i].columns)
                lower_total(c, p->k->total[i].instr, 0,
                            lower_text(c, "a%d", p->k->total[i].instr));
        lower_task_epilogue(c, p->tiles > 1 ? "tile == 0 && thread_index() == 0"
                                            : "thread_index() == 0");
    }
    if (columns && p->block_rows == 1)
        end_own_columns(c);
    else if (columns || (cuda_has_column_sums(p) && !p->combine))
        end_shared_columns(c);
}
