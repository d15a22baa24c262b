/* total.c: adds up the bytes of all tensors of a step; see total.h. Sums are in
 * doubles, which do not overflow. */
#include "ir/verify/total.h"

static const double limit = 0x1p58;

typedef struct Total {
    const Mesh *mesh;
    double bytes;
    double most; /* the most bytes of one op or parameter */
    Loc loc;     /* location of the op or parameter with the most bytes */
} Total;

/* All ranks' bytes, with the padding of flat runs. */
static double tensor_bytes(const Mesh *m, const Type *t)
{
    int64_t layer =
        type_is_flat(t, m) ? type_flat_row(t, m) : type_layer_elements(t);
    return (double)type_layers(t) * (double)layer *
           (double)dtype_size(t->dtype);
}

static void add(Total *t, double bytes, Loc loc)
{
    t->bytes += bytes;
    if (bytes <= t->most)
        return;
    t->most = bytes;
    t->loc = loc;
}

static void add_region(Total *t, const Region *r, double times)
{
    for (const Op *op = r->first; op; op = op->next) {
        double bytes = 0;
        for (int i = 0; i < op->nargs; i++)
            bytes += tensor_bytes(t->mesh, &op->arg[i]->type);
        for (int i = 0; i < op->nouts; i++)
            bytes += tensor_bytes(t->mesh, &op->out[i]->type);
        add(t, times * bytes, op->loc);
        if (op->body)
            add_region(t, op->body,
                       op->kind == OP_loop ? times * (double)loop_trips(op)
                                           : times);
    }
}

void ir_check_total(Program *p)
{
    Total t = {.mesh = &p->mesh};
    for (int i = 0; i < p->param.n; i++)
        add(&t, tensor_bytes(t.mesh, &p->param.at[i].type),
            p->param.at[i].loc);
    add_region(&t, p->step, 1);
    if (t.bytes <= limit)
        return;
    diag_error(p->diag, t.loc,
               "the tensors of a step are too large: its statements read and "
               "write %.3g bytes, more than 2^58; this one %.3g", t.bytes,
               t.most);
    diag_help(p->diag, "use a smaller batch, fewer layers or smaller sizes");
}
