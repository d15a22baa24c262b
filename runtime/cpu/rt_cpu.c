/* rt_cpu.c: defines the features that the runtime library is compiled with,
 * for parc_cpu_check(). A separate file, because rt_cpu_check.c is compiled
 * with other flags. */
#include "parc_cpu.h"

const uint64_t parc_cpu_library = PARC_CPU_FEATURES;
