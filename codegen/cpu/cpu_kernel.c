/* cpu_kernel.c: prints kernel IR as a vectorized C function: its signature and
 * its loops over rows. cpu_kernel_body.c prints the code for one row.
 *
 *   void k03_norm(ParcRt *rt, float *restrict y, const float *restrict x)
 *   {
 *   #pragma omp parallel for schedule(static) num_threads(parc_threads(rt))
 *       for (int64_t i0 = 0; i0 < 2048; i0++) {
 *           float *y_row = y + i0 * 4096;
 *           …
 *           float r2 = 0.0f;
 *   #pragma omp simd reduction(+ : r2)
 *           for (int j = 0; j < 4096; j++) {
 *
 * Small loops run on one thread. Buffers that memory planning may overlap are
 * not `restrict`; their loops still vectorize, because the pragma says that
 * iterations are independent.
 */
#include "codegen/cpu/cpu_kernel.h"

/* ---- the loops over rows ------------------------------------------------- */

static void rows(KernelPrinter *c)
{
    const Kernel *k = c->k;
    bool block = k->space.tail && (k->space.summed >> k->space.block & 1);
    if (k->rows == 1) {
        cpu_row(c);
        return;
    }
    const char *row = cpu_loop_variable(c, k->space.summed, false, "row");
    if (k->parts > 1) {
        const char *part =
            k->units > 1
                ? arena_printf(c->p->arena, "unit %% %lld", (long long)k->parts)
                : "unit";
        out_line(c->o, "const int64_t part = %s;", part);
        out_line(c->o, "const int64_t end = (part + 1) * %lld / %lld;",
                 (long long)k->rows, (long long)k->parts);
        out_open(c->o,
                 "for (int64_t %s = part * %lld / %lld; %s < end; "
                 "%s++) {",
                 row, (long long)k->rows, (long long)k->parts, row, row);
    } else {
        cpu_open_loop(c, row, k->rows, false);
    }
    kernel_split_index(c, k->space.summed, row, 1);
    if (block)
        cpu_tail_columns(c);
    cpu_row(c);
    out_close(c->o);
}

static bool units_are_parallel(const Kernel *k)
{
    return k->units * k->parts > 1 && k->work >= PARALLEL_WORK;
}

static void units(KernelPrinter *c)
{
    const Kernel *k = c->k;
    int64_t n = k->units * k->parts;
    const char *unit = NULL;
    if (n > 1) {
        unit = cpu_loop_variable(c, k->space.kept, k->parts > 1, "unit");
        cpu_open_loop(c, unit, n, units_are_parallel(k));
        kernel_split_index(c, k->space.kept, unit, k->parts);
    }
    if (k->space.tail && (k->space.kept >> k->space.block & 1))
        cpu_tail_columns(c);
    cpu_begin_totals(c, unit);
    rows(c);
    cpu_end_totals(c, unit);
    if (unit)
        out_close(c->o);
}

/* Whether any statement accesses a buffer. An operand may be unused: x to the
 * power of 0 is the constant 1. */
static bool is_read(const Kernel *k, int buffer)
{
    bool found = k->buffer[buffer].out ||
                 kernel_loads(k, k->nkept, k->kept, buffer) ||
                 kernel_loads(k, k->ncolumn, k->column, buffer);
    for (int p = 0; p < k->nphases; p++) {
        const KernelPhase *phase = &k->phase[p];
        found |= kernel_loads(k, phase->nrow, phase->row, buffer);
        for (int i = 0; i < phase->nelement; i++)
            found |= kernel_loads(k, 1, &phase->element[i].instr, buffer);
    }
    return found;
}

static KernelPrinter printer(Out *o, const Program *p, const Op *fused)
{
    return (KernelPrinter){.o = o,
                           .p = p,
                           .k = kernel_build(p, fused),
                           .inner = "j",
                           .merged = -1,
                           .load = cpu_load_expression,
                           .random = cpu_random_expression};
}

void cpu_kernel_emit(Out *o, const Program *p, const Op *fused, int number)
{
    KernelPrinter c = printer(o, p, fused);
    kernel_comment(&c, number);
    out_line(o, " */");
    kernel_function(&c, number, "restrict", "");
    out_open(o, "{");
    for (int i = 0; i < c.k->nbuffers; i++)
        if (!is_read(c.k, i))
            out_line(o, "(void)%s;", c.k->buffer[i].name);
    if (!units_are_parallel(c.k) && !cpu_epilogue_is_parallel(c.k))
        out_line(o, "(void)rt;");
    units(&c);
    cpu_epilogue(&c);
    out_close(o);
}

void cpu_kernel_prototype(Out *o, const Program *p, const Op *fused, int number)
{
    KernelPrinter c = printer(o, p, fused);
    kernel_function(&c, number, "restrict", ";");
}
