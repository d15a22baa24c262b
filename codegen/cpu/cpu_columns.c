/* cpu_columns.c: lowers the work on the columns of a row to vectorized loops:
 *
 *   float r2 = 0.0f;
 *   #pragma omp simd reduction(+ : r2)
 *   for (int j = 0; j < 4096; j++) {
 *       const float t0 = x_row[j];
 *       const float t1 = t0 * t0;
 *       r2 += t1;
 *   }
 *
 * The first loop over a long row is split into blocks, each of which prefetches
 * the next block.
 *
 * Random numbers are drawn in rows before the loop that reads them, once for
 * all phases, because one call of the generator (Philox) produces four:
 *
 *   float u3[4096];
 *   parc_random_row(u3, r1, 7, r2 * 4096 + … + i0 * 4096, 4096);
 *
 * Each element is drawn separately if the row is too long for the stack, or not
 * contiguous in the global tensor (the columns are several axes, or have a
 * stride). Numbers are indexed by position in the global tensor: above, r1 is
 * the key, 7 the number of the occurrence of `random` in the model, and r2 the
 * row at which the part of this rank begins.
 */
#include "codegen/cpu/cpu_kernel.h"

/* LONG_ROW: columns from which a row exceeds a core's first-level cache.
 * DRAWN_ROW: most random numbers that are drawn at a time. */
enum { LONG_ROW = 8192, DRAWN_ROW = 4 * SPACE_BLOCK };

/* The number of columns along the inner axis, as C. */
static const char *inner_size(const Lowering *c)
{
    const Space *s = &c->k->space;
    return s->tail ? "columns"
                   : lower_text(c, "%lld",
                                (long long)s->size[kernel_inner_axis(c->k)]);
}

static void open_inner(Lowering *c, const char *begin, const char *end)
{
    lower_for(c, LOOP_SIMD, c->column_type, c->inner, begin, end, 1);
}

void cpu_open_columns(Lowering *c)
{
    const Space *s = &c->k->space;
    int inner = kernel_inner_axis(c->k);
    for (int a = 0; a < s->naxes; a++)
        if ((s->column >> a & 1) && a != s->pair && a != inner)
            lower_count(c, LOOP_SERIAL, lower_text(c, "j%d", a), s->size[a])
                ->type = "int64_t";
    if (inner < 0) /* only a pair axis: no loop */
        lower_block(c);
    else
        open_inner(c, "0", inner_size(c));
}

/* ---- elements ------------------------------------------------------------ */

static bool has_row_pointer(const Lowering *c, const KernelBuffer *b)
{
    return kernel_is_element(c->k, b->axes) && (b->axes & ~c->k->space.column);
}

void cpu_row_pointers(Lowering *c)
{
    const KernelBuffer *kept = &c->k->buffer[c->k->nbuffers];
    if (c->k->keeps_row)
        lower_var(c, "float",
                  lower_text(c, "%s%s[%lld]", kept->name,
                             has_row_pointer(c, kept) ? "_row" : "",
                             (long long)kept->elements),
                  NULL);
    for (int i = 0; i < c->k->nbuffers; i++) {
        const KernelBuffer *b = &c->k->buffer[i];
        const char *offset =
            kernel_index(c, b->axes & ~c->k->space.column, b->stride, 0);
        if (has_row_pointer(c, b))
            lower_let(c,
                      lower_text(c, "%s%s *", b->out ? "" : "const ",
                                 c_type(b->dtype)),
                      lower_text(c, "%s_row", b->name), "%s + %s", b->name,
                      offset);
    }
}

/* "x_row[j]" */
const char *cpu_element(const Lowering *c, int buffer, int lane)
{
    const KernelBuffer *b = &c->k->buffer[buffer];
    uint32_t column = c->k->space.column;
    if (!kernel_is_element(c->k, b->axes))
        return kernel_element(c, b, lane);
    return lower_text(c, "%s%s[%s]", b->name,
                      has_row_pointer(c, b) ? "_row" : "",
                      kernel_index(c, b->axes & column, b->stride, lane));
}

/* Whether the numbers of an instruction are drawn in rows. */
static bool is_drawn_in_rows(const Kernel *k, const KernelInstr *instr)
{
    int inner = kernel_inner_axis(k);
    return instr->code == KERNEL_RANDOM && inner >= 0 &&
           k->space.column == 1u << inner && (instr->axes >> inner & 1) &&
           instr->stride[inner] == 1 && k->space.size[inner] <= DRAWN_ROW;
}

const char *cpu_value(const Lowering *c, int i, int lane)
{
    const KernelInstr *instr = &c->k->instr[i];
    if (instr->code == KERNEL_RANDOM)
        return is_drawn_in_rows(c->k, instr) && !c->epilogue
                   ? lower_text(c, "u%d[%s]", i, c->inner)
                   : kernel_random_alone(c, i, lane);
    const KernelBuffer *b = &c->k->buffer[instr->buffer];
    return kernel_loaded(c, b,
                         c->epilogue ? kernel_element(c, b, lane)
                                     : cpu_element(c, instr->buffer, lane));
}

/* ---- before a phase's loop ----------------------------------------------- */

/* The first phase whose loop computes the instruction. */
static int first_phase(const Lowering *c, int instr)
{
    for (int p = 0; p < c->nphases; p++)
        for (int i = 0; i < c->phase[p].nelement; i++)
            if (c->phase[p].element[i].instr == instr &&
                !c->phase[p].element[i].reused)
                return p;
    return -1;
}

static void draw_rows(Lowering *c, int phase)
{
    for (int i = 0; i < c->k->ninstrs; i++) {
        const KernelInstr *instr = &c->k->instr[i];
        if (!is_drawn_in_rows(c->k, instr) || first_phase(c, i) != phase)
            continue;
        int inner = kernel_inner_axis(c->k);
        const char *from =
            kernel_random_index(c, instr, instr->axes & ~(1u << inner), 0);
        lower_var(c, "float",
                  lower_text(c, "u%d[%lld]", i,
                             (long long)c->k->space.size[inner]),
                  NULL);
        lower_add(
            c, (Stmt){.code = STMT_LINE,
                      .source = instr->source,
                      .text = lower_text(
                          c, "parc_random_row(u%d, %s, %lld, %s, %s);", i,
                          kernel_value(c, instr->arg[0], 0),
                          (long long)attr_site(instr->source), from,
                          inner_size(c))});
    }
}

/* Whether the phase is the first that reads the buffer's row. */
static bool reads_first(const Lowering *c, int phase, int buffer)
{
    int first = c->nphases;
    for (int i = 0; i < c->k->ninstrs; i++) {
        int p = kernel_loads(c->k, 1, &i, buffer) ? first_phase(c, i) : -1;
        first = p >= 0 && p < first ? p : first;
    }
    return first == phase;
}

/* Prefetching for long rows: a softmax computes much for each element, and the
 * hardware prefetcher looks only a few lines further, so that each line would
 * wait for memory. The row is read in blocks, and each block prefetches the
 * next one. Returns whether such a loop was opened. */
static bool open_blocks(Lowering *c, int phase)
{
    const Space *s = &c->k->space;
    int inner = kernel_inner_axis(c->k);
    bool any = false;
    if (inner < 0 || s->column != 1u << inner || s->tail ||
        s->size[inner] < LONG_ROW)
        return false;
    const char *n = inner_size(c);
    for (int i = 0; i < c->k->nbuffers; i++) {
        const KernelBuffer *b = &c->k->buffer[i];
        if (!has_row_pointer(c, b) || b->stride[inner] != 1 ||
            !reads_first(c, phase, i))
            continue;
        if (!any)
            lower_for(c, LOOP_SERIAL, c->column_type, "b", "0", n, 0)->by =
                "PARC_AHEAD";
        any = true;
        lower_line(c, "parc_read_ahead(%s_row + b, sizeof *%s_row);", b->name,
                   b->name);
    }
    if (any)
        lower_let(c, lower_text(c, "const %s", c->column_type), "end",
                  "b + PARC_AHEAD < %s ? b + PARC_AHEAD : %s", n, n);
    return any;
}

void cpu_columns(Lowering *c, int phase)
{
    Stmt *outer = c->at;
    draw_rows(c, phase);
    if (open_blocks(c, phase))
        open_inner(c, "b", "end");
    else
        cpu_open_columns(c);
    lower_elements(c, phase);
    c->at = outer;
}
