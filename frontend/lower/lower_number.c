/* lower_number.c: checks numbers of the source that become part of the program.
 *
 * Compile-time arithmetic has 64 bits; the program computes in f32 or less. A
 * number that would become infinity or zero there is an error at the location
 * where it enters the program.
 */
#include <math.h>
#include <string.h>

#include "frontend/lower/lower.h"

bool lower_f32(Lower *l, Loc loc, double x)
{
    int range = dtype_range(DT_F32, x);
    if (range == 0)
        return true;
    return lower_error(l, loc, "absolute values of f32 are 1.4e-45 to 3.4e38, "
                       "or 0",
                       range > 0 ? "%s is too large for f32"
                                 : "%s is too small for f32: it would become 0",
                       datum_text(l->arena, datum_float(x)));
}

bool lower_numbers_fit(Lower *l, Loc loc, OpKind kind, const Attr *attr)
{
    const AttrName *name = op_info(kind)->attr;
    for (int i = 0; name[i]; i++)
        if (attr_type_of(name[i]) == ATTR_TYPE_FLOAT &&
            !lower_f32(l, loc, attr[i].f))
            return false;
    return true;
}

bool lower_element_fits(Lower *l, Loc loc, Datum x, Datum of)
{
    if (!datum_is_number(x) || of.kind != DATUM_TENSOR)
        return true;
    DType t = of.tensor->type.dtype;
    if (!dtype_is_float(t) || dtype_range(t, datum_number(x)) <= 0)
        return true;
    return lower_error(l, loc, "use float(…) to compute in f32",
                       "%s is too large for %s, the type of the result's "
                       "elements", datum_text(l->arena, x), dtype_name(t));
}

/* The largest absolute value in the computation of initial values, including
 * intermediate results. A normal variable is computed from 32 random bits, so
 * its magnitude is at most 7 standard deviations. */
static double largest_value(const Init *init, double elements)
{
    switch (init->kind) {
    case INIT_ZEROS:
    case INIT_COPY:
        return 0;
    case INIT_ONES:
        return 1;
    case INIT_NORMAL:
        return 7 * init->a;
    case INIT_UNIFORM:
        return fmax(fmax(fabs(init->a), fabs(init->b)), init->b - init->a);
    case INIT_ARANGE:
        return fmax(fabs(init->a), fabs(init->a + elements - 1));
    }
    return 0;
}

bool lower_init_fits(Lower *l, Loc loc, const Init *init, const Type *of)
{
    double most = largest_value(init, (double)type_elements(of));
    DType used = l->p->train.precision;
    DType t = dtype_range(DT_F32, most) > 0 ? DT_F32 : used;
    if (dtype_range(t, most) > 0)
        return lower_error(l, loc, t == DT_F32 ? NULL : "'precision' of train "
                                                        "sets this type",
                           "initial values of up to %s are too large for %s",
                           datum_text(l->arena, datum_float(most)),
                           dtype_name(t));
    return (init->kind != INIT_NORMAL && init->kind != INIT_UNIFORM) ||
           (lower_f32(l, loc, init->a) && lower_f32(l, loc, init->b));
}
