/* rules_build.c: builds the sharding rule of an op, with sizes, and finds the
 * factors that axes may split.
 *
 * Rules in letters are read from their text; "=" and "@x" are built here from
 * the op's types. A dim of size 1 has no factors: it cannot be split, and a
 * broadcast from it is equal on all ranks.
 */
#include <string.h>

#include "base/bug.h"
#include "ir/rules/rule_text.h"

typedef struct Builder {
    const Program *p;
    const Op *op;
    Rule *r;
} Builder;

static int new_factor(Rule *r, int64_t size)
{
    if (r->nfactors == MAX_FACTORS)
        bug("a sharding rule needs more than %d factors", MAX_FACTORS);
    r->factor[r->nfactors] = (Factor){.size = size, .base = -1};
    return r->nfactors++;
}

static void add_factor(DimFactors *d, int f)
{
    if (d->n == (int)sizeof d->f)
        bug("a dim has more than %d factors", (int)sizeof d->f);
    d->f[d->n++] = (uint8_t)f;
}

/* Gives a dim a factor of its own, unless its size is 1. */
static void own_factor(Rule *r, int tensor, int dim, int64_t size, bool whole)
{
    if (size == 1)
        return;
    int f = new_factor(r, size);
    r->factor[f].whole = whole;
    add_factor(&r->dim[tensor][dim], f);
}

static const Type *tensor_type(const Builder *b, int tensor)
{
    return tensor < b->r->nargs ? &b->op->arg[tensor]->type
                                : &b->op->out[tensor - b->r->nargs]->type;
}

/* ---- "=" and the simple builders ----------------------------------------- */

static void build_elementwise(Builder *b)
{
    Rule *r = b->r;
    const Type *out = tensor_type(b, r->nargs);
    for (int d = 0; d < out->ndim; d++) {
        if (out->dim[d] == 1)
            continue;
        int f = new_factor(r, out->dim[d]);
        add_factor(&r->dim[r->nargs][d], f);
        for (int i = 0; i < r->nargs; i++) {
            const Type *t = tensor_type(b, i);
            int own = d - (out->ndim - t->ndim);
            if (own >= 0 && t->dim[own] != 1)
                add_factor(&r->dim[i][own], f);
        }
    }
}

static void build_full(Builder *b)
{
    const Type *out = tensor_type(b, 0);
    for (int d = 0; d < out->ndim; d++)
        own_factor(b->r, 0, d, out->dim[d], false);
}

/* Elements are numbered in the global tensor `of`: each of its dims larger than
 * 1 has a base, also if only one of many rows is left here. */
static void build_random(Builder *b)
{
    Rule *r = b->r;
    const Type *out = tensor_type(b, r->nargs);
    const AttrList *of = attr_global(b->op);
    for (int d = 0; d < out->ndim; d++) {
        if (of->v[d] == 1)
            continue;
        int f = new_factor(r, out->dim[d]);
        add_factor(&r->dim[r->nargs][d], f);
        r->factor[f].base = r->nbases++;
        r->factor[f].contiguous = d == out->ndim - 1;
    }
}

static bool has_number(const AttrList *l, int64_t x)
{
    for (int i = 0; i < l->n; i++)
        if (l->v[i] == x)
            return true;
    return false;
}

static void build_reduce(Builder *b)
{
    Rule *r = b->r;
    const Type *in = tensor_type(b, 0);
    const AttrList *dims = attr_dims(b->op);
    bool keep = attr_keep(b->op);
    int to = 0;
    for (int d = 0; d < in->ndim; d++) {
        bool gone = has_number(dims, d);
        if (in->dim[d] != 1) {
            int f = new_factor(r, in->dim[d]);
            r->factor[f].by_max = gone && b->op->kind == OP_max;
            add_factor(&r->dim[0][d], f);
            if (!gone)
                add_factor(&r->dim[1][to], f);
        }
        to += !gone || keep;
    }
}

static void build_reduce_all(Builder *b)
{
    const Type *in = tensor_type(b, 0);
    for (int d = 0; d < in->ndim; d++)
        own_factor(b->r, 0, d, in->dim[d], false);
}

static void build_transpose(Builder *b)
{
    Rule *r = b->r;
    const Type *in = tensor_type(b, 0);
    const AttrList *perm = attr_perm(b->op);
    for (int i = 0; i < perm->n; i++) {
        int d = (int)perm->v[i];
        own_factor(r, 0, d, in->dim[d], false);
        r->dim[1][i] = r->dim[0][d];
    }
}

/* slice, pad, concat: all dims but one are equal in every tensor. */
static void build_along(Builder *b)
{
    Rule *r = b->r;
    const Type *out = tensor_type(b, r->nargs);
    int along = attr_dim(b->op);
    for (int d = 0; d < out->ndim; d++) {
        if (d != along && out->dim[d] == 1)
            continue;
        /* This factor has different sizes; it is never split. */
        int f = new_factor(r, out->dim[d]);
        r->factor[f].whole = d == along;
        for (int i = 0; i <= r->nargs; i++)
            if (tensor_type(b, i)->dim[d] != 1)
                add_factor(&r->dim[i][d], f);
    }
}

/* ---- reshape ------------------------------------------------------------- */

/* One side of a reshape, visited from major to minor: `rest` of dim `d` has no
 * factors yet. */
typedef struct Side {
    int tensor, d;
    int64_t rest;
    const Type *type;
} Side;

/* Advances to the next dim with a rest; false at the end. */
static bool side_open(Side *s)
{
    while (s->rest == 1) {
        if (++s->d >= s->type->ndim)
            return false;
        s->rest = s->type->dim[s->d];
    }
    return true;
}

/* The remaining sizes have no common divisor: no axis can split both
 * sides in the same way. Both sides advance to the next point where they
 * agree. */
static void skip_to_agreement(Rule *r, Side *a, Side *b)
{
    int64_t na = 1, nb = 1;
    bool begun = false;
    while (!begun || na != nb) {
        Side *s = !begun || na < nb ? a : b;
        int64_t *n = s == a ? &na : &nb;
        begun = true;
        if (!side_open(s))
            bug("a reshape changes the number of elements");
        *n *= s->rest;
        own_factor(r, s->tensor, s->d, s->rest, true);
        s->rest = 1;
    }
}

/* Visits both sides from the major end. If the current dims have a common
 * divisor, splitting by it divides the elements at the same positions on both
 * sides, so that it is a factor of both: [64] -> [4, 16] makes 64 the product
 * of 4 and 16; [6, 4] -> [4, 6] shares only the factor 2. */
static void build_reshape(Builder *b)
{
    Rule *r = b->r;
    Side from = {0, -1, 1, tensor_type(b, 0)};
    Side to = {1, -1, 1, tensor_type(b, 1)};
    while (side_open(&from) && side_open(&to)) {
        int64_t g = common_divisor(from.rest, to.rest);
        DimFactors *df = &r->dim[0][from.d], *dt = &r->dim[1][to.d];
        /* The last factor of a dim is reserved for its rest. */
        int last = (int)sizeof df->f - 1;
        bool full = (df->n == last && g != from.rest) ||
                    (dt->n == last && g != to.rest);
        if (g == 1 || full) {
            skip_to_agreement(r, &from, &to);
            continue;
        }
        int f = new_factor(r, g);
        add_factor(df, f);
        add_factor(dt, f);
        from.rest /= g;
        to.rest /= g;
    }
}

/* ---- rings of attention ---------------------------------------------------- */

/* Makes factor `from` the same as `to`. */
static void join_factors(Rule *r, int from, int to)
{
    for (int i = 0; i < r->nargs + r->nouts; i++)
        for (int d = 0; d < MAX_DIMS; d++)
            for (int k = 0; k < r->dim[i][d].n; k++)
                if (r->dim[i][d].f[k] == from)
                    r->dim[i][d].f[k] = (uint8_t)to;
}

/* Where the plan lets ranks pass on keys, a split of the sequence splits queries and keys
 * alike. That takes a key for each query, and no bias, whose columns are keys. */
static void join_keys(const Program *p, const Op *op, Rule *r)
{
    enum { SEQUENCE = 1 };
    const Context *c = &p->plan.context;
    if (!op_is_attention(op->kind) || !c->axes || c->exchange != EXCHANGE_RING || attr_bias(op))
        return;
    int q = op->kind != OP_attention; /* keys follow */
    const DimFactors *s = &r->dim[q][SEQUENCE], *t = &r->dim[q + 1][SEQUENCE];
    if (s->n == 1 && t->n == 1 && r->factor[s->f[0]].size == r->factor[t->f[0]].size)
        join_factors(r, t->f[0], s->f[0]);
}

/* ---- rules in letters ---------------------------------------------------- */

static void build_text(Builder *b)
{
    Rule *r = b->r;
    RuleText text;
    RuleSizes sizes;
    bool einsum = op_is_einsum(b->op->kind);
    const char *rule =
        einsum ? attr_spec(b->op) : op_info(b->op->kind)->rule;
    const char *fault = einsum ? spec_text_parse(rule, &text)
                               : rule_text_parse(b->op, rule, &text);
    if (!fault)
        fault = rule_text_bind(b->p->arena, &text, b->op->arg, b->op, &sizes);
    if (fault)
        bug("%s '%s': %s", op_info(b->op->kind)->name, rule, fault);
    int letter[SPEC_LETTERS], dots[MAX_DIMS];
    for (int i = 0; i < sizes.ndots; i++)
        dots[i] = sizes.dots[i] == 1 ? -1 : new_factor(r, sizes.dots[i]);
    for (int i = 0; i < SPEC_LETTERS; i++) {
        letter[i] = sizes.letter[i] <= 1 ? -1 : new_factor(r, sizes.letter[i]);
        if (letter[i] < 0)
            continue;
        r->factor[letter[i]].whole = text.whole[i];
        r->factor[letter[i]].by_max = text.max[i];
        r->factor[letter[i]].separate = text.separate[i];
    }
    /* The attribute `global` has the sizes of the global tensor. A dim that is
     * larger than 1 there has a base, even if only 1 is left here. */
    const AttrList *global =
        op_has_attr(b->op->kind, ATTR_global) ? attr_global(b->op) : NULL;
    int first = text.nbases - text.nglobal; /* of the sizes in `global` */
    for (int k = 0; k < text.nbases; k++) {
        int f = letter[text.base[k] - 'a'];
        if (k >= first && global->v[k - first] == 1)
            continue;
        if (f >= 0)
            r->factor[f].base = r->nbases;
        bool pieces = op_is_attention(b->op->kind) || b->op->kind == OP_limit_choices;
        if (f >= 0) /* kernels of these take two pieces of the sequence */
            r->factor[f].contiguous = !pieces || k >= first;
        r->nbases++;
    }
    for (int i = 0; i < text.nargs + text.nouts; i++) {
        int d = 0;
        if (text.tensor[i].added)
            r->added = i;
        for (int k = 0; k < text.tensor[i].n; k++) {
            const RuleDim *rd = &text.tensor[i].dim[k];
            for (int j = 0; rd->dots && j < sizes.ndots; j++, d++)
                if (dots[j] >= 0)
                    add_factor(&r->dim[i][d], dots[j]);
            for (int j = 0; j < rd->n; j++)
                if (letter[rd->letter[j] - 'a'] >= 0)
                    add_factor(&r->dim[i][d], letter[rd->letter[j] - 'a']);
            d += !rd->dots;
        }
    }
    join_keys(b->p, b->op, r);
}

/* ---- einsums with an epilogue -------------------------------------------- */

static bool has_factor(const Rule *r, int tensor, int f)
{
    return rule_factor_dim(r, tensor, f) != -1;
}

/* An epilogue needs the full sum: summed factors are not split. */
static void build_once(Builder *b)
{
    build_text(b);
    for (int f = 0; f < b->r->nfactors; f++)
        b->r->factor[f].whole = !has_factor(b->r, b->r->nargs, f);
}

/* Every rank may add its partial sum of a tensor, but a vector only to a full
 * sum. */
static void build_add(Builder *b)
{
    if (b->r->nargs > 3)
        build_once(b);
    else
        build_text(b);
    b->r->added = 2;
}

/* The second result is a sum of operand 0 alone. */
static void build_sum(Builder *b)
{
    build_text(b);
    if (b->r->nargs > 2)
        b->r->added = 2;
    for (int f = 0; f < b->r->nfactors; f++)
        b->r->factor[f].separate = !has_factor(b->r, 0, f);
}

/* ---- entry points -------------------------------------------------------- */

void rule_of(const Program *p, const Op *op, Rule *r)
{
    static const struct {
        const char *rule;
        void (*build)(Builder *b);
    } table[] = {
        {"=", build_elementwise},          {"@full", build_full},
        {"@reduce", build_reduce},         {"@reduce_max", build_reduce},
        {"@reduce_all", build_reduce_all}, {"@reshape", build_reshape},
        {"@transpose", build_transpose},   {"@slice", build_along},
        {"@concat", build_along},          {"@einsum", build_text},
        {"@random", build_random},         {"@einsum_once", build_once},
        {"@einsum_add", build_add},        {"@einsum_sum", build_sum},
    };
    const OpInfo *info = op_info(op->kind);
    if (!info->rule)
        bug("op %s has no sharding rule", info->name);
    r->nfactors = r->nbases = 0;
    r->added = -1;
    int own = rule_operand_count(op);
    r->nargs = own < 0 ? op->nargs : own;
    r->nouts = op->nouts;
    if (r->nargs + r->nouts > MAX_RULE_TENSORS)
        bug("op %s has too many operands", info->name);
    for (int i = 0; i < r->nargs + r->nouts; i++)
        for (int d = 0; d < MAX_DIMS; d++)
            r->dim[i][d].n = 0;
    Builder b = {p, op, r};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(info->rule, table[i].rule) == 0) {
            table[i].build(&b);
            return;
        }
    build_text(&b);
}

int rule_split_factor(const Rule *r, int tensor, int dim, int64_t parts)
{
    const DimFactors *d = &r->dim[tensor][dim];
    for (int i = 0; i < d->n; i++) {
        int64_t size = r->factor[d->f[i]].size;
        if (parts < size)
            return d->f[i];
        if (parts % size)
            return -1;
        parts /= size;
    }
    return -1;
}

int rule_factor_dim(const Rule *r, int tensor, int f)
{
    for (int d = 0; d < MAX_DIMS; d++)
        for (int i = 0; i < r->dim[tensor][d].n; i++)
            if (r->dim[tensor][d].f[i] == f)
                return d;
    return -1;
}

bool rule_fits(const Rule *r, const int64_t *taken)
{
    for (int t = 0; t < r->nargs + r->nouts; t++)
        for (int d = 0; d < MAX_DIMS; d++) {
            bool whole = true;
            for (int i = 0; i < r->dim[t][d].n; i++) {
                int f = r->dim[t][d].f[i];
                if (taken[f] > 1 && !whole)
                    return false;
                whole = whole && taken[f] == r->factor[f].size;
            }
        }
    return true;
}
