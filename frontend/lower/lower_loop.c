/* lower_loop.c: lowers loops.
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
 *
 * The body of `for i in range(n)` is lowered n times, once for each number i from 0 to
 * n - 1:
 *
 * before   for i in range(2) { y = y + slice(x, i, 4) }
 * after    %slice = slice{start=0, size=4} %x     %y = add %y0, %slice
 *          %slice.2 = slice{start=1, size=4} %x   %y.2 = add %y, %slice.2
 */
#include "frontend/lower/lower.h"

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

static bool no_carried(Lower *l, const Stmt *s)
{
    return lower_error(l, s->loc, "such as h = layer(h)",
                       "the loop assigns no name that exists before it");
}

/* A number that the loop carries, as the 0.0 of a sum, becomes a scalar tensor. */
static void carry_numbers(Lower *l, const Carried *c)
{
    for (int i = 0; i < c->n; i++) {
        const Binding *b = c->at[i];
        if (b->datum.kind != DATUM_FLOAT)
            continue;
        Datum d = datum_tensor(ir_full(&l->b, b->datum.number, DT_F32, 0, NULL));
        l->frame->locals = bind_name(l, l->frame->locals, b->name, b->loc, d);
        c->at[i] = find_name(l->frame->locals, b->name);
    }
}

/* A loop over an array carries only tensors. */
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
                        "the loop changes '%s', which is %s; a loop over an "
                        "array carries only tensors", b->name,
                        datum_text(l->arena, b->datum));
    }
    return fine && (c->n > 0 || no_carried(l, s));
}

static bool check_array(Lower *l, const Stmt *s, Datum d)
{
    if (d.kind == DATUM_POISON)
        return false;
    if (d.kind != DATUM_ARRAY)
        return lower_error(l, s->value->range, NULL,
                           "a loop runs over an array of modules or a range, not %s",
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

/* The loop of `for layer in layers`. */
static void lower_array_loop(Lower *l, const Stmt *s, Datum array, const Carried *c)
{
    Frame *f = l->frame;
    carry_numbers(l, c);
    bool fine = check_array(l, s, array) && check_carried(l, s, c);
    Value **value = NEW_ARRAY(l->arena, Value *, c->n + 1);
    for (int i = 0; i < c->n && fine; i++)
        value[i] = lower_import(
            l, l->level, lower_narrow(l, c->at[i]->datum).tensor);
    int sites = l->sites;
    for (Instance *run = fine ? array.module : NULL; run && fine;
         run = run->next_run) {
        if (run->period == 0)
            continue;
        l->sites = sites;
        fine = lower_loop(l, s, run, c, value);
    }
    for (int i = 0; i < c->n; i++) {
        Datum d = fine ? datum_tensor(value[i]) : datum_poison();
        f->locals = bind_name(l, f->locals, c->at[i]->name, c->at[i]->loc, d);
    }
}

/* Lowers one iteration of `for i in range(n)`. Names that existed before the loop keep
 * the values that the iteration assigns. Other names end with the iteration. False after
 * an error. */
static bool range_iteration(Lower *l, const Stmt *s, int64_t i, const Carried *c)
{
    Frame *f = l->frame;
    Binding *before = f->locals;
    int errors = diag_error_count(l->diag);
    f->locals = bind_name(l, before, s->target[0].name, s->target[0].loc, datum_int(i));
    lower_stmts(l, s->body, s->nbody);
    const Binding *after = f->locals;
    f->locals = before;
    for (int k = 0; k < c->n; k++) {
        const Binding *b = find_name(after, c->at[k]->name);
        f->locals = bind_name(l, f->locals, b->name, b->loc, b->datum);
    }
    return diag_error_count(l->diag) == errors && !f->returned;
}

static void lower_range_loop(Lower *l, const Stmt *s, int64_t n, const Carried *c)
{
    bool fine = true;
    if (c->n == 0)
        fine = no_carried(l, s);
    for (int64_t i = 0; i < n && fine; i++)
        fine = lower_count_call(l, s->loc) && range_iteration(l, s, i, c);
    for (int i = 0; i < c->n && !fine; i++)
        l->frame->locals = bind_name(l, l->frame->locals, c->at[i]->name, c->at[i]->loc,
                                     datum_poison());
}

void lower_for_loop(Lower *l, const Stmt *s)
{
    Carried c = {0};
    Datum over = lower_expr(l, s->value);
    find_carried(l, s->body, s->nbody, &c);
    if (over.kind == DATUM_RANGE)
        lower_range_loop(l, s, over.integer, &c);
    else
        lower_array_loop(l, s, over, &c);
}

/* range(n): the numbers from 0 to n - 1, which only a loop can use. */
Datum builtin_range(const BuiltinCall *c)
{
    enum { MAX_ITERATIONS = 1024 };
    Datum n = c->arg[0];
    if (n.kind != DATUM_INT || n.integer < 0 || n.integer > MAX_ITERATIONS)
        return lower_poison(c->l, builtin_loc(c, 0),
                            n.kind == DATUM_INT && n.integer > 0
                                ? "a loop over an array of modules has no such limit" : NULL,
                            "'range' takes an integer from 0 to %d, not %s", MAX_ITERATIONS,
                            datum_text(c->l->arena, n));
    return (Datum){.kind = DATUM_RANGE, .integer = n.integer};
}
