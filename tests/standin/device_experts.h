/* device_experts.h: declares the cases of mixtures of experts of device_test.c. */
#ifndef PARC_TESTS_STANDIN_DEVICE_EXPERTS_H
#define PARC_TESTS_STANDIN_DEVICE_EXPERTS_H

#include "device_check.h"

/* Compares case i of experts_cases, from EXPERTS_CASES on a random variation of one, with the
 * CPU's functions. */
void device_experts(const Device *d, int i);

#endif
