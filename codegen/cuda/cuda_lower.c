/* cuda_lower.c: lowers a kernel by its plan (cuda_plan.c) to the functions of a
 * CUDA kernel: indices of block and thread, arrays, and the loop over rows.
 * cuda_columns.c lowers the work on one row. */
#include "codegen/cuda/cuda_lower.h"

/* ---- declarations -------------------------------------------------------- */

static void declare_sums(Lowering *c)
{
    const CudaPlan *p = c->plan;
    for (int r = 0; r < p->k->nroots; r++)
        if (p->k->root[r].kind == ROOT_REDUCE && p->row_threads > CUDA_WARP)
            lower_shared(c, lower_text(c, "sum%d%s[%d]", p->k->root[r].target,
                                       cuda_double_buffers_sums(p) ? "[2]" : "",
                                       CUDA_WARP));
    for (int i = 0; i < p->k->ntotals; i++)
        if (!p->k->total[i].columns && p->threads > CUDA_WARP &&
            !(p->uniform[i] && p->block_rows == 1))
            lower_shared(c, lower_text(c, "sum%d[%d]", p->k->total[i].instr,
                                       CUDA_WARP));
}

/* Declares the values that are kept on the chip between phases: 16-bit elements
 * as words (cuda_is_raw), others one by one. */
static void declare_kept(Lowering *c)
{
    const CudaPlan *p = c->plan;
    for (int i = 0; i < p->k->ninstrs && p->edge; i++)
        if (p->on_chip[i])
            lower_var(c, c_value_type(p->k->instr[i].dtype),
                      lower_text(c, "edge%d", i), NULL);
    for (int i = 0; i < p->k->ninstrs; i++) {
        const KernelInstr *instr = &p->k->instr[i];
        const KernelBuffer *b = cuda_loaded_buffer(p, i);
        int elements = p->vector * kernel_lanes(p->k, instr->axes);
        bool raw = cuda_is_raw(p, i);
        const char *name = lower_text(c, "kept%d", i);
        if (!p->on_chip[i])
            continue;
        if (p->storage == CUDA_SHARED) {
            const char *type = c_type(b ? b->dtype : instr->dtype);
            lower_var(c, lower_text(c, "%s *", type), name,
                      cuda_in_shared(c, type, p->on_chip_at[i]));
            continue;
        }
        lower_var(c, raw ? "uint32_t" : c_value_type(instr->dtype),
                  lower_text(c, "%s[%d][%d]", name, p->strips,
                             raw ? elements / 2 : elements),
                  NULL);
    }
}

/* ---- flat ---------------------------------------------------------------- */

/* Names the column j and the indices of the row's axes, computed from `at`, the
 * number of a vector. */
static void split_vector(Lowering *c, uint32_t axes)
{
    const CudaPlan *p = c->plan;
    int64_t vectors = p->length / p->vector;
    axes |= p->outer;
    if (p->inner < 0) {
        kernel_split_index(c, axes, "at", 1);
        return;
    }
    cuda_let_column(c, "j", "%s * %d",
                    axes ? lower_text(c, "at %% %lld", (long long)vectors)
                         : "at",
                    p->vector);
    kernel_split_index(c, axes, "at", vectors);
}

/* A work item of a ragged row (cuda_ragged.c): a vector, or an element of the
 * edge. */
static void ragged_item(Lowering *c, uint32_t axes)
{
    const CudaPlan *p = c->plan;
    Stmt *outer = c->at;
    int64_t vectors = p->length / p->vector, items = cuda_row_items(p);
    const char *head = cuda_row_head(p), *item = "at";
    axes |= p->outer;
    if (axes) {
        item = "item";
        cuda_let_column(c, item, "at %% %lld", (long long)items);
        kernel_split_index(c, axes, "at", items);
    }
    cuda_name_head(c);
    lower_if(c, "%s < %lld", item, (long long)vectors);
    cuda_let_column(c, "j", "%s + %s * %d", head, item, p->vector);
    if (*head != '0')
        lower_if(c, "j < %lld", (long long)(p->length - p->vector + 1));
    lower_row(c);
    c->at = outer;
    lower_if(c, "%s >= %lld", item, (long long)vectors);
    cuda_let_column(c, "u", "%s - %lld", item, (long long)vectors);
    cuda_open_edge(c, "u");
    c->plan = p->edge;
    lower_row(c);
    c->plan = p;
    c->at = outer;
}

/* The code for work item `at` of the rows along `axes`. */
static void flat_item(Lowering *c, uint32_t axes)
{
    if (c->plan->guide) {
        ragged_item(c, axes);
        return;
    }
    split_vector(c, axes);
    lower_row(c);
}

/* The type that can number the elements of all vectors, and a cast to it. */
static const char *item_type(const CudaPlan *p, int64_t vectors)
{
    return vectors < INT32_MAX / p->vector ? "int" : "int64_t";
}

/* The index of a thread among those of blocks with these numbers. */
static const char *thread_of(const Lowering *c, const char *type,
                             const char *block, int64_t blocks)
{
    if (blocks == 1)
        return "thread_index()";
    return lower_text(c, "%s%s * %d + thread_index()",
                      type[3] ? "" : "(int)", block, c->plan->threads);
}

static void flat(Lowering *c)
{
    const CudaPlan *p = c->plan;
    const char *type = item_type(p, p->grid * p->threads);
    lower_let(c, lower_text(c, "const %s", type), "at", "%s",
              thread_of(c, type, c->block, p->grid));
    if (p->items % p->threads)
        lower_return_if(c, "at >= %lld", (long long)p->items);
    flat_item(c, p->kept_axes);
}

/* Names the indices of a block that sums over rows: its tile of columns, its
 * task (the index over the axes that are not summed) and its part of the
 * rows. */
static void name_task(Lowering *c)
{
    const CudaPlan *p = c->plan;
    const char *block =
        lower_index(c, "%s / %lld", c->block, (long long)p->tiles);
    if (p->tiles > 1)
        cuda_let_column(c, "tile", "(%s)(%s %% %lld)", c->column_type, c->block,
                        (long long)p->tiles);
    if (p->tasks > 1) {
        lower_let(c, "const int64_t", "task", "%s / %lld", block,
                  (long long)p->parts);
        kernel_split_index(c, p->kept_axes, "task", 1);
        block = lower_text(c, "%s %% %lld", block, (long long)p->parts);
    }
    if (p->parts > 1)
        lower_let(c, "const int64_t", "part", "%s", block);
}

static void flat_sums(Lowering *c)
{
    const CudaPlan *p = c->plan;
    int64_t step = p->parts * p->threads;
    const char *type = item_type(p, p->items + step);
    name_task(c);
    cuda_begin_totals(c);
    lower_hoisted(c);
    Stmt *outer = c->at;
    lower_for(c, LOOP_SERIAL, type, "at", thread_of(c, type, "part", p->parts),
              lower_text(c, "%lld", (long long)p->items), step);
    flat_item(c, p->summed);
    c->at = outer;
    cuda_end_totals(c);
}

/* ---- rows ---------------------------------------------------------------- */

static void name_threads(Lowering *c)
{
    bool one = c->plan->block_rows == 1;
    lower_let(c, "const int", "t", one ? "thread_index()" : "lane_index()");
    lower_let(c, "const int", "group", one ? "0" : "warp_index()");
}

/* "i0" if one axis counts the rows, else "row". */
static void name_rows(Lowering *c, uint32_t axes)
{
    c->row = kernel_count_axes(axes) == 1
                 ? lower_text(c, "i%d", kernel_first_axis(axes))
                 : "row";
}

static void rows(Lowering *c)
{
    const CudaPlan *p = c->plan;
    name_threads(c);
    name_rows(c, p->kept_axes);
    if (p->tasks > 1)
        lower_let(c, "const int64_t", c->row, "%s * %d + %s", c->block,
                  p->block_rows, p->block_rows > 1 ? "group" : "0");
    if (p->tasks % p->block_rows)
        lower_return_if(c, "%s >= %lld", c->row, (long long)p->tasks);
    kernel_split_index(c, p->kept_axes, c->row, 1);
    cuda_name_head(c);
    declare_kept(c);
    lower_row(c);
}

/* The loop over a part of the rows that are summed, for the columns of a tile or
 * all columns. */
static void row_sums(Lowering *c)
{
    const CudaPlan *p = c->plan;
    name_threads(c);
    name_rows(c, p->summed);
    name_task(c);
    if (p->form == CUDA_TILES)
        cuda_let_column(c, "j", "(%s + t) * %d",
                        p->tiles > 1 ? "tile * 32" : "0", p->vector);
    cuda_begin_totals(c);
    if (p->storage == CUDA_SHARED)
        declare_kept(c);
    lower_hoisted(c);
    Stmt *outer = c->at;
    if (p->form == CUDA_TILES && p->columns % (CUDA_WARP * p->vector))
        lower_if(c, "j < %lld", (long long)p->columns);
    lower_rows(c, c->row, p->rows, p->parts, p->block_rows > 1 ? "group" : "0",
               p->block_rows);
    kernel_split_index(c, p->summed, c->row, 1);
    cuda_name_head(c);
    if (p->storage != CUDA_SHARED)
        declare_kept(c);
    lower_row(c);
    c->at = outer;
    cuda_end_totals(c);
}

/* A condition that holds in one of the threads that have a row's values; "" if
 * there is only one. */
static const char *first_of_row(const Lowering *c)
{
    const CudaPlan *p = c->plan;
    const char *text = p->inner >= 0 ? "j == 0" : "";
    if (p->form != CUDA_FLAT)
        return p->form == CUDA_TILES ? "j == 0" : "t == 0";
    for (int a = 0; a < p->k->space.naxes; a++)
        if (p->outer >> a & 1)
            text = lower_text(c, "%s && j%d == 0", text, a);
    return text;
}

/* Finds the row values that are the same in all iterations of a kernel with
 * sums. */
static const bool *hoisted(const Lowering *c)
{
    const CudaPlan *p = c->plan;
    bool *values = NEW_ARRAY(c->arena, bool, p->k->ninstrs + 1);
    for (int i = 0; i < p->k->ninstrs; i++)
        values[i] = p->totals && p->k->instr[i].phase == 0 &&
                    !(p->k->instr[i].axes & ~p->kept_axes);
    return values;
}

static void main_function(Lowering *c)
{
    const CudaPlan *p = c->plan;
    c->first = first_of_row(c);
    c->once = p->form == CUDA_FLAT;
    c->hoisted = hoisted(c);
    declare_sums(c);
    if (p->form == CUDA_FLAT)
        (p->totals ? flat_sums : flat)(c);
    else
        (p->totals ? row_sums : rows)(c);
}

/* ---- functions ----------------------------------------------------------- */

/* A grid with more blocks than one dim can count gets two dims, with at least
 * as many blocks; blocks beyond the number return immediately. */
static void number_blocks(Lowering *c, int64_t grid)
{
    c->block = "block_index()";
    if (grid <= INT32_MAX)
        return;
    c->block = "block";
    lower_let(c, "const int64_t", c->block, "wide_block_index()");
    lower_return_if(c, "block >= %lld", (long long)grid);
}

static const KernelTarget target = {.dialect = &dialect_cuda,
                                    .columns = cuda_columns,
                                    .finish = cuda_finish,
                                    .element = cuda_element,
                                    .value = cuda_value,
                                    .reused = cuda_reused,
                                    .kept = cuda_kept,
                                    .column_sum = cuda_column_sum,
                                    .is_vector = cuda_stores_vector,
                                    .reduce = cuda_online_element};

/* Prints a function, whose parameters are the buffers that it uses. */
static void function(Out *o, const CudaPlan *plan, CudaFunction *f, bool bare,
                     void (*body)(Lowering *))
{
    const Kernel *k = plan->k;
    Arena *a = plan->p->arena;
    Lowering c = {.p = plan->p,
                  .arena = a,
                  .k = k,
                  .target = &target,
                  .phase = plan->phase,
                  .nphases = plan->nphases,
                  .inner = "j",
                  .column_type = kernel_column_type(k, plan->columns),
                  .merged = plan->merged,
                  .plan = plan};
    c.at = &c.function;
    number_blocks(&c, f->grid);
    body(&c);
    stmt_drop_unused(&c.function);
    const char **item = NEW_ARRAY(a, const char *, k->nbuffers + 2);
    f->arg = NEW_ARRAY(a, int, k->nbuffers + 2);
    for (int i = 0; i <= k->nbuffers; i++) {
        if (!stmt_uses(&c.function,
                       i < k->nbuffers ? k->buffer[i].name : "workspace"))
            continue;
        item[f->nargs] =
            kernel_parameter(a, k, i, dialect_cuda.restricted);
        if (i == k->nbuffers && body == cuda_combine)
            item[f->nargs] = arena_printf(a, "const %s", item[f->nargs]);
        f->arg[f->nargs++] = i;
    }
    if (f->min_blocks > 0)
        out_line(o, "PARC_KERNEL(%d, %d)", f->threads, f->min_blocks);
    else
        out_line(o, "PARC_KERNEL(%d)", f->threads);
    kernel_signature(o, arena_printf(a, "%s(", f->symbol), f->nargs, item, "");
    out_open(o, "{");
    loops_print(o, &dialect_cuda, &c.function, bare ? NULL : plan->p);
    out_close(o);
}

void cuda_functions(Out *o, const CudaPlan *plan, const char *name, bool bare,
                    CudaFunction *first, CudaFunction *second)
{
    *first = (CudaFunction){.symbol = name,
                            .grid = plan->grid,
                            .threads = plan->threads,
                            .min_blocks = plan->min_blocks,
                            .shared_bytes = plan->shared_bytes};
    function(o, plan, first, bare, main_function);
    *second = (CudaFunction){0};
    if (!plan->combine)
        return;
    *second = (CudaFunction){
        .symbol = arena_printf(plan->p->arena, "%s_combine", name),
        .grid = plan->combine_grid,
        .threads = CUDA_WARP * plan->combine_warps};
    out_line(o, "");
    function(o, plan, second, bare, cuda_combine);
}
