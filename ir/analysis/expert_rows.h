/* expert_rows.h: finds the values that hold rows of experts. */
#ifndef PARC_IR_ANALYSIS_EXPERT_ROWS_H
#define PARC_IR_ANALYSIS_EXPERT_ROWS_H

#include "ir/ir.h"

/* By value id: whether the value has rows of experts, of which unused ones are undefined: rows
 * that were gathered or multiplied, and all that other ops make of them before they are combined.
 * [p->nvalues], in p's arena. */
bool *expert_rows_find(const Program *p);

/* The first op that reads rows and does not work on each by itself, as a sum over rows does;
 * NULL: there is none. For a program of STAGE_GLOBAL. */
const Op *expert_rows_mixed(const Program *p);

#endif
