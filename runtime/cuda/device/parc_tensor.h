/* parc_tensor.h: implements the tensor core operations of device code for the
 * GPU: matrix products of a warp, and loads of their operands. They are part 4
 * of parc_device.h, which documents them. */
#ifndef PARC_TENSOR_H
#define PARC_TENSOR_H

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

#endif
