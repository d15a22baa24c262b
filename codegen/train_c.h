/* train_c.h: the texts of an emitted program. */
#ifndef PARC_CODEGEN_TRAIN_C_H
#define PARC_CODEGEN_TRAIN_C_H

#include "codegen/program.h"

void train_c_emit(Out *o, const Program *p, const TargetInfo *t,
                  const EmitOptions *options);
void kernels_c_emit(Out *o, const Program *p);
void kernels_h_emit(Out *o, const Program *p);

#endif
