/* memory_offload.c: what the plan keeps in host memory, and when it visits
 * the device.
 *
 * A tensor that is offloaded is on the device while ops read or write it: from
 * its first to its last op in a phase. Of a stack that a loop takes apart a
 * turn's slice and the next one's are there, which comes in meanwhile. What an
 * update has written goes back. Units that stay gathered stay on the device.
 */
#include "passes/memory.h"

MemoryClass memory_class_of_param(const Param *pm)
{
    return pm->state_of >= 0 && pm->init.kind != INIT_COPY ? MEM_OPTIMIZER
                                                           : MEM_PARAMS;
}

bool memory_is_offloaded(const Program *p, const TargetInfo *t,
                         const Param *pm)
{
    uint32_t bit = memory_class_of_param(pm) == MEM_PARAMS
                       ? OFFLOAD_PARAMETERS
                       : OFFLOAD_OPTIMIZER;

    return t->target == TARGET_CUDA && (p->plan.offload & bit) &&
           pm->value && !pm->kept;
}

typedef struct Visits {
    const Program *p;
    const Liveness *live;
    const Param *param;
    VEC(Transfer) list;
} Visits;

static bool reads(const Op *op, const Value *v)
{
    for (int i = 0; i < op->nargs; i++)
        if (live_root(op->arg[i]) == v)
            return true;
    return false;
}

/* A turn's slice comes in as often as the loop turns. */
static void visit_by_slices(Visits *s, const Op *loop, const Value *slice)
{
    int64_t turns = loop_trips(loop);
    int64_t bytes = type_local_bytes(&slice->type, &s->p->mesh);
    Transfer t = {.param = s->param, .op = loop, .bytes = bytes,
                  .count = turns * ir_trip_count(loop),
                  .staged = (turns > 1 ? 2 : 1) * bytes,
                  .first = s->live->begin[loop->id],
                  .last = s->live->finish[loop->id]};
    vec_push(s->p->arena, &s->list, t);
}

/* The whole tensor; it stays for further ops of the phase. */
static Transfer *visit_whole(Visits *s, const Op *op)
{
    for (int i = 0; i < s->list.n; i++) {
        Transfer *t = &s->list.at[i];
        if (t->param != s->param || t->op->region != op->region ||
            t->op->phase != op->phase || t->to_host || t->op->kind == OP_loop)
            continue;
        t->last = s->live->finish[op->id];
        return t;
    }
    int64_t bytes = type_local_bytes(&s->param->type, &s->p->mesh);
    Transfer t = {.param = s->param, .op = op, .bytes = bytes,
                  .count = ir_trip_count(op), .staged = bytes,
                  .first = s->live->begin[op->id],
                  .last = s->live->finish[op->id]};
    vec_push(s->p->arena, &s->list, t);
    return &s->list.at[s->list.n - 1];
}

static void write_back(Visits *s, const Op *assign)
{
    Transfer t = *visit_whole(s, assign);
    t.op = assign;
    t.to_host = true;
    t.staged = 0;
    vec_push(s->p->arena, &s->list, t);
}

static void visit_ops(Visits *s, const Region *r, const Value *v);

/* A loop takes a stack apart, or hands it on to its body's ops. */
static void visit_loop(Visits *s, const Op *loop, const Value *v)
{
    for (int i = 0; i < loop->nargs; i++) {
        if (live_root(loop->arg[i]) != v)
            continue;
        if (i < loop->ncarry)
            visit_whole(s, loop);
        else if (i < loop->ncarry + loop->nstack)
            visit_by_slices(s, loop, loop->body->arg[i]);
        else
            visit_ops(s, loop->body, loop->body->arg[i]);
    }
}

static void visit_ops(Visits *s, const Region *r, const Value *v)
{
    for (const Op *op = r->first; op; op = op->next) {
        if (live_is_view(op->kind))
            continue;
        if (op->kind == OP_assign &&
            &s->p->param.at[op->attr[0].i] == s->param)
            write_back(s, op);
        else if (op->kind == OP_loop)
            visit_loop(s, op, v);
        else if (reads(op, v))
            visit_whole(s, op);
    }
}

Transfer *memory_transfers(const Program *p, const TargetInfo *t,
                           const Liveness *live, int *n)
{
    Visits s = {.p = p, .live = live};

    for (int i = 0; i < p->param.n; i++) {
        s.param = &p->param.at[i];
        if (memory_is_offloaded(p, t, s.param))
            visit_ops(&s, p->step, s.param->value);
    }
    *n = s.list.n;
    return s.list.at;
}
