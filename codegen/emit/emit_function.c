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
#include "ir/plan/pipeline.h"

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
    s->names = text_map_copy(e->loop_names);
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

void use_variable(Emitter *e, Value *v, const char *variable)
{
    v = value_root(v);
    Shadowed old = {v->id, e->variable[v->id], e->scope_of[v->id]};
    vec_push(e->p->arena, &e->scope->shadowed, old);
    e->scope_of[v->id] = e->scope->number;
    e->variable[v->id] = variable;
}

void emit_declaration(Emitter *e, Value *v)
{
    v = value_root(v);
    Scope *s = e->scope;
    if (e->scope_of[v->id] == s->number)
        return;
    Arena *a = e->p->arena;
    use_variable(e, v, c_name(&s->names, c_model_name(a, v->name)));
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

const char *workspace_variable(Emitter *e, const Op *op)
{
    int block = op->workspace;
    if (block < 0)
        return "NULL";
    e->uses_arena = true;
    return arena_printf(e->p->arena, "(float *)(A + AT_%s)",
                        e->block_name[block]);
}

/* ---- functions ----------------------------------------------------------- */

void function_begin(Emitter *e, Function *f)
{
    f->enclosing = e->o;
    f->uses_arena = e->uses_arena;
    f->uses_stage = e->uses_stage;
    f->uses_coordinate = e->uses_coordinate;
    out_init(&f->body, e->p->arena);
    f->body.indent = OUT_INDENT;
    e->o = &f->body;
    e->uses_arena = e->uses_stage = e->uses_coordinate = false;
    scope_begin(e);
}

/* The declaration of the rank's stage, or of its coordinate, if the function uses it.
 */
static const char *stage_text(const Emitter *e)
{
    bool declares = e->uses_stage && rank_stages(e->p) == 1;
    if (!declares && !e->uses_coordinate)
        return "";
    uint32_t axis = 1u << pipeline_axis(e->p);
    return arena_printf(e->p->arena, "    const int64_t %s = parc_index(rt, %s);\n",
                        declares ? "stage" : "coordinate", axes_expression(e, axis));
}

/* The body of the function. It declares the arena pointer A and the stage only if
 * they are used, and uses `rt` in an empty function: emitted code compiles without
 * warnings. */
static const char *body_text(const Emitter *e, const Function *f)
{
    size_t size = f->body.size;
    if (size > 1 && !strncmp(f->body.text + size - 2, "\n\n", 2))
        size--; /* the blank line after a loop */
    return arena_printf(e->p->arena, "%s%s%s",
                        e->uses_arena ? "    char *A = parc_arena(rt);\n"
                        : !size       ? "    (void)rt;\n"
                                      : "",
                        stage_text(e),
                        arena_strndup(e->p->arena, f->body.text, size));
}

/* Ends the function; returns its parameters and body. */
static const char *end_text(Emitter *e, Function *f, const char *parameters)
{
    scope_end(e);
    const char *body = body_text(e, f);
    e->o = f->enclosing;
    e->uses_arena = f->uses_arena;
    e->uses_stage = f->uses_stage;
    e->uses_coordinate = f->uses_coordinate;
    return arena_printf(e->p->arena, "(%s)\n{\n%s}\n", parameters, body);
}

static void write_function(Emitter *e, const char *name, const char *parameters,
                           const char *text, Out *to)
{
    TextEntry *new = text_map_add(e->functions, text);
    if (new)
        new->value = (void *)name;
    out(to, "void %s%s", name, text);
    out_line(&e->files->model_h, "void %s(%s);", name, parameters);
}

void function_end(Emitter *e, Function *f, const char *name, Out *to)
{
    static const char parameters[] = "ParcRt *rt";
    out_line(to, "");
    write_function(e, name, parameters, end_text(e, f, parameters), to);
}

const char *function_share(Emitter *e, Function *f, const char *name,
                           const char *parameters, const char *what, Out *to)
{
    bool empty = f->body.size == 0;
    f->takes_stage = e->in_stage && e->uses_stage;
    if (f->takes_stage)
        parameters = arena_printf(e->p->arena, "%s, int64_t stage", parameters);
    const char *text = end_text(e, f, parameters);
    if (empty)
        return "NULL";
    e->uses_stage |= f->takes_stage; /* the call passes it on */
    const TextEntry *known = text_map_find(e->functions, text);
    if (known)
        return known->value;
    name = text_map_unique(e->function_names, name, '_');
    out_line(to, "");
    if (*what)
        out_line(to, "/* %s */", what);
    write_function(e, name, parameters, text, to);
    return name;
}
