/* lower_op.c: adds an op to the program, or reports why its operands do not
 * fit; checks numbers of the source that become part of the program.
 *
 * Compile-time arithmetic has 64 bits; the program computes in f32 or less. A
 * number that would become infinity or zero there is an error at the location
 * where it enters the program.
 */
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "frontend/lower/lower.h"

/* ---- numbers of the source ------------------------------------------------ */

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

/* Checks the numeric attributes of an op like lower_f32. */
static bool lower_numbers_fit(Lower *l, Loc loc, OpKind kind, const Attr *attr)
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
    case INIT_TRUNCATED_NORMAL:
        return fmin(7 * init->a, fmax(-init->b, init->c));
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
    if (init->depth < 0 && of->nstack != 1)
        return lower_error(l, loc, "the values of element i of the array are "
                           "multiplied by (i + 1) ** depth",
                           "'depth' needs a parameter in one array of modules, "
                           "not in %s", of->nstack ? "several" : "none");
    DType used = l->p->train.precision;
    DType t = dtype_range(DT_F32, most) > 0 ? DT_F32 : used;
    if (dtype_range(t, most) > 0)
        return lower_error(l, loc, t == DT_F32 ? NULL : "'precision' of train "
                                                        "sets this type",
                           "initial values of up to %s are too large for %s",
                           datum_text(l->arena, datum_float(most)),
                           dtype_name(t));
    bool random = init->kind == INIT_NORMAL || init->kind == INIT_UNIFORM ||
                  init->kind == INIT_TRUNCATED_NORMAL;
    return !random || (lower_f32(l, loc, init->a) && lower_f32(l, loc, init->b) &&
                       lower_f32(l, loc, init->c));
}

const char *lower_operands_text(Lower *l, int n, const Datum *args)
{
    const char *text = datum_text(l->arena, args[0]);
    for (int i = 1; i < n; i++)
        text = arena_printf(l->arena, "%s%s%s", text,
                            i == n - 1 ? " and " : ", ",
                            datum_text(l->arena, args[i]));
    return text;
}

/* The boundary op that returns `v` from a child; NULL if none does. */
static const Op *returned_by(const Value *v)
{
    const Op *def = v->def;
    bool out = def && def->kind == OP_boundary &&
               !attr_port(def).input;
    return out ? def : NULL;
}

/* For operands that are results of children: notes the calls, down to the
 * module that computes the result. */
static void note_children(Lower *l, int nargs, const Datum *args)
{
    for (int i = 0; i < nargs; i++) {
        const Op *op = returned_by(args[i].tensor);
        if (!op)
            continue;
        lower_note(l, op->loc, "%s is the result of '%s'",
                   datum_text(l->arena, args[i]), attr_path(op));
        for (const Op *of; (of = returned_by(op->arg[0])); op = of)
            lower_note(l, of->loc, "'%s' returns the result of '%s'",
                       attr_path(op), attr_path(of));
    }
}

Datum lower_narrow(Lower *l, Datum d)
{
    if (!d.is_data)
        return d;
    Datum r = d;
    r.is_data = false;
    for (int i = 0; i < l->narrow.n; i++)
        if (l->narrow.at[i].of == d.tensor) {
            r.tensor = l->narrow.at[i].copy;
            return r;
        }
    /* After the producer, for all readers: in a loop too. */
    Op *def = d.tensor->def;
    Build b = {.p = l->p, .region = def->region, .before = def->next,
               .phase = def->phase, .loc = l->b.loc, .path = def->path};
    DType to = l->p->train.precision;
    Attr attr[MAX_ATTRS] = {{.i = to}};
    r.tensor = ir_value(&b, OP_cast, 1, &d.tensor, attr,
                        arena_printf(l->arena, "%s.%s", d.tensor->name,
                                     dtype_name(to)));
    NarrowCopy copy = {d.tensor, r.tensor};
    vec_push(l->arena, &l->narrow, copy);
    return r;
}

static bool is_16_bit(const Datum *d)
{
    return d->kind == DATUM_TENSOR && dtype_is_float(d->tensor->type.dtype) &&
           dtype_size(d->tensor->type.dtype) == 2;
}

/* Whether the op needs data in the compute type: a matmul, or an op with
 * another operand of this type. */
static bool needs_narrow(OpKind kind, int nargs, const Datum *args)
{
    bool found = op_is_einsum(kind) || kind == OP_attention || kind == OP_conv ||
                 kind == OP_grouped_matmul;
    for (int i = 0; i < nargs; i++)
        found = found || is_16_bit(&args[i]);
    return found;
}

/* Whether d is the same in all steps: a buffer, a number. */
static bool is_constant(const Datum *d)
{
    const Op *def = d->tensor->def;
    return def && (def->phase == PH_INIT || def->kind == OP_full);
}

/* Whether the result of an op on data is data too: an elementwise op of data
 * and constants, or an op whose result would have the compute type if the data
 * had it. */
static bool result_is_data(Lower *l, OpKind kind, int nargs, const Datum *args,
                           const Attr *attr)
{
    Value **narrow = NEW_ARRAY(l->arena, Value *, nargs + 1);
    Type out[MAX_PORTS + 4];
    int nouts;
    bool only = op_is_elementwise(kind) && kind != OP_cast;
    for (int i = 0; i < nargs; i++) {
        narrow[i] = NEW(l->arena, Value);
        *narrow[i] = *args[i].tensor;
        if (args[i].is_data)
            narrow[i]->type.dtype = l->p->train.precision;
        else
            only = only && is_constant(&args[i]);
    }
    return only || (!ir_infer(l->p, kind, nargs, narrow, attr, out, &nouts) &&
                    out[0].dtype == l->p->train.precision);
}

Datum lower_op(Lower *l, Loc loc, const char *doing, OpKind kind, int nargs,
               const Datum *args, const Attr *attr)
{
    static const Attr none[MAX_ATTRS];
    Value **value = NEW_ARRAY(l->arena, Value *, nargs + 1);
    bool narrow = needs_narrow(kind, nargs, args), data = false;
    for (int i = 0; i < nargs; i++) {
        if (args[i].kind == DATUM_POISON)
            return datum_poison();
        data = data || (args[i].is_data && !narrow);
        Datum d = narrow ? lower_narrow(l, args[i]) : args[i];
        value[i] = lower_import(l, l->level, d.tensor);
    }
    if (!l->init_end)
        return lower_poison(l, loc, NULL,
                            "tensors exist only inside a forward");
    if (!lower_numbers_fit(l, loc, kind, attr))
        return datum_poison();
    Type out[MAX_PORTS + 4];
    int nouts;
    const char *fault = ir_infer(l->p, kind, nargs, value, attr ? attr : none,
                                 out, &nouts);
    if (fault) {
        lower_error(l, loc, NULL, "cannot %s %s: %s", doing,
                    lower_operands_text(l, nargs, args), fault);
        note_children(l, nargs, args);
        return datum_poison();
    }
    l->b.loc = lower_user_loc(l, loc);
    Op *op = ir_op(&l->b, kind, nargs, value, attr ? attr : none, NULL);
    Datum d = datum_tensor(op->out[0]);
    d.is_data = data && result_is_data(l, kind, nargs, args,
                                       attr ? attr : none);
    d.use = lower_use(l, op, args);
    return d;
}

Datum lower_scalar(Lower *l, Loc loc, Datum x)
{
    if (!datum_is_number(x))
        return x;
    Attr attr[MAX_ATTRS] = {{.f = datum_number(x)}, {.i = DT_F32}};
    return lower_op(l, loc, "make", OP_full, 0, &x, attr);
}

DType lower_common(Lower *l, Loc loc, int n, Datum *args)
{
    DType common = DT_F32;
    for (int i = 0; i < n; i++) {
        args[i] = lower_narrow(l, args[i]);
        DType own = args[i].tensor->type.dtype;
        common = i == 0 || own == common ? own : DT_F32;
    }
    Attr to[MAX_ATTRS] = {{.i = common}};
    for (int i = 0; i < n; i++)
        if (args[i].tensor->type.dtype != common)
            args[i] = lower_op(l, loc, "cast", OP_cast, 1, &args[i], to);
    return common;
}
