/* emit_function.c: writes a function of train.c around its statements, and the
 * declarations of variables: a value's variable is declared at its first use in
 * a function, or in a block for another iteration of a loop, where its address
 * differs. Its name is the value's without the number that makes it unique in
 * the IR:
 *
 *   %wq.weight.4   ->   float *wq_weight = (float *)(A + AT_wq_weight);
 */
#include "codegen/emit/emitter.h"

#include "base/bug.h"

#include <string.h>

/* A variable of an outer scope that a scope redeclares. */
typedef struct Hidden {
    int value;
    const char *variable;
    int scope;
} Hidden;

struct Scope {
    Scope *outer;
    int number; /* 1: the first, outermost */
    TextMap names;
    VEC(Hidden) hidden;
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
    for (int i = s->hidden.n; i-- > 0;) {
        const Hidden *h = &s->hidden.at[i];
        e->variable[h->value] = h->variable;
        e->scope_of[h->value] = h->scope;
    }
    e->scope = s->outer;
}

/* "wq.weight.4" -> "wq.weight" */
static const char *model_name(Arena *a, const char *name)
{
    const char *dot = strrchr(name, '.');
    if (!dot || dot == name || !dot[1] || dot[1 + strspn(dot + 1, "0123456789")])
        return name;
    return arena_strndup(a, name, (size_t)(dot - name));
}

void emit_declaration(Emitter *e, Value *v)
{
    v = value_root(v);
    Scope *s = e->scope;
    if (e->scope_of[v->id] == s->number)
        return;
    Arena *a = e->p->arena;
    Hidden old = {v->id, e->variable[v->id], e->scope_of[v->id]};
    vec_push(a, &s->hidden, old);
    e->scope_of[v->id] = s->number;
    e->variable[v->id] = c_name(&s->names, model_name(a, v->name));
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
    f->caller = e->o;
    f->uses_arena = e->uses_arena;
    out_init(&f->body, e->p->arena);
    f->body.indent = OUT_INDENT;
    e->o = &f->body;
    e->uses_arena = false;
    scope_begin(e);
}

/* The arena pointer A is declared only if a statement uses it. */
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
    e->o = f->caller;
    e->uses_arena = f->uses_arena;
}
