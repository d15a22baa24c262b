/* rt_matmul_primitive.h: declares the choice of a oneDNN matmul kernel for
 * rt_matmul.c, limited by the scratch that it may use. */
#ifndef PARC_RT_MATMUL_PRIMITIVE_H
#define PARC_RT_MATMUL_PRIMITIVE_H

#include <oneapi/dnnl/dnnl.h>

#include "cpu/rt_matmul.h"

/* The scratch bytes that a description (oneDNN's primitive_desc) requests. */
int64_t rt_description_scratch(const_dnnl_primitive_desc_t description);
/* Describes a primitive of the plan whose scratch is at most `capacity` bytes.
 * It may be the library's reference implementation if no other fits. The
 * caller destroys the description. */
dnnl_status_t rt_describe(const Plan *p, int64_t capacity,
                          dnnl_engine_t engine,
                          dnnl_primitive_desc_t *description);
/* As rt_describe, but excludes reference implementations and kernels that
 * emulate element types. */
dnnl_status_t rt_describe_fast(const Plan *p, int64_t capacity,
                               dnnl_engine_t engine,
                               dnnl_primitive_desc_t *description);

#endif
