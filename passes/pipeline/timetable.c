/* timetable.c: makes timetables of pipelines; see timetable.h. */
#include "passes/pipeline/timetable.h"

#include <stdlib.h>

#include "base/bug.h"

/* Units of time. */
enum { FORWARD_UNITS = 1, BACKWARD_UNITS = 1, WEIGHTS_UNITS = 1 };

typedef struct Maker {
    Arena *arena;
    PipelineSchedule schedule;
    int per_rank; /* stages */
    Timetable t;
    Actions *forward, *backward; /* by rank: in order */
    int64_t *done[ACTION_WEIGHTS + 1]; /* by stage and microbatch: when it ends;
                                        * -1: not yet */
} Maker;

static int64_t *done_at(const Maker *m, ActionKind kind, int stage, int64_t micro)
{
    return &m->done[kind][stage * m->t.micro + micro];
}

/* ---- the order of the work on a rank ------------------------------------- */

static void add(Maker *m, Actions *list, ActionKind kind, int stage,
                int64_t micro)
{
    vec_push(m->arena, list,
             ((Action){.kind = kind, .stage = stage, .micro = micro}));
}

/* All forward, or backward, actions of a rank: groups of as many microbatches as
 * there are ranks pass through its stages together. A smaller group is the
 * first. */
static Actions in_groups(Maker *m, int rank, ActionKind kind)
{
    Actions list = {0};
    int n = m->t.nranks;
    int64_t size = m->t.micro % n ? m->t.micro % n : n;
    for (int64_t first = 0; first < m->t.micro; first += size, size = n)
        for (int k = 0; k < m->per_rank; k++) {
            int of = kind == ACTION_FORWARD ? k : m->per_rank - 1 - k;
            for (int64_t i = first; i < first + size; i++)
                add(m, &list, kind, of * n + rank, i);
        }
    return list;
}

/* The forward passes before the first backward pass. */
static int64_t warm_up(const Maker *m, int rank, int64_t all)
{
    int after = m->t.nranks - 1 - rank;
    int64_t n = m->schedule == PIPELINE_GPIPE ? all
                : m->per_rank == 1 ? after
                                   : 2 * after + (m->per_rank - 1) * m->t.nranks;
    return n < all ? n : all;
}

/* One forward, one backward after the warm-up, which is `more` longer. The
 * gradients of weights follow later on later ranks (ZB-H1). */
static void order_rank(Maker *m, int rank, int64_t more)
{
    const Actions *forward = &m->forward[rank], *backward = &m->backward[rank];
    Actions *list = &m->t.rank[rank];
    bool apart = m->t.weights_apart;
    int64_t ahead = warm_up(m, rank, forward->n) + more;
    int f = 0, w = 0;
    list->n = 0; /* an earlier attempt's */
    for (int b = 0; b < backward->n; b++) {
        for (; f < forward->n && f <= b + ahead; f++)
            vec_push(m->arena, list, forward->at[f]);
        vec_push(m->arena, list, backward->at[b]);
        for (; apart && w + rank <= b; w++)
            add(m, list, ACTION_WEIGHTS, rank, w);
    }
    for (; apart && w < backward->n; w++)
        add(m, list, ACTION_WEIGHTS, rank, w);
}

/* ---- the ideal run ------------------------------------------------------- */

/* When the tensors exist that the action needs; -1: not yet. */
static int64_t ready(const Maker *m, const Action *x)
{
    int last = m->t.nstages - 1;
    if (x->kind == ACTION_WEIGHTS)
        return *done_at(m, ACTION_BACKWARD, x->stage, x->micro);
    if (x->kind == ACTION_BACKWARD && x->stage < last)
        return *done_at(m, ACTION_BACKWARD, x->stage + 1, x->micro);
    if (x->kind == ACTION_BACKWARD)
        return *done_at(m, ACTION_FORWARD, x->stage, x->micro);
    return x->stage ? *done_at(m, ACTION_FORWARD, x->stage - 1, x->micro) : 0;
}

static int64_t units_of(const Maker *m, ActionKind kind)
{
    bool both = kind == ACTION_BACKWARD && !m->t.weights_apart;
    return kind == ACTION_FORWARD    ? FORWARD_UNITS
           : kind == ACTION_WEIGHTS  ? WEIGHTS_UNITS
           : both                    ? BACKWARD_UNITS + WEIGHTS_UNITS
                                     : BACKWARD_UNITS;
}

/* Runs the actions of the ranks; false: they wait for each other. */
static bool run(Maker *m)
{
    Timetable *t = &m->t;
    int *at = NEW_ARRAY(m->arena, int, t->nranks);
    int64_t *now = NEW_ARRAY(m->arena, int64_t, t->nranks);
    int left = 0;
    t->units = 0;
    for (int k = 0; k <= ACTION_WEIGHTS; k++)
        for (int64_t i = 0; i < t->nstages * t->micro; i++)
            m->done[k][i] = -1;
    for (int r = 0; r < t->nranks; r++)
        left += t->rank[r].n;
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < t->nranks; r++)
            for (; at[r] < t->rank[r].n; at[r]++, left--) {
                Action *x = &t->rank[r].at[at[r]];
                int64_t begin = ready(m, x);
                if (begin < 0)
                    break;
                x->begin = begin > now[r] ? begin : now[r];
                x->end = now[r] = x->begin + units_of(m, x->kind);
                *done_at(m, x->kind, x->stage, x->micro) = x->end;
                t->units = x->end > t->units ? x->end : t->units;
                moved = true;
            }
    }
    return left == 0;
}

static bool runs_with(Maker *m, int64_t more)
{
    for (int r = 0; r < m->t.nranks; r++)
        order_rank(m, r, more);
    return run(m);
}

/* Orders the work so that it can run: with a group of fewer microbatches than
 * ranks, several stages on a rank may need a longer warm-up. Its length is
 * doubled until they run, then bisected. */
static void order_ranks(Maker *m)
{
    int64_t most = m->t.micro * m->per_rank, waits = -1, runs = 0;
    for (int r = 0; r < m->t.nranks; r++) {
        m->forward[r] = in_groups(m, r, ACTION_FORWARD);
        m->backward[r] = in_groups(m, r, ACTION_BACKWARD);
    }
    while (!runs_with(m, runs)) {
        if (runs > most)
            bug("a pipeline of %d stages cannot run", m->t.nstages);
        waits = runs;
        runs = 2 * runs + 1;
    }
    while (runs - waits > 1) {
        int64_t middle = waits + (runs - waits) / 2;
        *(runs_with(m, middle) ? &runs : &waits) = middle;
    }
    runs_with(m, runs);
}

/* ---- transfers ----------------------------------------------------------- */

/* The global order: by time, then gradients first, then by stage. */
static int by_time(const void *x, const void *y)
{
    const Action *a = x, *b = y;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    if (a->gradient != b->gradient)
        return a->gradient ? -1 : 1;
    return a->stage != b->stage   ? a->stage - b->stage
           : a->micro < b->micro  ? -1
                                  : a->micro > b->micro;
}

/* All sends, in the global order. */
static Actions find_transfers(Maker *m)
{
    const Timetable *t = &m->t;
    Actions list = {0};
    for (int r = 0; r < t->nranks; r++)
        for (int i = 0; i < t->rank[r].n; i++) {
            const Action *x = &t->rank[r].at[i];
            bool gradient = x->kind == ACTION_BACKWARD;
            int end = gradient ? 0 : t->nstages - 1;
            if (x->kind != ACTION_WEIGHTS && x->stage != end)
                vec_push(m->arena, &list,
                         ((Action){ACTION_SEND, gradient, x->stage, x->micro,
                                   x->end, x->end}));
        }
    if (list.n)
        qsort(list.at, (size_t)list.n, sizeof *list.at, by_time);
    return list;
}

static int rank_of(const Timetable *t, int stage)
{
    return stage % t->nranks;
}

/* The stage that receives what the action sends. */
static int receiver(const Action *x)
{
    return x->gradient ? x->stage - 1 : x->stage + 1;
}

/* Inserts the transfers into the work of the rank, each before the work that
 * begins when its tensors exist, or later. */
static Actions with_transfers(Maker *m, int rank, const Actions *all)
{
    const Timetable *t = &m->t;
    Actions list = {0};
    int next = 0;
    for (int i = 0; i <= t->rank[rank].n; i++) {
        const Action *work = i < t->rank[rank].n ? &t->rank[rank].at[i] : NULL;
        for (; next < all->n &&
               (!work || all->at[next].begin <= work->begin); next++) {
            Action x = all->at[next];
            bool sends = rank_of(t, x.stage) == rank;
            if (!sends && rank_of(t, receiver(&x)) != rank)
                continue;
            x.kind = sends ? ACTION_SEND : ACTION_RECEIVE;
            vec_push(m->arena, &list, x);
        }
        if (work)
            vec_push(m->arena, &list, *work);
    }
    return list;
}

static void insert_transfers(Maker *m)
{
    Actions all = find_transfers(m);
    for (int r = 0; r < m->t.nranks; r++)
        m->t.rank[r] = with_transfers(m, r, &all);
}

/* ---- slots --------------------------------------------------------------- */

static void count_slots(Maker *m)
{
    Timetable *t = &m->t;
    ActionKind last = t->weights_apart ? ACTION_WEIGHTS : ACTION_BACKWARD;
    int64_t *live = NEW_ARRAY(m->arena, int64_t, t->nstages);
    t->slots = NEW_ARRAY(m->arena, int64_t, t->nstages);
    for (int r = 0; r < t->nranks; r++)
        for (int i = 0; i < t->rank[r].n; i++) {
            const Action *x = &t->rank[r].at[i];
            int64_t *n = &live[x->stage];
            *n += x->kind == ACTION_FORWARD;
            if (*n > t->slots[x->stage])
                t->slots[x->stage] = *n;
            *n -= x->kind == last;
        }
}

Timetable timetable_new(Arena *a, PipelineSchedule schedule, int nranks,
                        int stages_per_rank, int64_t micro)
{
    Maker m = {.arena = a, .schedule = schedule, .per_rank = stages_per_rank};
    if (schedule == PIPELINE_ZERO_BUBBLE && stages_per_rank != 1)
        bug("zero_bubble with %d stages on a rank", stages_per_rank);
    m.t = (Timetable){.nranks = nranks,
                      .nstages = nranks * stages_per_rank,
                      .micro = micro,
                      .weights_apart = schedule == PIPELINE_ZERO_BUBBLE,
                      .rank = NEW_ARRAY(a, Actions, nranks)};
    m.forward = NEW_ARRAY(a, Actions, nranks);
    m.backward = NEW_ARRAY(a, Actions, nranks);
    for (int k = 0; k <= ACTION_WEIGHTS; k++)
        m.done[k] = NEW_ARRAY(a, int64_t, m.t.nstages * micro);
    order_ranks(&m);
    insert_transfers(&m);
    count_slots(&m);
    return m.t;
}

double timetable_bubble(const Timetable *t)
{
    int64_t work = (FORWARD_UNITS + BACKWARD_UNITS + WEIGHTS_UNITS) * t->micro *
                   (t->nstages / t->nranks);
    return (double)(t->units - work) / (double)t->units;
}

/* ---- the proof ----------------------------------------------------------- */

static bool same_transfer(const Action *a, const Action *b)
{
    return a->gradient == b->gradient && a->stage == b->stage &&
           a->micro == b->micro;
}

typedef struct Proof {
    const Timetable *t;
    int *at;     /* by rank: its present action */
    bool *have[2]; /* by stage and microbatch: the rank has received the tensors
                    * of a forward pass; of a backward pass */
    bool *done[ACTION_WEIGHTS + 1]; /* the work that is done */
} Proof;

static bool *cell(const Proof *f, bool *const *of, int kind, int stage,
                  int64_t micro)
{
    return &of[kind][stage * f->t->micro + micro];
}

/* Whether the rank's work has its operands, and is not done yet; then it is
 * done. */
static bool work(const Proof *f, const Action *x)
{
    bool backward = x->kind == ACTION_BACKWARD;
    int end = backward ? f->t->nstages - 1 : 0;
    bool *done = cell(f, f->done, x->kind, x->stage, x->micro);
    bool ready = x->stage == end ||
                 *cell(f, f->have, backward, x->stage, x->micro);
    if (x->kind == ACTION_WEIGHTS)
        ready = *cell(f, f->done, ACTION_BACKWARD, x->stage, x->micro);
    if (backward)
        ready &= *cell(f, f->done, ACTION_FORWARD, x->stage, x->micro);
    if (*done || !ready)
        return false;
    return *done = true;
}

/* Whether the rank can send its present action's tensors: they exist, and the
 * receiver's present action is the receive. Then both are done. */
static bool transfer(const Proof *f, const Action *x)
{
    int to = receiver(x);
    if (to < 0 || to >= f->t->nstages)
        return false;
    int r = rank_of(f->t, to);
    const Actions *other = &f->t->rank[r];
    const Action *y =
        f->at[r] < other->n ? &other->at[f->at[r]] : NULL;
    bool *have = cell(f, f->have, x->gradient, to, x->micro);
    ActionKind of = x->gradient ? ACTION_BACKWARD : ACTION_FORWARD;
    if (*have || !*cell(f, f->done, of, x->stage, x->micro) || !y ||
        y->kind != ACTION_RECEIVE || !same_transfer(x, y))
        return false;
    *have = true;
    f->at[r]++;
    return true;
}

static const char *action_text(Arena *a, const Action *x)
{
    static const char *const verb[] = {"run the forward pass", "run the backward "
                                       "pass", "compute the gradients of weights",
                                       "send", "receive"};
    return arena_printf(a, "%s of stage %d, microbatch %lld%s", verb[x->kind],
                        x->stage, (long long)x->micro,
                        x->gradient ? ", a gradient" : "");
}

/* The first work that no rank has done; NULL: none. */
static const char *left_out(Arena *a, const Proof *f)
{
    int last = f->t->weights_apart ? ACTION_WEIGHTS : ACTION_BACKWARD;
    for (int kind = 0; kind <= last; kind++)
        for (int s = 0; s < f->t->nstages; s++)
            for (int64_t i = 0; i < f->t->micro; i++)
                if (!*cell(f, f->done, kind, s, i))
                    return arena_printf(
                        a, "no rank would %s",
                        action_text(a, &(Action){.kind = (ActionKind)kind,
                                                 .stage = s, .micro = i}));
    return NULL;
}

const char *timetable_fault(Arena *a, const Timetable *t)
{
    Proof f = {t, NEW_ARRAY(a, int, t->nranks), {0}, {0}};
    for (int k = 0; k <= ACTION_WEIGHTS; k++)
        f.done[k] = NEW_ARRAY(a, bool, t->nstages * t->micro);
    for (int k = 0; k < 2; k++)
        f.have[k] = NEW_ARRAY(a, bool, t->nstages * t->micro);
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < t->nranks; r++)
            for (; f.at[r] < t->rank[r].n; f.at[r]++) {
                const Action *x = &t->rank[r].at[f.at[r]];
                bool goes = x->kind <= ACTION_WEIGHTS ? work(&f, x)
                            : x->kind == ACTION_SEND  ? transfer(&f, x)
                                                      : false;
                if (!goes)
                    break;
                moved = true;
            }
    }
    for (int r = 0; r < t->nranks; r++)
        if (f.at[r] < t->rank[r].n)
            return arena_printf(a, "rank %d waits to %s", r,
                                action_text(a, &t->rank[r].at[f.at[r]]));
    return left_out(a, &f);
}
