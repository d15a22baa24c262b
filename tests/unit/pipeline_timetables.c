/* pipeline_timetables.c: tests the timetables of pipelines.
 *
 * For all schedules, 2 to 8 ranks, 1 to 3 stages on a rank and 1 to 16
 * microbatches: all work is done once, with transfers that nothing buffers and
 * one queue on each rank; each stage does each kind of work in the order of the
 * microbatches; the bubble and the numbers of slots are those of the closed
 * forms. A timetable with a fault is refused. Transfers in the order of the work
 * on each rank deadlock. Of timetables in a random order, those are refused that
 * an exhaustive search finds no way through.
 */
#include "check.h"
#include "passes/pipeline/timetable.h"
#include "tests/unit/random.h"

static const struct Kind {
    const char *name;
    PipelineSchedule schedule;
    int per_rank;
} kinds[] = {
    {"gpipe", PIPELINE_GPIPE, 1},
    {"gpipe", PIPELINE_GPIPE, 2},
    {"1f1b", PIPELINE_1F1B, 1},
    {"interleaved", PIPELINE_INTERLEAVED, 2},
    {"interleaved", PIPELINE_INTERLEAVED, 3},
    {"zero_bubble", PIPELINE_ZERO_BUBBLE, 1},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- closed forms -------------------------------------------------------- */

/* With several stages on a rank: if whole groups of microbatches fill it. ZB-H1
 * needs as many microbatches as ranks. */
static void check_bubble(Check *c, const struct Kind *k, const Timetable *t)
{
    double p = t->nranks, m = (double)t->micro, v = k->per_rank;
    bool apart = k->schedule == PIPELINE_ZERO_BUBBLE;
    if ((v > 1 && (k->schedule == PIPELINE_GPIPE || t->micro % t->nranks)) ||
        (apart && m < p))
        return;
    double form = (p - 1) / ((apart ? 3 * m : v * m) + p - 1);
    double is = timetable_bubble(t);
    CHECK(c, is > form - 1e-12 && is < form + 1e-12);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void check_slots(Check *c, const struct Kind *k, const Timetable *t)
{
    int64_t p = t->nranks, m = t->micro, v = k->per_rank;
    for (int r = 0; r < p; r++) {
        int64_t all = 0, most = m * v;
        for (int s = r; s < t->nstages; s += (int)p)
            all += t->slots[s];
        if (k->schedule == PIPELINE_1F1B)
            most = least(m, p - r);
        else if (k->schedule == PIPELINE_ZERO_BUBBLE)
            most = least(m, p);
        else if (k->schedule == PIPELINE_INTERLEAVED && m % p == 0)
            /* The stages of a rank have their most at different times. */
            most = least(m * v, v * (2 * (p - 1 - r) + (v - 1) * p + 1));
        CHECK(c, k->schedule == PIPELINE_INTERLEAVED ? all <= most
                                                      : all == most);
    }
}

/* ---- the order ----------------------------------------------------------- */

static void check_order(Check *c, Arena *a, const Timetable *t)
{
    for (int r = 0; r < t->nranks; r++) {
        int64_t *next[3];
        bool ordered = true, own = true;
        for (int i = 0; i < 3; i++)
            next[i] = NEW_ARRAY(a, int64_t, t->nstages);
        for (int i = 0; i < t->rank[r].n; i++) {
            const Action *x = &t->rank[r].at[i];
            if (x->kind > ACTION_WEIGHTS)
                continue;
            ordered &= next[x->kind][x->stage]++ == x->micro;
            own &= x->stage % t->nranks == r;
        }
        CHECK(c, ordered && own);
    }
}

/* ---- faults -------------------------------------------------------------- */

static Timetable copy(Arena *a, const Timetable *t)
{
    Timetable u = *t;
    u.rank = NEW_ARRAY(a, Actions, t->nranks);
    for (int r = 0; r < t->nranks; r++)
        for (int i = 0; i < t->rank[r].n; i++)
            vec_push(a, &u.rank[r], t->rank[r].at[i]);
    return u;
}

typedef enum FaultKind {
    LEFT_OUT,
    DOUBLED,
    OTHER_MICRO,
    OTHER_STAGE,
    OTHER_DIRECTION,
    OTHER_WAY, /* a send that receives */
    FAULTS
} FaultKind;

static void inject(Arena *a, Actions *list, int at, FaultKind fault,
                   const Timetable *t)
{
    Action *x = &list->at[at], again = *x;
    switch (fault) {
    case LEFT_OUT:
        for (int i = at; i + 1 < list->n; i++)
            list->at[i] = list->at[i + 1];
        list->n--;
        break;
    case DOUBLED:
        vec_push(a, list, again);
        break;
    case OTHER_MICRO: x->micro = (x->micro + 1) % t->micro; break;
    case OTHER_STAGE: x->stage = (x->stage + 1) % t->nstages; break;
    case OTHER_DIRECTION: x->gradient = !x->gradient; break;
    case OTHER_WAY:
    case FAULTS:
        x->kind = x->kind == ACTION_SEND ? ACTION_RECEIVE : ACTION_SEND;
    }
}

static void check_faults(Check *c, const Timetable *t)
{
    for (int r = 0; r < t->nranks; r++)
        for (int i = 0; i < t->rank[r].n; i++)
            for (FaultKind fault = 0; fault < FAULTS; fault++) {
                bool sends = t->rank[r].at[i].kind >= ACTION_SEND;
                if ((fault >= OTHER_DIRECTION && !sends) ||
                    (fault == OTHER_MICRO && t->micro == 1))
                    continue;
                Arena *a = arena_new();
                Timetable bad = copy(a, t);
                inject(a, &bad.rank[r], i, fault, t);
                CHECK(c, timetable_fault(a, &bad) != NULL);
                arena_free(a);
            }
}

/* Moves each transfer to the work that it follows or precedes on its rank. */
static Timetable in_work_order(Arena *a, const Timetable *t)
{
    Timetable u = *t;
    u.rank = NEW_ARRAY(a, Actions, t->nranks);
    for (int r = 0; r < t->nranks; r++) {
        const Actions *all = &t->rank[r];
        for (int i = 0; i < all->n; i++) {
            const Action *x = &all->at[i];
            bool gradient = x->kind == ACTION_BACKWARD;
            int step = gradient ? -1 : 1;
            if (x->kind >= ACTION_SEND)
                continue;
            for (int k = 0; k < all->n; k++)
                if (all->at[k].kind == ACTION_RECEIVE &&
                    x->kind != ACTION_WEIGHTS &&
                    all->at[k].gradient == gradient &&
                    all->at[k].micro == x->micro &&
                    all->at[k].stage + step == x->stage)
                    vec_push(a, &u.rank[r], all->at[k]);
            vec_push(a, &u.rank[r], *x);
            for (int k = 0; k < all->n; k++)
                if (all->at[k].kind == ACTION_SEND &&
                    x->kind != ACTION_WEIGHTS &&
                    all->at[k].gradient == gradient &&
                    all->at[k].micro == x->micro && all->at[k].stage == x->stage)
                    vec_push(a, &u.rank[r], all->at[k]);
        }
    }
    return u;
}

/* ---- random orders ------------------------------------------------------- */

enum { SEARCH_RANKS = 3, SEARCH_ACTIONS = 48 };

typedef struct Search {
    const Timetable *t;
    bool *seen; /* by the numbers of actions that ranks have done */
} Search;

/* Whether the first at[] actions of the ranks include this one. */
static bool is_done(const Search *s, const int *at, ActionKind kind,
                    bool gradient, int stage, int64_t micro)
{
    for (int r = 0; r < s->t->nranks; r++)
        for (int i = 0; i < at[r]; i++) {
            const Action *x = &s->t->rank[r].at[i];
            if (x->kind == kind && x->gradient == gradient &&
                x->stage == stage && x->micro == micro)
                return true;
        }
    return false;
}

static bool has_operands(const Search *s, const int *at, const Action *x)
{
    int last = s->t->nstages - 1;
    if (x->kind == ACTION_FORWARD)
        return x->stage == 0 || is_done(s, at, ACTION_RECEIVE, false,
                                        x->stage - 1, x->micro);
    if (x->kind == ACTION_WEIGHTS)
        return is_done(s, at, ACTION_BACKWARD, false, x->stage, x->micro);
    return is_done(s, at, ACTION_FORWARD, false, x->stage, x->micro) &&
           (x->stage == last || is_done(s, at, ACTION_RECEIVE, true,
                                        x->stage + 1, x->micro));
}

/* The rank that receives what x sends, if that is its next action; -1: none. */
static int received_by(const Search *s, const int *at, const Action *x)
{
    ActionKind of = x->gradient ? ACTION_BACKWARD : ACTION_FORWARD;
    for (int r = 0; r < s->t->nranks; r++) {
        const Action *y =
            at[r] < s->t->rank[r].n ? &s->t->rank[r].at[at[r]] : NULL;
        if (y && y->kind == ACTION_RECEIVE && y->gradient == x->gradient &&
            y->stage == x->stage && y->micro == x->micro &&
            is_done(s, at, of, false, x->stage, x->micro))
            return r;
    }
    return -1;
}

/* Whether any order of the ranks' next actions ends all. */
static bool finds_way(Search *s, int *at)
{
    int state = 0, left = 0;
    for (int r = 0; r < s->t->nranks; r++) {
        state = state * SEARCH_ACTIONS + at[r];
        left += s->t->rank[r].n - at[r];
    }
    if (left == 0 || s->seen[state])
        return left == 0;
    s->seen[state] = true;
    for (int r = 0; r < s->t->nranks; r++) {
        if (at[r] == s->t->rank[r].n)
            continue;
        const Action *x = &s->t->rank[r].at[at[r]];
        int other = x->kind == ACTION_SEND ? received_by(s, at, x) : -1;
        if (x->kind >= ACTION_SEND ? other < 0 : !has_operands(s, at, x))
            continue;
        at[r]++;
        if (other >= 0)
            at[other]++;
        bool found = finds_way(s, at);
        at[r]--;
        if (other >= 0)
            at[other]--;
        if (found)
            return true;
    }
    return false;
}

/* Exchanges neighbors in the order of a rank. */
static void shuffle(Timetable *t, Rng *r)
{
    for (int64_t n = rng_below(r, 4); n > 0; n--) {
        Actions *list = &t->rank[rng_below(r, t->nranks)];
        int64_t i = rng_below(r, list->n - 1);
        Action x = list->at[i];
        list->at[i] = list->at[i + 1];
        list->at[i + 1] = x;
    }
}

static void check_random(Check *c, uint64_t seed, int *refused)
{
    Arena *a = arena_new();
    Rng r = {seed};
    const struct Kind *k = &kinds[rng_below(&r, KINDS)];
    int ranks = (int)(2 + rng_below(&r, 2));
    int64_t micro = 1 + rng_below(&r, k->per_rank > 1 ? 2 : 3);
    Timetable t = timetable_new(a, k->schedule, ranks, k->per_rank, micro);
    shuffle(&t, &r);
    Search s = {&t, NEW_ARRAY(a, bool, SEARCH_ACTIONS * SEARCH_ACTIONS *
                                           SEARCH_ACTIONS)};
    int at[SEARCH_RANKS] = {0};
    bool fits = true;
    for (int i = 0; i < ranks; i++)
        fits &= t.rank[i].n < SEARCH_ACTIONS;
    bool fault = timetable_fault(a, &t) != NULL;
    CHECK(c, fits && fault != finds_way(&s, at));
    *refused += fault;
    arena_free(a);
}

/* ---- all ----------------------------------------------------------------- */

static void check_kind(Check *c, const struct Kind *k, int ranks, int64_t micro)
{
    Arena *a = arena_new();
    Timetable t = timetable_new(a, k->schedule, ranks, k->per_rank, micro);
    const char *fault = timetable_fault(a, &t);
    CHECK_TEXT(c, fault, NULL);
    int failed = c->failed;
    check_order(c, a, &t);
    check_bubble(c, k, &t);
    check_slots(c, k, &t);
    if (ranks <= 4 && micro <= few_or_all(5, 9))
        check_faults(c, &t);
    if (fault || c->failed > failed)
        printf("in: %s, %d ranks, %d stages on each, %d microbatches\n", k->name,
               ranks, k->per_rank, (int)micro);
    arena_free(a);
}

int main(void)
{
    Check c = {0};
    Arena *a = arena_new();
    int stuck[KINDS] = {0};
    for (int i = 0; i < KINDS; i++)
        for (int ranks = 2; ranks <= 8; ranks++)
            for (int64_t micro = 1; micro <= 16; micro++) {
                check_kind(&c, &kinds[i], ranks, micro);
                Timetable t = timetable_new(a, kinds[i].schedule, ranks,
                                            kinds[i].per_rank, micro);
                Timetable naive = in_work_order(a, &t);
                stuck[i] += timetable_fault(a, &naive) != NULL;
            }
    /* Of one stage on a rank gpipe alone does not need the global order. */
    for (int i = 0; i < KINDS; i++)
        CHECK(&c, (stuck[i] > 0) == (kinds[i].schedule != PIPELINE_GPIPE ||
                                     kinds[i].per_rank > 1));
    int refused = 0, count = few_or_all(300, 3000);
    for (int seed = 1; seed <= count; seed++)
        check_random(&c, (uint64_t)seed, &refused);
    CHECK(&c, refused > count / 5 && refused < count * 4 / 5);
    arena_free(a);
    return check_end(&c);
}
