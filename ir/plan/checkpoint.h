/* checkpoint.h: finds the ops that the plan's `checkpoint` wants recomputed.
 *
 * A *stretch*, a segment in PyTorch's terms, is the part of the forward pass
 * between two checkpoints: a module that an item of `checkpoint` names, with
 * all its children, or all modules that brackets join:
 *
 *   checkpoint { layers.* }           each layer is a stretch
 *   checkpoint { [norm, output] }     both modules are one stretch
 *
 * If items are nested, the outermost one determines the stretch, the innermost
 * one what is saved.
 */
#ifndef PARC_IR_PLAN_CHECKPOINT_H
#define PARC_IR_PLAN_CHECKPOINT_H

#include "ir/ir.h"

/* Whether `path` is the module's own or that of a child; "" is the model. */
bool path_is_below(const char *path, const char *module);

/* The stretch of an op with that path, 0: none; equal numbers are one stretch.
 * In the body of a loop whose op has the path `loop` (NULL: outside of loops),
 * stretches that contain the whole loop do not count: they recompute the loop
 * op. */
int checkpoint_stretch(const Program *p, const char *path, const char *loop);

/* The index of the innermost item that names a module containing the path; -1:
 * none. */
int checkpoint_item(const Program *p, const char *path);

/* Whether `keep` of the innermost item for the op's module saves the results of
 * such an op. */
bool checkpoint_keeps(const Program *p, const Op *op);

/* An item as in the plan: "layers.*", "[a, b]", "every Block". */
const char *checkpoint_text(Arena *a, const Checkpoint *c);

#endif
