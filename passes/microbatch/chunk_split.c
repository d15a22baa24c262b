/* chunk_split.c: decides which ops of a region run chunk by chunk (pass chunk),
 * and places their values on the loop axis of the chunks.
 *
 * First, forward from the logits: an op that reads a value that is split over
 * the chunks is split too, by its sharding rule. If it sums over the split dim,
 * its result is a total: a carry of the loop. The result of a further
 * contraction (the gradient of the head's input) is concatenated after the
 * loop. Second, backward: cheap ops that only the loop reads (one-hot labels, a
 * broadcast gradient) are split too. Operands that are not split are read in
 * slices.
 */
#include <string.h>

#include "passes/microbatch/chunk.h"

static AxisPlace *place_of(const Chunk *c, Value *v)
{
    return &v->type.place.ax[c->t.axis];
}

static bool is_split(const Chunk *c, Value *v)
{
    return place_of(c, v)->kind == AX_S;
}

/* Splits dim of v; the loop axis is minor to the axes that split it already. */
static void split_value(const Chunk *c, Value *v, int dim)
{
    uint8_t order = 0;
    for (int a = 0; a < c->t.p->mesh.n; a++)
        order += a != c->t.axis && v->type.place.ax[a].kind == AX_S &&
                 v->type.place.ax[a].dim == dim;
    *place_of(c, v) = (AxisPlace){AX_S, (uint8_t)dim, order};
}

static bool refuse(const Chunk *c, const Op *op, const char *what)
{
    Program *p = c->t.p;
    diag_error(p->diag, op->loc,
               "%s, but head_chunk = %lld makes the logits in chunks of tokens",
               what, (long long)p->train.head_chunk);
    diag_help(p->diag, "omit head_chunk");
    return false;
}

/* ---- how an op is split -------------------------------------------------- */

/* Whether a rank's part of factor f can be divided into chunks: f is the major
 * factor of its dim in each tensor, and its local size is divisible. */
static bool divides(const Chunk *c, const Op *op, const Rule *r, int f)
{
    const Mesh *m = &c->t.p->mesh;
    for (int i = 0; i < r->nargs + r->nouts; i++) {
        int d = rule_factor_dim(r, i, f);
        if (d < 0)
            continue;
        Type t = (i < r->nargs ? op->arg[i] : op->out[i - r->nargs])->type;
        t.place.ax[c->t.axis] = (AxisPlace){0};
        if (rule_split_factor(r, i, d, 1) != f ||
            r->factor[f].size % (type_pieces(&t, m, d) * c->t.n))
            return false;
    }
    return true;
}

/* The split of the op if tensor i is split along dim. */
static bool find_split(const Chunk *c, const Op *op, const Rule *r, int i,
                       int dim, Split *s)
{
    int f = rule_split_factor(r, i, dim, 1);
    *s = (Split){SPLIT_FACTOR, f, -1};
    return f >= 0 && r->factor[f].base < 0 && divides(c, op, r, f) &&
           rule_allows(op, r, *s, c->t.n, 1, NULL);
}

static int first_split(const Chunk *c, const Op *op)
{
    for (int i = 0; i < op->nargs; i++)
        if (is_split(c, op->arg[i]))
            return i;
    return -1;
}

static void take_into_loop(Chunk *c, const Op *op, Split s)
{
    c->t.inside[op->id] = true;
    c->split[op->id] = s;
}

/* ---- results of the loop ------------------------------------------------- */

/* The value of v over all chunks, for ops outside of the loop. */
static Value *gather_chunks(Chunk *c, Value *v)
{
    Program *p = c->t.p;
    bool sum = place_of(c, v)->kind == AX_P;
    OpKind kind = sum ? OP_all_reduce : OP_all_gather;
    Attr attr[MAX_ATTRS] = {{.i = (int64_t)1 << c->t.axis}, {.s = ""}};
    Op *def = v->def;
    Build b = ir_build_at(p, def, def->next);
    Type t = v->type;
    t.place.ax[c->t.axis] = (AxisPlace){0};
    Op *op = ir_op_typed(&b, kind, 1, &v, attr, 1, &t, &v->name);
    memcpy(op->out[0]->why, v->why, sizeof v->why);
    vec_push(p->arena, sum ? &c->t.total : &c->t.gather, op);
    return op->out[0];
}

/* Lets ops outside of the loop read the value over all chunks. */
static void read_gathered(Chunk *c, Value *v, bool all)
{
    Value *whole = NULL;
    Region *r = c->t.r;
    for (Op *op = v->def->next; op; op = op->next)
        for (int i = 0; i < op->nargs; i++) {
            if (op->arg[i] != v || (!all && loop_axis_has(&c->t, op)) ||
                loop_axis_converts(op, c->t.axis))
                continue;
            whole = whole ? whole : gather_chunks(c, v);
            op->arg[i] = whole;
        }
    for (int i = 0; i < r->nyields; i++)
        if (r->yield[i] == v) {
            whole = whole ? whole : gather_chunks(c, v);
            r->yield[i] = whole;
        }
}

/* ---- forward from the logits --------------------------------------------- */

static bool place_chunk_results(Chunk *c, Op *op, const Rule *r, Split s)
{
    for (int o = 0; o < op->nouts; o++) {
        AxisPlace at = rule_place(r, r->nargs + o, s);
        if (at.kind == AX_PMAX)
            return refuse(c, op, "this is a maximum over tokens");
        if (at.kind == AX_S)
            split_value(c, op->out[o], at.dim);
        else
            *place_of(c, op->out[o]) = at;
        if (at.kind == AX_P || op_is_einsum(op->kind))
            if (op != c->head)
                read_gathered(c, op->out[o], true);
    }
    return true;
}

/* A collective leaves its operand split over the chunks, unless it changes the
 * placement of the split dim. Returns whether the op is in the loop. */
static bool follow_conversion(Chunk *c, Op *op)
{
    int dim = place_of(c, op->arg[0])->dim;
    for (int a = 0; a < c->t.p->mesh.n; a++) {
        AxisPlace x = op->arg[0]->type.place.ax[a];
        AxisPlace y = op->out[0]->type.place.ax[a];
        bool here = (x.kind == AX_S && x.dim == dim) ||
                    (y.kind == AX_S && y.dim == dim);
        if ((attr_axes(op) >> a & 1) && (here || y.kind == AX_FLAT))
            return false;
    }
    take_into_loop(c, op, (Split){SPLIT_NONE, -1, -1});
    split_value(c, op->out[0], dim);
    return true;
}

static bool follow_split(Chunk *c, Op *op)
{
    int i = op == c->head ? c->operand : first_split(c, op);
    if (i < 0 || op->body || loop_axis_converts(op, c->t.axis))
        return true;
    if (op_is_conversion(op->kind)) {
        follow_conversion(c, op);
        return true;
    }
    Rule r;
    Split s;
    if (!op_info(op->kind)->rule)
        return true;
    rule_of(c->t.p, op, &r);
    bool fits = op == c->head
                    ? find_split(c, op, &r, r.nargs, c->dim, &s)
                    : find_split(c, op, &r, i, place_of(c, op->arg[i])->dim,
                                 &s);
    for (int k = 0; fits && k < r.nargs; k++) {
        AxisPlace want = rule_place(&r, k, s), *is = place_of(c, op->arg[k]);
        fits = is->kind == AX_R ||
               (is->kind == want.kind && is->dim == want.dim);
    }
    if (!fits)
        return true;
    take_into_loop(c, op, s);
    return place_chunk_results(c, op, &r, s);
}

/* Refuses a program in which an op outside of the loop needs all logits: they
 * would be stored after all. */
static bool check_logits(Chunk *c)
{
    int64_t logits = type_elements(&c->head->out[0]->type);
    for (int i = 0; i < c->t.gather.n; i++) {
        const Op *op = c->t.gather.at[i];
        if (op_is_einsum(op->arg[0]->def->kind) && op->arg[0]->def != c->head)
            continue;
        if (type_elements(&op->out[0]->type) >= logits)
            return refuse(c, op, "an op needs the logits of all tokens here");
    }
    return true;
}

static bool forward(Chunk *c)
{
    for (Op *op = c->head; op; op = op->next)
        if (!follow_split(c, op))
            return false;
    for (Op *op = c->head; op; op = op->next)
        for (int o = 0; loop_axis_has(&c->t, op) && o < op->nouts; o++)
            if (is_split(c, op->out[o]))
                read_gathered(c, op->out[o], false);
    return check_logits(c);
}

/* ---- backward: cheap producers ------------------------------------------- */

/* The placement that op, which is inside, requires of operand k on the loop
 * axis: Shard or Replicate. */
static AxisPlace wanted_place(const Chunk *c, const Op *op, int k)
{
    Rule r;
    if (op_is_conversion(op->kind))
        return *place_of(c, op->out[k]);
    rule_of(c->t.p, op, &r);
    if (k >= r.nargs)
        return (AxisPlace){0};
    return rule_place(&r, k, c->split[op->id]);
}

/* The dim along which all consumers read v in slices, all of them inside; -1:
 * there is no such dim. */
static int common_dim(const Chunk *c, const Value *v)
{
    int dim = -1;
    for (int i = 0; i < c->t.r->nyields; i++)
        if (c->t.r->yield[i] == v)
            return -1;
    for (const Op *op = v->def->next; op; op = op->next)
        for (int k = 0; k < op->nargs; k++) {
            if (op->arg[k] != v)
                continue;
            AxisPlace want =
                loop_axis_has(&c->t, op) ? wanted_place(c, op, k) : (AxisPlace){0};
            if (want.kind != AX_S || (dim >= 0 && want.dim != dim))
                return -1;
            dim = want.dim;
        }
    return dim;
}

static void split_producer(Chunk *c, Op *op)
{
    Rule r;
    Split s;
    if (op->id >= c->t.nops || loop_axis_has(&c->t, op) || op->body ||
        op->nouts != 1 || op->phase == PH_INIT || !op_info(op->kind)->cheap ||
        !op_info(op->kind)->rule)
        return;
    int dim = common_dim(c, op->out[0]);
    if (dim < 0)
        return;
    rule_of(c->t.p, op, &r);
    if (!find_split(c, op, &r, r.nargs, dim, &s))
        return;
    take_into_loop(c, op, s);
    split_value(c, op->out[0], dim);
}

/* ---- operands of the loop ------------------------------------------------ */

static bool one_after_another(const Chunk *c, const Value *v, int dim)
{
    for (int d = 0; d < dim; d++)
        if (type_local_dim(&v->type, &c->t.p->mesh, d) != 1)
            return false;
    return true;
}

/* v in slices along dim: one op serves all consumers. */
static Value *part_of(Chunk *c, Value *v, int dim)
{
    Program *p = c->t.p;
    Op *first = v->def ? v->def->next : v->region->first;
    Type t = v->type;
    for (Op *op = first; op; op = op->next)
        if (op->kind == OP_local_slice && loop_axis_converts(op, c->t.axis) &&
            op->arg[0] == v && place_of(c, op->out[0])->dim == dim)
            return op->out[0];
    Build b = {.p = p, .region = v->region, .before = first,
               .phase = PH_FORWARD, .loc = v->loc, .path = c->head->path};
    Attr attr[MAX_ATTRS] = {{.i = (int64_t)1 << c->t.axis}};
    Op *op = ir_op_typed(&b, OP_local_slice, 1, &v, attr, 1, &t, &v->name);
    split_value(c, op->out[0], dim);
    memcpy(op->out[0]->why, v->why, sizeof v->why);
    return op->out[0];
}

static bool slice_operands(Chunk *c, Op *op)
{
    for (int k = 0; k < op->nargs; k++) {
        AxisPlace want = wanted_place(c, op, k);
        if (want.kind != AX_S || is_split(c, op->arg[k]))
            continue;
        if (!one_after_another(c, op->arg[k], want.dim))
            return refuse(c, op, "tokens are not contiguous here");
        op->arg[k] = part_of(c, op->arg[k], want.dim);
    }
    return true;
}

/* Refuses a program in which an op inside depends on a result of the loop. */
static bool check_order(Chunk *c)
{
    bool *depends = NEW_ARRAY(c->t.p->arena, bool, c->t.p->nvalues);
    loop_axis_mark_results(&c->t, depends);
    for (const Op *op = c->t.r->first; op; op = op->next)
        if (loop_axis_has(&c->t, op) && op_reads_any(op, depends))
            return refuse(c, op, "the gradient of the logits depends on a "
                                 "total over all tokens here");
    return true;
}

bool chunk_split(Chunk *c)
{
    Program *p = c->t.p;
    c->t.nops = p->nops;
    c->t.inside = NEW_ARRAY(p->arena, bool, p->nops);
    c->split = NEW_ARRAY(p->arena, Split, p->nops);
    if (!forward(c))
        return false;
    for (Op *op = c->t.r->last; op; op = op->prev)
        split_producer(c, op);
    for (Op *op = c->t.r->first; op; op = op->next)
        if (loop_axis_has(&c->t, op) && !slice_operands(c, op))
            return false;
    return check_order(c);
}
