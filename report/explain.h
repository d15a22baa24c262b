/* explain.h: declares the functions of --explain NAME for parameters, modules,
 * kernels, mesh axes and the memory peak, and the helpers that their files
 * share. report_explain.c calls them; it explains values and collectives.
 *
 * A function that gets a name prints an explanation and returns true, or false
 * if nothing of its kind has the name.
 */
#ifndef PARC_REPORT_EXPLAIN_H
#define PARC_REPORT_EXPLAIN_H

#include "report/report.h"

/* Explains the modules with a path: "model", "layers.*.attention". The number
 * of an existing layer may replace the *. */
bool explain_modules(Out *o, const Program *p, const char *name);

/* Explains a parameter. */
void explain_param(Out *o, const Program *p, const Param *pm);

/* A line for each mesh axis: the value's placement and the reason for it. */
void explain_placement(Out *o, const Program *p, const Value *v);

/* Explains an axis of the mesh as the user named it, or a part of one. */
bool explain_axis(Out *o, const Program *p, const char *name);

/* Explains "memory": all that is live at the peak, and what would reduce it. */
bool explain_memory(Out *o, const Program *p, const TargetInfo *t,
                    const char *name);

/* The time of what has the name, if it has some. */
void explain_time(Out *o, const Program *p, const Forecast *f, const char *name);

/* "  %h.3   f32[8, 64]   2.00 KiB per rank" */
void explain_value_line(Out *o, const Program *p, const Value *v);

/* Prints a collective in two lines, as the plan does: "  ag3   all_gather
 * tp   2 x 1.00 MiB   norm", then its phase, reason and source line. */
void explain_collective_line(Out *o, const Program *p,
                             const CollectiveInfo *c);

/* Whether `path` matches `name`: either may have '*' where the other has a
 * number, which must be the index of an existing element. `pm` is a parameter
 * in the same arrays, or NULL if their sizes are not known. */
bool explain_names(const Param *pm, const char *path, const char *name);

#endif
