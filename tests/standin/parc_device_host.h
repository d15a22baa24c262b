/* parc_device_host.h: implements the device language on the host, for tests.
 *
 * runtime/cuda/device/parc_device.h includes this file if no CUDA compiler reads it. A
 * kernel becomes a C function that a thread of the block runs from start to
 * end. Operations of several threads (barriers, shuffles, matrix products,
 * asynchronous copies) call the engine (engine.h), which runs the block's
 * threads as fibers of one host thread.
 *
 * With -fsanitize=thread every memory access also calls the engine, which
 * detects accesses out of bounds and races (shadow.c).
 */
#ifndef PARC_DEVICE_HOST_H
#define PARC_DEVICE_HOST_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Elementary functions and conversions as on the CPU, except that on the GPU a
 * maximum of NaN is NaN. */
#define parc_max parc_max_of_numbers
#define parc_min parc_min_of_numbers
#include "parc_math.h"
#undef parc_max
#undef parc_min

/* tests/standin/build lists the kernels by preprocessing with STANDIN_LIST. */
#ifdef STANDIN_LIST
#define STANDIN_FIRST(threads, ...) threads
#define PARC_KERNEL(...) standin_kernel (STANDIN_FIRST(__VA_ARGS__, 0))
#else
#define PARC_KERNEL(...) __attribute__((visibility("default"))) void
#endif
#define PARC_DEVICE static inline __attribute__((always_inline, unused))

/* Only one block runs at a time, so a block's memory can be static. The section
 * tells the engine its address. */
#define PARC_SHARED static __attribute__((section("standin_block")))
#define PARC_UNROLL
#define PARC_UNROLL_2
#define PARC_ROLL
typedef uint16_t parc_bf16, parc_f16;

#define STANDIN_CONST __attribute__((const))
STANDIN_CONST int standin_thread_index(void);
STANDIN_CONST int64_t standin_block_index(void);
STANDIN_CONST int64_t standin_block_count(void);
STANDIN_CONST int standin_block_threads(void);
STANDIN_CONST void *standin_shared(void);
void standin_block_barrier(void);
void standin_warp_barrier(void);
/* The value of lane `lane` (mod 32); all 32 lanes of the warp must call it. */
uint32_t standin_shuffle(uint32_t value, int lane);
/* The values of all lanes of the warp. */
void standin_rows(const void *to[32], const void *own);
enum { STANDIN_MMA_BF16, STANDIN_MMA_F16 };
void standin_mma(int type, float *d, const uint32_t *a, const uint32_t *b);
void standin_copy_async(void *shared, const void *global, int bytes);
void standin_copy_commit(void);
void standin_copy_wait(int groups);

PARC_DEVICE int thread_index(void) { return standin_thread_index(); }
PARC_DEVICE int64_t block_index(void) { return standin_block_index(); }
PARC_DEVICE int64_t wide_block_index(void) { return standin_block_index(); }
PARC_DEVICE int block_threads(void) { return standin_block_threads(); }
PARC_DEVICE void *parc_shared(void) { return standin_shared(); }
PARC_DEVICE void block_barrier(void) { standin_block_barrier(); }
PARC_DEVICE void warp_barrier(void) { standin_warp_barrier(); }

PARC_DEVICE int warp_shuffle_xor_int(int x, int mask)
{
    return (int)standin_shuffle((uint32_t)x,
                                (standin_thread_index() & 31) ^ mask);
}

PARC_DEVICE int warp_shuffle_int(int x, int lane)
{
    return (int)standin_shuffle((uint32_t)x, lane);
}

PARC_DEVICE float warp_shuffle(float x, int lane)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = standin_shuffle(bits, lane);
    memcpy(&x, &bits, sizeof x);
    return x;
}

PARC_DEVICE float warp_shuffle_xor(float x, int mask)
{
    return warp_shuffle(x, (standin_thread_index() & 31) ^ mask);
}

/* d += a b by one warp, m16n8k16, a row-major, b column-major, sums in f32. The
 * fragments are those of PTX's mma.sync.m16n8k16. */
PARC_DEVICE void mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    standin_mma(STANDIN_MMA_BF16, d, a, b);
}

PARC_DEVICE void mma_f16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    standin_mma(STANDIN_MMA_F16, d, a, b);
}

/* One access each, which must be aligned to its size. */
typedef uint64_t StandinVector16
    __attribute__((vector_size(16), may_alias));
typedef uint64_t StandinVector8 __attribute__((may_alias));
typedef uint32_t StandinVector4 __attribute__((may_alias));

#define STANDIN_VECTOR(bytes)                                                  \
    PARC_DEVICE void parc_load##bytes(void *to, const void *from)              \
    {                                                                          \
        StandinVector##bytes x = *(const StandinVector##bytes *)from;          \
        memcpy(to, &x, bytes);                                                 \
    }                                                                          \
    PARC_DEVICE void parc_store##bytes(void *to, const void *from)             \
    {                                                                          \
        StandinVector##bytes x;                                                \
        memcpy(&x, from, bytes);                                               \
        *(StandinVector##bytes *)to = x;                                       \
    }
STANDIN_VECTOR(16)
STANDIN_VECTOR(8)
STANDIN_VECTOR(4)

PARC_DEVICE float parc_max(float x, float y)
{
    return x > y || x != x ? x : y;
}

PARC_DEVICE float parc_min(float x, float y)
{
    return x < y || x != x ? x : y;
}

PARC_DEVICE uint32_t parc_pack_bf16(float low, float high)
{
    return (uint32_t)parc_to_bf16(high) << 16 | parc_to_bf16(low);
}

PARC_DEVICE uint32_t parc_pack_f16(float low, float high)
{
    return (uint32_t)parc_to_f16(high) << 16 | parc_to_f16(low);
}

PARC_DEVICE void copy_async16_if(int there, void *shared, const void *global)
{
    static const uint64_t zeros[2];
    if (there)
        standin_copy_async(shared, global, 16);
    else
        parc_store16(shared, zeros);
}

PARC_DEVICE void copy_async4_if(int there, void *shared, const void *global)
{
    static const uint32_t zero;
    if (there)
        standin_copy_async(shared, global, 4);
    else
        parc_store4(shared, &zero);
}

/* Reads here, so that the compiler's checks see the access. */
PARC_DEVICE void load_matrices(uint32_t to[4], const void *own)
{
    const void *row[32];
    int lane = standin_thread_index() & 31;
    standin_rows(row, own);
    for (int m = 0; m < 4; m++)
        to[m] = ((const StandinVector4 *)row[m * 8 + lane / 4])[lane % 4];
}

typedef uint16_t StandinHalf __attribute__((may_alias));

PARC_DEVICE void load_matrices_turned(uint32_t to[4], const void *own)
{
    const void *row[32];
    int lane = standin_thread_index() & 31;
    standin_rows(row, own);
    for (int m = 0; m < 4; m++) {
        const void *const *two = row + m * 8 + lane % 4 * 2;
        uint32_t high = ((const StandinHalf *)two[1])[lane / 4];
        to[m] = high << 16 | ((const StandinHalf *)two[0])[lane / 4];
    }
}

PARC_DEVICE float parc_exp2(float x) { return exp2f(x); }

PARC_DEVICE void copy_async_commit(void) { standin_copy_commit(); }
PARC_DEVICE void copy_async_wait(int groups) { standin_copy_wait(groups); }

#endif
