/* checkpoint.h: which ops the plan wants computed again.
 *
 * A *stretch* is what one checkpoint of the forward pass spans: a module that
 * an item of `checkpoint` names, with everything below it, or all modules
 * that brackets join. Of nested ones the outermost counts; what is kept, the
 * innermost item says.
 */
#ifndef PARC_IR_CHECKPOINT_H
#define PARC_IR_CHECKPOINT_H

#include "ir/ir.h"

/* Whether `path` is the module's own or one below it; "" is the model. */
bool path_is_below(const char *path, const char *module);

/* The stretch of an op of that path, 0: none; equal numbers are one stretch.
 * In the body of a loop whose op has the path `loop` (NULL: outside of
 * loops), stretches that hold the whole loop do not count: they run the loop
 * again. */
int checkpoint_stretch(const Program *p, const char *path, const char *loop);

/* The index of the innermost item that names a module above the path; -1:
 * none. */
int checkpoint_item(const Program *p, const char *path);

/* Whether that item keeps the results of such an op. */
bool checkpoint_keeps(const Program *p, const Op *op);

/* An item as the plan has it: "layers.*", "[a, b]", "every Block". */
const char *checkpoint_text(Arena *a, const Checkpoint *c);

#endif
