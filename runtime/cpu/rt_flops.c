/* rt_flops.c: estimates the peak flops of the cores in use, for the log's mfu:
 * nominal clock rate times two fused multiply-adds of full vector width per
 * cycle.
 */
#include <stdio.h>

#include "device.h"
#include "launch/world.h"
#include "rt.h"

#if defined(__AVX512F__)
enum { FLOPS_A_CYCLE = 64 };
#elif defined(__FMA__)
enum { FLOPS_A_CYCLE = 32 };
#else
enum { FLOPS_A_CYCLE = 16 };
#endif

/* The nominal clock rate; 0 if the system does not report it. */
static double clock_hz(void)
{
    double best = 0, value;
    char line[256];
    FILE *f =
        fopen("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "r");
    if (f) {
        if (fscanf(f, "%lf", &value) == 1)
            best = value * 1e3;
        fclose(f);
    }
    f = best > 0 ? NULL : fopen("/proc/cpuinfo", "r");
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "cpu MHz : %lf", &value) == 1 && value * 1e6 > best)
            best = value * 1e6;
    }
    if (f)
        fclose(f);
    return best;
}

double rt_device_peak_flops(const ParcRt *rt)
{
    int busy = rt->nranks * rt->threads, cores = rt_cores();
    return clock_hz() * FLOPS_A_CYCLE * (busy < cores ? busy : cores);
}
