/* rt_cpu_check.c: checks that this machine has the instructions that a program
 * was compiled with.
 *
 * Without the check SIGILL would end the program at the first missing
 * instruction. Only this file is compiled for the architecture's baseline (no
 * -march), and it calls only the C library before the check is complete.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "parc_cpu.h"

#if defined(__AVX__) || defined(__ARM_FEATURE_SVE)
#error "compile rt_cpu_check.c without -march"
#endif

/* ---- x86-64: CPUID, and the register state that the system saves --------- */

#if defined(__x86_64__)

enum { EAX, EBX, ECX, EDX };

/* Bits of XCR0. */
enum { SSE = 0, AVX = 0x6, AVX512 = 0xe6, TILES = 0x60000 };

typedef struct Feature {
    const char *name;
    unsigned leaf, subleaf;
    int in, bit;
    unsigned state;
    int level;
} Feature;

#define FEATURE(macro, name, leaf, subleaf, in, bit, state, level)             \
    {name, leaf, subleaf, in, bit, state, PARC_IN_##level},
static const Feature feature[] = {PARC_CPU_TABLE(FEATURE)};

static unsigned saved_state(void)
{
    const unsigned OSXSAVE = 1u << 27;
    unsigned r[4] = {0}, low = 0, high = 0;
    if (!__get_cpuid_count(1, 0, &r[EAX], &r[EBX], &r[ECX], &r[EDX]) ||
        !(r[ECX] & OSXSAVE))
        return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

uint64_t parc_cpu_machine(void)
{
    uint64_t has = 0;
    unsigned saved = saved_state();
    for (int i = 0; i < PARC_CPU_COUNT; i++) {
        const Feature *f = &feature[i];
        unsigned r[4] = {0};
        if (__get_cpuid_count(f->leaf, f->subleaf, &r[EAX], &r[EBX], &r[ECX],
                              &r[EDX]) &&
            (r[f->in] >> f->bit & 1) && (saved & f->state) == f->state)
            has |= UINT64_C(1) << i;
    }
    return has;
}

/* The highest level that has only features of `has`; NULL: there is none. */
static const char *level_of(uint64_t has)
{
    static const char *const name[] = {[PARC_IN_V3] = "x86-64-v3",
                                       [PARC_IN_V4] = "x86-64-v4",
                                       [PARC_IN_AMX] = "amx"};
    int level = PARC_IN_NO_LEVEL;
    for (int i = 0; i < PARC_CPU_COUNT; i++)
        if (!(has >> i & 1) && feature[i].level < level)
            level = feature[i].level;
    return level > 0 ? name[level - 1] : NULL;
}

/* ---- aarch64: features that the kernel reports --------------------------- */

#elif defined(__aarch64__)

typedef struct Feature {
    const char *name;
    int word, bit;
} Feature;

#define FEATURE(macro, name, word, bit) {name, word, bit},
static const Feature feature[] = {PARC_CPU_TABLE(FEATURE)};

uint64_t parc_cpu_machine(void)
{
    uint64_t has = 0;
    for (int i = 0; i < PARC_CPU_COUNT; i++) {
        unsigned long word =
            getauxval(feature[i].word == 1 ? AT_HWCAP : AT_HWCAP2);
        has |= (uint64_t)(word >> feature[i].bit & 1) << i;
    }
    return has;
}

static const char *level_of(uint64_t has)
{
    (void)has;
    return "aarch64";
}

/* ---- other machines: no extensions are known ----------------------------- */

#else

typedef struct Feature {
    const char *name;
} Feature;

static const Feature feature[1];

uint64_t parc_cpu_machine(void)
{
    return 0;
}

static const char *level_of(uint64_t has)
{
    (void)has;
    return NULL;
}

#endif

void parc_cpu_check(const char *program, const ParcCpu *cpu)
{
    uint64_t machine = parc_cpu_machine();
    uint64_t lacks = (cpu->features | parc_cpu_library) & ~machine;
    if (!lacks)
        return;
    const char *slash = program ? strrchr(program, '/') : NULL;
    fprintf(stderr,
            "%s: error: compiled with --cpu %s, but this machine lacks",
            slash ? slash + 1 : program ? program : "train", cpu->level);
    const char *between = " ";
    for (int i = 0; i < PARC_CPU_COUNT; i++)
        if (lacks >> i & 1) {
            fprintf(stderr, "%s%s", between, feature[i].name);
            between = ", ";
        }
    const char *level = level_of(machine);
    fprintf(stderr, ": compile it on this machine%s%s\n",
            level ? ", or with parc --cpu " : "", level ? level : "");
    exit(1);
}
