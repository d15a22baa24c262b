/* names.c: gives values unique names, and renumbers the values and ops of a
 * program in the order of the text.
 */
#include <string.h>

#include "ir/ir.h"

bool ir_claim_name(Program *p, const char *name)
{
    return text_map_add(&p->names, name) != NULL;
}

/* The hint with invalid characters replaced, without a number that an earlier
 * call appended: "h.2" gives "h". */
static char *base_name(Arena *a, const char *hint)
{
    char *s = arena_strdup(a, *hint ? hint : "v");
    for (char *c = s; *c; c++) {
        bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');
        bool digit = *c >= '0' && *c <= '9';
        if (!letter && !digit && *c != '_' && *c != '.')
            *c = '_';
    }
    char *end = s + strlen(s), *dot = end;
    while (dot > s && dot[-1] >= '0' && dot[-1] <= '9')
        dot--;
    if (dot < end && dot - 1 > s && dot[-1] == '.')
        dot[-1] = 0;
    return s;
}

const char *ir_unique_name(Program *p, const char *hint)
{
    return text_map_unique(&p->names, base_name(p->arena, hint), '.');
}

void ir_swap_names(Value *a, Value *b)
{
    const char *name = a->name;
    a->name = b->name;
    b->name = name;
}

/* ---- renumbering --------------------------------------------------------- */

static void renumber_value(Program *p, Value *v)
{
    v->id = p->nvalues++;
    ir_claim_name(p, v->name);
}

static void renumber_region(Program *p, Region *r)
{
    for (int i = 0; i < r->nargs; i++)
        renumber_value(p, r->arg[i]);
    for (Op *op = r->first; op; op = op->next) {
        op->id = p->nops++;
        for (int i = 0; i < op->nouts; i++)
            renumber_value(p, op->out[i]);
        if (op->body)
            renumber_region(p, op->body);
    }
}

void ir_renumber(Program *p)
{
    p->nvalues = p->nops = 0;
    p->names = (TextMap){.arena = p->arena};
    renumber_region(p, p->step);
}
