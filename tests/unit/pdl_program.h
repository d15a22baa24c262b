/* pdl_program.h: lowers PDL text to a program and runs all passes on it. */
#ifndef PARC_TESTS_UNIT_PDL_PROGRAM_H
#define PARC_TESTS_UNIT_PDL_PROGRAM_H

#include "passes/pass.h"

/* The model in `text` on a mesh ("2x2"); `plan`: NULL where the file has one;
 * `define`: settings "n_layers=3", NULL at the end. NULL after errors, which
 * are in d. */
Program *pdl_program(Arena *a, Diag *d, const char *text, const char *mesh,
                     const char *plan, const char *const *define);

/* Runs every pass. NULL, or the name of the one that found a fault. */
const char *run_all_passes(Program *p, const TargetInfo *t);

#endif
