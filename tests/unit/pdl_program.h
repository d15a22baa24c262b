/* pdl_program.h: lowers PDL text to a program and runs all passes on it. */
#ifndef PARC_TESTS_UNIT_PDL_PROGRAM_H
#define PARC_TESTS_UNIT_PDL_PROGRAM_H

#include "passes/pass.h"

/* Lowers the model in `text` for a mesh ("2x2"). `plan` NULL: the file's only
 * plan; `define`: settings such as "n_layers=3", then NULL. Returns NULL after
 * errors, which are in d. */
Program *pdl_program(Arena *a, Diag *d, const char *text, const char *mesh,
                     const char *plan, const char *const *define);

/* The same with the model's side programs. */
Program *pdl_programs(Arena *a, Diag *d, const char *text, const char *mesh,
                      const char *plan, const char *const *define);

/* Runs every pass, on side programs too. NULL, or the name of the pass after which p is faulty. */
const char *run_all_passes(Program *p, const TargetInfo *t);

#endif
