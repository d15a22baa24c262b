/* kernel_expression.c: writes single instructions of a kernel as C expressions
 * and statements, for all targets, and the offsets of elements in their
 * buffers:
 *
 *   const float t4 = t2 * r1;
 *   const float r6 = parc_rsqrt(r5);
 */
#include <math.h>
#include <string.h>

#include "base/bug.h"
#include "codegen/kernel/lower.h"

int kernel_count_axes(uint32_t axes)
{
    int n = 0;
    for (; axes; axes &= axes - 1)
        n++;
    return n;
}

int kernel_first_axis(uint32_t axes)
{
    int a = 0;
    while (!(axes >> a & 1))
        a++;
    return a;
}

int kernel_lanes(const Kernel *k, uint32_t axes)
{
    return k->space.pair >= 0 && (axes >> k->space.pair & 1) ? 2 : 1;
}

int kernel_inner_axis(const Kernel *k)
{
    for (int a = k->space.naxes; a-- > 0;)
        if ((k->space.column >> a & 1) && a != k->space.pair)
            return a;
    return -1;
}

const char *kernel_column_type(const Kernel *k, int64_t columns)
{
    int64_t stride = 1;
    int inner = kernel_inner_axis(k);
    for (int i = 0; i < k->nbuffers && inner >= 0; i++)
        if (k->buffer[i].stride[inner] > stride)
            stride = k->buffer[i].stride[inner];
    return columns < INT32_MAX / 4 / stride ? "int" : "int64_t";
}

/* ---- indices ------------------------------------------------------------- */

static const char *axis_name(const Lowering *c, int axis)
{
    return lower_text(c, "%c%d", c->k->space.column >> axis & 1 ? 'j' : 'i',
                      axis);
}

const char *kernel_index(const Lowering *c, uint32_t axes,
                         const int64_t *stride, int lane)
{
    const char *sum = "0";
    int inner = kernel_inner_axis(c->k);
    for (int axis = 0; axis < c->k->space.naxes; axis++) {
        if (!(axes >> axis & 1) || axis == c->merged)
            continue;
        const char *at = axis == c->k->space.pair ? lane ? "1" : "0"
                         : axis == inner          ? c->inner
                                                  : axis_name(c, axis);
        sum = lower_text(c, "%s + (%s) * %lld", sum, at,
                         (long long)stride[axis]);
    }
    return text_fold(c->arena, sum);
}

void kernel_split_index(Lowering *c, uint32_t axes, const char *from,
                        int64_t divisor)
{
    const Space *s = &c->k->space;
    int major = axes ? kernel_first_axis(axes) : 0;
    for (int axis = s->naxes; axis-- > 0;) {
        if (!(axes >> axis & 1))
            continue;
        const char *x = lower_index(c, "%s / %lld", from, (long long)divisor);
        if (axis != major)
            x = lower_index(c, "%s %% %lld", x, (long long)s->size[axis]);
        if (strcmp(x, axis_name(c, axis)) != 0)
            lower_let(c, "const int64_t", axis_name(c, axis), "%s", x);
        divisor *= s->size[axis];
    }
}

/* ---- values -------------------------------------------------------------- */

static const char *literal(const Lowering *c, double x, DType t)
{
    if (t == DT_I32 || t == DT_I64)
        return lower_text(c, x < 0 ? "(%lld)" : "%lld", (long long)x);
    return c_float(c->arena, x);
}

const char *kernel_value(const Lowering *c, int i, int lane)
{
    const KernelInstr *instr = &c->k->instr[i];
    if (instr->code == KERNEL_CONST)
        return literal(c, instr->number, instr->dtype);
    char kind = c->epilogue                             ? 'e'
                : kernel_is_element(c->k, instr->axes) ? 't'
                                                        : 'r';
    if (kernel_lanes(c->k, instr->axes) == 2)
        return lower_text(c, "%c%d_%d", kind, i, lane);
    return lower_text(c, "%c%d", kind, i);
}

const char *kernel_element(const Lowering *c, const KernelBuffer *b, int lane)
{
    return lower_text(c, "%s[%s]", b->name,
                      kernel_index(c, b->axes, b->stride, lane));
}

/* 16-bit elements are converted to f32. */
const char *kernel_loaded(const Lowering *c, const KernelBuffer *b,
                          const char *at)
{
    if (b->dtype != DT_BF16 && b->dtype != DT_F16)
        return at;
    return lower_text(c, "parc_from_%s(%s)", dtype_name(b->dtype),
                        at);
}

const char *kernel_stored(const Lowering *c, const KernelBuffer *b,
                          const char *at, const char *x)
{
    bool narrow = b->dtype == DT_BF16 || b->dtype == DT_F16;
    return lower_text(c,
                        narrow ? "%s = parc_to_%s(%s);" : "%s = %s%s;", at,
                        narrow ? dtype_name(b->dtype) : "", x);
}

/* The C expression of an op, in which $0 … $2 are the operands, $n the number
 * and $t the result's type. */
typedef struct Form {
    OpKind op;
    const char *real, *integer; /* NULL: as `real` */
} Form;

static const Form forms[] = {
    {OP_add, "$0 + $1", NULL},
    {OP_sub, "$0 - $1", NULL},
    {OP_mul, "$0 * $1", NULL},
    {OP_div, "$0 / $1", NULL},
    {OP_maximum, "parc_max($0, $1)", "$0 > $1 ? $0 : $1"},
    {OP_minimum, "parc_min($0, $1)", "$0 < $1 ? $0 : $1"},
    {OP_equal, "parc_select($0 == $1, 1.0f, 0.0f)", "$0 == $1"},
    {OP_less, "parc_select($0 < $1, 1.0f, 0.0f)", "$0 < $1"},
    {OP_select, "parc_select($0 != 0, $1, $2)", "$0 != 0 ? $1 : $2"},
    {OP_neg, "-$0", NULL},
    {OP_scale, "$0 * $n", "($t)((double)$0 * $n)"},
    {OP_offset, "$0 + $n", "($t)((double)$0 + $n)"},
    {OP_exp, "parc_exp($0)", NULL},
    {OP_log, "parc_log($0)", NULL},
    {OP_sqrt, "parc_sqrt($0)", NULL},
    {OP_rsqrt, "parc_rsqrt($0)", NULL},
    {OP_recip, "1.0f / $0", NULL},
    {OP_tanh, "parc_tanh($0)", NULL},
    {OP_sigmoid, "parc_sigmoid($0)", NULL},
    {OP_erf, "parc_erf($0)", NULL},
    {OP_gelu, "parc_gelu($0)", NULL},
    {OP_gelu_grad, "$0 * parc_gelu_slope($1)", NULL},
    {OP_sin, "parc_sin($0)", NULL},
    {OP_cos, "parc_cos($0)", NULL},
    {OP_abs, "parc_abs($0)", "$0 < 0 ? -$0 : $0"},
    {OP_floor, "parc_floor($0)", NULL},
    {OP_relu, "parc_max($0, 0.0f)", "$0 > 0 ? $0 : 0"},
    {OP_step, "parc_select($0 > 0.0f, 1.0f, 0.0f)", "$0 > 0"},
    {OP_cast, "($t)$0", NULL},
};

static const char *fill(const Lowering *c, const KernelInstr *instr,
                        const char *form, int lane)
{
    Out text;
    out_init(&text, c->arena);
    for (; *form; form++) {
        if (*form != '$') {
            out(&text, "%c", *form);
            continue;
        }
        form++;
        if (*form == 'n')
            out(&text, "%s", literal(c, instr->number, DT_F32));
        else if (*form == 't')
            out(&text, "%s", c_value_type(instr->dtype));
        else
            out(&text, "%s", kernel_value(c, instr->arg[*form - '0'], lane));
    }
    return text.text;
}

/* Common exponents have exact forms; small integers are products. */
static const char *power(const Lowering *c, const KernelInstr *instr, int lane)
{
    static const struct {
        double exponent;
        const char *form;
    } table[] = {
        {1, "$0"},
        {2, "$0 * $0"},
        {3, "$0 * $0 * $0"},
        {4, "($0 * $0) * ($0 * $0)"},
        {-1, "1.0f / $0"},
        {-2, "1.0f / ($0 * $0)"},
        {0.5, "parc_sqrt($0)"},
        {-0.5, "parc_rsqrt($0)"},
        {1.5, "$0 * parc_sqrt($0)"},
    };
    double n = instr->number;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].exponent == n)
            return fill(c, instr, table[i].form, lane);
    if (n != floor(n))
        return fill(c, instr, "parc_pow($0, $n)", lane);
    /* An integer exponent accepts negative x. */
    if (fmod(n, 2) == 0)
        return fill(c, instr, "parc_pow(parc_abs($0), $n)", lane);
    return fill(c, instr,
                "parc_select($0 < 0.0f, -parc_pow(-$0, $n), "
                "parc_pow($0, $n))",
                lane);
}

static const char *op_expression(const Lowering *c, const KernelInstr *instr,
                                 int lane)
{
    if (instr->op == OP_power)
        return power(c, instr, lane);
    bool real = true;
    for (int i = 0; i < instr->nargs; i++)
        real &= dtype_is_float(c->k->instr[instr->arg[i]].dtype) ||
                (instr->op == OP_select && i == 0);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (forms[i].op == instr->op)
            return fill(c, instr,
                        real || !forms[i].integer ? forms[i].real
                                                  : forms[i].integer,
                        lane);
    bug("no C for op '%s' in a kernel", op_info(instr->op)->name);
}

/* The expression of an index (KERNEL_INDEX), or of its comparison with arg 0
 * (KERNEL_ONEHOT). */
static const char *index_expression(const Lowering *c, const KernelInstr *instr,
                                    int lane)
{
    const char *at = kernel_index(c, instr->axes, instr->stride, lane);
    if (instr->code == KERNEL_INDEX) {
        if (!instr->nargs)
            return lower_text(c, "(float)(%s)", at);
        return lower_text(c, "(float)(%s + (%s))",
                          kernel_value(c, instr->arg[0], lane), at);
    }
    const char *id = kernel_value(c, instr->arg[0], lane);
    if (instr->nargs > 1)
        id = lower_text(c, "%s - (int32_t)%s", id,
                        kernel_value(c, instr->arg[1], lane));
    return lower_text(c, "parc_select(%s == %s, 1.0f, 0.0f)", id, at);
}

/* Adds the bases to an index. Only dims greater than 1 have a base; the stride
 * of a dim is the product of the inner dims. */
static const char *add_bases(const Lowering *c, const KernelInstr *instr,
                             const char *sum, int lane)
{
    const AttrList *dims = attr_global(instr->source);
    int64_t stride = 1;
    int arg = instr->nargs;
    for (int d = dims->n; d-- > 0 && arg > 1; stride *= dims->v[d]) {
        if (dims->v[d] == 1)
            continue;
        sum = lower_text(c, "%s * %lld + %s",
                         kernel_value(c, instr->arg[--arg], lane),
                         (long long)stride, sum);
    }
    return sum;
}

/* Casts j to int64_t: an offset in the global tensor may not fit an int. */
const char *kernel_random_index(const Lowering *c, const KernelInstr *instr,
                                uint32_t axes, int lane)
{
    int inner = kernel_inner_axis(c->k);
    uint32_t outer = inner < 0 ? axes : axes & ~(1u << inner);
    const char *sum = kernel_index(c, outer, instr->stride, lane);
    if (inner >= 0 && (axes >> inner & 1))
        sum = lower_index(c, "%s + (int64_t)(%s) * %lld", sum, c->inner,
                          (long long)instr->stride[inner]);
    return add_bases(c, instr, sum, lane);
}

const char *kernel_random_alone(const Lowering *c, int i, int lane)
{
    const KernelInstr *instr = &c->k->instr[i];
    return lower_text(c, "parc_random_at(%s, %lld, %s)",
                      kernel_value(c, instr->arg[0], lane),
                      (long long)attr_site(instr->source),
                      kernel_random_index(c, instr, instr->axes, lane));
}

/* The first of a pair becomes x0 cos - x1 sin, the second x1 cos + x0 sin. */
static const char *rotary_expression(const Lowering *c,
                                     const KernelInstr *instr, int lane)
{
    return lower_text(c, "%s * %s %c %s * %s",
                      kernel_value(c, instr->arg[0], lane),
                      kernel_value(c, instr->arg[1], lane),
                      (lane == 0) == (instr->number > 0) ? '-' : '+',
                      kernel_value(c, instr->arg[0], !lane),
                      kernel_value(c, instr->arg[2], lane));
}

static const char *expression(const Lowering *c, int i, int lane)
{
    const KernelInstr *instr = &c->k->instr[i];
    switch (instr->code) {
    case KERNEL_LOAD:
    case KERNEL_RANDOM:
        return c->target->value(c, i, lane);
    case KERNEL_INDEX:
    case KERNEL_ONEHOT:
        return index_expression(c, instr, lane);
    case KERNEL_ROTARY:
        return rotary_expression(c, instr, lane);
    case KERNEL_OP:
        return op_expression(c, instr, lane);
    case KERNEL_CONST:
    case KERNEL_REDUCE:
    case KERNEL_TOTAL:
    case KERNEL_ONLINE:
    case KERNEL_PICK:
        break;
    }
    bug("kernel instruction %d has no expression", (int)instr->code);
}

void lower_value(Lowering *c, int instr, int lane, const char *text)
{
    const KernelInstr *i = &c->k->instr[instr];
    lower_add(c, (Stmt){.code = STMT_VAR,
                        .type = lower_text(c, "const %s",
                                           c_value_type(i->dtype)),
                        .name = kernel_value(c, instr, lane),
                        .text = text,
                        .source = i->source});
}

void kernel_compute(Lowering *c, int i)
{
    const KernelInstr *instr = &c->k->instr[i];
    for (int lane = 0; lane < kernel_lanes(c->k, instr->axes); lane++)
        lower_value(c, i, lane, expression(c, i, lane));
}
