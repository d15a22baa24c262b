/* lower_call.c: lowers calls of modules: checks the inputs against the declared
 * shapes, and inserts boundaries.
 *
 * A boundary op marks every tensor that enters or leaves a module, including
 * the model; a plan may set its placement there.
 *
 * before   wq(x)
 * after    %x.5 = boundary{path="layers.*.wq", port=in0, …} %x.4
 *          %wq = einsum{spec="ak,fk->af", …} %x.5, %wq.weight.2
 *          %wq.2 = boundary{path="layers.*.wq", port=out0, …} %wq
 */
#include "frontend/lower/lower.h"

#include <string.h>

/* ---- shapes of a forward's inputs ---------------------------------------- */

/* The declared shape of an input: "[..., 64]". */
static const char *wanted_text(Lower *l, const InputDecl *in,
                               const int64_t *want)
{
    Out o;
    out_init(&o, l->arena);
    out(&o, "[%s", in->open ? "..." : "");
    for (int i = 0; i < in->ndims; i++) {
        out(&o, "%s", i || in->open ? ", " : "");
        if (want[i] > 0)
            out(&o, "%lld", (long long)want[i]);
        else
            out(&o, "%s", in->dim[i]->name);
    }
    out(&o, "]");
    return o.text;
}

/* Whether the name is unbound: a shape that uses it binds it. */
static bool is_unbound(const Lower *l, const Expr *e)
{
    const Instance *m = l->frame->instance;
    if (e->kind != EX_NAME || option_is_readable(e->name))
        return false;
    return !find_name(l->frame->locals, e->name) &&
           !(m && (find_name(m->formals, e->name) ||
                   find_name(m->members, e->name)));
}

/* After an error in a shape: binds the names that it would bind to poison. */
static void bind_poison(Lower *l, const InputDecl *in)
{
    for (int i = 0; i < in->ndims; i++)
        if (is_unbound(l, in->dim[i]))
            l->frame->locals =
                bind_name(l, l->frame->locals, in->dim[i]->name,
                          in->dim[i]->loc, datum_poison());
}

static bool check_shape(Lower *l, const Instance *m, const InputDecl *in,
                        const Type *t, Loc loc)
{
    int64_t want[MAX_DIMS] = {0};
    if (in->ndims > MAX_DIMS)
        return false;
    int leading = t->ndim - in->ndims;
    bool fits = in->open ? leading >= 0 : leading == 0;
    int fault = 0;
    for (int i = 0; i < in->ndims; i++) {
        bool binds = is_unbound(l, in->dim[i]);
        if (!binds && !lower_size(l, in->dim[i], "a dimension", &want[i]))
            return false;
        if (binds && fits) {
            want[i] = t->dim[leading + i];
            l->frame->locals =
                bind_name(l, l->frame->locals, in->dim[i]->name,
                          in->dim[i]->loc, datum_int(want[i]));
        }
        if (fits && want[i] != t->dim[leading + i]) {
            fits = false;
            fault = i;
        }
    }
    if (fits)
        return true;
    lower_error(l, loc, NULL, "input '%s' of '%s' is %s, but must be %s",
                in->name.name, m->name, type_text(l->arena, t, &(Mesh){0}),
                wanted_text(l, in, want));
    lower_note(l, in->ndims ? in->dim[fault]->loc : in->name.loc,
               "the shape is declared here");
    if (m->loc.line)
        lower_note(l, m->loc, "'%s' is declared here", m->name);
    return false;
}

static bool check_input(Lower *l, const Instance *m, const InputDecl *in,
                        Datum d, Loc loc)
{
    if (d.kind == DATUM_POISON)
        return false;
    bool tensor = d.kind == DATUM_TENSOR;
    if ((in->has_shape || in->is_int) && !tensor)
        return lower_error(l, loc, NULL,
                           "input '%s' of '%s' is %s, not a tensor",
                           in->name.name, m->name, datum_text(l->arena, d));
    if (in->is_int && dtype_is_float(d.tensor->type.dtype))
        return lower_error(l, loc, NULL,
                           "input '%s' of '%s' is %s, not integers",
                           in->name.name, m->name, datum_text(l->arena, d));
    int64_t below;
    if (in->below && lower_size(l, in->below, "the bound of int()", &below) &&
        d.below > below)
        return lower_error(l, loc, NULL, "input '%s' of '%s' takes integers "
                           "below %lld, these are below %lld", in->name.name,
                           m->name, (long long)below, (long long)d.below);
    int64_t ignored = 0;
    bool same = !in->ignored ||
                lower_int(l, in->ignored, "the value of ignore", &ignored);
    if (same && in->below && d.has_ignored &&
        (!in->ignored || ignored != d.ignored))
        return lower_error(l, loc, NULL, "input '%s' of '%s' takes integers "
                           "below %lld, these may also be %lld, the value that "
                           "they ignore", in->name.name, m->name,
                           (long long)below, (long long)d.ignored);
    return !in->has_shape || check_shape(l, m, in, &d.tensor->type, loc);
}

/* ---- calling a module ---------------------------------------------------- */

/* "wq_out"; of the model itself: "out" */
static const char *module_value(const Lower *l, const Instance *m,
                                const char *what)
{
    return *m->name ? arena_printf(l->arena, "%s_%s", m->name, what) : what;
}

static Datum add_boundary(Lower *l, const Instance *m, Datum d,
                          Port port, const char *what)
{
    if (d.kind != DATUM_TENSOR)
        return d;
    const char *hint = module_value(l, m, what);
    Value *v = lower_import(l, l->level, d.tensor);
    Attr attr[MAX_ATTRS] = {{.s = m->path}, {.port = port}, {.i = false}};
    bool first = port_equal(port, (Port){.input = true});
    d.tensor = ir_value(&l->b, OP_boundary, 1, &v, attr, hint);
    d.use = (Use){.input_of = first ? m : NULL};
    return d;
}

/* The result of a prelude module takes the user's name for the module (wq_out),
 * not the prelude's name (y). */
static void name_result(Lower *l, const Instance *m, Datum d)
{
    if (m->decl->name.loc.file == l->prelude->source &&
        d.kind == DATUM_TENSOR && d.tensor->def &&
        d.tensor->def->kind != OP_boundary)
        d.tensor->name = ir_unique_name(l->p, module_value(l, m, "out"));
}

static Datum module_result(Lower *l, Instance *m, Datum d)
{
    Port port = {.input = false};
    name_result(l, m, d);
    if (d.kind == DATUM_TUPLE) {
        Datum *item = NEW_ARRAY(l->arena, Datum, d.nitems);
        for (int i = 0; i < d.nitems; i++) {
            item[i] = add_boundary(l, m, d.item[i], port, "out");
            port.index += d.item[i].kind == DATUM_TENSOR;
        }
        d.item = item;
    } else {
        d = add_boundary(l, m, d, port, "out");
        port.index += d.kind == DATUM_TENSOR;
    }
    l->p->module.at[m->module].nout = port.index;
    m->called = true;
    return d;
}

/* A plan gives a layout to each port; a style holds at most MAX_PORTS. */
static bool count_ports(Lower *l, const Instance *m, Datum d, Loc call)
{
    int n = d.kind == DATUM_TUPLE ? d.nitems : 1;
    if (n <= MAX_PORTS && m->forward->ninputs <= MAX_PORTS)
        return true;
    return lower_error(l, call, NULL,
                       "a module takes and returns at most %d values",
                       MAX_PORTS);
}

Datum lower_call_module(Lower *l, Instance *m, const Datum *args,
                        const Loc *locs, Loc call)
{
    Frame f;
    if (!m->forward || !push_frame(l, &f, m->decl->name.name, call, m))
        return datum_poison();
    const char *path = l->b.path;
    l->b.path = m->path;
    l->b.loc = lower_user_loc(l, call);
    Port port = {.input = true};
    for (int i = 0; i < m->forward->ninputs; i++) {
        const InputDecl *in = &m->forward->input[i];
        Datum d = datum_poison();
        if (check_input(l, m, in, args[i], locs[i]))
            d = add_boundary(l, m, args[i], port, in->name.name);
        else
            bind_poison(l, in);
        port.index += d.kind == DATUM_TENSOR;
        if (!l->init_end && d.kind == DATUM_TENSOR)
            l->init_end = d.tensor->def;
        f.locals = bind_name(l, f.locals, in->name.name, in->name.loc, d);
    }
    /* Without valid inputs of the model no op can be inserted. */
    Datum result = datum_poison();
    if (l->init_end) {
        l->p->module.at[m->module].nin = port.index;
        lower_stmts(l, m->forward->stmt, m->forward->nstmts);
        lower_ended(l, m->forward->loc, "forward");
        result = f.result;
    }
    l->b.loc = lower_user_loc(l, call);
    if (result.kind != DATUM_POISON && count_ports(l, m, result, call))
        result = module_result(l, m, result);
    l->b.path = path;
    pop_frame(l);
    return result;
}
