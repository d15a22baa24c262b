/* explain.h: declares --explain NAME for modules, kernels, axes and the memory
 * peak; report_explain.c has parameters, values and collectives. Each function
 * prints its explanation, or returns false if nothing of its kind has the name.
 */
#ifndef PARC_CODEGEN_EXPLAIN_H
#define PARC_CODEGEN_EXPLAIN_H

#include "codegen/work.h"

/* Modules of a path, in which '*' and numbers stand for elements of arrays. */
bool explain_modules(Out *o, const Program *p, const char *name);

/* A kernel by its name in the plan, with or without its number. */
bool explain_kernel(Out *o, const Program *p, const char *name);

/* An axis of the mesh as the user named it, or a part of one. */
bool explain_axis(Out *o, const Program *p, const char *name);

/* "memory": all that is live at the peak, and what would reduce it. */
bool explain_memory(Out *o, const Program *p, const TargetInfo *t,
                    const char *name);

/* "  ag3   all_gather     tp   2 x 1.00 MiB   norm: reason  (place)" */
void explain_collective_line(Out *o, const Program *p,
                             const CollectiveInfo *c);

/* Whether `path` matches `name`: either may have '*' where the other has a
 * number, which must be the index of an existing element. `pm` is a parameter
 * in the same arrays, or NULL if their sizes are not known. */
bool explain_names(const Param *pm, const char *path, const char *name);

/* Whether a path is the module's, or of a module in it. */
bool explain_within(const char *path, const char *module);

#endif
