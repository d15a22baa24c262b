/* target.h: declares the properties of a target that passes query, and checks
 * that a program fits its target. */
#ifndef PARC_CODEGEN_TARGET_TARGET_H
#define PARC_CODEGEN_TARGET_TARGET_H

#include "passes/pass.h"
#include "runtime/parc_rt.h"

/* The properties of a target. `threads`: CPU threads of a rank for which
 * workspace is planned. The instruction set of a CPU program is `native` until
 * the caller sets another. */
TargetInfo target_info(Target target, int threads);
/* Whether the target supports all operations of a planned program, and the
 * program trains with a loss; a program that was resumed from a dump may have
 * been made for another target. If not, reports what is missing and how to get
 * it. */
bool target_can_run(const Program *p, const TargetInfo *t);
/* Whether the fused ops of a dump are as passes assume: the pass `fuse` has
 * created them, but a dump may have been edited. */
bool target_takes_dump(const Program *p);

#endif
