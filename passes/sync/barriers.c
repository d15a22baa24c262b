/* barriers.c: inserts barriers between ranks of a node that share memory.
 *
 * requires: Program.memory and the order of issue of one stream
 * ensures:  ops barrier: in every interleaving of the ranks, no rank reads
 *           shared memory before another rank has written it, or overwrites it
 *           before another rank has read it
 *
 * Every rank runs the same statements. A rank reads all runs of a gathered
 * parameter, and writes its own run in the update; between the two, in either
 * order, the ranks of the group need a synchronization point. Collectives that
 * move data are synchronization points already, for their group and each subset
 * of it, so that a step needs few barriers: the reduction of the gradient norm
 * precedes the first update, and a barrier at the first gather serves the later
 * ones.
 *
 * before   %w = param{…} : f32[64, 64]~dp       gathered shared
 *          %w.2 = all_gather{axes={dp}, …} %w : f32[64, 64] forward
 *          …
 *          %w.new = fused{name="adamw_w"} %w, … : f32[64, 64]~dp optimizer
 * after    a barrier over dp before the gather: every rank has written its run
 *          of w in the step before
 *
 * The search is iterative. Two consecutive steps are simulated; where a
 * statement could run too early, a barrier is inserted before it, only for the
 * first iteration of its loop if that suffices, and the simulation restarts.
 * During the search an in-place gather counts as a reader, so that barriers are
 * placed at gathers. At the end redundant barriers are dropped: that of a
 * gather is redundant if all readers of its result follow another
 * synchronization point.
 */
#include "passes/sync/events.h"

#include "base/bug.h"

#include <string.h>

/* The accesses of a shared block since the last synchronization point of its
 * group: a write of the own run, a read of all runs. Instances; -1: none. */
typedef struct Since {
    int written, read;
} Since;

/* A barrier that the search has found. */
typedef struct NewBarrier {
    uint32_t axes;
    const Op *by;
    bool first;        /* in the first iteration of its loop only */
    const char *why;   /* reason that the plan prints */
} NewBarrier;
typedef VEC(NewBarrier) NewBarriers;

typedef struct Walk {
    const Program *p;
    const Op *without;
    const NewBarrier *ignored;
    NewBarriers *found; /* by op id, during the search: the barriers before the
                         * op; NULL: the program has them */
    bool readers; /* count the readers of an in-place gather instead of the
                   * gather */
    Simulations sims;
    Simulation sim; /* the present one of them */
    Since *since;      /* by block */
    const Op **gather; /* by block: the last gather of it */
} Walk;

/* A statement that may run too early. */
typedef struct Fault {
    int instance, other; /* the instance on another rank that it must follow */
    bool writes;
    int block;
} Fault;

/* ---- accesses of shared blocks ------------------------------------------- */

typedef enum Use { USE_NOTHING, USE_READ, USE_WRITE } Use;

/* How an access uses a shared block. A rank's reads of its own run need no
 * synchronization. A gather writes nothing: it counts as its readers. */
static Use use_of(const Walk *w, const Op *op, const Access *a, int *block)
{
    const MemoryPlan *m = w->p->memory;
    if (!a->value)
        return USE_NOTHING;
    const Address *at = value_address(a->value);
    *block = at->block;
    if (!m->block[at->block].shared)
        return USE_NOTHING;
    if (at->cut)
        return a->write ? USE_WRITE : USE_NOTHING;
    if (a->write && op->kind != OP_all_gather)
        bug("sync: %s writes other ranks' runs of %s",
            op_info(op->kind)->name, m->block[at->block].name);
    return USE_READ;
}

/* ---- synchronization points ---------------------------------------------- */

/* Whether `axes` includes `group`; axes of size 1 do not count. */
static bool covers_axes(const Mesh *mesh, uint32_t axes, uint32_t group)
{
    for (int a = 0; a < mesh->n; a++)
        if (mesh->size[a] > 1 && group >> a & 1 && !(axes >> a & 1))
            return false;
    return true;
}

/* Records a synchronization point of these axes. */
static void synchronize(Walk *w, uint32_t axes)
{
    const MemoryPlan *m = w->p->memory;
    for (int b = 0; b < m->nblocks; b++)
        if (m->block[b].shared &&
            covers_axes(&w->p->mesh, axes, m->block[b].shared))
            w->since[b] = (Since){-1, -1};
}

/* Whether a collective is also a synchronization point when it ends: it moves
 * data. */
static bool moves(const Op *op)
{
    return op_is_collective(op->kind) && !gather_in_place(op);
}

/* The barriers before an instance: an op barrier is itself one. */
static void synchronize_before(Walk *w, const Instance *instance)
{
    const Op *op = instance->op;
    const NewBarriers *found = w->found ? &w->found[op->id] : NULL;
    if (op->kind == OP_barrier && op != w->without &&
        (instance->first || !attr_first(op)))
        synchronize(w, attr_axes(op));
    for (int i = 0; found && i < found->n; i++)
        if (&found->at[i] != w->ignored &&
            (instance->first || !found->at[i].first))
            synchronize(w, found->at[i].axes);
    if (moves(op))
        synchronize(w, attr_axes(op));
}

/* ---- simulation ---------------------------------------------------------- */

static bool is_too_early(Walk *w, int i, Fault *f)
{
    const Instance *instance = &w->sim.instance[i];
    const Op *op = instance->op;
    for (int k = 0; k < instance->naccesses; k++) {
        int block = -1;
        Use use =
            use_of(w, op, &w->sim.access[instance->first_access + k], &block);
        if (use == USE_NOTHING)
            continue;
        Since *s = &w->since[block];
        if (op->kind == OP_all_gather)
            w->gather[block] = op;
        if (w->readers && gather_in_place(op))
            continue;
        *f = (Fault){i, use == USE_WRITE ? s->read : s->written,
                     use == USE_WRITE, block};
        if (f->other >= 0)
            return true;
        *(use == USE_WRITE ? &s->written : &s->read) = i;
    }
    return false;
}

/* Whether a statement of the simulation may run too early in two steps. All parameters
 * are valid when the first step begins. */
static bool find_fault_in(Walk *w, Fault *f)
{
    for (int b = 0; b < w->p->memory->nblocks; b++) {
        w->since[b] = (Since){-1, -1};
        w->gather[b] = NULL;
    }
    for (int step = 0; step < 2; step++)
        for (int i = 0; i < w->sim.n; i++) {
            if (!w->sim.instance[i].op || w->sim.instance[i].elsewhere)
                continue;
            synchronize_before(w, &w->sim.instance[i]);
            if (is_too_early(w, i, f))
                return true;
            const Op *op = w->sim.instance[i].op;
            if (moves(op))
                synchronize(w, attr_axes(op));
        }
    return false;
}

/* Groups that share memory are at one coordinate. */
static bool find_fault(Walk *w, Fault *f)
{
    for (int i = 0; i < w->sims.n; i++) {
        w->sim = w->sims.at[i];
        if (find_fault_in(w, f))
            return true;
    }
    return false;
}

/* Whether ranks access each other's memory outside of collectives. */
static bool needs_barriers(const Program *p)
{
    return p->memory->nsegments > 0;
}

static Walk walk_of(const Program *p)
{
    Walk w = {.p = p, .sims = simulate_step(p, NULL, 0)};
    w.since = NEW_ARRAY(p->arena, Since, p->memory->nblocks + 1);
    w.gather = NEW_ARRAY(p->arena, const Op *, p->memory->nblocks + 1);
    return w;
}

/* ---- the check ----------------------------------------------------------- */

static const char *instance_name(const Walk *w, int i)
{
    const Op *op = w->sim.instance[i].op;
    return op->nouts ? op->out[0]->name : op_info(op->kind)->name;
}

const char *barriers_check(const Program *p, const Op *without)
{
    if (!needs_barriers(p))
        return NULL;
    Walk w = walk_of(p);
    w.without = without;
    w.readers = true;
    Fault f;
    if (!find_fault(&w, &f))
        return NULL;
    return arena_printf(
        p->arena,
        "%%%s %s '%s' on one rank when %%%s may still have to %s it "
        "on another",
        instance_name(&w, f.instance), f.writes ? "writes" : "reads",
        p->memory->block[f.block].name, instance_name(&w, f.other),
        f.writes ? "read" : "write");
}

/* ---- the search ---------------------------------------------------------- */

/* Adds a barrier for the fault. A barrier that exists for the first iteration
 * only becomes one for all iterations. */
static void add_barrier(Walk *w, const Fault *f)
{
    const Instance *instance = &w->sim.instance[f->instance];
    const Block *b = &w->p->memory->block[f->block];
    NewBarriers *found = &w->found[instance->op->id];
    for (int i = 0; i < found->n; i++)
        if (found->at[i].axes == b->shared) {
            found->at[i].first = false;
            return;
        }
    NewBarrier m = {.axes = b->shared,
                    .by = w->gather[f->block],
                    .first = instance->first,
                    .why = arena_printf(w->p->arena, "all ranks have %s %s",
                                        f->writes ? "read" : "written",
                                        b->name)};
    vec_push(w->p->arena, found, m);
}

static void drop_needless(Walk *w)
{
    w->readers = true;
    for_ops(op, w->p->step) {
        NewBarriers *found = &w->found[op->id];
        for (int k = found->n - 1; k >= 0; k--) {
            Fault f;
            w->ignored = &found->at[k];
            if (!find_fault(w, &f)) {
                found->n--;
                memmove(&found->at[k], &found->at[k + 1],
                        sizeof(NewBarrier) * (size_t)(found->n - k));
            }
            w->ignored = NULL;
        }
    }
}

/* Inserts the barriers of an op before it; those of a gather that moves nothing
 * after it. */
static void insert_barriers(const Walk *w, Op *op)
{
    const NewBarriers *found =
        op->kind == OP_barrier ? NULL : &w->found[op->id];
    Op *before = gather_in_place(op) ? op->next : op;
    Build b = {.p = (Program *)w->p, .region = op->region, .before = before,
               .phase = op->phase, .path = ""};
    for (int i = 0; found && i < found->n; i++) {
        const NewBarrier *m = &found->at[i];
        Attr attr[] = {{.i = m->axes}, {.o = op}, {.o = (Op *)m->by},
                       {.i = m->first}, {.s = m->why}};
        ir_op_typed(&b, OP_barrier, 0, NULL, attr, 0, NULL, NULL);
    }
}

void barriers_find(Program *p)
{
    if (!needs_barriers(p))
        return;
    Walk w = walk_of(p);
    Fault f;
    w.found = NEW_ARRAY(p->arena, NewBarriers, p->nops);
    while (find_fault(&w, &f))
        add_barrier(&w, &f);
    drop_needless(&w);
    for_ops(op, p->step)
        insert_barriers(&w, op);
}
