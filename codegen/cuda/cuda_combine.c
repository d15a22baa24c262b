/* cuda_combine.c: prints the second kernel of sums over rows, which adds the
 * partial sums of the blocks of the first kernel (cuda_sums.c). */
#include "codegen/cuda/cuda_kernel.h"

/* ---- the second kernel --------------------------------------------------- */

static const char *part_of(const CudaPlan *p, Arena *a)
{
    if (p->units == 1)
        return "part";
    if (p->parts == 1)
        return "unit";
    return arena_printf(a, "(unit * %lld + part)", (long long)p->parts);
}

static void combine_scalar(CudaPrinter *c, const KernelTotal *t)
{
    const CudaPlan *p = c->plan;
    Arena *a = c->text.p->arena;
    const char *sum = arena_printf(a, "a%d", t->instr);
    const char *item = arena_printf(
        a, "%s[%s]", kernel_workspace(&c->text),
        cuda_at_offset(a, part_of(p, a), t->offset));
    out_line(c->text.o, "float %s = %s;", sum, cuda_sum_start(p, t->instr));
    out_line(c->text.o,
             "for (int part = lane_index(); part < %lld; part += %d)",
             (long long)p->parts, CUDA_WARP);
    out_line(c->text.o, "    %s",
             kernel_add_to(&c->text, p->k->instr[t->instr].op, sum, item));
    cuda_declare_sum(
        c, t->instr, 0,
        arena_printf(a, "warp_%s(%s)", cuda_sum_kind(p, t->instr), sum));
}

static void combine_columns(CudaPrinter *c, const KernelTotal *t, int lane)
{
    const CudaPlan *p = c->plan;
    Arena *a = c->text.p->arena;
    const char *sum = arena_printf(a, "a%d_%d", t->instr, lane);
    const char *item = arena_printf(
        a, "%s%s * %lld + %s",
        p->parts * cuda_row_length(p) < INT32_MAX ? "" : "(int64_t)",
        part_of(p, a), (long long)cuda_row_length(p),
        cuda_at_offset(a, cuda_flat_column(c), t->offset + lane * p->columns));
    out_line(c->text.o, "float %s = %s;", sum, cuda_sum_start(p, t->instr));
    int opened = 0;
    if (p->columns % CUDA_WARP)
        opened = cuda_open_block(c, "if (%s < %lld) {", cuda_flat_column(c),
                                 (long long)p->columns);
    out_line(c->text.o, "for (int part = %s; part < %lld; part += %d)",
             p->combine_warps > 1 ? "warp_index()" : "0", (long long)p->parts,
             p->combine_warps);
    out_code(c->text.o, "    %s",
             kernel_add_to(&c->text, p->k->instr[t->instr].op, sum,
                           arena_printf(a, "%s[%s]", kernel_workspace(&c->text),
                                        item)));
    cuda_close_blocks(c, opened);
    if (p->combine_warps > 1)
        out_line(c->text.o, "sum%d[warp_index()][lane_index()%s] = %s;",
                 t->instr, lane ? " + 32" : "", sum);
}

static void combined_column(CudaPrinter *c, const KernelTotal *t, int lane)
{
    const CudaPlan *p = c->plan;
    Arena *a = c->text.p->arena;
    const char *sum = arena_printf(a, "a%d_%d", t->instr, lane);
    if (p->combine_warps > 1) {
        const char *item = arena_printf(a, "sum%d[i][lane_index()%s]", t->instr,
                                        lane ? " + 32" : "");
        out_line(c->text.o, "for (int i = 1; i < %d; i++)", p->combine_warps);
        out_line(c->text.o, "    %s",
                 kernel_add_to(&c->text, p->k->instr[t->instr].op, sum, item));
    }
    cuda_declare_sum(c, t->instr, lane, sum);
}

static void open_combine(CudaPrinter *c, bool columns)
{
    const CudaPlan *p = c->plan;
    Arena *a = c->text.p->arena;
    int64_t tiles = p->combine_grid / p->units;
    for (int i = 0; i < p->k->ntotals; i++)
        if (p->k->total[i].columns && p->combine_warps > 1)
            out_line(c->text.o, "PARC_SHARED float sum%d[%d][%d];",
                     p->k->total[i].instr, p->combine_warps,
                     CUDA_WARP * p->lanes);
    if (p->units > 1) {
        out_line(c->text.o, "const int64_t unit = %s%s;", c->block,
                 tiles > 1 ? arena_printf(a, " / %lld", (long long)tiles) : "");
        kernel_split_index(&c->text, p->kept_axes, "unit", 1);
    }
    if (!columns)
        return;
    const char *type = cuda_column_type(p);
    const char *tile = arena_printf(a, "(%s)%s", type, c->block);
    if (p->units > 1)
        tile = arena_printf(a, "(%s)(%s %% %lld)", type, c->block,
                            (long long)tiles);
    out_line(c->text.o, "const %s %s = %slane_index();", cuda_column_type(p),
             cuda_flat_column(c),
             tiles > 1 ? arena_printf(a, "%s * %d + ", tile, CUDA_WARP) : "");
    cuda_split_columns(c, cuda_flat_column(c));
}

void cuda_combine(CudaPrinter *c)
{
    const CudaPlan *p = c->plan;
    bool columns = cuda_has_column_sums(p);
    open_combine(c, columns);
    for (int i = 0; i < p->k->ntotals; i++)
        for (int lane = 0; p->k->total[i].columns && lane < p->lanes; lane++)
            combine_columns(c, &p->k->total[i], lane);
    if (p->combine_warps > 1) {
        out_line(c->text.o, "block_barrier();");
        out_line(c->text.o, "if (warp_index() > 0)");
        out_line(c->text.o, "    return;");
    }
    for (int i = 0; i < p->k->ntotals; i++)
        if (!p->k->total[i].columns)
            combine_scalar(c, &p->k->total[i]);
    cuda_epilogue_scalars(c, columns ? arena_printf(c->text.p->arena, "%s == 0",
                                                    cuda_flat_column(c))
                                     : "thread_index() == 0");
    if (!columns)
        return;
    if (p->columns % CUDA_WARP) {
        out_line(c->text.o, "if (%s >= %lld)", cuda_flat_column(c),
                 (long long)p->columns);
        out_line(c->text.o, "    return;");
    }
    for (int i = 0; i < p->k->ntotals; i++)
        for (int lane = 0; p->k->total[i].columns && lane < p->lanes; lane++)
            combined_column(c, &p->k->total[i], lane);
    cuda_epilogue_column(c);
}
