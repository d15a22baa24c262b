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
    int64_t larger; /* the next larger chunk size that divides evenly */
    if (seq <= want) {
        int64_t least = (rows * seq + want - 1) / want;
        Divisors d = divisors_at(rows, least);
        n->rows = d.from;
        larger = rows / d.below * seq;
    } else {
        int64_t least = (seq + want - 1) / want;
        Divisors d = divisors_at(seq, least);
        n->rows = rows;
        n->parts = d.from;
        larger = seq / d.below;
    }
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
    chunk_share(&c);
    if (!cut_dim(&c, 0, n.rows) || !cut_dim(&c, 1, n.parts))
        return;
    loop_axis_continue(p, p->step);
    ir_eliminate_dead(p);
}
