/* partition.c: turns placement changes into collectives.
 *
 * requires: STAGE_PLACED: every value has a placement
 * ensures:  STAGE_PARTITIONED: every operand is placed as its op requires,
 *           through the cheapest conversions; there are no boundaries; ops that
 *           need a global index along a split dim read a `base` value: the
 *           index at which the rank's part begins
 *
 * before   %x = input{input=0} : f32[8, 128] forward
 *          %y = einsum{spec="bk,fk->bf", …} %x, %w : f32[8, 64]+tp forward
 *          %z = boundary{path="w2", port=out0, …} %y : f32[8, 64] forward
 *          %u = exp %z : f32[8, 64] forward
 * after    %x = input{input=0} : f32[8, 128] forward
 *          %x.2 = local_slice{axes={tp}} %x : f32[8, 128/tp] forward
 *          %y = einsum{…} %x.2, %w : f32[8, 64]+tp forward
 *          %z = all_reduce{axes={tp}} %y : f32[8, 64] forward "w2"
 *            | style because "RowwiseParallel on w2: tp P -> R"
 *          %u = exp %z : f32[8, 64] forward
 *
 * Op.needs has the placements of operands that propagate chose. A value is
 * converted to a placement once in a region, before the first reader, from
 * whichever of its existing versions is cheapest to convert; a free operand of
 * a loop is converted before the loop.
 */
#include "passes/sharding/collective_origin.h"
#include "passes/pass.h"
#include "passes/sharding/propagate.h"
#include "passes/sharding/reshard.h"

#include "base/bug.h"

/* A version of a value: the tensor in another placement, or as an argument of a
 * loop's body. */
typedef struct Version Version;
struct Version {
    Value *value;
    Version *next;
};

/* The state of a value, by id. */
typedef struct Known {
    Value *now;       /* replaces it (a boundary's result); or NULL */
    Value *root;      /* the value that it is a version of; NULL: itself */
    Version *version; /* the versions of a root */
} Known;

typedef struct Partition {
    Program *p;
    Splits *splits;
    Origins origins;
    VEC(Known) known;
    VEC(Op *) boundary; /* to be removed */
    VEC(Value *) base;
} Partition;

static Known *known_of(Partition *c, const Value *v)
{
    Known none = {0};
    while ((uint32_t)c->known.n <= v->id)
        vec_push(c->p->arena, &c->known, none);
    return &c->known.at[v->id];
}

static Value *current(Partition *c, Value *v)
{
    Value *now = known_of(c, v)->now;
    return now ? now : v;
}

static void add_version(Partition *c, Value *root, Value *v)
{
    Version *x = NEW(c->p->arena, Version);
    known_of(c, v)->root = root;
    *x = (Version){v, known_of(c, root)->version};
    known_of(c, root)->version = x;
}

/* ---- conversions --------------------------------------------------------- */

/* Where a conversion is inserted, and for which op. */
typedef struct Site {
    Region *region;
    Op *before; /* NULL: at the region's end */
    Phase phase;
    Loc loc;
    const char *path;
    Why why;
} Site;

static Site site_at(const Op *op, Why why)
{
    return (Site){op->region, (Op *)op, op->phase, op->loc, op->path, why};
}

/* The version that is cheapest to convert to the placement. */
static Value *cheapest_version(Partition *c, Value *root, const Region *r,
                               const Placement *to)
{
    Value *best = root;
    double least = splits_convert(c->splits, &root->type, to);
    for (Version *x = known_of(c, root)->version; x; x = x->next) {
        double seconds = splits_convert(c->splits, &x->value->type, to);
        if (x->value->region == r && seconds < least) {
            best = x->value;
            least = seconds;
        }
    }
    return best;
}

static bool is_free_argument(const Value *v)
{
    const Op *loop = v->def ? NULL : v->region->owner;
    return loop && loop->kind == OP_loop &&
           loop_is_free(loop, v->index);
}

static Value *convert(Partition *c, Value *v, const Placement *to,
                      const Site *at)
{
    v = current(c, v);
    if (place_equal(&v->type.place, to))
        return v;
    Value *root = known_of(c, v)->root ? known_of(c, v)->root : v;
    v = cheapest_version(c, root, at->region, to);
    if (place_equal(&v->type.place, to))
        return v;
    Value *w;
    if (is_free_argument(root)) {
        Op *loop = root->region->owner;
        Site outside = site_at(loop, at->why);
        Value *x = convert(c, loop->arg[root->index], to, &outside);
        w = ir_loop_add_free(c->p, loop, x);
    } else {
        /* A conversion of a constant is a constant. */
        bool init = v->def && v->def->phase == PH_INIT;
        Build b = {.p = c->p, .region = at->region, .before = at->before,
                   .phase = init ? PH_INIT : at->phase, .loc = at->loc,
                   .path = at->path};
        w = reshard_emit(&b, v, to, at->why);
    }
    add_version(c, root, w);
    return w;
}

/* ---- base operands ------------------------------------------------------- */

static Value *top_level_base(Partition *c, int64_t size, const Type *t)
{
    Program *p = c->p;
    for (int i = 0; i < c->base.n; i++) {
        Value *v = c->base.at[i];
        if (attr_size(v->def) == size && type_equal(&v->type, t))
            return v;
    }
    Build b = {.p = p, .region = p->step, .before = p->step->first, .phase = PH_INIT,
               .loc = {0}, .path = ""};
    Attr attr[MAX_ATTRS] = {{.i = size}};
    const char *hint = "base";
    Op *op = ir_op_typed(&b, OP_base, 0, NULL, attr, 1, t, &hint);
    for (int a = 0; a < p->mesh.n; a++)
        op->out[0]->why[a].text = "where this rank's part begins";
    vec_push(p->arena, &c->base, op->out[0]);
    return op->out[0];
}

/* The parts whose beginnings the base of a dim of that size has: one on each rank. In
 * zigzag order a rank has two pieces, of which attention and limit_choices take both beginnings;
 * `random`, whose kernels read one for each index, every element's. */
static int64_t base_parts(const Op *op, const Mesh *m, const Type *t, int64_t size)
{
    int64_t parts = type_parts(t, m, 0);
    if (type_pieces(t, m, 0) == parts)
        return parts;
    return op->kind == OP_random ? size : 2 * parts;
}

/* The base operand for factor f, split as `split` says. */
static Value *base_of(Partition *c, const Op *op, const Rule *r, int f,
                      const Split split[MAX_AXES])
{
    Type t = {.dtype = DT_I64, .ndim = 1, .dim = {1}};
    const Mesh *m = &c->p->mesh;
    for (int i = r->nargs + r->nouts; i-- > 0;) {
        int d = rule_factor_dim(r, i, f);
        const Placement *place = i < r->nargs
                                     ? &op->needs[i]
                                     : &op->out[i - r->nargs]->type.place;
        for (int a = 0; d >= 0 && a < m->n; a++)
            if (split[a].kind == SPLIT_FACTOR && split[a].factor == f)
                t.place.ax[a] =
                    (AxisPlace){AX_S, 0, place->ax[a].order};
    }
    /* Where the factor is minor in its dim, its axes follow those of the major
     * factors, which split these completely: its own order starts at 0. */
    int least = MAX_AXES;
    for (int a = 0; a < m->n; a++)
        if (t.place.ax[a].kind == AX_S && t.place.ax[a].order < least)
            least = t.place.ax[a].order;
    for (int a = 0; a < m->n; a++)
        if (t.place.ax[a].kind == AX_S)
            t.place.ax[a].order = (uint8_t)(t.place.ax[a].order - least);
    t.dim[0] = base_parts(op, m, &t, r->factor[f].size);
    return ir_loop_inside(c->p, top_level_base(c, r->factor[f].size, &t),
                          op->region);
}

static void add_bases(Partition *c, Op *op, const Rule *r)
{
    bool needed = false;
    Split split[MAX_AXES] = {{0}};
    Placement result[MAX_RESULTS];
    for (int i = 0; i < op->nouts; i++)
        result[i] = op->out[i]->type.place;
    const char *fault = rule_derive_needs(c->p, op, r, result, split);
    if (fault)
        bug("%s %%%s: %s", op_info(op->kind)->name, op->out[0]->name, fault);
    for (int a = 0; a < c->p->mesh.n; a++)
        needed |= split[a].kind == SPLIT_FACTOR &&
                  r->factor[split[a].factor].base >= 0;
    if (!needed)
        return;
    const Type one = {.dtype = DT_I64, .ndim = 1, .dim = {1}};
    Value **arg = NEW_ARRAY(c->p->arena, Value *, r->nargs + r->nbases);
    for (int i = 0; i < r->nargs; i++)
        arg[i] = op->arg[i];
    for (int f = 0; f < r->nfactors; f++)
        if (r->factor[f].base >= 0)
            arg[r->nargs + r->factor[f].base] = base_of(c, op, r, f, split);
    for (int k = r->nargs; k < r->nargs + r->nbases; k++)
        if (!arg[k]) /* of a dim of size 1 */
            arg[k] = ir_loop_inside(c->p, top_level_base(c, 1, &one), op->region);
    op->arg = arg;
    op->nargs = r->nargs + r->nbases;
}

/* ---- the walk ------------------------------------------------------------ */

static void partition_boundary(Partition *c, Op *op)
{
    const Placement *to = &op->out[0]->type.place;
    Site at = site_at(op, origin_of_boundary(&c->origins, op,
                                             current(c, op->arg[0]), to));
    uint32_t made = c->p->nvalues;
    Value *v = convert(c, op->arg[0], to, &at);
    BoundaryName given_up = {op->out[0]->name, v->name, op->loc};
    if (v->id >= made && v->def)
        v->name = given_up.name;
    else
        vec_push(c->p->arena, &c->p->boundary_name, given_up);
    known_of(c, op->out[0])->now = v;
    vec_push(c->p->arena, &c->boundary, op);
}

static void convert_operand(Partition *c, Op *op, int i, const Placement *want)
{
    op->arg[i] = current(c, op->arg[i]);
    if (place_equal(&op->arg[i]->type.place, want))
        return;
    Site at =
        site_at(op, origin_of_operand(&c->origins, op, op->arg[i], want));
    op->arg[i] = convert(c, op->arg[i], want, &at);
}

static void partition_by_rule(Partition *c, Op *op)
{
    const Rule *r = splits_rule(c->splits, op);
    for (int i = 0; i < r->nargs; i++)
        convert_operand(c, op, i, &op->needs[i]);
    if (r->nbases)
        add_bases(c, op, r);
    op->needs = NULL;
}

static void partition_fixed(Partition *c, Op *op)
{
    for (int i = 0; i < op->nargs; i++) {
        op->arg[i] = current(c, op->arg[i]);
        Placement want = fixed_want(c->p, op, i);
        convert_operand(c, op, i, &want);
    }
}

static void partition_region(Partition *c, Region *r);

static void partition_loop(Partition *c, Op *loop)
{
    Region *body = loop->body;
    for (int i = 0; i < loop->nargs; i++) {
        loop->arg[i] = current(c, loop->arg[i]);
        if (place_equal(&loop->arg[i]->type.place, &body->arg[i]->type.place))
            continue;
        Site at = site_at(loop, origin_of_carry(&c->origins, loop->arg[i],
                                                body->arg[i]));
        loop->arg[i] =
            convert(c, loop->arg[i], &body->arg[i]->type.place, &at);
    }
    partition_region(c, body);
    for (int i = 0; i < body->nyields; i++) {
        Value *v = current(c, body->yield[i]);
        const Value *like = i < loop->ncarry ? body->arg[i] : loop->out[i];
        body->yield[i] = v;
        if (place_equal(&v->type.place, &like->type.place))
            continue;
        Site at = {body, NULL, loop->phase, v->loc, loop->path,
                   origin_of_carry(&c->origins, v, like)};
        body->yield[i] = convert(c, v, &like->type.place, &at);
    }
}

static void partition_region(Partition *c, Region *r)
{
    for (Op *op = r->first; op; op = op->next)
        if (op->kind == OP_loop)
            partition_loop(c, op);
        else if (op->kind == OP_boundary)
            partition_boundary(c, op);
        else if (op_is_fixed(op))
            partition_fixed(c, op);
        else
            partition_by_rule(c, op);
}

void pass_partition(Program *p, const TargetInfo *t)
{
    (void)t;
    Partition c = {.p = p, .splits = splits_new(p, NULL, NULL)};
    origins_find(&c.origins, p);
    partition_region(&c, p->step);
    for (int i = 0; i < c.boundary.n; i++)
        ir_remove(c.boundary.at[i]);
    p->stage = STAGE_PARTITIONED;
}
