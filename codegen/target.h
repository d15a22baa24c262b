/* target.h: what the passes may know of a target. */
#ifndef PARC_CODEGEN_TARGET_H
#define PARC_CODEGEN_TARGET_H

#include "passes/pass.h"

/* `threads`: CPU threads of a rank that workspace is planned for. */
TargetInfo target_info(Target target, int threads);

#endif
