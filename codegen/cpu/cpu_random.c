/* cpu_random.c: prints random numbers in CPU kernels.
 *
 *   float u3[4096];
 *   parc_random_row(u3, r1, 7, r2 * 4096 + … + i0 * 4096, 4096);
 *   #pragma omp simd
 *   for (int j = 0; j < 4096; j++) {
 *       const float t3 = u3[j];
 *
 * One call of the generator (Philox) produces four numbers; therefore a row is
 * drawn before the loop that reads it, and once for all phases. Each element is
 * drawn separately if the row is too long for the stack, or not contiguous in
 * the global tensor (the columns are several axes, or have a stride). Numbers
 * are indexed by position in the global tensor: above, r1 is the key, 7 the
 * number of the occurrence of `random` in the model, and r2 the row at which
 * the part of this rank begins.
 */
#include <string.h>

#include "codegen/cpu/cpu_kernel.h"

/* Longer rows are drawn element by element: they would not fit the stack. */
enum { ROW_LIMIT = 4 * SPACE_BLOCK };

static bool has_row(const Kernel *k, const KernelInstr *instr)
{
    int inner = kernel_inner_axis(k);
    return instr->code == KERNEL_RANDOM && inner >= 0 &&
           k->space.column == 1u << inner && (instr->axes >> inner & 1) &&
           instr->stride[inner] == 1 && k->space.size[inner] <= ROW_LIMIT;
}

const char *cpu_random_expression(const KernelPrinter *c,
                                  const KernelInstr *instr, char where,
                                  int lane)
{
    if (where == 't' && has_row(c->k, instr))
        return arena_printf(c->p->arena, "u%d[j]", (int)(instr - c->k->instr));
    return kernel_random_alone(c, instr, where, lane);
}

/* Whether a phase's loop computes the instruction. */
static bool phase_has(const KernelPhase *phase, int instr)
{
    for (int i = 0; i < phase->nelement; i++)
        if (phase->element[i].instr == instr && phase->element[i].reload < 0)
            return true;
    return false;
}

void cpu_random_rows(KernelPrinter *c, int phase)
{
    const Kernel *k = c->k;
    Arena *a = c->p->arena;
    for (int i = 0; i < k->ninstrs; i++) {
        const KernelInstr *instr = &k->instr[i];
        bool drawn = false;
        for (int p = 0; p < phase; p++)
            drawn |= phase_has(&k->phase[p], i);
        if (drawn || !has_row(k, instr) || !phase_has(&k->phase[phase], i))
            continue;
        int inner = kernel_inner_axis(k);
        long long n = (long long)k->space.size[inner];
        out_line(c->o, "float u%d[%lld];", i, n);
        kernel_statement(
            c, instr->source, "parc_random_row(u%d, %s, %lld, %s, %s);", i,
            kernel_value(c, instr->arg[0], 'r', 0),
            (long long)attr_site(instr->source),
            kernel_random_index(c, instr, instr->axes & ~(1u << inner), 'r', 0),
            k->space.tail ? "columns" : arena_printf(a, "%lld", n));
    }
}
