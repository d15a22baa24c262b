/* exchange.c: chooses what attention exchanges over the axis of a context; see exchange.h. */
#include "passes/sharding/exchange.h"

#include "base/out.h"
#include "ir/options.h"
#include "ir/plan/user_axes.h"
#include "passes/sharding/projection.h"

enum {
    SEQUENCE = 1, HEADS = 2, /* dims of queries, keys and values */
    SHARE = 64 /* of the memory of a device: keys and values of whole sequences of a layer */
};
/* Of a device whose memory is not known, an H100 or A100. */
static const int64_t usual_memory = (int64_t)80 << 30;

/* The parts in which styles split the KV heads of an attention. */
static int64_t head_parts(const Program *p, const Op *op)
{
    int64_t parts = 1;
    int param = projection_param(op->arg[1]);
    for (int a = 0; a < p->mesh.n; a++) {
        const Style *s = p->plan.tensor_axes >> a & 1 ? projection_style(p, param, a) : NULL;
        if (s && !s->whole)
            parts *= p->mesh.size[a];
    }
    return parts;
}

/* The heads that a rank has of each KV head's attention can be split over the context. */
static bool may_split_heads(const Program *p, const Op *op)
{
    int64_t parts = head_parts(p, op) * mesh_group(&p->mesh, p->plan.context.axes);
    return op->arg[1]->type.dim[HEADS] % parts == 0;
}

static bool may_ring(const Op *op)
{
    return !attr_bias(op) && op->arg[0]->type.dim[SEQUENCE] == op->arg[1]->type.dim[SEQUENCE];
}

/* Bytes of the keys and values of whole sequences of an attention on a rank. */
static int64_t whole_bytes(const Program *p, const Op *op)
{
    int64_t bytes = 0, parts = mesh_group(&p->mesh, batch_axes(p)) * head_parts(p, op);
    for (int i = 1; i < 3; i++)
        bytes += type_elements(&op->arg[i]->type) * dtype_size(op->arg[i]->type.dtype);
    return bytes / (parts * (p->train.accumulate > 1 ? p->train.accumulate : 1));
}

void exchange_choose(Program *p, const TargetInfo *t)
{
    Context *c = &p->plan.context;
    if (!c->axes || c->exchange != EXCHANGE_AUTO)
        return;
    bool heads = true, ring = true;
    int64_t most = 0, memory = t->device_memory ? t->device_memory : usual_memory;
    for_ops(op, p->step) {
        if (op->kind != OP_attention)
            continue;
        int64_t bytes = whole_bytes(p, op);
        heads = heads && may_split_heads(p, op);
        ring = ring && may_ring(op);
        most = bytes > most ? bytes : most;
    }
    const char *axis = user_axes_text(p, c->axes), *size = bytes_text(p->arena, most);
    bool few = most <= memory / SHARE;
    c->exchange = heads ? EXCHANGE_HEADS : few || !ring ? EXCHANGE_GATHER : EXCHANGE_RING;
    c->chosen = heads ? arena_printf(p->arena, "%s can split the heads of each attention", axis)
                : arena_printf(p->arena, "%s cannot split heads; keys and values of whole sequences "
                               "are %s a layer, %s than 1/%d of a device's memory%s", axis, size,
                               few ? "less" : "more", SHARE,
                               few || ring ? "" : ", but an attention has a bias, or fewer or more "
                               "keys than queries");
}
