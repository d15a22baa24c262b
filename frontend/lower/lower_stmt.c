/* lower_stmt.c: lowers statements, frames and loops.
 *
 * The body of `for layer in layers` is lowered once, since all elements of the
 * array have the same members; it becomes the body of one `loop` op:
 *
 * before   h = x
 *          for layer in layers { h = layer(h) }
 * after    %h.4 = loop{n=4, reverse=false} : f32[8, 8] {
 *              carry %h = %x.2 : f32[8, 8]
 *              stack %wq.weight.2 = %wq.weight : f32[8, 8]
 *              …
 *              yield %h.2
 *          }
 *
 * Names that the body assigns and that exist before the loop are carried.
 * Parameters of the array's elements enter as stacked operands, other outside
 * values as free operands, on their first use (lower_import). If the elements
 * differ (lower_runs.c), the body holds one copy for each alternating kind, and
 * each run has a loop of its own.
 */
#include "base/bug.h"
#include "frontend/lower/lower.h"

/* Calls within calls can grow without bound; these limits exceed those of real
 * models. */
enum { MAX_FRAMES = 64, MAX_CALLS = 1000000 };

/* ---- frames -------------------------------------------------------------- */

bool push_frame(Lower *l, Frame *f, const char *callee, Loc call,
                Instance *instance)
{
    *f = (Frame){.outer = l->frame, .call = call, .callee = callee,
                 .instance = instance};
    if (l->depth == MAX_FRAMES)
        return lower_error(l, call, NULL, "calls are nested more than %d deep",
                           MAX_FRAMES);
    if (l->frame && l->calls++ >= MAX_CALLS) {
        if (l->calls == MAX_CALLS + 1)
            lower_error(l, call, NULL, "the model makes more than %d calls",
                        MAX_CALLS);
        l->calls = MAX_CALLS + 1;
        return false;
    }
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

static bool is_below(const Instance *m, const Instance *array)
{
    while (m && m != array)
        m = m->parent;
    return m != NULL;
}

static Value *param_at(Lower *l, Level *at, const Candidate *s)
{
    if (!at->outer)
        return l->p->param.at[s->index].value;
    return lower_bring_in(l, at, param_at(l, at->outer, s),
                    is_below(s->owner, at->array));
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
    Value *v = narrow_copy(l, param_at(l, at, s), s);
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

/* ---- loops --------------------------------------------------------------- */

typedef VEC(const Binding *) Carried;

static void find_carried(Lower *l, Stmt *const *stmt, int n, Carried *c)
{
    for (int i = 0; i < n; i++) {
        const Stmt *s = stmt[i];
        for (int j = 0; s->kind == ST_ASSIGN && j < s->ntargets; j++) {
            const Binding *b = find_name(l->frame->locals, s->target[j].name);
            if (b && !vec_has(c, b))
                vec_push(l->arena, c, b);
        }
        find_carried(l, s->body, s->nbody, c);
        find_carried(l, s->other, s->nother, c);
    }
}

/* Only tensors are carried. */
static bool check_carried(Lower *l, const Stmt *s, const Carried *c)
{
    bool fine = true;
    for (int i = 0; i < c->n; i++) {
        const Binding *b = c->at[i];
        if (b->datum.kind == DATUM_TENSOR)
            continue;
        fine = false;
        if (b->datum.kind != DATUM_POISON)
            lower_error(l, s->loc, NULL,
                        "the loop changes '%s', which is %s; a loop carries "
                        "only tensors", b->name,
                        datum_text(l->arena, b->datum));
    }
    if (c->n == 0) {
        lower_error(l, s->loc, "such as h = layer(h)",
                    "the loop assigns no name that exists before it");
        fine = false;
    }
    return fine;
}

static bool check_array(Lower *l, const Stmt *s, Datum d)
{
    if (d.kind == DATUM_POISON)
        return false;
    if (d.kind != DATUM_ARRAY)
        return lower_error(l, s->value->range, NULL,
                           "a loop runs over an array of modules, not %s",
                           datum_text(l->arena, d));
    for (const Level *at = l->level; at; at = at->outer)
        if (at->array && at->array->array == d.module)
            return lower_error(l, s->value->range, NULL,
                               "an outer loop already runs over this array");
    return true;
}

/* The body's last value of a carried name; NULL after an error. */
static Value *carried_result(Lower *l, const Binding *before, Value *start)
{
    const Binding *b = find_name(l->frame->locals, before->name);
    if (b->datum.kind == DATUM_POISON)
        return NULL;
    if (b->datum.kind != DATUM_TENSOR ||
        !type_equal(&b->datum.tensor->type, &start->type)) {
        lower_error(l, b->loc, "a tensor that a loop changes keeps its shape "
                    "and type; use another name for the result",
                    "the loop changes '%s' from %s to %s",
                    before->name,
                    type_text(l->arena, &start->type, &(Mesh){0}),
                    datum_text(l->arena, b->datum));
        return NULL;
    }
    return lower_import(l, l->level, b->datum.tensor);
}

/* Lowers one iteration for an element into the open body of a loop. `carry` has
 * the values of the carried names before it, and receives those after it. */
static bool element_body(Lower *l, const Stmt *s, Instance *element,
                         const Carried *c, Value **carry)
{
    Frame *f = l->frame;
    Binding *before = f->locals;
    l->level->array = element;
    l->level->key = NULL;
    for (int i = 0; i < c->n; i++) {
        const Binding *b = c->at[i];
        f->locals =
            bind_name(l, f->locals, b->name, b->loc, datum_tensor(carry[i]));
    }
    Datum d = {.kind = DATUM_MODULE, .module = element};
    f->locals = bind_name(l, f->locals, s->target[0].name, s->target[0].loc,
                          d);
    lower_stmts(l, s->body, s->nbody);
    bool fine = true;
    if (f->returned) {
        fine = false;
        if (f->result.kind != DATUM_POISON)
            lower_error(l, s->loc, NULL, "a loop cannot return: "
                        "return after it");
        f->result = datum_poison();
    }
    for (int i = 0; i < c->n; i++) {
        carry[i] = carried_result(l, c->at[i], carry[i]);
        fine &= carry[i] != NULL;
    }
    f->locals = before;
    return fine;
}

/* Lowers the body once for each element of the loop's period, and closes the
 * loop; false after an error. */
static bool loop_body(Lower *l, const Stmt *s, Instance *first, Op *loop,
                      const Carried *c)
{
    Level *level = NEW(l->arena, Level);
    *level = (Level){.outer = l->level, .region = loop->body, .loop = loop};
    Build saved = l->b;
    int sites = l->sites;
    bool fine = true;
    l->b.region = loop->body;
    l->b.before = NULL;
    l->level = level;
    Value **carry = NEW_ARRAY(l->arena, Value *, c->n);
    for (int i = 0; i < c->n; i++) {
        loop->body->arg[i]->name = ir_unique_name(l->p, c->at[i]->name);
        carry[i] = loop->body->arg[i];
    }
    Instance *element = first;
    for (int k = 0; k < first->period && fine; k++) {
        l->sites = sites; /* all elements have the same sites */
        fine = element_body(l, s, element, c, carry);
        element = element->next_run;
    }
    l->level = level->outer;
    l->b = saved;
    if (fine) {
        ir_yield(l->p, loop->body, c->n, carry);
        ir_close(l->p, loop);
    }
    return fine;
}

/* Lowers one loop over the run `first` and the runs that share its loop.
 * `value` has the initial values of the carried names, and receives the
 * results. */
static bool lower_loop(Lower *l, const Stmt *s, Instance *first,
                       const Carried *c, Value **value)
{
    Attr attr[MAX_ATTRS] = {{.i = first->count}, {.i = false}};
    l->b.loc = lower_user_loc(l, s->loc);
    Op *loop = ir_open(&l->b, OP_loop, c->n, value, c->n, 0, attr);
    if (!loop_body(l, s, first, loop, c))
        return false;
    for (int i = 0; i < c->n; i++) {
        value[i] = loop->out[i];
        value[i]->name = ir_unique_name(l->p, c->at[i]->name);
    }
    return true;
}

static void lower_for(Lower *l, const Stmt *s)
{
    Frame *f = l->frame;
    Carried c = {0};
    Datum array = lower_expr(l, s->value);
    find_carried(l, s->body, s->nbody, &c);
    bool fine = check_array(l, s, array);
    fine = check_carried(l, s, &c) && fine;
    Value **value = NEW_ARRAY(l->arena, Value *, c.n + 1);
    for (int i = 0; i < c.n && fine; i++)
        value[i] = lower_import(
            l, l->level, lower_narrow(l, c.at[i]->datum).tensor);
    int sites = l->sites;
    for (Instance *run = fine ? array.module : NULL; run && fine;
         run = run->next_run) {
        if (run->period == 0)
            continue;
        l->sites = sites;
        fine = lower_loop(l, s, run, &c, value);
    }
    for (int i = 0; i < c.n; i++) {
        Datum d = fine ? datum_tensor(value[i]) : datum_poison();
        f->locals = bind_name(l, f->locals, c.at[i]->name, c.at[i]->loc, d);
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
    case ST_RETURN:
        l->frame->result = lower_expr(l, s->value);
        l->returned = s->value;
        l->frame->returned = true;
        break;
    case ST_FOR:
        lower_for(l, s);
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
