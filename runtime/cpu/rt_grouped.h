/* rt_grouped.h: frees what the products of experts need. */
#ifndef PARC_RT_GROUPED_H
#define PARC_RT_GROUPED_H

#include "rt.h"

void rt_grouped_close(ParcRt *rt);

#endif
