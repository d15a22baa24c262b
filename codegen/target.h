/* target.h: what the passes may know of a target. */
#ifndef PARC_CODEGEN_TARGET_H
#define PARC_CODEGEN_TARGET_H

#include "passes/pass.h"
#include "runtime/parc_rt.h"

/* `threads`: CPU threads of a rank that workspace is planned for. */
TargetInfo target_info(Target target, int threads);

/* What the runtime calls an element type. */
ParcType runtime_type(DType t);

#endif
