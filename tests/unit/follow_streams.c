/* follow_streams.c: simulates one step with its statements started and
 * finished in orders other than the order of issue.
 *
 * Every piece of the arena holds the number of the statement that wrote it
 * last. A simulation in program order, without overlap, gives the numbers that
 * each statement must read. Then each stream runs one statement at a time, and
 * the streams run concurrently: a statement starts when the records that it
 * waits for exist, does all its writes at that moment, and ends at any later
 * time. Only events order the streams, as on a GPU; the simulation uses no
 * code of hazards.c.
 */
#include "tests/unit/follow_streams.h"

#include "passes/sync/simulate.h"
#include "tests/unit/random.h"

#include <stdlib.h>

/* A limit that keeps every iteration of a loop in a simulation. */
enum { NOBODY = -1, ALL_ITERATIONS = 1 << 20 };

typedef struct Follow {
    const Program *p;
    int index; /* of the simulation */
    Simulation t;
    int *expected;        /* by access and piece: the writer that it must see */
    int *place;           /* by access: index of its first piece in expected */
    int *wait, *first;    /* instance i waits for the instances
                             wait[first[i]] … wait[first[i + 1] - 1] */
    int *queue[STREAMS], queued[STREAMS], at[STREAMS];
    bool busy[STREAMS];   /* queue[at] has started */
    bool *done;           /* by dynamic instance */
    int *writer;          /* by piece: its last writer */
    const char *fault;
} Follow;

static const char *name_of(const Follow *f, int instance)
{
    const Op *op = instance == NOBODY ? NULL : f->t.instance[instance].op;
    return op && op->nouts ? op->out[0]->name : op ? op_info(op->kind)->name
                                                   : "begin or end";
}

/* ---- waits --------------------------------------------------------------- */

/* The instances that a stream waits for before its next statement. */
typedef VEC(int) Pending;

static void begin_waits(Follow *f, int i, int *n, Pending *pending)
{
    for (int k = 0; k < pending->n; k++)
        f->wait[(*n)++] = pending->at[k];
    pending->n = 0;
    f->first[i + 1] = *n;
}

/* A wait is for the next statement of its stream, which may come after statements
 * of other streams. */
static void find_waits(Follow *f, const Op *without)
{
    Arena *a = f->p->arena;
    int *record = NEW_ARRAY(a, int, program_event_slots(f->p) + 1), n = 0;
    int last[STREAMS]; /* by stream: its last statement */
    Pending pending[STREAMS] = {0};
    for (int i = 0; i < f->t.n; i++)
        n += !instance_is_statement(&f->t.instance[i]);
    f->wait = NEW_ARRAY(a, int, n + 1);
    f->first = NEW_ARRAY(a, int, f->t.n + 1);
    for (int i = 0; i <= program_event_slots(f->p); i++)
        record[i] = NOBODY;
    for (int i = 0; i < STREAMS; i++)
        last[i] = NOBODY;
    n = 0;
    for (int i = 0; i < f->t.n; i++) {
        const Instance *instance = &f->t.instance[i];
        int stream = instance->stream;
        f->first[i + 1] = n;
        if (instance_is_statement(instance)) {
            begin_waits(f, i, &n, &pending[stream]);
            last[stream] = i;
            f->queue[stream][f->queued[stream]++] = i;
        } else if (instance->op->kind == OP_record) {
            record[instance_event_slot(instance)] = last[stream];
        } else if (instance->op->kind == OP_wait && instance->op != without &&
                   (instance->first || !attr_first(instance->op)) &&
                   record[instance_event_slot(instance)] != NOBODY) {
            vec_push(a, &pending[stream],
                     record[instance_event_slot(instance)]);
        }
    }
}

/* ---- bytes --------------------------------------------------------------- */

typedef void Visit(Follow *f, int instance, const Access *a, int piece,
                   int *expected);

static void visit(Follow *f, int instance, bool write, Visit *what)
{
    const Instance *x = &f->t.instance[instance];
    for (int i = x->first_access; i < x->first_access + x->naccesses; i++) {
        const Access *a = &f->t.access[i];
        for (int k = a->first; k <= a->last && a->write == write; k++)
            what(f, instance, a, k, &f->expected[f->place[i] + k - a->first]);
    }
}

static void learn(Follow *f, int instance, const Access *a, int piece, int *expected)
{
    (void)instance, (void)a;
    *expected = f->writer[piece];
}

static void put(Follow *f, int instance, const Access *a, int piece, int *expected)
{
    (void)a, (void)expected;
    f->writer[piece] = instance;
}

static void find(Follow *f, int instance, const Access *a, int piece, int *expected)
{
    if (f->writer[piece] != *expected && !f->fault)
        f->fault = arena_printf(
            f->p->arena, "%%%s reads %%%s, which %%%s has written and not %%%s",
            name_of(f, instance), a->value ? a->value->name : "the arena",
            name_of(f, f->writer[piece]), name_of(f, *expected));
}

/* Checks a read at the end of an instance, which may have overwritten its own
 * operands. */
static void find_again(Follow *f, int instance, const Access *a, int piece,
                       int *expected)
{
    if (f->writer[piece] != instance)
        find(f, instance, a, piece, expected);
}

static void keep(Follow *f, int instance, const Access *a, int piece, int *expected)
{
    (void)expected;
    if (f->writer[piece] != instance && !f->fault)
        f->fault = arena_printf(f->p->arena, "%%%s writes %%%s, and %%%s does "
                                "too before it ends", name_of(f, instance),
                                a->value ? a->value->name : "its scratch",
                                name_of(f, f->writer[piece]));
}

static void clear(Follow *f)
{
    for (int i = 0; i < f->t.npieces; i++)
        f->writer[i] = NOBODY;
}

/* ---- the order of the program -------------------------------------------- */

/* Instances of statements: by op, then by iteration. */
static int by_statement(const void *x, const void *y)
{
    const Instance *a = *(const Instance *const *)x, *b = *(const Instance *const *)y;
    if (a->op->id != b->op->id)
        return a->op->id > b->op->id ? 1 : -1;
    for (int i = 0; i < MAX_LOOP_DEPTH; i++)
        if (a->iteration[i] != b->iteration[i])
            return a->iteration[i] < b->iteration[i] ? -1 : 1;
    return 0;
}

/* The instances of statements between begin and end; *n: their number. */
static const Instance **sorted(const Follow *f, const Simulation *t, int *n)
{
    const Instance **instance = NEW_ARRAY(f->p->arena, const Instance *, t->n + 1);
    *n = 0;
    for (int i = 1; i + 1 < t->n; i++)
        if (instance_is_statement(&t->instance[i]))
            instance[(*n)++] = &t->instance[i];
    qsort(instance, (size_t)*n, sizeof *instance, by_statement);
    return instance;
}

/* Lets the ops of a region run where they are. */
static void unschedule(Region *r)
{
    for (Op *op = r->first, *next; op; op = next) {
        next = op->next;
        op->done = false;
        if (op->kind == OP_loop)
            unschedule(op->body);
        else if (op_is_schedule(op->kind))
            ir_remove(op);
    }
}

/* The dynamic instances of f->t in program order. NULL if the program has other
 * instances than are issued. */
static int *program_order(const Follow *f, int *count)
{
    Program *p = ir_copy(f->p);
    unschedule(p->step);
    Simulation t = simulate_step(p, NULL, ALL_ITERATIONS).at[f->index];
    int n;
    const Instance **mine = sorted(f, &f->t, count), **plain = sorted(f, &t, &n);
    int *order = NEW_ARRAY(f->p->arena, int, t.n + 1);
    if (*count != n)
        return NULL;
    order[t.n - 1] = f->t.n - 1;
    for (int i = 0; i < n; i++) {
        if (by_statement(&mine[i], &plain[i]))
            return NULL;
        order[plain[i] - t.instance] = (int)(mine[i] - f->t.instance);
    }
    *count = t.n;
    return order;
}

static void read_in_order(Follow *f)
{
    int n = 0, count;
    const int *order = program_order(f, &count);
    for (int i = 0; i < f->t.naccesses; i++) {
        f->place[i] = n;
        n += f->t.access[i].last - f->t.access[i].first + 1;
    }
    f->expected = NEW_ARRAY(f->p->arena, int, n + 1);
    clear(f);
    if (!order)
        f->fault = "the program has other statements than are issued";
    for (int i = 0; order && i < count; i++) {
        visit(f, order[i], false, learn);
        visit(f, order[i], true, put);
    }
}

/* ---- orders -------------------------------------------------------------- */

static bool can_begin(const Follow *f, int stream)
{
    if (f->busy[stream] || f->at[stream] == f->queued[stream])
        return false;
    int instance = f->queue[stream][f->at[stream]];
    for (int i = f->first[instance]; i < f->first[instance + 1]; i++)
        if (!f->done[f->wait[i]])
            return false;
    return true;
}

static void move(Follow *f, int stream)
{
    int instance = f->queue[stream][f->at[stream]];
    if (!f->busy[stream]) {
        visit(f, instance, false, find);
        visit(f, instance, true, put);
        f->busy[stream] = true;
        return;
    }
    visit(f, instance, false, find_again);
    visit(f, instance, true, keep);
    f->done[instance] = true;
    f->at[stream]++;
    f->busy[stream] = false;
}

/* The stream that advances next; -1: none can. In a fixed order the streams
 * have priorities, and the last one advances as late as possible. With `eager`
 * it starts a statement as soon as it can and ends it late. */
static int next_stream(const Follow *f, uint64_t order, Rng *r)
{
    int able[STREAMS], n = 0;
    bool eager = order < FOLLOW_FIXED && order % 2;
    int begin = (int)(order / 2 % STREAMS);
    int step = order / 2 / STREAMS % 2 ? STREAMS - 1 : 1;
    for (int i = 0; i < STREAMS; i++) {
        int stream = order < FOLLOW_FIXED ? (begin + step * i) % STREAMS : i;
        if (eager && can_begin(f, stream))
            return stream;
        if (f->busy[stream] || can_begin(f, stream))
            able[n++] = stream;
    }
    return n == 0 ? -1 : able[order < FOLLOW_FIXED ? 0 : rng_below(r, n)];
}

static const char *follow_simulation(const Program *p, uint64_t order, const Op *without,
                                     const Simulations *all, int index)
{
    Follow f = {.p = p, .index = index, .t = all->at[index]};
    Rng r = {order};
    int left = 0;
    for (int i = 0; i < STREAMS; i++)
        f.queue[i] = NEW_ARRAY(p->arena, int, f.t.n + 1);
    f.done = NEW_ARRAY(p->arena, bool, f.t.n + 1);
    f.place = NEW_ARRAY(p->arena, int, f.t.naccesses + 1);
    f.writer = NEW_ARRAY(p->arena, int, f.t.npieces + 1);
    find_waits(&f, without);
    for (int i = 0; i < STREAMS; i++)
        left += f.queued[i];
    read_in_order(&f);
    clear(&f);
    while (left > 0 && !f.fault) {
        int stream = next_stream(&f, order, &r);
        if (stream < 0)
            return "no stream can go on";
        left -= f.busy[stream];
        move(&f, stream);
    }
    return f.fault;
}

const char *follow_streams(const Program *p, uint64_t order, const Op *without)
{
    Simulations all = simulate_step(p, NULL, ALL_ITERATIONS);
    const char *fault = NULL;
    for (int i = 0; i < all.n && !fault; i++)
        fault = follow_simulation(p, order, without, &all, i);
    return fault;
}
