/* cuda_epilogue.c: prints the code that uses completed sums over rows (the
 * epilogue). It also has the helpers of cuda_sums.c and cuda_combine.c: the
 * names, kinds and start values of sums.
 *
 *   float sum3 = …;          the complete sum: within the block (cuda_sums.c),
 *                            or of all blocks (cuda_combine.c)
 *   out[i0] = sum3 / n;      the epilogue
 */
#include "codegen/cuda/cuda_kernel.h"

const char *cuda_sum_start(const CudaPlan *p, int instr)
{
    return p->k->instr[instr].op == OP_max ? "-INFINITY" : "0.0f";
}

const char *cuda_sum_kind(const CudaPlan *p, int instr)
{
    return p->k->instr[instr].op == OP_max ? "max" : "sum";
}

int64_t cuda_row_length(const CudaPlan *p)
{
    return p->columns * p->lanes;
}

const char *cuda_at_offset(Arena *a, const char *name, int64_t offset)
{
    return offset ? arena_printf(a, "%s + %lld", name, (long long)offset)
                  : name;
}

bool cuda_has_column_sums(const CudaPlan *p)
{
    return p->k->ncolumn > 0 || cuda_column_totals(p) > 0;
}

static void epilogue_stores(CudaPrinter *c, bool element)
{
    const Kernel *k = c->plan->k;
    for (int r = 0; r < k->nroots; r++) {
        const KernelRoot *root = &k->root[r];
        const KernelBuffer *b = &k->buffer[root->target];
        if (root->kind != ROOT_STORE || !root->epilogue ||
            root->element != element)
            continue;
        for (int lane = 0; lane < kernel_lanes(k, b->axes); lane++)
            out_code(
                c->text.o, "%s",
                kernel_stored(&c->text, b, kernel_element(&c->text, b, lane),
                              kernel_value(&c->text, root->instr, 'e', lane)));
    }
}

/* Prints the values that are computed once for a work unit, and their stores,
 * which one thread executes. */
void cuda_epilogue_scalars(CudaPrinter *c, const char *one)
{
    const Kernel *k = c->plan->k;
    bool any = false;
    for (int i = 0; i < k->nkept; i++)
        kernel_compute(&c->text, k->kept[i], 'e');
    for (int r = 0; r < k->nroots; r++)
        any |= k->root[r].kind == ROOT_STORE && k->root[r].epilogue &&
               !k->root[r].element;
    if (!any)
        return;
    int opened = cuda_open_block(c, "if (%s) {", one);
    epilogue_stores(c, false);
    cuda_close_blocks(c, opened);
}

void cuda_epilogue_column(CudaPrinter *c)
{
    for (int i = 0; i < c->plan->k->ncolumn; i++)
        kernel_compute(&c->text, c->plan->k->column[i], 'e');
    epilogue_stores(c, true);
}

void cuda_declare_sum(CudaPrinter *c, int instr, int lane, const char *text)
{
    const KernelInstr *i = &c->plan->k->instr[instr];
    kernel_statement(&c->text, i->source, "const float %s = %s;",
                     kernel_value(&c->text, instr, 'e', lane), text);
}
