/* cuda_columns.c: prints the loops over the columns that a thread processes:
 * over its slots (one vector of columns each), over the elements of a vector,
 * and over the edge of a ragged row (cuda_ragged.c). */
#include "codegen/cuda/cuda_kernel.h"

#include <stdarg.h>

/* Two iterations of a loop that reads at most IN_FLIGHT bytes in each are
 * unrolled; a loop of few iterations that read at most AT_ONCE bytes together
 * is unrolled fully. */
enum { IN_FLIGHT = 32, AT_ONCE = 192, FEW = 4 };

const char *cuda_column_type(const CudaPlan *c)
{
    const Kernel *k = c->k;
    int64_t stride = 1;
    for (int i = 0; i < k->nbuffers && c->inner >= 0; i++)
        if (k->buffer[i].stride[c->inner] > stride)
            stride = k->buffer[i].stride[c->inner];
    return c->columns < INT32_MAX / 4 / stride ? "int" : "int64_t";
}

int cuda_open_block(CudaPrinter *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    out_open(c->text.o, "%s", arena_vprintf(c->text.p->arena, fmt, ap));
    va_end(ap);
    return 1;
}

void cuda_close_blocks(CudaPrinter *c, int n)
{
    while (n-- > 0)
        out_close(c->text.o);
}

void cuda_split_columns(CudaPrinter *c, const char *from)
{
    const CudaPlan *p = c->plan;
    if (!p->outer)
        return;
    out_line(c->text.o, "const %s j = %s %% %lld;", cuda_column_type(p), from,
             (long long)p->length);
    kernel_split_index(&c->text, p->outer, from, p->length);
}

/* Whether values of the slots are arrays in registers, which requires that the
 * loop is unrolled. */
static bool has_arrays(const CudaPlan *p)
{
    bool any = cuda_column_totals(p) > 0;
    for (int i = 0; i < p->k->ninstrs; i++)
        any |= p->on_chip[i];
    return any && p->storage == CUDA_REGISTERS;
}

static bool is_unrolled(const CudaPlan *p, int64_t loads)
{
    return has_arrays(p) || p->slots == 1 ||
           (p->slots <= FEW && p->slots * loads <= AT_ONCE);
}

/* Declares the column of a slot; cuda_close_slots adds the line if the code of
 * the slot uses the column: the compiler warns about unused variables. */
static void declare_column(CudaPrinter *c, const char *name, const char *first)
{
    const CudaPlan *p = c->plan;
    int64_t step = (int64_t)p->row_threads * p->vector;
    c->column = arena_printf(c->text.p->arena, "%*sconst %s %s = %s;\n",
                             c->text.o->indent, "", cuda_column_type(p), name,
                             first);
    c->column_at = c->text.o->size;
    c->text.uses->column = p->outer || p->columns % step;
}

void cuda_close_slots(CudaPrinter *c, int opened)
{
    if (c->column && c->text.uses->column)
        out_insert(c->text.o, c->column_at, c->column);
    c->column = NULL;
    cuda_close_blocks(c, opened);
}

int cuda_open_slots(CudaPrinter *c, int64_t loads)
{
    const CudaPlan *p = c->plan;
    Arena *a = c->text.p->arena;
    int opened = 0;
    int64_t step = (int64_t)p->row_threads * p->vector;
    const char *name = p->outer ? "c" : "j", *type = cuda_column_type(p);
    if (p->form == CUDA_FLAT || p->form == CUDA_TILES || p->at_edge)
        return 0;
    const char *head = *cuda_row_head(p) ? "head + " : "";
    const char *first =
        arena_printf(a, p->vector > 1 ? "%st * %d" : "%st", head, p->vector);
    int64_t end = p->guide ? p->length - p->vector + 1 : p->columns;
    if (!is_unrolled(p, loads)) {
        /* Two or three loads in flight are enough; more would cost
         * registers. */
        out_line(c->text.o, loads > IN_FLIGHT ? "PARC_ROLL" : "PARC_UNROLL_2");
        opened += cuda_open_block(
            c, "for (%s %s = %s; %s < %lld; %s += %lld) {", type, name, first,
            name, (long long)end, name, (long long)step);
        cuda_split_columns(c, name);
        return opened;
    }
    if (p->slots > 1) {
        out_line(c->text.o, "PARC_UNROLL");
        opened +=
            cuda_open_block(c, "for (int s = 0; s < %d; s++) {", p->slots);
        first = arena_printf(a, "%s(s * %d + t)%s", head, p->row_threads,
                             p->vector > 1 ? arena_printf(a, " * %d", p->vector)
                                           : "");
    } else {
        opened += cuda_open_block(c, "{");
    }
    declare_column(c, name, first);
    if (p->columns % step)
        opened += cuda_open_block(c, "if (%s < %lld) {", name, (long long)end);
    cuda_split_columns(c, name);
    return opened;
}

int cuda_open_vector(CudaPrinter *c)
{
    const CudaPlan *p = c->plan;
    if (p->vector == 1)
        return 0;
    c->text.inner = "(j + e)";
    out_line(c->text.o, "PARC_UNROLL");
    return cuda_open_block(c, "for (int e = 0; e < %d; e++) {", p->vector);
}

void cuda_close_vector(CudaPrinter *c, int opened)
{
    cuda_close_blocks(c, opened);
    c->text.inner = "j";
}

void cuda_name_head(CudaPrinter *c)
{
    const CudaPlan *p = c->plan;
    const char *type = cuda_column_type(p);
    if (!*cuda_row_head(p))
        return;
    out_line(c->text.o, "const %s head = (%s)(-(%s) & %d);", type, type,
             kernel_index(&c->text, p->guide->axes & ~(1u << p->inner),
                          p->guide->stride, 0),
             p->vector - 1);
}

int cuda_open_edge(CudaPrinter *c, const char *item)
{
    const CudaPlan *p = c->plan;
    const char *type = cuda_column_type(p);
    if (*cuda_row_head(p))
        out_line(c->text.o,
                 "const %s j = %s < head ? %s : %s + ((%lld - head) & -%d);",
                 type, item, item, item, (long long)p->length, p->vector);
    else
        out_line(c->text.o, "const %s j = %s + %lld;", type, item,
                 (long long)(p->length / p->vector * p->vector));
    return cuda_open_block(c, "if (j < %lld) {", (long long)p->length);
}

const char *cuda_flat_column(const CudaPrinter *c)
{
    if (c->plan->outer)
        return "c";
    c->text.uses->column = true;
    return "j";
}
