/* uses.c: indexes the readers of values by a counting sort over value ids. */
#include "ir/analysis/uses.h"

/* A walk over all operands. */
typedef struct Scan {
    Uses *u;
    const Op **last; /* by id: the last reader that was counted or stored */
    int *next;       /* by id: where the next reader goes; NULL: count only */
} Scan;

static void see_reader(Scan *s, Op *op)
{
    for (int i = 0; i < op->nargs; i++) {
        uint32_t id = op->arg[i]->id;
        s->u->count[id] += s->next == NULL;
        if (s->last[id] == op)
            continue;
        s->last[id] = op;
        if (s->next)
            s->u->reader[s->next[id]++] = op;
        else
            s->u->first[id + 1]++;
    }
}

static void see_region(Scan *s, const Region *r)
{
    for (Op *op = r->first; op; op = op->next) {
        see_reader(s, op);
        if (op->body)
            see_region(s, op->body);
    }
    for (int i = 0; i < r->nyields && !s->next; i++)
        s->u->count[r->yield[i]->id]++;
}

Uses uses_find(const Program *p)
{
    Arena *a = p->arena;
    uint32_t n = p->nvalues;
    Uses u = {.nvalues = n, .first = NEW_ARRAY(a, int, n + 1),
              .count = NEW_ARRAY(a, int, n + 1)};
    Scan count = {.u = &u, .last = NEW_ARRAY(a, const Op *, n + 1)};
    see_region(&count, p->step);
    for (uint32_t id = 0; id < n; id++)
        u.first[id + 1] += u.first[id];
    u.reader = NEW_ARRAY(a, Op *, u.first[n] + 1);
    Scan store = {.u = &u, .last = NEW_ARRAY(a, const Op *, n + 1),
                  .next = arena_copy(a, u.first, sizeof *u.first * (n + 1))};
    see_region(&store, p->step);
    return u;
}

void uses_replace(const Uses *u, const Value *old, Value *with)
{
    int n;
    Op *const *reader = uses_readers(u, old, &n);
    for (int k = 0; k < n; k++)
        for (int i = 0; i < reader[k]->nargs; i++)
            if (reader[k]->arg[i] == old)
                reader[k]->arg[i] = with;
    for (int i = 0; i < old->region->nyields; i++)
        if (old->region->yield[i] == old)
            old->region->yield[i] = with;
}
