/* rt_matmul_primitive.h: declares the choice of a oneDNN matmul kernel for
 * rt_matmul.c, limited by the scratch that it may use. */
#ifndef PARC_RT_MATMUL_PRIMITIVE_H
#define PARC_RT_MATMUL_PRIMITIVE_H

#include <oneapi/dnnl/dnnl.h>

#include "cpu/rt_matmul.h"

/* The scratch bytes that a description (oneDNN's primitive_desc) requests. */
int64_t rt_description_scratch(const_dnnl_primitive_desc_t description);
/* How many times as fast as vectors of f32 the instructions for the plan's
 * types are. */
double rt_primitive_speedup(const Plan *p);
/* Describes a primitive of the plan with one of the library's fast kernels, whose
 * scratch is at most `capacity` bytes; whether there is one. If only single
 * products of a batch have one, the plan is changed to compute them one by one.
 * The caller destroys the description. */
bool rt_describe(Plan *p, int64_t capacity, dnnl_engine_t engine,
                 dnnl_primitive_desc_t *description);

#endif
