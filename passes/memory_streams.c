/* memory_streams.c: when compute knows that another stream is done.
 *
 * A collective on a stream of its own goes on while compute runs ahead. Its
 * memory must not be given to others before compute has waited for it anyway,
 * because it reads what the collective made or something that the stream did
 * later: else the one that gets it would have to wait, and nothing would
 * overlap. Where no such reader comes before the turn of its loop ends, the
 * memory is the collective's for all turns; operands that compute makes for it
 * (unreduced gradients) then have two places, which turns take in turn.
 *
 *   loop {
 *     %dw = einsum …                    slot i mod 2
 *     %dw.2 = reduce_scatter %dw        goes on in turn i + 1
 *   }
 *   %g = fused … %dws                   what all turns left: awaited here
 */
#include "passes/streams.h"

typedef struct Behind {
    const Program *p;
    const Liveness *live;
    const Ahead *ahead;
    const Op *x;
} Behind;

/* Whether v is there only when x is done: made on its stream by x or later. */
static bool made_behind(const Behind *b, Value *v)
{
    v = live_root(v);
    const Op *def = v->def;
    if (!def) {
        const Op *loop = v->region->owner;
        return loop->kind == OP_loop && made_behind(b, loop->arg[v->index]);
    }
    if (def->kind == OP_loop)
        return made_behind(b, def->body->yield[v->index]) ||
               (v->index < def->ncarry && made_behind(b, def->arg[v->index]));
    /* What ran ahead was issued in an earlier turn, or in front of x. */
    bool early = (b->ahead->gather[def->id] &&
                  b->ahead->turns[def->id] > 0) ||
                 (b->ahead->leads[def->id] && def != b->x);
    return def->stream == b->x->stream && !early &&
           b->live->begin[def->id] >= b->live->begin[b->x->id];
}

static int first_reader(const Behind *b, const Op *from)
{
    for (const Op *op = from; op; op = op->next) {
        if (op->kind == OP_loop) {
            int time = first_reader(b, op->body->first);
            if (time >= 0)
                return time;
            continue;
        }
        if (op->stream != STREAM_COMPUTE || live_is_view(op->kind) ||
            op->kind == OP_assign || op->kind == OP_output)
            continue;
        for (int i = 0; i < op->nargs; i++)
            if (made_behind(b, op->arg[i]))
                return b->live->begin[op->id];
    }
    return -1;
}

Awaited memory_awaited(const Program *p, const Liveness *live,
                       const Ahead *ahead, const Op *x)
{
    Behind b = {.p = p, .live = live, .ahead = ahead, .x = x};
    Awaited a = {.time = live->end - 1};
    if (ahead->gather[x->id] && ahead->turns[x->id] > 0) {
        a.turns = x->region->owner; /* the last turns issue none */
        a.time = live->finish[a.turns->id];
        return a;
    }
    for (const Op *op = x; op; op = op->region->owner) {
        int time = first_reader(&b, op->next);
        if (time >= 0) {
            a.time = time;
            return a;
        }
        if (op->region->owner)
            a.turns = op->region->owner;
    }
    return a;
}
