/* emit_function.c: writes the head and the end of a function of train.c, and
 * declares the variables of values. A function declares a variable at the first
 * use of the value. A block that issues a statement for a later iteration
 * declares its own, because the address depends on the iteration. The variable
 * has the value's name without the number that makes it unique in the IR:
 *
 *   %wq.weight.4   ->   float *wq_weight = (float *)(A + AT_wq_weight);
 */
#include "codegen/emit/emitter.h"

#include "base/bug.h"

#include <string.h>

/* What emit_declaration overwrites, for scope_end to restore: the value's
 * variable in an outer scope; NULL and 0 if there is none. */
typedef struct Shadowed {
    int value;
    const char *variable;
    int scope;
} Shadowed;

struct Scope {
    Scope *outer;
    int number; /* 1: the first, outermost */
    TextMap names;
    VEC(Shadowed) shadowed;
};

/* ---- scopes -------------------------------------------------------------- */

void scope_begin(Emitter *e)
{
    Scope *s = NEW(e->p->arena, Scope);
    s->outer = e->scope;
    s->number = ++e->nscopes;
    s->names = (TextMap){.arena = e->p->arena};
    e->scope = s;
}

void scope_end(Emitter *e)
{
    Scope *s = e->scope;
    for (int i = s->shadowed.n; i-- > 0;) {
        const Shadowed *h = &s->shadowed.at[i];
        e->variable[h->value] = h->variable;
        e->scope_of[h->value] = h->scope;
    }
    e->scope = s->outer;
}

void emit_declaration(Emitter *e, Value *v)
{
    v = value_root(v);
    Scope *s = e->scope;
    if (e->scope_of[v->id] == s->number)
        return;
    Arena *a = e->p->arena;
    Shadowed old = {v->id, e->variable[v->id], e->scope_of[v->id]};
    vec_push(a, &s->shadowed, old);
    e->scope_of[v->id] = s->number;
    e->variable[v->id] = c_name(&s->names, c_model_name(a, v->name));
    e->uses_arena = true;
    const char *type = c_type(v->type.dtype);
    out_code(e->o, "%s *%s = (%s *)(A + %s);", type, e->variable[v->id], type,
             value_offset(e, v));
}

const char *value_variable(const Emitter *e, Value *v)
{
    v = value_root(v);
    if (e->scope_of[v->id] != e->scope->number)
        bug("emit: %%%s has no variable here", v->name);
    return e->variable[v->id];
}

/* ---- functions ----------------------------------------------------------- */

void function_begin(Emitter *e, Function *f)
{
    f->enclosing = e->o;
    f->uses_arena = e->uses_arena;
    out_init(&f->body, e->p->arena);
    f->body.indent = OUT_INDENT;
    e->o = &f->body;
    e->uses_arena = false;
    scope_begin(e);
}

/* Declares the arena pointer A only if it is used, and uses `rt` in an empty
 * function: emitted code compiles without warnings. */
void function_end(Emitter *e, Function *f, const char *head, Out *to)
{
    scope_end(e);
    out_line(to, "%s", head);
    out_line(to, "{");
    if (e->uses_arena)
        out_line(to, "    char *A = parc_arena(rt);");
    else if (!f->body.size)
        out_line(to, "    (void)rt;");
    size_t size = f->body.size;
    if (size > 1 && !strncmp(f->body.text + size - 2, "\n\n", 2))
        size--; /* the blank line after a loop */
    out_bytes(to, f->body.text, size);
    out_line(to, "}");
    e->o = f->enclosing;
    e->uses_arena = f->uses_arena;
}
