/* infer.c: infers the global result types of an op from its operands.
 *
 * Shapes follow from the sharding rules: "=" broadcasts, a rule in letters
 * binds them to sizes, "@x" has a function below. Element types follow the
 * rules in ir.h. The input is not trusted: the parser and the verifier pass
 * whatever a dump contains.
 */
#include <string.h>

#include "base/bug.h"
#include "ir/rules/infer.h"
#include "ir/rules/rules.h"

/* The type without its placement. */
static Type plain(const Type *t)
{
    Type r = *t;
    memset(&r.place, 0, sizeof r.place);
    return r;
}

static Type result_of(DType dtype, int ndim)
{
    Type r = {.dtype = dtype, .ndim = ndim};
    return r;
}

/* Reductions and losses of 16-bit values are f32. */
static DType reduced_dtype(DType t)
{
    return t == DT_BF16 || t == DT_F16 ? DT_F32 : t;
}

static const char *set_dims(Infer *in, Type *t, const AttrList *dims)
{
    if (dims->n < 0 || dims->n > MAX_DIMS)
        return "it has too many dims";
    t->ndim = dims->n;
    for (int i = 0; i < dims->n; i++)
        t->dim[i] = dims->v[i];
    return type_check(in->p->arena, t, &in->p->mesh);
}

/* ---- elementwise --------------------------------------------------------- */

/* Broadcasts the dims of operand i to the result, aligned at the right. */
static const char *broadcast_dims(Infer *in, int i, Type *r)
{
    const Type *t = arg_type(in, i);
    int shift = r->ndim - t->ndim;
    for (int d = 0; d < t->ndim; d++) {
        int64_t *size = &r->dim[d + shift];
        if (*size == 1)
            *size = t->dim[d];
        else if (t->dim[d] != 1 && t->dim[d] != *size)
            return arena_printf(
                in->p->arena, "cannot broadcast dim %d: %lld and %lld",
                d + shift, (long long)*size, (long long)t->dim[d]);
    }
    return NULL;
}

/* Operands of elementwise ops on stacks have equal stack dims, or are
 * scalars. */
static const char *join_stacks(Infer *in, Type *r)
{
    const Type *most = arg_type(in, 0);
    for (int i = 1; i < in->nargs; i++)
        if (arg_type(in, i)->nstack > most->nstack)
            most = arg_type(in, i);
    r->nstack = most->nstack;
    memcpy(r->stack, most->stack, sizeof r->stack);
    for (int i = 0; i < in->nargs; i++) {
        const Type *t = arg_type(in, i);
        bool same = t->nstack == r->nstack &&
                    memcmp(t->stack, r->stack,
                           sizeof *t->stack * (size_t)t->nstack) == 0;
        if (!same && (t->nstack || t->ndim))
            return arena_printf(in->p->arena,
                                "operand %d is not stacked as "
                                "the others are",
                                i);
    }
    return NULL;
}

static const char *elementwise_dtype(Infer *in, Type *r)
{
    bool any_float = false;
    DType narrow = DT_F32, integer = DT_I32;
    for (int i = in->kind == OP_select; i < in->nargs; i++) {
        const Type *t = arg_type(in, i);
        if (!dtype_is_float(t->dtype)) {
            if (t->dtype == DT_I64)
                integer = DT_I64;
            continue;
        }
        any_float = true;
        if (t->dtype == DT_F32 || !type_same_shape(t, r))
            continue;
        if (narrow != DT_F32 && narrow != t->dtype)
            return "bf16 and f16 do not mix";
        narrow = t->dtype;
    }
    r->dtype = any_float ? narrow : integer;
    if (in->nargs == 1)
        r->dtype = arg_type(in, 0)->dtype;
    if (in->kind == OP_cast)
        r->dtype = attr_to(in->op);
    if ((in->kind == OP_equal || in->kind == OP_less) && !any_float)
        r->dtype = DT_F32;
    return NULL;
}

/* Functions that are undefined for integers. */
static bool needs_float(OpKind kind)
{
    static const bool table[OP_COUNT] = {
        [OP_power] = true,     [OP_exp] = true,
        [OP_log] = true,       [OP_sqrt] = true,
        [OP_rsqrt] = true,     [OP_recip] = true,
        [OP_tanh] = true,      [OP_sigmoid] = true,
        [OP_erf] = true,       [OP_sin] = true,
        [OP_cos] = true,       [OP_sumsq] = true,
        [OP_gelu] = true,      [OP_gelu_grad] = true,
        [OP_rotary] = true,    [OP_scale] = true,
        [OP_offset] = true,    [OP_floor] = true,
    };
    return table[kind] || op_is_einsum(kind);
}

static const char *infer_broadcast(Infer *in)
{
    Type *r = in->out;
    const Type *t = arg_type(in, 0);
    const AttrList *dims = attr_dims(in->op);
    const char *fault = set_dims(in, r, dims);
    if (fault)
        return fault;
    if (t->nstack)
        return "a stack cannot be broadcast";
    if (t->ndim > r->ndim)
        return arena_printf(in->p->arena, "cannot broadcast %d dims to %d",
                            t->ndim, r->ndim);
    int shift = r->ndim - t->ndim;
    for (int d = 0; d < t->ndim; d++)
        if (t->dim[d] != 1 && t->dim[d] != r->dim[d + shift])
            return arena_printf(
                in->p->arena, "cannot broadcast dim %d: %lld to %lld",
                d + shift, (long long)t->dim[d], (long long)r->dim[d + shift]);
    r->dtype = t->dtype;
    return NULL;
}

static const char *infer_elementwise(Infer *in)
{
    Type *r = in->out;
    if (in->kind == OP_broadcast)
        return infer_broadcast(in);
    const char *fault = join_stacks(in, r);
    for (int i = 0; i < in->nargs; i++)
        if (arg_type(in, i)->ndim > r->ndim)
            r->ndim = arg_type(in, i)->ndim;
    for (int d = 0; d < r->ndim; d++)
        r->dim[d] = 1;
    for (int i = 0; i < in->nargs && !fault; i++)
        fault = broadcast_dims(in, i, r);
    return fault ? fault : elementwise_dtype(in, r);
}

/* ---- rules with a function ----------------------------------------------- */

static const char *infer_full(Infer *in)
{
    in->out->dtype = attr_type(in->op);
    if (in->kind == OP_zeros) {
        const AttrList *stack = attr_stack(in->op);
        if (stack->n > MAX_STACK)
            return "loops are nested too deep";
        in->out->nstack = stack->n;
        memcpy(in->out->stack, stack->v, sizeof *stack->v * (size_t)stack->n);
    }
    return set_dims(in, in->out, attr_dims(in->op));
}

static const char *check_key(Infer *in)
{
    const Type *t = arg_type(in, 0);
    return t->dtype == DT_I64 && t->ndim == 0 && t->nstack == 0
               ? NULL
               : "operand 0 is not a key: i64[]";
}

static const char *infer_random(Infer *in)
{
    const char *fault = check_key(in);
    in->out->dtype = DT_F32;
    if (!fault)
        fault = set_dims(in, in->out, attr_dims(in->op));
    if (!fault && attr_global(in->op)->n != in->out->ndim)
        fault = "it is part of a tensor with other dims";
    for (int i = 1; i < in->nargs && !fault; i++)
        if (arg_type(in, i)->dtype != DT_I64 || arg_type(in, i)->ndim != 1)
            fault = arena_printf(in->p->arena,
                                 "operand %d is not a base: i64[parts]", i);
    return fault;
}

static const char *infer_reduce(Infer *in)
{
    const Type *t = arg_type(in, 0);
    const AttrList *dims = attr_dims(in->op);
    bool keep = attr_keep(in->op), gone[MAX_DIMS] = {false};
    for (int i = 0; i < dims->n; i++) {
        int64_t d = dims->v[i];
        if (d < 0 || d >= t->ndim)
            return arena_printf(in->p->arena, "there is no dim %lld to reduce",
                                (long long)d);
        if (gone[d])
            return arena_printf(in->p->arena, "dim %lld is reduced twice",
                                (long long)d);
        gone[d] = true;
    }
    Type *r = in->out;
    r->dtype = reduced_dtype(t->dtype);
    for (int d = 0; d < t->ndim; d++)
        if (!gone[d])
            r->dim[r->ndim++] = t->dim[d];
        else if (keep)
            r->dim[r->ndim++] = 1;
    return NULL;
}

static const char *infer_reduce_all(Infer *in)
{
    *in->out = result_of(DT_F32, 0);
    return NULL;
}

static const char *infer_reshape(Infer *in)
{
    const Type *t = arg_type(in, 0);
    in->out->dtype = t->dtype;
    const char *fault = set_dims(in, in->out, attr_dims(in->op));
    if (!fault && type_elements(in->out) != type_elements(t))
        fault = arena_printf(in->p->arena, "%lld elements cannot become %lld",
                             (long long)type_elements(t),
                             (long long)type_elements(in->out));
    return fault;
}

static const char *infer_transpose(Infer *in)
{
    const Type *t = arg_type(in, 0);
    const AttrList *perm = attr_perm(in->op);
    unsigned seen = 0;
    if (perm->n != t->ndim)
        return arena_printf(in->p->arena, "%d dims are permuted by %d numbers",
                            t->ndim, perm->n);
    *in->out = result_of(t->dtype, t->ndim);
    for (int i = 0; i < perm->n; i++) {
        if (perm->v[i] < 0 || perm->v[i] >= t->ndim)
            return arena_printf(in->p->arena, "there is no dim %lld",
                                (long long)perm->v[i]);
        seen |= 1u << perm->v[i];
        in->out->dim[i] = t->dim[perm->v[i]];
    }
    return seen == (1u << t->ndim) - 1 ? NULL : "a dim occurs twice";
}

static const char *infer_slice(Infer *in)
{
    const Type *t = arg_type(in, 0);
    int64_t d = attr_dim(in->op);
    if (d < 0 || d >= t->ndim)
        return arena_printf(in->p->arena, "there is no dim %lld", (long long)d);
    *in->out = plain(t);
    int64_t size = t->dim[d];
    const int64_t limit = (int64_t)1 << MAX_DIM_LOG2;
    if (in->kind == OP_slice) {
        int64_t start = attr_start(in->op), n = attr_size(in->op);
        if (start < 0 || n < 1 || start > size || n > size - start)
            return arena_printf(in->p->arena,
                                "elements %lld to %lld are outside of dim "
                                "%lld of size %lld",
                                (long long)start,
                                (long long)(start > limit ? start : start + n),
                                (long long)d, (long long)size);
        in->out->dim[d] = n;
    } else {
        int64_t before = attr_before(in->op),
                after = attr_after(in->op);
        if (before < 0 || after < 0 || before > limit || after > limit)
            return "a pad is negative or huge";
        in->out->dim[d] = before + size + after;
    }
    return NULL;
}

static const char *infer_concat(Infer *in)
{
    int64_t d = attr_dim(in->op);
    if (in->nargs < 1 || in->nargs >= MAX_RULE_TENSORS)
        return arena_printf(in->p->arena, "%d operands cannot be joined",
                            in->nargs);
    Type *r = in->out;
    *r = plain(arg_type(in, 0));
    if (d < 0 || d >= r->ndim)
        return arena_printf(in->p->arena, "there is no dim %lld", (long long)d);
    for (int i = 1; i < in->nargs; i++) {
        Type t = plain(arg_type(in, i));
        if (t.dtype != r->dtype)
            return arena_printf(in->p->arena, "operand %d is %s, operand 0 %s",
                                i, dtype_name(t.dtype), dtype_name(r->dtype));
        int64_t joined = r->dim[d] + (t.ndim > d ? t.dim[d] : 0);
        r->dim[d] = t.ndim > d ? t.dim[d] : 0;
        if (!type_same_shape(&t, r))
            return arena_printf(in->p->arena,
                                "operand %d differs from operand 0 in more than "
                                "dim %lld",
                                i, (long long)d);
        r->dim[d] = joined;
    }
    return NULL;
}

/* ---- structure ----------------------------------------------------------- */

static const char *check_param(Infer *in, const Type *t)
{
    int64_t i = attr_param(in->op);
    if (i < 0 || i >= in->p->param.n)
        return arena_printf(in->p->arena, "there is no parameter number %lld",
                            (long long)i);
    const Param *param = &in->p->param.at[i];
    if (t && !type_same_shape(t, &param->type))
        return arena_printf(
            in->p->arena, "%s has a different shape: %s", param->name,
            type_text(in->p->arena, &param->type, &in->p->mesh));
    return NULL;
}

/* (param, grad, scalars …, states …) -> param, states … */
static const char *infer_update(Infer *in)
{
    const Train *train = &in->p->train;
    int least = train->loss_scale > 0 ? UPDATE_GOOD + 1
                : train_scales(train) ? UPDATE_FACTOR + 1
                                      : UPDATE_FACTOR;
    if (in->nargs < least)
        return arena_printf(in->p->arena, "it needs param, grad and %d scalars",
                            least - UPDATE_LR);
    const char *fault = check_param(in, arg_type(in, 0));
    if (fault)
        return fault;
    OptimizerKind kind =
        param_optimizer(train, &in->p->param.at[attr_param(in->op)]);
    if (kind == OPT_MUON && arg_type(in, 0)->ndim != 2)
        return "Muon updates matrices only";
    int first_state = in->nargs - update_states(train, kind, arg_type(in, 0)).n;
    if (first_state < least || first_state > UPDATE_GOOD + 1)
        return "the number of its states is not that of the optimizer";
    for (int i = 1; i < in->nargs && !fault; i++) {
        bool scalar = i >= UPDATE_LR && i < first_state;
        const Type *t = arg_type(in, i);
        Type like = *arg_type(in, 0);
        if (i >= first_state)
            like = update_state_type(train, kind, &like, i - first_state);
        if (scalar ? t->ndim || t->nstack : !type_same_shape(t, &like))
            fault = arena_printf(in->p->arena, "operand %d has another shape than %s", i,
                                 scalar            ? "a scalar"
                                 : i < first_state ? "the parameter"
                                                   : "the optimizer's state");
    }
    if (fault)
        return fault;
    in->out[0] = plain(arg_type(in, 0));
    in->nouts = 1;
    for (int i = first_state; i < in->nargs; i++)
        in->out[in->nouts++] = plain(arg_type(in, i));
    return NULL;
}

static const char *infer_group(Infer *in)
{
    if (in->nargs < 1)
        return "it needs an operand";
    for (int i = 0; i < in->nargs; i++)
        in->out[i] = plain(arg_type(in, i));
    in->nouts = in->nargs;
    return NULL;
}

/* The parameter's gradient, or its new value, which has no result. */
static const char *infer_like_param(Infer *in)
{
    if (in->nouts)
        *in->out = plain(arg_type(in, 0));
    return check_param(in, arg_type(in, 0));
}

static const char *infer_param(Infer *in)
{
    const char *fault = check_param(in, NULL);
    if (!fault)
        *in->out = plain(&in->p->param.at[attr_param(in->op)].type);
    return fault;
}

static const char *infer_input(Infer *in)
{
    int64_t i = attr_input(in->op);
    if (i < 0 || i >= in->p->input.n)
        return arena_printf(in->p->arena, "there is no input number %lld",
                            (long long)i);
    *in->out = plain(&in->p->input.at[i].type);
    return NULL;
}

static const char *infer_scalar(Infer *in)
{
    bool key = strcmp(attr_name(in->op), "random") == 0;
    *in->out = result_of(key ? DT_I64 : DT_F32, 0);
    return NULL;
}

static const char *infer_split_key(Infer *in)
{
    if (attr_n(in->op) < 1 || attr_start(in->op) < 0 ||
        attr_step(in->op) < 1)
        return "n or step is less than 1, or first less than 0";
    *in->out = result_of(DT_I64, 0);
    in->out->nstack = 1;
    in->out->stack[0] = attr_n(in->op);
    return check_key(in);
}

static const char *infer_fold(Infer *in)
{
    Type t = plain(arg_type(in, 0));
    int64_t d = attr_dim(in->op), n = attr_n(in->op);
    if (d < 0 || d >= t.ndim || n < 1 || t.dim[d] % n)
        return "the dim does not divide into that many parts";
    if (!type_push_stack(&t, n, 0))
        return "stacks are nested too deep";
    t.dim[d] /= n;
    *in->out = t;
    return NULL;
}

static const char *infer_unfold(Infer *in)
{
    Type t = plain(arg_type(in, 0));
    int64_t d = attr_dim(in->op);
    if (d < 0 || d >= t.ndim || t.nstack < 1)
        return "operand 0 is not a stack of parts of that dim";
    t.dim[d] *= t.stack[0];
    type_pop_stack(&t);
    *in->out = t;
    return NULL;
}

static const char *infer_output(Infer *in)
{
    const Type *t = arg_type(in, 0);
    const char *name = attr_name(in->op);
    for (int i = 0; name && i < in->p->output.n && t->nstack == 0; i++)
        if (!strcmp(in->p->output.at[i].name, name))
            return NULL;
    return t->ndim || t->nstack ? "an output of the step must be a scalar"
                                : NULL;
}

/* ---- entry points -------------------------------------------------------- */

typedef const char *InferRule(Infer *in);

static InferRule *by_rule(const char *rule)
{
    static const struct {
        const char *rule;
        InferRule *infer;
    } table[] = {
        {"=", infer_elementwise},          {"@full", infer_full},
        {"@reduce", infer_reduce},         {"@reduce_max", infer_reduce},
        {"@reduce_all", infer_reduce_all}, {"@reshape", infer_reshape},
        {"@transpose", infer_transpose},   {"@slice", infer_slice},
        {"@concat", infer_concat},         {"@einsum", infer_by_text},
        {"@random", infer_random},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(rule, table[i].rule) == 0)
            return table[i].infer;
    return infer_by_text;
}

static const char *infer_nothing(Infer *in)
{
    (void)in; /* no results */
    return NULL;
}

static InferRule *by_kind(OpKind kind)
{
    static InferRule *const table[OP_COUNT] = {
        [OP_param] = infer_param,      [OP_input] = infer_input,
        [OP_scalar] = infer_scalar,    [OP_finish_grad] = infer_like_param,
        [OP_fetch] = infer_group,      [OP_store] = infer_group,
        [OP_update] = infer_update,    [OP_assign] = infer_like_param,
        [OP_output] = infer_output,    [OP_all_gather] = infer_group,
        [OP_all_reduce] = infer_group, [OP_reduce_scatter] = infer_group,
        [OP_all_to_all] = infer_group, [OP_move] = infer_group,
        [OP_shift] = infer_group,
        [OP_attention_step] = infer_attention_step,
        [OP_attention_grad_step] = infer_attention_step,
        [OP_receive] = infer_group, [OP_send] = infer_group,
        [OP_local_slice] = infer_group,
        [OP_mask_to_partial] = infer_group, [OP_split_key] = infer_split_key,
        [OP_fold] = infer_fold,        [OP_unfold] = infer_unfold,
        [OP_start] = infer_nothing,    [OP_record] = infer_nothing,
        [OP_wait] = infer_nothing,     [OP_barrier] = infer_nothing,
        [OP_join] = infer_nothing,     [OP_post] = infer_nothing,
        [OP_await] = infer_nothing,
    };
    return table[kind];
}

static const char *check_operands(const Infer *in)
{
    const OpInfo *info = op_info(in->kind);
    int own = rule_operand_count(in->op), bases = rule_base_count(in->op);
    if (own >= 0 && in->nargs != own && in->nargs != own + bases)
        return arena_printf(in->p->arena, "it has %d operands, it needs %d",
                            in->nargs, own);
    /* Other ops work on layers: a loop slices the stack first. */
    bool stacks =
        !info->rule || op_is_elementwise(in->kind) || in->kind == OP_sumsq;
    for (int i = 0; i < in->nargs; i++) {
        const Type *t = arg_type(in, i);
        if (t->nstack && !stacks)
            return arena_printf(in->p->arena, "operand %d is a stack", i);
        if (needs_float(in->kind) && !dtype_is_float(t->dtype))
            return arena_printf(in->p->arena,
                                "operand %d is %s, it needs "
                                "floats",
                                i, dtype_name(t->dtype));
    }
    return NULL;
}

const char *ir_infer(Program *p, OpKind kind, int nargs, Value *const *args,
                     const Attr *attr, Type *out, int *nouts)
{
    const OpInfo *info = op_info(kind);
    Op op = {.kind = kind};
    for (int i = 0; info->attr[i]; i++)
        op.attr[i] = attr[i];
    Infer in = {p, kind, nargs, args, &op, out, info->nouts};
    InferRule *infer = info->rule ? by_rule(info->rule) : by_kind(kind);
    if (!infer)
        return "its result types are given, not inferred";
    const char *fault = check_operands(&in);
    for (int i = 0; i < info->nouts; i++)
        out[i] = (Type){0};
    if (!fault)
        fault = infer(&in);
    *nouts = in.nouts;
    for (int i = 0; i < in.nouts && !fault; i++)
        fault = type_check(p->arena, &out[i], &p->mesh);
    return fault;
}
