/* cuda_list.c: numbers the kernels of a CUDA program by their symbols, in the
 * order of first use. */
#include "codegen/cuda/cuda.h"

#include <string.h>

int cuda_kernel_number(CudaKernels *k, const char *symbol)
{
    for (int i = 0; i < k->symbol.n; i++)
        if (!strcmp(k->symbol.at[i], symbol))
            return i;
    vec_push(k->arena, &k->symbol, symbol);
    return k->symbol.n - 1;
}
