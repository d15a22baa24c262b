/* side_program.h: declares what passes do differently in a side program:
 * follow the training step whose parameters it uses. */
#ifndef PARC_PASSES_SIDE_PROGRAM_H
#define PARC_PASSES_SIDE_PROGRAM_H

#include "ir/ir.h"

/* The parameter of the training step that parameter `pm` of the side program
 * is; NULL: the training step has none of this name. */
const Param *side_param(const Program *p, const Param *pm);

/* Stores the parameters of a side program in the same way as the training
 * step: kept, shared, in host memory. No effect on a training step. */
void side_follow(Program *p);

/* Whether the side program reads each parameter where the training step has
 * stored it. NULL, or what differs as a text for a message. */
const char *side_differs(const Program *p);

/* Drops side programs that do not find the parameters where the training
 * step stores them: a model whose outputs need another mesh, or a dump that was
 * changed. A note names the parameter. */
void side_drop(Program *p);

#endif
