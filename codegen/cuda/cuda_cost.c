/* cuda_cost.c: computes the bytes that a printed CUDA kernel moves and the
 * minimum possible.
 *
 * Elements count once for each phase that reads them from memory. Data shared
 * by all rows (a norm's weight) comes from the cache after the first row and
 * counts once. Column sums in the workspace are read and written for every row;
 * partial sums are written by one kernel and read by the next.
 */
#include "codegen/cuda/cuda_kernel.h"

/* The number of phases that read a buffer's elements from memory. */
static int passes(const CudaPlan *c, int buffer)
{
    const Kernel *k = c->k;
    bool shared = !(k->buffer[buffer].axes & (c->kept_axes | c->summed));
    int n = 0;
    for (int p = 0; p < c->nphases; p++) {
        const KernelPhase *phase = &c->phase[p];
        bool reads = false;
        for (int i = 0; i < phase->nelement; i++)
            reads |= !phase->element[i].reused &&
                     kernel_loads(k, 1, &phase->element[i].instr, buffer);
        n += reads;
    }
    bool rows = c->tasks * c->rows > 1;
    return shared && rows && n > 1 ? 1 : n;
}

/* Row values and operands of the epilogue: small, read once. (A picked element
 * is small next to the rows that are read; if nothing else is read, the buffer
 * counts in full.) */
static bool is_read_aside(const CudaPlan *c, int buffer)
{
    const Kernel *k = c->k;
    bool any = kernel_loads(k, k->nkept, k->kept, buffer) ||
               kernel_loads(k, k->ncolumn, k->column, buffer);
    for (int p = 0; p < c->nphases; p++)
        any |= kernel_loads(k, c->phase[p].nrow, c->phase[p].row, buffer) ||
               cuda_is_picked(c, &c->phase[p], buffer);
    return any;
}

static void add_sums(const CudaPlan *c, CudaCost *cost)
{
    const Kernel *k = c->k;
    cost->sums = c->combine ? k->workspace : 0;
    cost->read += cost->sums;
    cost->written += cost->sums;
    if (!c->global_sums)
        return;
    int64_t more = (c->rows / c->parts - 1) * k->workspace;
    cost->read += more;
    cost->written += more;
    cost->reread += 2 * more;
}

CudaCost cuda_cost(const CudaPlan *c)
{
    const Kernel *k = c->k;
    CudaCost cost = {.least = 0};
    for (int i = 0; i < k->nbuffers; i++) {
        const KernelBuffer *b = &k->buffer[i];
        int64_t bytes = b->elements * (int64_t)dtype_size(b->dtype);
        int n = b->out ? 1 : passes(c, i);
        if (!b->out && n == 0)
            n = is_read_aside(c, i);
        cost.least += n ? bytes : 0;
        *(b->out ? &cost.written : &cost.read) += n * bytes;
        if (n > 1)
            cost.reread += (n - 1) * bytes;
    }
    add_sums(c, &cost);
    return cost;
}
