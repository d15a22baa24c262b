/* kernel_expression.c: prints single instructions of a kernel as C statements,
 * for all targets, and the offsets of elements in their buffers:
 *
 *   const float t4 = t2 * r1;
 *   const float r6 = parc_rsqrt(r5);
 */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/bug.h"
#include "codegen/kernel/kernel_text.h"

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

static const char *literal(const KernelPrinter *c, double x, DType t)
{
    Arena *a = c->p->arena;
    if (t == DT_I32 || t == DT_I64)
        return arena_printf(a, x < 0 ? "(%lld)" : "%lld", (long long)x);
    return c_float(a, x);
}

const char *kernel_buffer(const KernelPrinter *c, const KernelBuffer *b)
{
    if (c->uses)
        c->uses->buffer[b - c->k->buffer] = true;
    return b->name;
}

/* The name of the index along the inner column axis. */
static const char *inner_name(const KernelPrinter *c)
{
    if (c->uses)
        c->uses->column = true;
    return c->inner;
}

const char *kernel_workspace(const KernelPrinter *c)
{
    if (c->uses)
        c->uses->workspace = true;
    return "workspace";
}

static const char *join_terms(Arena *a, const char *sum, const char *term)
{
    return *sum ? arena_printf(a, "%s + %s", sum, term) : term;
}

static const char *term(const KernelPrinter *c, int axis, int64_t stride,
                        int lane)
{
    const Space *s = &c->k->space;
    Arena *a = c->p->arena;
    if (axis == s->pair)
        return lane ? arena_printf(a, "%lld", (long long)stride) : "";
    bool column = s->column >> axis & 1;
    const char *name = column && axis == kernel_inner_axis(c->k)
                           ? inner_name(c)
                           : arena_printf(a, "%c%d", column ? 'j' : 'i', axis);
    if (stride == 1)
        return name;
    return arena_printf(a, "%s * %lld", name, (long long)stride);
}

static const char *offset_sum(const KernelPrinter *c, uint32_t axes,
                              const int64_t *stride, int lane)
{
    const char *sum = "";
    for (int axis = 0; axis < c->k->space.naxes; axis++) {
        if (!(axes >> axis & 1) || !stride[axis] || axis == c->merged)
            continue;
        const char *one = term(c, axis, stride[axis], lane);
        if (*one)
            sum = join_terms(c->p->arena, sum, one);
    }
    return sum;
}

const char *kernel_offset(const KernelPrinter *c, uint32_t axes,
                          const int64_t *stride, int lane)
{
    const char *sum = offset_sum(c, axes, stride, lane);
    return *sum ? arena_printf(c->p->arena, " + %s", sum) : "";
}

const char *kernel_index(const KernelPrinter *c, uint32_t axes,
                         const int64_t *stride, int lane)
{
    const char *sum = offset_sum(c, axes, stride, lane);
    return *sum ? sum : "0";
}

void kernel_statement(KernelPrinter *c, const Op *source, const char *fmt, ...)
{
    Arena *a = c->p->arena;
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(a, fmt, ap);
    va_end(ap);
    if (!source || c->bare) {
        out_code(c->o, "%s", text);
        return;
    }
    const char *where = kernel_where(c->p, source->loc);
    const char *comment =
        arena_printf(a, "/* %s%s%s */", where, *where ? " " : "",
                     op_info(source->kind)->name);
    size_t width = (size_t)c->o->indent + strlen(text) + 1 + strlen(comment);
    if (width <= OUT_WIDTH) {
        out_line(c->o, "%s %s", text, comment);
        return;
    }
    out_line(c->o, "%s", comment);
    out_code(c->o, "%s", text);
}

/* ---- values -------------------------------------------------------------- */

const char *kernel_value(const KernelPrinter *c, int i, char where, int lane)
{
    const KernelInstr *instr = &c->k->instr[i];
    Arena *a = c->p->arena;
    if (instr->code == KERNEL_CONST)
        return literal(c, instr->number, instr->dtype);
    if (where != 'e')
        where = kernel_is_element(c->k, instr->axes) ? 't' : 'r';
    if (kernel_lanes(c->k, instr->axes) == 2)
        return arena_printf(a, "%c%d_%d", where, i, lane);
    return arena_printf(a, "%c%d", where, i);
}

const char *kernel_element(const KernelPrinter *c, const KernelBuffer *b,
                           int lane)
{
    return arena_printf(c->p->arena, "%s[%s]", kernel_buffer(c, b),
                        kernel_index(c, b->axes, b->stride, lane));
}

/* 16-bit elements are converted to f32. */
const char *kernel_loaded(const KernelPrinter *c, const KernelBuffer *b,
                          const char *at)
{
    if (b->dtype != DT_BF16 && b->dtype != DT_F16)
        return at;
    return arena_printf(c->p->arena, "parc_from_%s(%s)", dtype_name(b->dtype),
                        at);
}

const char *kernel_stored(const KernelPrinter *c, const KernelBuffer *b,
                          const char *at, const char *x)
{
    bool narrow = b->dtype == DT_BF16 || b->dtype == DT_F16;
    return arena_printf(c->p->arena,
                        narrow ? "%s = parc_to_%s(%s);" : "%s = %s%s;", at,
                        narrow ? dtype_name(b->dtype) : "", x);
}

const char *kernel_add_to(const KernelPrinter *c, OpKind op, const char *sum,
                          const char *x)
{
    Arena *a = c->p->arena;
    return op == OP_max ? arena_printf(a, "%s = parc_max(%s, %s);", sum, sum, x)
                        : arena_printf(a, "%s += %s;", sum, x);
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
    {OP_sin, "parc_sin($0)", NULL},
    {OP_cos, "parc_cos($0)", NULL},
    {OP_abs, "parc_abs($0)", "$0 < 0 ? -$0 : $0"},
    {OP_relu, "parc_max($0, 0.0f)", "$0 > 0 ? $0 : 0"},
    {OP_step, "parc_select($0 > 0.0f, 1.0f, 0.0f)", "$0 > 0"},
    {OP_cast, "($t)$0", NULL},
};

static const char *fill(const KernelPrinter *c, const KernelInstr *instr,
                        const char *form, char where, int lane)
{
    Out text;
    out_init(&text, c->p->arena);
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
            out(&text, "%s",
                kernel_value(c, instr->arg[*form - '0'], where, lane));
    }
    return text.text;
}

/* Common exponents have exact forms; small integers are products. */
static const char *power(const KernelPrinter *c, const KernelInstr *instr,
                         char where, int lane)
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
            return fill(c, instr, table[i].form, where, lane);
    if (n != floor(n))
        return fill(c, instr, "parc_pow($0, $n)", where, lane);
    /* An integer exponent accepts negative x. */
    if (fmod(n, 2) == 0)
        return fill(c, instr, "parc_pow(parc_abs($0), $n)", where, lane);
    return fill(c, instr,
                "parc_select($0 < 0.0f, -parc_pow(-$0, $n), "
                "parc_pow($0, $n))",
                where, lane);
}

static const char *op_expression(const KernelPrinter *c,
                                 const KernelInstr *instr, char where, int lane)
{
    if (instr->op == OP_power)
        return power(c, instr, where, lane);
    bool real = true;
    for (int i = 0; i < instr->nargs; i++)
        real &= dtype_is_float(c->k->instr[instr->arg[i]].dtype) ||
                (instr->op == OP_select && i == 0);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (forms[i].op == instr->op)
            return fill(c, instr,
                        real || !forms[i].integer ? forms[i].real
                                                  : forms[i].integer,
                        where, lane);
    bug("no C for op '%s' in a kernel", op_info(instr->op)->name);
}

/* The expression of an index (KERNEL_INDEX), or of its comparison with arg 0
 * (KERNEL_ONEHOT). */
static const char *index_expression(const KernelPrinter *c,
                                    const KernelInstr *instr, char where,
                                    int lane)
{
    Arena *a = c->p->arena;
    const char *at = kernel_index(c, instr->axes, instr->stride, lane);
    if (instr->code == KERNEL_INDEX) {
        if (!instr->nargs)
            return arena_printf(a, "(float)(%s)", at);
        return arena_printf(a, "(float)(%s + (%s))",
                            kernel_value(c, instr->arg[0], where, lane), at);
    }
    const char *id = kernel_value(c, instr->arg[0], where, lane);
    if (instr->nargs > 1)
        id = arena_printf(a, "%s - (int32_t)%s", id,
                          kernel_value(c, instr->arg[1], where, lane));
    return arena_printf(a, "parc_select(%s == %s, 1.0f, 0.0f)", id, at);
}

/* Adds the bases to an index. Only dims greater than 1 have a base; the stride
 * of a dim is the product of the inner dims. */
static const char *add_bases(const KernelPrinter *c, const KernelInstr *instr,
                             const char *sum, char where, int lane)
{
    const AttrList *dims = attr_global(instr->source);
    int64_t stride = 1;
    int arg = instr->nargs;
    for (int d = dims->n; d-- > 0 && arg > 1; stride *= dims->v[d]) {
        if (dims->v[d] == 1)
            continue;
        sum = arena_printf(c->p->arena, "%s * %lld + %s",
                           kernel_value(c, instr->arg[--arg], where, lane),
                           (long long)stride, sum);
    }
    return sum;
}

/* Casts j to int64_t: an offset in the global tensor may not fit an int. */
const char *kernel_random_index(const KernelPrinter *c,
                                const KernelInstr *instr, uint32_t axes,
                                char where, int lane)
{
    int inner = kernel_inner_axis(c->k);
    Arena *a = c->p->arena;
    uint32_t outer = inner < 0 ? axes : axes & ~(1u << inner);
    const char *sum = kernel_index(c, outer, instr->stride, lane);
    if (inner >= 0 && (axes >> inner & 1))
        sum = arena_printf(a, "%s + (int64_t)%s * %lld", sum, inner_name(c),
                           (long long)instr->stride[inner]);
    return add_bases(c, instr, sum, where, lane);
}

const char *kernel_random_alone(const KernelPrinter *c,
                                const KernelInstr *instr, char where, int lane)
{
    return arena_printf(
        c->p->arena, "parc_random_at(%s, %lld, %s)",
        kernel_value(c, instr->arg[0], where, lane),
        (long long)attr_site(instr->source),
        kernel_random_index(c, instr, instr->axes, where, lane));
}

/* The first of a pair becomes x0 cos - x1 sin, the second x1 cos + x0 sin. */
static const char *rotary_expression(const KernelPrinter *c,
                                     const KernelInstr *instr, char where,
                                     int lane)
{
    const char *form = (lane == 0) == (instr->number > 0) ? "%s * %s - %s * %s"
                                                          : "%s * %s + %s * %s";
    return arena_printf(c->p->arena, form,
                        kernel_value(c, instr->arg[0], where, lane),
                        kernel_value(c, instr->arg[1], where, lane),
                        kernel_value(c, instr->arg[0], where, !lane),
                        kernel_value(c, instr->arg[2], where, lane));
}

static const char *expression(const KernelPrinter *c, const KernelInstr *instr,
                              char where, int lane)
{
    switch (instr->code) {
    case KERNEL_LOAD:
        return c->load(c, instr, where, lane);
    case KERNEL_INDEX:
    case KERNEL_ONEHOT:
        return index_expression(c, instr, where, lane);
    case KERNEL_RANDOM:
        return c->random(c, instr, where, lane);
    case KERNEL_ROTARY:
        return rotary_expression(c, instr, where, lane);
    case KERNEL_OP:
        return op_expression(c, instr, where, lane);
    case KERNEL_CONST:
    case KERNEL_REDUCE:
    case KERNEL_TOTAL:
    case KERNEL_ONLINE:
    case KERNEL_PICK:
        break;
    }
    bug("kernel instruction %d has no expression", (int)instr->code);
}

void kernel_compute(KernelPrinter *c, int i, char where)
{
    const KernelInstr *instr = &c->k->instr[i];
    for (int lane = 0; lane < kernel_lanes(c->k, instr->axes); lane++)
        kernel_statement(
            c, instr->source, "const %s %s = %s;", c_value_type(instr->dtype),
            kernel_value(c, i, where, lane), expression(c, instr, where, lane));
}
