/* report_copies.c: parameters in the compute type: where the copies are made,
 * and how large each is. A copy lives until its last use, in its turn of the
 * loop; what of it is alive at the peak stands there.
 */
#include "codegen/report.h"

/* The parameter that v is, or the layer's slice of; NULL: none. */
static const Param *param_of(const Program *p, const Value *v)
{
    while (!v->def) {
        const Op *loop = v->region->owner;
        if (!loop || loop->kind != OP_loop || v->index < loop->ncarry)
            return NULL;
        v = loop->arg[v->index];
    }
    return v->def->kind == OP_param ? &p->param.at[v->def->attr[0].i] : NULL;
}

/* The operand of a kernel of which result i is nothing but a narrower copy. */
static const Value *copied_by(const Op *kernel, int i)
{
    const Op *cast = kernel->body->yield[i]->def;
    if (!cast || cast->kind != OP_cast || dtype_size((DType)cast->attr[0].i) != 2)
        return NULL;
    for (int k = 0; k < kernel->nargs; k++)
        if (kernel->body->arg[k] == cast->arg[0])
            return kernel->arg[k];
    return NULL;
}

static int list(Out *o, const Program *p, const Region *r, bool print)
{
    int n = 0;
    for (const Op *op = r->first; op; op = op->next) {
        if (op->kind == OP_loop)
            n += list(o, p, op->body, print);
        for (int i = 0; op->kind == OP_fused && i < op->nouts; i++) {
            const Value *from = copied_by(op, i), *v = op->out[i];
            const Param *pm = from ? param_of(p, from) : NULL;
            if (!pm)
                continue;
            n++;
            if (print)
                out_line(o, "  %-32s %-34s %-8s %4lld x %s", pm->name,
                         type_text(p->arena, &v->type, &p->mesh),
                         op->phase == PH_FORWARD ? "forward" : "backward",
                         (long long)ir_trip_count(op),
                         report_bytes(p->arena,
                                      type_local_bytes(&v->type, &p->mesh)));
        }
    }
    return n;
}

void report_copies(Out *o, const Program *p)
{
    if (!list(o, p, p->step, false))
        return;
    out_line(o, "");
    out_line(o, "Copies of parameters in %s, made for each use (a step x bytes)",
             dtype_name(p->train.precision));
    list(o, p, p->step, true);
}
