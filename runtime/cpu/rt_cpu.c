/* rt_cpu.c: defines a constant with the instruction set extensions that the
 * runtime library is compiled with, for parc_cpu_check(). It is a separate file
 * because rt_cpu_check.c is compiled without extensions. */
#include "parc_cpu.h"

const uint64_t parc_cpu_library = PARC_CPU_FEATURES;
