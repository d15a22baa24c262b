/* conv_call.h: describes a rank's call of a convolution. */
#ifndef PARC_CODEGEN_CONV_CALL_H
#define PARC_CODEGEN_CONV_CALL_H

#include "ir/ir.h"
#include "runtime/parc_conv.h"

/* One rank's call of conv or of a gradient: sizes and types. A rank that has a part of the
 * channels has as many groups as that part. Name and scratch are not set. */
ParcConvSpec conv_call(const Program *p, const Op *op);

#endif
