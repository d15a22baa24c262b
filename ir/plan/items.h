/* items.h: attaches the items of `fully_shard` to parameters, and those of
 * `checkpoint` to modules.
 *
 * Of several items that name a module, the most specific one applies, and of
 * equally specific ones the first. A parameter belongs to the item for the
 * innermost module that contains it. A tied parameter belongs to the item for
 * its own name; if none names that, to that of a name that the tie replaced.
 *
 * before   fully_shard dp { layers.*, [norm, output] }
 *          checkpoint { layers.* }
 * after    module "layers.*" … checkpoint=0
 *          param "layers.*.attention.wq.weight" … unit="layers.*" item=0
 *          param "norm.weight" … unit="norm+output" item=1
 */
#ifndef PARC_IR_PLAN_ITEMS_H
#define PARC_IR_PLAN_ITEMS_H

#include "ir/ir.h"

/* Sets Param.item, Param.unit and Module.checkpoint from Program.plan. Lowering
 * calls it once; later passes read these fields. */
void items_attach(Program *p);

#endif
