/* rt_peak.c: measures the peak rate of the CPU, for the log's mfu and hfu.
 *
 * The peak is that of the instructions with which the run's products are
 * computed, at the clock of the processor under them. A system reports at most
 * the nominal clock, which a processor exceeds by up to a half; hence rank 0
 * measures fused multiply-adds of vectors in registers at the start of a run,
 * for about two milliseconds. The fastest of many short bursts counts, so that
 * other processes do not lower it.
 *
 *   f32, vectors                    1 x the measured rate
 *   bf16, vectors of pairs          2 x
 *   bf16, tiles (AMX)              16 x
 *   f32 as bf16 parts, tiles     16/6 x     (rt_split.h)
 */
#include "common/message.h"
#include "common/type.h"
#include "cpu/rt_matmul.h"
#include "cpu/rt_tile.h"
#include "device.h"
#include "launch/world.h"
#include "rt.h"

enum { CHAINS = 12, ROUNDS = 8000, BURSTS = 120 };

/* Flops per second of one thread. The chains are independent, so that all
 * units are in use. */
static double burst(float one, RtVector term)
{
    RtVector sum[CHAINS];
    for (int i = 0; i < CHAINS; i++)
        sum[i] = term;
    double begin = rt_now();
    for (int round = 0; round < ROUNDS; round++)
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++)
            sum[i] = rt_fused(one, sum[i], term);
            /* The sums exist at this time. */
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++)
        __asm__ volatile("" : : "m"(sum[i]));
    double seconds = rt_now() - begin;
    return 2.0 * RT_LANES * CHAINS * ROUNDS / seconds;
}

static double vector_rate(void)
{
    volatile float one = 0.5f; /* the compiler does not know it */
    RtVector term = (RtVector){0} + one;
    double best = 0;
    for (int i = 0; i < BURSTS; i++) {
        double rate = burst(one, term);
        best = rate > best ? rate : best;
    }
    return best;
}

double rt_device_peak_flops(const ParcRt *rt)
{
    int busy = rt->nranks * rt->threads, cores = rt_cores();
    return vector_rate() * rt_matmul_speedup(rt) *
           (double)rt_least(busy, cores);
}
