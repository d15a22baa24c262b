/* cuda_ragged.c: chooses the width of vectors, and plans vector accesses to
 * ragged rows, whose length is not a multiple of the vector's.
 *
 *   y = exp(x)        x: bf16[64, 50257]
 *
 * Row i begins at element i * 50257, so that 16-byte boundaries are at
 * different columns in each row. Vectors begin at a row's first boundary, at
 * column `head`. The elements before it and after the last whole vector, at
 * most 14, are the row's edge: threads process one element of it each, in the
 * same phase as their vectors.
 *
 *   const int head = (int)(-(i0 * 50257) & 7);
 *   for (int j = head + t * 8; j <= 50249; j += 4096) {
 *       parc_read_bf16(in0, x + i0 * 50257 + j, 8);
 *       …
 *   }
 *   {
 *       const int j = t < head ? t : t + ((50257 - head) & -8);
 *       if (j < 50257) {
 *           const float t0 = parc_from_bf16(x[i0 * 50257 + j]);
 *           …
 *
 * The boundaries are those of one tensor, the guide: the one with the most
 * bytes among those that begin at a boundary (a layer of a stack may not). Rows
 * of other tensors may be aligned differently, such as a bias shared by all
 * rows: their accesses are as wide as alignment with the guide allows
 * (cuda_width).
 *
 * In a flat kernel the work items of a row are its vectors, then the elements
 * of its edge. The edge is printed from a separate plan, which processes one
 * element for each work item and keeps values (edge<n>) in registers.
 *
 * A column belongs to different threads in different rows. Sums by column are
 * therefore in shared memory or in the workspace; a barrier, that of a row's
 * reductions, separates the additions of consecutive rows. Vectors must divide
 * the row if such sums are in registers, and if there is a pair axis.
 */
#include "codegen/cuda/cuda_lower.h"

enum { STAGED = 48 }; /* limit of vector elements loaded but not yet used */

static int64_t bytes_of(const KernelBuffer *b)
{
    return b->elements * (int64_t)dtype_size(b->dtype);
}

static bool is_along(const CudaPlan *c, const KernelBuffer *b)
{
    return (b->axes >> c->inner & 1) && b->stride[c->inner] == 1;
}

/* Whether the buffer is aligned in all iterations of a loop, so that it can be
 * the guide. */
static bool may_guide(const CudaPlan *c, const KernelBuffer *b)
{
    return is_along(c, b) && b->alignment % c->vector == 0;
}

static bool may_be_ragged(const CudaPlan *c)
{
    if (c->k->space.pair >= 0 || c->form == CUDA_TILES ||
        c->length < (int64_t)CUDA_WARP * c->vector)
        return false;
    if (c->form == CUDA_FLAT)
        return true;
    for (int i = 0; i < c->k->ntotals; i++)
        if (c->k->total[i].columns && c->nphases == 1)
            return false;
    return !c->outer;
}

/* Whether vectors of 8 elements are too wide. If a buffer is accessed by single
 * elements, neighboring threads access elements of it that are 8 apart: these
 * accesses are not coalesced, which costs more than the vectors save. */
static bool is_too_wide(const CudaPlan *c)
{
    for (int i = 0; i < c->k->nbuffers && c->vector > 4; i++)
        if (is_along(c, &c->k->buffer[i]) &&
            cuda_width(c, &c->k->buffer[i]) == 1)
            return true;
    return false;
}

/* Whether rows whose length is not a multiple of the vector can still use
 * vectors; sets `guide`. */
static bool is_ragged(CudaPlan *c)
{
    c->guide = NULL;
    if (!may_be_ragged(c))
        return false;
    for (int i = 0; i < c->k->nbuffers; i++) {
        const KernelBuffer *b = &c->k->buffer[i];
        if (may_guide(c, b) && (!c->guide || bytes_of(b) > bytes_of(c->guide)))
            c->guide = b;
    }
    if (is_too_wide(c))
        c->guide = NULL;
    return c->guide != NULL;
}

/* Whether a row may begin off a boundary. */
static bool has_head(const CudaPlan *c)
{
    for (int a = 0; a < c->k->space.naxes; a++)
        if ((c->guide->axes >> a & 1) && a != c->inner && a != c->merged &&
            c->guide->stride[a] % c->vector)
            return true;
    return false;
}

int64_t cuda_row_items(const CudaPlan *c)
{
    int64_t vectors = c->length / c->vector;
    if (!c->guide)
        return vectors;
    return vectors + (has_head(c) ? 2 * c->vector - 2 : c->length % c->vector);
}

const CudaPlan *cuda_edge_plan(const CudaPlan *c)
{
    if (!c->guide)
        return NULL;
    CudaPlan *edge = NEW(c->p->arena, CudaPlan);
    *edge = *c;
    edge->at_edge = true;
    edge->vector = edge->strips = 1;
    edge->storage = CUDA_REGISTERS;
    return edge;
}

const CudaPlan *cuda_column_plan(const CudaPlan *c)
{
    if (!c->guide)
        return c;
    CudaPlan *fixed = NEW(c->p->arena, CudaPlan);
    *fixed = *c;
    fixed->guide = NULL;
    fixed->edge = NULL;
    fixed->vector = 1;
    fixed->strips = (int)((c->columns + c->row_threads - 1) / c->row_threads);
    return fixed;
}

const char *cuda_row_head(const CudaPlan *c)
{
    return c->guide && has_head(c) ? "head" : "0";
}

/* Whether elements of neighboring columns are neighbors in the buffer. */
static bool is_stream(const CudaPlan *c, const KernelBuffer *b)
{
    return c->inner >= 0 && (b->axes >> c->inner & 1) &&
           b->stride[c->inner] == (cuda_is_interleaved(c, b) ? 2 : 1);
}

/* The number of vectors that are in flight at a time: all, or those of a phase
 * of a row. */
static int count_streams(const CudaPlan *c)
{
    const Kernel *k = c->k;
    int all = 0, most = 0;
    for (int i = 0; i < k->nbuffers; i++)
        if (is_stream(c, &k->buffer[i]))
            all += kernel_lanes(k, k->buffer[i].axes);
    for (int p = 0; p < k->nphases; p++) {
        int n = 0;
        for (int i = 0; i < k->nbuffers; i++) {
            const KernelBuffer *b = &k->buffer[i];
            bool any = false;
            for (int r = 0; r < k->nroots; r++)
                any |= k->root[r].kind == ROOT_STORE && k->root[r].target == i &&
                       k->root[r].phase == p;
            for (int s = 0; s < k->phase[p].nelement; s++)
                any |= kernel_loads(k, 1, &k->phase[p].element[s].instr, i);
            if (any && is_stream(c, b))
                n += kernel_lanes(k, b->axes);
        }
        most = n > most ? n : most;
    }
    return c->form == CUDA_ROWS ? most : all;
}

/* Vectors have VECTOR_BYTES of the narrowest type, if few enough elements are
 * in flight and rows are long enough. */
void cuda_choose_vector(CudaPlan *c, bool ragged)
{
    const Kernel *k = c->k;
    int narrow = 8, streams = count_streams(c);
    c->vector = 1;
    c->guide = NULL;
    if (c->inner < 0)
        return;
    for (int i = 0; i < k->nbuffers; i++) {
        const KernelBuffer *b = &k->buffer[i];
        int size =
            (int)dtype_size(b->dtype) * (cuda_is_interleaved(c, b) ? 2 : 1);
        if (is_stream(c, b) && size < narrow)
            narrow = size;
    }
    if (!streams)
        return;
    c->vector = VECTOR_BYTES / narrow;
    while (c->vector > 4 && c->vector * streams > STAGED)
        c->vector /= 2;
    while (c->vector > 1 && c->form != CUDA_FLAT &&
           c->columns < (int64_t)CUDA_WARP * c->vector)
        c->vector /= 2;
    while (c->vector > 1 && c->length % c->vector &&
           !(ragged && is_ragged(c)))
        c->vector /= 2;
}
