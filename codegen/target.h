/* target.h: what the passes may know of a target. */
#ifndef PARC_CODEGEN_TARGET_H
#define PARC_CODEGEN_TARGET_H

#include "passes/pass.h"
#include "runtime/parc_rt.h"

/* `threads`: CPU threads of a rank that workspace is planned for. A program for
 * the CPU is one of the level `native` until the caller says otherwise. */
TargetInfo target_info(Target target, int threads);
/* Whether the CPU can make this rank's shard of an einsum, operand i of a
 * reduce_scatter, out of all ranks' operands: it is whole rows of an f32
 * product, which a call of the library's makes, of tensors that are not in
 * memory which ranks share. target_info's says that where it is less work, too.
 */
bool target_can_make_shards(const Program *p, const Op *einsum,
                            const Op *scatter, int i);

/* Whether the target can do what a planned program asks for: one that was taken
 * up from a dump may have been made for another. Says what it cannot do, and
 * which target can. */
bool target_can_run(const Program *p, const TargetInfo *t);
/* The same of the products that a dump has as shards, by themselves and as they
 * are: passes take them for what the pass `shards` makes. */
bool target_takes_shards(const Program *p, const TargetInfo *t);

/* What the runtime calls an element type. */
ParcType runtime_type(DType t);

#endif
