/* device_attention.h: declares the cases of attention of device_test.c. */
#ifndef PARC_TESTS_STANDIN_DEVICE_ATTENTION_H
#define PARC_TESTS_STANDIN_DEVICE_ATTENTION_H

#include "device_check.h"

/* Compares each case of attention_cases, or only that one if `only` is not negative, and of
 * ring_cases with the CPU's functions. */
void device_attention(const Device *d, int only);

/* Checks that attention with a window computes for each query the window, and at most a
 * warp's tile of keys more. */
void device_windows(const Device *d);

#endif
