/* readers.c: indexes the readers of values and the order of ops, and updates
 * both when a pass changes the program; see readers.h.
 *
 * Each op has a number that increases along its region, with gaps. An inserted
 * op gets the middle of the gap; without a gap the whole region is renumbered.
 * Lists of readers may contain ops that were removed, or that read another value
 * now: these are dropped when a list is read.
 */
#include "ir/analysis/readers.h"

#include <string.h>

typedef VEC(Op *) OpVec;

struct Readers {
    Program *p;
    uint32_t nvalues, nops; /* length of the tables */
    OpVec *of;              /* by value id */
    int *yields;            /* by value id: yields that read it */
    int64_t *order;         /* by op id */
};

enum { GAP = 1 << 20 };

static void grow(Readers *r)
{
    Arena *a = r->p->arena;
    if (r->p->nvalues > r->nvalues) {
        uint32_t capacity = 2 * r->p->nvalues;
        r->of = arena_grow(a, r->of, r->nvalues, capacity, sizeof *r->of);
        r->yields =
            arena_grow(a, r->yields, r->nvalues, capacity, sizeof *r->yields);
        r->nvalues = capacity;
    }
    if (r->p->nops > r->nops) {
        uint32_t capacity = 2 * r->p->nops;
        r->order = arena_grow(a, r->order, r->nops, capacity, sizeof *r->order);
        r->nops = capacity;
    }
}

static void space_out_ops(Readers *r, const Region *region)
{
    int64_t at = 0;
    for (const Op *op = region->first; op; op = op->next)
        r->order[op->id] = at += GAP;
}

static void see_operands(Readers *r, Op *op)
{
    for (int i = 0; i < op->nargs; i++)
        vec_push(r->p->arena, &r->of[op->arg[i]->id], op);
}

static void see_region(Readers *r, const Region *region)
{
    space_out_ops(r, region);
    for (Op *op = region->first; op; op = op->next) {
        see_operands(r, op);
        if (op->body)
            see_region(r, op->body);
    }
    for (int i = 0; i < region->nyields; i++)
        r->yields[region->yield[i]->id]++;
}

Readers *readers_new(Program *p)
{
    Readers *r = NEW(p->arena, Readers);
    r->p = p;
    grow(r);
    see_region(r, p->step);
    return r;
}

void readers_enter(Readers *r, Op *op)
{
    grow(r);
    see_operands(r, op);
    int64_t low = op->prev ? r->order[op->prev->id] : 0;
    int64_t high = op->next ? r->order[op->next->id] : low + 2 * (int64_t)GAP;
    r->order[op->id] = low + (high - low) / 2;
    if (high - low < 2)
        space_out_ops(r, op->region);
}

static int count_operand(const Op *op, const Value *v)
{
    int n = 0;
    for (int i = 0; i < op->nargs; i++)
        n += op->arg[i] == v;
    return n;
}

Op *const *readers_of(Readers *r, const Value *v, int *n)
{
    *n = 0;
    if (v->id >= r->nvalues)
        return NULL;
    OpVec *list = &r->of[v->id];
    for (int i = 0; i < list->n; i++) {
        Op *op = list->at[i];
        if (op->region != v->region || !count_operand(op, v))
            continue;
        int at = *n;
        while (at > 0 && readers_precedes(r, op, list->at[at - 1]))
            at--;
        if (at > 0 && list->at[at - 1] == op)
            continue;
        memmove(&list->at[at + 1], &list->at[at],
                sizeof *list->at * (size_t)(*n - at));
        list->at[at] = op;
        ++*n;
    }
    list->n = *n;
    return list->at;
}

int readers_count(Readers *r, const Value *v)
{
    int n, count = v->id < r->nvalues ? r->yields[v->id] : 0;
    Op *const *op = readers_of(r, v, &n);
    for (int i = 0; i < n; i++)
        count += count_operand(op[i], v);
    return count;
}

void readers_replace(Readers *r, const Value *old, Value *with)
{
    int n;
    grow(r);
    Op *const *op = readers_of(r, old, &n);
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < op[i]->nargs; k++)
            if (op[i]->arg[k] == old)
                op[i]->arg[k] = with;
        vec_push(r->p->arena, &r->of[with->id], op[i]);
    }
    r->of[old->id].n = 0;
    for (int i = 0; i < old->region->nyields && r->yields[old->id]; i++)
        if (old->region->yield[i] == old) {
            old->region->yield[i] = with;
            r->yields[old->id]--;
            r->yields[with->id]++;
        }
}

bool readers_precedes(const Readers *r, const Op *a, const Op *b)
{
    return r->order[a->id] < r->order[b->id];
}
