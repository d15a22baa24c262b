/* rates.c: interpolates the rates of CPU ranks; see rates.h. */
#include "forecast/rates.h"

#include <math.h>

static double square_of_log(int64_t a, int64_t b)
{
    double d = log2((double)a / (double)b);
    return d * d;
}

double product_rate(const Machine *machine, bool f32, int64_t batch, int64_t m, int64_t n,
                    int64_t k, double *spread)
{
    static const double same = 1e-9;
    double weights = 0, logs = 0, spreads = 0;
    for (int i = 0; i < machine->product.n; i++) {
        const MachineProduct *p = &machine->product.at[i];
        if (f32 != (strcmp(p->type, "f32") == 0))
            continue;
        double d = square_of_log(p->batch, batch) + square_of_log(p->m, m) +
                   square_of_log(p->n, n) + square_of_log(p->k, k) + same;
        weights += 1 / (d * d);
        logs += log(p->rate.value) / (d * d);
        spreads += p->rate.spread / (d * d);
    }
    *spread = weights > 0 ? spreads / weights : 0;
    return weights > 0 ? exp(logs / weights) : 0;
}

double kernel_rate(const Machine *machine, const char *form, double bytes, double *spread)
{
    const MachineKernel *below = NULL, *above = NULL;
    for (int i = 0; i < machine->kernel.n; i++) {
        const MachineKernel *k = &machine->kernel.at[i];
        double at = (double)k->bytes;
        if (strcmp(k->form, form) != 0)
            continue;
        if (at <= bytes && (!below || k->bytes > below->bytes))
            below = k;
        if (at >= bytes && (!above || k->bytes < above->bytes))
            above = k;
    }
    const MachineKernel *near = below ? below : above, *far = above ? above : below;
    *spread = near ? fmax(near->rate.spread, far->rate.spread) : 0;
    if (!near)
        return 0;
    double width = log((double)far->bytes / (double)near->bytes);
    double part = width > 0 ? log(bytes / (double)near->bytes) / width : 0;
    return near->rate.value * pow(far->rate.value / near->rate.value, part);
}
