/* parc_device.h: defines the language of parc's device code.
 *
 * Device code is the common subset of C11 and CUDA C++ with the declarations
 * below. They have two implementations. Under nvcc and NVRTC (which has no
 * system headers) the names are the GPU's instructions. Elsewhere
 * parc_device_host.h implements them, and tests run the same code on the host
 * (tests/standin). Both implementations define parts 1 to 4; part 5 is common
 * code.
 *
 *   PARC_KERNEL(256) k03_scale(float *__restrict__ y,
 *                              const float *__restrict__ x, int64_t n)
 *   {
 *       int64_t i = block_index() * block_threads() + thread_index();
 *       if (i < n)
 *           y[i] = 2.0f * x[i];
 *   }
 *
 * 1. Kernels
 *   PARC_KERNEL(threads) name(…)  a kernel; `threads` is the maximum per block.
 *                          Arguments are pointers and int64_t only.
 *                          PARC_KERNEL(threads, blocks): `blocks` blocks fit the
 *                          registers of a multiprocessor. Without `blocks` the
 *                          compiler may spill registers to fit one more block
 *   PARC_DEVICE            a function, always inlined
 *   PARC_SHARED            static shared memory: PARC_SHARED float sum[32];
 *   void *parc_shared()    dynamic shared memory, 16-byte aligned
 *   PARC_UNROLL            before a loop: unroll it completely
 *   PARC_UNROLL_2          unroll two iterations; PARC_ROLL: do not unroll, for
 *                          lack of registers
 *   int thread_index(), block_threads(); int64_t block_index()
 *                          one-dimensional; a block consists of whole warps
 *   block_barrier()        waits until every thread of the block has arrived;
 *                          their previous writes are then visible
 *   warp_barrier()         the same for the 32 threads of a warp
 *   float warp_shuffle_xor(float x, int mask)   x of lane (own ^ mask)
 *   int warp_shuffle_xor_int(int x, int mask)
 *   int warp_shuffle_int(int x, int lane)       x of that lane
 *                          all 32 threads must call a shuffle
 *
 * 2. Memory
 *   parc_load16(to, from), parc_load8, parc_load4
 *                          one load of 16, 8 or 4 bytes to a local array; `from`
 *                          is aligned to that size
 *   parc_store16(to, from), …  the corresponding stores
 *   copy_async16_if(there, shared, global)  asynchronous copy of 16 bytes to
 *                          shared memory; if `there` is 0 it writes zeros and
 *                          does not read `global`
 *   copy_async4_if         the same with 4 bytes
 *   copy_async_commit()    ends a group of copies
 *   copy_async_wait(n)     waits until at most n (a constant) of the thread's
 *                          latest groups are in flight; a barrier makes the
 *                          copied data visible to other threads
 *
 * 3. Numbers
 *   parc_bf16, parc_f16    storage types of 16 bits; arithmetic is in f32
 *   parc_from_bf16, parc_to_bf16, parc_from_f16, parc_to_f16
 *                          to nearest, ties to even
 *   uint32_t parc_pack_bf16(low, high), parc_pack_f16
 *                          two numbers in one word, `low` at the lower address
 *   parc_bits, parc_from_bits  a float's bits
 *   parc_exp2(x)           2^x in one instruction, within 2 ulp
 *   parc_exp parc_log parc_sqrt parc_rsqrt parc_sigmoid parc_tanh parc_erf
 *   parc_gelu parc_gelu_slope (its derivative)
 *   parc_sin parc_cos parc_pow (x >= 0) parc_abs parc_floor
 *                          within a few ulp
 *   parc_max, parc_min     NaN if either is NaN
 *   parc_select(c, y, z)   c ? y : z
 *   random numbers as in parc_random.h, keys of an order as in parc_order.h
 *
 * 4. Tensor cores
 *   mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2]), mma_f16
 *                          d += a b of a warp, 16 x 8 x 16. With g = lane / 4
 *                          and t = lane % 4:
 *                          a[0] row g, columns 2t, 2t+1; a[1] row g + 8;
 *                          a[2], a[3] the same rows, columns 2t+8, 2t+9;
 *                          b[0] rows 2t, 2t+1 of column g; b[1] rows 2t+8, 2t+9;
 *                          d[0], d[1] row g, columns 2t, 2t+1; d[2], d[3]
 *                          row g + 8
 *   load_matrices(uint32_t to[4], row)   loads four matrices of 8 rows of 16
 *                          bytes from shared memory: lane i passes the address
 *                          of row i % 8 of matrix i / 8. to[m] is row g, columns
 *                          2t, 2t+1 of matrix m
 *   load_matrices_turned   transposed: row 2t, column g and row 2t+1, column g
 *
 * 5. Functions built on parts 1 to 4
 *   lane_index(), warp_index(), block_warps()
 *   warp_sum(x), warp_max(x)     in every lane, the same bits in all
 *   block_put(x, shared), block_get_sum(shared), block_get_max
 *                          the block's sum or maximum in every thread. `shared`
 *                          has 32 floats. Reductions may share a barrier:
 *                          block_put(warp_sum(x), a); block_put(…, b);
 *                          block_barrier(); x = block_get_sum(a); …
 *   online_power(x, top)   e^(x - top), x <= top, within 2 ulp plus the error of
 *                          rounding x - top to 24 bits: for sums
 *   online_base(top)       the number to subtract: `top`, or 0 if it is -inf
 *   warp_online(sum, top)  a warp's sum of e^(x - its maximum), from each
 *                          lane's own sum and maximum
 *   block_get_online(sums, tops)   the block's sum, after block_put of
 *                          warp_online's and warp_max's results. NaN if the
 *                          whole row is -inf, as e^(-inf - -inf) is
 *   parc_read_words(to, from, n), parc_write_words
 *                          n (a constant 1, 2, 4, 8) words of 4 bytes;
 *                          addresses are aligned to all of them, up to 16
 *                          bytes
 *   parc_widen_bf16(x, word, n), parc_widen_f16
 *                          converts n elements, two per word, to floats
 *   parc_read_f32(x, from, n), parc_read_bf16, parc_read_f16, parc_read_i32,
 *   parc_read_i64          n (a constant 1, 2, 4, 8) elements, floats converted
 *                          to f32; `from` is aligned to all of them, up to 16
 *                          bytes
 *   parc_write_f32(to, x, n), …  the corresponding stores
 */
#ifndef PARC_DEVICE_H
#define PARC_DEVICE_H

#include "kernel_sizes.h"

#ifdef __CUDACC__

#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#else
#include <stdint.h>
#endif
typedef uint16_t parc_bf16, parc_f16;

/* ---- 1. kernels ---------------------------------------------------------- */

#define PARC_KERNEL(...)                                                       \
    extern "C" __global__ void __launch_bounds__(__VA_ARGS__)
#define PARC_DEVICE static __device__ __forceinline__
#define PARC_SHARED __shared__
#define PARC_UNROLL _Pragma("unroll")
#define PARC_UNROLL_2 _Pragma("unroll 2")
#define PARC_ROLL _Pragma("unroll 1")
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif

PARC_DEVICE void *parc_shared(void)
{
    extern __shared__ uint4 parc_dynamic_shared[];
    return parc_dynamic_shared;
}

PARC_DEVICE int thread_index(void)
{
    return (int)threadIdx.x;
}

PARC_DEVICE int block_threads(void)
{
    return (int)blockDim.x;
}

PARC_DEVICE int64_t block_index(void)
{
    return (int64_t)blockIdx.x;
}

/* The block index of a grid of two dims, which a kernel of more than 2^31 - 1
 * blocks has. */
PARC_DEVICE int64_t wide_block_index(void)
{
    return (int64_t)blockIdx.y * gridDim.x + blockIdx.x;
}

PARC_DEVICE void block_barrier(void)
{
    __syncthreads();
}

PARC_DEVICE void warp_barrier(void)
{
    __syncwarp();
}

#define PARC_SHUFFLE(type, name, function)                                     \
    PARC_DEVICE type name(type x, int lane)                                    \
    {                                                                          \
        return function(0xffffffffu, x, lane);                                 \
    }
PARC_SHUFFLE(float, warp_shuffle_xor, __shfl_xor_sync)
PARC_SHUFFLE(int, warp_shuffle_xor_int, __shfl_xor_sync)
PARC_SHUFFLE(int, warp_shuffle_int, __shfl_sync)

/* ---- 2. memory ----------------------------------------------------------- */

#define PARC_LOAD(bytes, type)                                                 \
    PARC_DEVICE void parc_load##bytes(void *to, const void *from)              \
    {                                                                          \
        type x = *(const type *)from;                                          \
        memcpy(to, &x, sizeof x);                                              \
    }
#define PARC_STORE(bytes, type)                                                \
    PARC_DEVICE void parc_store##bytes(void *to, const void *from)             \
    {                                                                          \
        type x;                                                                \
        memcpy(&x, from, sizeof x);                                            \
        *(type *)to = x;                                                       \
    }
PARC_LOAD(16, uint4)
PARC_LOAD(8, uint2)
PARC_LOAD(4, uint32_t)
PARC_STORE(8, uint2)
PARC_STORE(4, uint32_t)

/* One instruction: compilers may compile the assignment of a struct to four. */
PARC_DEVICE void parc_store16(void *to, const void *from)
{
    uint32_t x[4];
    memcpy(x, from, sizeof x);
    asm volatile("st.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(x[0]),
                 "r"(x[1]), "r"(x[2]), "r"(x[3])
                 : "memory");
}

#define PARC_COPY_ASYNC(bytes, cache)                                          \
    PARC_DEVICE void copy_async##bytes##_if(int there, void *shared,           \
                                            const void *global)                \
    {                                                                          \
        uint32_t to = (uint32_t)__cvta_generic_to_shared(shared);              \
        asm volatile("cp.async." cache ".shared.global [%0], [%1], " #bytes    \
                     ", %2;" ::"r"(to),                                        \
                     "l"(global), "r"(there ? bytes : 0)                       \
                     : "memory");                                              \
    }
PARC_COPY_ASYNC(16, "cg")
PARC_COPY_ASYNC(4, "ca")

PARC_DEVICE void copy_async_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

#define copy_async_wait(n)                                                     \
    asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")

#include "parc_number.h"

/* ---- 4. tensor cores ----------------------------------------------------- */

#define PARC_MMA(type)                                                         \
    PARC_DEVICE void mma_##type(float d[4], const uint32_t a[4],               \
                                const uint32_t b[2])                           \
    {                                                                          \
        asm("mma.sync.aligned.m16n8k16.row.col.f32." #type "." #type ".f32 "   \
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "                   \
            "{%0, %1, %2, %3};"                                                \
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                   \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),           \
              "r"(b[1]));                                                      \
    }
PARC_MMA(bf16)
PARC_MMA(f16)

#define PARC_MATRICES(name, order)                                             \
    PARC_DEVICE void name(uint32_t to[4], const void *row)                     \
    {                                                                          \
        uint32_t from = (uint32_t)__cvta_generic_to_shared(row);               \
        asm volatile("ldmatrix.sync.aligned.m8n8.x4" order ".shared.b16 "      \
                     "{%0, %1, %2, %3}, [%4];"                                 \
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])      \
                     : "r"(from)                                               \
                     : "memory");                                              \
    }
PARC_MATRICES(load_matrices, "")
PARC_MATRICES(load_matrices_turned, ".trans")

#else
#include "parc_device_host.h"
#endif

#include "parc_order.h"
#include "parc_random.h"

/* ---- 5. functions built on parts 1 to 4 ---------------------------------- */

PARC_DEVICE int lane_index(void)
{
    return thread_index() % PARC_WARP;
}

PARC_DEVICE int warp_index(void)
{
    return thread_index() / PARC_WARP;
}

PARC_DEVICE int block_warps(void)
{
    return block_threads() / PARC_WARP;
}

/* Both lanes of an exchange add the same two numbers, so all lanes get the
 * same bits. */
PARC_DEVICE float warp_sum(float x)
{
    PARC_UNROLL
    for (int mask = PARC_WARP / 2; mask > 0; mask /= 2)
        x += warp_shuffle_xor(x, mask);
    return x;
}

PARC_DEVICE float warp_max(float x)
{
    PARC_UNROLL
    for (int mask = PARC_WARP / 2; mask > 0; mask /= 2)
        x = parc_max(x, warp_shuffle_xor(x, mask));
    return x;
}

/* Stores a warp's part of a block reduction. */
PARC_DEVICE void block_put(float x, float *shared)
{
    if (lane_index() == 0)
        shared[warp_index()] = x;
}

/* After a barrier: every warp reduces all parts in the same order. */
PARC_DEVICE float block_get_sum(const float *shared)
{
    return warp_sum(lane_index() < block_warps() ? shared[lane_index()] : 0.0f);
}

PARC_DEVICE float block_get_max(const float *shared)
{
    return warp_max(lane_index() < block_warps() ? shared[lane_index()]
                                                 : -INFINITY);
}

/* Takes one instruction for the power instead of about seven, because kernels
 * that read each element once are limited by instructions otherwise. */
PARC_DEVICE float online_power(float x, float top)
{
    return parc_exp2((x - top) * 1.44269504f);
}

PARC_DEVICE float online_base(float top)
{
    return parc_select(top == -INFINITY, 0.0f, top);
}

PARC_DEVICE float warp_online(float sum, float top)
{
    return warp_sum(sum * online_power(top, online_base(warp_max(top))));
}

PARC_DEVICE float block_get_online(const float *sums, const float *tops)
{
    float sum = 0.0f, top = -INFINITY;
    if (lane_index() < block_warps()) {
        sum = sums[lane_index()];
        top = tops[lane_index()];
    }
    return warp_sum(sum * online_power(top, warp_max(top)));
}

#include "parc_vector.h"

#endif
