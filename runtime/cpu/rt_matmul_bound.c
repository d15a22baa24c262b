/* rt_matmul_bound.c: computes an upper bound of a matmul's scratch that does
 * not depend on the machine.
 *
 * A program that is compiled for a named instruction set has the same memory
 * plan wherever it is planned. The scratch of its matrix products is therefore
 * not what oneDNN requests on one machine, but a bound for each level:
 *
 *   level               f32                      both operands in bf16
 *   x86-64-v3, aarch64  vector                   vector
 *   x86-64-v4           vector or brg, 704 KiB   vector
 *   amx                 vector, brg or split     vector or brg, 2 MiB
 *
 *   vector  rt_vector_scratch, the exact size for rt_matmul_vector.c
 *   split   rt_split_scratch, the exact size for rt_matmul_split.c
 *   brg     a bound for oneDNN's "brg…" kernels: threads x the smaller of the
 *           cap in the table and
 *           copies x (m k + k n) x size of an element + 4 m n + 4096
 *           bytes, where m, n and k are rounded up to multiples of 64, and
 *           copies is 1 in f32, 2 in bf16. oneDNN 2.6 requests this for most
 *           shapes
 *
 * ensures: the scratch is enough for `vector` in every case. At run time
 *          choose() takes the fastest implementation that fits (rt_matmul.c).
 */
#include "common/type.h"
#include "cpu/rt_matmul.h"

typedef struct Bound {
    int64_t f32, bf16; /* caps of brg in bytes; 0: the level has no brg */
    bool tiles;
} Bound;

static const Bound bound_of[] = {
    [PARC_CPU_X86_64_V3] = {0, 0, false},
    [PARC_CPU_X86_64_V4] = {704 << 10, 0, false},
    [PARC_CPU_AMX] = {704 << 10, 2 << 20, true},
    [PARC_CPU_AARCH64] = {0, 0, false},
};

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t library_bound(const Plan *p, int threads, const Bound *b)
{
    enum { BLOCK = 64, CONSTANT = 4096 };
    const View *src = &p->view[SRC], *weights = &p->view[WEIGHTS];
    bool f32 = rt_is_all_f32(p);
    bool bf16 = src->type == PARC_BF16 && weights->type == PARC_BF16;
    int64_t most = f32 ? b->f32 : bf16 ? b->bf16 : 0;
    double m = (double)(rt_pieces(src->rows, BLOCK) * BLOCK);
    double k = (double)(rt_pieces(src->columns, BLOCK) * BLOCK);
    double n = (double)(rt_pieces(weights->columns, BLOCK) * BLOCK);
    double copies = (f32 ? 1 : 2) * rt_type_size(src->type);
    double bytes = copies * (m * k + k * n) + 4 * m * n + CONSTANT;
    return threads * (bytes < (double)most ? (int64_t)bytes : most);
}

int64_t rt_matmul_bound(const ParcMatmulSpec *spec, int threads,
                        ParcCpuLevel level)
{
    const Bound *b = &bound_of[level];
    Plan p = rt_plan_of(spec), one = rt_plan_one_by_one(&p);
    int64_t most = larger(rt_vector_scratch(&p, threads),
                          library_bound(&one, threads, b));
    if (b->tiles && rt_is_all_f32(&one) && rt_split_pays(&one))
        most = larger(most, rt_split_scratch(&one, threads));
    return most;
}
