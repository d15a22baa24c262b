/* rt_cuda_matmul.h: between the files of matrix products.
 *
 * cuBLASLt's matrices are column-major, and the rows that parc's operands hold
 * are its columns: c = a b by rows is c' = b' a' by columns, so that the
 * library's first operand is ours b, its second a.
 */
#ifndef PARC_RT_CUDA_MATMUL_H
#define PARC_RT_CUDA_MATMUL_H

#include "rt_cuda.h"

enum { CUDA_A, CUDA_B, CUDA_C, CUDA_OPERANDS }; /* ours */

/* What a product works on; vector and tensor as its epilogue wants them. */
typedef struct CudaOperands {
    const void *a, *b;
    void *c, *vector, *tensor, *workspace;
} CudaOperands;

/* Pointers are multiples of 1 << alignment bytes, of which kernels want no
 * more than 16. */
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
    struct ParcMatmul *next;
};

/* Bytes from an operand's first element to behind its last. */
int64_t rt_cuda_operand_bytes(const ParcMatmulSpec *s, int operand);
/* Runs the product with an algorithm on given memory. */
BlasStatus rt_cuda_product(ParcRt *rt, const ParcMatmul *mm,
                           const BlasAlgorithm *algorithm,
                           const CudaOperands *at);

/* ---- what is done to a product (rt_cuda_epilogue.c) ---- */

/* Sets all but the addresses. */
void rt_cuda_epilogue_make(ParcRt *rt, ParcMatmul *mm);
/* Sets the addresses: before each run, and before the library is asked for
 * kernels, which it chooses by how these are aligned. */
void rt_cuda_epilogue_point(ParcRt *rt, const ParcMatmul *mm, void *vector,
                            void *tensor);
/* Whether its tensor is added to the product. */
bool rt_cuda_epilogue_adds(ParcEpilogue e);
/* The bytes of its vector and tensor; 0: it has none. */
int64_t rt_cuda_vector_bytes(const ParcMatmulSpec *s);
int64_t rt_cuda_tensor_bytes(const ParcMatmulSpec *s);
/* "bias", for messages and keys; "" for none. */
const char *rt_cuda_epilogue_name(ParcEpilogue e);

/* ---- which kernel (rt_cuda_choose.c) ---- */

/* For operands that are aligned to 16 bytes: the fastest, as rank 0 has
 * measured it or finds in the cache. By all ranks, before the first step. */
void rt_cuda_choose(ParcRt *rt, ParcMatmul *mm);
/* For others: what the library thinks best, which is the same on all ranks. */
void rt_cuda_choose_unaligned(ParcRt *rt, ParcMatmul *mm, int alignment);

/* ---- what was measured before (rt_cuda_cache.c) ---- */

/* A key is one line of text that says all that a choice depends on. */
enum { CUDA_KEY = 256 };
typedef struct CudaCache CudaCache;

/* Reads the cache's file, $PARC_CACHE/NAME or ~/.cache/parc/NAME; NAME is made
 * of the device's and the library's. Never fails: a file that is damaged is
 * ignored with a note. */
CudaCache *rt_cuda_cache_open(const char *device, size_t version);
bool rt_cuda_cache_find(const CudaCache *cache, const char *key,
                        BlasAlgorithm *algorithm);
void rt_cuda_cache_add(CudaCache *cache, const char *key,
                       const BlasAlgorithm *algorithm);
/* Writes the file where something was added. */
void rt_cuda_cache_save(CudaCache *cache);
/* The same, and frees the cache. */
void rt_cuda_cache_close(CudaCache *cache);

#endif
