/* emit_statements.c: emits work[], the table of a step's statements in model.c:
 * name, source location, bytes, flops and results. The runtime reads it for
 * --trace, for messages and to check results (PARC_NANCHECK).
 * codegen/statements/statements.c lists the statements. */
#include "codegen/emit/emitter.h"
#include "ir/plan/pipeline.h"
#include "runtime/parc_rt.h"

#include <string.h>

_Static_assert((int)MAX_LOOP_DEPTH <= (int)PARC_MAX_LOOPS,
               "a row of the runtime's table has an entry for every loop");

/* ---- results ------------------------------------------------------------- */

/* The index of a loop among the statement's loops; -1: none. */
static int loop_index(const Statement *w, const Op *loop)
{
    for (int i = 0; i < w->nloops; i++)
        if (w->loop[i] == loop)
            return i;
    return -1;
}

/* Whether v is to be checked at run time: contiguous floats in device memory, at an
 * address that only the loops around the statement determine. What a stage receives
 * the sender has checked; unused rows of experts are undefined. */
static bool is_checked(const Emitter *e, const Statement *w, Value *v)
{
    const Address *at = value_address(v);
    bool known = dtype_is_float(v->type.dtype) && at->block >= 0 &&
                 !op_transfers(w->op) && !e->rows[v->id] &&
                 (!at->row || v->type.nstack == 0) &&
                 !e->memory->block[at->block].host;
    for (int i = 0; i < at->nstrides; i++) {
        known &= loop_index(w, at->loop[i]) >= 0;
        for (int k = 0; k < i; k++)
            known &= at->loop[k] != at->loop[i];
    }
    return known;
}

/* ", .stride = {0, 64}"; "" if all are 0. `numbers`: one for each loop that the
 * address of the value depends on. */
static void by_loop(Emitter *e, const Statement *w, const Address *at,
                    const char *name, const int64_t *numbers)
{
    int64_t of[MAX_LOOP_DEPTH] = {0}, any = 0;
    for (int i = 0; i < at->nstrides; i++) {
        of[loop_index(w, at->loop[i])] = numbers[i];
        any |= numbers[i];
    }
    if (!any)
        return;
    out(e->o, ", .%s = {", name);
    for (int i = 0; i < w->nloops; i++)
        out(e->o, "%s%lld", i ? ", " : "", (long long)of[i]);
    out(e->o, "}");
}

/* By stage: the bytes before the stage's first buffer, whose rows are numbered from 0. */
static void shifts(Emitter *e, const Address *at)
{
    out(e->o, ",\n          .shift = (const int64_t[]){");
    for (int s = 0; s < pipeline_stage_count(e->p); s++) {
        int64_t bytes = 0;
        for (int i = 0; i < at->nstrides; i++) {
            const Op *loop = at->loop[i];
            if (loop->staged)
                bytes += rotation_first(e->p, at->rotation, s) * at->stride[i];
            else if (loop->cut)
                bytes -= stage_row(e->p, loop->cut, s) * at->stride[i];
        }
        out(e->o, "%s%lld", s ? ", " : "", (long long)bytes);
    }
    out(e->o, "}");
}

/* By coordinate: the elements of the rows that its ranks have of a stack. */
static void parts(Emitter *e, const Value *v)
{
    const Program *p = e->p;
    int cut = type_cut(&v->type);
    int64_t row = type_local_elements(&v->type, &p->mesh) /
                  cut_most(&p->mesh, cut, pipeline_axis(p));
    out(e->o, ",\n          .part = (const int64_t[]){");
    for (int c = 0; c < pipeline_ranks(p); c++)
        out(e->o, "%s%lld", c ? ", " : "",
            (long long)(rank_rows(p, cut, c) * row));
    out(e->o, "}");
}

static void result(Emitter *e, const Statement *w, Value *v)
{
    Out *o = e->o;
    const Address *at = value_address(v);
    out(o, "\n         {.name = \"%s\",\n          .offset = AT_%s, .elements = %lld",
        c_string_body(e->p->arena, v->name), e->block_name[at->block],
        (long long)type_local_elements(&v->type, &e->p->mesh));
    if (v->type.dtype != DT_F32)
        out(o, ", .type = %s", c_parc_type(v->type.dtype));
    by_loop(e, w, at, "stride", at->stride);
    by_loop(e, w, at, "modulo", at->modulo);
    if (at->rotation)
        out(o, ", .buffers = %sbuffers_%d", emitter_own(e), at->rotation);
    if (at->rotation && rank_stages(e->p) > 1)
        shifts(e, at);
    if (!at->nstrides && type_cut(&v->type))
        parts(e, v);
    if (at->cut)
        out(o, ",\n          .cut = %s, .run = %lld", axes_expression(e, at->cut),
            (long long)at->run);
    out(o, "}");
}

static void results(Emitter *e, const Statement *w)
{
    int n = 0;
    for (int i = 0; i < w->op->nouts; i++) {
        if (!is_checked(e, w, w->op->out[i]))
            continue;
        out(e->o, n++ ? "," : ",\n     .result = (const ParcResult[]){");
        result(e, w, w->op->out[i]);
    }
    if (n)
        out(e->o, "},\n     .nresults = %d", n);
}

/* ---- rows ---------------------------------------------------------------- */

static void statement_row(Emitter *e, const Statement *w, int number)
{
    Out *o = e->o;
    Arena *a = e->p->arena;
    out(o, "    [%d] = {.id = \"%s\", .kind = \"%s\", .phase = \"%s\",\n",
        number, c_string_body(a, w->id), w->kind,
        e->p->purpose == FOR_LOSS      ? "evaluation"
        : e->p->purpose == FOR_OUTPUTS ? "outputs"
        : e->p->purpose == FOR_ROUNDS  ? "rounds"
                                       : phase_name(w->op->phase));
    out(o, "     .path = \"%s\", .source = \"%s\",\n",
        c_string_body(a, w->op->path),
        c_string_body(a, diag_where(e->p->diag, a, statement_loc(w->op))));
    if (*w->detail)
        out(o, "     .detail = \"%s\",\n", c_string_body(a, w->detail));
    out(o, "     .bytes = %lld, .flops = %s, .count = %lld",
        (long long)w->bytes, double_text(a, w->flops), (long long)w->count);
    if (w->nloops) {
        out(o, ",\n     .nloops = %d, .loop = {", w->nloops);
        for (int i = 0; i < w->nloops; i++)
            out(o, "%s{\"%s\", %lld}", i ? ", " : "",
                loop_kind(e->p, w->loop[i]),
                (long long)loop_rank_trips(e->p, w->loop[i]));
        out(o, "}");
    }
    results(e, w);
    out(o, "},\n");
}

void emit_statements(Emitter *e)
{
    out(e->o, "\n/* The statements, by the number in parc_mark: for --trace, "
              "messages, PARC_NANCHECK. */\n"
              "static const ParcWork work[] = {\n");
    for (Emitter *x = e; x; x = x->next)
        for (int i = 0; i < x->nstatements; i++)
            statement_row(x, &x->statement[i], x->first.work + i);
    if (!numbers_all(e->p).work)
        out_line(e->o, "    {.id = 0}");
    out_line(e->o, "};");
}
