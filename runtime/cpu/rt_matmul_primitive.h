/* rt_matmul_primitive.h: between rt_matmul.c and the choice of a kernel. */
#ifndef PARC_RT_MATMUL_PRIMITIVE_H
#define PARC_RT_MATMUL_PRIMITIVE_H

#include <oneapi/dnnl/dnnl.h>

#include "rt_matmul.h"

bool rt_is_all_f32(const Plan *p);
/* Describes the plan's primitive; who calls destroys the description. */
dnnl_status_t rt_describe(const Plan *p, dnnl_engine_t engine,
                          dnnl_primitive_desc_t *description);
/* The same if the library has a fast one, not a reference nor an imitation of
 * types that the machine lacks; false: it has none. */
bool rt_describe_fast(const Plan *p, dnnl_engine_t engine,
                      dnnl_primitive_desc_t *description);

#endif
