/* parc_cpu.h: lists the instruction set extensions that a program is compiled
 * with.
 *
 * A program that runs on a CPU without one of its extensions would end with an
 * illegal instruction; parc_cpu_check() reports the missing extension instead.
 *
 * A compiler that may use an extension predefines a macro for it.
 * PARC_CPU_FEATURES collects these macros into one constant, which the emitted
 * program and the runtime library each hold. main() passes the program's
 * constant to parc_cpu_check(), which is compiled without extensions, before
 * it does anything else.
 *
 * The tables list the extensions that compilers use by themselves.
 */
#ifndef PARC_CPU_H
#define PARC_CPU_H

#include <stdint.h>

/* The lowest level of --cpu that includes an extension. */
enum { PARC_IN_V3, PARC_IN_V4, PARC_IN_AMX, PARC_IN_NO_LEVEL };

#if defined(__x86_64__)
/* macro, name, CPUID leaf, subleaf, register (eax ebx ecx edx), bit, register
 * state that the system must save, level */
#define PARC_CPU_TABLE(F)                                                      \
    F(__SSE3__, "sse3", 1, 0, 2, 0, SSE, V3)                                   \
    F(__SSSE3__, "ssse3", 1, 0, 2, 9, SSE, V3)                                 \
    F(__SSE4_1__, "sse4.1", 1, 0, 2, 19, SSE, V3)                              \
    F(__SSE4_2__, "sse4.2", 1, 0, 2, 20, SSE, V3)                              \
    F(__POPCNT__, "popcnt", 1, 0, 2, 23, SSE, V3)                              \
    F(__PCLMUL__, "pclmul", 1, 0, 2, 1, SSE, NO_LEVEL)                         \
    F(__AES__, "aes", 1, 0, 2, 25, SSE, NO_LEVEL)                              \
    F(__MOVBE__, "movbe", 1, 0, 2, 22, SSE, V3)                                \
    F(__LZCNT__, "lzcnt", 0x80000001, 0, 2, 5, SSE, V3)                        \
    F(__BMI__, "bmi", 7, 0, 1, 3, SSE, V3)                                     \
    F(__BMI2__, "bmi2", 7, 0, 1, 8, SSE, V3)                                   \
    F(__ADX__, "adx", 7, 0, 1, 19, SSE, NO_LEVEL)                              \
    F(__SHA__, "sha", 7, 0, 1, 29, SSE, NO_LEVEL)                              \
    F(__GFNI__, "gfni", 7, 0, 2, 8, SSE, NO_LEVEL)                             \
    F(__SSE4A__, "sse4a", 0x80000001, 0, 2, 6, SSE, NO_LEVEL)                  \
    F(__TBM__, "tbm", 0x80000001, 0, 2, 21, SSE, NO_LEVEL)                     \
    F(__AVX__, "avx", 1, 0, 2, 28, AVX, V3)                                    \
    F(__F16C__, "f16c", 1, 0, 2, 29, AVX, V3)                                  \
    F(__FMA__, "fma", 1, 0, 2, 12, AVX, V3)                                    \
    F(__AVX2__, "avx2", 7, 0, 1, 5, AVX, V3)                                   \
    F(__FMA4__, "fma4", 0x80000001, 0, 2, 16, AVX, NO_LEVEL)                   \
    F(__XOP__, "xop", 0x80000001, 0, 2, 11, AVX, NO_LEVEL)                     \
    F(__VAES__, "vaes", 7, 0, 2, 9, AVX, NO_LEVEL)                             \
    F(__VPCLMULQDQ__, "vpclmulqdq", 7, 0, 2, 10, AVX, NO_LEVEL)                \
    F(__AVXVNNI__, "avx_vnni", 7, 1, 0, 4, AVX, NO_LEVEL)                      \
    F(__AVXIFMA__, "avx_ifma", 7, 1, 0, 23, AVX, NO_LEVEL)                     \
    F(__AVXVNNIINT8__, "avx_vnni_int8", 7, 1, 3, 4, AVX, NO_LEVEL)             \
    F(__AVXNECONVERT__, "avx_ne_convert", 7, 1, 3, 5, AVX, NO_LEVEL)           \
    F(__AVX512F__, "avx512f", 7, 0, 1, 16, AVX512, V4)                         \
    F(__AVX512DQ__, "avx512dq", 7, 0, 1, 17, AVX512, V4)                       \
    F(__AVX512CD__, "avx512cd", 7, 0, 1, 28, AVX512, V4)                       \
    F(__AVX512BW__, "avx512bw", 7, 0, 1, 30, AVX512, V4)                       \
    F(__AVX512VL__, "avx512vl", 7, 0, 1, 31, AVX512, V4)                       \
    F(__AVX512PF__, "avx512pf", 7, 0, 1, 26, AVX512, NO_LEVEL)                 \
    F(__AVX512ER__, "avx512er", 7, 0, 1, 27, AVX512, NO_LEVEL)                 \
    F(__AVX512IFMA__, "avx512ifma", 7, 0, 1, 21, AVX512, NO_LEVEL)             \
    F(__AVX512VBMI__, "avx512vbmi", 7, 0, 2, 1, AVX512, NO_LEVEL)              \
    F(__AVX512VBMI2__, "avx512vbmi2", 7, 0, 2, 6, AVX512, NO_LEVEL)            \
    F(__AVX512VNNI__, "avx512vnni", 7, 0, 2, 11, AVX512, NO_LEVEL)             \
    F(__AVX512BITALG__, "avx512bitalg", 7, 0, 2, 12, AVX512, NO_LEVEL)         \
    F(__AVX512VPOPCNTDQ__, "avx512vpopcntdq", 7, 0, 2, 14, AVX512, NO_LEVEL)   \
    F(__AVX512VP2INTERSECT__, "avx512vp2intersect", 7, 0, 3, 8, AVX512,        \
      NO_LEVEL)                                                                \
    F(__AVX512FP16__, "avx512fp16", 7, 0, 3, 23, AVX512, NO_LEVEL)             \
    F(__AVX512BF16__, "avx512bf16", 7, 1, 0, 5, AVX512, AMX)                   \
    F(__AMX_TILE__, "amx-tile", 7, 0, 3, 24, TILES, AMX)                       \
    F(__AMX_BF16__, "amx-bf16", 7, 0, 3, 22, TILES, AMX)                       \
    F(__AMX_INT8__, "amx-int8", 7, 0, 3, 25, TILES, NO_LEVEL)
#elif defined(__aarch64__)
/* macro, name, 1 or 2: AT_HWCAP or AT_HWCAP2, bit */
#define PARC_CPU_TABLE(F)                                                      \
    F(__ARM_FEATURE_CRC32, "crc32", 1, 7)                                      \
    F(__ARM_FEATURE_ATOMICS, "lse", 1, 8)                                      \
    F(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC, "fp16", 1, 10)                     \
    F(__ARM_FEATURE_QRDMX, "rdm", 1, 12)                                       \
    F(__ARM_FEATURE_JCVT, "jscvt", 1, 13)                                      \
    F(__ARM_FEATURE_COMPLEX, "fcma", 1, 14)                                    \
    F(__ARM_FEATURE_DOTPROD, "dotprod", 1, 20)                                 \
    F(__ARM_FEATURE_SVE, "sve", 1, 22)                                         \
    F(__ARM_FEATURE_FP16_FML, "fp16fml", 1, 23)                                \
    F(__ARM_FEATURE_SVE2, "sve2", 2, 1)                                        \
    F(__ARM_FEATURE_MATMUL_INT8, "i8mm", 2, 13)                                \
    F(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC, "bf16", 2, 14)
#else
#define PARC_CPU_TABLE(F)
#endif

#define PARC_CPU_INDEX(macro, ...) PARC_CPU_OF##macro,
enum { PARC_CPU_TABLE(PARC_CPU_INDEX) PARC_CPU_COUNT };

/* A defined macro expands to 1; the string "1" has two bytes. */
#define PARC_CPU_TEXT(macro) #macro
#define PARC_CPU_BIT(macro, ...)                                               \
    | ((uint64_t)(sizeof PARC_CPU_TEXT(macro) == 2) << PARC_CPU_OF##macro)
#define PARC_CPU_FEATURES (UINT64_C(0) PARC_CPU_TABLE(PARC_CPU_BIT))

/* The instruction set that a program is compiled for. */
typedef struct ParcCpu {
    const char *level; /* the argument of --cpu */
    uint64_t features;
} ParcCpu;

/* Ends the process with a message and exit status 1 if this machine lacks a
 * feature of the program or of the runtime library. */
void parc_cpu_check(const char *program, const ParcCpu *cpu);

/* The features of the runtime library, and those of this machine. */
extern const uint64_t parc_cpu_library;
uint64_t parc_cpu_machine(void);

#endif
