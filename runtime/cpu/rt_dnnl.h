/* rt_dnnl.h: opens oneDNN for the matmuls and convolutions of a rank. */
#ifndef PARC_RT_DNNL_H
#define PARC_RT_DNNL_H

#include <stdbool.h>

#include <oneapi/dnnl/dnnl.h>

#include "rt.h"

/* Creates rt->engine and rt->stream, unless they exist. */
void rt_dnnl_open(ParcRt *rt);
/* Frees them. The primitives are freed before. */
void rt_dnnl_close(ParcRt *rt);

/* Whether the machine has the instructions (dnnl_cpu_isa_…) and oneDNN may use them. */
bool rt_dnnl_knows(unsigned isa);
dnnl_data_type_t rt_dnnl_type(ParcType type);

#endif
