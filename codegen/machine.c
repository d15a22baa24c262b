/* machine.c: lists the instruction sets that --cpu names, with the C compiler's
 * flags and the runtime library for each (docs/cpu.md), and the GPU
 * architectures that --arch accepts.
 *
 * With `native` the plan depends on the machine that runs parc. With any other
 * level, plans and sources are the same on every machine, and a change of its
 * row changes them for every user.
 *
 * The oldest GPU architecture, sm_80, is the first with bf16 and with
 * asynchronous copies to shared memory.
 */
#include "codegen/machine.h"

#include <stddef.h>

static const char *const native[] = {"-march=native", 0};
static const char *const v3[] = {"-march=x86-64-v3", 0};
static const char *const v4[] = {"-march=x86-64-v4", 0};
static const char *const amx[] = {"-march=x86-64-v4", "-mavx512bf16",
                                  "-mamx-tile", "-mamx-bf16", 0};
static const char *const aarch64[] = {"-march=armv8-a", 0};

const CpuLevel cpu_level[CPU_LEVELS] = {
    {"native", PARC_CPU_NATIVE, 0, "libparc_rt.a", native},
    {"x86-64-v3", PARC_CPU_X86_64_V3, "x86_64", "libparc_rt.x86-64-v3.a", v3},
    {"x86-64-v4", PARC_CPU_X86_64_V4, "x86_64", "libparc_rt.x86-64-v4.a", v4},
    {"amx", PARC_CPU_AMX, "x86_64", "libparc_rt.amx.a", amx},
    {"aarch64", PARC_CPU_AARCH64, "aarch64", "libparc_rt.aarch64.a", aarch64},
};

bool cpu_level_is_named(const CpuLevel *level)
{
    return level->level != PARC_CPU_NATIVE;
}

const char *const cuda_archs[] = {
    "sm_80",   "sm_86",  "sm_87",   "sm_89",  "sm_90",   "sm_90a", "sm_100",
    "sm_100a", "sm_103", "sm_103a", "sm_110", "sm_110a", "sm_120", "sm_120a",
    "sm_121",  "sm_121a", NULL,
};

const char *const cuda_default_archs[] = {"sm_80", "sm_90a", NULL};
