/* hazards.c: proves that no two streams access the same bytes in an undefined
 * order.
 *
 * The checker simulates the step (simulate.h) with only the waits and records
 * that will be emitted. First it computes for every statement, by stream, which
 * statements have certainly completed when it begins. Then it visits the
 * accesses of every piece of the arena in order of issue: each must follow the
 * last write, and a write must follow all reads since then. Only the simulation
 * is shared with the analysis in events.c.
 *
 * The rules are CUDA's: a stream runs its statements in order; a wait is for
 * the latest record of its event in order of issue, and covers all that
 * precedes that record on its stream or was waited for there.
 */
#include "passes/sync/simulate.h"
#include "passes/sync/sync.h"

#include <string.h>

/* By stream: the number of statements that have certainly completed. */
typedef struct Known {
    int upto[STREAMS];
} Known;

typedef struct Checker {
    const Program *p;
    const Op *without;
    Simulation sim;
    Known *known;  /* by instance: when it begins */
    int *position; /* by instance: its position on its stream, from 1 */
} Checker;

/* ---- completed statements ------------------------------------------------ */

static void learn(Known *k, const Known *more)
{
    for (int i = 0; i < STREAMS; i++)
        if (k->upto[i] < more->upto[i])
            k->upto[i] = more->upto[i];
}

static void run_statements(Checker *c)
{
    Arena *a = c->p->arena;
    Known stream[STREAMS] = {0};
    Known *record = NEW_ARRAY(a, Known, program_event_slots(c->p) + 1);
    int issued[STREAMS] = {0};
    for (int i = 0; i < c->sim.n; i++) {
        const Instance *instance = &c->sim.instance[i];
        Known *mine = &stream[instance->stream];
        if (instance_is_statement(instance)) {
            c->known[i] = *mine;
            c->position[i] = ++issued[instance->stream];
            mine->upto[instance->stream] = c->position[i];
        } else if (instance->op->kind == OP_record) {
            record[instance_event_slot(instance)] = *mine;
        } else if (instance->op->kind == OP_wait &&
                   instance->op != c->without &&
                   (instance->first || !attr_first(instance->op))) {
            learn(mine, &record[instance_event_slot(instance)]);
        }
    }
}

/* ---- pieces of the arena ------------------------------------------------- */

/* One access of one piece. */
typedef struct Touch {
    int instance, access;
} Touch;

/* All accesses, sorted by piece, then in order of issue: those of piece i are
 * touch[start[i]] … touch[start[i + 1] - 1]. */
static Touch *sort_touches(const Checker *c, int **start)
{
    const Simulation *t = &c->sim;
    int *count = NEW_ARRAY(c->p->arena, int, t->npieces + 2);
    for (int i = 0; i < t->naccesses; i++)
        for (int k = t->access[i].first; k <= t->access[i].last; k++)
            count[k + 1]++;
    for (int k = 0; k < t->npieces; k++)
        count[k + 1] += count[k];
    int *end = arena_copy(c->p->arena, count,
                          sizeof *count * (size_t)(t->npieces + 2));
    Touch *touch = NEW_ARRAY(c->p->arena, Touch, count[t->npieces] + 1);
    for (int i = 0; i < t->n; i++)
        for (int j = 0; j < t->instance[i].naccesses; j++) {
            int a = t->instance[i].first_access + j;
            for (int k = t->access[a].first; k <= t->access[a].last; k++)
                touch[end[k]++] = (Touch){i, a};
        }
    *start = count;
    return touch;
}

static const char *act_text(const Checker *c, int i)
{
    const Op *op = c->sim.instance[i].op;
    if (!op)
        return i == 0 ? "the step's start" : "the step's end";
    const char *where = "";
    if (op->region->owner)
        where = arena_printf(c->p->arena, ", layer %lld",
                             (long long)c->sim.instance[i].iteration[0]);
    return arena_printf(c->p->arena, "%s %%%s (stream %s%s)",
                        op_info(op->kind)->name,
                        op->nouts ? op->out[0]->name : "",
                        stream_name(c->sim.instance[i].stream), where);
}

static const char *touch_text(const Checker *c, Touch t)
{
    const Access *a = &c->sim.access[t.access];
    return arena_printf(c->p->arena, "%s %s %s%s", act_text(c, t.instance),
                        a->write ? "writes" : "reads",
                        a->value ? "%" : "its scratch",
                        a->value ? a->value->name : "");
}

static bool ordered(const Checker *c, Touch before, Touch after)
{
    int stream = c->sim.instance[before.instance].stream;
    return stream == c->sim.instance[after.instance].stream ||
           c->known[after.instance].upto[stream] >=
               c->position[before.instance];
}

static const char *check_piece(const Checker *c, const Touch *t, int n)
{
    int from = 0; /* the last write, or the first access */
    for (int i = 0; i < n; i++) {
        bool write = c->sim.access[t[i].access].write;
        for (int k = i - 1; k >= from; k--) {
            bool other = c->sim.access[t[k].access].write;
            if (t[k].instance == t[i].instance || (!write && !other) ||
                ordered(c, t[k], t[i]))
                continue;
            return arena_printf(
                c->p->arena,
                "%s; then %s at byte %lld of the arena, and "
                "nothing makes stream %s wait",
                touch_text(c, t[k]), touch_text(c, t[i]),
                (long long)c->sim.access[t[i].access].begin,
                stream_name(c->sim.instance[t[i].instance].stream));
        }
        if (write)
            from = i;
    }
    return NULL;
}

const char *hazards_check(const Program *p, const Op *without)
{
    Checker c = {.p = p, .without = without, .sim = simulate_step(p, NULL, 1)};
    c.known = NEW_ARRAY(p->arena, Known, c.sim.n);
    c.position = NEW_ARRAY(p->arena, int, c.sim.n);
    run_statements(&c);
    int *start;
    const Touch *touch = sort_touches(&c, &start);
    const char *fault = NULL;
    for (int k = 0; k < c.sim.npieces && !fault; k++)
        fault = check_piece(&c, touch + start[k], start[k + 1] - start[k]);
    return fault;
}
