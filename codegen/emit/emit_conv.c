/* emit_conv.c: emits the calls that compute convolutions, and the creation of their
 * descriptors, once for a run.
 *
 *   parc_conv(rt, conv[3], x, weight, y);
 */
#include "codegen/conv_call.h"
#include "codegen/emit/emitter.h"

void emit_conv(Emitter *e, const Op *op)
{
    emit_comment(e, op, "");
    out_code(e->o, "parc_conv(rt, conv[%d], %s, %s, %s);", e->number[op->id],
             value_variable(e, op->arg[0]), value_variable(e, op->arg[1]),
             value_variable(e, op->out[0]));
}

static const char *pair(Arena *a, const int64_t v[2])
{
    return arena_printf(a, "{%lld, %lld}", (long long)v[0], (long long)v[1]);
}

static void emit_row(Emitter *e, Out *o, const Op *op)
{
    static const char *const computes[] = {[PARC_CONV_Y] = "PARC_CONV_Y",
                                           [PARC_CONV_X] = "PARC_CONV_X",
                                           [PARC_CONV_WEIGHT] = "PARC_CONV_WEIGHT"};
    Arena *a = e->p->arena;
    ParcConvSpec s = conv_call(e->p, op);
    int block = op->workspace;
    out(o, "    {\"%s\", %s, %lld, %lld, %lld, %lld, ", c_string_body(a, op->out[0]->name),
        computes[s.computes], (long long)s.n, (long long)s.g, (long long)s.c, (long long)s.k);
    out(o, "%s, %s, %s,\n     %s, %s, %s, %s, %s", pair(a, s.image), pair(a, s.kernel),
        pair(a, s.result), pair(a, s.stride), pair(a, s.padding), pair(a, s.dilation),
        c_parc_type(op->arg[0]->type.dtype), c_parc_type(op->out[0]->type.dtype));
    if (block >= 0)
        out(o, ", AT_%s, %lld},\n", e->block_name[block],
            (long long)e->memory->block[block].bytes);
    else
        out(o, ", 0, 0},\n");
}

void emit_conv_table(Emitter *e)
{
    bool any = false;
    for (Emitter *x = e; x; x = x->next) {
        if (x->of)
            continue;
        for_ops(op, x->p->step) {
            if (!op_is_conv(op->kind))
                continue;
            if (!any)
                out(e->o, "\n/* The convolutions: name; what is computed; images, groups, "
                          "channels of x and of y in a\n * group; the last two dims of x, "
                          "weight and y; stride, padding, dilation; types; scratch\n * "
                          "memory. */\nstatic const ParcConvSpec conv_spec[] = {\n");
            any = true;
            emit_row(x, e->o, op);
        }
    }
    if (any)
        out_line(e->o, "};");
}

void emit_convs(Emitter *e)
{
    int first = e->first.convs, n = 0;
    for_ops(op, e->p->step)
        n += op_is_conv(op->kind);
    if (n == 0)
        return;
    out_line(e->o, "for (int i = %d; i < %d; i++)", first, first + n);
    out_line(e->o, "    conv[i] = parc_conv_new(rt, &conv_spec[i]);");
}
