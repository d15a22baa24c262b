/* meetings.c: ranks that share memory wait for each other.
 *
 * requires: Program.memory; the order of issue, of one stream
 * ensures:  Issue.meet: in no order that the ranks may run in does one read of
 *           a shared parameter what another has not written yet, or write what
 *           another has not read yet
 *
 * Every rank runs the same statements. One reads a gathered parameter, all
 * runs of it, and writes its own run when it updates it; between the two,
 * whichever comes first, all ranks of the group have to come to one place.
 * Collectives that move data are such places (of their group, and of any that
 * is a part of it), so that a step needs few others: all gradients have been
 * summed before the first update, and of the gathers the first one meets for
 * all.
 *
 * before   %w = param{…} : f32[64, 64]~dp       kept shared
 *          %w.2 = all_gather{axes={dp}, …} %w : f32[64, 64] forward
 *          …
 *          %w.new = fused{name="adamw_w"} %w, … : f32[64, 64]~dp optimizer
 * after    the gather meets over dp: all have written w (in the step before)
 *
 * So have they in front of a product that is made as a shard (shards.c), of all
 * ranks' operands, if any of them has been written since they met. Behind it
 * stands a reduce_scatter, which meets, and nothing up to there may write what
 * it reads: liveness.c and schedule.c see to that, and here it is checked.
 *
 * Found by trial: two steps are gone through, the second behind the first;
 * where a statement could come too early a meeting is put in front of it, in
 * the first turn of its loop if that is enough, and it starts again. A gather in
 * place counts as a reader meanwhile, so that meetings stand in front of
 * gathers. In the end each must be needed: a gather's is not where all that read
 * it come behind another place.
 */
#include "passes/trace.h"

#include "base/bug.h"

#include <string.h>

/* Of a shared block, since the ranks of its group have met: who has written
 * its own run, who has read all. Acts; -1: nobody. */
typedef struct Since {
    int written, read;
} Since;

typedef struct Walk {
    const Program *p;
    const StreamPlan *s;
    const Meeting *without;
    bool readers; /* a gather in place is no reader: those that read it are */
    Trace trace;
    Since *since;      /* by block */
    const Op **gather; /* by block: the last that gave it to read */
    int now;                /* statements gone through, in all steps */
    int met[1 << MAX_AXES]; /* by axes: as many when these ranks last met */
} Walk;

/* What comes too early. */
typedef struct Fault {
    int act, other; /* that it does not wait for */
    bool writes;
    int block;      /* -1: the operands of a product */
} Fault;

/* ---- what a statement does with a shared block --------------------------- */

typedef enum Use { USE_NOTHING, USE_READ, USE_WRITE } Use;

/* Own runs are no other rank's business, until they are written. A gather
 * writes nothing: it stands for its readers. */
static Use use_of(const Walk *w, const Op *op, const Access *a, int *block)
{
    const MemoryPlan *m = w->p->memory;
    if (!a->value)
        return USE_NOTHING;
    const Place *at = &m->value[live_root((Value *)a->value)->id];
    *block = at->block;
    if (!m->block[at->block].shared)
        return USE_NOTHING;
    if (at->cut)
        return a->write ? USE_WRITE : USE_NOTHING;
    if (a->write && op->kind != OP_all_gather)
        bug("meetings: %s writes other ranks' runs of %s",
            op_info(op->kind)->name, m->block[at->block].name);
    return USE_READ;
}

/* ---- meeting ------------------------------------------------------------- */

/* Axes of one rank do not count. */
static bool covers(const Mesh *mesh, uint32_t axes, uint32_t group)
{
    for (int a = 0; a < mesh->n; a++)
        if (mesh->size[a] > 1 && group >> a & 1 && !(axes >> a & 1))
            return false;
    return true;
}

/* All that ranks of these axes have done in the first `now` statements, the
 * others know of. */
static void meet_at(Walk *w, uint32_t axes, int now)
{
    const MemoryPlan *m = w->p->memory;
    for (int b = 0; b < m->nblocks; b++)
        if (m->block[b].shared &&
            covers(&w->p->mesh, axes, m->block[b].shared))
            w->since[b] = (Since){-1, -1};
    for (uint32_t group = 0; group < 1u << MAX_AXES; group++)
        if (covers(&w->p->mesh, axes, group))
            w->met[group] = now;
}

static void meet(Walk *w, uint32_t axes)
{
    meet_at(w, axes, w->now);
}

/* A collective that moves data meets before and behind; one all of whose
 * results are there already, before. */
static bool moves(const Walk *w, const Op *op)
{
    bool any = op_is_collective(op->kind) && !memory_moves_nothing(w->p, op);
    bool shards = any;
    for (int i = 0; any && i < op->nargs; i++)
        shards &= live_is_shard(op, i);
    return any && !shards;
}

static void meet_before(Walk *w, const Act *act)
{
    for (int i = 0; i < act->issue->meet.n; i++) {
        const Meeting *x = &act->issue->meet.at[i];
        if (x != w->without && (x->when == WAIT_ALWAYS || act->first))
            meet(w, x->axes);
    }
    const Op *op = act->issue->op;
    if (op_is_collective(op->kind) && !memory_moves_nothing(w->p, op))
        meet(w, (uint32_t)op->attr[0].i);
}

/* ---- the walk ------------------------------------------------------------ */

static bool overlap(const Access *a, const Access *b)
{
    return a->begin < b->end && b->begin < a->end;
}

/* Whether act i writes an operand of act `reader`. */
static bool writes_operand(const Trace *t, int i, int reader)
{
    const Act *writes = &t->act[i], *reads = &t->act[reader];
    for (int x = 0; x < writes->naccesses && writes->issue->op; x++)
        for (int y = 0; y < reads->naccesses; y++) {
            const Access *to = &t->access[writes->access + x];
            const Access *from = &t->access[reads->access + y];
            if (to->write && !from->write && overlap(to, from))
                return true;
        }
    return false;
}

/* Whether a product may find operands that are not there yet. */
static bool product_is_early(const Walk *w, int i, Fault *f)
{
    const Op *op = w->trace.act[i].issue->op;
    if (op->kind != OP_einsum_shard)
        return false;
    for (int at = w->met[op_attr(op, "axes").i]; at < w->now; at++)
        if (writes_operand(&w->trace, at % w->trace.n, i)) {
            *f = (Fault){i, at % w->trace.n, false, -1};
            return true;
        }
    return false;
}

static bool is_too_early(Walk *w, int i, Fault *f)
{
    const Act *act = &w->trace.act[i];
    const Op *op = act->issue->op;
    if (product_is_early(w, i, f))
        return true;
    for (int k = 0; k < act->naccesses; k++) {
        int block = -1;
        Use use = use_of(w, op, &w->trace.access[act->access + k], &block);
        if (use == USE_NOTHING)
            continue;
        Since *s = &w->since[block];
        if (op->kind == OP_all_gather)
            w->gather[block] = op;
        if (w->readers && memory_moves_nothing(w->p, op))
            continue;
        *f = (Fault){i, use == USE_WRITE ? s->read : s->written,
                     use == USE_WRITE, block};
        if (f->other >= 0)
            return true;
        *(use == USE_WRITE ? &s->written : &s->read) = i;
    }
    return false;
}

static void clear(Walk *w)
{
    for (int b = 0; b < w->p->memory->nblocks; b++) {
        w->since[b] = (Since){-1, -1};
        w->gather[b] = NULL;
    }
    w->now = 0;
    memset(w->met, 0, sizeof w->met);
}

/* Whether anything comes too early in two steps. Parameters are there when the
 * first begins. */
static bool find_fault(Walk *w, Fault *f)
{
    clear(w);
    for (int step = 0; step < 2; step++)
        for (int i = 0; i < w->trace.n; i++, w->now++) {
            if (!w->trace.act[i].issue->op)
                continue;
            meet_before(w, &w->trace.act[i]);
            if (is_too_early(w, i, f))
                return true;
            const Op *op = w->trace.act[i].issue->op;
            if (moves(w, op))
                meet_at(w, (uint32_t)op->attr[0].i, w->now + 1);
        }
    return false;
}

/* Whether ranks use each other's memory but in collectives. */
static bool needs_meetings(const Program *p)
{
    return p->memory->nsegments > 0 || live_has_shards(p);
}

static Walk walk_of(const Program *p, const StreamPlan *s)
{
    Walk w = {.p = p, .s = s, .trace = trace_step(p, s, 0)};
    w.since = NEW_ARRAY(p->arena, Since, p->memory->nblocks + 1);
    w.gather = NEW_ARRAY(p->arena, const Op *, p->memory->nblocks + 1);
    return w;
}

/* ---- the proof ----------------------------------------------------------- */

static const char *act_name(const Walk *w, int i)
{
    const Op *op = w->trace.act[i].issue->op;
    return op->nouts ? op->out[0]->name : op_info(op->kind)->name;
}

/* Whether something from product i to its reduce_scatter, its own result among
 * it, lies where it reads: the act; -1: nothing. */
static int written_too_early(const Trace *t, int i)
{
    int operand;
    const Op *product = t->act[i].issue->op;
    const Op *scatter = op_scatter_of(product, &operand);
    for (int k = i; k < t->n && t->act[k].issue->op != scatter; k++)
        if (writes_operand(t, k, i))
            return k;
    return -1;
}

static const char *check_products(const Walk *w)
{
    for (int i = 0; i < w->trace.n; i++) {
        const Op *op = w->trace.act[i].issue->op;
        int by = op && op->kind == OP_einsum_shard
                     ? written_too_early(&w->trace, i)
                     : -1;
        if (by >= 0)
            return arena_printf(w->p->arena, "%%%s lies where %%%s is made of "
                                "all ranks' operands", act_name(w, by),
                                act_name(w, i));
    }
    return NULL;
}

const char *meetings_check(const Program *p, const StreamPlan *s,
                           const Meeting *without)
{
    if (!needs_meetings(p))
        return NULL;
    Walk w = walk_of(p, s);
    w.without = without;
    w.readers = true;
    Fault f;
    if (!find_fault(&w, &f))
        return check_products(&w);
    if (f.block < 0)
        return arena_printf(p->arena, "%%%s reads all ranks' operands when "
                            "%%%s may still have to be made on another",
                            act_name(&w, f.act), act_name(&w, f.other));
    return arena_printf(
        p->arena, "%%%s %s '%s' on one rank when %%%s may still have to %s it "
        "on another", act_name(&w, f.act), f.writes ? "writes" : "reads",
        p->memory->block[f.block].name, act_name(&w, f.other),
        f.writes ? "read" : "write");
}

/* ---- the search ---------------------------------------------------------- */

static Meeting meeting_of_block(const Walk *w, const Fault *f, const Act *act)
{
    const Block *b = &w->p->memory->block[f->block];
    return (Meeting){.axes = b->shared, .by = w->gather[f->block],
                     .when = act->first ? WAIT_FIRST : WAIT_ALWAYS,
                     .why = arena_printf(w->p->arena, "all have %s %s",
                                         f->writes ? "read" : "written",
                                         b->name)};
}

static Meeting meeting_of_product(const Act *act)
{
    int operand;
    const Op *op = act->issue->op;
    return (Meeting){.axes = (uint32_t)op_attr(op, "axes").i,
                     .by = op_scatter_of(op, &operand), .when = WAIT_ALWAYS,
                     .why = "all have what is multiplied here"};
}

/* A meeting that is there in the first turn only is there in all from now
 * on. */
static void add_meeting(Walk *w, const Fault *f)
{
    const Act *act = &w->trace.act[f->act];
    Issue *issue = (Issue *)act->issue;
    Meeting m = f->block < 0 ? meeting_of_product(act)
                             : meeting_of_block(w, f, act);
    for (int i = 0; i < issue->meet.n; i++)
        if (issue->meet.at[i].axes == m.axes) {
            issue->meet.at[i].when = WAIT_ALWAYS;
            return;
        }
    vec_push(w->p->arena, &issue->meet, m);
}

static void drop_needless(Walk *w)
{
    w->readers = true;
    for (int i = 0; i < w->trace.n; i++) {
        Issue *issue = (Issue *)w->trace.act[i].issue;
        for (int k = issue->meet.n - 1; k >= 0; k--) {
            Fault f;
            w->without = &issue->meet.at[k];
            if (!find_fault(w, &f)) {
                issue->meet.n--;
                memmove(&issue->meet.at[k], &issue->meet.at[k + 1],
                        sizeof(Meeting) * (size_t)(issue->meet.n - k));
            }
            w->without = NULL;
        }
    }
}

void meetings_find(const Program *p, StreamPlan *s)
{
    if (!needs_meetings(p))
        return;
    Walk w = walk_of(p, s);
    Fault f;
    while (find_fault(&w, &f))
        add_meeting(&w, &f);
    drop_needless(&w);
}
