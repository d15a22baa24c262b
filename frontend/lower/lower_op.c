/* lower_op.c: adds an op to the program, or reports why its operands do not
 * fit. */
#include "base/text.h"
#include "frontend/lower/lower.h"

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
    bool found = op_is_einsum(kind) || kind == OP_attention ||
                 kind == OP_attention_dropout;
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
