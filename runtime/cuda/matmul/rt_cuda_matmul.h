/* rt_cuda_matmul.h: declares the types and functions that the files of matrix
 * products share.
 *
 * cuBLASLt's matrices are column-major, hence parc's rows are its columns: c =
 * a b by rows is c' = b' a' by columns. The library's first operand is parc's
 * b, its second a.
 */
#ifndef PARC_RT_CUDA_MATMUL_H
#define PARC_RT_CUDA_MATMUL_H

#include "cuda/core/rt_cuda.h"
#include "rt.h"

enum { CUDA_A, CUDA_B, CUDA_C, CUDA_OPERANDS }; /* parc's operands */

/* The operands of a product; vector and tensor depend on its epilogue. */
typedef struct CudaOperands {
    const void *a, *b;
    void *c, *vector, *tensor, *workspace;
} CudaOperands;

/* Addresses are multiples of 1 << alignment bytes. No kernel requires more
 * than 16 bytes. */
enum { CUDA_ALIGNED = 4, CUDA_ALIGNMENTS = CUDA_ALIGNED + 1 };

typedef struct CudaChoice {
    bool known;
    BlasAlgorithm algorithm;
} CudaChoice;

struct ParcMatmul {
    ParcMatmulSpec spec;
    BlasProduct product;
    BlasLayout layout[CUDA_OPERANDS];
    CudaChoice choice[CUDA_ALIGNMENTS];
    struct ParcMatmul *sum; /* the product with ones that computes the
                               epilogue's sum; NULL: the library does */
    bool sums_a;            /* it sums over k of a; else of b */
    CuAddress ones;         /* its other operand */
    struct ParcMatmul *next;
};

/* ---- descriptions and epilogues (rt_cuda_product.c) ---- */

/* Bytes from the start of an operand's first element to the end of its last. */
int64_t rt_cuda_operand_bytes(const ParcMatmulSpec *s, int operand);
/* The same for the epilogue's tensor; 0: none. */
int64_t rt_cuda_tensor_bytes(const ParcMatmulSpec *s);
/* Creates the product and the layouts of mm->spec. */
void rt_cuda_product_make(ParcRt *rt, ParcMatmul *mm);
/* The multiprocessors that it may use. */
int rt_cuda_product_sms(const ParcRt *rt, const ParcMatmul *mm);
void rt_cuda_product_free(ParcRt *rt, const ParcMatmul *mm);
/* Enqueues the product with an algorithm and operands. */
BlasStatus rt_cuda_product(ParcRt *rt, const ParcMatmul *mm,
                           const BlasAlgorithm *algorithm,
                           const CudaOperands *at);

/* Sets the addresses of the epilogue: before each run, and before the library
 * proposes kernels, because that depends on their alignment. */
void rt_cuda_epilogue_point(ParcRt *rt, const ParcMatmul *mm, void *vector,
                            void *tensor);
/* Whether the epilogue writes sums of an operand to its vector. */
bool rt_cuda_epilogue_sums(ParcEpilogue e);
/* Whether it adds a tensor to the product. */
bool rt_cuda_epilogue_adds(ParcEpilogue e);
/* The bytes of the epilogue's vector; 0: none. */
int64_t rt_cuda_vector_bytes(const ParcMatmulSpec *s);
/* "bias", for messages and keys; "" for none. */
const char *rt_cuda_epilogue_name(ParcEpilogue e);

/* ---- choice of a kernel (rt_cuda_choose.c) ---- */

/* Chooses the fastest kernel for operands aligned to 16 bytes, from rank 0's
 * measurement or cache. All ranks call it before the first step. False if the
 * library has no kernel that computes the epilogue's sum; ends the run if it
 * has none for another reason. */
bool rt_cuda_choose(ParcRt *rt, ParcMatmul *mm);
/* Chooses, for other alignments, the library's first proposal, equal on all
 * ranks. */
void rt_cuda_choose_unaligned(ParcRt *rt, ParcMatmul *mm, int alignment);

#endif
