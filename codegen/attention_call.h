/* attention_call.h: describes a rank's call of attention. */
#ifndef PARC_CODEGEN_ATTENTION_CALL_H
#define PARC_CODEGEN_ATTENTION_CALL_H

#include "ir/ir.h"
#include "runtime/parc_attention.h"

/* One rank's call of attention or its gradient: sizes, types, what masks the scores, and
 * whether every call computes the same bits. The fields for random indices are 0, the
 * pointers NULL. */
ParcAttention attention_call(const Program *p, const Op *op);

#endif
