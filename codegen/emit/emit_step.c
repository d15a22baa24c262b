/* emit_step.c: emits the functions of train.c that compute a step.
 *
 *   init_constants   runs once: creates the descriptors of matmuls, computes
 *                    constants (the ops of the phase init)
 *   forward, backward, optimizer   the phases of a step
 *   step             calls the phases in order
 *   eval_init, eval_begin, eval_run   the functions of a forward program
 *                    (ParcEval)
 *
 * emit_region (emit_streams.c) emits the statements, waits, records and barriers
 * of a region in their order.
 */
#include "codegen/emit/emitter.h"

#include <string.h>

/* Emits a function's statements: those of a phase if it `runs`, and the
 * creation of descriptors. They are printed first to a separate buffer: the
 * arena pointer A is declared only if a statement uses it. */
static void function_body(Emitter *e, Phase phase, bool runs, bool matmuls)
{
    Out *o = e->o, body;
    out_init(&body, e->p->arena);
    e->o = &body;
    body.indent = 4;
    e->uses_arena = false;
    if (matmuls)
        emit_matmuls(e, e->p->step);
    if (matmuls && e->cuda)
        emit_attentions(e, e->p->step);
    if (runs)
        emit_region(e, e->p->step, &phase);
    body.indent = 0;
    e->o = o;
    o->indent = 4;
    if (e->uses_arena)
        out_line(o, "char *A = parc_arena(rt);");
    else if (!body.size)
        out_line(o, "(void)rt;");
    o->indent = 0;
    out_bytes(o, body.text, body.size);
}

static void function(Emitter *e, const char *name, Phase phase, bool runs,
                     bool matmuls)
{
    memset(e->declared, 0, e->p->nvalues * sizeof *e->declared);
    out_line(e->o, "");
    out_line(e->o, "static void %s(ParcRt *rt)", name);
    out_line(e->o, "{");
    function_body(e, phase, runs, matmuls);
    out_line(e->o, "}");
}

/* The functions of a forward program. */
static void forward_functions(Emitter *e)
{
    static const char *const meaning[PURPOSES] = {
        [FOR_LOSS] = "Evaluation: the loss of a batch, without dropout.",
        [FOR_OUTPUTS] = "The model's outputs for one microbatch."};
    Arena *a = e->p->arena;
    const char *word = emitter_word(e);
    out_line(e->o, "");
    out_line(e->o, "/* ---- %s ---- */", meaning[e->p->purpose]);
    function(e, arena_printf(a, "%s_init", word), PH_INIT, false, true);
    function(e, arena_printf(a, "%s_begin", word), PH_INIT, true, false);
    function(e, arena_printf(a, "%s_run", word), PH_FORWARD, true, false);
}

void emit_step_functions(Emitter *e)
{
    Out *o = e->o;
    int nmatmuls = numbers_all(e->p).matmuls;
    if (nmatmuls) {
        out_line(o, "");
        out_line(o, "/* Descriptors, made once; a call sets the addresses. */");
        out_line(o, "static ParcMatmul *matmul[%d];", nmatmuls);
    }
    function(e, "init_constants", PH_INIT, true, true);
    function(e, "forward", PH_FORWARD, true, false);
    function(e, "backward", PH_BACKWARD, true, false);
    function(e, "optimizer", PH_OPTIMIZER, true, false);
    out_line(o, "");
    out_line(o, "static void step(ParcRt *rt)");
    out_line(o, "{");
    out_line(o, "    forward(rt);");
    out_line(o, "    backward(rt);");
    if (!e->cuda)
        out_line(o, "    if (parc_goes_on(rt)) /* the loss is finite */");
    out_line(o, "    %soptimizer(rt);", e->cuda ? "" : "    ");
    out_line(o, "}");
    for (Emitter *f = e->next; f; f = f->next)
        forward_functions(f);
}
