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

Datum lower_op(Lower *l, Loc loc, const char *doing, OpKind kind, int nargs,
               const Datum *args, const Attr *attr)
{
    static const Attr none[MAX_ATTRS];
    Value **value = NEW_ARRAY(l->arena, Value *, nargs + 1);
    for (int i = 0; i < nargs; i++) {
        if (args[i].kind == DATUM_POISON)
            return datum_poison();
        value[i] = lower_import(l, l->level, args[i].tensor);
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
    return datum_tensor(op->out[0]);
}

Datum lower_scalar(Lower *l, Loc loc, Datum x)
{
    if (!datum_is_number(x))
        return x;
    Attr attr[MAX_ATTRS] = {{.f = datum_number(x)}, {.i = DT_F32}};
    return lower_op(l, loc, "make", OP_full, 0, &x, attr);
}
