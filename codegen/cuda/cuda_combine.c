/* cuda_combine.c: lowers the second kernel of sums over rows, which adds the
 * partial sums of the blocks of the first kernel (cuda_sums.c). */
#include "codegen/cuda/cuda_lower.h"

/* The number of a part in the workspace: "task * 4 + part". */
static const char *part_of(const Lowering *c)
{
    const CudaPlan *p = c->plan;
    return lower_index(c, "%s * %lld + %s", p->tasks > 1 ? "task" : "0",
                       (long long)p->parts,
                       p->parts > 1 || p->tasks == 1 ? "part" : "0");
}

static void combine_scalar(Lowering *c, const KernelTotal *t)
{
    const char *sum = lower_text(c, "a%d", t->instr);
    lower_var(c, "float", sum, lower_start(c, t->instr));
    lower_add_all(c, c->k->instr[t->instr].op, sum, "part", "lane_index()",
                  c->plan->parts, CUDA_WARP,
                  lower_index(c, "workspace[%s + %lld]", part_of(c),
                              (long long)t->offset));
    lower_total(c, t->instr, 0,
                lower_text(c, "warp_%s(%s)",
                           c->k->instr[t->instr].op == OP_max ? "max" : "sum",
                           sum));
}

/* "sum3[warp][lane_index()]": where a warp leaves its sum of a column. */
static const char *shared_sum(const Lowering *c, const KernelTotal *t,
                              const char *warp, int lane)
{
    return lower_index(c, "sum%d[%s][lane_index() + %d]", t->instr, warp,
                       lane * CUDA_WARP);
}

static void combine_column(Lowering *c, const KernelTotal *t, int lane)
{
    const CudaPlan *p = c->plan;
    Stmt *outer = c->at;
    int64_t length = cuda_row_length(p);
    const char *sum = lower_text(c, "a%d_%d", t->instr, lane),
               *column = cuda_flat_column(c),
               *cast = p->parts * length < INT32_MAX ? "" : "(int64_t)";
    lower_var(c, "float", sum, lower_start(c, t->instr));
    if (p->columns % CUDA_WARP)
        lower_if(c, "%s < %lld", column, (long long)p->columns);
    lower_add_all(c, c->k->instr[t->instr].op, sum, "part",
                  p->combine_warps > 1 ? "warp_index()" : "0", p->parts,
                  p->combine_warps,
                  lower_index(c, "workspace[%s(%s) * %lld + %s + %lld]", cast,
                              part_of(c), (long long)length, column,
                              (long long)(t->offset + lane * p->columns)));
    c->at = outer;
    if (p->combine_warps > 1)
        lower_line(c, "%s = %s;", shared_sum(c, t, "warp_index()", lane), sum);
}

static void combined_column(Lowering *c, const KernelTotal *t, int lane)
{
    const char *sum = lower_text(c, "a%d_%d", t->instr, lane);
    if (c->plan->combine_warps > 1)
        lower_add_all(c, c->k->instr[t->instr].op, sum, "i", "1",
                      c->plan->combine_warps, 1, shared_sum(c, t, "i", lane));
    lower_total(c, t->instr, lane, sum);
}

static void name_indices(Lowering *c)
{
    const CudaPlan *p = c->plan;
    int64_t tiles = p->combine_grid / p->tasks;
    const char *column = cuda_flat_column(c), *tile = c->block;
    for (int i = 0; i < p->k->ntotals; i++)
        if (p->k->total[i].columns && p->combine_warps > 1)
            lower_shared(c, lower_text(c, "sum%d[%d][%d]", p->k->total[i].instr,
                                       p->combine_warps,
                                       CUDA_WARP * p->lanes));
    if (p->tasks > 1) {
        lower_let(c, "const int64_t", "task", "%s / %lld", c->block,
                  (long long)tiles);
        kernel_split_index(c, p->kept_axes, "task", 1);
        tile = lower_text(c, "(%s %% %lld)", c->block, (long long)tiles);
    }
    if (tiles > 1)
        cuda_let_column(c, column, "(%s)%s * %d + lane_index()", c->column_type,
                        tile, CUDA_WARP);
    else
        cuda_let_column(c, column, "lane_index()");
    cuda_split_columns(c, column);
}

void cuda_combine(Lowering *c)
{
    const CudaPlan *p = c->plan;
    bool columns = cuda_has_column_sums(p);
    const char *column = cuda_flat_column(c);
    name_indices(c);
    cuda_each_column(c, combine_column);
    if (p->combine_warps > 1) {
        lower_add(c, (Stmt){.code = STMT_BARRIER});
        lower_return_if(c, "warp_index() > 0");
    }
    for (int i = 0; i < p->k->ntotals; i++)
        if (!p->k->total[i].columns)
            combine_scalar(c, &p->k->total[i]);
    lower_task_epilogue(c, columns ? lower_text(c, "%s == 0", column)
                                   : "thread_index() == 0");
    if (!columns)
        return;
    if (p->columns % CUDA_WARP)
        lower_return_if(c, "%s >= %lld", column, (long long)p->columns);
    cuda_each_column(c, combined_column);
    lower_column_epilogue(c);
}
