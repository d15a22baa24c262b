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

typedef struct Checker {
    const Program *p;
    const Op *without;
    Simulation sim;
    EventClock *known;  /* by instance: when it begins */
    int *position; /* by instance: its position on its stream, from 1 */
} Checker;

/* ---- completed statements ------------------------------------------------ */

static void run_statements(Checker *c)
{
    Arena *a = c->p->arena;
    EventClock stream[STREAMS] = {0};
    EventClock *record =
        NEW_ARRAY(a, EventClock, program_event_slots(c->p) + 1);
    int issued[STREAMS] = {0};
    for (int i = 0; i < c->sim.n; i++) {
        const Instance *instance = &c->sim.instance[i];
        EventClock *now = &stream[instance->stream];
        if (instance_is_statement(instance)) {
            c->known[i] = *now;
            c->position[i] = ++issued[instance->stream];
            now->upto[instance->stream] = c->position[i];
        } else if (instance->op->kind == OP_join) {
            clock_join_all(stream);
        } else if (instance->op->kind == OP_record) {
            record[instance_event_slot(instance)] = *now;
        } else if (instance->op->kind == OP_wait &&
                   instance->op != c->without &&
                   (instance->first || !attr_first(instance->op))) {
            clock_join(now, &record[instance_event_slot(instance)]);
        }
    }
}

/* ---- pieces of the arena ------------------------------------------------- */

/* All accesses, sorted by piece, then in order of issue: those of piece i are
 * access[start[i]] … access[start[i + 1] - 1]. */
static const Access **sort_accesses(const Checker *c, int **start)
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
    const Access **access =
        NEW_ARRAY(c->p->arena, const Access *, count[t->npieces] + 1);
    for (int i = 0; i < t->naccesses; i++)
        for (int k = t->access[i].first; k <= t->access[i].last; k++)
            access[end[k]++] = &t->access[i];
    *start = count;
    return access;
}

static const char *instance_text(const Checker *c, int i)
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

static const char *access_text(const Checker *c, const Access *a)
{
    return arena_printf(c->p->arena, "%s %s %s%s",
                        instance_text(c, a->instance),
                        a->write ? "writes" : "reads",
                        a->value ? "%" : "its scratch",
                        a->value ? a->value->name : "");
}

static bool ordered(const Checker *c, int before, int after)
{
    int stream = c->sim.instance[before].stream;
    return stream == c->sim.instance[after].stream ||
           c->known[after].upto[stream] >= c->position[before];
}

static const char *check_piece(const Checker *c, const Access *const *a,
                               int n)
{
    int from = 0; /* the last write, or the first access */
    for (int i = 0; i < n; i++) {
        for (int k = i - 1; k >= from; k--) {
            if (a[k]->instance == a[i]->instance ||
                (!a[i]->write && !a[k]->write) ||
                ordered(c, a[k]->instance, a[i]->instance))
                continue;
            return arena_printf(
                c->p->arena,
                "%s; then %s at byte %lld of the arena, and "
                "nothing makes stream %s wait",
                access_text(c, a[k]), access_text(c, a[i]),
                (long long)a[i]->begin,
                stream_name(c->sim.instance[a[i]->instance].stream));
        }
        if (a[i]->write)
            from = i;
    }
    return NULL;
}

static const char *check_simulation(const Program *p, const Op *without, Simulation sim)
{
    Checker c = {.p = p, .without = without, .sim = sim};
    c.known = NEW_ARRAY(p->arena, EventClock, c.sim.n);
    c.position = NEW_ARRAY(p->arena, int, c.sim.n);
    run_statements(&c);
    int *start;
    const Access **access = sort_accesses(&c, &start);
    const char *fault = NULL;
    for (int k = 0; k < c.sim.npieces && !fault; k++)
        fault = check_piece(&c, access + start[k], start[k + 1] - start[k]);
    return fault;
}

const char *hazards_check(const Program *p, const Op *without)
{
    Simulations sims = simulate_step(p, NULL, 1);
    const char *fault = NULL;
    for (int i = 0; i < sims.n && !fault; i++)
        fault = check_simulation(p, without, sims.at[i]);
    return fault;
}
