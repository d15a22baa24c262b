/* cpu_kernel_sums.c: prints, for sums and maxima over rows in CPU kernels, the
 * initialization, the addition of partial sums, and the code that uses the sums
 * (the epilogue). cpu_kernel_body.c prints the addition of one row.
 *
 * A work unit is an index over the kept axes (those of the rows that the kernel
 * does not sum over), and a part of the rows that are summed (kernel.h). It
 * adds up its rows: a scalar sum in a double, the variable a<n>; a sum by
 * column in a row of the workspace or of the result, one float per column.
 * After all work units the parts are added in a fixed order; the epilogue
 * follows.
 */
#include "codegen/cpu/cpu_kernel.h"

static const char *total_start(const KernelPrinter *c, const KernelTotal *t)
{
    return c->k->instr[t->instr].op == OP_max ? "-INFINITY" : "0.0f";
}

/* The address of a work unit's column sums. */
static const char *total_address(const KernelPrinter *c, const KernelTotal *t,
                                 const char *unit)
{
    const Kernel *k = c->k;
    Arena *a = c->p->arena;
    if (t->direct) {
        const KernelBuffer *b = &k->buffer[t->buffer];
        return arena_printf(
            a, "%s%s", b->name,
            kernel_offset(c, b->axes & ~k->space.column, b->stride, 0));
    }
    int64_t size = t->columns ? k->columns : 1;
    const char *at =
        t->offset ? arena_printf(a, "workspace + %lld", (long long)t->offset)
                  : "workspace";
    if (!unit)
        return at;
    if (size == 1)
        return arena_printf(a, "%s + %s", at, unit);
    return arena_printf(a, "%s + %s * %lld", at, unit, (long long)size);
}

void cpu_begin_totals(KernelPrinter *c, const char *unit)
{
    for (int i = 0; i < c->k->ntotals; i++) {
        const KernelTotal *t = &c->k->total[i];
        const char *start = total_start(c, t);
        if (!t->columns) {
            out_line(c->o, "double a%d = %s;", t->instr,
                     *start == '-' ? start : "0.0");
            continue;
        }
        out_line(c->o, "float *a%d = %s;", t->instr, total_address(c, t, unit));
        cpu_open_columns(c, "");
        for (int lane = 0; lane < kernel_lanes(c->k, c->k->space.column);
             lane++)
            out_code(c->o, "a%d[%s] = %s;", t->instr,
                     kernel_index(c, c->k->space.column, t->stride, lane),
                     start);
        cpu_close_columns(c);
    }
}

void cpu_end_totals(KernelPrinter *c, const char *unit)
{
    for (int i = 0; i < c->k->ntotals; i++) {
        const KernelTotal *t = &c->k->total[i];
        if (!t->columns)
            out_line(c->o, "*(%s) = (float)a%d;", total_address(c, t, unit),
                     t->instr);
    }
}

static const char *part_unit(const KernelPrinter *c, const char *unit,
                             const char *part)
{
    if (!unit)
        return part;
    if (c->k->parts == 1)
        return unit;
    return arena_printf(c->p->arena, "(%s * %lld + %s)", unit,
                        (long long)c->k->parts, part);
}

/* Prints the sum of a scalar's parts, the variable e<n>. */
static void combine_scalar(KernelPrinter *c, const KernelTotal *t,
                           const char *unit)
{
    Arena *a = c->p->arena;
    const KernelInstr *instr = &c->k->instr[t->instr];
    bool max = instr->op == OP_max;
    const char *sum = arena_printf(a, "s%d", t->instr);
    const char *item = arena_printf(
        a, "*(%s)", total_address(c, t, part_unit(c, unit, "part")));
    out_line(c->o, "double %s = %s;", sum, max ? "-INFINITY" : "0.0");
    out_line(c->o, "for (int part = 0; part < %lld; part++)",
             (long long)c->k->parts);
    if (max)
        out_line(c->o, "    %s = parc_max((float)%s, %s);", sum, sum, item);
    else
        out_line(c->o, "    %s += %s;", sum, item);
    kernel_statement(c, instr->source, "const float e%d = (float)%s;", t->instr,
                     sum);
}

/* Adds the column sums of later parts to those of the first part. */
static void combine_columns(KernelPrinter *c, const KernelTotal *t,
                            const char *unit)
{
    Arena *a = c->p->arena;
    OpKind op = c->k->instr[t->instr].op;
    out_line(c->o, "float *c%d = %s;", t->instr,
             total_address(c, t, part_unit(c, unit, "0")));
    if (c->k->parts == 1)
        return;
    out_open(c->o, "for (int part = 1; part < %lld; part++) {",
             (long long)c->k->parts);
    out_line(c->o, "const float *more = c%d + part * %lld;", t->instr,
             (long long)c->k->columns);
    cpu_open_columns(c, "");
    for (int lane = 0; lane < kernel_lanes(c->k, c->k->space.column); lane++) {
        const char *at = kernel_index(c, c->k->space.column, t->stride, lane);
        const char *x = arena_printf(a, "c%d[%s]", t->instr, at);
        const char *y = arena_printf(a, "more[%s]", at);
        out_code(c->o, "%s", kernel_add_to(c, op, x, y));
    }
    cpu_close_columns(c);
    out_close(c->o);
}

static void epilogue_store(KernelPrinter *c, const KernelRoot *root)
{
    const KernelBuffer *b = &c->k->buffer[root->target];
    const KernelInstr *instr = &c->k->instr[root->instr];
    if (instr->code == KERNEL_TOTAL && c->k->total[instr->accumulator].direct)
        return;
    for (int lane = 0; lane < kernel_lanes(c->k, b->axes); lane++)
        out_code(c->o, "%s",
                 kernel_stored(c, b, kernel_element(c, b, lane),
                               kernel_value(c, root->instr, 'e', lane)));
}

static void epilogue_stores(KernelPrinter *c, bool element)
{
    for (int r = 0; r < c->k->nroots; r++) {
        const KernelRoot *root = &c->k->root[r];
        if (root->kind == ROOT_STORE && root->epilogue &&
            root->element == element)
            epilogue_store(c, root);
    }
}

static bool epilogue_has_columns(const Kernel *k)
{
    for (int i = 0; i < k->ntotals; i++)
        if (k->total[i].columns && !k->total[i].direct)
            return true;
    return k->ncolumn > 0;
}

static void epilogue_columns(KernelPrinter *c)
{
    cpu_open_columns(c, "");
    for (int i = 0; i < c->k->ntotals; i++) {
        const KernelTotal *t = &c->k->total[i];
        const KernelInstr *instr = &c->k->instr[t->instr];
        for (int lane = 0; t->columns && !t->direct &&
                           lane < kernel_lanes(c->k, c->k->space.column);
             lane++)
            kernel_statement(
                c, instr->source, "const float %s = c%d[%s];",
                kernel_value(c, t->instr, 'e', lane), t->instr,
                kernel_index(c, c->k->space.column, t->stride, lane));
    }
    for (int i = 0; i < c->k->ncolumn; i++)
        kernel_compute(c, c->k->column[i], 'e');
    epilogue_stores(c, true);
    cpu_close_columns(c);
}

static bool wants_epilogue(const Kernel *k)
{
    for (int i = 0; i < k->ntotals; i++)
        if (!k->total[i].direct)
            return true;
    return false;
}

bool cpu_epilogue_is_parallel(const Kernel *k)
{
    int64_t work =
        k->units * k->parts * (epilogue_has_columns(k) ? k->columns : 1);
    return wants_epilogue(k) && k->units > 1 && work >= PARALLEL_WORK;
}

void cpu_epilogue(KernelPrinter *c)
{
    const Kernel *k = c->k;
    const char *unit = NULL;
    if (!wants_epilogue(k))
        return;
    if (k->units > 1) {
        unit = cpu_loop_variable(c, k->space.kept, false, "unit");
        cpu_open_loop(c, unit, k->units, cpu_epilogue_is_parallel(k));
        kernel_split_index(c, k->space.kept, unit, 1);
    }
    if (k->space.tail && (k->space.kept >> k->space.block & 1))
        cpu_tail_columns(c);
    for (int i = 0; i < k->ntotals; i++) {
        const KernelTotal *t = &k->total[i];
        if (t->direct)
            continue;
        if (t->columns)
            combine_columns(c, t, unit);
        else
            combine_scalar(c, t, unit);
    }
    for (int i = 0; i < k->nkept; i++)
        kernel_compute(c, k->kept[i], 'e');
    epilogue_stores(c, false);
    if (epilogue_has_columns(k))
        epilogue_columns(c);
    if (unit)
        out_close(c->o);
}
