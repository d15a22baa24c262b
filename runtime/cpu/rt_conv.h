/* rt_conv.h: frees the convolutions of a CPU run. */
#ifndef PARC_RT_CONV_H
#define PARC_RT_CONV_H

#include "rt.h"

void rt_conv_close(ParcRt *rt);

#endif
