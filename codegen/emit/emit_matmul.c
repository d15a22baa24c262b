/* emit_matmul.c: emits the calls that compute einsums, with their epilogues,
 * and the creation of their descriptors, once for a run.
 *
 *   parc_matmul(rt, matmul[3], x, wq, q);
 */
#include <stddef.h>

#include "codegen/contraction.h"
#include "codegen/emit/emitter.h"

/* ---- calls --------------------------------------------------------------- */

/* "{PARC_BF16, PARC_BF16, PARC_F32}" */
static const char *types_text(const Emitter *e, const Contraction *c)
{
    return arena_printf(e->p->arena, "{%s, %s, %s}", c_parc_type(c->type[0]),
                        c_parc_type(c->type[1]), c_parc_type(c->type[2]));
}

/* Emits an einsum that does not fit the matmul library: a call of a loop nest
 * in the runtime. */
static void emit_plain_einsum(Emitter *e, const Op *op, const Contraction *c)
{
    Out *o = e->o;
    out_code(o, "parc_contract(rt, (ParcTypes)%s, %s, %s, %s, %d, "
                "(const int64_t[][4]){",
             types_text(e, c), value_variable(e, op->out[0]),
             value_variable(e, op->arg[0]), value_variable(e, op->arg[1]),
             c->nletters);
    for (int i = 0; i < c->nletters; i++) {
        const Letter *l = &c->letter[i];
        out_line(o, "    {%lld, %lld, %lld, %lld},", (long long)l->size,
                 (long long)l->c, (long long)l->a, (long long)l->b);
    }
    out_line(o, "});");
}

/* "y + i0 * 64 + i1 * 8": the address for one iteration of the loops around the
 * call. */
static const char *iteration_address(const Emitter *e, const Contraction *c,
                                     Value *v, size_t field)
{
    const char *text = value_variable(e, v);
    for (int i = 0; i < c->nletters; i++) {
        long long stride =
            *(const int64_t *)((const char *)&c->letter[i] + field);
        if (stride)
            text = arena_printf(e->p->arena, "%s + i%d * %lld", text, i,
                                stride);
    }
    return text;
}

/* ", vector, tensor" */
static const char *epilogue_operands(const Emitter *e, const Op *op,
                                     ParcEpilogue epilogue)
{
    const EpilogueInfo *info = epilogue_info(epilogue);
    Value *vector = epilogue_value(op, info->vector);
    Value *tensor = epilogue_value(op, info->tensor);
    return arena_printf(e->p->arena, ", %s, %s",
                        vector ? value_variable(e, vector) : "NULL",
                        tensor ? value_variable(e, tensor) : "NULL");
}

void emit_matmul(Emitter *e, const Op *op)
{
    Out *o = e->o;
    Contraction c;
    contraction_of(e->p, op, &c);
    emit_comment(e, op, attr_spec(op));
    if (c.plain) {
        emit_plain_einsum(e, op, &c);
        return;
    }
    for (int i = 0; i < c.nletters; i++) {
        out_line(o, "for (int64_t i%d = 0; i%d < %lld; i%d++)", i, i,
                 (long long)c.letter[i].size, i);
        o->indent += OUT_INDENT;
    }
    size_t first = offsetof(Letter, a), second = offsetof(Letter, b);
    bool plain = c.spec.epilogue == PARC_NO_EPILOGUE;
    out_code(o, "parc_matmul%s(rt, matmul[%d], %s, %s, %s%s);",
             plain ? "" : "_with", e->number[op->id],
             iteration_address(e, &c, op->arg[c.swapped ? 1 : 0],
                               c.swapped ? second : first),
             iteration_address(e, &c, op->arg[c.swapped ? 0 : 1],
                               c.swapped ? first : second),
             iteration_address(e, &c, op->out[0], offsetof(Letter, c)),
             plain ? "" : epilogue_operands(e, op, c.spec.epilogue));
    o->indent -= OUT_INDENT * c.nletters;
}

/* ---- setup, once for a run ----------------------------------------------- */

static const char *triple(Arena *a, const int64_t v[3])
{
    return arena_printf(a, "{%lld, %lld, %lld}", (long long)v[0],
                        (long long)v[1], (long long)v[2]);
}

void emit_matmuls(Emitter *e, const Region *r)
{
    Out *o = e->o;
    for (const Op *op = r->first; op; op = op->next) {
        if (op->kind == OP_loop)
            emit_matmuls(e, op->body);
        if (!op_is_einsum(op->kind))
            continue;
        Contraction c;
        contraction_of(e->p, op, &c);
        const ParcMatmulSpec *s = &c.spec;
        if (c.plain)
            continue;
        Arena *a = e->p->arena;
        const char *scratch = "";
        int block = op->workspace;
        if (block >= 0)
            scratch = arena_printf(
                a, ", .scratch = AT_%s, .scratch_bytes = %lld",
                e->block_name[block],
                (long long)e->memory->block[block].bytes);
        if (s->type.a || s->type.b || s->type.c)
            scratch = arena_printf(a, "%s, .type = %s", scratch,
                                   types_text(e, &c));
        if (s->epilogue)
            scratch = arena_printf(a, "%s, .epilogue = %s", scratch,
                                   epilogue_info(s->epilogue)->macro);
        out_code(o, "matmul[%d] = parc_matmul_new(rt, &(ParcMatmulSpec){"
                 ".name = \"%s\", .batch = %lld, .m = %lld, .n = %lld, "
                 ".k = %lld, .sa = %s, .sb = %s, .sc = %s%s});",
                 e->number[op->id], c_string_body(a, op->out[0]->name),
                 (long long)s->batch, (long long)s->m, (long long)s->n,
                 (long long)s->k, triple(a, s->sa), triple(a, s->sb),
                 triple(a, s->sc), scratch);
    }
}
