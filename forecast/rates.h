/* rates.h: the rates of products and kernels of CPU ranks, which follow from those that
 * were measured of similar sizes.
 *
 *   measured   2048 x 256 x 768 (m, n, k): 92 Gflop/s; 2048 x 512 x 1536: 118
 *   sought     2048 x 384 x 1152: 105, nearly as far from both
 *
 * On a CPU the rate of a product depends on what fits its caches and on the library's
 * kernel for the shape, for which no formula is known. So the logarithm of a rate is the
 * mean of those of the measured shapes, weighted by the inverse fourth power of their
 * distance (Shepard, "A two-dimensional interpolation function for irregularly-spaced
 * data", 1968); the distance is that of the logarithms of the sizes. A shape that was
 * measured has its own rate. The rate of a kernel is between those of the next smaller
 * and the next larger number of bytes.
 */
#ifndef PARC_FORECAST_RATES_H
#define PARC_FORECAST_RATES_H

#include "forecast/machine.h"

/* The rate in flops per second of a product of `batch` matrices of m x k and k x n
 * elements, in f32 or 16 bits; its spread. 0: the machine has none of that type. */
double product_rate(const Machine *machine, bool f32, int64_t batch, int64_t m, int64_t n,
                    int64_t k, double *spread);

/* The bytes per second of a kernel of the form ("streaming", "row", "column") that reads
 * and writes `bytes`; its spread. 0: the machine has none of that form. */
double kernel_rate(const Machine *machine, const char *form, double bytes, double *spread);

#endif
