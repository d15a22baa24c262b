/* cuda_strips.c: the loops over the columns that a thread processes: over its
 * strips (one vector of columns each), over the elements of a vector, and over
 * the edge of a ragged row (cuda_ragged.c); the names of columns. */
#include "codegen/cuda/cuda_lower.h"

#include <stdarg.h>

/* Two iterations of a loop that reads at most IN_FLIGHT bytes in each are
 * unrolled; a loop of few iterations that read at most AT_ONCE bytes together
 * is unrolled fully. */
enum { IN_FLIGHT = 32, AT_ONCE = 192, FEW = 4 };

/* ---- indices ------------------------------------------------------------- */

void cuda_close(Lowering *c, Stmt *outer)
{
    c->at = outer;
    c->inner = "j";
}

const char *cuda_flat_column(const Lowering *c)
{
    return c->plan->outer ? "c" : "j";
}

void cuda_let_column(Lowering *c, const char *name, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *value = arena_vprintf(c->arena, fmt, ap);
    va_end(ap);
    lower_let(c, lower_text(c, "const %s", c->column_type), name, "%s", value);
}

void cuda_split_columns(Lowering *c, const char *from)
{
    const CudaPlan *p = c->plan;
    if (!p->outer)
        return;
    cuda_let_column(c, "j", "%s %% %lld", from, (long long)p->length);
    kernel_split_index(c, p->outer, from, p->length);
}

void cuda_name_head(Lowering *c)
{
    const CudaPlan *p = c->plan;
    if (*cuda_row_head(p) != '0')
        cuda_let_column(c, "head", "(%s)(-(%s) & %d)", c->column_type,
                        kernel_index(c, p->guide->axes & ~(1u << p->inner),
                                     p->guide->stride, 0),
                        p->vector - 1);
}

void cuda_open_edge(Lowering *c, const char *item)
{
    const CudaPlan *p = c->plan;
    if (*cuda_row_head(p) == '0')
        cuda_let_column(c, "j", "%s + %lld", item,
                        (long long)(p->length / p->vector * p->vector));
    else
        cuda_let_column(c, "j", "%s < head ? %s : %s + ((%lld - head) & -%d)",
                        item, item, item, (long long)p->length, p->vector);
    lower_if(c, "j < %lld", (long long)p->length);
}

/* ---- shared memory --------------------------------------------------------- */

void lower_shared(Lowering *c, const char *name)
{
    lower_add(c,
              (Stmt){.code = STMT_SHARED, .type = "float", .name = name});
}

const char *cuda_in_shared(const Lowering *c, const char *type, int64_t bytes)
{
    return lower_text(c, "(%s *)%s", type,
                      bytes ? lower_text(c, "((char *)parc_shared() + %lld)",
                                         (long long)bytes)
                            : "parc_shared()");
}

/* ---- loops --------------------------------------------------------------- */

/* Whether values of the strips are arrays in registers, which requires that the
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
    return has_arrays(p) || p->strips == 1 ||
           (p->strips <= FEW && p->strips * loads <= AT_ONCE);
}

/* Whether each thread has one column or vector, which the code around names. */
static bool has_no_strips(const CudaPlan *p)
{
    return p->form == CUDA_FLAT || p->form == CUDA_TILES || p->at_edge;
}

static int64_t strip_step(const CudaPlan *p)
{
    return (int64_t)p->row_threads * p->vector;
}

/* The column after the last at which a strip begins. */
static int64_t strips_end(const CudaPlan *p)
{
    return p->guide ? p->length - p->vector + 1 : p->columns;
}

static void open_rolled(Lowering *c, LoopKind kind, const char *name,
                        int64_t step)
{
    const CudaPlan *p = c->plan;
    lower_for(c, kind, c->column_type, name,
              lower_index(c, "%s + t * %d", cuda_row_head(p), p->vector),
              lower_text(c, "%lld", (long long)strips_end(p)), step);
}

void cuda_open_strips(Lowering *c, int64_t loads)
{
    const CudaPlan *p = c->plan;
    const char *name = cuda_flat_column(c), *strip = "t";
    if (has_no_strips(p))
        return;
    if (!is_unrolled(p, loads)) {
        /* Two or three loads in flight are enough; more would cost
         * registers. */
        open_rolled(c, loads > IN_FLIGHT ? LOOP_ROLLED : LOOP_UNROLLED_2, name,
                    strip_step(p));
        cuda_split_columns(c, name);
        return;
    }
    if (p->strips > 1) {
        lower_count(c, LOOP_UNROLLED, "s", p->strips);
        strip = lower_text(c, "(s * %d + t)", p->row_threads);
    } else {
        lower_block(c);
    }
    cuda_let_column(c, name, "%s + %s * %d", cuda_row_head(p), strip,
                    p->vector);
    if (p->columns % strip_step(p))
        lower_if(c, "%s < %lld", name, (long long)strips_end(p));
    cuda_split_columns(c, name);
}

bool cuda_open_pairs(Lowering *c, int64_t loads)
{
    const CudaPlan *p = c->plan;
    if (has_no_strips(p) || is_unrolled(p, loads) || loads > IN_FLIGHT)
        return false;
    open_rolled(c, LOOP_ROLLED, "at", 2 * strip_step(p));
    return true;
}

void cuda_open_pair(Lowering *c)
{
    const CudaPlan *p = c->plan;
    const char *name = cuda_flat_column(c);
    lower_count(c, LOOP_UNROLLED, "s", 2);
    cuda_let_column(c, name, "at + s * %lld", (long long)strip_step(p));
    lower_if(c, "%s < %lld", name, (long long)strips_end(p));
    cuda_split_columns(c, name);
}

void cuda_open_vector(Lowering *c)
{
    if (c->plan->vector == 1)
        return;
    c->inner = "j + e";
    lower_count(c, LOOP_UNROLLED, "e", c->plan->vector);
}
