/* cuda_access.c: decides how a CUDA kernel accesses its buffers: the width of
 * vector loads and stores, and which results may overwrite an operand in place.
 *
 * A thread processes a vector of neighboring columns at a time: at most as many
 * as have 16 bytes in the narrowest element type. A buffer is accessed by the
 * widest part of a vector that is aligned in every row.
 */
#include "codegen/cuda/cuda_kernel.h"

/* ---- vectors ------------------------------------------------------------- */

bool cuda_is_interleaved(const CudaPlan *c, const KernelBuffer *b)
{
    int pair = c->k->space.pair;
    return c->inner >= 0 && pair >= 0 && (b->axes >> pair & 1) &&
           b->stride[c->inner] == 2 && b->stride[pair] == 1;
}

/* The largest number of elements, at most `elements`, for which an access that
 * is aligned in one row is aligned in every row. `step`: distance between
 * elements; `alignment`: as in KernelBuffer. In a ragged row the guide
 * (cuda_ragged.c) decides where vectors begin. */
static int in_step(const CudaPlan *c, uint32_t axes, const int64_t *stride,
                   int64_t alignment, int step, int elements)
{
    while (alignment % (step * elements))
        elements /= 2;
    for (int a = 0; a < c->k->space.naxes; a++) {
        if (a == c->inner || a == c->merged ||
            (a == c->k->space.pair && step == 2))
            continue;
        int64_t off = axes >> a & 1 ? stride[a] : 0;
        if (c->guide && (c->guide->axes >> a & 1))
            off -= c->guide->stride[a];
        while (off % (step * elements))
            elements /= 2;
    }
    return elements;
}

int cuda_width(const CudaPlan *c, const KernelBuffer *b)
{
    if (c->inner < 0 || !(b->axes >> c->inner & 1))
        return 1;
    int step = cuda_is_interleaved(c, b) ? 2 : 1;
    if (b->stride[c->inner] != step)
        return 1;
    return in_step(c, b->axes, b->stride, b->alignment, step, c->vector);
}

bool cuda_is_vector(const CudaPlan *c, const KernelBuffer *b)
{
    return cuda_width(c, b) > 1;
}

bool cuda_draws_four(const CudaPlan *c, const KernelInstr *instr)
{
    if (instr->code != KERNEL_RANDOM || c->inner < 0 || c->vector % 4 ||
        !(instr->axes >> c->inner & 1) || instr->stride[c->inner] != 1)
        return false;
    if (in_step(c, instr->axes, instr->stride, 0, 1, 4) < 4)
        return false;
    /* Bases are multiples of a rank's local size of the dim times the sizes of
     * the inner dims; they are 0 for a dim that the rank holds in full. */
    const Value *v = instr->source->out[0];
    const AttrList *of = attr_global(instr->source);
    int64_t inner_size = 1;
    for (int d = of->n; d-- > 0; inner_size *= of->v[d]) {
        int at = v->type.ndim - of->n + d;
        if (at < 0)
            return false;
        int64_t held = type_local_dim(&v->type, &c->p->mesh, at);
        if (held != of->v[d] && held * inner_size % 4)
            return false;
    }
    return true;
}

/* ---- memory that two buffers share --------------------------------------- */

bool cuda_is_picked(const CudaPlan *c, const KernelPhase *phase, int buffer)
{
    const Kernel *k = c->k;
    for (int i = 0; i < phase->nrow; i++)
        if (k->instr[phase->row[i]].code == KERNEL_PICK &&
            kernel_loads(k, 1, &k->instr[phase->row[i]].arg[0], buffer))
            return true;
    return false;
}

/* The last phase that reads a buffer's elements from memory. For a buffer that
 * row values or the epilogue read it is `nphases`: many threads read it, at any
 * time. For a picked element (KERNEL_PICK) it is the next phase: threads read
 * the element until the barrier that ends their phase. */
static int last_read(const CudaPlan *c, int buffer)
{
    const Kernel *k = c->k;
    int last = -1;
    if (kernel_loads(k, k->nkept, k->kept, buffer) ||
        kernel_loads(k, k->ncolumn, k->column, buffer))
        return c->nphases;
    for (int p = 0; p < c->nphases; p++) {
        const KernelPhase *phase = &c->phase[p];
        if (kernel_loads(k, phase->nrow, phase->row, buffer) &&
            (c->form != CUDA_FLAT || k->space.column))
            return c->nphases;
        if (cuda_is_picked(c, phase, buffer) && last < p + 1)
            last = p + 1;
        for (int i = 0; i < phase->nelement; i++)
            if (!phase->element[i].reused &&
                kernel_loads(k, 1, &phase->element[i].instr, buffer) && last < p)
                last = p;
    }
    return last;
}

bool cuda_shares(const CudaPlan *c, int out, int arg)
{
    const Kernel *k = c->k;
    const KernelBuffer *y = &k->buffer[out];
    int operand = k->op->nouts + arg;
    if (!kernel_in_place(k, out, arg) || y->axes != k->space.all)
        return false;
    for (int r = 0; r < k->nroots; r++)
        if (k->root[r].kind == ROOT_STORE && k->root[r].target == out &&
            (k->root[r].epilogue || last_read(c, operand) > k->root[r].phase))
            return false;
    return !c->low_shared || cuda_shares(c->low_shared, out, arg);
}
