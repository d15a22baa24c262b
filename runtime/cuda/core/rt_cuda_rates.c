/* rt_cuda_rates.c: lists the peak rates of GPUs, for the log's mfu.
 *
 * The table has the rates of dense matrix products in 10^12 operations per
 * second, for operands of 16 bits, TF32 and f32 (without tensor cores), with
 * sums in f32. They are from NVIDIA's data sheets, without sparsity, at boost
 * clock.
 */
#include <string.h>

#include "cuda/core/rt_cuda.h"

typedef struct Rate {
    const char *name; /* part of the device's name; the longest match counts */
    int major, minor; /* any device of this compute capability; 0: only the
                         name counts */
    double half, tf32, single;
} Rate;

static const Rate rates[] = {
    {"V100", 0, 0, 125, 15.7, 15.7},
    {"T4", 0, 0, 65, 8.1, 8.1},
    {"A10", 0, 0, 125, 62.5, 31.2},
    {"A10G", 0, 0, 70, 35, 31.2},
    {"A30", 0, 0, 165, 82, 10.3},
    {"A40", 0, 0, 149.7, 74.8, 37.4},
    {"A100", 8, 0, 312, 156, 19.5},
    {"A800", 0, 0, 312, 156, 19.5},
    {"RTX A6000", 0, 0, 154.8, 77.4, 38.7},
    {"RTX 3090", 0, 0, 71, 35.6, 35.6},
    {"RTX 4090", 0, 0, 165.2, 82.6, 82.6},
    {"RTX 5090", 0, 0, 209.5, 104.8, 104.8},
    {"RTX 6000 Ada", 0, 0, 364, 182, 91.1},
    {"L4", 0, 0, 121, 60, 30.3},
    {"L40", 0, 0, 181, 90.5, 90.5},
    {"L40S", 0, 0, 362, 183, 91.6},
    {"H100", 9, 0, 989, 494.5, 67},
    {"H100 PCIe", 0, 0, 756, 378, 51},
    {"H100 NVL", 0, 0, 835, 417.5, 60},
    {"H20", 0, 0, 148, 74, 44},
    {"H200", 0, 0, 989, 494.5, 67},
    {"H200 NVL", 0, 0, 835, 417.5, 60},
    {"H800", 0, 0, 989, 494.5, 67},
    {"GH200", 0, 0, 989, 494.5, 67},
    {"B100", 0, 0, 1750, 900, 60},
    {"B200", 10, 0, 2250, 1125, 75},
    {"GB200", 0, 0, 2500, 1250, 80},
    {"B300", 10, 3, 2250, 1125, 75},
};

/* Whether `part` occurs in a name as a word: "A10" is not in "NVIDIA A100". */
static bool names(const char *device, const char *part)
{
    size_t n = strlen(part);
    for (const char *at = device; (at = strstr(at, part)); at++) {
        bool begins = at == device || at[-1] == ' ' || at[-1] == '-';
        bool ends = !at[n] || at[n] == ' ' || at[n] == '-';
        if (begins && ends)
            return true;
    }
    return false;
}

static const Rate *rate_of(const char *device, int major, int minor)
{
    const Rate *best = NULL;
    size_t longest = 0;
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        size_t n = strlen(rates[i].name);
        if (n > longest && names(device, rates[i].name)) {
            best = &rates[i];
            longest = n;
        }
    }
    for (size_t i = 0; !best && i < sizeof rates / sizeof *rates; i++)
        if (rates[i].major == major && rates[i].minor == minor)
            best = &rates[i];
    return best;
}

double rt_cuda_peak_flops(const char *device, int major, int minor,
                          CudaPrecision precision)
{
    const Rate *r = rate_of(device, major, minor);
    if (!r)
        return 0;
    const double of[] = {[CUDA_SINGLE] = r->single, [CUDA_TF32] = r->tf32,
                         [CUDA_HALF] = r->half};
    return of[precision] * 1e12;
}

void rt_cuda_note_precision(RtDevice *d, ParcType type)
{
    if (type != PARC_F32)
        d->precision = CUDA_HALF;
    else if (d->precision == CUDA_SINGLE && d->mode.tf32)
        d->precision = CUDA_TF32;
}
