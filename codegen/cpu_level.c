/* cpu_level.c: lists the instruction sets that --cpu names, with the C
 * compiler's flags and the runtime library for each (docs/cpu.md).
 *
 * With `native` the plan depends on the machine that runs parc. With any other
 * level, plans and sources are the same on every machine, and a change of its
 * row changes them for every user.
 */
#include "codegen/cpu_level.h"

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
