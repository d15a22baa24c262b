/* chunk.c: runs the head in chunks of tokens, for the setting `head_chunk`.
 *
 * requires: STAGE_STORED, after accumulate
 * ensures:  the same stage. Where a rank's microbatch has more than
 *           `head_chunk` tokens, the contraction that makes the logits, the
 *           rows of the loss and their gradients run in one loop over chunks of
 *           tokens, so that the logits of a whole batch are never stored. The
 *           loss and the weight's gradient are carries in f32; the gradient of
 *           the head's input is concatenated from the chunks.
 *
 * before   %z = einsum{spec="bsk,vk->bsv", …} %h, %w : f32[8, 64, 512]
 *          %e = exp %z : f32[8, 64, 512] forward
 *          %loss = sum{dims=[0, 1, 2], keep=false} %e : f32[] forward
 *          %dw = einsum{spec="bsv,bsk->vk", …} %e, %h : f32[512, 16] backward
 *          %dh = einsum{spec="bsv,vk->bsk", …} %e, %w : f32[8, 64, 16] …
 * after    %h.2 = fold{dim=0, n=4} %h : f32[4 x 2, 64, 16] forward
 *          %loss, %dw, %dh.2 = loop{n=4, reverse=false} : … forward {
 *            carry %sum = %zero : f32[]
 *            carry %dw.2 = %zero.2 : f32[512, 16]
 *            stack %h.3 = %h.2 : f32[2, 64, 16]
 *            free %w.2 = %w : f32[512, 16]
 *            %z = einsum{spec="bsk,vk->bsv", …} %h.3, %w.2 : f32[2, 64, 512]
 *            …
 *          }
 *          %dh = unfold{dim=0} %dh.2 : f32[8, 64, 16] backward
 *
 * All chunks have equal size: whole sequences or, where a sequence is longer
 * than a chunk, parts of each sequence in an inner loop. During this pass the
 * chunks are a loop axis of the mesh: the types say how a value is split into
 * chunks, and loop_axis.c builds the loop from them.
 */
#include <string.h>

#include "passes/microbatch/chunk.h"
#include "passes/pass.h"

/* A chunk has more than 1 / LEAST_PART of the tokens that the user asks for. */
enum { LEAST_PART = 4 };

/* ---- the head ------------------------------------------------------------ */

/* Finds the last forward contraction in the region that has tokens: one operand
 * has the leading dim of the result, the other lacks it. */
static bool find_head(Chunk *c)
{
    c->head = NULL;
    for (Op *op = c->t.r->first; op; op = op->next) {
        Rule r;
        if (!op_is_einsum(op->kind) || op->phase != PH_FORWARD ||
            op->out[0]->type.ndim < 2)
            continue;
        rule_of(c->t.p, op, &r);
        int f = rule_split_factor(&r, r.nargs, 0, 1);
        if (f < 0 && op->out[0]->type.ndim > 2) /* a batch of one sequence: try
                                                 * dim 1 */
            f = rule_split_factor(&r, r.nargs, 1, 1);
        bool left = f >= 0 && rule_factor_dim(&r, 0, f) != -1;
        bool right = f >= 0 && rule_factor_dim(&r, 1, f) != -1;
        if (left == right)
            continue;
        c->head = op;
        c->operand = right;
    }
    return c->head != NULL;
}

/* The region that the head is in: the step, or the loop over microbatches. */
static Region *head_region(Program *p)
{
    for (Op *op = p->step->first; op; op = op->next)
        if (loop_is_microbatches(p, op))
            return op->body;
    return p->step;
}

/* ---- values that the backward pass recomputes ---------------------------- */

static bool same_attributes(const Op *x, const Op *y)
{
    const AttrName *name = op_info(x->kind)->attr;
    for (int i = 0; name[i]; i++)
        if (!attr_equal(attr_type_of(name[i]), &x->attr[i], &y->attr[i]))
            return false;
    return true;
}

static Value *original(Chunk *c, Value *v);

/* Whether result k of the forward op o equals v, a result of op. */
static bool repeats(Chunk *c, const Value *v, const Op *op, const Op *o, int k)
{
    if (!type_equal(&o->out[k]->type, &v->type))
        return false;
    if (op_is_conversion(op->kind)) /* result i belongs to operand i */
        return original(c, op->arg[v->index]) == o->arg[k];
    if (o->nargs != op->nargs || k != v->index)
        return false;
    for (int i = 0; i < op->nargs; i++)
        if (original(c, op->arg[i]) != o->arg[i])
            return false;
    return true;
}

static Value *find_original(Chunk *c, Value *v)
{
    Op *op = v->def;
    if (!op || op->phase != PH_BACKWARD || op->body || op->nargs == 0 ||
        !(op->recomputed || op->kind == OP_all_gather))
        return v;
    for (Op *o = v->region->first; o != op; o = o->next) {
        if (o->kind != op->kind || o->phase != PH_FORWARD ||
            !same_attributes(o, op))
            continue;
        for (int k = 0; k < o->nouts; k++)
            if (repeats(c, v, op, o, k))
                return o->out[k];
    }
    return v;
}

/* The forward value that v recomputes, or v. Memoized, since the search at each
 * op of a chain visits the whole chain. */
static Value *original(Chunk *c, Value *v)
{
    if (!c->original[v->id])
        c->original[v->id] = find_original(c, v);
    return c->original[v->id];
}

static void share_logits(Chunk *c)
{
    for (Op *op = c->head->next; op; op = op->next)
        for (int i = 0; !op->body && i < op->nargs; i++)
            if (original(c, op->arg[i]) == c->head->out[0])
                op->arg[i] = c->head->out[0];
}

/* Lets the head's gradients read values of the forward pass instead of values
 * that the backward pass re-gathers or recomputes.
 *
 * before   %h.2 = all_gather{axes={tp}, …} %h : f32[8, 64] forward
 *          %z = einsum{spec="bk,vk->bv", …} %h.2, %w : f32[8, 512] forward
 *          …
 *          %h.3 = all_gather{axes={tp}, …} %h : f32[8, 64] backward recomputed
 *          %dw = einsum{spec="bv,bk->vk", …} %dz, %h.3 : f32[512, 64] backward
 * after    %h.2 = all_gather{axes={tp}, …} %h : f32[8, 64] forward
 *          %z = einsum{spec="bk,vk->bv", …} %h.2, %w : f32[8, 512] forward
 *          …
 *          %dw = einsum{spec="bv,bk->vk", …} %dz, %h.2 : f32[512, 64] backward
 *
 * Recomputation saves memory between the forward and the backward pass. A loop
 * that runs both chunk by chunk has nothing to save. Only operands of
 * contractions that depend on the logits change. */
static void share_forward_values(Chunk *c)
{
    bool *depends = NEW_ARRAY(c->t.p->arena, bool, c->t.p->nvalues);
    c->original = NEW_ARRAY(c->t.p->arena, Value *, c->t.p->nvalues);
    share_logits(c);
    loop_axis_mark_users(c->t.r, c->head->out[0], depends);
    for (Op *op = c->head->next; op; op = op->next)
        if (op_is_einsum(op->kind) && op_reads_any(op, depends))
            for (int i = 0; i < op->nargs; i++)
                op->arg[i] = original(c, op->arg[i]);
    ir_eliminate_dead(c->t.p);
}

/* ---- how many chunks ----------------------------------------------------- */

typedef struct Counts {
    int64_t rows, parts;
} Counts;

/* The divisors of n on both sides of `limit`, which is 2 to n: `from` is the
 * least that is at least `limit`, `below` the largest less than it. The search
 * takes sqrt(n) steps: n may be 2^40, and prime. */
typedef struct Divisors {
    int64_t from, below;
} Divisors;

static Divisors divisors_at(int64_t n, int64_t limit)
{
    Divisors d = {.from = n, .below = 1};
    for (int64_t i = 1; i <= n / i; i++) {
        int64_t pair[] = {i, n / i};
        for (int k = 0; n % i == 0 && k < 2; k++) {
            if (pair[k] >= limit && pair[k] < d.from)
                d.from = pair[k];
            if (pair[k] < limit && pair[k] > d.below)
                d.below = pair[k];
        }
    }
    return d;
}

static bool choose_counts(const Chunk *c, Counts *n)
{
    const Program *p = c->t.p;
    const Type *t = &c->head->out[0]->type;
    int64_t rows = type_local_dim(t, &p->mesh, 0), want = p->train.head_chunk;
    int64_t seq = t->ndim > 2 ? type_local_dim(t, &p->mesh, 1) : 1;
    *n = (Counts){1, 1};
    if (rows * seq <= want)
        return true;
    bool whole = seq <= want; /* sequences */
    int64_t all = whole ? rows * seq : seq;
    Divisors d = divisors_at(whole ? rows : seq, (all + want - 1) / want);
    *n = whole ? (Counts){d.from, 1} : (Counts){rows, d.from};
    int64_t larger = all / d.below; /* the next chunk size that divides evenly */
    int64_t tokens = rows * seq / (n->rows * n->parts);
    if (tokens * LEAST_PART > want)
        return true;
    diag_error(p->diag, p->train.loc,
               "head_chunk = %lld: a rank's %lld tokens (%lld x %lld) divide "
               "into equal chunks of at most %lld",
               (long long)want, (long long)(rows * seq), (long long)rows,
               (long long)seq, (long long)tokens);
    diag_note(p->diag, c->head->loc, "the logits are made here");
    diag_help(p->diag, "choose head_chunk = %lld, or sizes that have divisors",
              (long long)larger);
    return false;
}

/* ---- the loops ----------------------------------------------------------- */

/* Builds one loop over n chunks of dim; then c->t.r is the loop's body. */
static bool cut_dim(Chunk *c, int dim, int64_t n)
{
    Program *p = c->t.p;
    Mesh *m = &p->mesh;
    Chunk own = *c;
    if (n == 1)
        return true;
    m->name[m->n] = "chunk";
    m->size[m->n++] = n;
    m->nloop++;
    own.t = (LoopAxis){.p = p,
                       .r = c->t.r,
                       .axis = m->n - 1,
                       .n = n,
                       .path = c->head->path,
                       .loc = c->head->loc};
    own.dim = dim;
    bool fine = chunk_split(&own);
    if (fine)
        loop_axis_make_loop(&own.t);
    m->n--;
    m->nloop--;
    c->t.r = c->head->region;
    return fine;
}

void pass_chunk(Program *p, const TargetInfo *t)
{
    Chunk c = {.t = {.p = p}};
    Counts n;
    (void)t;
    if (p->train.head_chunk == 0)
        return;
    c.t.r = head_region(p);
    if (!find_head(&c)) {
        diag_error(p->diag, p->train.loc,
                   "head_chunk: the loss of '%s' does not depend on a Linear "
                   "or einsum", p->model);
        diag_help(p->diag, "omit head_chunk");
        return;
    }
    if (!choose_counts(&c, &n) || n.rows * n.parts == 1)
        return;
    share_forward_values(&c);
    if (!cut_dim(&c, 0, n.rows) || !cut_dim(&c, 1, n.parts))
        return;
    loop_axis_continue(p, p->step);
    ir_eliminate_dead(p);
}
