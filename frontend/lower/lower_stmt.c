/* lower_stmt.c: lowers statements, and the frames of forwards and functions.
 *
 *   before   h = x + 1.0
 *            if wide { h = up(h) }
 *   after    %h = offset{by=1} %x     the frame binds h to %h
 *            …                        only the branch that the condition selects
 *
 * lower_loop.c lowers loops.
 */
#include "base/bug.h"
#include "frontend/lower/lower.h"

/* Calls within calls can grow without bound; these limits exceed those of real
 * models. */
enum { MAX_FRAMES = 64, MAX_CALLS = 1000000 };

/* ---- frames -------------------------------------------------------------- */

bool lower_count_call(Lower *l, Loc loc)
{
    if (l->calls++ < MAX_CALLS)
        return true;
    if (l->calls == MAX_CALLS + 1)
        lower_error(l, loc, NULL, "the model makes more than %d calls and iterations of ranges",
                    MAX_CALLS);
    l->calls = MAX_CALLS + 1;
    return false;
}

bool push_frame(Lower *l, Frame *f, const char *callee, Loc call,
                Instance *instance)
{
    *f = (Frame){.outer = l->frame, .call = call, .callee = callee,
                 .instance = instance};
    if (l->depth == MAX_FRAMES)
        return lower_error(l, call, NULL, "calls are nested more than %d deep",
                           MAX_FRAMES);
    if (l->frame && !lower_count_call(l, call))
        return false;
    l->depth++;
    l->frame = f;
    return true;
}

void pop_frame(Lower *l)
{
    l->depth--;
    l->frame = l->frame->outer;
}

Binding *bind_formals(Lower *l, const Decl *decl, const Bound *bound,
                      Binding *next)
{
    for (int i = 0; i < decl->nformals && i < MAX_FORMALS; i++) {
        const Formal *formal = &decl->formal[i];
        Datum d = datum_poison();
        Frame f;
        if (bound->value[i]) {
            d = lower_expr(l, bound->value[i]);
        } else if (formal->value && push_frame(l, &f, decl->name.name,
                                               formal->name.loc, NULL)) {
            /* A default may use the formals before it. */
            f.locals = next;
            f.members = true;
            d = lower_expr(l, formal->value);
            pop_frame(l);
        }
        next = bind_name(l, next, formal->name.name, formal->name.loc, d);
    }
    return next;
}

/* ---- values from outside of a loop --------------------------------------- */

static Value *param_at(Lower *l, Level *at, const Candidate *s)
{
    if (!at->outer)
        return l->p->param.at[s->index].value;
    return lower_bring_in(l, at, param_at(l, at->outer, s),
                    instance_is_below(s->owner, at->array));
}

/* A parameter cast to the compute type: "wq.weight.bf16". */
static Value *narrow_copy(Lower *l, Value *v, const Candidate *s)
{
    DType to = l->p->train.precision;
    Attr attr[MAX_ATTRS] = {{.i = to}};
    if (v->type.dtype == to)
        return v;
    return ir_value(&l->b, OP_cast, 1, &v, attr,
                    arena_printf(l->arena, "%s.%s",
                                 l->p->param.at[s->index].value->name,
                                 dtype_name(to)));
}

static Datum param_datum(Value *v, const Instance *declared_by,
                         const Candidate *s)
{
    Datum d = datum_tensor(v);
    d.use = (Use){.declared_by = declared_by, .param = s->index};
    return d;
}

Datum lower_read_param(Lower *l, int candidate)
{
    const Instance *declared_by = l->candidate.at[candidate].owner;
    while (l->candidate.at[candidate].tied_to >= 0)
        candidate = l->candidate.at[candidate].tied_to;
    Candidate *s = &l->candidate.at[candidate];
    s->used = true;
    Level *at = l->level;
    for (int i = 0; i < at->candidate.n; i++)
        if (at->candidate.at[i] == candidate)
            return param_datum(at->value.at[i], declared_by, s);
    Value *v = param_at(l, at, s);
    if (!s->param.module_state)
        v = narrow_copy(l, v, s);
    vec_push(l->arena, &at->candidate, candidate);
    vec_push(l->arena, &at->value, v);
    return param_datum(v, declared_by, s);
}

/* ---- assignments --------------------------------------------------------- */

/* A value gets the name of the first variable that holds it. */
static void name_value(Lower *l, Datum d, const char *name, uint32_t since)
{
    if (d.kind == DATUM_TENSOR && d.tensor->id >= since && d.tensor->def)
        d.tensor->name = ir_unique_name(l->p, name);
}

static void lower_assign(Lower *l, const Stmt *s)
{
    uint32_t since = l->p->nvalues;
    Datum d = lower_expr(l, s->value);
    bool spread = s->ntargets > 1;
    if (spread && d.kind != DATUM_POISON &&
        (d.kind != DATUM_TUPLE || d.nitems != s->ntargets)) {
        lower_error(l, s->value->range, NULL, "cannot assign %s to %d names",
                    datum_text(l->arena, d), s->ntargets);
        d = datum_poison();
    }
    for (int i = 0; i < s->ntargets; i++) {
        Datum x = spread && d.kind == DATUM_TUPLE ? d.item[i] : d;
        name_value(l, x, s->target[i].name, since);
        l->frame->locals = bind_name(l, l->frame->locals, s->target[i].name,
                                     s->target[i].loc, x);
    }
}

/* ---- statements ---------------------------------------------------------- */

static void lower_stmt(Lower *l, const Stmt *s)
{
    bool yes;
    switch (s->kind) {
    case ST_ASSIGN:
        lower_assign(l, s);
        break;
    case ST_UPDATE:
        if (lower_takes_update(l, s))
            lower_add_update(l, s, lower_expr(l, s->value));
        break;
    case ST_RETURN:
        l->frame->result = lower_expr(l, s->value);
        l->returned = s->value;
        l->frame->returned = true;
        break;
    case ST_FOR:
        lower_for_loop(l, s);
        break;
    case ST_IF:
        if (lower_bool(l, s->value, "an if's condition", &yes)) {
            if (yes)
                lower_stmts(l, s->body, s->nbody);
            else
                lower_stmts(l, s->other, s->nother);
        } else {
            /* The statements that follow depend on it: report no more. */
            l->frame->returned = true;
        }
        break;
    }
}

void lower_stmts(Lower *l, Stmt *const *stmt, int n)
{
    for (int i = 0; i < n && !l->frame->returned; i++)
        lower_stmt(l, stmt[i]);
}

void lower_ended(Lower *l, Loc loc, const char *name)
{
    if (!l->frame->returned)
        lower_error(l, loc, NULL, "'%s' can end without a return", name);
}
