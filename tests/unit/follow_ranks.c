/* follow_ranks.c: finds races between ranks that share memory; see
 * follow_ranks.h. The simulation reads statements, addresses and barriers, but
 * none of the reasons that the passes recorded. */
#include "tests/unit/follow_ranks.h"

#include "ir/plan/pipeline.h"
#include "passes/sync/simulate.h"

#include <string.h>

enum { MOST_RANKS = 16, WORD = 2, STEPS = 2 };

/* A vector clock: for each rank the number of its statements that are known to
 * have run. */
typedef struct Clock {
    int at[MOST_RANKS];
} Clock;

/* The last accesses to a word: rank and time. */
typedef struct Word {
    int written_by, written;
    int read[MOST_RANKS];
} Word;

typedef struct Follow {
    const Program *p;
    const Op *without;
    Simulations sims;
    Simulation sim; /* the present one of them */
    int ranks;
    int64_t words; /* words of shared memory in one rank's arena */
    Clock clock[MOST_RANKS];
    Word *word;
    const char *fault;
} Follow;

/* ---- barriers ------------------------------------------------------------ */

static bool same_group(const Follow *f, int r, int q, uint32_t axes)
{
    const Mesh *m = &f->p->mesh;
    for (int a = 0; a < m->n; a++)
        if (!(axes >> a & 1) && mesh_coord(m, r, a) != mesh_coord(m, q, a))
            return false;
    return true;
}

static void synchronize(Follow *f, uint32_t axes)
{
    Clock after[MOST_RANKS];
    for (int r = 0; r < f->ranks; r++) {
        after[r] = f->clock[r];
        for (int q = 0; q < f->ranks; q++)
            for (int i = 0; i < f->ranks && same_group(f, r, q, axes); i++)
                if (after[r].at[i] < f->clock[q].at[i])
                    after[r].at[i] = f->clock[q].at[i];
    }
    memcpy(f->clock, after, sizeof after);
}

/* ---- bytes --------------------------------------------------------------- */

/* The first rank of r's group; it represents the memory that the group
 * shares. */
static int owner_of(const Follow *f, int r, uint32_t axes)
{
    int q = 0;
    while (!same_group(f, r, q, axes))
        q++;
    return q;
}

static void touch_word(Follow *f, int instance, int r, Word *w, const Access *a)
{
    const Clock *known = &f->clock[r];
    bool early = w->written > known->at[w->written_by];
    for (int q = 0; q < f->ranks && a->write; q++)
        early |= w->read[q] > known->at[q];
    if (early && !f->fault) {
        const Op *op = f->sim.instance[instance].op;
        f->fault = arena_printf(
            f->p->arena, "%s %%%s on rank %d %s %%%s too early",
            op_info(op->kind)->name, op->nouts ? op->out[0]->name : "", r,
            a->write ? "writes" : "reads",
            a->value ? a->value->name : "scratch");
    }
    if (a->write) {
        w->written = known->at[r];
        w->written_by = r;
    } else {
        w->read[r] = known->at[r];
    }
}

static void touch_bytes(Follow *f, int instance, int r, const Access *a,
                        uint32_t axes, int64_t begin, int64_t end)
{
    int64_t base = (int64_t)owner_of(f, r, axes) * f->words;
    for (int64_t at = begin / WORD; at < end / WORD && !f->fault; at++)
        touch_word(f, instance, r, &f->word[base + at - f->p->memory->own / WORD],
                   a);
}

static void touch(Follow *f, int instance, int r, const Access *a)
{
    const MemoryPlan *m = f->p->memory;
    /* Of a gather that moves some tensors, others may be in place: it writes nothing. */
    bool gathers = a->write && f->sim.instance[instance].op->kind == OP_all_gather;
    if (!a->value || a->begin < m->own || gathers)
        return;
    const Address *at = value_address(a->value);
    uint32_t axes = m->block[at->block].shared;
    if (!at->cut) {
        touch_bytes(f, instance, r, a, axes, a->begin, a->end);
        return;
    }
    int64_t index = 0;
    for (int x = 0; x < f->p->mesh.n; x++)
        if (at->cut >> x & 1)
            index = index * f->p->mesh.size[x] +
                    mesh_coord(&f->p->mesh, r, x);
    for (int64_t row = a->begin; row < a->end; row += at->row) {
        int64_t begin = row + index * at->run;
        touch_bytes(f, instance, r, a, axes, begin, begin + at->run);
    }
}

/* ---- statements ---------------------------------------------------------- */

/* Whether the rank is at a coordinate of the simulation. */
static bool runs(const Follow *f, int r)
{
    int axis = pipeline_axis(f->p);
    return f->sim.on[axis < 0 ? 0 : mesh_coord(&f->p->mesh, r, axis)];
}

static void run_instance(Follow *f, int i)
{
    const Instance *instance = &f->sim.instance[i];
    const Op *op = instance->op;
    if (!op || instance->elsewhere)
        return;
    bool in_place = gather_in_place(op);
    bool moves = op_is_collective(op->kind) && !in_place;
    if (op->kind == OP_barrier) {
        if (op != f->without && (instance->first || !attr_first(op)))
            synchronize(f, attr_axes(op));
        return;
    }
    if (moves)
        synchronize(f, attr_axes(op));
    for (int r = 0; r < f->ranks; r++) {
        if (!runs(f, r))
            continue;
        f->clock[r].at[r]++;
        for (int k = 0; k < instance->naccesses && !in_place; k++)
            touch(f, i, r, &f->sim.access[instance->first_access + k]);
    }
    if (moves)
        synchronize(f, attr_axes(op));
}

const char *follow_ranks(const Program *p, const Op *without)
{
    const MemoryPlan *m = p->memory;
    Follow *f = NEW(p->arena, Follow);
    *f = (Follow){.p = p, .without = without,
                  .sims = simulate_step(p, NULL, 1),
                  .ranks = (int)mesh_ranks(&p->mesh),
                  .words = (m->extent - m->own) / WORD};
    if (f->ranks > MOST_RANKS)
        return "more ranks than can be followed";
    f->word = NEW_ARRAY(p->arena, Word, f->ranks *f->words + 1);
    for (int i = 0; i < f->sims.n; i++) {
        f->sim = f->sims.at[i];
        for (int step = 0; step < STEPS; step++)
            for (int k = 0; k < f->sim.n && !f->fault; k++)
                run_instance(f, k);
    }
    return f->fault;
}
