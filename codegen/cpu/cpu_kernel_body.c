/* cpu_kernel_body.c: prints the code of a CPU kernel for one row. Each phase
 * (kernel.h) becomes the statements computed once for the row, then a loop over
 * its columns:
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
 */
#include "codegen/cpu/cpu_kernel.h"

const char *cpu_loop_variable(const KernelPrinter *c, uint32_t axes, bool parts,
                              const char *name)
{
    if (kernel_count_axes(axes) == 1 && !parts)
        return arena_printf(c->p->arena, "i%d", kernel_first_axis(axes));
    return name;
}

void cpu_tail_columns(KernelPrinter *c)
{
    const Space *s = &c->k->space;
    out_line(c->o, "const int columns = i%d == %lld ? %lld : %d;", s->block,
             (long long)s->size[s->block] - 1, (long long)s->tail, SPACE_BLOCK);
}

void cpu_open_loop(KernelPrinter *c, const char *variable, int64_t n,
                   bool parallel)
{
    if (parallel)
        out_line(c->o, "#pragma omp parallel for schedule(static) "
                       "num_threads(parc_threads(rt))");
    out_open(c->o, "for (int64_t %s = 0; %s < %lld; %s++) {", variable,
             variable, (long long)n, variable);
}

/* Whether an int can hold all offsets along the inner axis. */
static bool fits_int(const Kernel *k, int inner)
{
    int64_t stride = 1;
    for (int i = 0; i < k->nbuffers; i++)
        if (k->buffer[i].stride[inner] > stride)
            stride = k->buffer[i].stride[inner];
    return k->space.size[inner] <= INT32_MAX / 2 / stride;
}

static const char *index_type(const KernelPrinter *c)
{
    return fits_int(c->k, kernel_inner_axis(c->k)) ? "int" : "int64_t";
}

/* The loop along the inner axis; `begin` and `end` are C expressions. */
static void open_inner(KernelPrinter *c, const char *reductions,
                       const char *begin, const char *end)
{
    out_line(c->o, "#pragma omp simd%s", reductions);
    out_open(c->o, "for (%s j = %s; j < %s; j++) {", index_type(c), begin, end);
}

void cpu_open_columns(KernelPrinter *c, const char *reductions)
{
    const Space *s = &c->k->space;
    int inner = kernel_inner_axis(c->k);
    for (int a = 0; a < s->naxes; a++) {
        if (!(s->column >> a & 1) || a == s->pair || a == inner)
            continue;
        out_open(c->o, "for (int64_t j%d = 0; j%d < %lld; j%d++) {", a, a,
                 (long long)s->size[a], a);
    }
    if (inner < 0) { /* only a pair axis: no loop */
        out_open(c->o, "{");
        return;
    }
    open_inner(
        c, reductions, "0",
        s->tail ? "columns"
                : arena_printf(c->p->arena, "%lld", (long long)s->size[inner]));
}

void cpu_close_columns(KernelPrinter *c)
{
    const Space *s = &c->k->space;
    int n = 0;
    for (int a = 0; a < s->naxes; a++)
        n += (s->column >> a & 1) && a != s->pair;
    for (int i = 0; i < (n ? n : 1); i++)
        out_close(c->o);
}

/* ---- row pointers -------------------------------------------------------- */

static bool walks_along(const KernelPrinter *c, int buffer)
{
    const Kernel *k = c->k;
    const KernelBuffer *b = &k->buffer[buffer];
    if (!kernel_is_element(k, b->axes) || !(b->axes & ~k->space.column))
        return false;
    for (int r = 0; r < k->nroots; r++)
        if (k->root[r].kind == ROOT_STORE && !k->root[r].epilogue &&
            k->root[r].target == buffer)
            return true;
    for (int p = 0; p < k->nphases; p++)
        for (int i = 0; i < k->phase[p].nelement; i++)
            if (kernel_loads(k, 1, &k->phase[p].element[i].instr, buffer))
                return true;
    return false;
}

static void row_pointers(KernelPrinter *c)
{
    const KernelBuffer *kept = &c->k->buffer[c->k->nbuffers];
    if (c->k->keeps_row)
        out_line(c->o, "float %s%s[%lld];", kept->name,
                 kept->axes & ~c->k->space.column ? "_row" : "",
                 (long long)kept->elements);
    for (int i = 0; i < c->k->nbuffers; i++) {
        const KernelBuffer *b = &c->k->buffer[i];
        if (!walks_along(c, i))
            continue;
        out_code(c->o, "%s%s *%s_row = %s%s;", b->out ? "" : "const ",
                 c_type(b->dtype), b->name, b->name,
                 kernel_offset(c, b->axes & ~c->k->space.column, b->stride, 0));
    }
}

/* "x_row[j]": in the loop over columns, a buffer that has both row and column
 * axes is addressed from its row pointer. */
static const char *column_element(const KernelPrinter *c, const KernelBuffer *b,
                                  int lane)
{
    uint32_t column = c->k->space.column;
    return arena_printf(c->p->arena, "%s%s[%s]", b->name,
                        b->axes & ~column ? "_row" : "",
                        kernel_index(c, b->axes & column, b->stride, lane));
}

const char *cpu_load_expression(const KernelPrinter *c,
                                const KernelInstr *instr, char where, int lane)
{
    const KernelBuffer *b = &c->k->buffer[instr->buffer];
    bool element = where == 't' && kernel_is_element(c->k, b->axes);
    return kernel_loaded(c, b,
                         element ? column_element(c, b, lane)
                                 : kernel_element(c, b, lane));
}

/* ---- stores and sums ----------------------------------------------------- */

static void store(KernelPrinter *c, const KernelRoot *root)
{
    const KernelBuffer *b = &c->k->buffer[root->target];
    char where = root->element ? 't' : 'r';
    for (int lane = 0; lane < kernel_lanes(c->k, b->axes); lane++) {
        const char *at = root->element ? column_element(c, b, lane)
                                       : kernel_element(c, b, lane);
        const char *x = kernel_value(c, root->instr, where, lane);
        out_code(c->o, "%s", kernel_stored(c, b, at, x));
    }
}

/* r7 += t6, once for each lane of the columns. A maximum is taken over integer
 * keys: see parc_key. */
static void reduce(KernelPrinter *c, const KernelRoot *root)
{
    const KernelInstr *to = &c->k->instr[root->target];
    const char *sum = kernel_value(c, root->target, 'r', 0);
    for (int lane = 0; lane < kernel_lanes(c->k, c->k->space.column); lane++) {
        const char *x = kernel_value(c, root->instr, 't', lane);
        if (to->op == OP_max)
            kernel_statement(c, to->source,
                             "%s_key = parc_higher(%s_key, parc_key(%s));", sum,
                             sum, x);
        else
            kernel_statement(c, to->source, "%s += %s;", sum, x);
    }
}

static void accumulate(KernelPrinter *c, const KernelRoot *root)
{
    const KernelInstr *to = &c->k->instr[root->target];
    const KernelTotal *total = &c->k->total[to->accumulator];
    int lanes = root->element ? kernel_lanes(c->k, c->k->space.column) : 1;
    for (int lane = 0; lane < lanes; lane++) {
        const char *sum = arena_printf(c->p->arena, "a%d", root->target);
        if (root->element)
            sum = arena_printf(
                c->p->arena, "%s[%s]", sum,
                kernel_index(c, c->k->space.column, total->stride, lane));
        const char *x =
            kernel_value(c, root->instr, root->element ? 't' : 'r', lane);
        kernel_statement(c, to->source, "%s", kernel_add_to(c, to->op, sum, x));
    }
}

static void roots(KernelPrinter *c, int phase, bool element, RootKind kind)
{
    static void (*const emit[])(KernelPrinter *, const KernelRoot *) = {
        [ROOT_STORE] = store,
        [ROOT_REDUCE] = reduce,
        [ROOT_TOTAL] = accumulate};
    for (int r = 0; r < c->k->nroots; r++) {
        const KernelRoot *root = &c->k->root[r];
        if (!root->epilogue && root->phase == phase &&
            root->element == element && root->kind == kind)
            emit[kind](c, root);
    }
}

/* ---- phases -------------------------------------------------------------- */

/* Declares the row sums of a phase and returns the pragma's reduction
 * clauses. */
static const char *begin_reductions(KernelPrinter *c, int phase)
{
    const char *sums = "", *maxima = "";
    Arena *a = c->p->arena;
    for (int r = 0; r < c->k->nroots; r++) {
        const KernelRoot *root = &c->k->root[r];
        if (root->kind != ROOT_REDUCE || root->phase != phase)
            continue;
        bool max = c->k->instr[root->target].op == OP_max;
        const char *name = kernel_value(c, root->target, 'r', 0);
        const char **list = max ? &maxima : &sums;
        if (max)
            name = arena_printf(a, "%s_key", name);
        out_line(c->o,
                 max ? "int32_t %s = parc_key(-INFINITY);" : "float %s = 0.0f;",
                 name);
        *list = arena_printf(a, "%s%s%s", *list, **list ? ", " : "", name);
    }
    if (*sums)
        sums = arena_printf(a, " reduction(+ : %s)", sums);
    if (*maxima)
        maxima = arena_printf(a, " reduction(max : %s)", maxima);
    return arena_printf(a, "%s%s", sums, maxima);
}

static void end_reductions(KernelPrinter *c, int phase)
{
    for (int r = 0; r < c->k->nroots; r++) {
        const KernelRoot *root = &c->k->root[r];
        if (root->kind != ROOT_REDUCE || root->phase != phase ||
            c->k->instr[root->target].op != OP_max)
            continue;
        const char *name = kernel_value(c, root->target, 'r', 0);
        out_line(c->o, "const float %s = parc_from_key(%s_key);", name, name);
    }
}

static void reload(KernelPrinter *c, const KernelStep *step)
{
    const KernelBuffer *b = &c->k->buffer[step->reload];
    const KernelInstr *instr = &c->k->instr[step->instr];
    for (int lane = 0; lane < kernel_lanes(c->k, instr->axes); lane++)
        out_code(c->o, "const %s %s = %s;", c_value_type(instr->dtype),
                 kernel_value(c, step->instr, 't', lane),
                 kernel_loaded(c, b, column_element(c, b, lane)));
}

/* ---- prefetching --------------------------------------------------------- */

/* Number of columns from which a row exceeds a core's first-level cache. */
enum { LONG_ROW = 8192 };

/* Whether phase `number` is the first that reads the buffer's row. */
static bool reads_first(const KernelPrinter *c, int number, int buffer)
{
    const Kernel *k = c->k;
    for (int p = 0; p <= number; p++)
        for (int i = 0; i < k->phase[p].nelement; i++) {
            const KernelStep *step = &k->phase[p].element[i];
            if (step->reload < 0 && kernel_loads(k, 1, &step->instr, buffer))
                return p == number;
        }
    return false;
}

/* Prefetching for long rows: a softmax computes much for each element, and the
 * hardware prefetcher looks only a few lines further, so that each line would
 * wait for memory. The row is read in blocks, and each block prefetches the
 * next one. Returns whether such a loop was opened. */
static bool open_blocks(KernelPrinter *c, int number)
{
    const Space *s = &c->k->space;
    int inner = kernel_inner_axis(c->k);
    if (inner < 0 || s->column != 1u << inner || s->tail ||
        s->size[inner] < LONG_ROW)
        return false;
    const char *type = index_type(c);
    long long n = s->size[inner];
    bool any = false;
    for (int i = 0; i < c->k->nbuffers; i++) {
        const KernelBuffer *b = &c->k->buffer[i];
        if (!walks_along(c, i) || b->stride[inner] != 1 ||
            !reads_first(c, number, i))
            continue;
        if (!any) {
            out_open(c->o, "for (%s b = 0; b < %lld; b += PARC_AHEAD) {", type,
                     n);
            any = true;
        }
        out_line(c->o, "parc_read_ahead(%s_row + b, sizeof *%s_row);", b->name,
                 b->name);
    }
    if (any)
        out_code(c->o,
                 "const %s end = b + PARC_AHEAD < %lld ? b + PARC_AHEAD "
                 ": %lld;",
                 type, n, n);
    return any;
}

static void phase(KernelPrinter *c, int number)
{
    const KernelPhase *p = &c->k->phase[number];
    for (int i = 0; i < p->nrow; i++)
        kernel_compute(c, p->row[i], 'r');
    roots(c, number, false, ROOT_STORE);
    roots(c, number, false, ROOT_TOTAL);
    if (!p->loop)
        return;
    cpu_random_rows(c, number);
    const char *reductions = begin_reductions(c, number);
    bool blocks = open_blocks(c, number);
    if (blocks)
        open_inner(c, reductions, "b", "end");
    else
        cpu_open_columns(c, reductions);
    for (int i = 0; i < p->nelement; i++)
        if (p->element[i].reload >= 0)
            reload(c, &p->element[i]);
        else
            kernel_compute(c, p->element[i].instr, 't');
    roots(c, number, true, ROOT_REDUCE);
    roots(c, number, true, ROOT_TOTAL);
    roots(c, number, true, ROOT_STORE);
    cpu_close_columns(c);
    if (blocks)
        out_close(c->o);
    end_reductions(c, number);
}

void cpu_row(KernelPrinter *c)
{
    row_pointers(c);
    for (int i = 0; i < c->k->nphases; i++)
        phase(c, i);
}
