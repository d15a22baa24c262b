/* emit_matmul.c: emits the calls that compute einsums, with their epilogues,
 * and the creation of their descriptors, once for a run.
 *
 *   parc_matmul(rt, matmul[3], x, wq, q);
 */
#include <stddef.h>
#include <string.h>

#include "codegen/contraction.h"
#include "codegen/emit/emitter.h"

/* ---- calls --------------------------------------------------------------- */

/* "{PARC_BF16, PARC_BF16, PARC_F32}" */
static const char *types_text(const Emitter *e, const Contraction *c)
{
    return arena_printf(e->p->arena, "{%s, %s, %s}", c_parc_type(c->type[0]),
                        c_parc_type(c->type[1]), c_parc_type(c->type[2]));
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

/* ---- the table of descriptors -------------------------------------------- */

static const char *triple(Arena *a, const int64_t v[3])
{
    return arena_printf(a, "{%lld, %lld, %lld}", (long long)v[0],
                        (long long)v[1], (long long)v[2]);
}

/* The cells of a row: name; batch, m, n and k; strides of a, b and c; at most five with
 * names: scratch and its bytes, types, epilogue, concurrent. */
enum { POSITIONS = 8, CELLS = POSITIONS + 5 };
typedef struct MatmulRow {
    const char *cell[CELLS];
    int n;
} MatmulRow;
typedef VEC(MatmulRow) MatmulRows;

static MatmulRow row_of(const Emitter *e, const Op *op)
{
    Arena *a = e->p->arena;
    Contraction c;
    contraction_of(e->p, op, &c);
    const ParcMatmulSpec *s = &c.spec;
    MatmulRow r = {.n = POSITIONS};
    r.cell[0] = arena_printf(a, "\"%s\"", c_string_body(a, op->out[0]->name));
    const int64_t size[] = {s->batch, s->m, s->n, s->k};
    for (int i = 0; i < 4; i++)
        r.cell[1 + i] = arena_printf(a, "%lld", (long long)size[i]);
    r.cell[5] = triple(a, s->sa);
    r.cell[6] = triple(a, s->sb);
    r.cell[7] = triple(a, s->sc);
    int block = op->workspace;
    if (block >= 0)
        r.cell[r.n++] = arena_printf(a, ".scratch = AT_%s", e->block_name[block]);
    if (block >= 0)
        r.cell[r.n++] =
            arena_printf(a, ".scratch_bytes = %lld",
                         (long long)e->memory->block[block].bytes);
    if (s->type.a || s->type.b || s->type.c)
        r.cell[r.n++] = arena_printf(a, ".type = %s", types_text(e, &c));
    if (s->epilogue)
        r.cell[r.n++] = arena_printf(a, ".epilogue = %s",
                                     epilogue_info(s->epilogue)->macro);
    if (op->concurrent)
        r.cell[r.n++] = ".concurrent = true";
    if (r.n == POSITIONS) /* a field with a name: the others may be left out */
        r.cell[r.n++] = ".scratch = 0";
    return r;
}

static void collect_rows(const Emitter *e, MatmulRows *rows)
{
    for_ops(op, e->p->step)
        if (op_is_einsum(op->kind)) {
            MatmulRow row = row_of(e, op);
            vec_push(e->p->arena, rows, row);
        }
}

/* Text in columns: names and strides at the left, numbers at the right. */
static void emit_row(Out *o, const MatmulRow *r, const int *width)
{
    out(o, "    {");
    for (int i = 0; i < r->n; i++) {
        bool last = i == r->n - 1, number = i > 0 && i < 5;
        const char *cell = last ? r->cell[i]
                                : arena_printf(o->arena, "%s,", r->cell[i]);
        out(o, "%*s", last ? 0 : (number ? 1 : -1) * (width[i] + 1), cell);
        out(o, "%s", last ? "},\n" : " ");
    }
}

void emit_matmul_table(Emitter *e)
{
    static const char head[] =
        "\n/* The matmuls c = a b: name; batch, m, n, k; strides of a batch, a "
        "row and a\n"
        " * column of a, of b and of c; scratch memory. */\n"
        "static const ParcMatmulSpec matmul_spec[] = {\n";
    MatmulRows rows = {0};
    int width[CELLS] = {0};
    for (const Emitter *x = e; x; x = x->next)
        if (!x->of)
            collect_rows(x, &rows);
    for (int i = 0; i < rows.n; i++)
        for (int k = 0; k < rows.at[i].n; k++)
            if (width[k] < (int)strlen(rows.at[i].cell[k]))
                width[k] = (int)strlen(rows.at[i].cell[k]);
    if (rows.n == 0)
        return;
    out(e->o, "%s", head);
    for (int i = 0; i < rows.n; i++)
        emit_row(e->o, &rows.at[i], width);
    out_line(e->o, "};");
}

void emit_matmuls(Emitter *e)
{
    int first = e->first.matmuls, n = 0;
    for_ops(op, e->p->step)
        n += op_is_einsum(op->kind);
    if (n == 0)
        return;
    out_line(e->o, "for (int i = %d; i < %d; i++)", first, first + n);
    out_line(e->o, "    matmul[i] = parc_matmul_new(rt, &matmul_spec[i]);");
}
