/* infer_text.c: infers result types of ops whose rule is written in letters.
 *
 * The rule's letters are bound to the operands' sizes, which give the results'
 * dims: "vd, ... -> ...d" on f32[512, 64] and i32[8, 32] gives f32[8, 32, 64].
 * An einsum has its rule in its spec.
 */
#include <string.h>

#include "base/bug.h"
#include "ir/rules/infer.h"

static Type text_result(const RuleText *t, const RuleSizes *sizes, int i)
{
    Type r = {0};
    const RuleTensor *tensor = &t->tensor[i];
    for (int k = 0; k < tensor->n; k++) {
        const RuleDim *rd = &tensor->dim[k];
        for (int j = 0; rd->dots && j < sizes->ndots; j++)
            r.dim[r.ndim++] = sizes->dots[j];
        if (rd->dots)
            continue;
        int64_t size = 1;
        for (int j = 0; j < rd->n; j++)
            size *= sizes->letter[rd->letter[j] - 'a'];
        if (r.ndim < MAX_DIMS)
            r.dim[r.ndim] = size;
        r.ndim++; /* the caller's type_check reports too many dims */
    }
    return r;
}

/* The element types of the results: an operand's, f32, the attribute's, or i32. */
enum { FROM_F32 = -1, FROM_ATTR = -2, FROM_I32 = -3 };
static const struct TextTypes {
    OpKind kind;
    int from[4];
} text_types[] = {
    {OP_iota, {FROM_F32}},
    {OP_embedding, {0}},
    {OP_embedding_grad, {FROM_F32}},
    {OP_embedding_add, {FROM_F32}},
    {OP_onehot, {FROM_F32}},
    {OP_topk, {0, FROM_I32}},
    {OP_topk_grad, {0}},
    {OP_limit_choices, {FROM_I32, FROM_F32, FROM_F32}},
    {OP_group_rows, {FROM_I32, FROM_I32, FROM_I32, FROM_F32}},
    {OP_gather_rows, {0}},
    {OP_combine_rows, {0}},
    {OP_gather_pairs, {0}},
    {OP_scatter_pairs, {0}},
    {OP_grouped_matmul, {FROM_ATTR}},
    {OP_grouped_matmul_grad_rows, {FROM_ATTR}},
    {OP_grouped_matmul_grad_weight, {FROM_ATTR}},
    {OP_rotary, {0}},
    {OP_attention, {0, FROM_F32}},
    {OP_attention_grad, {1, 2, 3}},
    {OP_attention_bias_grad, {FROM_F32}},
    {OP_attention_sinks, {0, FROM_F32}},
    {OP_conv, {FROM_ATTR}},
    {OP_conv_grad_x, {FROM_ATTR}},
    {OP_conv_grad_weight, {FROM_ATTR}},
    {OP_einsum, {FROM_ATTR}},
    {OP_einsum_bias, {FROM_ATTR}},
    {OP_einsum_add, {FROM_ATTR}},
    {OP_einsum_bias_grad, {FROM_ATTR, FROM_ATTR}},
    {OP_einsum_gelu, {FROM_ATTR, FROM_ATTR}},
    {OP_einsum_gelu_grad, {FROM_ATTR}},
};

static const char *text_dtypes(Infer *in, const RuleText *text)
{
    const struct TextTypes *row = text_types;
    while (row->kind != in->kind)
        if (++row == text_types + sizeof text_types / sizeof *text_types)
            bug("op %s has no row for its result types",
                op_info(in->kind)->name);
    for (int i = 0; i < in->nouts; i++) {
        in->out[i].dtype = row->from[i] == FROM_F32   ? DT_F32
                           : row->from[i] == FROM_I32 ? DT_I32
                           : row->from[i] == FROM_ATTR
                               ? attr_type(in->op)
                               : arg_type(in, row->from[i])->dtype;
        if (row->from[i] != FROM_I32 && !dtype_is_float(in->out[i].dtype))
            return "the result's type is not a float type";
    }
    for (int i = 0; i < in->nargs; i++) {
        const Type *t = arg_type(in, i);
        bool integers = i < text->nargs && text->tensor[i].integers;
        if (i >= text->nargs) {
            if (t->dtype != DT_I64 || t->ndim != 1)
                return arena_printf(in->p->arena,
                                    "operand %d is not a base: i64[parts]", i);
        } else if (dtype_is_float(t->dtype) == integers) {
            return arena_printf(in->p->arena, "operand %d is %s, it needs %s",
                                i, dtype_name(t->dtype),
                                integers ? "integers" : "floats");
        } else if (text->tensor[i].subset && t->dtype != DT_F32) {
            return arena_printf(in->p->arena, "operand %d is %s, it needs f32", i,
                                dtype_name(t->dtype));
        }
    }
    return NULL;
}

static unsigned letter_set(const RuleTensor *t)
{
    unsigned all = 0;
    for (int k = 0; k < t->n; k++)
        all |= 1u << (t->dim[k].letter[0] - 'a');
    return all;
}

static bool same_letters(const RuleTensor *x, const RuleTensor *y)
{
    if (x->n != y->n)
        return false;
    for (int k = 0; k < x->n; k++)
        if (x->dim[k].letter[0] != y->dim[k].letter[0])
            return false;
    return true;
}

static bool is_vector_along(const RuleTensor *x, const RuleTensor *result)
{
    return x->n == 1 && result->n > 0 &&
           x->dim[0].letter[0] == result->dim[result->n - 1].letter[0];
}

/* Checks operand i of an epilogue: a vector along the result's last dim, or a
 * tensor with the result's letters. */
static const char *check_operand(const RuleText *t, int i, bool vector)
{
    const RuleTensor *x = &t->tensor[i], *result = &t->tensor[t->nargs];
    if (vector ? is_vector_along(x, result) : same_letters(x, result))
        return NULL;
    return vector ? "an operand is not a vector along the last dim"
                  : "an operand of the epilogue does not have the result's letters";
}

/* Checks the operands and results of an epilogue. */
static const char *check_beside(Infer *in, const RuleText *t)
{
    const RuleTensor *result = &t->tensor[t->nargs];
    bool vector = in->kind == OP_einsum_bias || in->kind == OP_einsum_gelu;
    const char *fault = NULL;
    if (t->nargs > 2)
        fault = check_operand(t, 2, vector);
    if (!fault && t->nargs > 3)
        fault = check_operand(t, 3, true);
    if (!fault && in->kind == OP_einsum_gelu &&
        !same_letters(result, result + 1))
        return "the results differ in letters";
    if (!fault && in->kind == OP_einsum_bias_grad &&
        (letter_set(result + 1) & ~letter_set(&t->tensor[0])))
        return "the second result is not a sum of the first operand";
    return fault;
}

static void operand_counts(OpKind kind, int *least, int *most)
{
    *least = *most = op_info(kind)->nargs;
    if (*least < 0) { /* one more operand is optional */
        *least = kind == OP_einsum_add ? 3 : 2;
        *most = *least + 1;
    }
}

/* Checks that each letter occurs once in a tensor, and result letters in an
 * operand. */
static const char *check_einsum(Infer *in, const RuleText *t)
{
    unsigned have = 0;
    static const char *const number[] = {"no", "one", "two", "three", "four"};
    int nouts = op_info(in->kind)->nouts, least = 2, most = 2;
    operand_counts(in->kind, &least, &most);
    if (in->nargs < least || in->nargs > most)
        return arena_printf(in->p->arena, "it has %d operands, it needs %s",
                            in->nargs, number[least]);
    if (t->nargs != in->nargs || t->nouts != nouts)
        return arena_printf(in->p->arena,
                            "the spec does not have %s operands and %s",
                            number[in->nargs],
                            nouts == 1 ? "one result" : "two results");
    for (int i = 0; i < t->nargs + t->nouts; i++) {
        unsigned seen = letter_set(&t->tensor[i]);
        if (__builtin_popcount(seen) != t->tensor[i].n)
            return arena_printf(in->p->arena,
                                "a letter occurs twice in one tensor of "
                                "'%s'",
                                attr_spec(in->op));
        if (i >= t->nargs && (seen & ~have))
            return arena_printf(in->p->arena,
                                "a letter of the result of '%s' "
                                "is in no operand",
                                attr_spec(in->op));
        have |= seen;
    }
    return check_beside(in, t);
}

/* Checks the attributes of attention. */
static const char *check_attention(const Infer *in, const RuleSizes *sizes)
{
    enum { SOME = 15, OF_SCORES = 3 << 2 }; /* sets of the dims b, kg, s, t */
    const Op *op = in->op;
    int64_t window = attr_window(op), bias = attr_bias(op);
    if (window < 0 || (window > 0 && window > sizes->letter['t' - 'a']))
        return "the window is not between 0 and the number of keys";
    if (window > 0 && sizes->letter['s' - 'a'] != sizes->letter['t' - 'a'])
        return "a window needs as many queries as keys";
    if (!(attr_softcap(op) >= 0))
        return "softcap is negative";
    if (bias & ~SOME)
        return "'bias' is not a set of four dims";
    if (in->kind == OP_attention_bias_grad && (bias & OF_SCORES) != OF_SCORES)
        return "the bias lacks the queries' or the keys' dim";
    return NULL;
}

/* The operand and results of topk: n of the v elements of a row, whose indices are i32. */
static const char *check_topk(const Infer *in, const RuleSizes *sizes)
{
    int64_t v = sizes->letter['v' - 'a'], k = sizes->letter['k' - 'a'];
    if (k > v)
        return arena_printf(in->p->arena, "the last dim has %lld elements, not %lld",
                            (long long)v, (long long)k);
    const int64_t most = 1 << 30; /* so that sums of two indices fit into i32 */
    return v <= most ? NULL : "the last dim has more than 2^30 elements";
}

/* The attributes of limit_choices; numbers of choices are i32, those of a sequence f32. */
static const char *check_limit(const Infer *in, const RuleSizes *sizes)
{
    const int64_t most = (int64_t)1 << 31, exact = (int64_t)1 << 24;
    int64_t n = attr_n(in->op), limit = attr_limit(in->op);
    if (n < 1 || n >= most || limit < 1 || limit >= most)
        return "n or limit is not from 1 to 2^31 - 1";
    if (sizes->letter['s' - 'a'] != sizes->letter['t' - 'a'])
        return "the operands differ in the length of sequences";
    return sizes->letter['s' - 'a'] * sizes->letter['k' - 'a'] <= exact
               ? NULL
               : arena_printf(in->p->arena, "a sequence has %lld choices, at most 2^24 are supported",
                              (long long)(sizes->letter['s' - 'a'] * sizes->letter['k' - 'a']));
}

/* The attributes of group_rows, before letters are bound to them; numbers of rows and pairs
 * are i32. */
static const char *check_shape(const Infer *in)
{
    static const char *const of[] = {"groups of the batch", "groups of sequences", "shards",
                                     "rows", "experts of a shard"};
    const AttrList *shape = attr_shape(in->op);
    const int64_t most = (int64_t)1 << 31;
    int64_t pairs = type_elements(arg_type(in, 0));
    if (attr_limit(in->op) < 0 || attr_limit(in->op) >= most)
        return "limit is not from 0 to 2^31 - 1";
    if (shape->n != 5)
        return "shape needs five numbers";
    if (pairs >= most)
        return arena_printf(in->p->arena, "there are %lld choices, at most 2^31 - 1 are supported; "
                            "reduce the batch or the length of sequences", (long long)pairs);
    for (int i = 0; i < 5; i++)
        if (shape->v[i] < 1 || shape->v[i] >= most)
            return arena_printf(in->p->arena, "the number of %s is %lld, not from 1 to 2^31 - 1",
                                of[i], (long long)shape->v[i]);
    int64_t rows = shape->v[2] * shape->v[3];
    return rows < most ? NULL
                       : arena_printf(in->p->arena, "there are %lld rows of all shards, at most "
                                      "2^31 - 1 are supported; reduce 'buffer' or the batch",
                                      (long long)rows);
}

/* Whether products have operands of one element type, as matmuls of the targets need. */
static const char *check_grouped(const Infer *in)
{
    if (arg_type(in, 0)->dtype != arg_type(in, 1)->dtype)
        return "the operands differ in their element types";
    return NULL;
}

/* The attributes of a convolution, before letters are bound to them. */
static const char *check_conv_attributes(const Infer *in)
{
    const AttrList *list[] = {attr_stride(in->op), attr_dilation(in->op), attr_dims(in->op),
                              attr_padding(in->op)};
    const int64_t most = (int64_t)1 << 30; /* so that sums of products fit into 64 bits */
    if (attr_groups(in->op) < 1)
        return "groups is less than 1";
    for (int i = 0; i < 4; i++) {
        int64_t least = i < 3;
        if (list[i]->n != 2)
            return "stride, padding, dilation and dims need two numbers each";
        for (int d = 0; d < 2; d++)
            if (list[i]->v[d] < least || list[i]->v[d] > most)
                return i < 3 ? "a stride, a dilation or a size in dims is less than 1, or huge"
                             : "padding is negative or huge";
    }
    if (in->args[0]->type.dtype != in->args[1]->type.dtype)
        return "the operands differ in their element types";
    return attr_type(in->op) == in->args[0]->type.dtype || attr_type(in->op) == DT_F32
               ? NULL
               : "the result has neither the operands' element type nor f32";
}

/* Whether the result's rows and columns are those of the image and the kernel. */
static const char *check_conv(const Infer *in, const RuleSizes *sizes)
{
    static const char image[] = "hw", kernel[] = "ij", result[] = "rs";
    for (int d = 0; d < 2; d++) {
        int64_t x = sizes->letter[image[d] - 'a'], w = sizes->letter[kernel[d] - 'a'];
        int64_t is = sizes->letter[result[d] - 'a'], span = attr_dilation(in->op)->v[d] * (w - 1);
        int64_t left = x + 2 * attr_padding(in->op)->v[d] - span - 1;
        if (left < 0)
            return arena_printf(in->p->arena, "the kernel spans %lld elements of dim %d, whose "
                                "padded size is %lld", (long long)span + 1, 2 + d,
                                (long long)(left + span + 1));
        if (is != left / attr_stride(in->op)->v[d] + 1)
            return arena_printf(in->p->arena, "dim %d of the convolution's result has %lld "
                                "elements, not %lld", 2 + d,
                                (long long)(left / attr_stride(in->op)->v[d] + 1), (long long)is);
    }
    return NULL;
}

const char *infer_by_text(Infer *in)
{
    RuleText text;
    RuleSizes sizes;
    bool einsum = op_is_einsum(in->kind);
    const char *rule =
        einsum ? attr_spec(in->op) : op_info(in->kind)->rule;
    const char *fault = einsum ? spec_text_parse(rule, &text)
                               : rule_text_parse(in->op, rule, &text);
    if (fault && einsum)
        return arena_printf(in->p->arena, "'%s' is not an einsum: %s", rule, fault);
    if (fault)
        bug("rule '%s': %s", rule, fault);
    if (einsum)
        fault = check_einsum(in, &text);
    if (!fault && op_has_attr(in->kind, ATTR_n) && attr_n(in->op) < 1)
        fault = "n is less than 1";
    if (!fault && op_is_conv(in->kind))
        fault = check_conv_attributes(in);
    if (!fault && in->kind == OP_group_rows)
        fault = check_shape(in);
    if (!fault && op_is_grouped_matmul(in->kind))
        fault = check_grouped(in);
    if (!fault)
        fault = rule_text_bind(in->p->arena, &text, in->args, in->op, &sizes);
    if (!fault && op_has_attr(in->kind, ATTR_global) &&
        attr_global(in->op)->n != text.nglobal)
        fault = "'global' must have one size for each of its factors";
    if (!fault && op_has_attr(in->kind, ATTR_rate) && (attr_rate(in->op) > 0) != (text.nglobal > 0))
        fault = "a rate above 0 and 'global' need each other";
    if (fault)
        return fault;
    in->nouts = text.nouts;
    for (int i = 0; i < text.nouts; i++)
        in->out[i] = text_result(&text, &sizes, text.nargs + i);
    if (op_is_attention(in->kind) && (fault = check_attention(in, &sizes)))
        return fault;
    if (in->kind == OP_rotary && sizes.letter['e' - 'a'] != 2)
        return "the last dim is not twice as long as the table's rows";
    if (!fault && (in->kind == OP_topk || in->kind == OP_topk_grad))
        fault = check_topk(in, &sizes);
    if (!fault && in->kind == OP_limit_choices)
        fault = check_limit(in, &sizes);
    if (!fault && op_is_conv(in->kind))
        fault = check_conv(in, &sizes);
    return fault ? fault : text_dtypes(in, &text);
}

/* ---- steps of a ring ------------------------------------------------------ */

static Type without_place(const Type *t)
{
    Type r = *t;
    memset(&r.place, 0, sizeof r.place);
    return r;
}

const char *infer_attention_step(Infer *in)
{
    bool grad = in->kind == OP_attention_grad_step, first = attr_first(in->op);
    int own = grad ? 6 : 3;
    if (in->nargs < own + 1 + (first ? 0 : grad ? 1 : 2))
        return "it has too few operands";
    const Type *q = arg_type(in, grad), *k = arg_type(in, grad + 1), *v = arg_type(in, grad + 2);
    if (q->ndim != 4 || k->ndim != 4 || v->ndim != 4 || k->dim[2] < 1)
        return "q, k and v need four dims";
    if (q->dim[0] != k->dim[0] || q->dim[1] != k->dim[1] || q->dim[2] % k->dim[2] ||
        q->dim[3] != k->dim[3] || v->dim[0] != k->dim[0] || v->dim[1] != k->dim[1] ||
        v->dim[2] != k->dim[2])
        return "q, k and v do not fit together";
    Type sums[3] = {without_place(q), without_place(grad ? k : v), without_place(v)};
    if (!grad) { /* o and lse */
        sums[0].dim[3] = v->dim[3];
        sums[1] = (Type){.ndim = 3};
        sums[1].dim[0] = q->dim[0];
        sums[1].dim[1] = q->dim[2];
        sums[1].dim[2] = q->dim[1];
    }
    in->nouts = grad ? 3 : 2;
    for (int i = 0; i < in->nouts; i++) {
        in->out[i] = sums[i];
        in->out[i].dtype = DT_F32;
    }
    for (int i = 0; !first && i < (grad ? 1 : 2); i++) {
        Type is = without_place(arg_type(in, own + i));
        if (!type_equal(&is, &in->out[i]))
            return arena_printf(in->p->arena, "operand %d is not what it continues", own + i);
    }
    return NULL;
}
