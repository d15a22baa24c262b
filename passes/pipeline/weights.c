/* weights.c: lets the gradients of weights wait for an action of their own
 * (zero_bubble).
 *
 * before   %dy.2, %dw = loop{n=4, reverse=true} : …, … backward cut=1 {
 *            carry %dy = …
 *            stack %w = %ws, stack %x = %xs, stack %sum = %sums
 *            %dx = einsum %dy, %w
 *            %g = einsum %dy, %x
 *            %sum.2 = add %sum, %g
 *            yield %dx, %sum.2
 * after    %dy.2, %dys = loop{n=4, reverse=true} : …, … backward cut=1 {
 *            carry %dy = …
 *            stack %w = %ws
 *            %dx = einsum %dy, %w
 *            yield %dx, %dy
 *          …
 *          %dw = loop{n=4, reverse=true} : … weights cut=1 {
 *            stack %dy = %dys, stack %x = %xs, stack %sum = %sums
 *            %g = einsum %dy, %x
 *            %sum.2 = add %sum, %g
 *            yield %sum.2
 *
 * What a stage sends to the one before decides what must be computed first. Of the other
 * ops of the backward pass, products and what is connected with them get the phase
 * PH_WEIGHTS; cheap ones, such as sums for norms, stay. Values that both need are
 * stored for each microbatch in between (ZB-H1, arXiv 2401.10241).
 */
#include "passes/pipeline/weights.h"

#include "ir/analysis/dead.h"
#include "ir/plan/pipeline.h"

typedef struct Weights {
    Program *p;
    IrMarks needs;  /* what the transfers of the backward pass need */
    bool *later;    /* by op id: has the phase PH_WEIGHTS */
    bool *read;     /* by value id: an op of that phase reads it */
    uint32_t nops, nvalues; /* their lengths */
} Weights;

/* ---- which ops ----------------------------------------------------------- */

static bool is_later(const Weights *w, const Op *op)
{
    return op->id >= w->nops || w->later[op->id]; /* new loops are */
}

static bool may_be_later(const Weights *w, const Op *op)
{
    return op->id < w->nops && op->phase == PH_BACKWARD && !w->needs.op[op->id];
}

static bool is_product(const Op *op)
{
    bool product = op_is_einsum(op->kind) || op_is_conv(op->kind) ||
                   op_is_grouped_matmul(op->kind) || op->kind == OP_embedding_grad ||
                   op->kind == OP_embedding_add;
    for (const Op *in = op->body ? op->body->first : NULL; in && !product; in = in->next)
        product = is_product(in);
    return product;
}

static bool reads_later(const Weights *w, const Op *op)
{
    bool reads = false;
    for (int i = 0; i < op->nargs && !reads; i++)
        reads = op->arg[i]->def && op->arg[i]->region == op->region &&
                is_later(w, op->arg[i]->def);
    return reads;
}

/* Lets ops that read the result of a later one be later too; false: there are none. */
static bool join_readers(Weights *w, const Region *r)
{
    bool any = false;
    for (const Op *op = r->first; op; op = op->next)
        if (may_be_later(w, op) && !w->later[op->id] && reads_later(w, op))
            any = w->later[op->id] = true;
    return any;
}

/* The same for ops whose results a later one reads. */
static bool join_producers(Weights *w, const Region *r)
{
    bool any = false;
    for (const Op *op = r->last; op; op = op->prev) {
        bool read = false;
        for (int i = 0; i < op->nouts; i++)
            read |= op->out[i]->id < w->nvalues && w->read[op->out[i]->id];
        if (read && may_be_later(w, op) && !w->later[op->id])
            any = w->later[op->id] = true;
        for (int i = 0; i < op->nargs && is_later(w, op); i++)
            if (op->arg[i]->id < w->nvalues)
                w->read[op->arg[i]->id] = true;
    }
    return any;
}

/* Marks the products of a region, and what is connected with them; false: none. */
static bool mark_later(Weights *w, const Region *r)
{
    bool any = false, more = true;
    for (const Op *op = r->first; op; op = op->next) {
        if (may_be_later(w, op) && is_product(op))
            w->later[op->id] = true;
        any |= is_later(w, op);
    }
    while (any && more) {
        more = join_readers(w, r);
        more |= join_producers(w, r);
    }
    return any;
}

/* ---- loops --------------------------------------------------------------- */

static void set_phase(Op *op)
{
    op->phase = PH_WEIGHTS;
    for (Op *in = op->body ? op->body->first : NULL; in; in = in->next)
        set_phase(in);
}

/* A loop that is divided, the second part, and what of the first is in the second. */
typedef struct Halves {
    Program *p;
    Op *loop, *later;
    Value **map; /* by value id */
    uint32_t nvalues;
} Halves;

static Op *new_loop(Program *p, const Op *loop)
{
    Build b = {.p = p, .region = loop->region, .before = loop->next,
               .phase = PH_WEIGHTS, .loc = loop->loc, .path = loop->path};
    Op *later = ir_open(&b, OP_loop, 0, NULL, 0, 0, loop->attr);
    later->cut = loop->cut;
    later->rounds = loop->rounds;
    return later;
}

/* The value of the first part in the second one: an argument of the loop as in the
 * first, what an iteration has made from a stack. */
static Value *in_second(Halves *h, Value *v)
{
    if (v->region == h->later->body || v->id >= h->nvalues)
        return v; /* an op that moved makes it */
    if (h->map[v->id])
        return h->map[v->id];
    const Op *loop = h->loop;
    bool argument = !v->def, stack = argument && loop_is_stack(loop, v->index);
    Value *inner;
    if (argument && !stack && v->index >= loop->ncarry)
        inner = ir_loop_add_free(h->p, h->later, loop->arg[v->index]);
    else if (stack)
        inner = ir_loop_add_stack(h->p, h->later, loop->arg[v->index]);
    else
        inner = ir_loop_add_stack(h->p, h->later,
                                  ir_loop_add_yield(h->p, h->loop, v));
    return h->map[v->id] = inner;
}

/* Moves the results that ops of the second part make. */
static void move_results(Halves *h)
{
    Op *loop = h->loop;
    for (int i = loop->nouts - 1; i >= loop->ncarry; i--) {
        Value *v = loop->body->yield[i];
        if (v->region != h->later->body)
            continue;
        Value *out = loop->out[i];
        Value *now = ir_loop_add_yield(h->p, h->later, v);
        ir_replace_uses(loop->region, out, now);
        ir_loop_drop_result(h->p, loop, i);
    }
}

static void drop_unread(Program *p, Op *loop)
{
    for (int i = loop->nargs - 1; i >= loop->ncarry; i--)
        if (ir_count_uses(loop->body->arg[i]) == 0)
            ir_loop_drop_arg(p, loop, i);
}

static void divide(Weights *w, Op *loop)
{
    Program *p = w->p;
    Halves h = {.p = p, .loop = loop, .later = new_loop(p, loop),
                .map = NEW_ARRAY(p->arena, Value *, p->nvalues),
                .nvalues = p->nvalues};
    for (Op *op = loop->body->first, *next; op; op = next) {
        next = op->next;
        if (is_later(w, op)) {
            ir_move(op, h.later->body, NULL);
            set_phase(op);
        }
    }
    for (Op *op = h.later->body->first; op; op = op->next)
        for (int i = 0; i < op->nargs; i++)
            op->arg[i] = in_second(&h, op->arg[i]);
    move_results(&h);
    drop_unread(p, loop);
}

/* ---- the pass ------------------------------------------------------------ */

static void find_needs(Weights *w, const Op *staged)
{
    w->needs = ir_marks(w->p);
    for_ops(op, w->p->step)
        w->needs.partial[op->id] = op->kind == OP_loop;
    for (Op *op = staged->body->first; op; op = op->next)
        if (op->phase == PH_BACKWARD && op_transfers(op))
            ir_mark_op(&w->needs, op);
    ir_mark_dependences(&w->needs);
}

void weights_divide(Program *p, Op *staged)
{
    Weights w = {.p = p, .nops = p->nops, .nvalues = p->nvalues,
                 .later = NEW_ARRAY(p->arena, bool, p->nops),
                 .read = NEW_ARRAY(p->arena, bool, p->nvalues)};
    find_needs(&w, staged);
    for (Op *op = staged->body->first, *next; op; op = next) {
        next = op->next;
        if (op->kind == OP_loop && op->phase == PH_BACKWARD && op->id < w.nops &&
            w.needs.op[op->id] && mark_later(&w, op->body))
            divide(&w, op);
    }
    mark_later(&w, staged->body);
    VEC(Op *) later = {0};
    for (Op *op = staged->body->first; op; op = op->next)
        if (is_later(&w, op))
            vec_push(p->arena, &later, op);
    for (int i = 0; i < later.n; i++) {
        set_phase(later.at[i]);
        ir_move(later.at[i], staged->body, NULL);
    }
}
