/* lower_argument.c: reads the arguments of builtins. */
#include "frontend/lower/lower.h"

Loc builtin_loc(const BuiltinCall *c, int i)
{
    return c->bound.value[i] ? c->bound.value[i]->range : c->call->loc;
}

const char *builtin_shape(const BuiltinCall *c, const Value *v)
{
    return type_text(c->l->arena, &v->type, &(Mesh){0});
}

bool builtin_wrong(const BuiltinCall *c, int i, const char *wanted)
{
    if (c->arg[i].kind != DATUM_POISON)
        lower_error(c->l, builtin_loc(c, i), NULL,
                    "'%s' takes %s here, not %s", c->call->name, wanted,
                    datum_text(c->l->arena, c->arg[i]));
    return false;
}

bool builtin_tensor(const BuiltinCall *c, int i, Value **v)
{
    *v = c->arg[i].tensor;
    return c->arg[i].kind == DATUM_TENSOR || builtin_wrong(c, i, "a tensor");
}

bool builtin_number(const BuiltinCall *c, int i, double none, double *x)
{
    *x = none;
    if (c->arg[i].kind == DATUM_NONE)
        return true;
    *x = datum_number(c->arg[i]);
    return datum_is_number(c->arg[i]) || builtin_wrong(c, i, "a number");
}

bool builtin_flag(const BuiltinCall *c, int i, bool none, bool *x)
{
    *x = none;
    if (c->arg[i].kind == DATUM_NONE)
        return true;
    *x = c->arg[i].integer != 0;
    return c->arg[i].kind == DATUM_BOOL || builtin_wrong(c, i, "true or false");
}

static bool resolve_dim(const BuiltinCall *c, Loc loc, Datum x, int ndim,
                        int *dim)
{
    int64_t d = x.integer;
    if (x.kind == DATUM_POISON)
        return false;
    if (x.kind == DATUM_INT && d >= -ndim && d < ndim) {
        *dim = (int)(d < 0 ? d + ndim : d);
        return true;
    }
    lower_error(c->l, loc, NULL,
                "dim %s is out of range: the tensor has %d dim%s",
                datum_text(c->l->arena, x), ndim, ndim == 1 ? "" : "s");
    return false;
}

bool builtin_dim(const BuiltinCall *c, int i, int ndim, int64_t none,
                 int *dim)
{
    Datum x = c->arg[i].kind == DATUM_NONE ? datum_int(none) : c->arg[i];
    return resolve_dim(c, builtin_loc(c, i), x, ndim, dim);
}

bool builtin_dims(const BuiltinCall *c, int i, int ndim, AttrList *list)
{
    Datum d = c->arg[i];
    *list = (AttrList){0};
    if (d.kind == DATUM_NONE) {
        for (; list->n < ndim; list->n++)
            list->v[list->n] = list->n;
        return true;
    }
    const Datum *item = d.kind == DATUM_TUPLE ? d.item : &d;
    int n = d.kind == DATUM_TUPLE ? d.nitems : 1;
    for (int k = 0; k < n && list->n < MAX_DIMS; k++) {
        int dim;
        if (!resolve_dim(c, builtin_loc(c, i), item[k], ndim, &dim))
            return false;
        list->v[list->n++] = dim;
    }
    return true;
}

static bool one_size(const BuiltinCall *c, Loc loc, Datum d, AttrList *dims,
                     bool rest)
{
    bool fine = d.kind == DATUM_INT && (d.integer >= 1 ||
                                        (rest && d.integer == -1));
    if (!fine) {
        if (d.kind != DATUM_POISON)
            lower_error(c->l, loc, NULL, "the size of a dim cannot be %s",
                        datum_text(c->l->arena, d));
        return false;
    }
    if (dims->n == MAX_DIMS)
        return lower_error(c->l, loc, NULL, "a tensor has at most %d dims",
                           MAX_DIMS);
    dims->v[dims->n++] = d.integer;
    return true;
}

bool builtin_sizes(const BuiltinCall *c, int i, bool rest, AttrList *dims)
{
    *dims = (AttrList){0};
    if (!one_size(c, builtin_loc(c, i), c->arg[i], dims, rest))
        return false;
    for (int k = 0; k < c->bound.nextra; k++)
        if (!one_size(c, c->bound.extra[k]->range, c->extra[k], dims, rest))
            return false;
    return true;
}
