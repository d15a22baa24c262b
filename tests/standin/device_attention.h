/* device_attention.h: declares the cases of attention of device_test.c. */
#ifndef PARC_TESTS_STANDIN_DEVICE_ATTENTION_H
#define PARC_TESTS_STANDIN_DEVICE_ATTENTION_H

#include "device_check.h"

/* Compares each case of attention_cases, or only that one if `only` is not negative, and of
 * ring_cases with the CPU's functions. */
void device_attention(const Device *d, int only);

/* Attention with a window of w keys does w / seq of the work of all keys. */
void device_windows(const Device *d);

#endif
