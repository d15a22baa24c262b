/* rt_contract.c: launches the kernels for contractions that no matmul computes
 * (contract.cuh). kernels.cu has one kernel for each contraction; a hash of its
 * letters, the table of sizes and strides, is part of the name. */
#include "cuda/core/rt_cuda_launch.h"
#include "cuda/core/rt_instances.h"
#include "rt.h"

enum { THREADS = 256 };

void parc_contract(ParcRt *rt, ParcTypes type, void *c, const void *a,
                   const void *b, int n, const int64_t letter[][4])
{
    const char *const name[] = {rt_float_name(type.a), rt_float_name(type.b),
                                rt_float_name(type.c)};
    char symbol[RT_SYMBOL];
    int64_t elements = 1, terms = 1;
    for (int i = 0; i < n; i++)
        *(letter[i][1] ? &elements : &terms) *= letter[i][0];
    rt_instance_contract(symbol, name, n, letter);
    RT_CUDA_LAUNCH(rt, symbol, rt_blocks(elements, THREADS), THREADS, 0,
                   rt_pointer_bits(c), rt_pointer_bits(a), rt_pointer_bits(b),
                   elements, terms);
}
