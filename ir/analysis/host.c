/* host.c: determines which memory a value is in, and which ops may read it
 * there.
 *
 * The memory follows from the parameters; values have no annotation. In host
 * memory are parameters with Param.host (set by the pass `offload`), slices
 * that loops take of them, results of `store`, stacks of these, and views.
 * Loops pass such values on, `fetch` reads them, `assign` makes them a
 * parameter's new value. Kernels and collectives access device memory only.
 *
 *   param "w.m" : f32[4 x 64] … host
 *   %m = param{param="w.m"} : f32[4 x 64] optimizer           host
 *   %new = loop{n=4, …} : f32[4 x 64] optimizer {             host
 *     stack %mi = %m : f32[64]                                host
 *     %md = fetch{prefetch=1} %mi : f32[64] optimizer         device
 *     %y = fused{…} %md … optimizer { … }                     device
 *     %yh = store %y : f32[64] optimizer                      host
 *     yield %yh
 *   }
 *   assign{param="w.m"} %new optimizer
 */
#include "ir/internal.h"

bool ir_in_host(const Program *p, const Value *v)
{
    for (;;) {
        const Op *def = v->def, *owner = v->region->owner;
        if (!def && (!owner || owner->kind != OP_loop))
            return false;
        if (!def)
            v = owner->arg[v->index];
        else if (op_is_view(def->kind))
            v = def->arg[0];
        else if (def->kind == OP_loop)
            v = def->body->yield[v->index];
        else
            return def->kind == OP_store ||
                   (def->kind == OP_param &&
                    p->param.at[attr_param(def)].host);
    }
}

static const char *memory_name(bool host)
{
    return host ? "host memory" : "device memory";
}

static const char *memory_text(const Program *p, const char *what,
                               const Value *v, const char *instead)
{
    return arena_printf(p->arena, "%s %%%s is in %s%s", what, v->name,
                        memory_name(ir_in_host(p, v)), instead);
}

/* A carry is one buffer in all iterations. */
static const char *verify_carries(const Program *p, const Op *loop)
{
    for (int i = 0; loop->kind == OP_loop && i < loop->ncarry; i++)
        if (ir_in_host(p, loop->arg[i]) ||
            ir_in_host(p, loop->body->yield[i]))
            return memory_text(p, "carry",
                               ir_in_host(p, loop->arg[i])
                                   ? loop->arg[i]
                                   : loop->body->yield[i],
                               "; it must be on the device");
    return NULL;
}

const char *verify_host(const Program *p, const Op *op)
{
    if (op->kind == OP_loop)
        return verify_carries(p, op);
    if (op->kind == OP_assign) {
        bool host = p->param.at[attr_param(op)].host;
        if (ir_in_host(p, op->arg[0]) == host)
            return NULL;
        return memory_text(p, "the new value", op->arg[0],
                           host ? ", its parameter in host memory"
                                : ", its parameter in device memory");
    }
    if (op_is_view(op->kind))
        return NULL;
    for (int i = 0; i < op->nargs; i++) {
        bool host = ir_in_host(p, op->arg[i]);
        if (host && op->kind != OP_fetch)
            return memory_text(p, "operand", op->arg[i],
                               ", which only fetch may read");
        if (!host && op->kind == OP_fetch)
            return memory_text(p, "operand", op->arg[i],
                               ", not in host memory");
    }
    return NULL;
}
