/* report_dot.c: prints the program as a graph (--emit dot | dot -Tsvg).
 *
 * A node is an op, with the name and type of its first result; collectives are
 * filled. A loop is a cluster. An edge connects an op with each op that reads
 * one of its results.
 */
#include "report/report.h"

static void quoted(Out *o, const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            out(o, "\\");
        out_bytes(o, text, 1);
    }
}

static void node(Out *o, const Program *p, const Op *op)
{
    out(o, "%*sop%u [label=\"%s", o->indent, "", (unsigned)op->id,
        op_info(op->kind)->name);
    if (op->nouts) {
        out(o, "\\n");
        quoted(o, op->out[0]->name);
        out(o, "\\n");
        quoted(o, type_text(p->arena, &op->out[0]->type, &p->mesh));
    }
    out(o, "\"%s];\n", op_is_collective(op->kind)
                           ? ", style=filled, fillcolor=\"#ffd28a\""
                           : "");
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

static void region(Out *o, const Program *p, const Region *r)
{
    for (const Op *op = r->first; op; op = op->next) {
        if (op->kind == OP_loop) {
            out_line(o, "subgraph cluster_%u {", (unsigned)op->id);
            o->indent += 2;
            out_line(o, "label=\"%lld layers\";", (long long)loop_trips(op));
            node(o, p, op);
            edges(o, op);
            region(o, p, op->body);
            o->indent -= 2;
            out_line(o, "}");
            continue;
        }
        if (op_is_schedule(op->kind))
            continue;
        node(o, p, op);
        edges(o, op);
    }
}

void report_dot(Out *o, const Program *p, const TargetInfo *t)
{
    (void)t;
    out_line(o, "digraph step {");
    o->indent = 2;
    out_line(o, "node [shape=box, fontname=\"monospace\", fontsize=10];");
    region(o, p, p->step);
    o->indent = 0;
    out_line(o, "}");
}
