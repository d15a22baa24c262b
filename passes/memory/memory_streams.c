/* memory_streams.c: computes when the compute stream has waited for a statement
 * of another stream.
 *
 * A collective on a stream of its own runs while compute continues. If its
 * memory were reused before the compute stream has waited for it, the next user
 * would have to wait, and nothing would overlap. So its memory stays reserved
 * until the compute stream waits for it anyway: until it reads the result, or a
 * result that the same stream made later. If no such reader comes before the
 * iteration ends, the memory is reserved for all iterations; operands that
 * compute makes for the collective (unreduced gradients) then have two buffers,
 * used in rotation. In a staged loop all streams join after each phase of a microbatch.
 *
 *   loop {
 *     %dw = einsum …                    slot i mod 2
 *     %dw.2 = reduce_scatter %dw        still runs in iteration i + 1
 *   }
 *   %g = fused … %dws                   reads all iterations' results: waits
 */
#include "passes/memory/memory.h"
#include "passes/pipeline/staged_loop.h"

typedef struct Ordering {
    const Program *p;
    const Liveness *live;
    const Prefetches *prefetch;
    const Op *x;
} Ordering;

/* Whether reading v implies that x is complete: v was made on x's stream by x
 * or later. */
static bool made_after(const Ordering *b, Value *v)
{
    v = value_root(v);
    const Op *def = v->def;
    if (!def) {
        const Op *loop = v->region->owner;
        return loop->kind == OP_loop && made_after(b, loop->arg[v->index]);
    }
    if (def->kind == OP_loop)
        return made_after(b, def->body->yield[v->index]) ||
               (v->index < def->ncarry && made_after(b, def->arg[v->index]));
    /* A hoisted op was issued in an earlier iteration, or before x. */
    bool early =
        (b->prefetch->gather[def->id] && b->prefetch->distance[def->id] > 0) ||
        (b->prefetch->hoisted[def->id] && def != b->x);
    return def->stream == b->x->stream && !early &&
           b->live->begin[def->id] >= b->live->begin[b->x->id];
}

static int first_read_time(const Ordering *b, const Op *from)
{
    for (const Op *op = from; op; op = op->next) {
        if (op->kind == OP_loop) {
            int time = first_read_time(b, op->body->first);
            if (time >= 0)
                return time;
            continue;
        }
        if (op->stream != STREAM_COMPUTE || op_is_view(op->kind) ||
            op->kind == OP_assign || op->kind == OP_output)
            continue;
        for (int i = 0; i < op->nargs; i++)
            if (made_after(b, op->arg[i]))
                return b->live->begin[op->id];
    }
    return -1;
}

/* When all streams join after an op of a staged loop's body: before the ops of the next
 * phase. */
static int join_time(const Ordering *b, const Op *op)
{
    const Op *loop = op->region->owner, *end = staged_phase_end(loop, op->phase);
    return end ? b->live->begin[end->id] : b->live->finish[loop->id];
}

Awaited memory_awaited(const Program *p, const Liveness *live,
                       const Prefetches *prefetch, const Op *x)
{
    Ordering b = {.p = p, .live = live, .prefetch = prefetch, .x = x};
    Awaited a = {.time = live->end - 1};
    if (prefetch->gather[x->id] && prefetch->distance[x->id] > 0) {
        a.loop = x->region->owner; /* the last iterations issue none */
        a.time = live->finish[a.loop->id];
        return a;
    }
    for (const Op *op = x; op; op = op->region->owner) {
        int time = first_read_time(&b, op->next);
        const Op *loop = op->region->owner;
        int join = loop && loop->staged ? join_time(&b, op) : -1;
        if (join >= 0 && (time < 0 || time > join))
            time = join;
        if (time >= 0) {
            a.time = time;
            return a;
        }
        if (loop)
            a.loop = loop;
    }
    return a;
}
