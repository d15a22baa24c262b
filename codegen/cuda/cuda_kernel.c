/* cuda_kernel.c: prints the functions of a CUDA kernel: signature, indices of
 * block and thread, arrays, and the loop over rows. cuda_plan.c has assigned
 * elements to threads; cuda_body.c prints the code for one row. */
#include <string.h>

#include "base/bug.h"
#include "codegen/cuda/cuda_kernel.h"

/* ---- declarations -------------------------------------------------------- */

static void declare_sums(CudaPrinter *c)
{
    const CudaPlan *p = c->plan;
    for (int r = 0; r < p->k->nroots; r++)
        if (p->k->root[r].kind == ROOT_REDUCE && p->row_threads > CUDA_WARP)
            out_line(c->text.o, "PARC_SHARED float sum%d%s[%d];",
                     p->k->root[r].target,
                     cuda_double_buffers_sums(p) ? "[2]" : "", CUDA_WARP);
    for (int i = 0; i < p->k->ntotals; i++)
        if (!p->k->total[i].columns && p->threads > CUDA_WARP &&
            !(p->uniform[i] && p->block_rows == 1))
            out_line(c->text.o, "PARC_SHARED float sum%d[%d];",
                     p->k->total[i].instr, CUDA_WARP);
}

/* Declares the values that are kept on the chip between phases: 16-bit elements
 * as words (cuda_is_raw), others one by one. */
static void declare_kept(CudaPrinter *c)
{
    const CudaPlan *p = c->plan;
    for (int i = 0; i < p->k->ninstrs && p->edge; i++)
        if (p->on_chip[i])
            out_line(c->text.o, "%s edge%d;",
                     c_value_type(p->k->instr[i].dtype), i);
    for (int i = 0; i < p->k->ninstrs; i++) {
        const KernelInstr *instr = &p->k->instr[i];
        if (!p->on_chip[i])
            continue;
        const KernelBuffer *b =
            instr->code == KERNEL_LOAD ? &p->k->buffer[instr->buffer] : NULL;
        int elements = p->vector * kernel_lanes(p->k, instr->axes);
        if (p->storage == CUDA_SHARED) {
            const char *type = c_type(b ? b->dtype : instr->dtype);
            out_line(c->text.o, "%s *kept%d = (%s *)%s;", type, i, type,
                     p->on_chip_at[i]
                         ? arena_printf(c->text.p->arena,
                                        "((char *)parc_shared() + %lld)",
                                        (long long)p->on_chip_at[i])
                         : "parc_shared()");
        } else if (b && dtype_size(b->dtype) == 2 && cuda_is_vector(p, b)) {
            out_line(c->text.o, "uint32_t kept%d[%d][%d];", i, p->slots,
                     elements / 2);
        } else {
            out_line(c->text.o, "%s kept%d[%d][%d];",
                     c_value_type(instr->dtype), i, p->slots, elements);
        }
    }
}

/* ---- flat ---------------------------------------------------------------- */

/* Prints the column j and the indices of the row's axes, computed from `at`,
 * the number of a vector. */
static void split_vector(CudaPrinter *c, uint32_t axes)
{
    const CudaPlan *p = c->plan;
    Arena *a = c->text.p->arena;
    int64_t vectors = p->length / p->vector;
    axes |= p->outer;
    if (p->inner < 0) {
        kernel_split_index(&c->text, axes, "at", 1);
        return;
    }
    const char *j = "at";
    if (axes && vectors > 1)
        j = arena_printf(a, "at %% %lld", (long long)vectors);
    else if (axes)
        j = "0";
    if (p->vector > 1 && *j != '0')
        j = arena_printf(a, "%s * %d", j, p->vector);
    out_line(c->text.o, "const %s j = %s;", cuda_column_type(p), j);
    if (axes)
        kernel_split_index(&c->text, axes, "at", vectors);
}

/* Prints the code for a work item of a ragged row (cuda_ragged.c): a vector, or
 * an element of the edge. */
static void print_ragged_item(CudaPrinter *c, uint32_t axes)
{
    const CudaPlan *p = c->plan;
    int64_t vectors = p->length / p->vector, items = cuda_row_items(p);
    const char *type = cuda_column_type(p), *head = cuda_row_head(p),
               *item = "at";
    axes |= p->outer;
    if (axes) {
        item = "item";
        out_line(c->text.o, "const %s item = at %% %lld;", type,
                 (long long)items);
        kernel_split_index(&c->text, axes, "at", items);
    }
    cuda_name_head(c);
    int opened =
        cuda_open_block(c, "if (%s < %lld) {", item, (long long)vectors);
    out_line(c->text.o, "const %s j = %s%s%s * %d;", type, head,
             *head ? " + " : "", item, p->vector);
    if (*head)
        opened += cuda_open_block(c, "if (j < %lld) {",
                                  (long long)(p->length - p->vector + 1));
    cuda_body(c);
    cuda_close_blocks(c, opened);
    opened = cuda_open_block(c, "if (%s >= %lld) {", item, (long long)vectors);
    out_line(c->text.o, "const %s u = %s - %lld;", type, item,
             (long long)vectors);
    opened += cuda_open_edge(c, "u");
    c->plan = p->edge;
    cuda_body(c);
    c->plan = p;
    cuda_close_blocks(c, opened);
}

/* Prints the code for work item `at` of the rows along `axes`. */
static void print_item(CudaPrinter *c, uint32_t axes)
{
    if (c->plan->guide) {
        print_ragged_item(c, axes);
        return;
    }
    split_vector(c, axes);
    cuda_body(c);
}

/* Whether an int can number the elements of all vectors. */
static bool is_small(const CudaPlan *p, int64_t vectors)
{
    return vectors < INT32_MAX / p->vector;
}

static void flat(CudaPrinter *c)
{
    const CudaPlan *p = c->plan;
    int64_t n = p->items;
    bool small = is_small(p, p->grid * p->threads);
    if (p->grid == 1)
        out_line(c->text.o, "const int at = thread_index();");
    else
        out_line(c->text.o,
                 "const %s at = %s%s * %d + thread_index();",
                 small ? "int" : "int64_t", small ? "(int)" : "", c->block,
                 p->threads);
    if (n % p->threads) {
        out_line(c->text.o, "if (at >= %lld)", (long long)n);
        out_line(c->text.o, "    return;");
    }
    print_item(c, p->kept_axes);
}

/* Prints the indices of a block that sums over rows: its tile of columns, its
 * unit (the index over the axes that are not summed) and its part of the
 * rows. */
static void open_unit(CudaPrinter *c)
{
    const CudaPlan *p = c->plan;
    Arena *a = c->text.p->arena;
    const char *block = c->block;
    if (p->tiles > 1) {
        out_line(c->text.o, "const %s tile = (%s)(%s %% %lld);",
                 cuda_column_type(p), cuda_column_type(p), block,
                 (long long)p->tiles);
        block = arena_printf(a, "%s / %lld", block, (long long)p->tiles);
    }
    if (p->units > 1) {
        out_line(c->text.o, "const int64_t unit = %s%s;", block,
                 p->parts > 1 ? arena_printf(a, " / %lld", (long long)p->parts)
                              : "");
        kernel_split_index(&c->text, p->kept_axes, "unit", 1);
    }
    if (p->parts > 1)
        out_line(c->text.o, "const int64_t part = %s%s;", block,
                 p->units > 1 ? arena_printf(a, " %% %lld", (long long)p->parts)
                              : "");
}

static void flat_sums(CudaPrinter *c)
{
    const CudaPlan *p = c->plan;
    Arena *a = c->text.p->arena;
    int64_t n = p->items;
    int64_t step = p->parts * p->threads;
    bool small = is_small(p, n + step);
    open_unit(c);
    cuda_begin_totals(c);
    cuda_ahead(c);
    const char *first = "thread_index()";
    if (p->parts > 1)
        first = arena_printf(a, "%spart * %d + thread_index()",
                             small ? "(int)" : "", p->threads);
    int opened = cuda_open_block(c, "for (%s at = %s; at < %lld; at += %lld) {",
                                 small ? "int" : "int64_t", first, (long long)n,
                                 (long long)step);
    print_item(c, p->summed);
    cuda_close_blocks(c, opened);
    cuda_end_totals(c);
}

/* ---- rows ---------------------------------------------------------------- */

static void name_threads(CudaPrinter *c)
{
    const CudaPlan *p = c->plan;
    if (p->block_rows == 1) {
        out_line(c->text.o, "const int t = thread_index();");
        return;
    }
    out_line(c->text.o, "const int t = lane_index();");
    out_line(c->text.o, "const int group = warp_index();");
}

/* "i0" if one axis counts the rows, else "row". */
static void name_rows(CudaPrinter *c, uint32_t axes)
{
    c->row =
        kernel_count_axes(axes) == 1
            ? arena_printf(c->text.p->arena, "i%d", kernel_first_axis(axes))
            : "row";
}

static void rows(CudaPrinter *c)
{
    const CudaPlan *p = c->plan;
    name_threads(c);
    name_rows(c, p->kept_axes);
    if (p->units > 1)
        out_line(c->text.o, "const int64_t %s = %s%s;", c->row, c->block,
                 p->block_rows == 1
                     ? ""
                     : arena_printf(c->text.p->arena, " * %d + group",
                                    p->block_rows));
    if (p->units % p->block_rows) {
        out_line(c->text.o, "if (%s >= %lld)", c->row, (long long)p->units);
        out_line(c->text.o, "    return;");
    }
    kernel_split_index(&c->text, p->kept_axes, c->row, 1);
    cuda_name_head(c);
    declare_kept(c);
    cuda_body(c);
}

/* Prints the loop over a part of the rows that are summed, for the columns of a
 * tile or all columns. */
static void row_sums(CudaPrinter *c)
{
    const CudaPlan *p = c->plan;
    Arena *a = c->text.p->arena;
    const char *first = "0", *end = arena_printf(a, "%lld", (long long)p->rows);
    int opened = 0;
    name_threads(c);
    name_rows(c, p->summed);
    open_unit(c);
    if (p->form == CUDA_TILES)
        out_line(
            c->text.o, "const %s j = %st%s;", cuda_column_type(p),
            p->tiles > 1 ? (p->vector > 1 ? "(tile * 32 + " : "tile * 32 + ")
                         : "",
            p->vector == 1 ? ""
                           : arena_printf(a, "%s * %d", p->tiles > 1 ? ")" : "",
                                          p->vector));
    cuda_begin_totals(c);
    if (p->storage == CUDA_SHARED)
        declare_kept(c);
    if (p->parts > 1) {
        out_line(c->text.o, "const int64_t end = (part + 1) * %lld / %lld;",
                 (long long)p->rows, (long long)p->parts);
        first = arena_printf(a, "part * %lld / %lld", (long long)p->rows,
                             (long long)p->parts);
        end = "end";
    }
    cuda_ahead(c);
    if (p->block_rows > 1)
        first = *first == '0' ? "group" : arena_printf(a, "%s + group", first);
    if (p->form == CUDA_TILES && p->columns % (CUDA_WARP * p->vector))
        opened += cuda_open_block(c, "if (j < %lld) {", (long long)p->columns);
    opened +=
        cuda_open_block(c, "for (int64_t %s = %s; %s < %s; %s += %d) {", c->row,
                        first, c->row, end, c->row, p->block_rows);
    kernel_split_index(&c->text, p->summed, c->row, 1);
    cuda_name_head(c);
    if (p->storage != CUDA_SHARED)
        declare_kept(c);
    cuda_body(c);
    cuda_close_blocks(c, opened);
    cuda_end_totals(c);
}

static void main_body(CudaPrinter *c)
{
    const CudaPlan *p = c->plan;
    declare_sums(c);
    if (p->form == CUDA_FLAT)
        (p->totals ? flat_sums : flat)(c);
    else
        (p->totals ? row_sums : rows)(c);
}

/* ---- functions ----------------------------------------------------------- */

/* A grid with more blocks than one dim can count gets two dims, with at least
 * as many blocks; blocks beyond the number return immediately. */
static void number_blocks(CudaPrinter *c, int64_t grid)
{
    c->block = "block_index()";
    if (grid <= INT32_MAX)
        return;
    c->block = "block";
    out_line(c->text.o, "const int64_t block = wide_block_index();");
    out_line(c->text.o, "if (block >= %lld)", (long long)grid);
    out_line(c->text.o, "    return;");
}

static void function(CudaPrinter *c, CudaFunction *f, const char *name,
                     void (*body)(CudaPrinter *))
{
    const Kernel *k = c->plan->k;
    Arena *a = c->text.p->arena;
    Out text, *to = c->text.o;
    out_init(&text, a);
    text.indent = OUT_INDENT;
    c->text.o = &text;
    c->text.uses = &(KernelUses){NEW_ARRAY(a, bool, k->nbuffers + 1), false,
                                 false};
    number_blocks(c, f->grid);
    body(c);
    c->text.o = to;
    const char **item = NEW_ARRAY(a, const char *, k->nbuffers + 2);
    f->symbol = name;
    f->arg = NEW_ARRAY(a, int, k->nbuffers + 2);
    f->nargs = 0;
    for (int i = 0; i <= k->nbuffers; i++) {
        if (!(i < k->nbuffers ? c->text.uses->buffer[i]
                              : c->text.uses->workspace))
            continue;
        item[f->nargs] = kernel_parameter(&c->text, i, "__restrict__");
        if (i == k->nbuffers && body == cuda_combine)
            item[f->nargs] = arena_printf(a, "const %s", item[f->nargs]);
        f->arg[f->nargs++] = i;
    }
    if (f->min_blocks > 0)
        out_line(to, "PARC_KERNEL(%d, %d)", f->threads, f->min_blocks);
    else
        out_line(to, "PARC_KERNEL(%d)", f->threads);
    kernel_signature(&c->text, arena_printf(a, "%s(", name), f->nargs, item,
                     "");
    out_line(to, "{");
    out(to, "%s", text.text);
    out_line(to, "}");
}

void cuda_functions(Out *o, const CudaPlan *plan, const char *name, bool bare,
                    CudaFunction *first, CudaFunction *second)
{
    CudaPrinter c = {.text = {.o = o,
                              .p = plan->p,
                              .k = plan->k,
                              .inner = "j",
                              .merged = plan->merged,
                              .bare = bare,
                              .load = cuda_load_expression,
                              .random = cuda_random_expression},
                     .plan = plan};
    *first = (CudaFunction){.grid = plan->grid,
                            .threads = plan->threads,
                            .min_blocks = plan->min_blocks,
                            .shared_bytes = plan->shared_bytes};
    function(&c, first, name, main_body);
    *second = (CudaFunction){0};
    if (!plan->combine)
        return;
    *second = (CudaFunction){.grid = plan->combine_grid,
                             .threads = CUDA_WARP * plan->combine_warps};
    out_line(o, "");
    function(&c, second, arena_printf(plan->p->arena, "%s_combine", name),
             cuda_combine);
}
