/* fuse_share.c: recomputes cheap values in the kernels that read them, instead
 * of storing them, where that moves fewer bytes.
 *
 *   %n = fused { mul %x, %r }             (x and r are in memory)
 *   %d = fused { … %n … }          ->     %d = fused { %n.2 = mul %x, %r … }
 *
 * The recomputed expression consists of elementwise ops, constants, random
 * numbers and views, from the value down to leaves, which are in memory anyway.
 * At most one of its ops is expensive (exp and the like). The value is replaced
 * in all its readers if together they move fewer bytes, and no reader needs
 * more bytes of further leaves than the value has. Values of up to SMALL_BYTES
 * are replaced even if that saves no bytes.
 */
#include "passes/fusion/fuse.h"

enum {
    MAX_EXPRESSION = 12, /* ops of an expression */
    MAX_EXPENSIVE = 1,   /* expensive ops (exp and the like) among them */
    SMALL_BYTES = 64,    /* values up to this size are always recomputed */
};

typedef struct Expression {
    OpList op; /* in program order, the value's producer last */
    VEC(const Value *) leaf;
    int expensive;
    bool fits;
} Expression;

static bool can_repeat(const Op *op)
{
    return op_is_elementwise(op->kind) || op->kind == OP_full ||
           op->kind == OP_iota || op->kind == OP_onehot ||
           op->kind == OP_random || op->kind == OP_reshape;
}

static void collect_expression(Fuser *f, Expression *e, int group, Op *op)
{
    if (vec_has(&e->op, op))
        return;
    if (!can_repeat(op) || e->op.n >= MAX_EXPRESSION) {
        e->fits = false;
        return;
    }
    e->expensive += fuse_is_expensive(op->kind);
    for (int i = 0; i < op->nargs && e->fits; i++) {
        Value *v = op->arg[i];
        if (fuse_producer(f, v) == group && !fuse_is_stored(f, group, v))
            collect_expression(f, e, group, v->def);
        else if (!list_has(e->leaf.at, e->leaf.n, v))
            vec_push(f->arena, &e->leaf, v);
    }
    if (!vec_has(&e->op, op))
        vec_push(f->arena, &e->op, op);
}

static bool group_reads(const Fuser *f, int group, const Value *v)
{
    const OpList *ops = &f->group[group].op;
    for (int i = 0; i < ops->n; i++)
        for (int k = 0; k < ops->at[i]->nargs; k++)
            if (ops->at[i]->arg[k] == v)
                return true;
    return false;
}

/* Bytes of the leaves that the reader does not read yet. */
static int64_t new_bytes(const Fuser *f, const Expression *e, int reader)
{
    int64_t bytes = 0;
    for (int i = 0; i < e->leaf.n; i++)
        if (!group_reads(f, reader, e->leaf.at[i]))
            bytes += fuse_bytes(f->p, e->leaf.at[i]);
    return bytes;
}

/* Whether the reader with the expression is a legal kernel. */
static bool is_kernel(Fuser *f, const Expression *e, int reader)
{
    OpList ops = fuse_merged(f, &e->op, &f->group[reader].op);
    bool *stored = NEW_ARRAY(f->arena, bool, ops.n + 1);
    for (int i = 0; i < ops.n; i++)
        stored[i] = f->group_of[ops.at[i]->id] == reader &&
                    fuse_is_stored(f, reader, ops.at[i]->out[0]);
    return fuse_try(f, &ops, stored);
}

/* The groups that read v, without its own; -1: one is not a kernel. */
static int reading_groups(const Fuser *f, const Value *v, int own, int *readers,
                          int capacity)
{
    int n = 0;
    const OpList *users = &f->users[v->id];
    for (int i = 0; i < users->n; i++) {
        int g = f->group_of[users->at[i]->id], k = 0;
        while (k < n && readers[k] != g)
            k++;
        if (g == own || k < n)
            continue;
        if (n == capacity || !f->group[g].open)
            return -1;
        readers[n++] = g;
    }
    return n;
}

static bool is_worth_it(Fuser *f, const Value *v, const Expression *e,
                        const int *readers, int n)
{
    int64_t bytes = fuse_bytes(f->p, v), gain = bytes;
    Phase phase = v->def->phase;
    if (e->expensive > MAX_EXPENSIVE)
        return false;
    for (int i = 0; i < n; i++) {
        int64_t more = new_bytes(f, e, readers[i]);
        Phase other = f->group[readers[i]].op.at[0]->phase;
        if (phase == PH_INIT && other != PH_INIT)
            return false; /* computed once at start, not in every step */
        if (bytes > SMALL_BYTES && more > bytes)
            return false;
        gain += bytes - more;
        if (!is_kernel(f, e, readers[i]))
            return false;
    }
    return bytes <= SMALL_BYTES || gain > 0;
}

/* Clones the expression before the first reader of v in a group. */
static void repeat(Fuser *f, const Value *v, const Expression *e, int group)
{
    Op *first = NULL;
    const OpList *ops = &f->group[group].op;
    Value **made = NEW_ARRAY(f->arena, Value *, e->op.n + 1);
    for (int i = 0; i < ops->n; i++)
        for (int k = 0; k < ops->at[i]->nargs && !first; k++)
            if (ops->at[i]->arg[k] == v)
                first = ops->at[i];
    for (int i = 0; i < e->op.n; i++) {
        const Op *op = e->op.at[i];
        Value **args = NEW_ARRAY(f->p->arena, Value *, op->nargs);
        for (int k = 0; k < op->nargs; k++) {
            args[k] = op->arg[k];
            for (int j = 0; j < i; j++)
                if (e->op.at[j]->out[0] == op->arg[k])
                    args[k] = made[j];
        }
        made[i] = fuse_copy_op(f->p, op, args, first)->out[0];
    }
    for (int i = 0; i < ops->n; i++)
        for (int k = 0; k < ops->at[i]->nargs; k++)
            if (ops->at[i]->arg[k] == v)
                ops->at[i]->arg[k] = made[e->op.n - 1];
}

/* The decisions of one round: values that are replaced, leaves that must stay,
 * and groups that have changed, which the tables do not show yet. */
typedef struct Round {
    bool *gone, *leaf; /* by id of a value that existed before the round */
    bool *changed;
    bool any;
} Round;

static void consider(Fuser *f, Round *round, Op *op)
{
    enum { MAX_READERS = 64 };
    int readers[MAX_READERS], group = f->group_of[op->id];
    const Value *v = op->out[0];
    int n = reading_groups(f, v, group, readers, MAX_READERS);
    Expression e = {.fits = true};
    if (n <= 0 || round->leaf[v->id])
        return;
    collect_expression(f, &e, group, op);
    for (int i = 0; i < e.leaf.n; i++)
        if (round->gone[e.leaf.at[i]->id])
            return;
    if (!e.fits || !is_worth_it(f, v, &e, readers, n))
        return;
    for (int i = 0; i < n; i++) {
        repeat(f, v, &e, readers[i]);
        round->changed[readers[i]] = true;
    }
    round->gone[v->id] = true;
    for (int i = 0; i < e.leaf.n; i++)
        round->leaf[e.leaf.at[i]->id] = true;
    round->any = true;
}

bool fuse_share(Fuser *f)
{
    uint32_t nvalues = f->p->nvalues;
    Round round = {.gone = NEW_ARRAY(f->arena, bool, nvalues),
                   .leaf = NEW_ARRAY(f->arena, bool, nvalues),
                   .changed = NEW_ARRAY(f->arena, bool, f->ngroups + 1)};
    for (int i = 0; i < f->op.n; i++) {
        Op *op = f->op.at[i];
        int group = f->group_of[op->id];
        if (f->group[group].open && !round.changed[group] &&
            !f->yielded[op->out[0]->id] && fuse_is_stored(f, group, op->out[0]))
            consider(f, &round, op);
    }
    return round.any;
}
