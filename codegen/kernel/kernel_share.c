/* kernel_share.c: finds kernels of side programs that equal a kernel of an
 * earlier program, so that the emitted program has each kernel once.
 *
 * Two fused ops have the same kernel if their bodies have the same ops, with
 * the same attributes, on values of the same types, in the same order, if their
 * operands are aligned alike, and if they run on the same stream. The names of
 * values and the lines of the model do not matter. Ops are compared by a text,
 * their signature:
 *
 *   fused op    %y = fused{name="silu"} %x : f32[8/dp, 16] { … sigmoid, mul }
 *   signature   0 16 f32[8/dp, 16] | sigmoid 0 : f32[8/dp, 16] | mul 0 1 : …
 */
#include "codegen/kernel/kernel.h"

static int index_in(const Region *body, const Value *v)
{
    int at = body->nargs;
    for (int i = 0; i < body->nargs; i++)
        if (body->arg[i] == v)
            return i;
    for (const Op *op = body->first; op; op = op->next)
        for (int i = 0; i < op->nouts; i++, at++)
            if (op->out[i] == v)
                return at;
    return -1;
}

static void add_attrs(Out *o, const Op *op)
{
    const AttrName *name = op_info(op->kind)->attr;
    for (int i = 0; name[i]; i++) {
        const Attr *attr = &op->attr[i];
        out(o, " ");
        switch ((int)attr_type_of(name[i])) {
        case ATTR_TYPE_FLOAT:
            out_double(o, attr->f);
            break;
        case ATTR_TYPE_TEXT:
            out(o, "%s", attr->s ? attr->s : "");
            break;
        case ATTR_TYPE_LIST:
            for (int k = 0; k < attr->l.n; k++)
                out(o, "%lld,", (long long)attr->l.v[k]);
            break;
        default:
            out(o, "%lld", (long long)attr->i);
        }
    }
}

static const char *signature_of(const Program *p, const Op *fused)
{
    Out o;
    out_init(&o, p->arena);
    const Region *body = fused->body;
    const Kernel *k = kernel_build(p, fused);
    out(&o, "%d ", fused->stream);
    for (int i = 0; i < k->nbuffers; i++)
        out(&o, "%lld ", (long long)k->buffer[i].alignment);
    for (int i = 0; i < body->nargs; i++)
        out(&o, "%s ", type_text(p->arena, &body->arg[i]->type, &p->mesh));
    for (const Op *op = body->first; op; op = op->next) {
        out(&o, "| %s", op_info(op->kind)->name);
        add_attrs(&o, op);
        for (int i = 0; i < op->nargs; i++)
            out(&o, " %%%d", index_in(body, op->arg[i]));
        for (int i = 0; i < op->nouts; i++)
            out(&o, " : %s",
                type_text(p->arena, &op->out[i]->type, &p->mesh));
    }
    for (int i = 0; i < body->nyields; i++)
        out(&o, " %d", index_in(body, body->yield[i]));
    return o.text;
}

/* `context`: the names of kernels by signature, a TextMap. */
static void share(void *context, const Program *p, const Op *fused, int number)
{
    const char *signature = signature_of(p, fused);
    const TextEntry *known = text_map_find(context, signature);
    if (!known)
        text_map_add(context, signature)->value =
            (void *)kernel_name(p, fused, number);
    else if (p->training)
        p->equal_kernel[fused->id] = known->value;
}

void kernels_share(Program *p)
{
    TextMap named = {.arena = p->arena};
    bool any = false;
    for (int k = 0; k < PURPOSES; k++) {
        Program *q = p->side[k];
        if (q)
            q->equal_kernel = NEW_ARRAY(q->arena, const char *, q->nops);
        any |= q != NULL;
    }
    if (any)
        kernel_each(p, share, &named);
}
