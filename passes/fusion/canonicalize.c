/* canonicalize.c: inserts transposes around einsums that no matmul computes.
 *
 * Part of the pass `matmul`. An einsum is a batched matmul if the letters of
 * each role (batch, row, column, sum) can be merged into one by strides, or
 * looped over (codegen/contraction.h). Two summed letters that are not
 * adjacent in the same order in both operands cannot.
 *
 * before   %y = einsum{spec="bkgqs,bqkgd->bskd", type=f32} %p, %x : …
 * after    %x.2 = transpose{perm=[0, 2, 4, 3, 1]} %x : …
 *          %y = einsum{spec="bkgqs,bkdgq->bskd", type=f32} %p, %x.2 : …
 *
 * Of all choices of operands and result to transpose, the pass takes the one
 * that moves the fewest elements. There is always one.
 */
#include <string.h>

#include "passes/fusion/epilogue.h"

enum { TENSORS = 3, RESULT = 2 };
enum { BATCH, ROW, COLUMN, SUM, ROLES };

typedef struct Tensor {
    char letter[MAX_DIMS + 1];
    int64_t elements;
} Tensor;

/* An einsum's letters, as they are or after transposes. */
typedef struct Form {
    Tensor tensor[TENSORS]; /* both operands, the result */
    int64_t size[SPEC_LETTERS];  /* on one rank */
} Form;

static const Value *tensor_value(const Op *op, int i)
{
    return i == RESULT ? op->out[0] : op->arg[i];
}

static Form read_form(const Program *p, const Op *op)
{
    Form f = {0};
    for (int i = 0; i < TENSORS; i++) {
        int n;
        const Type *t = &tensor_value(op, i)->type;
        const char *letters = spec_letters(attr_spec(op), i, &n);
        memcpy(f.tensor[i].letter, letters, (size_t)n);
        f.tensor[i].elements = type_local_elements(t, &p->mesh);
        for (int d = 0; d < n; d++)
            f.size[letters[d] - 'a'] = type_local_dim(t, &p->mesh, d);
    }
    return f;
}

static int role_of(const Form *f, char letter)
{
    bool a = strchr(f->tensor[0].letter, letter) != NULL;
    bool b = strchr(f->tensor[1].letter, letter) != NULL;
    if (strchr(f->tensor[RESULT].letter, letter))
        return a && b ? BATCH : a ? ROW : COLUMN;
    return SUM;
}

/* Appends the letters of a role, in the order of a tensor that has them. */
static void append(const Form *f, char *to, int role, const char *order)
{
    size_t n = strlen(to);
    for (; *order; order++)
        if (role_of(f, *order) == role && !memchr(to, *order, n))
            to[n++] = *order;
}

/* The einsum with the tensors of the mask in the order batch, rows, columns,
 * sums; letters keep the order of a tensor that is not transposed. */
static Form transposed(const Form *f, int mask)
{
    const Tensor *a = &f->tensor[0], *b = &f->tensor[1], *c = &f->tensor[2];
    const char *outer = !(mask >> RESULT & 1) ? c->letter
                        : !(mask & 1)         ? a->letter
                                              : b->letter;
    const char *sums = !(mask & 1) ? a->letter : b->letter;
    const char *rows = mask >> RESULT & 1 ? a->letter : c->letter;
    const char *columns = mask >> RESULT & 1 ? b->letter : c->letter;
    const char *order[ROLES] = {outer, rows, columns, sums};
    Form to = *f;
    for (int i = 0; i < TENSORS; i++) {
        if (!(mask >> i & 1))
            continue;
        memset(to.tensor[i].letter, 0, sizeof to.tensor[i].letter);
        for (int role = BATCH; role < ROLES; role++) {
            bool has = role == BATCH || (i == 0 && role != COLUMN) ||
                       (i == 1 && role != ROW) || (i == RESULT && role != SUM);
            if (has)
                append(f, to.tensor[i].letter, role, order[role]);
        }
    }
    return to;
}

static const char *spec_of(Arena *a, const Form *f)
{
    return arena_printf(a, "%s,%s->%s", f->tensor[0].letter,
                        f->tensor[1].letter, f->tensor[RESULT].letter);
}

/* Asks the target by an op of the shapes that one rank has. */
static bool is_matmul(const Program *p, const TargetInfo *t, const Op *op,
                      const Form *f)
{
    Value value[TENSORS], *arg[] = {&value[0], &value[1]};
    Value *out[] = {&value[RESULT]};
    Op probe = *op;
    for (int i = 0; i < TENSORS; i++) {
        value[i] = *tensor_value(op, i);
        value[i].type.place = (Placement){0};
        for (int d = 0; d < value[i].type.ndim; d++)
            value[i].type.dim[d] = f->size[f->tensor[i].letter[d] - 'a'];
    }
    probe.arg = arg;
    probe.out = out;
    set_attr_spec(&probe, spec_of(p->arena, f));
    return t->is_matmul(p, &probe);
}

/* The tensors to transpose, as a mask. Transposing all makes any contraction a
 * matmul. */
static int choose_transposes(const Program *p, const TargetInfo *t,
                             const Op *op, const Form *f)
{
    int best = 0;
    int64_t least = 0;
    for (int mask = 1; mask < 1 << TENSORS; mask++) {
        Form to = transposed(f, mask);
        int64_t moved = 0;
        for (int i = 0; i < TENSORS; i++)
            moved += mask >> i & 1 ? f->tensor[i].elements : 0;
        if ((!best || moved < least) && is_matmul(p, t, op, &to)) {
            best = mask;
            least = moved;
        }
    }
    return best;
}

/* The dims of `to` as numbers of dims of `from`. */
static AttrList permutation(const char *from, const char *to)
{
    AttrList perm = {0};
    for (; *to; to++)
        perm.v[perm.n++] = strchr(from, *to) - from;
    return perm;
}

static void rewrite(Program *p, Op *op, const Form *from, const Form *to,
                    int mask)
{
    Build b = ir_build_at(p, op, op);
    Value *arg[2], *out = op->out[0];
    for (int i = 0; i < 2; i++) {
        arg[i] = op->arg[i];
        if (!(mask >> i & 1))
            continue;
        arg[i] = ir_transpose(&b, arg[i],
                              permutation(from->tensor[i].letter,
                                          to->tensor[i].letter));
        arg[i]->def->recomputed = op->recomputed;
    }
    Value *made = ir_einsum(&b, spec_of(p->arena, to), out->type.dtype, arg[0],
                            arg[1]);
    made->def->recomputed = op->recomputed;
    if (mask >> RESULT & 1) {
        made = ir_transpose(&b, made,
                            permutation(to->tensor[RESULT].letter,
                                        from->tensor[RESULT].letter));
        made->def->recomputed = op->recomputed;
    }
    memcpy(made->why, out->why, sizeof made->why);
    ir_swap_names(made, out);
    ir_replace_uses(op->region, out, made);
    ir_remove(op);
}

static void canonicalize(Program *p, const TargetInfo *t, Op *op)
{
    Form f = read_form(p, op);
    int mask = choose_transposes(p, t, op, &f);
    Form to = transposed(&f, mask);
    rewrite(p, op, &f, &to, mask);
}

static void visit(Program *p, const TargetInfo *t, Region *r)
{
    for (Op *op = r->first, *next; op; op = next) {
        next = op->next;
        if (op->body)
            visit(p, t, op->body);
        else if (op->kind == OP_einsum && !t->is_matmul(p, op))
            canonicalize(p, t, op);
    }
}

void canonicalize_einsums(Program *p, const TargetInfo *t)
{
    pass_einsum(p, t); /* for a dump that was edited after that pass */
    visit(p, t, p->step);
}
