/* report_dot.c: prints the program as a graph (--emit dot | dot -Tsvg).
 *
 * A node is an op: a collective with its label, its axes and the bytes of its
 * calls, as the plan lists it; a kernel with its name; any other op with the
 * name and type of its first result. Collectives are filled. A loop is a
 * cluster with its module and trip count. An edge connects an op with each op
 * that reads one of its results.
 */
#include "report/report.h"

#include <string.h>

typedef struct Dot {
    Out *o;
    const Program *p;
    const Statement *statement;
    const CollectiveInfo *collective;
    int nstatements, ncollectives;
} Dot;

static void quoted(Out *o, const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            out(o, "\\");
        out_bytes(o, text, 1);
    }
}

/* "ag3 all_gather over dp", "4 x 193.02 MiB", "layers.*" */
static void collective_label(const Dot *d, const CollectiveInfo *c)
{
    Arena *a = d->p->arena;
    quoted(d->o, arena_printf(a, "%s %s over %s", c->label, c->kind, c->axis));
    out(d->o, "\\n%lld x %s\\n", (long long)c->count, report_size(a, c));
    quoted(d->o, c->tensor);
}

static const CollectiveInfo *collective_of(const Dot *d, const Op *op)
{
    for (int i = 0; i < d->ncollectives; i++)
        if (d->collective[i].op == op)
            return &d->collective[i];
    return NULL;
}

/* The kernel's name; "matmul abk,fk->abf"; else the kind of op. */
static const char *op_text(const Dot *d, const Op *op)
{
    for (int i = 0; i < d->nstatements; i++) {
        const Statement *s = &d->statement[i];
        if (s->op == op && op->kind == OP_fused)
            return s->id;
        if (s->op == op && *s->detail)
            return arena_printf(d->p->arena, "%s %s", s->kind, s->detail);
    }
    return op_info(op->kind)->name;
}

static void node(const Dot *d, const Op *op)
{
    Out *o = d->o;
    const CollectiveInfo *c = collective_of(d, op);
    out(o, "%*sop%u [label=\"", o->indent, "", (unsigned)op->id);
    if (c) {
        collective_label(d, c);
    } else {
        quoted(o, op_text(d, op));
        if (op->nouts) {
            out(o, "\\n");
            quoted(o, op->out[0]->name);
            out(o, "\\n");
            quoted(o, type_text(d->p->arena, &op->out[0]->type, &d->p->mesh));
        }
    }
    out(o, "\"%s];\n", c ? ", style=filled, fillcolor=\"#ffd28a\"" : "");
}

/* The node that an edge from v starts at: its op, or its region's loop. */
static const Op *source(const Value *v)
{
    return v->def ? v->def : v->region->owner;
}

static void edges(Out *o, const Op *op)
{
    for (int i = 0; i < op->nargs; i++) {
        const Op *from = source(op->arg[i]);
        if (from)
            out_line(o, "op%u -> op%u;", (unsigned)from->id,
                     (unsigned)op->id);
    }
}

/* "layers.*": the modules that the iterations of a loop run. */
static const char *loop_text(const Dot *d, const Op *loop)
{
    for (const Op *op = loop->body->first; op; op = op->next) {
        const char *star = strchr(op->path, '*');
        if (star)
            return arena_strndup(d->p->arena, op->path,
                                 (size_t)(star + 1 - op->path));
    }
    return *loop->path ? loop->path : "loop";
}

static void region(const Dot *d, const Region *r)
{
    Out *o = d->o;
    for (const Op *op = r->first; op; op = op->next) {
        if (op->kind == OP_loop) {
            out_line(o, "subgraph cluster_%u {", (unsigned)op->id);
            o->indent += 2;
            out(o, "%*slabel=\"", o->indent, "");
            quoted(o, loop_text(d, op));
            out(o, ", %lld iterations\";\n", (long long)loop_trips(op));
            node(d, op);
            edges(o, op);
            region(d, op->body);
            o->indent -= 2;
            out_line(o, "}");
            continue;
        }
        if (op_is_schedule(op->kind))
            continue;
        node(d, op);
        edges(o, op);
    }
}

void report_dot(Out *o, const Program *p, const TargetInfo *t)
{
    (void)t;
    out_line(o, "digraph step {");
    o->indent = 2;
    out_line(o, "node [shape=box, fontname=\"monospace\", fontsize=10];");
    Dot d = {.o = o, .p = p};
    d.statement = statements_of(p, &d.nstatements);
    d.collective = collectives_of(p, &d.ncollectives);
    region(&d, p->step);
    o->indent = 0;
    out_line(o, "}");
}
