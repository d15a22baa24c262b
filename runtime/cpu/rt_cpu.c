/* rt_cpu.c: defines the features that the runtime library is compiled with. */
#include "parc_cpu.h"

const uint64_t parc_cpu_library = PARC_CPU_FEATURES;
