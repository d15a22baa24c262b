/* names.c: gives values unique names, and renumbers the values and ops of a
 * program in the order of the text.
 *
 * A hash table has the names in use. Each entry also stores the next number to
 * append to its name, so that finding a unique name takes constant time.
 */
#include <string.h>

#include "ir/internal.h"

typedef struct Entry {
    const char *name; /* NULL: free */
    bool used;
    int next; /* the next number to append */
} Entry;

struct NameTable {
    Arena *arena;
    Entry *entry;
    unsigned n, room; /* `room` is a power of two */
};

struct NameTable *names_new(Arena *a)
{
    struct NameTable *t = NEW(a, struct NameTable);
    t->arena = a;
    t->room = 256;
    t->entry = NEW_ARRAY(a, Entry, t->room);
    return t;
}

struct NameTable *names_copy(Arena *a, const struct NameTable *t)
{
    struct NameTable *copy = NEW(a, struct NameTable);
    *copy = *t;
    copy->arena = a;
    copy->entry = arena_copy(a, t->entry, t->room * sizeof(Entry));
    return copy;
}

static unsigned hash(const char *s)
{
    unsigned h = 2166136261u;
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 16777619u;
    return h;
}

static Entry *slot(struct NameTable *t, const char *name)
{
    unsigned i = hash(name) & (t->room - 1);
    while (t->entry[i].name && strcmp(t->entry[i].name, name) != 0)
        i = (i + 1) & (t->room - 1);
    return &t->entry[i];
}

static void grow(struct NameTable *t)
{
    Entry *old = t->entry;
    unsigned n = t->room;
    t->room *= 2;
    t->entry = NEW_ARRAY(t->arena, Entry, t->room);
    for (unsigned i = 0; i < n; i++)
        if (old[i].name)
            *slot(t, old[i].name) = old[i];
}

/* The entry of a name, added if missing. */
static Entry *entry_of(struct NameTable *t, const char *name)
{
    if (2 * t->n >= t->room)
        grow(t);
    Entry *e = slot(t, name);
    if (!e->name) {
        t->n++;
        e->name = arena_strdup(t->arena, name);
        e->next = 2;
    }
    return e;
}

bool ir_claim_name(Program *p, const char *name)
{
    Entry *e = entry_of(p->names, name);
    if (e->used)
        return false;
    e->used = true;
    return true;
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
    const char *base = base_name(p->arena, hint);
    Entry *e = entry_of(p->names, base);
    if (!e->used) {
        e->used = true;
        return e->name;
    }
    for (int n = e->next;; n++) {
        Entry *numbered =
            entry_of(p->names, arena_printf(p->arena, "%s.%d", base, n));
        if (numbered->used)
            continue;
        numbered->used = true;
        const char *name = numbered->name;
        /* The table may have been reallocated. */
        slot(p->names, base)->next = n + 1;
        return name;
    }
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
    p->names = names_new(p->arena);
    renumber_region(p, p->step);
}
