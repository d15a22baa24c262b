/* matmul.c: adapts einsums to the matmuls of the target's library.
 *
 * requires: STAGE_STORED
 * ensures:  the same stage. Einsums that no matmul computes get transposed
 *           operands or results (canonicalize.c). Where the library needs
 *           operands of one type, those of every einsum have one type: an
 *           operand that a cast has just widened is used before the cast, else
 *           both are cast to f32. A bias that is added to a full product is
 *           added by the matmul, so that the product without bias is neither
 *           stored nor saved for the backward pass.
 *
 * before   %y = einsum{spec="bk,fk->bf", type=bf16} %x, %w : bf16[8, 64] …
 *          %z = add %y, %bias : bf16[8, 64] forward
 * after    %z = einsum_bias{spec="bk,fk,f->bf", type=bf16} %x, %w, %bias
 *               : bf16[8, 64] forward
 *
 * A partial sum gets no bias here: the bias is added once, after the reduction.
 * The file also has the functions by which epilogue.c builds matmuls
 * (epilogue.h).
 */
#include <string.h>

#include "passes/fusion/epilogue.h"

/* ---- shared with epilogue.c ---------------------------------------------- */

const char *epilogue_result(const char *spec)
{
    return strstr(spec, "->") + 2;
}

const char *epilogue_spec(Arena *a, const char *spec, const char *third,
                          const char *second)
{
    const char *result = epilogue_result(spec);
    return arena_printf(a, "%.*s%s%s->%s%s%s", (int)(result - 2 - spec), spec,
                        third ? "," : "", third ? third : "", result,
                        second ? "," : "", second ? second : "");
}

static bool is_placed_so(const Program *p, const Op *op)
{
    Rule r;
    Placement place[MAX_RULE_TENSORS] = {0};
    for (int i = 0; i < op->nouts; i++)
        place[i] = op->out[i]->type.place;
    rule_of(p, op, &r);
    if (rule_derive(p, op, &r, place, NULL))
        return false;
    for (int i = 0; i < op->nouts; i++)
        if (!place_equal(&place[i], &op->out[i]->type.place))
            return false;
    return true;
}

Op *epilogue_make(Readers *r, Program *p, const TargetInfo *t,
                  const Op *einsum, OpKind kind, int nargs, Value *const *args,
                  const char *spec, const Type *types)
{
    Build b = ir_build_at(p, einsum, (Op *)einsum);
    Attr attr[MAX_ATTRS] = {{.s = spec}, {.i = types[0].dtype}};
    const char *hints[] = {einsum->out[0]->name, einsum->out[0]->name};
    Op *op = ir_op_typed(&b, kind, nargs, args, attr, op_info(kind)->nouts,
                         types, hints);
    op->recomputed = einsum->recomputed;
    if (t->multiplies(p, op) && is_placed_so(p, op)) {
        readers_enter(r, op);
        return op;
    }
    ir_remove(op);
    return NULL;
}

bool epilogue_precedes(const Readers *r, const Value *v, const Op *at)
{
    return !v->def || v->region != at->region ||
           readers_precedes(r, v->def, at);
}

typedef struct Pass {
    Program *p;
    const TargetInfo *t;
    Readers *readers;
} Pass;

/* ---- types --------------------------------------------------------------- */

static void set_arg(Op *op, Value *const arg[2])
{
    op->arg[0] = arg[0];
    op->arg[1] = arg[1];
}

/* The operand of a cast to f32; v itself if it is not such a cast. */
static Value *unwidened(Value *v)
{
    const Op *def = v->def;
    bool widens = def && def->kind == OP_cast && v->type.dtype == DT_F32 &&
                  dtype_is_float(def->arg[0]->type.dtype);
    return widens ? def->arg[0] : v;
}

static Value *cast(Pass *s, Build *b, Value *v, DType t)
{
    Value *made = ir_cast(b, v, t);
    if (made != v)
        readers_enter(s->readers, made->def);
    return made;
}

/* Computes the einsum in f32 and rounds the result to its previous type. */
static void widen(Pass *s, Op *op)
{
    Value *out = op->out[0];
    Build b = ir_build_at(s->p, op, op);
    for (int i = 0; i < 2; i++)
        op->arg[i] = cast(s, &b, op->arg[i], DT_F32);
    readers_enter(s->readers, op);
    DType was = out->type.dtype;
    if (was == DT_F32)
        return;
    set_attr_type(op, DT_F32);
    out->type.dtype = DT_F32;
    b.before = op->next;
    Value *narrow = ir_cast(&b, out, was);
    readers_replace(s->readers, out, narrow);
    readers_enter(s->readers, narrow->def);
}

static void fit_types(Pass *s, Op *op)
{
    Program *p = s->p;
    const TargetInfo *t = s->t;
    Value *was[2] = {op->arg[0], op->arg[1]};
    Value *narrow[2] = {unwidened(was[0]), unwidened(was[1])};
    if (t->multiplies(p, op))
        return;
    set_arg(op, narrow);
    if (t->multiplies(p, op)) {
        readers_enter(s->readers, op);
        return;
    }
    set_arg(op, was);
    widen(s, op);
}

/* ---- biases -------------------------------------------------------------- */

/* Whether z is a vector along the last dim of y, and only `add` reads y. */
static bool is_bias(const Pass *s, const Value *y, const Value *z,
                    const Op *add)
{
    return y->def && y->def->kind == OP_einsum && y->region == add->region &&
           readers_count(s->readers, y) == 1 &&
           type_equal(&y->type, &add->out[0]->type) &&
           z->type.ndim == 1 && z->type.nstack == 0 && y->type.ndim > 0 &&
           z->type.dim[0] == y->type.dim[y->type.ndim - 1] &&
           epilogue_precedes(s->readers, z, y->def);
}

static void take_in_bias(Pass *s, Op *add)
{
    Program *p = s->p;
    for (int i = 0; i < 2; i++) {
        Value *y = add->arg[i], *z = add->arg[1 - i];
        if (!is_bias(s, y, z, add))
            continue;
        Op *einsum = y->def;
        const char *spec = attr_spec(einsum);
        const char *last = spec + strlen(spec) - 1;
        Value *args[] = {einsum->arg[0], einsum->arg[1], z};
        Op *op = epilogue_make(s->readers, p, s->t, einsum, OP_einsum_bias, 3,
                               args, epilogue_spec(p->arena, spec, last, NULL),
                               &add->out[0]->type);
        if (!op)
            continue;
        op->loc = add->loc;
        memcpy(op->out[0]->why, add->out[0]->why, sizeof add->out[0]->why);
        ir_swap_names(op->out[0], add->out[0]);
        readers_replace(s->readers, add->out[0], op->out[0]);
        ir_remove(add);
        ir_remove(einsum);
        return;
    }
}

/* ---- the pass ------------------------------------------------------------ */

static void visit(Pass *s, Region *r)
{
    for (Op *op = r->first, *next; op; op = next) {
        next = op->next;
        if (op->body)
            visit(s, op->body);
        else if (op->kind == OP_einsum)
            fit_types(s, op);
        else if (op->kind == OP_add && !s->p->train.bare_matmuls)
            take_in_bias(s, op);
    }
}

void pass_matmul(Program *p, const TargetInfo *t)
{
    canonicalize_einsums(p, t);
    if (!t->has_epilogues)
        return;
    Pass s = {p, t, readers_new(p)};
    visit(&s, p->step);
}
