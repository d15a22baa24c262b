/* cuda_sums.c: prints the part of a CUDA kernel that sums over rows within a
 * block, for scalar sums (one per work unit) and sums by column, and likewise
 * for maxima.
 *
 * A block sums one part of the rows. Each thread has a scalar sum in the
 * variable a<n>, which is then reduced across warps. A sum by column is in
 * registers of the thread that processes the column, in shared memory, or in
 * the workspace. If warps of a block process different rows, their sums are
 * added in shared memory.
 *
 * If one block processes all rows, the code that uses the sums (the epilogue)
 * follows. Otherwise the block writes its sums to the workspace, [unit][part]
 * or [unit][part][column]: `unit` is the index over the kept axes (kernel.h),
 * not an FSDP unit. A second kernel (cuda_combine.c) adds the blocks' parts.
 * One of its blocks processes 32 columns, and its warps process interleaved
 * parts. The order of additions is fixed, so that the bits are the same on
 * every run.
 */
#include "codegen/cuda/cuda_kernel.h"

/* ---- inside the loop over rows ------------------------------------------- */

bool cuda_double_buffers_sums(const CudaPlan *p)
{
    int barriers = 0;
    for (int n = 0; n < p->nphases; n++)
        barriers += p->phase[n].reductions > 0;
    return p->totals && p->row_threads > CUDA_WARP && barriers == 1;
}

const char *cuda_sum_array(const CudaPrinter *c, int instr)
{
    if (!cuda_double_buffers_sums(c->plan))
        return arena_printf(c->text.p->arena, "sum%d", instr);
    return arena_printf(c->text.p->arena, "sum%d[%s & 1]", instr, c->row);
}

/* Whether column sums are in registers of the thread that processes the
 * column. */
static bool are_registers(const CudaPlan *p)
{
    return (p->storage == CUDA_REGISTERS || p->form == CUDA_TILES) &&
           !p->at_edge;
}

const char *cuda_column_sum(const CudaPrinter *c, int instr, int lane)
{
    const CudaPlan *p = c->plan;
    Arena *a = c->text.p->arena;
    const char *name = arena_printf(a, "a%d", instr);
    if (are_registers(p))
        return cuda_own(c, name, lane);
    return arena_printf(
        a, "%s[%s%s%s]", name, cuda_flat_column(c), p->vector > 1 ? " + e" : "",
        lane ? arena_printf(a, " + %lld", (long long)p->columns) : "");
}

static void set_own(CudaPrinter *c, int instr, const char *value)
{
    const CudaPlan *p = c->plan;
    if (are_registers(p)) {
        int n = 0;
        if (p->slots > 1) {
            out_line(c->text.o, "PARC_UNROLL");
            out_line(c->text.o, "for (int s = 0; s < %d; s++)", p->slots);
            c->text.o->indent += OUT_INDENT * ++n;
        }
        out_line(c->text.o, "PARC_UNROLL");
        out_line(c->text.o, "for (int e = 0; e < %d; e++)",
                 p->vector * p->lanes);
        out_line(c->text.o, "    a%d[%s][e] = %s;", instr, n ? "s" : "0",
                 value);
        c->text.o->indent -= OUT_INDENT * n;
        return;
    }
    c->plan = cuda_column_plan(p);
    int opened = cuda_open_slots(c, 0);
    opened += cuda_open_vector(c);
    for (int lane = 0; lane < c->plan->lanes; lane++)
        out_line(c->text.o, "%s = %s;", cuda_column_sum(c, instr, lane), value);
    cuda_close_slots(c, opened);
    c->text.inner = "j";
    c->plan = p;
}

static void begin_columns(CudaPrinter *c, const KernelTotal *t, int64_t *at)
{
    const CudaPlan *p = c->plan;
    Arena *a = c->text.p->arena;
    if (are_registers(p)) {
        out_line(c->text.o, "float a%d[%d][%d];", t->instr, p->slots,
                 p->vector * p->lanes);
    } else if (p->global_sums) {
        out_line(c->text.o, "float *a%d = %s + %s * %lld;", t->instr,
                 cuda_at_offset(a, kernel_workspace(&c->text), t->offset),
                 c->block, (long long)cuda_row_length(p));
    } else {
        out_line(c->text.o, "float *a%d = (float *)%s;", t->instr,
                 *at ? arena_printf(a, "((char *)parc_shared() + %lld)",
                                    (long long)*at)
                     : "parc_shared()");
        *at += cuda_row_length(p) * FLOAT_BYTES;
    }
    set_own(c, t->instr, cuda_sum_start(p, t->instr));
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

void cuda_begin_totals(CudaPrinter *c)
{
    const CudaPlan *p = c->plan;
    int64_t at = p->sums_at;
    for (int i = 0; i < p->k->ntotals; i++) {
        const KernelTotal *t = &p->k->total[i];
        if (t->columns)
            begin_columns(c, t, &at);
        else
            out_line(c->text.o, "float a%d = %s;", t->instr,
                     cuda_sum_start(p, t->instr));
    }
    if (adds_unguarded(p, false))
        out_line(c->text.o, "block_barrier();");
}

/* ---- after a block's rows ------------------------------------------------ */

static void end_scalars(CudaPrinter *c)
{
    const CudaPlan *p = c->plan;
    bool put = false;
    for (int i = 0; i < p->k->ntotals; i++) {
        const KernelTotal *t = &p->k->total[i];
        const char *kind = cuda_sum_kind(p, t->instr);
        if (t->columns || (p->uniform[i] && p->block_rows == 1))
            continue;
        if (p->threads == CUDA_WARP) {
            out_line(c->text.o, "a%d = warp_%s(a%d);", t->instr, kind,
                     t->instr);
            continue;
        }
        put = true;
        if (p->uniform[i])
            out_line(c->text.o, "block_put(a%d, sum%d);", t->instr, t->instr);
        else
            out_line(c->text.o, "block_put(warp_%s(a%d), sum%d);", kind,
                     t->instr, t->instr);
    }
    if (put)
        out_line(c->text.o, "block_barrier();");
    for (int i = 0; i < p->k->ntotals && put; i++) {
        const KernelTotal *t = &p->k->total[i];
        if (!t->columns && !(p->uniform[i] && p->block_rows == 1))
            out_line(c->text.o, "a%d = block_get_%s(sum%d);", t->instr,
                     cuda_sum_kind(p, t->instr), t->instr);
    }
}

static void scalars_away(CudaPrinter *c)
{
    const CudaPlan *p = c->plan;
    int opened = 0;
    for (int i = 0; i < p->k->ntotals; i++) {
        const KernelTotal *t = &p->k->total[i];
        if (t->columns)
            continue;
        if (!opened)
            opened = cuda_open_block(c, "if (thread_index() == 0) {");
        out_line(c->text.o, "%s[%s] = a%d;", kernel_workspace(&c->text),
                 cuda_at_offset(c->text.p->arena, c->block, t->offset),
                 t->instr);
    }
    cuda_close_blocks(c, opened);
}

/* "workspace + 264 + block_index() * 4096": the address of a block's column
 * sums. */
static const char *block_sums(const CudaPrinter *c, const KernelTotal *t)
{
    const CudaPlan *p = c->plan;
    Arena *a = c->text.p->arena;
    const char *block = c->block;
    if (p->tiles > 1)
        block =
            p->units * p->parts > 1
                ? arena_printf(a, "(%s / %lld)", block, (long long)p->tiles)
                : "0";
    return arena_printf(
        a, "%s + %s * %lld",
        cuda_at_offset(a, kernel_workspace(&c->text), t->offset), block,
        (long long)cuda_row_length(p));
}

/* Each thread writes the sums of its own columns, or uses them in the epilogue;
 * only ragged rows need a barrier before that. */
static void end_own_columns(CudaPrinter *c)
{
    const CudaPlan *whole = c->plan, *p = cuda_column_plan(whole);
    Arena *a = c->text.p->arena;
    if (p->combine && p->global_sums)
        return;
    if (adds_unguarded(whole, true))
        out_line(c->text.o, "block_barrier();");
    c->plan = p;
    int opened = p->form == CUDA_TILES ? cuda_open_block(c, "if (j < %lld) {",
                                                         (long long)p->columns)
                                       : cuda_open_slots(c, 0);
    if (p->combine && p->storage == CUDA_REGISTERS) {
        for (int i = 0; i < p->k->ntotals; i++) {
            const KernelTotal *t = &p->k->total[i];
            for (int lane = 0; t->columns && lane < p->lanes; lane++)
                out_code(
                    c->text.o, "parc_write_f32(%s + %s, a%d[%s]%s, %d);",
                    cuda_at_offset(a, block_sums(c, t), lane * p->columns),
                    cuda_flat_column(c), t->instr, p->slots > 1 ? "s" : "0",
                    lane ? arena_printf(a, " + %d", p->vector) : "", p->vector);
        }
        cuda_close_slots(c, opened);
        return;
    }
    opened += cuda_open_vector(c);
    const char *element = p->vector > 1 ? " + e" : "";
    for (int i = 0; i < p->k->ntotals; i++) {
        const KernelTotal *t = &p->k->total[i];
        for (int lane = 0; t->columns && lane < p->lanes; lane++) {
            const char *sum = cuda_column_sum(c, t->instr, lane);
            if (p->combine)
                out_code(c->text.o, "(%s)[%s%s] = %s;",
                         cuda_at_offset(a, block_sums(c, t), lane * p->columns),
                         cuda_flat_column(c), element, sum);
            else
                cuda_declare_sum(c, t->instr, lane, sum);
        }
    }
    if (!p->combine)
        cuda_epilogue_column(c);
    cuda_close_slots(c, opened);
    c->text.inner = "j";
    c->plan = whole;
}

/* Writes the column sums of each row group (the threads that process one row at
 * a time) to shared memory, where all threads add them. */
static void hand_over(CudaPrinter *c, int64_t wide)
{
    const CudaPlan *p = c->plan;
    Arena *a = c->text.p->arena;
    int64_t at = p->sums_at / FLOAT_BYTES;
    for (int i = 0; i < p->k->ntotals; i++) {
        const KernelTotal *t = &p->k->total[i];
        if (!t->columns)
            continue;
        out_line(c->text.o, "float *share%d = %s;", t->instr,
                 cuda_at_offset(a, "(float *)parc_shared()", at));
        at += p->block_rows * wide * p->lanes;
        int opened = cuda_open_slots(c, 0);
        const char *from =
            p->form == CUDA_TILES
                ? arena_printf(a, p->vector > 1 ? "t * %d" : "t", p->vector)
                : cuda_flat_column(c);
        for (int lane = 0; lane < p->lanes; lane++)
            out_code(
                c->text.o,
                "parc_write_f32(share%d + %s * %lld + %s, a%d[%s]%s, "
                "%d);",
                t->instr,
                lane ? arena_printf(a, "(group + %d)", lane * p->block_rows)
                     : "group",
                (long long)wide, from, t->instr, p->slots > 1 ? "s" : "0",
                lane ? arena_printf(a, " + %d", p->vector) : "", p->vector);
        cuda_close_slots(c, opened);
    }
    out_line(c->text.o, "block_barrier();");
}

/* Prints the loop in which all threads of the block process the columns, one
 * column per thread at a time. */
static void end_shared_columns(CudaPrinter *c)
{
    const CudaPlan *p = c->plan;
    Arena *a = c->text.p->arena;
    int64_t wide = p->tiles > 1 || p->form == CUDA_TILES
                       ? (int64_t)CUDA_WARP * p->vector
                       : p->columns;
    const char *type = cuda_column_type(p), *name = cuda_flat_column(c);
    if (p->block_rows > 1)
        hand_over(c, wide);
    int opened =
        cuda_open_block(c, "for (int u = thread_index(); u < %lld; u += %d) {",
                        (long long)wide, p->threads);
    out_line(c->text.o, "const %s %s = %s;", type, name,
             p->tiles > 1 ? arena_printf(a, "tile * %lld + u", (long long)wide)
                          : "u");
    if (p->columns % wide)
        opened +=
            cuda_open_block(c, "if (%s < %lld) {", name, (long long)p->columns);
    cuda_split_columns(c, name);
    for (int i = 0; i < p->k->ntotals; i++) {
        const KernelTotal *t = &p->k->total[i];
        for (int lane = 0; t->columns && lane < p->lanes; lane++) {
            const char *sum = arena_printf(a, "s%d_%d", t->instr, lane);
            const char *at = arena_printf(
                a, "u + %lld", (long long)(lane * p->block_rows * wide));
            out_line(c->text.o, "float %s = share%d[%s];", sum, t->instr, at);
            out_line(c->text.o, "for (int i = 1; i < %d; i++)", p->block_rows);
            out_line(
                c->text.o, "    %s",
                kernel_add_to(&c->text, p->k->instr[t->instr].op, sum,
                              arena_printf(a, "share%d[%s + i * %lld]",
                                           t->instr, at, (long long)wide)));
            if (p->combine)
                out_code(c->text.o, "(%s)[%s] = %s;",
                         cuda_at_offset(a, block_sums(c, t), lane * p->columns),
                         name, sum);
            else
                cuda_declare_sum(c, t->instr, lane, sum);
        }
    }
    if (!p->combine)
        cuda_epilogue_column(c);
    cuda_close_blocks(c, opened);
}

void cuda_end_totals(CudaPrinter *c)
{
    const CudaPlan *p = c->plan;
    bool columns = cuda_column_totals(p) > 0;
    end_scalars(c);
    if (p->combine) {
        scalars_away(c);
    } else {
        for (int i = 0; i < p->k->ntotals; i++)
            if (!p->k->total[i].columns)
                cuda_declare_sum(c, p->k->total[i].instr, 0,
                                 arena_printf(c->text.p->arena, "a%d",
                                              p->k->total[i].instr));
        cuda_epilogue_scalars(c, p->tiles > 1
                                     ? "tile == 0 && thread_index() == 0"
                                     : "thread_index() == 0");
    }
    if (columns && p->block_rows == 1)
        end_own_columns(c);
    else if (columns || (cuda_has_column_sums(p) && !p->combine))
        end_shared_columns(c);
}
