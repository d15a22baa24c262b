/* user_axes.h: shows the mesh as the user declared it.
 *
 * An axis that a pass has split into parts, "tp.kv" and "tp.rep", is one axis
 * to the user, "tp".
 */
#ifndef PARC_IR_PLAN_USER_AXES_H
#define PARC_IR_PLAN_USER_AXES_H

#include "ir/ir.h"

/* An axis as the user named it, and its parts in the program's mesh. */
typedef struct UserAxis {
    const char *name;
    int64_t size;
    int first, parts;
} UserAxis;
int user_axes(const Program *p, UserAxis axis[MAX_AXES]);
/* "dp,tp"; "tp.rep" if only that part of tp is meant. */
const char *user_axes_text(const Program *p, uint32_t axes);
/* The placement on a user's axis; "S(0) over tp.kv" if its parts differ. */
const char *user_axis_placement(const Program *p, const Type *t,
                                  const UserAxis *axis);
/* The placement on all axes of the user: "dp=S(0) tp=R"; "" without a mesh. */
const char *user_placements(const Program *p, const Type *t);
/* The placement of a type on one axis as shown to users: "R", "S(0)", "P"; a
 * flat run of whole rows is "S(0)", any other "flat". */
const char *user_placement(const Program *p, const Type *t, int axis);

/* The axes that split the batch, as a bit mask: all but loop axes and those of
 * `parallelize`, of a pipeline and of a context. */
uint32_t batch_axes(const Program *p);

#endif
